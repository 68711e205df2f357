#include "policy/javascript_regex.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "policy/text.h"

namespace sluice::policy {

namespace {

// What is in a class for `\s`, `\S` and the ends of lines.
constexpr std::string_view blanks =
    R"(\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff})";
constexpr std::string_view no_blanks =
    R"(\x{0}-\x{8}\x{e}-\x{1f}!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{ffff})";
constexpr std::string_view line_ends = R"(\n\r\x{2028}\x{2029})";

bool is_digit(char16_t c) {
  return c >= '0' && c <= '9';
}
bool is_octal(char16_t c) {
  return c >= '0' && c <= '7';
}
size_t digit_of(char16_t c) {
  return static_cast<size_t>(c - u'0');
}
bool is_letter(char16_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

char16_t other_case(char16_t letter) {
  return static_cast<char16_t>(letter ^ 0x20);
}

// No group captures, as nothing refers to one.
class Translation {
 public:
  Translation(std::u16string source, bool multiline, bool ignore_case)
      : source_(std::move(source)), multiline_(multiline), ignore_case_(ignore_case) {}

  base::Result<std::string> run() {
    while (error_.empty() && has()) step();
    if (!open_.empty()) fail("a `(` is not closed");
    if (reference_ <= groups_)
      fail("`\\" + std::to_string(reference_) +
           "` refers to a group; write what it can be as alternatives, as in `aa|bb`");
    if (!error_.empty()) return base::Problem{std::move(error_)};
    return std::move(out_);
  }

 private:
  // Of a class: a class escape, or one unit.
  struct Member {
    std::string_view set;  // what stands in a class for the escape
    char16_t unit = 0;
  };

  void fail(std::string error) {
    if (error_.empty()) error_ = std::move(error);
  }
  bool has(size_t ahead = 0) const { return at_ + ahead < source_.size(); }
  char16_t peek(size_t ahead = 0) const { return has(ahead) ? source_[at_ + ahead] : u'\0'; }
  bool take(std::string_view ascii) {
    for (size_t i = 0; i < ascii.size(); ++i)
      if (!has(i) || peek(i) != static_cast<char16_t>(ascii[i])) return false;
    at_ += ascii.size();
    return true;
  }

  void step() {
    const char16_t c = peek();
    switch (c) {
      case '(':
        return open_group();
      case '\\':
        ++at_;
        return escape();
      case '[':
        ++at_;
        return character_class();
      case '*':
      case '+':
      case '?':
        return repeat(1);
      case '{':
        if (const size_t size = size_of_count(); size > 0) return repeat(size);
        break;
      default:
        break;
    }
    ++at_;
    switch (c) {
      case ')':
        if (open_.empty()) return fail("a `)` closes nothing");
        out_ += ')';
        repeatable_ = open_.back();
        return open_.pop_back();
      case '|':
        return assertion("|");
      case '^':
        return assertion(multiline_ ? "(?<![^" + std::string(line_ends) + "])" : "^");
      case '$':
        return assertion(multiline_ ? "(?![^" + std::string(line_ends) + "])" : "$");
      case '.':
        return atom("[^" + std::string(line_ends) + "]");
      default:
        return literal(c);
    }
  }

  void atom(std::string_view text) {
    out_ += text;
    repeatable_ = true;
  }
  void assertion(std::string_view text) {
    out_ += text;
    repeatable_ = false;
  }

  // PCRE2 would take a second `+` for "possessive".
  void repeat(size_t size) {
    const std::string count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                            source_.begin() + static_cast<std::ptrdiff_t>(at_ + size));
    if (!repeatable_) return fail("`" + count + "` has nothing to repeat");
    at_ += size;
    assertion(count);
    if (take("?")) out_ += '?';
  }
  // The size of {n}, {n,} or {n,m}; 0: the brace is an ordinary character.
  size_t size_of_count() const {
    size_t size = 1;
    const auto take_digits = [&] {
      const size_t before = size;
      while (is_digit(peek(size))) ++size;
      return size > before;
    };
    if (!take_digits()) return 0;
    if (peek(size) == ',') {
      ++size;
      take_digits();
    }
    return peek(size) == '}' ? size + 1 : 0;
  }

  void open_group() {
    repeatable_ = false;
    for (const std::string_view begin : {"(?:", "(?=", "(?!", "(?<=", "(?<!"}) {
      if (!take(begin)) continue;
      out_ += begin;
      return open_.push_back(begin[2] != '<');
    }
    if (take("(?<")) return fail("`(?<` names a group; write `(` without a name");
    if (take("(?")) return fail("`(?` begins no group here; write `(?:`, `(?=`, `(?!` or `\\(\\?`");
    ++at_;
    ++groups_;
    out_ += "(?:";
    open_.push_back(true);
  }

  void escape() {
    if (!has()) return fail("it ends in a `\\`");
    if (take("b")) return assertion("\\b");
    if (take("B")) return assertion("\\B");
    note_reference();
    if (const std::string_view set = set_escape(); !set.empty())
      atom("[" + std::string(set) + "]");
    else
      literal(character_escape(false));
  }

  // `\1` is a reference if there is such a group, here or further on; otherwise it is an octal
  // number.
  void note_reference() {
    size_t group = 0;
    for (size_t i = 0; is_digit(peek(i)) && group < reference_; ++i)
      group = 10 * group + digit_of(peek(i));
    if (group > 0) reference_ = std::min(reference_, group);
  }

  // What stands in a class for the escape behind a backslash; empty: it is of one character.
  std::string_view set_escape() {
    for (const std::string_view same : {"\\d", "\\D", "\\w", "\\W"})
      if (take(same.substr(1))) return same;
    return take("s") ? blanks : take("S") ? no_blanks : std::string_view();
  }

  char16_t character_escape(bool in_class) {
    constexpr std::u16string_view names = u"tnvfrb", controls = u"\t\n\v\f\r\b";
    const char16_t c = source_[at_++];
    if (const size_t i = names.find(c); i != names.npos) return controls[i];
    if (c == 'x') return hex(2).value_or(u'x');
    if (c == 'u') return hex(4).value_or(u'u');
    if (c == 'c') {
      if (is_letter(peek())) return static_cast<char16_t>(source_[at_++] & 31);
      if (in_class) fail("`\\c` without a letter in a class; write `\\\\` for a backslash");
      --at_;  // a backslash, then a `c`
      return '\\';
    }
    if (!is_octal(c)) return c;
    size_t value = digit_of(c);
    for (int more = 0; more < 2 && is_octal(peek()) && value < 32; ++more)
      value = value * 8 + digit_of(source_[at_++]);
    return static_cast<char16_t>(value);
  }

  std::optional<char16_t> hex(size_t digits) {
    constexpr std::u16string_view known = u"0123456789abcdef0123456789ABCDEF";
    size_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const size_t digit = has(i) ? known.find(peek(i)) : known.npos;
      if (digit == known.npos) return std::nullopt;
      value = value * 16 + digit % 16;
    }
    at_ += digits;
    return static_cast<char16_t>(value);
  }

