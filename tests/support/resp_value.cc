#include "tests/support/resp_value.h"

#include <charconv>
#include <stdexcept>
#include <utility>

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

std::string to_text(const std::vector<RespValue>& list, char open, char close) {
  std::string text(1, open);
  for (const RespValue& item : list) {
    if (text.size() > 1) text += ", ";
    text += to_text(item);
  }
  return text + close;
}

std::string read_bulk(std::string_view size, RespSource& source) {
  const size_t count = count_of(size);
  auto bytes = source.bytes(count + 2);
  if (!bytes || !bytes->ends_with("\r\n")) throw std::runtime_error("a text that does not end");
  bytes->resize(count);
  return *std::move(bytes);
}

std::vector<RespValue> read_items(size_t count, RespSource& source) {
  std::vector<RespValue> items;
  while (items.size() < count) {
    auto item = read_resp(source);
    if (!item) throw std::runtime_error("the replies end within a list");
    items.push_back(*std::move(item));
  }
  return items;
}

RespValue read_value(std::string_view head, RespSource& source) {
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
      return {.type = Type::bulk, .text = read_bulk(head, source)};
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
      return {.type = Type::list, .list = read_items(count_of(head), source)};
    case '%':
      return {.type = Type::map, .list = read_items(2 * count_of(head), source)};
    default:
      reject(head);
  }
}

class TextSource final : public RespSource {
 public:
  explicit TextSource(std::string_view text) : left_(text) {}
  std::optional<std::string> line() override {
    if (left_.empty()) return std::nullopt;
    const size_t end = left_.find('\n');
    if (end == left_.npos) throw std::runtime_error("a line that does not end");
    std::string line(left_.substr(0, end));
    left_.remove_prefix(end + 1);
    return line;
  }
  std::optional<std::string> bytes(size_t count) override {
    if (left_.size() < count) return std::nullopt;
    std::string bytes(left_.substr(0, count));
    left_.remove_prefix(count);
    return bytes;
  }

 private:
  std::string_view left_;
};

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

std::optional<RespValue> read_resp(RespSource& source) {
  auto line = source.line();
  if (!line) return std::nullopt;
  if (line->size() < 2 || line->back() != '\r') reject(*line);
  line->pop_back();
  return read_value(*line, source);
}

std::vector<RespValue> read_resp(std::string_view text) {
  TextSource source(text);
  std::vector<RespValue> values;
  while (auto value = read_resp(source)) values.push_back(*std::move(value));
  return values;
}

}  // namespace sluice::tests
