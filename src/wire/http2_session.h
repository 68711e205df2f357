// The server's side of HTTP/2 (RFC 9113, prior knowledge) without I/O: bytes in, whole requests and
// resets out; answers in, bytes out. One session per connection, used by one thread; nghttp2 does
// frames, HPACK, flow control and the rules of HTTP messages. What requests mean is not its matter.
//
//   requests   are reported when they are whole, with a number (below http2_streams_max, used again
//              later) by which `request` shows them; what that shows lives until `respond` or
//              `drop`, one of which must follow exactly once, in any order and at any time, also
//              if the client has reset the stream meanwhile. A stream that was reset before its
//              request was reported is not reported at all.
//   streaming  Requests whose path the owner's `is_streamed` names are reported when their headers
//              have arrived (`begun`), and then at the end of each DATA frame that brought
//              something or was the last (`body`). The owner takes from the front of the body, and
//              may `send` pieces of the answer before it ends it by `respond`. HEAD does not
//              stream.
//   splits     Events and answers do not depend on how the input is cut.
//   bytes      Texts of unfinished and unanswered requests and of answers that have not left count
//              against bytes_max of the session and of its pool. A stream whose headers do not fit
//              is refused (REFUSED_STREAM); a body that does not is read to its end and dropped
//              (Http2Request::is_whole); an answer that does not resets its stream, and so does a
//              piece of one. Beside that a stream takes some 600 bytes, a session 38 KB.
//   windows    A stream's is opened again as its body comes, the connection's as bodies leave the
//              session, taken, answered or dropped.
//   floods     http2_faults.h. A fault ends the session: GOAWAY, and all later input is ignored.
//
// By nghttp2 1.52 itself (the fault is then one of protocol to settings_size): order of pseudo
// headers, names and values, connection-specific headers, content-length against the body (all:
// RST_STREAM PROTOCOL_ERROR), windows that overflow, frames that do not fit their stream's state or
// size, more than 32 entries in SETTINGS, more than http2_streams_max streams at a time, bad HPACK.
// Here: everything else that is said above; the rate of resets, which nghttp2 would count by a
// clock of its own; and CONTINUATION frames, of which nghttp2 counts one again whenever its header
// does not arrive whole.
#pragma once

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

// Requests of one connection that are not answered, as announced; and before the client has
// acknowledged that. Past either: REFUSED_STREAM.
inline constexpr uint32_t http2_streams_max = 1'000;
inline constexpr uint32_t http2_unacknowledged_streams_max = 100;
// Names and values of one request's headers, 32 bytes added for each, as announced. Past it: 431;
// past four times as much the connection ends.
inline constexpr size_t http2_header_list_bytes_max = size_t{64} << 10;
// CONTINUATION frames of one header block. Past it: the connection ends.
inline constexpr size_t http2_continuations_max = 8;
// Texts that one connection holds. Past it: as the contract says.
inline constexpr size_t http2_connection_bytes_max = size_t{1} << 20;
// A body that is dropped, of which more is not read: then the request is reported as if it were
// over.
inline constexpr uint64_t http2_dropped_body_bytes_max = (uint64_t{4} << 20) + 5;
// Headers of one answer, and trailers of one. Not to be passed.
inline constexpr size_t http2_answer_headers_max = 32;
// The connection's window for bodies, as a multiple of what it may hold: nghttp2 opens a window
// when half of it has been used up, and a body that has to be dropped must not wait for that.
inline constexpr size_t http2_window_per_byte_held = 2;

struct Http2Header {
  std::string_view name, value;
};

// Headers one behind the other, in the order in which they came.
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
  // Of the first one of that name (in lower case); nothing: there is none.
  std::optional<std::string_view> find(std::string_view name) const;

 private:
  std::string_view packed_;
};

// Does a request for that path stream?
using Http2PathTest = bool (*)(std::string_view path);
// Is a header of that name (in lower case) of any use? The others count as announced, and are not
// held. `host` is, where an authority is needed.
using Http2NameTest = bool (*)(std::string_view name);

struct Http2Request {
  std::string_view method, scheme, path, authority;  // authority: else that of `host`
  Http2Headers headers;                              // but for those; no trailers
  std::string_view body;                             // but for what was taken; empty if not whole
  uint64_t body_bytes;                               // that came and were not taken, or were lost
  bool is_whole;                                     // the body is there, and the client is done
  bool is_reset;                                     // by either side: no answer is awaited
  bool is_streaming;                                 // and was begun
};

struct Http2Event {
  enum class Kind : uint8_t {
    request,  // a request has arrived
    reset,    // one that was reported and has no answer yet will not need it
    begun,    // the headers of one that streams have arrived
    body,     // more of its body has, or was lost, or it has ended
  };
  Kind kind;
  uint32_t request;
};

struct Http2Response {
  uint16_t status = 200;
  // Names in lower case. Of these and of `trailers` at most http2_answer_headers_max.
  std::span<const Http2Header> headers{};
  // In pieces, one behind the other. Not sent in answer to HEAD, nor are trailers.
  std::string_view body{}, more_body{};
  std::span<const Http2Header> trailers{};
};

