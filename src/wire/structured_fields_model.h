// For tests: a naive parser of Structured Field Values, written from the algorithms of RFC 9651,
// 4.2. It shares nothing with the code under test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// GCC 12 warns falsely: it believes that moved-from values of a variant are read.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace sluice::wire::sf_model {

// A bare item.
struct Bare {
  enum class Type : uint8_t { integer, decimal, string, token, bytes, boolean, date, display };
  Type type = Type::integer;
  int64_t number = 0;  // of an integer or a date; of a boolean: 0 or 1
  std::string text{};  // of a decimal, string, token or display string: as read; of bytes: decoded
  friend bool operator==(const Bare&, const Bare&) = default;
};

using Parameters = std::vector<std::pair<std::string, Bare>>;

struct Item {
  Bare value;
  Parameters parameters{};
  friend bool operator==(const Item&, const Item&) = default;

  // The parameter `name`; null: there is none.
  const Bare* find(std::string_view name) const {
    for (const auto& [key, bare] : parameters)
      if (key == name) return &bare;
    return nullptr;
  }
};

using List = std::vector<Item>;

// Thrown where the RFC says "fail parsing"; the functions parse_... catch it.
struct Failure {};

inline bool is_one_of(char c, std::string_view set) {
  return set.find(c) != std::string_view::npos;
}
inline constexpr std::string_view digits = "0123456789";
inline constexpr std::string_view lower = "abcdefghijklmnopqrstuvwxyz";
inline constexpr std::string_view upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
inline bool is_letter(char c) {
  return is_one_of(c, lower) || is_one_of(c, upper);
}

class Parser {
 public:
  explicit Parser(std::string_view input) : in_(input) {}

  // 4.2, steps 2 and 6 to 8, around one of the two functions below.
  template <class Value>
  Value whole(Value (Parser::*what)()) {
    discard(" ");
    Value value = (this->*what)();
    discard(" ");
    if (!in_.empty()) throw Failure();
    return value;
  }

  List list() {  // 4.2.1, without inner lists
    List members;
    while (!in_.empty()) {
      members.push_back(item());
      discard(" \t");
      if (in_.empty()) return members;
      if (consume() != ',') throw Failure();
      discard(" \t");
      if (in_.empty()) throw Failure();
    }
    return members;
  }

  Item item() {  // 4.2.3
    Item one{bare()};
    one.parameters = parameters();
    return one;
  }

 private:
  // The next character; NUL at the end. No value begins with a NUL, so a NUL in the input does not
  // matter.
  char ahead() const { return in_.empty() ? '\0' : in_[0]; }
  char consume() {
    if (in_.empty()) throw Failure();
    const char c = in_[0];
    in_.remove_prefix(1);
    return c;
  }
  void discard(std::string_view set) {
    while (!in_.empty() && is_one_of(in_[0], set)) consume();
  }

  Bare bare() {  // 4.2.3.1
    const char c = ahead();
    if (c == '-' || (c != '\0' && is_one_of(c, digits))) return number();
    if (c == '"') return {Bare::Type::string, 0, string()};
    if (c == '*' || is_letter(c)) return {Bare::Type::token, 0, token()};
    if (c == ':') return {Bare::Type::bytes, 0, bytes()};
    if (c == '?') return boolean();
    if (c == '@') return date();
    if (c == '%') return {Bare::Type::display, 0, display()};
    throw Failure();
  }

  Parameters parameters() {  // 4.2.3.2
    Parameters all;
    while (ahead() == ';') {
      consume();
      discard(" ");
      const std::string name = key();
      Bare value{Bare::Type::boolean, 1};
      if (ahead() == '=') {
        consume();
        value = bare();
      }
      all.emplace_back(name, value);
    }
    return all;
  }

  std::string key() {  // 4.2.3.3
    if (ahead() == '\0' || (!is_one_of(ahead(), lower) && ahead() != '*')) throw Failure();
    std::string name;
    while (!in_.empty() &&
           (is_one_of(in_[0], lower) || is_one_of(in_[0], digits) || is_one_of(in_[0], "_-.*")))
      name += consume();
    return name;
  }

