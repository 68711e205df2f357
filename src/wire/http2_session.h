// The server's side of HTTP/2 (RFC 9113, prior knowledge), without input and output of its own: it
// turns bytes into requests and resets, and answers into bytes. One session for each connection,
// used by one thread. nghttp2 does frames, HPACK, flow control and the rules of HTTP messages; the
// owner knows the meaning of requests.
//
//   requests   are reported when they are complete, with a number below http2_streams_max, which is
//              used again later. `request(number)` shows the request until `respond` or `drop`: one
//              of these must be called exactly once, at any time and in any order, even if the
//              client has reset the stream. A stream that is reset before its request was reported
//              is not reported.
//   streaming  A request whose path the owner's `is_streamed` accepts is reported when its headers
//              have arrived (`begun`), and at the end of each DATA frame that has bytes or is the
//              last (`body`). The owner takes bytes from the front of the body, and may `send`
//              pieces of the answer before it ends it with `respond`. HEAD requests do not stream.
//   splits     Events and answers do not depend on how the input is cut.
//   bytes      Texts of unfinished and unanswered requests, and of answers that were not sent,
//              count against bytes_max of the session and of its pool. If headers do not fit, the
//              stream is refused (REFUSED_STREAM). If a body does not fit, it is read to its end
//              and dropped (Http2Request::is_whole is false). If an answer or a piece of one does
//              not fit, the stream is reset. A stream itself counts as http2_stream_bytes against
//              the pool's bound. In addition a session takes 38 KB.
//   windows    A stream's window is opened again when its body arrives; the connection's when
//              bodies leave the session because they were taken, answered or dropped.
//   slow       The owner learns which bytes stay as long as the client likes: `unfinished_bytes`,
//              `kept_bytes`. `end_oldest` and `end_withheld` end what stays for too long.
//   floods     http2_faults.h. A fault ends the session: GOAWAY, and all later input is ignored.
//
// nghttp2 1.52 checks (Http2Fault::protocol to settings_size): the order of pseudo headers, names
// and values, connection-specific headers, content-length against the body (all of these:
// RST_STREAM with PROTOCOL_ERROR), windows that overflow, frames that do not fit their stream's
// state or have a wrong size, more than 32 entries in SETTINGS, more than http2_streams_max streams
// at a time, bad HPACK. The session checks everything else above; the rate of resets, which nghttp2
// would count by a clock of its own; and CONTINUATION frames, of which nghttp2 counts one twice if
// its header arrives in parts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/time.h"
#include "wire/http2_faults.h"
#include "wire/http2_pool.h"

struct nghttp2_session;

namespace sluice::wire {

// The most unanswered requests of a connection, which is announced; and the most before the client
// has acknowledged that. Beyond either: REFUSED_STREAM.
inline constexpr uint32_t http2_streams_max = 1'000;
inline constexpr uint32_t http2_unacknowledged_streams_max = 100;
// The most bytes of a request's header names and values, plus 32 for each header; it is announced.
// Beyond it: 431; beyond four times as much the connection ends.
inline constexpr size_t http2_header_list_bytes_max = size_t{64} << 10;
// The most CONTINUATION frames of a header block. Beyond it the connection ends.
inline constexpr size_t http2_continuations_max = 8;
// What an open stream counts as, beside its texts: its own state, nghttp2's, and what their blocks
// are larger than their contents.
inline constexpr size_t http2_stream_bytes = 1024;
// A client that has taken fewer bytes of an answer than this, and not its end, has not moved on.
inline constexpr size_t http2_slow_bytes = 1024;
// The most bytes of texts that a connection holds; beyond it see `bytes` above.
inline constexpr size_t http2_connection_bytes_max = size_t{1} << 20;
// The most bytes that are read of a body that is dropped; then the request is reported as if the
// body had ended.
inline constexpr uint64_t http2_dropped_body_bytes_max = (uint64_t{4} << 20) + 5;
// The most headers and the most trailers of an answer. The owner must not exceed it.
inline constexpr size_t http2_answer_headers_max = 32;
// The connection's window for bodies, as a multiple of the bytes that it may hold. nghttp2 opens a
// window when half of it is used up, and a body that must be dropped must not wait for that.
inline constexpr size_t http2_window_per_byte_held = 2;

struct Http2Header {
  std::string_view name, value;
};

// A list of headers, in the order in which they arrived.
class Http2Headers {
 public:
  class Iterator {
   public:
    explicit Iterator(const char* at) : at_(at) {}
    Http2Header operator*() const;
    Iterator& operator++();
    bool operator==(const Iterator&) const = default;

