// HTTP/2 (RFC 9113) as the load generator speaks it: one connection on which requests are POSTs
// whose header block the server knows from the first of them. Used by load.cc files alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/load.h"

namespace sluice::protocol {

namespace http2_load {

// Of HTTP/2 (RFC 9113).
inline constexpr size_t frame_header_bytes = 9, stream_at = 5;
enum FrameType : uint8_t {
  frame_data = 0,
  frame_headers = 1,
  frame_rst_stream = 3,
  frame_settings = 4,
  frame_ping = 6,
  frame_goaway = 7,
  frame_window_update = 8
};
inline constexpr uint8_t flag_ack = 1, flag_end_stream = 1, flag_end_headers = 4, flag_padded = 8;
inline constexpr uint16_t setting_enable_push = 2, setting_streams = 3;

// A connection's window for requests before the server opens it.
inline constexpr uint32_t window_at_first = 65'535;
// What the window for replies is opened to, and when it is opened again.
inline constexpr uint32_t replies_window = 0x3fff0000, replies_window_step = 1 << 20;
// A request with a key as long as may be.
inline constexpr size_t request_bytes_max = 256;

inline std::string number_text(uint64_t value, size_t size) {
  std::string text;
  for (size_t i = size; i-- > 0;) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

inline uint32_t number_at(std::string_view text, size_t at, size_t size) {
  uint32_t value = 0;
  for (const char byte : text.substr(at, size)) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

inline void append_frame(FrameType type, uint8_t flags, uint32_t stream, std::string_view payload,
                         std::string& out) {
  out += number_text(uint64_t{payload.size()} << 16 | uint64_t{type} << 8 | flags, 5);
  out += number_text(stream, 4);
  out += payload;
}

// HPACK (RFC 7541): `:method: POST` and `:scheme: http` are in its own table; of the first request
// the others, four of them, go into the connection's, and later ones name them by their places
// there.
inline constexpr std::string_view in_static_table = "\x83\x86";
inline constexpr std::string_view later_headers = "\x83\x86\xc1\xc0\xbf\xbe";

using Fields = std::pair<std::string_view, std::string_view>[4];  // each shorter than 127 bytes

inline std::string first_headers(const Fields& fields) {
  std::string block(in_static_table);
  for (const auto& [name, value] : fields) {
    block += '\x40';
    for (const std::string_view text : {name, value}) {
      block += static_cast<char>(text.size());
      block += text;
    }
  }
  return block;
}

}  // namespace http2_load

// `outcome_of`: what the body of a reply says, which comes in one frame.
class Http2LoadConnection final : public LoadConnection {
 public:
  Http2LoadConnection(std::string_view first_block,
                      LoadOutcome (*outcome_of)(std::string_view data))
      : first_block_(first_block), outcome_of_(outcome_of) {}

  bool has_room(size_t requests) const override {
    return is_open_ && unanswered_ + requests <= streams_max_ &&
           window_ >= static_cast<int64_t>(requests * http2_load::request_bytes_max);
  }

  void append(std::string_view request, std::string& out) override {
    const uint32_t stream = next_stream_;
    next_stream_ += 2;
    ++unanswered_;
    const size_t headers_end = http2_load::frame_header_bytes + http2_load::later_headers.size();
    window_ -= static_cast<int64_t>(request.size() - headers_end - http2_load::frame_header_bytes);
    http2_load::append_frame(http2_load::frame_headers, http2_load::flag_end_headers, stream,
                             stream == 1 ? first_block_ : http2_load::later_headers, out);
    out += request.substr(headers_end, http2_load::stream_at);
    out += http2_load::number_text(stream, 4);
    out += request.substr(headers_end + http2_load::frame_header_bytes);
  }

  LoadRead read(std::string_view text, std::string& out) override {
    if (text.size() < http2_load::frame_header_bytes) return {};
    const size_t size = http2_load::frame_header_bytes + http2_load::number_at(text, 0, 3);
    if (text.size() < size) return {};
    LoadRead read{.bytes = size};
    const auto type = static_cast<uint8_t>(text[3]), flags = static_cast<uint8_t>(text[4]);
    const uint32_t stream = http2_load::number_at(text, http2_load::stream_at, 4);
    const std::string_view payload =
        text.substr(http2_load::frame_header_bytes, size - http2_load::frame_header_bytes);
    switch (type) {
      case http2_load::frame_data:
        open_replies_window(payload.size(), out);
        if ((flags & http2_load::flag_padded) == 0) outcomes_[stream] = outcome_of_(payload);
        if ((flags & http2_load::flag_end_stream) != 0) end(stream, read);
        break;
      case http2_load::frame_headers:
        if ((flags & http2_load::flag_end_stream) != 0) end(stream, read);
        break;
      case http2_load::frame_rst_stream:
        outcomes_.erase(stream);
        end(stream, read);
        break;
      default:
        read_control(type, flags, payload, out);
    }
    return read;
  }

 private:
  void end(uint32_t stream, LoadRead& read) {
    read.is_reply = true;
    read.request = stream / 2;
    --unanswered_;
    const auto found = outcomes_.find(stream);
    if (found == outcomes_.end()) return;  // without a message it is an error
    read.outcome = found->second;
    outcomes_.erase(found);
  }

  void open_replies_window(size_t bytes, std::string& out) {
    unopened_ += static_cast<uint32_t>(bytes);
    if (unopened_ < http2_load::replies_window_step) return;
    http2_load::append_frame(http2_load::frame_window_update, 0, 0,
                             http2_load::number_text(unopened_, 4), out);
    unopened_ = 0;
  }

  void read_control(uint8_t type, uint8_t flags, std::string_view payload, std::string& out) {
    const bool is_ack = (flags & http2_load::flag_ack) != 0;
    switch (type) {
      case http2_load::frame_settings:
        if (is_ack) break;
        read_settings(payload);
        http2_load::append_frame(http2_load::frame_settings, http2_load::flag_ack, 0, "", out);
        break;
      case http2_load::frame_ping:
        if (!is_ack)
          http2_load::append_frame(http2_load::frame_ping, http2_load::flag_ack, 0, payload, out);
        break;
      case http2_load::frame_window_update:
        window_ += http2_load::number_at(payload, 0, 4);
        break;
      case http2_load::frame_goaway:
        is_open_ = false;
        break;
      default:
        break;
    }
  }

  // The server keeps what is the default else: a window for each request of 64 KiB, a header table
  // of 4 KiB.
  void read_settings(std::string_view payload) {
    for (size_t at = 0; at + 6 <= payload.size(); at += 6)
      if (http2_load::number_at(payload, at, 2) == http2_load::setting_streams)
        streams_max_ = http2_load::number_at(payload, at + 2, 4);
    is_open_ = true;
  }

  const std::string_view first_block_;
  LoadOutcome (*const outcome_of_)(std::string_view data);
  std::map<uint32_t, LoadOutcome> outcomes_;  // of streams whose message has arrived
  uint32_t next_stream_ = 1;
  size_t unanswered_ = 0, streams_max_ = SIZE_MAX;
  int64_t window_ = http2_load::window_at_first;
  uint32_t unopened_ = 0;  // bytes of replies that the window was not opened again for
  bool is_open_ = false;   // the server's settings have arrived, and no GOAWAY
};

// What opens a connection, and a request of that body, for Http2LoadConnection::append.
inline std::string http2_load_greeting() {
  std::string greeting = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const std::string no_push =
      http2_load::number_text(http2_load::setting_enable_push, 2) + http2_load::number_text(0, 4);
  http2_load::append_frame(http2_load::frame_settings, 0, 0, no_push, greeting);
  http2_load::append_frame(http2_load::frame_window_update, 0, 0,
                           http2_load::number_text(http2_load::replies_window, 4), greeting);
  return greeting;
}
inline void append_http2_load_request(std::string_view body, std::string& out) {
  // Which stream it is, the connection says.
  http2_load::append_frame(http2_load::frame_headers, http2_load::flag_end_headers, 0,
                           http2_load::later_headers, out);
  http2_load::append_frame(http2_load::frame_data, http2_load::flag_end_stream, 0, body, out);
}

}  // namespace sluice::protocol
