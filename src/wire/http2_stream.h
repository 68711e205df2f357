// The state of one stream of an Http2Session, and the format of packed headers in its texts. Only
// for the files of the session. It lives in the session's pool from the first header block to the
// stream's end or the owner's answer, whichever is later.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "wire/http2_session.h"

namespace sluice::wire {

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
// More than twenty members: the phase, flags and the places of the texts are in one block of
// memory, because a connection may have a thousand streams.
struct Http2Session::Stream {
  using Phase = Http2Session::Phase;
  struct Part {
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
  Part method{}, scheme{}, path{}, authority{};
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

}  // namespace sluice::wire