   private:
    const char* at_;
  };

  explicit Http2Headers(std::string_view packed) : packed_(packed) {}
  Iterator begin() const { return Iterator(packed_.data()); }
  Iterator end() const { return Iterator(packed_.data() + packed_.size()); }
  // The value of the first header of that name, in lower case; empty: there is none.
  std::optional<std::string_view> find(std::string_view name) const;

 private:
  std::string_view packed_;
};

// Whether requests for the path must be reported as streams.
using Http2PathTest = bool (*)(std::string_view path);
// Whether headers with the name, in lower case, must be kept. The others count against the
// announced bound, but are not stored. `host` must be kept if the authority is needed.
using Http2NameTest = bool (*)(std::string_view name);

struct Http2Request {
  std::string_view method, scheme, path, authority;  // authority: if it is missing, that of `host`
  Http2Headers headers;                              // the other headers, without trailers
  std::string_view body;                             // without what was taken; empty if dropped
  uint64_t body_bytes;                               // that have arrived and were not taken
  bool is_whole;                                     // the body is complete, and was not dropped
  bool is_reset;                                     // by either side: no answer can be sent
  bool is_streaming;                                 // it was reported by `begun`
};

struct Http2Event {
  enum class Kind : uint8_t {
    request,  // a request is complete
    reset,    // a reported request was reset, and needs no answer
    begun,    // the headers of a streaming request have arrived
    body,     // a part of its body has arrived or was dropped, or the body has ended
  };
  Kind kind;
  uint32_t request;
};

struct Http2Response {
  uint16_t status = 200;
  // Names in lower case; at most http2_answer_headers_max headers, and as many trailers.
  std::span<const Http2Header> headers{};
  // The body, in two parts. Body and trailers are not sent in answer to HEAD.
  std::string_view body{}, more_body{};
  std::span<const Http2Header> trailers{};
};

// More than twenty members: nghttp2's session, the frame and the stream being read, the bounds, and
// the state of the connection's end.
class Http2Session {
 public:
  struct Bounds {
    size_t connection_bytes = http2_connection_bytes_max;
    size_t body_bytes = http2_connection_bytes_max;  // the most of one request
    uint64_t dropped_body_bytes = http2_dropped_body_bytes_max;
  };

  explicit Http2Session(Http2Pool& pool) : Http2Session(pool, Bounds{}) {}
  // `is_streamed`: null: no request streams. `keeps_header`: null: all headers are kept.
  Http2Session(Http2Pool& pool, const Bounds& bounds, Http2PathTest is_streamed = nullptr,
               Http2NameTest keeps_header = nullptr);
  ~Http2Session();
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  // Reads from the front of `in`, and returns the number of bytes read: all of them, unless about
  // `events_max` events come first. A frame of a streaming request may add one or two more. `now`
  // is for the rates of floods. The list of events of the call before becomes void.
  size_t receive(std::string_view in, base::Time now, size_t events_max = SIZE_MAX);
  std::span<const Http2Event> events() const { return events_; }

  // Whether the request was reported, and neither `respond` nor `drop` was called.
  bool is_waiting(uint32_t number) const;
  Http2Request request(uint32_t number) const;
  // A number for the owner's use, 0 at first.
  uint32_t& note(uint32_t number);
  // Replaces the body by `body`, which may be a part of it. False: it does not fit.
  bool replace_body(uint32_t number, std::string_view body);

