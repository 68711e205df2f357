#include "protocol/load.h"

#include <array>
#include <random>

namespace sluice::droplet {
namespace {

using namespace std::string_view_literals;
using protocol::LoadOutcome;

// The key and its answer in RFC 6455's example. With a key that never changes nobody here needs a
// SHA-1.
constexpr std::string_view websocket_key = "dGhlIHNhbXBsZSBub25jZQ==";
constexpr std::string_view websocket_accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

// A field of text. That and the messages here are so short that each length is a single byte.
void append_text(char tag, std::string_view text, std::string& out) {
  out += tag;
  out += static_cast<char>(text.size());
  out += text;
}

// Of the flag that says whether a request was granted, field 1 of a reply, with what must be there
// besides.
LoadOutcome outcome_of(std::string_view message, char next_tag) {
  if (message.size() < 4 || message[0] != '\x08' || message[2] != next_tag)
    return LoadOutcome::error;
  if (message[1] == 1) return LoadOutcome::allowed;
  return message[1] == 0 ? LoadOutcome::denied : LoadOutcome::error;
}

class Client final : public protocol::LoadClient {
 public:
  Client() {
    greeting_ += websocket_key;
    greeting_ += "\r\n\r\n";
  }

  std::string_view greeting() const override { return greeting_; }
  std::string_view welcome() const override { return websocket_accept; }

  void append_request(std::string_view key, std::string& out) override {
    std::string message;
    append_text('\x0a', key, message);
    append_text('\x12', "x", message);
    message += "\x28\xe8\x07"sv;      // 1,000 a second
    message += "\x30\xe0\xd4\x03"sv;  // 60,000 a minute
    out += '\x82';                    // final, binary
    out += static_cast<char>(0x80 | message.size());
    // They need only differ, so that the server has something to undo.
    std::array<char, 4> mask{};
    for (char& byte : mask) byte = static_cast<char>(masks_() >> 8);
    out.append(mask.data(), mask.size());
    for (size_t i = 0; i < message.size(); ++i)
      out += static_cast<char>(message[i] ^ mask[i % mask.size()]);
  }

  size_t read_reply(std::string_view text, LoadOutcome& outcome) const override {
    if (text.size() < 2) return 0;
    const size_t length = static_cast<unsigned char>(text[1]);
    constexpr size_t short_frame_max = 125;
    if (length > short_frame_max) {  // masked, or longer than any response
      outcome = LoadOutcome::error;
      return text.size();
    }
    if (text.size() < 2 + length) return 0;
    // A refusal that names no period is what droplet's clients see of a server without memory.
    constexpr char second_tag = '\x10';
    outcome =
        text[0] == '\x82' ? outcome_of(text.substr(2, length), second_tag) : LoadOutcome::error;
    return 2 + length;
  }

 private:
  std::string greeting_ =
      "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ";
  std::minstd_rand masks_{1};
};

protocol::LoadRequests count_requests(std::string_view text) {
  return protocol::count_frames(text, [](std::string_view rest) -> size_t {
    constexpr size_t mask_bytes = 4;
    if (rest.size() < 2) return 0;
    const size_t length = static_cast<unsigned char>(rest[1]) & 127u;
    if (length < 126) return 2 + mask_bytes + length;
    const size_t header = length == 126 ? 4 : 10;
    if (rest.size() < header) return 0;
    size_t long_length = 0;
    for (const char byte : rest.substr(2, header - 2))
      long_length = long_length << 8 | static_cast<unsigned char>(byte);
    return header + mask_bytes + long_length;
  });
}

}  // namespace

extern const protocol::Load load;
const protocol::Load load = {
    .make_client = []() -> std::unique_ptr<protocol::LoadClient> {
      return std::make_unique<Client>();
    },
    .count_requests = count_requests,
    .reply = "\x82\x09\x08\x01\x10\xe7\x07\x18\xdf\xd4\x03"sv,
    .greeting_reply =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
};

}  // namespace sluice::droplet
