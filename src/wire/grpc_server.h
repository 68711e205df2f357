// The server's side of gRPC over HTTP/2, without input and output of its own: it turns bytes into
// calls, and statuses and messages into bytes. One session for each connection, used by one thread.
// The owner knows the methods, which of them stream, the meaning of messages, and deadlines.
//
//   calls    A unary call is reported with a number when it is complete and well-formed. Exactly
//            one `answer` or `drop` must follow, even if the call was cancelled. Its views are
//            valid until then.
//   streams  A call whose path the owner's `is_streamed` accepts is reported when its headers have
//            arrived (`begun`), and again whenever `next` may have a message, or the client's end
//            (`body`). `send` sends one message. Each side may continue when the other is silent or
//            has ended. `answer` or `drop` ends the call, unless `next` or `send` has ended it.
//            Messages that have arrived and were not taken, and that were not sent yet, count
//            against the bounds of bytes.
//   refused  Requests that are not gRPC calls are answered by the session, and not reported:
//              another method than POST             405, INTERNAL
//              another content-type                 415, INVALID_ARGUMENT
//              grpc-timeout ill-formed              400, INTERNAL
//              an encoding but gzip and identity    UNIMPLEMENTED, with grpc-accept-encoding
//              no message, two, or a part of one    INTERNAL
//              compressed without an encoding,
//              or not by it                         INTERNAL
//              a message above 4 MiB, or past a
//              bound of bytes                       RESOURCE_EXHAUSTED
//              a packed one that unpacks to more
//              than grpc_unpacked_bytes_max, or
//              than what is free for it             RESOURCE_EXHAUSTED
//   gzip     The answer to a call with compressed messages is compressed as well. To unpack is work
//            that a client may cause with few bytes: past grpc_unpacked_at_once the rest of the
//            calls waits for the next `receive`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/time.h"
#include "wire/grpc.h"
#include "wire/gzip.h"
#include "wire/http2_session.h"

namespace sluice::wire {

// The most bytes that a message of `packed` bytes unpacks to. No more are unpacked, so that the
// work is in proportion to what the client has sent.
constexpr size_t grpc_unpacked_bytes_max(size_t packed) {
  constexpr size_t always = size_t{64} << 10, per_byte = 32;
  return std::min(std::max(always, packed * per_byte), grpc_message_bytes_max);
}
// So many bytes, and the message that passes it, are unpacked by one `receive`.
inline constexpr size_t grpc_unpacked_at_once = size_t{32} << 10;

// State that the sessions of one worker share. One thread; outlives the sessions.
struct GrpcWorker {
  explicit GrpcWorker(size_t bytes_max = http2_worker_bytes_max) : pool(bytes_max) {}

  Http2Pool pool;
  Gzip gzip;
  std::string scratch;  // unpacked and packed messages, escaped texts
  std::string message;  // the message that `next` returned
};

struct GrpcCall {
  std::string_view path;       // "/package.Service/Method", as sent
  std::string_view authority;  // as sent
  std::string_view message;    // decompressed; empty for a streaming call
  base::Duration timeout;      // base::never: none
  bool is_cancelled;           // no answer can be sent
};

enum class GrpcNext : uint8_t {
  message,  // a message was returned
  none,     // there is no message now, or the call has been cancelled or ended
  end,      // there are no more messages: the client has ended its side
  refused,  // the bytes are not a message, which was answered: no `answer` or `drop` may follow
};

class GrpcServerSession {
 public:
  explicit GrpcServerSession(GrpcWorker& worker) : GrpcServerSession(worker, {}) {}
  // `keeps_header`: accepts at least what is_of_grpc does.
  GrpcServerSession(GrpcWorker& worker, const Http2Session::Bounds& bounds,
                    Http2PathTest is_streamed = nullptr, Http2NameTest keeps_header = is_of_grpc)
      : worker_(worker), http_(worker.pool, bounds, is_streamed, keeps_header) {}
  // The headers that a call needs; others are not stored.
  static bool is_of_grpc(std::string_view name);

  // As Http2Session::receive; the event `request` is a call, `reset` its cancellation. The list may
  // still have events of a call that the owner ended while it went through the list: then
  // is_waiting is false. While it has_more, `receive` reads nothing and goes on with what it has.
  size_t receive(std::string_view in, base::Time now, size_t calls_max = SIZE_MAX);
  std::span<const Http2Event> events() const { return events_; }
  bool has_more() const { return next_event_ < http_.events().size(); }
  // The bytes that were unpacked since the call before.
  size_t take_unpacked() { return std::exchange(unpacked_, 0); }

  GrpcCall call(uint32_t number) const;
  // The call's metadata `authorization`, as sent; empty: it has none.
  std::string_view authorization(uint32_t number) const {
    return http_.request(number).headers.find("authorization").value_or(std::string_view());
  }
  // The call's headers that are kept.
  Http2Headers headers(uint32_t number) const { return http_.request(number).headers; }
  bool is_waiting(uint32_t number) const { return http_.is_waiting(number); }

  // Takes the oldest message of a streaming call, and returns it decompressed; it is valid until
  // the next call of `next` for any session of the worker.
  GrpcNext next(uint32_t number, std::string_view& message);
  // False: the client does not read earlier messages, and the bounds leave no room. Then the call
  // was reset, and neither `answer` nor `drop` may follow. For a cancelled call nothing is sent.
  bool send(uint32_t number, std::string_view message);
  // Ends the call. `message` is sent only for a unary call with status ok. `text`: any bytes, for
  // people.
  void answer(uint32_t number, GrpcStatus status, std::string_view text, std::string_view message);
  void drop(uint32_t number) { http_.drop(number); }

  // For output, the connection's end, faults and statistics.
  Http2Session& http() { return http_; }
  const Http2Session& http() const { return http_; }

 private:
  bool accept(uint32_t number);
  bool read_encoding(uint32_t number, std::string_view encoding);
  bool take_message(uint32_t number, const Http2Request& request);
  Gzip::Result unpack(std::string_view packed, size_t bytes_max, std::string& out);
  bool pack(std::string_view& message);
  void refuse(uint32_t number, uint16_t http_status, GrpcStatus status, std::string_view text,
              bool with_encodings = false);

  GrpcWorker& worker_;
  Http2Session http_;
  std::vector<Http2Event> events_;
  size_t next_event_ = 0;  // of http_'s
  size_t unpacked_ = 0;
};

}  // namespace sluice::wire