  // Takes the first `bytes` bytes of the body of a streaming request.
  void take_body(uint32_t number, size_t bytes);

  // Sends a piece of the answer to a streaming request. The headers are sent with the first piece,
  // with status 200, and ignored later. False: the bytes that were not sent yet leave no room. Then
  // the stream was reset, and neither `respond` nor `drop` may follow.
  bool send(uint32_t number, std::span<const Http2Header> headers, std::string_view body,
            std::string_view more_body = {});
  // Answers a request. Texts are copied, and may be parts of the request. If pieces were sent
  // before, only the body and the trailers of the response count.
  void respond(uint32_t number, const Http2Response& response);
  // Ends a request without an answer: RST_STREAM with INTERNAL_ERROR, if the stream is open.
  void drop(uint32_t number);
  // Frees the texts of a request that was reported whole, because its owner needs them no longer:
  // from now on it has no headers and no body.
  void let_go(uint32_t number);
  // Resets the requests that are incomplete and were not reported: RST_STREAM with CANCEL.
  void reset_unfinished();
  // Names the oldest of these; 0: there is none.
  uint32_t oldest_unfinished() const;
  // Resets it alone, if another request was completed since it is the oldest. False: none was.
  bool end_oldest();
  // Resets the answers of which the client has not taken http2_slow_bytes since the call before,
  // and which were withheld then already: RST_STREAM with CANCEL. Returns their number. Nothing:
  // the client has taken nothing, of any answer, since that call, or since the first answer was
  // withheld; or a streaming request would have to be reset. Then the connection should end.
  std::optional<uint32_t> end_withheld();
  // Does the client's flow control keep answers back? Valid after `write` without a bound.
  bool withholds() const { return withheld_ > 0; }

  // Appends frames that must be sent until `out` holds `bytes_max` bytes; it may exceed that by one
  // frame (16 KiB). Must be called after `receive`, `respond` and the other calls, and when earlier
  // output has been sent.
  void write(base::Buffer& out, size_t bytes_max = SIZE_MAX);
  bool has_output() const;

  // Begins the graceful end: sends GOAWAY without a stream; when the answer to a PING shows that
  // the client has read that, GOAWAY with the last stream that is served. Later streams are
  // ignored.
  void begin_shutdown();
  // Does the second step at once.
  void finish_shutdown();
  // Whether all output has been written, and all further input is ignored.
  bool is_drained() const;

  // If it is not none, the connection must end after the output of `write` was sent. Valid after
  // `write`.
  Http2Fault fault() const { return fault_; }

  uint32_t unfinished() const { return unfinished_; }  // requests that are not complete
  uint32_t unanswered() const { return unanswered_; }  // requests that were reported, or begun
  size_t held_bytes() const { return held_; }          // of texts
  // How many more bytes of texts fit.
  size_t free_bytes() const {
    return std::min(bounds_.connection_bytes - std::min(held_, bounds_.connection_bytes),
                    pool_.free_bytes());
  }
  // Bytes of texts and streams, by what frees them: the rest of a request; the client's reading of
  // answers, or its end of streaming requests. All others are the owner's to free.
  size_t unfinished_bytes() const;
  size_t kept_bytes() const;
  uint64_t refused_streams() const { return refused_streams_; }
  uint64_t dropped_bodies() const { return dropped_bodies_; }

 private:
  struct Stream;
  struct Callbacks;
  struct Text;

  size_t read(std::string_view in, size_t events_max);
  size_t scan(std::string_view in, size_t events_max);
  bool read_preface(std::string_view in, size_t& at);
  bool admit_frame(const unsigned char* header, size_t& events);
  void fail(Http2Fault fault);
  void write_end(base::Buffer& out);

