#include <charconv>
#include <limits>

#include "client/dialect.h"
#include "protocol/limitd/message.h"
#include "protocol/limitd/ring.h"

namespace sluice::limitd {
namespace client_side {
namespace {

using calls::CodecRead;
using Kind = LimitdReply::Kind;

constexpr size_t body_bytes_max = size_t{16} << 20;

Kind kind_for(client_verb verb) {
  switch (verb) {
    case client_verb::take:
    case client_verb::wait:
      return Kind::take;
    case client_verb::put:
    case client_verb::reset:
      return Kind::put;
    case client_verb::peek:
      return Kind::get;
    case client_verb::list:
      return Kind::status;
    case client_verb::ping:
      return Kind::pong;
    case client_verb::command:
    case client_verb::charge:
    case client_verb::reserve:
    case client_verb::extend:
    case client_verb::renew:
    case client_verb::commit:
    case client_verb::release:
    case client_verb::acquire:
      break;
  }
  return Kind::error;
}

int64_t seconds_of(const LimitdLevel& level) {
  return level.reset > INT64_MAX ? INT64_MAX : static_cast<int64_t>(level.reset);
}

client_result result_of(const LimitdReply& reply, client_verb verb) {
  client_result result;
  if (reply.kind == Kind::error) {
    result.error = client_errc::no_rule;
    result.text = "there is no such bucket type";
    return result;
  }
  if (reply.kind != kind_for(verb)) {
    result.error = client_errc::bad_reply;
    result.text = "the reply is to another kind of request";
    return result;
  }
  result.allowed = reply.kind == Kind::take && reply.conformant;
  result.delayed = reply.delayed;
  if (reply.kind != Kind::pong && reply.kind != Kind::status) {
    result.remaining = reply.level.remaining;
    result.limit = reply.level.limit;
    result.reset_at = seconds_of(reply.level);
  }
  for (const auto& [key, level] : reply.items) {
    client_level& one = result.levels.emplace_back();
    one.name = key;
    one.remaining = level.remaining;
    one.limit = level.limit;
    one.reset_at = seconds_of(level);
  }
  return result;
}

class ClientCodec final : public calls::Codec {
 public:
  CodecRead read(std::string_view in, calls::Replies& replies, base::Buffer&) override {
    size_t done = 0;
    for (;;) {
      std::string_view body;
      size_t bytes = 0;
      switch (find_limitd_frame(in.substr(done), body_bytes_max, body, bytes)) {
        case LimitdFrame::unfinished:
          return {done, client_errc::none, {}};
        case LimitdFrame::bad:
          return {done, client_errc::bad_reply, "the reply is too long"};
        case LimitdFrame::whole:
          break;
      }
      done += bytes;
      if (body.empty()) continue;
      if (!read_limitd_reply(body, reply_))
        return {done, client_errc::bad_reply, "that is not a reply of limitd's protocol"};
      uint64_t id = 0;
      const std::string_view text = reply_.id.bytes;
      const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), id);
      // Replies with other ids are skipped, because the original server sends most replies twice.
      if (reply_.id.numeric || bad != std::errc() || end != text.data() + text.size()) continue;
      if (const calls::Expected* expected = replies.find(id))
        replies.answer(id, result_of(reply_, expected->verb));
    }
  }

 private:
  LimitdReply reply_;
};

base::Done fill(const client_request& request, LimitdRequest& to) {
  to.type = request.subject.type;
  to.key = request.subject.key;
  to.silent = request.no_answer;
  switch (request.verb) {
    case client_verb::take:
      to.method = LimitdMethod::take;
      break;
    case client_verb::wait:
      to.method = LimitdMethod::wait;
      break;
    case client_verb::peek:
      to.method = LimitdMethod::get;
      break;
    case client_verb::put:
      to.method = LimitdMethod::put;
      to.all = request.all || !request.n;
      break;
    case client_verb::reset:
      to.method = LimitdMethod::put;
      to.all = true;
      break;
    case client_verb::list:
      to.method = LimitdMethod::status;
      break;
    case client_verb::ping:
      to.method = LimitdMethod::ping;
      break;
    case client_verb::charge:
      return base::Problem{"limitd's protocol has no charges"};
    case client_verb::command:
      return base::Problem{"limitd's protocol has no other commands"};
    case client_verb::reserve:
    case client_verb::extend:
    case client_verb::renew:
    case client_verb::commit:
    case client_verb::release:
    case client_verb::acquire:
      return base::Problem{"limitd's protocol has no reservations"};
  }
  const bool counts = request.verb == client_verb::take || request.verb == client_verb::wait ||
                      (request.verb == client_verb::put && !to.all);
  if (!counts) return {};
  to.has_count = true;
  to.count = request.n.value_or(1);
  if (to.count < std::numeric_limits<int32_t>::min() ||
      to.count > std::numeric_limits<int32_t>::max())
    return base::Problem{"limitd's protocol counts up to 2147483647 units"};
  return {};
}

base::Done encode(const client_request& request, calls::EncodeContext& context, base::Buffer& out) {
  const client_subject& subject = request.subject;
  if (!request.several.empty() || !subject.limits.empty() || !subject.entries.empty())
    return base::Problem{
        "limitd's protocol carries a type and a key, and neither entries nor limits"};
  if (request.no_answer && request.verb != client_verb::put && request.verb != client_verb::reset)
    return base::Problem{"of limitd's requests only a put may go without an answer"};
  char id[20];
  const auto end = std::to_chars(id, id + sizeof id, context.id).ptr;
  LimitdRequest message;
  message.id = {{id, static_cast<size_t>(end - id)}, false};
  if (base::Done filled = fill(request, message); !filled) return filled;
  append_limitd_request(message, out);
  return {};
}

class RingSharder final : public calls::Sharder {
 public:
  explicit RingSharder(std::span<const std::string> names) : ring_(names) {}
  size_t shard_of(std::string_view type, std::string_view key) const override {
    std::string text(type);
    text += ':';
    text += key;
    return ring_.host_of(text);
  }

 private:
  const Ring ring_;
};

constexpr std::string_view schemes[] = {"limitd"};

}  // namespace
}  // namespace client_side

extern const calls::Dialect client_dialect;
const calls::Dialect client_dialect = {
    .schemes = client_side::schemes,
    .port = 9231,
    .timeout = base::milliseconds(500),
    .waits_have_timeout = false,
    .in_order = false,
    .connects_at_once = true,
    .has_silent = true,
    .reconnect = {.first = base::milliseconds(200),
                  .longest = base::seconds(1),
                  .growth = calls::Reconnect::Growth::fibonacci},
    .away = {.queue_while_waiting = true, .keep_on_failed_attempt = true},
    .make_codec = [](const calls::Target&) -> std::unique_ptr<calls::Codec> {
      return std::make_unique<client_side::ClientCodec>();
    },
    .encode = client_side::encode,
    .make_sharder = [](std::span<const calls::Target> hosts) -> std::unique_ptr<calls::Sharder> {
      std::vector<std::string> names;
      for (const calls::Target& host : hosts) names.push_back(host.name);
      return std::make_unique<client_side::RingSharder>(names);
    },
};

}  // namespace sluice::limitd
