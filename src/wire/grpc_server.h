// A server's side of gRPC's calls over HTTP/2, without I/O: bytes in, calls out; statuses and
// messages in, bytes out. One session per connection, used by one thread. Which methods there are,
// which of them stream, what a message means, and deadlines are the owner's matter.
//
//   calls    Unary ones that are whole and well-formed are reported, each with a number; exactly
//            one `answer` or `drop` must follow for each, also if it was cancelled meanwhile. What
//            a call shows lives until then.
//   streams  A call whose path the owner's `is_streamed` names is reported when its headers have
//            arrived (`begun`), and again whenever `next` may have something (`body`): messages one
//            by one, then that the client is done. `send` sends one message. Either side may go on
//            when the other is silent or done; `answer` or `drop` ends the call, unless `next` or
//            `send` has. What has arrived and is not taken, and what is sent and has not left,
//            counts against the bounds of bytes.
//   refused  What is not gRPC call is answered here, and not told:
//              another method than POST             405, INTERNAL
//              another content-type                 415, INVALID_ARGUMENT
//              grpc-timeout ill-formed              400, INTERNAL
//              an encoding but gzip and identity    UNIMPLEMENTED, with grpc-accept-encoding
//              no message, two, or a part of one    INTERNAL
//              compressed without an encoding,
//              or not by it                         INTERNAL
//              a message above 4 MiB, also when
//              unpacked, or past a bound of bytes   RESOURCE_EXHAUSTED
//   gzip     The answer to a call that came with it has it too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/time.h"
#include "wire/grpc.h"
#include "wire/gzip.h"
#include "wire/http2_pool.h"
#include "wire/http2_session.h"

namespace sluice::wire {

// What the sessions of one worker share. One thread; outlives them.
struct GrpcWorker {
  explicit GrpcWorker(size_t bytes_max = http2_worker_bytes_max) : pool(bytes_max) {}

  Http2Pool pool;
  Gzip gzip;
  std::string scratch;  // unpacked and packed messages, escaped texts
  std::string message;  // that `next` shows
};

struct GrpcCall {
  std::string_view path;       // "/package.Service/Method", as sent
  std::string_view authority;  // as sent
  std::string_view message;    // unpacked; of a streaming call nothing
  base::Duration timeout;      // base::never: none
  bool is_cancelled;           // no answer is awaited
};

enum class GrpcNext : uint8_t {
  message,  // one
  none,     // not now, or the call was cancelled or has been ended
  end,      // nor later: the client is done
  refused,  // what came is not a message, and that was answered: no `answer` or `drop` may follow
};

class GrpcServerSession {
 public:
  explicit GrpcServerSession(GrpcWorker& worker) : GrpcServerSession(worker, {}) {}
  GrpcServerSession(GrpcWorker& worker, const Http2Session::Bounds& bounds,
                    Http2PathTest is_streamed = nullptr)
      : worker_(worker), http_(worker.pool, bounds, is_streamed, is_of_grpc) {}

  // As Http2Session::receive; a `request` event is a call, `reset` its cancellation. What is
  // reported of a call that has been ended since may be behind others in the list: is_waiting is
  // then false.
  size_t receive(std::string_view in, base::Time now, size_t calls_max = SIZE_MAX);
  std::span<const Http2Event> events() const { return events_; }

  GrpcCall call(uint32_t number) const;
  bool is_waiting(uint32_t number) const { return http_.is_waiting(number); }

  // Of a streaming call: takes its oldest message and shows it, unpacked, until the worker's next
  // `next`.
  GrpcNext next(uint32_t number, std::string_view& message);
  // False: the client does not take what was sent before, and the bounds leave no place for more.
  // The call was reset: neither `answer` nor `drop` may follow. One that was cancelled sends
  // nothing.
  bool send(uint32_t number, std::string_view message);
  // Any other status than ok goes without a message, and so does each of a streaming call. `text`:
  // any bytes, for people.
  void answer(uint32_t number, GrpcStatus status, std::string_view text, std::string_view message);
  void drop(uint32_t number) { http_.drop(number); }

  // Output, the end, faults and figures.
  Http2Session& http() { return http_; }
  const Http2Session& http() const { return http_; }

 private:
  static bool is_of_grpc(std::string_view name);
  bool accept(uint32_t number);
  bool read_encoding(uint32_t number, std::string_view encoding);
  bool take_message(uint32_t number, const Http2Request& request);
  bool pack(std::string_view& message);
  void refuse(uint32_t number, uint16_t http_status, GrpcStatus status, std::string_view text,
              bool with_encodings = false);

  GrpcWorker& worker_;
  Http2Session http_;
  std::vector<Http2Event> events_;
};

}  // namespace sluice::wire