  Stream* open(int32_t id);
  void on_headers(Stream& stream, bool last);
  void on_body(Stream& stream, std::string_view bytes);
  void on_data_frame(Stream& stream, bool last);
  void on_streamed_frame(Stream& stream, uint32_t bytes, bool last);
  void drop_body(Stream& stream);
  void on_acknowledged_ping(const unsigned char* opaque);
  void tell(Stream& stream);
  enum class Phase : uint8_t;
  void enter(Stream& stream, Phase phase);
  void set_withheld(Stream& stream, bool withheld);
  void leave_unfinished(Stream& stream);
  size_t held_in(Phase phase) const { return held_in_[static_cast<size_t>(phase)]; }
  bool streams(const Stream& stream) const;
  void begin_streaming(Stream& stream, bool last);
  void on_close(Stream& stream);
  void refuse(Stream& stream, uint16_t status);
  void release(Stream& stream);
  void release_request(Stream& stream);
  void keep_header(Stream& stream, std::string_view name, std::string_view value);
  bool hold(Stream& stream, size_t bytes);
  char* extend(Text& text, size_t bytes);
  char* grow(Text& text, size_t size);
  bool append(Text& text, std::string_view bytes);
  bool append_packed(Text& text, std::string_view name, std::string_view value);
  void shrink(Text& text);
  void give_up(Stream& stream, size_t bytes);
  bool answer(Stream& stream, const Http2Response& response);
  bool begin_answer(Stream& stream, std::span<const Http2Header> headers);
  bool queue(Stream& stream, std::string_view body, std::string_view more_body);
  bool finish(Stream& stream, const Http2Response& response);
  bool writes_trailers(const Stream& stream) const;
  void on_pieces_sent(Stream& stream);
  void reset(Stream& stream, uint32_t code);
  void cancel(Stream& stream);

  Http2Pool& pool_;
  const Bounds bounds_;
  const Http2PathTest is_streamed_;
  const Http2NameTest keeps_header_;
  nghttp2_session* session_ = nullptr;
  std::vector<Http2Event> events_;
  std::vector<Stream*> streams_;  // by number; null: the number is free
  std::vector<uint32_t> unused_;
  Stream* current_ = nullptr;  // the stream whose header block is being read
  base::Buffer* out_ = nullptr;
  size_t out_max_ = 0;
  size_t held_ = 0, unconsumed_ = 0;
  std::array<size_t, 5> held_in_{};  // by the phase of its stream, each with http2_stream_bytes
  // The requests that are being read, in the order of their beginnings.
  Stream *oldest_ = nullptr, *youngest_ = nullptr;
  uint32_t withheld_ = 0;  // answers
  uint32_t unfinished_ = 0, unanswered_ = 0;
  uint64_t refused_streams_ = 0, dropped_bodies_ = 0;
  Http2Allowances allowances_;
  // The place in the input: bytes read of the preface and of a frame's header, bytes missing of its
  // payload.
  uint8_t preface_read_ = 0, header_read_ = 0;
  std::array<unsigned char, 9> header_{};
  uint32_t payload_left_ = 0, newest_stream_ = 0;
  size_t continuations_ = 0;  // of the header block being read
  bool acknowledged_ = false;
  bool completes_ = false;     // a request was completed since oldest_ is the oldest
  bool taken_ = false;         // the client has taken some of an answer; see end_withheld
  bool was_withheld_ = false;  // answers were withheld at the end of the last `write`
  enum class Shutdown : uint8_t { none, noticed, last } shutdown_ = Shutdown::none;
  Http2Fault fault_ = Http2Fault::none;
  // A GOAWAY has arrived, or the last one was sent. Then nghttp2 ignores input as soon as no stream
  // is open, which it checks only at the beginning of a call; so it gets one frame at a time.
  bool reads_by_frame_ = false;
  bool has_new_settings_ = false;  // the client has sent settings since headers were packed last
  bool is_begun_ = false;          // `write` has written bytes
  bool end_written_ = false;       // the GOAWAY of a fault was written
  bool speaks_http1_ = false;
};

}  // namespace sluice::wire
