#include "protocol/limitd/client.h"

#include <utility>

#include "client/socket.h"

namespace sluice::limitd {
namespace {

constexpr const char* id = "1";
constexpr size_t reply_bytes_max = size_t{16} << 20;  // a list of 100 long keys is far below

LimitdResult failed(std::string error) {
  return {std::nullopt, std::move(error)};
}

void append_varint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void append_number(uint32_t field, uint64_t value, std::string& out) {
  append_varint(field * 8, out);
  append_varint(value, out);
}

void append_text(uint32_t field, std::string_view text, std::string& out) {
  append_varint(field * 8 + 2, out);
  append_varint(text.size(), out);
  out += text;
}

bool take_varint(std::string_view& from, uint64_t& value) {
  value = 0;
  for (unsigned i = 0; i < 10 && !from.empty(); ++i) {
    const auto byte = static_cast<uint8_t>(from.front());
    from.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << (7 * i);
    if (byte < 0x80) return true;
  }
  return false;
}

// Calls visit(field, number, bytes) for each field. False: that is no message.
template <class Visit>
bool each_field(std::string_view body, Visit&& visit) {
  while (!body.empty()) {
    uint64_t key = 0, value = 0;
    if (!take_varint(body, key) || !take_varint(body, value)) return false;
    std::string_view bytes;
    if (key % 8 == 2 && value <= body.size()) {
      bytes = body.substr(0, value);
      body.remove_prefix(value);
    } else if (key % 8 != 0) {
      return false;
    }
    if (!visit(key / 8, static_cast<int64_t>(value), bytes)) return false;
  }
  return true;
}

// The numbers of a level begin behind field `before`.
bool read_level(std::string_view body, uint64_t before, LimitdAnswer& answer,
                LimitdAnswer::Item& level) {
  return each_field(body, [&](uint64_t field, int64_t value, std::string_view bytes) {
    if (before == 2 && field == 1) answer.conformant = value != 0;
    if (before == 2 && field == 2) answer.delayed = value != 0;
    if (before == 1 && field == 1) level.instance = bytes;
    if (field == before + 1) level.remaining = value;
    if (field == before + 2) level.reset = value;
    if (field == before + 3) level.limit = value;
    return true;
  });
}

bool read_body(std::string_view body, LimitdMethod method, LimitdAnswer& answer) {
  switch (method) {
    case LimitdMethod::take:
    case LimitdMethod::wait:
      return read_level(body, 2, answer, answer.level);
    case LimitdMethod::put:
    case LimitdMethod::get:
      return read_level(body, 0, answer, answer.level);
    case LimitdMethod::status:
      return each_field(body, [&](uint64_t field, int64_t, std::string_view bytes) {
        return field != 1 || read_level(bytes, 1, answer, answer.items.emplace_back());
      });
    case LimitdMethod::ping:
      return true;
  }
  return false;
}

uint64_t field_of(LimitdMethod method) {
  switch (method) {
    case LimitdMethod::take:
    case LimitdMethod::wait:
      return 101;
    case LimitdMethod::put:
      return 102;
    case LimitdMethod::status:
      return 103;
    case LimitdMethod::ping:
      return 104;
    case LimitdMethod::get:
      return 105;
  }
  return 0;
}

}  // namespace

std::string limitd_request(const LimitdQuestion& question) {
  std::string body;
  append_text(1, id, body);
  append_text(2, question.type, body);
  append_text(3, question.key, body);
  append_number(4, static_cast<uint64_t>(question.method), body);
  if (question.count)
    append_number(5, static_cast<uint64_t>(int64_t{*question.count}), body);
  else if (question.method == LimitdMethod::put)
    append_number(6, 1, body);
  std::string frame;
  append_varint(body.size(), frame);
  return frame + body;
}

LimitdResult limitd_reply(std::string_view body, LimitdMethod method) {
  constexpr uint64_t id_field = 1, error_field = 100;
  LimitdAnswer answer;
  bool unknown_type = false, there = false, mine = false;
  const bool sound = each_field(body, [&](uint64_t field, int64_t, std::string_view bytes) {
    if (field == id_field) mine = bytes == id;
    if (field == error_field) unknown_type = true;
    if (field != field_of(method)) return true;
    there = true;
    return read_body(bytes, method, answer);
  });
  if (sound && mine && unknown_type) return failed("there is no such bucket type");
  if (!sound || !mine || !there) return failed("that is no reply of limitd's protocol");
  return {std::move(answer), ""};
}

LimitdClient::LimitdClient(std::string host, uint16_t port, std::chrono::milliseconds timeout)
    : host_(std::move(host)), port_(port), timeout_(timeout) {}

LimitdResult LimitdClient::ask(const LimitdQuestion& question) const {
  std::string problem, got;
  auto socket = client::Socket::connect(host_, port_, timeout_, problem);
  if (!socket) return failed(std::move(problem));
  if (!socket->send(limitd_request(question))) return failed(client::sent_too_late);
  while (socket->receive(got, problem)) {
    std::string_view rest = got;
    uint64_t size = 0;
    if (!take_varint(rest, size)) {
      if (got.size() >= 10) return failed("that is no reply of limitd's protocol");
      continue;
    }
    if (size > reply_bytes_max) return failed("that is no reply of limitd's protocol");
    if (rest.size() >= size) return limitd_reply(rest.substr(0, size), question.method);
  }
  return failed(std::move(problem));
}

}  // namespace sluice::limitd
