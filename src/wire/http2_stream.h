// What Http2Session keeps of one stream, and how headers are packed in its texts: for the files of
// the session alone. Lives in the session's pool from the first header block to the stream's end or
// the owner's answer, whichever comes last.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "wire/http2_session.h"

namespace sluice::wire {

inline constexpr size_t http2_frame_header_bytes = 9;
// Of a frame's payload, which every peer takes (SETTINGS_MAX_FRAME_SIZE).
inline constexpr size_t http2_frame_bytes_max = 16'384;

struct Http2Session::Text {
  char* bytes = nullptr;
  uint32_t size = 0, capacity = 0;

  std::string_view view() const { return {bytes, size}; }
};

// More than twenty members: a stream's phase, what was said of it, and where its texts are; there
// are a thousand on a connection, and this is one block of each.
struct Http2Session::Stream {
  enum class Phase : uint8_t {
    reading,    // the request has not come whole
    streaming,  // its headers were reported, and its body is reported as it comes; else as `told`
    told,       // it was reported, and waits for the owner; the stream may be closed meanwhile
    answering,  // the answer is nghttp2's
    ending,     // RST_STREAM of ours is
  };
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
  Phase phase = Phase::reading;
  bool ended = false;        // the client has sent its last
  bool is_closed = false;    // nghttp2 has forgotten it
  bool is_lost = false;      // some of the request was not kept
  bool is_consumed = false;  // the body that is kept is not the client's
  bool is_head = false;      // no body may be sent
  bool is_sent = false;      // the answer is
  bool is_begun = false;     // a part of the answer is nghttp2's, and more may follow
  uint32_t list_bytes = 0;   // of headers, as SETTINGS_MAX_HEADER_LIST_SIZE counts
  uint32_t frame_bytes = 0;  // of the DATA frame that is being read
  uint64_t body_bytes = 0;   // that came and were not taken
  size_t held = 0;
  // Values of pseudo headers, packed headers from headers_at to headers_end, the body from body_at.
  Text request{};
  // 0 while headers are being read: headers_end, and body_at, which is that or behind what of a
  // streaming request's body was taken.
  uint32_t headers_at = 0, headers_end = 0, body_at = 0;
  Part method{}, scheme{}, path{}, authority{};
  // Status and headers, the body, packed trailers. Of a begun one what has not left, and trailers.
  Text answer{};
  uint32_t sent_end = 0, body_end = 0;  // sent_end: of the body, what was sent ends here
  uint32_t pieces = 0;                  // of a begun one, in `answer`
};

// ---- Memory, inline for its use for each header ----

inline bool Http2Session::hold(Stream& stream, size_t bytes) {
  if (bytes > bounds_.connection_bytes - std::min(held_, bounds_.connection_bytes)) return false;
  if (!pool_.hold(bytes)) return false;
  held_ += bytes;
  stream.held += bytes;
  return true;
}

inline void Http2Session::give_up(Stream& stream, size_t bytes) {
  pool_.give_back(bytes);
  held_ -= bytes;
  stream.held -= bytes;
}

// Where that many more bytes of it must be written; null: no memory.
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

// In front of a packed header's name and value.
struct Http2PackedSizes {
  uint32_t name, value;
};

inline Http2PackedSizes read_packed_sizes(const char* at) {
  Http2PackedSizes sizes;
  std::memcpy(&sizes, at, sizeof sizes);
  return sizes;
}

}  // namespace sluice::wire