  void append_unit(char16_t c) {
    char text[16] = {static_cast<char>(c)};
    if (!is_letter(c) && !is_digit(c))
      std::snprintf(text, sizeof text, "\\x{%x}", static_cast<unsigned>(c));
    out_ += text;
  }
  void append_range(char16_t first, char16_t last) {
    append_unit(first);
    if (first == last) return;
    out_ += '-';
    append_unit(last);
  }
  // As PCRE2's own option would find the Kelvin sign for a k and the long s for an s, which
  // JavaScript does not, ASCII letters are written in both cases. No other letter has simple rules.
  void append_members(char16_t first, char16_t last) {
    append_range(first, last);
    if (!ignore_case_) return;
    if (last >= 0x80)
      fail(
          "the flag `i` with a character that is not ASCII; write both cases, as in `[éÉ]`, "
          "and leave the flag out");
    for (const char16_t begin : {u'a', u'A'}) {
      const char16_t least = std::max(first, begin),
                     most = std::min(last, static_cast<char16_t>(begin + 25));
      if (least <= most) append_range(other_case(least), other_case(most));
    }
  }
  void literal(char16_t c) {
    if (ignore_case_) out_ += '[';
    append_members(c, c);
    if (ignore_case_) out_ += ']';
    repeatable_ = true;
  }

  Member member() {
    if (!take("\\")) return {{}, source_[at_++]};
    if (!has()) {
      fail("it ends in a `\\`");
      return {};
    }
    if (const std::string_view set = set_escape(); !set.empty()) return {set};
    return {{}, character_escape(true)};
  }

  void character_class() {
    const bool negated = take("^");
    if (take("]")) return atom(negated ? "(?s:.)" : "(?:(?!))");
    out_ += negated ? "[^" : "[";
    while (error_.empty() && !take("]")) {
      if (!has()) return fail("a `[` is not closed");
      const Member first = member();
      Member last = first;
      if (peek() == '-' && has(1) && peek(1) != ']') {
        ++at_;
        last = member();
        if (!first.set.empty() || !last.set.empty())
          fail(
              "a range of a class begins or ends in an escape such as `\\d`; write `\\-` for the "
              "character");
      }
      if (first.set.empty())
        append_members(first.unit, last.unit);
      else
        out_ += first.set;
    }
    atom("]");
  }

  const std::u16string source_;
  const bool multiline_, ignore_case_;
  size_t at_ = 0, groups_ = 0;
  size_t reference_ = SIZE_MAX / 100;  // the least that is written
  std::vector<bool> open_;             // for each group around this place: may it be repeated?
  bool repeatable_ = false;            // may the element that was read last be repeated?
  std::string out_, error_;
};

}  // namespace

base::Result<std::string> pcre2_from_javascript(std::string_view source, bool multiline,
                                                bool ignore_case) {
  if (!base::utf8::is_valid(source)) return base::Problem{"it is not UTF-8"};
  std::u16string units;
  for (size_t at = 0; at < source.size();) {
    const CodePoint c = decode(source, at);
    at += c.size;
    if (c.value < 0x10000) {
      units += static_cast<char16_t>(c.value);
    } else {
      units += static_cast<char16_t>(0xd7c0 + (c.value >> 10));
      units += static_cast<char16_t>(0xdc00 + (c.value & 0x3ff));
    }
  }
  return Translation(std::move(units), multiline, ignore_case).run();
}

}  // namespace sluice::policy
