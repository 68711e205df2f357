#include "protocol/limitd/client.h"

#include <utility>

#include "client/looks_like.h"
#include "client/socket.h"

namespace sluice::limitd {
namespace {

constexpr const char* id = "1";
constexpr const char* no_reply = "that is not a reply of limitd's protocol";
constexpr size_t reply_bytes_max = size_t{16} << 20;  // a list of 100 long keys is far below

LimitdResult failed(std::string error) {
  return {std::nullopt, std::move(error), false};
}

LimitdReply::Kind kind_of_reply(LimitdMethod method) {
  switch (method) {
    case LimitdMethod::take:
    case LimitdMethod::wait:
      return LimitdReply::Kind::take;
    case LimitdMethod::put:
      return LimitdReply::Kind::put;
    case LimitdMethod::status:
      return LimitdReply::Kind::status;
    case LimitdMethod::ping:
      return LimitdReply::Kind::pong;
    case LimitdMethod::get:
      return LimitdReply::Kind::get;
  }
  return LimitdReply::Kind::error;
}

LimitdAnswer::Item item_of(std::string_view key, const LimitdLevel& level) {
  return {std::string(key), level.remaining, static_cast<int64_t>(level.reset), level.limit};
}

}  // namespace

std::string limitd_request(const LimitdQuestion& question) {
  const bool counts = question.count.has_value();
  base::Buffer out;
  append_limitd_request({.id = {id},
                         .type = question.type,
                         .key = question.key,
                         .method = question.method,
                         .count = question.count.value_or(1),
                         .has_count = counts,
                         .all = question.method == LimitdMethod::put && !counts},
                        out);
  return std::string(out.view());
}

LimitdResult limitd_reply(std::string_view body, LimitdMethod method) {
  LimitdReply reply;
  if (!read_limitd_reply(body, reply) || reply.id.numeric || reply.id.bytes != id)
    return failed(no_reply);
  if (reply.kind == LimitdReply::Kind::error)
    return {std::nullopt, "there is no such bucket type", true};
  if (reply.kind != kind_of_reply(method)) return failed(no_reply);
  LimitdAnswer answer{reply.conformant, reply.delayed, item_of("", reply.level), {}};
  for (const auto& [key, level] : reply.items) answer.items.push_back(item_of(key, level));
  return {std::move(answer), "", false};
}

LimitdClient::LimitdClient(std::string host, uint16_t port, std::chrono::milliseconds timeout)
    : host_(std::move(host)), port_(port), timeout_(timeout) {}

LimitdResult LimitdClient::ask(const LimitdQuestion& question) const {
  std::string problem, got;
  auto socket = calls::Socket::connect(host_, port_, timeout_, problem);
  if (!socket) return failed(std::move(problem));
  if (!socket->send(limitd_request(question))) return failed(calls::sent_too_late);
  while (socket->receive(got, problem)) {
    std::string_view body;
    size_t used = 0;
    const LimitdFrame frame = find_limitd_frame(got, reply_bytes_max, body, used);
    if (frame == LimitdFrame::bad) return failed(no_reply + calls::looks_like(got));
    if (frame != LimitdFrame::whole) continue;
    LimitdResult result = limitd_reply(body, question.method);
    if (!result.answer && result.error == no_reply) result.error += calls::looks_like(got);
    return result;
  }
  return failed(problem + calls::looks_like(got));
}

}  // namespace sluice::limitd
