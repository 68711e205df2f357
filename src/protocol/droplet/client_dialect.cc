#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <random>

#include "client/dialect.h"
#include "protocol/droplet/message.h"
#include "wire/http1_response.h"
#include "wire/websocket.h"

namespace sluice::droplet {
namespace client_side {
namespace {

using calls::CodecRead;
using Event = wire::WebsocketEvent;

constexpr size_t message_bytes_max = 64 << 10;
constexpr const char* no_server = "that is not a server of droplet's protocol";

wire::WebsocketMask mask_of(uint32_t entropy) {
  wire::WebsocketMask mask;
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = static_cast<char>(entropy >> (8 * i));
  return mask;
}

std::string new_key(std::random_device& device) {
  unsigned char bytes[16], text[25];
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(device());
  EVP_EncodeBlock(text, bytes, sizeof bytes);
  return {reinterpret_cast<const char*>(text), 24};
}

bool read_response(std::string_view message, client_result& result, client_verb verb) {
  DropletResponse response;
  if (!read_droplet_response(message, response)) return false;
  result.allowed = verb == client_verb::peek || response.accept;
  for (size_t i = 0; i < response.left.size(); ++i) {
    if (!response.left[i]) continue;
    client_level& level = result.levels.emplace_back();
    level.name = droplet_periods[i];
    level.allowed = *response.left[i] >= 0;
    level.remaining = *response.left[i];
    result.remaining = std::min(result.remaining.value_or(INT64_MAX), *level.remaining);
  }
  return true;
}

class ClientCodec final : public calls::Codec {
 public:
  explicit ClientCodec(const calls::Target& target) : name_(target.name) {}

  void open(base::Buffer& out) override {
    std::random_device device;
    mask_seed_ = device();
    base::Buffer head;
    wire::append_websocket_upgrade(name_, new_key(device), head);
    // The value that a server must answer, computed by the server's own code.
    wanted_ = wire::read_websocket_handshake(head.view()).accept;
    out.append(head.view());
  }
  bool is_open() const override { return is_open_; }

  CodecRead read(std::string_view in, calls::Replies& replies, base::Buffer& out) override {
    return is_open_ ? read_frames(in, replies, out) : read_head(in);
  }

  void goodbye(base::Buffer& out) override {
    if (is_open_)
      wire::append_masked_websocket_frame(wire::websocket_close, "\x03\xe8", mask(), out);
  }

 private:
  wire::WebsocketMask mask() { return mask_of(mask_seed_ = mask_seed_ * 1664525 + 1013904223); }

  CodecRead read_head(std::string_view in) {
    using Found = wire::Http1ResponseReader::Found;
    const auto found = response_.next(in);
    switch (found.found) {
      case Found::incomplete:
        return {0, client_errc::none, {}};
      case Found::broken:
        return {0, client_errc::unavailable, no_server};
      case Found::response:
        return {found.consumed, client_errc::unavailable,
                "the server refused: " + std::to_string(response_.status()) + " " +
                    std::string(response_.body().substr(0, 200))};
      case Found::switching:
        break;
    }
    if (response_.field("sec-websocket-accept") != std::string_view(wanted_.data(), wanted_.size()))
      return {found.consumed, client_errc::unavailable,
              std::string(no_server) + ": its handshake does not answer ours"};
    is_open_ = true;
    return {found.consumed, client_errc::none, {}};
  }

  CodecRead read_frames(std::string_view in, calls::Replies& replies, base::Buffer& out) {
    size_t done = 0;
    frames_.renew();
    for (;;) {
      wire::WebsocketHeader header;
      if (header.read(in.substr(done)) && header.payload_bytes > message_bytes_max)
        return {done, client_errc::bad_reply, "the reply is too long"};
      const Event event = frames_.next(in.substr(done));
      done += event.consumed;
      switch (event.kind) {
        case Event::Kind::incomplete:
          return {done, client_errc::none, {}};
        case Event::Kind::nothing:
          if (frames_.unfinished_bytes() > message_bytes_max)
            return {done, client_errc::bad_reply, "the reply is too long"};
          break;
        case Event::Kind::ping:
          wire::append_masked_websocket_frame(wire::websocket_pong, event.payload, mask(), out);
          break;
        case Event::Kind::binary: {
          const calls::Expected* expected = replies.oldest();
          client_result result;
          if (expected == nullptr)
            return {done, client_errc::bad_reply, "the server sent a message that answers nothing"};
          if (!read_response(event.payload, result, expected->verb))
            return {done, client_errc::bad_reply, "that is not a response of droplet's protocol"};
          replies.answer_oldest(std::move(result));
          break;
        }
        case Event::Kind::close:
          return {done, client_errc::disconnected,
                  "the server closed with " + std::to_string(event.code) +
                      (event.payload.empty() ? "" : ": " + std::string(event.payload))};
        case Event::Kind::text:
        case Event::Kind::broken:
          return {done, client_errc::bad_reply, "that is not a response of droplet's protocol"};
      }
    }
  }

