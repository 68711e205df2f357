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
//   floods     See Http2Fault. A fault ends the session: GOAWAY, and all later input is ignored.
//
// nghttp2 1.52 checks (Http2Fault::protocol to settings_size): the order of pseudo headers, names
// and values, connection-specific headers, content-length against the body (all of these:
// RST_STREAM with PROTOCOL_ERROR), windows that overflow, frames that do not fit their stream's
// state or have a wrong size, more than 32 entries in SETTINGS, more than http2_streams_max streams
// at a time, bad HPACK. The session checks everything else above; the rate of resets, which nghttp2
// would count by a clock of its own; and CONTINUATION frames, of which nghttp2 counts one twice if
// its header arrives in parts.
#pragma once

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "base/buffer.h"
#include "base/time.h"

namespace sluice::wire {

// The faults of a peer of HTTP/2 that end its connection, and how often it may do things that are
// allowed but become a burden if they are repeated. Plain values of one session.

// The frames of one kind that a peer may send besides its requests: at a time, per second, and in
// addition for each answer to it. Beyond that: GOAWAY with ENHANCE_YOUR_CALM.
inline constexpr int64_t http2_frames_max = 10'000;
inline constexpr int64_t http2_frames_per_second = 100;
inline constexpr int64_t http2_frames_per_answer = 4;
// The same for requests that the peer resets before they are answered, or makes the server reset by
// sending something that is forbidden.
inline constexpr int64_t http2_resets_max = 1'000;
inline constexpr int64_t http2_resets_per_second = 100;
inline constexpr int64_t http2_resets_per_answer = 1;
// A DATA frame with a smaller payload counts as `small_data`.
inline constexpr size_t http2_small_data_bytes = 64;

enum class Http2Fault : uint8_t {
  none,
  not_http2,         // does not begin with the client's preface
  protocol,          // this one and the next four: errors of a connection, as RFC 9113 names them
  flow_control,      //
  frame_size,        //
  compression,       //
  stream_closed,     //
  settings_size,     // too many entries in one SETTINGS frame
  header_list,       // a header list far larger than the announced size
  continuations,     // too many CONTINUATION frames of one header block
  resets,            // this one to other_frames: too many of each
  reset_frames,      //
  settings,          //
  pings,             //
  priorities,        //
  window_updates,    //
  small_data,        //
  repeated_headers,  // HEADERS for streams that had begun before
  refused_streams,   //
  other_frames,      //
  unsent_control,    // more acknowledgements than are kept for a peer that does not read
  memory,            // the system has no memory
  internal,          //
};
inline constexpr size_t http2_fault_count = static_cast<size_t>(Http2Fault::internal) + 1;

// The label for metrics, as in "window_updates".
std::string_view http2_fault_name(Http2Fault fault);
// The text that is sent to the peer in GOAWAY.
std::string_view http2_fault_text(Http2Fault fault);
uint32_t http2_fault_code(Http2Fault fault);  // the code in GOAWAY
Http2Fault http2_fault_of(uint32_t code);     // for a code in a GOAWAY that nghttp2 sends

// Counts how often a peer may still do each thing that is bounded above.
class Http2Allowances {
 public:
  // Counts one thing of a kind, `resets` to `other_frames`. False: it exceeds the bound.
  bool spend(Http2Fault kind) {
    int64_t& left = left_[index(kind)];
    if (left == 0) add_answers();
    if (left == 0) return false;
    --left;
    return true;
  }
  void on_answers(int64_t count) { answers_ += count; }
  // Adds what the time since the last call allows. A step back of `now` counts as no time.
  void on_time(base::Time now);

 private:
  static constexpr auto first = static_cast<size_t>(Http2Fault::resets);
  static constexpr size_t kinds = static_cast<size_t>(Http2Fault::other_frames) - first + 1;

  static size_t index(Http2Fault kind) { return static_cast<size_t>(kind) - first; }
  static constexpr std::array<int64_t, kinds> full() {
    std::array<int64_t, kinds> all{};
    for (size_t i = 0; i < kinds; ++i) all[i] = i == 0 ? http2_resets_max : http2_frames_max;
    return all;
  }

  void add_answers();
  void add(int64_t resets, int64_t frames);

  std::array<int64_t, kinds> left_ = full();
  int64_t answers_ = 0;  // since the last add_answers
  base::Time refilled_at_{INT64_MIN};
};

// Shared by the HTTP/2 sessions of one worker: memory for streams, frames and texts, and a bound on
// the bytes that all sessions hold together. Free blocks are kept in lists by size, so that after
// some time a worker does not allocate. One thread; outlives its sessions.
//
// Blocks above the largest size, and free blocks beyond `kept_bytes_max`, are returned to the
// system. With the address sanitizer no block is kept, so that it finds the use of freed ones.

// The most bytes of streams and of texts of requests and answers that the HTTP/2 sessions of a
// worker hold: what has not arrived whole, what clients do not take, and what is under way. The
// owner bounds the first two, so that they leave room for the last. Beyond it the same happens as
// beyond http2_connection_bytes_max.
inline constexpr size_t http2_worker_bytes_max = base::bounds::unfinished_bytes_max +
                                                 base::bounds::unsent_bytes_max +
                                                 base::bounds::http2_under_way_bytes_max;

class Http2Pool {
 public:
  static constexpr size_t kept_bytes_max = size_t{4} << 20;

