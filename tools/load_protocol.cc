#include "load_protocol.h"

#include <array>
#include <random>

namespace sluice::tools {
namespace {

using namespace std::string_view_literals;

constexpr size_t one_byte_varint_max = 127;

class Divvy final : public LoadProtocol {
 public:
  void append_request(std::string_view key, std::string& out) override {
    out += "HIT method=GET path=/bench ip=";
    out += key;
    out += '\n';
  }

  size_t read_reply(std::string_view text, Outcome& outcome) const override {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return 0;
    outcome = text.starts_with("OK true ")    ? Outcome::allowed
              : text.starts_with("OK false ") ? Outcome::denied
                                              : Outcome::error;
    return end + 1;
  }
};

// A field of text. That and the messages here are so short that each length is a single byte.
void append_text(char tag, std::string_view text, std::string& out) {
  out += tag;
  out += static_cast<char>(text.size());
  out += text;
}

// Of the flag that says whether a request was granted, field 1 of both protocols' replies, with
// what must be there besides.
Outcome outcome_of(std::string_view message, char next_tag) {
  if (message.size() < 4 || message[0] != '\x08' || message[2] != next_tag) return Outcome::error;
  if (message[1] == 1) return Outcome::allowed;
  return message[1] == 0 ? Outcome::denied : Outcome::error;
}

class Limitd final : public LoadProtocol {
 public:
  Limitd() { append_text('\x0a', limitd_id, head_); }

  void append_request(std::string_view key, std::string& out) override {
    const size_t start = out.size();
    out += '\0';  // the length, known at the end
    out += head_;
    append_text('\x12', "bench", out);
    append_text('\x1a', key, out);
    out += "\x20\x00\x28\x01"sv;  // method TAKE, count 1
    out[start] = static_cast<char>(out.size() - start - 1);
  }

  size_t read_reply(std::string_view text, Outcome& outcome) const override {
    if (text.empty()) return 0;
    const size_t length = static_cast<unsigned char>(text.front());
    // Longer than any reply to a TAKE. What follows has no known beginning, and is an error too.
    if (length > one_byte_varint_max) {
      outcome = Outcome::error;
      return text.size();
    }
    if (text.size() <= length) return 0;
    outcome = read_body(text.substr(1, length));
    return 1 + length;
  }

 private:
  Outcome read_body(std::string_view body) const {
    constexpr std::string_view take_tag = "\xaa\x06";
    if (!body.starts_with(head_)) return Outcome::error;
    body.remove_prefix(head_.size());
    if (!body.starts_with(take_tag)) return Outcome::error;
    body.remove_prefix(take_tag.size());
    if (body.empty() || static_cast<unsigned char>(body.front()) != body.size() - 1)
      return Outcome::error;
    constexpr char remaining_tag = '\x18';
    return outcome_of(body.substr(1), remaining_tag);
  }

  std::string head_;  // the id, with which requests and replies begin
};

class Droplet final : public LoadProtocol {
 public:
  Droplet() {
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

  size_t read_reply(std::string_view text, Outcome& outcome) const override {
    if (text.size() < 2) return 0;
    const size_t length = static_cast<unsigned char>(text[1]);
    constexpr size_t short_frame_max = 125;
    if (length > short_frame_max) {  // masked, or longer than any response
      outcome = Outcome::error;
      return text.size();
    }
    if (text.size() < 2 + length) return 0;
    // A refusal that names no period is what droplet's clients see of a server without memory.
    constexpr char second_tag = '\x10';
    outcome = text[0] == '\x82' ? outcome_of(text.substr(2, length), second_tag) : Outcome::error;
    return 2 + length;
  }

 private:
  std::string greeting_ =
      "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ";
  std::minstd_rand masks_{1};
};

}  // namespace

std::unique_ptr<LoadProtocol> load_protocol(std::string_view name) {
  if (name == "divvy") return std::make_unique<Divvy>();
  if (name == "limitd") return std::make_unique<Limitd>();
  if (name == "droplet") return std::make_unique<Droplet>();
  return nullptr;
}

}  // namespace sluice::tools
