#include "protocol/load.h"

#include <array>
#include <random>

#include "base/buffer.h"
#include "protocol/droplet/message.h"
#include "wire/websocket.h"

namespace sluice::droplet {
namespace {

using namespace std::string_view_literals;
using protocol::LoadOutcome;

constexpr std::string_view websocket_key = "dGhlIHNhbXBsZSBub25jZQ==";

class DropletLoadClient final : public protocol::OrderedLoadClient {
 public:
  DropletLoadClient() {
    wire::append_websocket_upgrade("127.0.0.1", websocket_key, greeting_);
    accept_ = wire::read_websocket_handshake(greeting_.view()).accept;
  }

  std::string_view greeting() const override { return greeting_.view(); }
  std::string_view welcome() const override { return {accept_.data(), accept_.size()}; }

  void append_request(std::string_view key, std::string& out) override {
    // The masks need not be unpredictable. They only have to vary, so that the server has to
    // unmask.
    wire::WebsocketMask mask{};
    for (char& byte : mask) byte = static_cast<char>(masks_() >> 8);
    constexpr uint32_t per_second = 1'000, per_minute = 60'000;
    message_.clear();
    append_droplet_request({.bucket = key, .id = "x", .limits = {per_second, per_minute}},
                           message_);
    frame_.clear();
    wire::append_masked_websocket_frame(wire::websocket_binary, message_.view(), mask, frame_);
    out += frame_.view();
  }

  size_t read_reply(std::string_view text, LoadOutcome& outcome) const override {
    wire::WebsocketHeader header;
    if (!header.read(text)) return 0;
    if (header.masked || header.payload_bytes > droplet_response_bytes_max) {
      outcome = LoadOutcome::error;
      return text.size();
    }
    const auto size = static_cast<size_t>(header.payload_bytes);
    if (text.size() < header.bytes + size) return 0;
    DropletResponse response;
    // A refusal without a balance is how droplet's protocol expresses that the server failed.
    const bool is_response = header.final && header.opcode == wire::websocket_binary &&
                             read_droplet_response(text.substr(header.bytes, size), response) &&
                             response.left[0];
    outcome = !is_response      ? LoadOutcome::error
              : response.accept ? LoadOutcome::allowed
                                : LoadOutcome::denied;
    return header.bytes + size;
  }

 private:
  base::Buffer greeting_, message_, frame_;
  std::array<char, 28> accept_{};
  std::minstd_rand masks_{1};
};

protocol::LoadRequests count_requests(std::string_view text) {
  return protocol::count_frames(text, [](std::string_view rest) -> size_t {
    wire::WebsocketHeader header;
    return header.read(rest) ? header.bytes + static_cast<size_t>(header.payload_bytes) : 0;
  });
}

}  // namespace

extern const protocol::Load load;
const protocol::Load load = {
    .make_client = []() -> std::unique_ptr<protocol::LoadClient> {
      return std::make_unique<DropletLoadClient>();
    },
    .count_requests = count_requests,
    .reply = "\x82\x09\x08\x01\x10\xe7\x07\x18\xdf\xd4\x03"sv,
    .greeting_reply =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
};

}  // namespace sluice::droplet