  explicit Http2Pool(size_t bytes_max = http2_worker_bytes_max) : bytes_max_(bytes_max) {}
  ~Http2Pool();
  Http2Pool(const Http2Pool&) = delete;
  Http2Pool& operator=(const Http2Pool&) = delete;

  // A block of at least `bytes` bytes, aligned to 16. Null: the system has no memory.
  void* allocate(size_t bytes);
  // Null is ignored.
  void release(void* block);
  // As realloc. If the result is null, `block` is unchanged.
  void* reallocate(void* block, size_t bytes);
  // The bytes of the block that may be used.
  static size_t capacity(const void* block);

  // Counts `bytes` as held. False: they would exceed the bound, and are not counted.
  bool hold(size_t bytes) {
    if (bytes > bytes_max_ - held_) return false;
    held_ += bytes;
    return true;
  }
  void give_back(size_t bytes) { held_ -= bytes; }
  size_t held_bytes() const { return held_; }
  size_t bytes_max() const { return bytes_max_; }
  size_t free_bytes() const { return bytes_max_ - held_; }

  // Of blocks in use their number and bytes; the number of blocks that the system has given so far;
  // the bytes of free blocks.
  size_t blocks() const { return blocks_; }
  size_t used_bytes() const { return used_; }  // of blocks in use, with what is in front of each
  uint64_t system_blocks() const { return system_blocks_; }
  size_t kept_bytes() const { return kept_; }

 private:
  struct Header;
  static constexpr size_t class_count = 11;

  static size_t class_of(size_t bytes);

  std::array<Header*, class_count> free_{};
  size_t kept_ = 0, blocks_ = 0, used_ = 0;
  uint64_t system_blocks_ = 0;
  size_t held_ = 0;
  const size_t bytes_max_;
};

}  // namespace sluice::wire

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
  void compare_host(Stream& stream, std::string_view host);
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

// The state of one stream of an Http2Session, and the format of packed headers in its texts. Only
// for the files of the session. It lives in the session's pool from the first header block to the
// stream's end or the owner's answer, whichever is later.

inline constexpr size_t http2_frame_header_bytes = 9;
// The largest payload of a frame that every peer accepts (SETTINGS_MAX_FRAME_SIZE).
inline constexpr size_t http2_frame_bytes_max = 16'384;

enum class Http2Session::Phase : uint8_t {
  reading,    // the request is not complete
  streaming,  // the headers were reported; each part of the body is reported when it arrives
  told,       // the request was reported, and the owner must answer it
  answering,  // nghttp2 has the answer, and asks for its bytes
  ending,     // RST_STREAM was submitted
};

struct Http2Session::Text {
  char* bytes = nullptr;
  uint32_t size = 0, capacity = 0;

  std::string_view view() const { return {bytes, size}; }
};

// The state of one stream.
//
//   from        to          when
//   reading     streaming   the headers are complete, and `is_streamed` names the path
//   reading     told        the whole request has arrived, or too much of a body that is dropped
//   reading     answering   the headers are too long: answered with 431
//   reading     ending      the headers did not fit into memory, or reset_unfinished
//   streaming,  answering   the owner called `respond`, and the answer fits
//   told        ending      the owner called `drop`, or an answer (or a piece of one) does not fit
//
// The object is released when nghttp2 has closed the stream, which may happen in any phase; in
// `streaming` and `told` it waits for the owner's `respond` or `drop` as well.
//
struct Http2Session::Stream {
  using Phase = Http2Session::Phase;
  struct TextPart {
    uint32_t at = 0, size = 0;
  };

  explicit Stream(int32_t stream_id) : id(stream_id) {}

  uint32_t kept_body_bytes() const { return body_at == 0 ? 0 : request.size - body_at; }
  bool keeps_body() const { return phase == Phase::reading || phase == Phase::streaming; }
  std::string_view trailers() const { return answer.view().substr(body_end); }  // once answered
  bool waits() const { return phase == Phase::streaming || phase == Phase::told; }

