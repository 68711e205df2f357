#include "protocol/load.h"

#include <algorithm>
#include <map>
#include <utility>

#include "protocol/envoy/client_messages.h"
#include "wire/grpc.h"

namespace sluice::envoy {
namespace grpc_load {
namespace {

using protocol::LoadOutcome;
using protocol::LoadRead;

// Of HTTP/2 (RFC 9113).
constexpr size_t frame_header_bytes = 9, stream_at = 5;
enum FrameType : uint8_t {
  frame_data = 0,
  frame_headers = 1,
  frame_rst_stream = 3,
  frame_settings = 4,
  frame_ping = 6,
  frame_goaway = 7,
  frame_window_update = 8
};
constexpr uint8_t flag_ack = 1, flag_end_stream = 1, flag_end_headers = 4, flag_padded = 8;
constexpr uint16_t setting_enable_push = 2, setting_streams = 3;

// A connection's window for requests before the server opens it.
constexpr uint32_t window_at_first = 65'535;
// What the window for replies is opened to, and when it is opened again.
constexpr uint32_t replies_window = 0x3fff0000, replies_window_step = 1 << 20;
// A request with a key as long as may be.
constexpr size_t request_bytes_max = 256;
constexpr size_t key_digits = 12;

std::string number_text(uint64_t value, size_t size) {
  std::string text;
  for (size_t i = size; i-- > 0;) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

uint32_t number_at(std::string_view text, size_t at, size_t size) {
  uint32_t value = 0;
  for (const char byte : text.substr(at, size)) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

void append_frame(FrameType type, uint8_t flags, uint32_t stream, std::string_view payload,
                  std::string& out) {
  out += number_text(uint64_t{payload.size()} << 16 | uint64_t{type} << 8 | flags, 5);
  out += number_text(stream, 4);
  out += payload;
}

// HPACK (RFC 7541): `:method: POST` and `:scheme: http` are in its own table; of the first request
// the others go into the connection's, and later ones name them by their places there.
constexpr std::string_view in_static_table = "\x83\x86";
constexpr std::string_view later_headers = "\x83\x86\xc1\xc0\xbf\xbe";

std::string first_headers() {
  constexpr std::pair<std::string_view, std::string_view> fields[] = {
      {":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"},
      {":authority", "127.0.0.1:8081"},
      {"content-type", "application/grpc"},
      {"te", "trailers"}};
  std::string block(in_static_table);
  for (const auto& [name, value] : fields) {
    block += '\x40';
    for (const std::string_view text : {name, value}) {  // each shorter than 127 bytes
      block += static_cast<char>(text.size());
      block += text;
    }
  }
  return block;
}

LoadOutcome outcome_of(std::string_view data) {
  RateLimitResponse response;
  if (data.size() < wire::grpc_prefix_bytes) return LoadOutcome::error;
  const wire::GrpcPrefix prefix = wire::GrpcPrefix::read(data);
  const std::string_view message = data.substr(wire::grpc_prefix_bytes);
  if (prefix.flags != 0 || prefix.bytes != message.size() || !read_response(message, response))
    return LoadOutcome::error;
  switch (response.overall_code) {
    case Code::ok:
      return LoadOutcome::allowed;
    case Code::over_limit:
      return LoadOutcome::denied;
    default:
      return LoadOutcome::error;
  }
}

// A reply is one message, in one frame: it has some thirty bytes.
class GrpcLoadConnection final : public protocol::LoadConnection {
 public:
  explicit GrpcLoadConnection(std::string_view first_block) : first_block_(first_block) {}

  bool has_room(size_t requests) const override {
    return is_open_ && unanswered_ + requests <= streams_max_ &&
           window_ >= static_cast<int64_t>(requests * request_bytes_max);
  }

  void append(std::string_view request, std::string& out) override {
    const uint32_t stream = next_stream_;
    next_stream_ += 2;
    ++unanswered_;
    const size_t headers_end = frame_header_bytes + later_headers.size();
    window_ -= static_cast<int64_t>(request.size() - headers_end - frame_header_bytes);
    append_frame(frame_headers, flag_end_headers, stream,
                 stream == 1 ? first_block_ : later_headers, out);
    out += request.substr(headers_end, stream_at);
    out += number_text(stream, 4);
    out += request.substr(headers_end + frame_header_bytes);
  }

  LoadRead read(std::string_view text, std::string& out) override {
    if (text.size() < frame_header_bytes) return {};
    const size_t size = frame_header_bytes + number_at(text, 0, 3);
    if (text.size() < size) return {};
    LoadRead read{.bytes = size};
    const auto type = static_cast<uint8_t>(text[3]), flags = static_cast<uint8_t>(text[4]);
    const uint32_t stream = number_at(text, stream_at, 4);
    const std::string_view payload = text.substr(frame_header_bytes, size - frame_header_bytes);
    switch (type) {
      case frame_data:
        open_replies_window(payload.size(), out);
        if ((flags & flag_padded) == 0) outcomes_[stream] = outcome_of(payload);
        if ((flags & flag_end_stream) != 0) end(stream, read);
        break;
      case frame_headers:
        if ((flags & flag_end_stream) != 0) end(stream, read);
        break;
      case frame_rst_stream:
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
    if (unopened_ < replies_window_step) return;
    append_frame(frame_window_update, 0, 0, number_text(unopened_, 4), out);
    unopened_ = 0;
  }

  void read_control(uint8_t type, uint8_t flags, std::string_view payload, std::string& out) {
    const bool is_ack = (flags & flag_ack) != 0;
    switch (type) {
      case frame_settings:
        if (is_ack) break;
        read_settings(payload);
        append_frame(frame_settings, flag_ack, 0, "", out);
        break;
      case frame_ping:
        if (!is_ack) append_frame(frame_ping, flag_ack, 0, payload, out);
        break;
      case frame_window_update:
        window_ += number_at(payload, 0, 4);
        break;
      case frame_goaway:
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
      if (number_at(payload, at, 2) == setting_streams)
        streams_max_ = number_at(payload, at + 2, 4);
    is_open_ = true;
  }

  const std::string_view first_block_;
  std::map<uint32_t, LoadOutcome> outcomes_;  // of streams whose message has come
  uint32_t next_stream_ = 1;
  size_t unanswered_ = 0, streams_max_ = SIZE_MAX;
  int64_t window_ = window_at_first;
  uint32_t unopened_ = 0;  // bytes of replies that the window was not opened again for
  bool is_open_ = false;   // the server's settings have come, and no GOAWAY
};

class GrpcLoadClient final : public protocol::LoadClient {
 public:
  GrpcLoadClient() : first_block_(first_headers()), greeting_("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") {
    const std::string no_push = number_text(setting_enable_push, 2) + number_text(0, 4);
    append_frame(frame_settings, 0, 0, no_push, greeting_);
    append_frame(frame_window_update, 0, 0, number_text(replies_window, 4), greeting_);
  }

  std::string_view greeting() const override { return greeting_; }

  void append_request(std::string_view key, std::string& out) override {
    value_.assign("key:").append(key_digits - std::min(key_digits, key.size()), '0').append(key);
    request_.clear();
    request_.domain = "bench";
    request_.entries.push_back({"remote_address", value_});
    request_.descriptors.emplace_back().entry_count = 1;
    message_.clear();
    envoy::append_request(request_, message_);
    std::string data(wire::grpc_prefix_bytes, '\0');
    wire::GrpcPrefix{.bytes = static_cast<uint32_t>(message_.size())}.write(data.data());
    data += message_.view();
    // Which stream it is, the connection says.
    append_frame(frame_headers, flag_end_headers, 0, later_headers, out);
    append_frame(frame_data, flag_end_stream, 0, data, out);
  }

  std::unique_ptr<protocol::LoadConnection> connect() const override {
    return std::make_unique<GrpcLoadConnection>(first_block_);
  }

 private:
  const std::string first_block_;
  std::string greeting_, value_;
  RateLimitRequest request_;
  base::Buffer message_;
};

}  // namespace
}  // namespace grpc_load

extern const protocol::Load load;
const protocol::Load load = {
    .make_client = []() -> std::unique_ptr<protocol::LoadClient> {
      return std::make_unique<grpc_load::GrpcLoadClient>();
    },
};

}  // namespace sluice::envoy