  Bare number() {  // 4.2.4
    bool is_decimal = false;
    int64_t sign = 1;
    std::string text;
    if (ahead() == '-') {
      consume();
      sign = -1;
    }
    if (in_.empty() || !is_one_of(in_[0], digits)) throw Failure();
    while (!in_.empty()) {
      const char c = in_[0];
      if (is_one_of(c, digits)) {
        text += consume();
      } else if (!is_decimal && c == '.') {
        if (text.size() > 12) throw Failure();
        text += consume();
        is_decimal = true;
      } else {
        break;
      }
      if (text.size() > (is_decimal ? 16u : 15u)) throw Failure();
    }
    if (!is_decimal) return {Bare::Type::integer, sign * std::stoll(text)};
    const size_t fraction = text.size() - 1 - text.find('.');
    if (fraction < 1 || fraction > 3) throw Failure();
    return {Bare::Type::decimal, 0, (sign < 0 ? "-" : "") + text};
  }

  std::string string() {  // 4.2.5
    std::string text;
    consume();
    while (true) {
      char c = consume();
      if (c == '\\') {
        c = consume();
        if (c != '"' && c != '\\') throw Failure();
        text += c;
      } else if (c == '"') {
        return text;
      } else if (c < ' ' || c > '~') {
        throw Failure();
      } else {
        text += c;
      }
    }
  }

  std::string token() {  // 4.2.6
    std::string text;
    while (!in_.empty() && (is_letter(in_[0]) || is_one_of(in_[0], digits) ||
                            is_one_of(in_[0], "!#$%&'*+-.^_`|~:/")))
      text += consume();
    return text;
  }

  std::string bytes() {  // 4.2.7, base64 without its last bits
    consume();
    const std::string alphabet =
        std::string(upper) + std::string(lower) + std::string(digits) + "+/";
    std::string decoded;
    uint32_t bits = 0, count = 0;
    while (true) {
      const char c = consume();
      if (c == ':') return decoded;
      if (c == '=') continue;
      const size_t value = alphabet.find(c);
      if (value == std::string::npos) throw Failure();
      bits = bits << 6 | static_cast<uint32_t>(value);
      count += 6;
      if (count < 8) continue;
      count -= 8;
      decoded += static_cast<char>(static_cast<unsigned char>(bits >> count));
    }
  }

  Bare boolean() {  // 4.2.8
    consume();
    const char c = consume();
    if (c != '0' && c != '1') throw Failure();
    return {Bare::Type::boolean, c - '0'};
  }

  Bare date() {  // 4.2.9
    consume();
    const Bare value = number();
    if (value.type != Bare::Type::integer) throw Failure();
    return {Bare::Type::date, value.number};
  }

  std::string display() {  // 4.2.10
    consume();
    if (consume() != '"') throw Failure();
    std::string decoded;
    while (true) {
      const char c = consume();
      if (c < ' ' || c > '~') throw Failure();
      if (c == '"') break;
      if (c != '%') {
        decoded += c;
        continue;
      }
      const std::string_view hex = "0123456789abcdef";
      const size_t high = hex.find(consume()), low = hex.find(consume());
      if (high == std::string::npos || low == std::string::npos) throw Failure();
      decoded += static_cast<char>(static_cast<unsigned char>(high * 16 + low));
    }
    check_utf8(decoded);
    return decoded;
  }

  // RFC 3629, section 4, by the number that each sequence encodes.
  static void check_utf8(std::string_view text) {
    for (size_t i = 0; i < text.size();) {
      const auto first = static_cast<unsigned char>(text[i++]);
      if (first < 0x80) continue;
      const size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
      if (first < 0xC0 || first > 0xF7 || text.size() - i < more) throw Failure();
      uint32_t code = first & (0x3Fu >> more);
      for (size_t k = 0; k < more; ++k, ++i) {
        const auto c = static_cast<unsigned char>(text[i]);
        if ((c & 0xC0) != 0x80) throw Failure();
        code = code << 6 | (c & 0x3F);
      }
      const uint32_t least = more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000;
      if (code < least || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) throw Failure();
    }
  }

  std::string_view in_;
};

template <class Value>
std::optional<Value> parse(std::string_view text, Value (Parser::*what)()) {
  try {
    return Parser(text).whole(what);
  } catch (const Failure&) {
    return {};
  }
}

// Nothing if parsing fails.
inline std::optional<Item> parse_item(std::string_view text) {
  return parse(text, &Parser::item);
}
inline std::optional<List> parse_list(std::string_view text) {
  return parse(text, &Parser::list);
}

}  // namespace sluice::wire::sf_model
