#include "protocol/load.h"

#include <algorithm>

namespace sluice::limitd {
namespace {

using namespace std::string_view_literals;
using protocol::LoadOutcome;

constexpr size_t one_byte_varint_max = 127;

// The same in every request.
constexpr std::string_view request_id = "1";

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
  Client() { append_text('\x0a', request_id, head_); }

  void append_request(std::string_view key, std::string& out) override {
    const size_t start = out.size();
    out += '\0';  // the length, known at the end
    out += head_;
    append_text('\x12', "bench", out);
    append_text('\x1a', key, out);
    out += "\x20\x00\x28\x01"sv;  // method TAKE, count 1
    out[start] = static_cast<char>(out.size() - start - 1);
  }

  size_t read_reply(std::string_view text, LoadOutcome& outcome) const override {
    if (text.empty()) return 0;
    const size_t length = static_cast<unsigned char>(text.front());
    // Longer than any reply to a TAKE. What follows has no known beginning, and is an error too.
    if (length > one_byte_varint_max) {
      outcome = LoadOutcome::error;
      return text.size();
    }
    if (text.size() <= length) return 0;
    outcome = read_body(text.substr(1, length));
    return 1 + length;
  }

 private:
  LoadOutcome read_body(std::string_view body) const {
    constexpr std::string_view take_tag = "\xaa\x06";
    if (!body.starts_with(head_)) return LoadOutcome::error;
    body.remove_prefix(head_.size());
    if (!body.starts_with(take_tag)) return LoadOutcome::error;
    body.remove_prefix(take_tag.size());
    if (body.empty() || static_cast<unsigned char>(body.front()) != body.size() - 1)
      return LoadOutcome::error;
    constexpr char remaining_tag = '\x18';
    return outcome_of(body.substr(1), remaining_tag);
  }

  std::string head_;  // the id, with which requests and replies begin
};

protocol::LoadRequests count_requests(std::string_view text) {
  return protocol::count_frames(text, [](std::string_view rest) -> size_t {
    constexpr size_t length_bytes_max = 5;
    size_t length = 0;
    for (size_t i = 0; i < std::min(rest.size(), length_bytes_max); ++i) {
      const auto byte = static_cast<unsigned char>(rest[i]);
      length |= size_t{byte & 127u} << (7 * i);
      if (byte < 128) return i + 1 + length;
    }
    return 0;
  });
}

}  // namespace

extern const protocol::Load load;
const protocol::Load load = {
    .make_client = []() -> std::unique_ptr<protocol::LoadClient> {
      return std::make_unique<Client>();
    },
    .count_requests = count_requests,
    .reply =
        "\x14\x0a\x01"
        "1\xaa\x06\x0e\x08\x01\x18\xe7\x07\x20\x8c\xa2\xf7\xa7\x05\x28\xe8\x07"sv,
};

}  // namespace sluice::limitd
