#include "protocol/resp/client.h"

#include <utility>

#include "client/looks_like.h"

namespace sluice::resp {
namespace {

using wire::RespItem;
using wire::RespReplyReader;

constexpr const char* no_resp_reply = "that is not a reply of Redis' protocol";
// Read bytes are moved to the front when so many in front of them are done with.
constexpr size_t moved_bytes = 1 << 20;

bool build(wire::RespItems& items, RespValue& value, unsigned depth) {
  RespItem item;
  if (depth > resp_depth_max || !items.next(item)) return false;
  while (item.kind == RespItem::Kind::attributes) {
    RespValue left_out;
    for (size_t i = 0; i < 2 * item.count; ++i)
      if (!build(items, left_out, depth + 1)) return false;
    if (!items.next(item)) return false;
  }
  value = {item.kind, std::string(item.text), item.number, item.real, {}};
  const bool is_map = item.kind == RespItem::Kind::map;
  if (!is_map && item.kind != RespItem::Kind::list) return true;
  value.items.resize(is_map ? 2 * item.count : item.count);
  for (RespValue& one : value.items)
    if (!build(items, one, depth + 1)) return false;
  return true;
}

bool is_push(std::string_view reply) {
  wire::RespItems items(reply);
  RespItem item;
  return items.next(item) && item.push;
}

}  // namespace

std::optional<RespValue> resp_value(std::string_view bytes) {
  wire::RespItems items(bytes);
  RespValue value;
  if (!build(items, value, 0)) return std::nullopt;
  return value;
}

base::Result<RespClient> RespClient::connect(const std::string& host, uint16_t port,
                                             std::chrono::milliseconds timeout) {
  auto socket = calls::Socket::connect(host, port, timeout);
  if (!socket) return std::move(socket).problem();
  return RespClient(*std::move(socket), timeout);
}

void RespClient::add(std::span<const std::string_view> words) {
  wire::append_resp_command(words, out_);
  ++awaited_;
}

base::Result<std::vector<RespValue>> RespClient::exchange() {
  socket_.renew(timeout_);
  if (!socket_.send(out_.view())) return base::Problem{calls::sent_too_late};
  out_.clear();
  return read_replies();
}

base::Result<std::vector<RespValue>> RespClient::read_replies() {
  std::vector<RespValue> replies;
  RespReplyReader reader;
  std::string in;
  size_t done = 0;
  while (awaited_ > 0) {
    const std::string_view rest = std::string_view(in).substr(done);
    const auto result = reader.next(rest);
    if (result.found == RespReplyReader::Found::reply) {
      const std::string_view reply = rest.substr(0, result.consumed);
      done += result.consumed;
      if (is_push(reply)) continue;
      auto value = resp_value(reply);
      if (!value) return base::Problem{"a reply is nested too deeply"};
      replies.push_back(std::move(*value));
      --awaited_;
      continue;
    }
    if (result.found == RespReplyReader::Found::broken)
      return base::Problem{no_resp_reply + calls::looks_like(in)};
    if (done >= moved_bytes) {
      in.erase(0, done);
      done = 0;
    }
    if (base::Done received = socket_.receive(in); !received) return std::move(received).problem();
  }
  return replies;
}

}  // namespace sluice::resp