  const std::string name_;
  bool is_open_ = false;
  uint32_t mask_seed_ = 0;
  std::array<char, 28> wanted_{};
  wire::Http1ResponseReader response_{{.head_bytes = 16 << 10, .body_bytes = 16 << 10}};
  wire::WebsocketReader frames_;
};

base::Done set_limits(const client_subject& subject, DropletRequest& to) {
  for (const client_limit& limit : subject.limits) {
    size_t at = 0;
    if (!limit.calendar.empty())
      return base::Problem{"droplet's periods are of one length; it has none of the calendar"};
    while (at < droplet_windows.size() && droplet_windows[at].us != limit.window.count()) ++at;
    if (at == droplet_windows.size())
      return base::Problem{"a limit's window must be 1 s, 1 min, 1 h, 1 day, 7 days or 30 days"};
    if (to.limits[at] != 0) return base::Problem{"two limits have the same window"};
    if (limit.quota < 1 || limit.quota > std::numeric_limits<uint32_t>::max())
      return base::Problem{"a limit's quota must be 1 to 4294967295"};
    if (limit.algorithm != client_algorithm::token_bucket || limit.burst != 0)
      return base::Problem{"droplet's limits are token buckets of one size"};
    to.limits[at] = static_cast<uint32_t>(limit.quota);
  }
  return {};
}

base::Done encode(const client_request& request, calls::EncodeContext& context, base::Buffer& out) {
  const client_subject& subject = request.subject;
  const int64_t n = request.n.value_or(1);
  if (request.verb != client_verb::take && request.verb != client_verb::peek)
    return base::Problem{"droplet's protocol has takes and queries alone"};
  if (!request.several.empty() || !subject.entries.empty() || !subject.type.empty())
    return base::Problem{
        "droplet's protocol carries a key and limits, and neither entries nor types"};
  if (n < std::numeric_limits<int32_t>::min() || n > std::numeric_limits<int32_t>::max())
    return base::Problem{"droplet's protocol counts from -2147483648 to 2147483647 units"};
  char id[20];
  const auto end = std::to_chars(id, id + sizeof id, context.id).ptr;
  DropletRequest message;
  message.bucket = subject.key;
  message.id = {id, static_cast<size_t>(end - id)};
  if (request.verb == client_verb::peek) {
    message.type = query_type;
  } else {
    message.count = static_cast<int32_t>(n);
    message.reset = request.reset_first;
    if (base::Done done = set_limits(subject, message); !done) return done;
  }
  base::Buffer body;
  append_droplet_request(message, body);
  wire::append_masked_websocket_frame(wire::websocket_binary, body.view(), mask_of(context.entropy),
                                      out);
  return {};
}

constexpr std::string_view schemes[] = {"ws"};

}  // namespace
}  // namespace client_side

extern const calls::Dialect client_dialect;
const calls::Dialect client_dialect = {
    .schemes = client_side::schemes,
    .port = 3000,
    .timeout = base::seconds(5),
    .connects_at_once = true,
    // As in droplet's client: the delay of 500 ms grows before its first use.
    .reconnect = {.first = base::milliseconds(500),
                  .longest = base::seconds(3'600),
                  .growth = calls::Reconnect::Growth::exponential,
                  .factor = 1.2,
                  .grows_first = true,
                  .tries = 15,
                  .given_up = calls::Reconnect::GivenUp::for_ever},
    .away = {.queue_while_waiting = true, .keep_on_failed_attempt = true},
    .make_codec = [](const calls::Target& target) -> std::unique_ptr<calls::Codec> {
      return std::make_unique<client_side::ClientCodec>(target);
    },
    .encode = client_side::encode,
};

}  // namespace sluice::droplet
