#include "policy/javascript_regex.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "policy/text.h"

namespace sluice::policy {

namespace {

constexpr std::string_view blanks =
    R"(\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff})";
constexpr std::string_view no_blanks =
    R"(\x{0}-\x{8}\x{e}-\x{1f}!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff})";
constexpr std::string_view line_ends = R"(\n\r\x{2028}\x{2029})";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_octal(char c) {
  return c >= '0' && c <= '7';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
int hex_of(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}
bool is_surrogate(uint32_t c) {
  return c >= 0xd800 && c <= 0xdfff;
}

class Translation {
 public:
  Translation(std::string_view source, bool multiline, bool ignore_case)
      : source_(source), multiline_(multiline), ignore_case_(ignore_case) {}

  base::Result<std::string> run() {
    if (count_groups()) {
      while (error_.empty() && at_ < source_.size()) step();
      if (error_.empty() && !open_.empty()) error_ = "a `(` is not closed";
    }
    if (!error_.empty()) return base::Problem{std::move(error_)};
    return std::move(out_);
  }

 private:
  // A class escape, or a single character of a class.
  struct Atom {
    std::string_view set;    // of a class escape: its text within a class
    uint32_t character = 0;  // of a single character
  };

  bool fail(std::string error) {
    error_ = std::move(error);
    return false;
  }
  bool has(size_t ahead = 0) const { return at_ + ahead < source_.size(); }
  char peek(size_t ahead = 0) const { return has(ahead) ? source_[at_ + ahead] : '\0'; }
  bool take(std::string_view text) {
    if (!begins_with(source_.substr(at_), text)) return false;
    at_ += text.size();
    return true;
  }

  // Counts groups and collects their names first, because a reference may precede its group.
  bool count_groups() {
    bool in_class = false;
    for (size_t i = 0; i < source_.size(); ++i) {
      const char c = source_[i];
      if (c == '\\') {
        ++i;
      } else if (in_class) {
        in_class = c != ']';
      } else if (c == '[') {
        in_class = true;
      } else if (c == '(') {
        const std::string_view rest = source_.substr(i + 1);
        if (!begins_with(rest, "?")) {
          ++groups_;
        } else if (is_name_ahead(rest)) {
          ++groups_;
          const std::string_view name = name_in(rest.substr(2));
          if (name.empty()) return fail("a group's name is empty or does not end");
          if (group_named(name))
            return fail("two groups have the name `" + std::string(name) + "`");
          names_.emplace_back(name, groups_);
        }
      }
    }
    return true;
  }
  static bool is_name_ahead(std::string_view rest) {
    return begins_with(rest, "?<") && rest.size() > 2 && rest[2] != '=' && rest[2] != '!';
  }
  // The name before the `>`.
  static std::string_view name_in(std::string_view text) {
    const size_t end = text.find('>');
    return end == std::string_view::npos ? std::string_view() : text.substr(0, end);
  }
  std::optional<size_t> group_named(std::string_view name) const {
    for (const auto& [known, number] : names_)
      if (known == name) return number;
    return std::nullopt;
  }

  void step() {
    const char c = peek();
    switch (c) {
      case '\\':
        return escape();
      case '[':
        return character_class();
      case '(':
        return open_group();
      case ')':
        ++at_;
        if (open_.empty()) {
          fail("a `)` closes nothing");
          return;
        }
        out_ += ')';
        repeatable_ = open_.back();
        open_.pop_back();
        return;
      case '|':
        ++at_;
        out_ += '|';
        repeatable_ = false;
        return;
      case '^':
        ++at_;
        assertion(multiline_ ? "(?<![^" + std::string(line_ends) + "])" : "^");
        return;
      case '$':
        ++at_;
        assertion(multiline_ ? "(?![^" + std::string(line_ends) + "])" : "$");
        return;
      case '.':
        ++at_;
        atom("[^" + std::string(line_ends) + "]");
        return;
      case '*':
      case '+':
      case '?':
        ++at_;
        repeat(std::string(1, c));
        return;
      case '{':
        if (std::string count = braces(); !count.empty()) {
          repeat(count);
          return;
        }
        break;
      default:
        break;
    }
    const CodePoint character = decode(source_, at_);
    at_ += character.size;
    literal(character.value);
  }

  void atom(std::string_view text) {
    out_ += text;
    repeatable_ = true;
  }
  void assertion(std::string_view text) {
    out_ += text;
    repeatable_ = false;
  }
  void reference(size_t group) {
    atom((ignore_case_ ? "(?i:\\g{" : "(?:\\g{") + std::to_string(group) + "})");
  }
  void repeat(const std::string& count) {
    if (!repeatable_) {
      fail("`" + count + "` has nothing to repeat");
      return;
    }
    out_ += count;
    if (take("?")) out_ += '?';
    repeatable_ = false;
  }

  // Consumes {n}, {n,} or {n,m} and returns it; empty: the brace is an ordinary character.
  std::string braces() {
    size_t i = at_ + 1;
    const auto number = [&] {
      std::string digits;
      while (i < source_.size() && is_digit(source_[i])) digits += source_[i++];
      const size_t zeros = std::min(digits.find_first_not_of('0'), digits.size() - 1);
      return digits.empty() ? digits : digits.substr(zeros);
    };
    const std::string least = number();
    if (least.empty()) return {};
    std::string most = least;
    const bool comma = i < source_.size() && source_[i] == ',';
    if (comma) {
      ++i;
      most = number();
    }
    if (i >= source_.size() || source_[i] != '}') return {};
    at_ = i + 1;
    if (!most.empty() &&
        (most.size() < least.size() || (most.size() == least.size() && most < least)))
      fail("the numbers in `{" + least + "," + most + "}` are out of order");
    if (!comma) return "{" + least + "}";
    return "{" + least + "," + most + "}";
  }

  void open_group() {
    ++at_;
    bool repeatable = true;
    if (!take("?")) {
      out_ += '(';
    } else if (take(":")) {
      out_ += "(?:";
    } else if (take("=")) {
      out_ += "(?=";
    } else if (take("!")) {
      out_ += "(?!";
    } else if (take("<=")) {
      out_ += "(?<=";
      repeatable = false;
    } else if (take("<!")) {
      out_ += "(?<!";
      repeatable = false;
    } else if (take("<")) {
      at_ += name_in(source_.substr(at_)).size() + 1;
      out_ += '(';
    } else {
      fail("`(?" + shortened(source_.substr(at_, 1), 4) +
           "` begins no group that JavaScript knows");
      return;
    }
    open_.push_back(repeatable);
    repeatable_ = false;
  }

  void escape() {
    if (!has(1)) {
      fail("it ends in a `\\`");
      return;
    }
    const char c = peek(1);
    if (c == 'b' || c == 'B') {
      at_ += 2;
      assertion(c == 'b' ? "\\b" : "\\B");
      return;
    }
    if (c >= '1' && c <= '9') {
      size_t end = at_ + 1, number = 0;
      while (end < source_.size() && is_digit(source_[end]) && number <= groups_)
        number = number * 10 + static_cast<size_t>(source_[end++] - '0');
      if (number <= groups_) {
        at_ = end;
        reference(number);
        return;
      }
    }
    if (c == 'k' && !names_.empty()) {
      at_ += 2;
      const bool opens = take("<");
      const std::string_view name = opens ? name_in(source_.substr(at_)) : std::string_view();
      const auto number = group_named(name);
      if (!number) {
        fail("`\\k` names no group");
        return;
      }
      at_ += name.size() + 1;
      reference(*number);
      return;
    }
    ++at_;
    const Atom read = escaped(false);
    if (!read.set.empty())
      atom("[" + std::string(read.set) + "]");
    else
      literal(read.character);
  }

  // Reads an escape, after its backslash, whose meaning is the same inside and outside of a class.
  Atom escaped(bool in_class) {
    const char c = peek();
    ++at_;
    switch (c) {
      case 'd':
        return {"\\d"};
      case 'D':
        return {"\\D"};
      case 'w':
        return {"\\w"};
      case 'W':
        return {"\\W"};
      case 's':
        return {blanks};
      case 'S':
        return {no_blanks};
      case 't':
        return {{}, '\t'};
      case 'n':
        return {{}, '\n'};
      case 'v':
        return {{}, '\v'};
      case 'f':
        return {{}, '\f'};
      case 'r':
        return {{}, '\r'};
      case 'b':
        return {{}, '\b'};  // in a class
      case 'c':
        if (is_letter(peek()) || (in_class && has() && (is_digit(peek()) || peek() == '_')))
          return {{}, static_cast<uint32_t>(source_[at_++]) & 31};
        --at_;  // a backslash, then a `c`
        return {{}, '\\'};
      case 'x':
        return {{}, hex(2).value_or('x')};
      case 'u':
        return {{}, unit()};
      default:
        break;
    }
    if (is_octal(c)) {
      auto value = static_cast<uint32_t>(c - '0');
      for (int more = 0; more < 2 && is_octal(peek()) && value * 8 + 7 <= 0xff; ++more)
        value = value * 8 + static_cast<uint32_t>(source_[at_++] - '0');
      return {{}, value};
    }
    --at_;
    const CodePoint character = decode(source_, at_);
    at_ += character.size;
    return {{}, character.value};
  }

  std::optional<uint32_t> hex(size_t digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const int digit = has(i) ? hex_of(peek(i)) : -1;
      if (digit < 0) return std::nullopt;
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    at_ += digits;
    return value;
  }

  // Reads what follows `\u`. The two halves of a surrogate pair become one character.
  uint32_t unit() {
    const uint32_t first = hex(4).value_or('u');
    if (first < 0xd800 || first > 0xdbff || peek() != '\\' || peek(1) != 'u') return first;
    const size_t before = at_;
    at_ += 2;
    const uint32_t second = hex(4).value_or(0);
    if (second >= 0xdc00 && second <= 0xdfff)
      return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    at_ = before;
    return first;
  }

  void append_character(uint32_t c) {
    if (is_surrogate(c)) {
      fail("it names half a character (a UTF-16 surrogate), which no key has");
      return;
    }
    if (c < 0x80 && (is_letter(static_cast<char>(c)) || is_digit(static_cast<char>(c)))) {
      out_ += static_cast<char>(c);
      return;
    }
    std::array<char, 16> text;
    std::snprintf(text.data(), text.size(), "\\x{%x}", c);
    out_ += text.data();
  }

  // Without regard to case ASCII letters are written in both cases. PCRE2's own option would also
  // accept the Kelvin sign for a k and the long s for an s, which JavaScript does not.
  void literal(uint32_t c) {
    repeatable_ = true;
    const bool wide = c >= 0x80 && c != 0x212a && c != 0x17f;
    const bool letter = c < 0x80 && is_letter(static_cast<char>(c));
    if (ignore_case_) out_ += letter ? "[" : wide ? "(?i:" : "";
    append_character(c);
    if (ignore_case_ && letter) append_character(c ^ 0x20);
    if (ignore_case_) out_ += letter ? "]" : wide ? ")" : "";
  }

  Atom class_atom() {
    if (peek() == '\\') {
      ++at_;
      if (has()) return escaped(true);
      fail("it ends in a `\\`");
      return {};
    }
    const CodePoint character = decode(source_, at_);
    at_ += character.size;
    return {{}, character.value};
  }

  void append_range(uint32_t first, uint32_t last) {
    append_character(first);
    if (last == first) return;
    out_ += '-';
    append_character(last);
  }

  // Appends members of a class; without regard to case ASCII letters in both cases.
  void append_members(const Atom& atom, uint32_t last) {
    if (!atom.set.empty()) {
      out_ += atom.set;
      return;
    }
    append_range(atom.character, last);
    if (!ignore_case_) return;
    for (const uint32_t begin : {uint32_t{'a'}, uint32_t{'A'}}) {
      const uint32_t least = std::max(atom.character, begin), most = std::min(last, begin + 25);
      if (least <= most) append_range(least ^ 0x20, most ^ 0x20);
    }
  }

  void character_class() {
    ++at_;
    const bool negated = take("^");
    repeatable_ = true;
    if (take("]")) {
      out_ += negated ? "(?s:.)" : "(?:(?!))";
      return;
    }
    const size_t begin = out_.size();
    bool wide = false;
    out_ += negated ? "[^" : "[";
    while (error_.empty() && !take("]")) {
      if (!has()) {
        fail("a `[` is not closed");
        return;
      }
      const Atom first = class_atom();
      Atom last = first;
      const bool range = peek() == '-' && has(1) && peek(1) != ']';
      if (range) {
        ++at_;
        last = class_atom();
        if (first.set.empty() && last.set.empty() && last.character < first.character)
          fail("the range of a class is out of order");
      }
      if (first.set.empty() && last.set.empty()) {
        wide = wide || last.character >= 0x80;
        append_members(first, last.character);
      } else {
        append_members(first, first.character);
        if (range) {
          out_ += "\\-";
          append_members(last, last.character);
        }
      }
    }
    out_ += ']';
    if (!ignore_case_ || !wide) return;
    out_.insert(begin, "(?i:");
    out_ += ')';
  }

  std::string_view source_;
  bool multiline_, ignore_case_;
  size_t at_ = 0;
  size_t groups_ = 0;
  std::vector<std::pair<std::string_view, size_t>> names_;
  std::vector<bool> open_;   // for each group around this place: may it be repeated?
  bool repeatable_ = false;  // may the element that was read last be repeated?
  std::string out_, error_;
};

}  // namespace

base::Result<std::string> pcre2_from_javascript(std::string_view source, bool multiline,
                                                bool ignore_case) {
  if (!base::utf8::is_valid(source)) return base::Problem{"it is not UTF-8"};
  return Translation(source, multiline, ignore_case).run();
}

}  // namespace sluice::policy