// More than twenty members: nghttp2's session, what is known of the frame and of the stream that
// are being read, the bounds, and how far the end of the connection has got.
class Http2Session {
 public:
  struct Bounds {
    size_t connection_bytes = http2_connection_bytes_max;
    size_t body_bytes = http2_connection_bytes_max;  // of one request
    uint64_t dropped_body_bytes = http2_dropped_body_bytes_max;
  };

  explicit Http2Session(Http2Pool& pool) : Http2Session(pool, Bounds{}) {}
  // `is_streamed`: null is none. `keeps_header`: null keeps all.
  Http2Session(Http2Pool& pool, const Bounds& bounds, Http2PathTest is_streamed = nullptr,
               Http2NameTest keeps_header = nullptr);
  ~Http2Session();
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  // Reads from the front of `in`, and says how much: all of it, unless some `events_max` events
  // come first, not counting those of requests that stream, of which a frame is one, or two. `now`
  // is what the rates of floods go by. Ends the list of events before.
  size_t receive(std::string_view in, base::Time now, size_t events_max = SIZE_MAX);
  std::span<const Http2Event> events() const { return events_; }

  // Was it told, without `respond` or `drop` so far?
  bool is_waiting(uint32_t number) const;
  Http2Request request(uint32_t number) const;
  // A number of the owner's, 0 at first.
  uint32_t& note(uint32_t number);
  // Puts another text in place of the body, which may be a part of it. False: it does not fit.
  bool replace_body(uint32_t number, std::string_view body);

  // Of one that streams: the first so many bytes of the body that is shown are done with.
  void take_body(uint32_t number, size_t bytes);

  // A piece of the answer to one that streams; headers go out with the first one, whose status is
  // 200, and are not looked at later. False: what has not left leaves no place for it. Then the
  // stream was reset, and neither `respond` nor `drop` may follow.
  bool send(uint32_t number, std::span<const Http2Header> headers, std::string_view body,
            std::string_view more_body = {});
  // Texts are copied. What is asked by the response may lie in the request. Where a piece was sent
  // before, only its body and trailers count.
  void respond(uint32_t number, const Http2Response& response);
  // No answer: RST_STREAM with INTERNAL_ERROR, if the stream is open.
  void drop(uint32_t number);
  // Requests that have not come whole, but for those that were begun: RST_STREAM with CANCEL.
  void reset_unfinished();

  // Appends what must be sent, frame by frame, until `out` holds `bytes_max`; past that at most
  // by a frame (16 KiB). Call after `receive`, `respond` and the others, and when what was sent has
  // left.
  void write(base::Buffer& out, size_t bytes_max = SIZE_MAX);
  bool has_output() const;

  // The graceful end: GOAWAY without a number; when the client has seen that, which a PING tells,
  // GOAWAY with the last stream that is served. Later ones are ignored.
  void begin_shutdown();
  // The second step at once.
  void finish_shutdown();
  // Everything owed has been written, and nothing is taken any more.
  bool is_drained() const;

  // Not none: the connection is over once what `write` gives is sent. Known behind `write`.
  Http2Fault fault() const { return fault_; }

  uint32_t unfinished() const { return unfinished_; }  // requests that have not come whole
  uint32_t unanswered() const { return unanswered_; }  // that were reported, or begun
  size_t held_bytes() const { return held_; }
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

  Http2Pool& pool_;
  const Bounds bounds_;
  const Http2PathTest is_streamed_;
  const Http2NameTest keeps_header_;
  nghttp2_session* session_ = nullptr;
  std::vector<Http2Event> events_;
  std::vector<Stream*> streams_;  // by number; null: not in use
  std::vector<uint32_t> unused_;
  Stream* current_ = nullptr;  // whose header block is being read
  base::Buffer* out_ = nullptr;
  size_t out_max_ = 0;
  size_t held_ = 0, unconsumed_ = 0;
  uint32_t unfinished_ = 0, unanswered_ = 0;
  uint64_t refused_streams_ = 0, dropped_bodies_ = 0;
  Http2Allowances allowances_;
  // Of the input: how much of the preface was read, of a frame's header, of its payload is not.
  uint8_t preface_read_ = 0, header_read_ = 0;
  std::array<unsigned char, 9> header_{};
  uint32_t payload_left_ = 0, newest_stream_ = 0;
  size_t continuations_ = 0;  // of the header block that is being read
  bool acknowledged_ = false;
  enum class Shutdown : uint8_t { none, noticed, last } shutdown_ = Shutdown::none;
  Http2Fault fault_ = Http2Fault::none;
  // A GOAWAY came, or ours is the last: once no stream is open nghttp2 ignores what it is given,
  // and looks only at each call whether that is so.
  bool reads_by_frame_ = false;
  bool has_new_settings_ = false;  // of the client, since headers were packed last
  bool is_begun_ = false;          // something was written
  bool end_written_ = false;       // of a fault
  bool speaks_http1_ = false;
};

}  // namespace sluice::wire