  const int32_t id;
  uint32_t number = 0, note = 0;
  Phase phase = Phase::reading;                 // set by `enter` alone
  Stream *older = nullptr, *younger = nullptr;  // in the list of requests that are being read
  bool ended = false;                           // the client sends no more
  bool is_closed = false;                       // nghttp2 has closed the stream
  bool is_lost = false;                         // a part of the request was dropped
  bool has_other_host = false;                  // `host` beside `:authority` is another one
  bool is_consumed = false;  // the body was replaced, so it is not in the client's window
  bool is_head = false;      // a HEAD request: no body may be sent
  bool is_sent = false;      // the whole answer was sent
  bool is_begun = false;     // nghttp2 has a piece of the answer, and more may follow
  bool is_withheld = false;  // nghttp2 has a part of the answer that was not sent
  bool is_slow = false;     // it was withheld at the last `end_withheld`, and little was sent since
  uint32_t taken = 0;       // bytes of the answer that were sent since that was last found out
  uint32_t list_bytes = 0;  // of the headers, counted as for SETTINGS_MAX_HEADER_LIST_SIZE
  uint32_t frame_bytes = 0;  // of the DATA frame being read
  uint64_t body_bytes = 0;   // that have arrived and were not taken by the owner
  size_t held = 0;
  // The values of pseudo headers, packed headers in [headers_at, headers_end), the body from
  // body_at on.
  Text request{};
  // headers_end and body_at are 0 while headers are being read. body_at is headers_end, or the end
  // of the part of a streaming request's body that the owner has taken.
  uint32_t headers_at = 0, headers_end = 0, body_at = 0;
  TextPart method{}, scheme{}, path{}, authority{};
  // Status and headers, the body, packed trailers. If is_begun: the bytes that were not sent, and
  // trailers.
  Text answer{};
  uint32_t sent_end = 0, body_end = 0;  // sent_end: the end of the part of the body that was sent
  uint32_t pieces = 0;                  // if is_begun: the number of pieces in `answer`
};

// ---- Memory, inline for its use for each header ----

inline bool Http2Session::hold(Stream& stream, size_t bytes) {
  if (bytes > bounds_.connection_bytes - std::min(held_, bounds_.connection_bytes)) return false;
  if (!pool_.hold(bytes)) return false;
  held_ += bytes;
  stream.held += bytes;
  held_in_[static_cast<size_t>(stream.phase)] += bytes;
  return true;
}

inline void Http2Session::give_up(Stream& stream, size_t bytes) {
  pool_.give_back(bytes);
  held_ -= bytes;
  stream.held -= bytes;
  held_in_[static_cast<size_t>(stream.phase)] -= bytes;
}

// Makes room for `bytes` more, and returns the place for them; null: no memory.
inline char* Http2Session::extend(Text& text, size_t bytes) {
  const size_t begin = text.size, size = begin + bytes;
  if (size > text.capacity && grow(text, size) == nullptr) return nullptr;
  text.size = static_cast<uint32_t>(size);
  return text.bytes + begin;
}

inline bool Http2Session::append(Text& text, std::string_view bytes) {
  if (bytes.empty()) return true;
  char* const to = extend(text, bytes.size());
  if (to == nullptr) return false;
  std::memcpy(to, bytes.data(), bytes.size());
  return true;
}

// Stands before the name and value of a packed header.
struct Http2PackedSizes {
  uint32_t name, value;
};

inline Http2PackedSizes read_packed_sizes(const char* at) {
  Http2PackedSizes sizes;
  std::memcpy(&sizes, at, sizeof sizes);
  return sizes;
}

// Connects an Http2Session with nghttp2: the callbacks, the options, and the data that nghttp2
// sends. Only for the files of the session.

struct Http2Session::Callbacks {
  // Null: the system has no memory.
  static nghttp2_session* make_session(Http2Session& owner, Http2Pool& pool);
  static Http2Fault fault_of(int error);

  static int on_begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* self);
  static int on_header(nghttp2_session* session, const nghttp2_frame* frame, const uint8_t* name,
                       size_t name_bytes, const uint8_t* value, size_t value_bytes, uint8_t flags,
                       void* self);
  static int on_frame(nghttp2_session* session, const nghttp2_frame* frame, void* self);
  static int on_data(nghttp2_session* session, uint8_t flags, int32_t id, const uint8_t* data,
                     size_t bytes, void* self);
  static int on_close(nghttp2_session* session, int32_t id, uint32_t code, void* self);
  static int on_packed(nghttp2_session* session, const nghttp2_frame* frame, void* self);
  static int on_sent(nghttp2_session* session, const nghttp2_frame* frame, void* self);
  static ssize_t read_body(nghttp2_session* session, int32_t id, uint8_t* to, size_t bytes,
                           uint32_t* flags, nghttp2_data_source* source, void* self);
  static ssize_t read_pieces(nghttp2_session* session, int32_t id, uint8_t* to, size_t bytes,
                             uint32_t* flags, nghttp2_data_source* source, void* self);
  static int send_data(nghttp2_session* session, nghttp2_frame* frame, const uint8_t* header,
                       size_t bytes, nghttp2_data_source* source, void* self);

  static Stream* stream_of(Http2Session& self, int32_t id);
  static void append_trailers(base::Buffer& out, const Stream& stream);
  static bool submit_trailers(nghttp2_session* session, const Stream& stream);
};

}  // namespace sluice::wire
