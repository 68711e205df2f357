#include "tests/support/resp_client.h"

#include <gtest/gtest.h>

#include <charconv>
#include <csignal>
#include <stdexcept>
#include <utility>

#include "tests/support/divvy_server.h"

namespace sluice::tests {
namespace {

using Type = RespValue::Type;

[[noreturn]] void reject(std::string_view head) {
  throw std::runtime_error("no reply begins with: " + std::string(head));
}

int64_t number_of(std::string_view head) {
  const std::string_view digits = head.substr(1);
  int64_t number = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (problem != std::errc() || end != digits.data() + digits.size()) reject(head);
  return number;
}

size_t count_of(std::string_view head) {
  const int64_t number = number_of(head);
  if (number < 0) reject(head);
  return static_cast<size_t>(number);
}

TcpClient connect(uint16_t port) {
  auto client = TcpClient::connect(port);
  if (!client) throw std::runtime_error("the server refuses a connection");
  return *std::move(client);
}

std::string to_text(const std::vector<RespValue>& list, char open, char close) {
  std::string text(1, open);
  for (const RespValue& item : list) {
    if (text.size() > 1) text += ", ";
    text += to_text(item);
  }
  return text + close;
}

}  // namespace

std::string to_text(const RespValue& value) {
  switch (value.type) {
    case Type::simple:
      return value.text;
    case Type::error:
      return "(error) " + value.text;
    case Type::integer:
      return std::to_string(value.number);
    case Type::bulk:
      return '"' + value.text + '"';
    case Type::null:
      return "(nil)";
    case Type::boolean:
      return value.number != 0 ? "(true)" : "(false)";
    case Type::real:
      return "(double) " + value.text;
    case Type::list:
      return to_text(value.list, '[', ']');
    case Type::map:
      return to_text(value.list, '{', '}');
  }
  return {};
}

void PrintTo(const RespValue& value, std::ostream* out) {
  *out << to_text(value);
}

std::string to_resp(const std::vector<std::string>& words) {
  std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words)
    bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return bytes;
}

RespClient::RespClient(uint16_t port, bool byte_by_byte)
    : socket_(connect(port)), byte_by_byte_(byte_by_byte) {}

bool RespClient::send(std::string_view bytes) {
  if (!byte_by_byte_) return socket_.send(bytes);
  // The middle of a long packet, which one long word makes long, goes in pieces.
  constexpr size_t long_bytes = 4096, end_bytes = 256, piece_bytes = 61;
  const Deadline deadline = soon();
  for (size_t at = 0, size = 1; at < bytes.size(); at += size) {
    const bool middle =
        bytes.size() > long_bytes && at >= end_bytes && at + end_bytes + piece_bytes < bytes.size();
    size = middle ? piece_bytes : 1;
    if (!socket_.send(bytes.substr(at, size), deadline)) return false;
  }
  return true;
}

std::optional<RespValue> RespClient::read(Deadline deadline) {
  auto line = socket_.read_line(deadline);
  if (!line) {
    if (!socket_.rest().empty())
      throw std::runtime_error("the connection ended within a reply: " + socket_.rest());
    return std::nullopt;
  }
  if (line->size() < 2 || line->back() != '\r') reject(*line);
  line->pop_back();
  return read_value(*line, deadline);
}

RespValue RespClient::operator()(const std::vector<std::string>& words) {
  if (send(to_resp(words)))
    if (auto reply = read()) return *std::move(reply);
  throw std::runtime_error("the connection ended instead of a reply to " + words.at(0));
}

RespValue RespClient::read_value(std::string_view head, Deadline deadline) {
  const std::string_view rest = head.substr(1);
  switch (head.front()) {
    case '+':
      return {.type = Type::simple, .text = std::string(rest)};
    case '-':
      return {.type = Type::error, .text = std::string(rest)};
    case ':':
      return {.type = Type::integer, .number = number_of(head)};
    case '$':
      if (rest == "-1") return {};
      return {.type = Type::bulk, .text = read_bulk(head, deadline)};
    case '_':
      if (!rest.empty()) reject(head);
      return {};
    case '#':
      if (rest != "t" && rest != "f") reject(head);
      return {.type = Type::boolean, .number = rest == "t" ? 1 : 0};
    case ',':
      return {.type = Type::real, .text = std::string(rest)};
    case '*':
      if (rest == "-1") return {};
      return {.type = Type::list, .list = read_items(count_of(head), deadline)};
    case '%':
      return {.type = Type::map, .list = read_items(2 * count_of(head), deadline)};
    default:
      reject(head);
  }
}

std::string RespClient::read_bulk(std::string_view size, Deadline deadline) {
  const size_t count = count_of(size);
  auto bytes = socket_.read_bytes(count + 2, deadline);
  if (!bytes || !bytes->ends_with("\r\n")) throw std::runtime_error("a text that does not end");
  bytes->resize(count);
  return *std::move(bytes);
}

std::vector<RespValue> RespClient::read_items(size_t count, Deadline deadline) {
  std::vector<RespValue> items;
  while (items.size() < count) {
    auto item = read(deadline);
    if (!item) throw std::runtime_error("the connection ended within a list");
    items.push_back(*std::move(item));
  }
  return items;
}

RespServer::RespServer(Process::Options options) {
  options.arguments.insert(options.arguments.begin(), {"resp", "--port", "0"});
  options.environment.try_emplace("SLUICE_LOG_LEVEL", "warn");
  process_ = std::make_unique<Process>(options);
  port_ = await_listening(*process_, "resp");
}

RespServer::~RespServer() {
  if (process_->wait(std::chrono::steady_clock::now())) return;
  process_->signal(SIGTERM);
  EXPECT_EQ(process_->wait(soon()), 0) << "the server's end on SIGTERM";
}

}  // namespace sluice::tests
