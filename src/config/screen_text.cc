#include "config/screen_text.h"

#include <clocale>
#include <cwchar>

#include "base/utf8.h"

namespace sluice::config {
namespace {

constexpr size_t marks_max = 4;

// The C library knows the width of characters only in a UTF-8 locale. Without one, all characters
// but ASCII have an unknown width.
class WidthScope {
 public:
  WidthScope() : before_(locale() == nullptr ? nullptr : ::uselocale(locale())) {}
  ~WidthScope() {
    if (before_ != nullptr) ::uselocale(before_);
  }
  WidthScope(const WidthScope&) = delete;
  WidthScope& operator=(const WidthScope&) = delete;

  // The columns of a character; negative: it must not be shown.
  int width(char32_t c) const {
    if (c < 0x80) return c >= 0x20 && c != 0x7f ? 1 : -1;
    return before_ == nullptr ? -1 : ::wcwidth(static_cast<wchar_t>(c));
  }

 private:
  static ::locale_t locale() {
    static const ::locale_t one = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    return one;
  }
  ::locale_t before_;
};

// The code point of a well-formed character.
char32_t value_of(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return first;
  char32_t value = first & (0x7fu >> character.size());
  for (const char c : character.substr(1))
    value = value << 6 | (static_cast<unsigned char>(c) & 0x3fu);
  return value;
}

// Marks of direction, joiners and other invisible characters that change the text beside them.
bool is_hidden(char32_t c) {
  struct Range {
    char32_t first, last;
  };
  static constexpr Range ranges[] = {{0xad, 0xad},       {0x34f, 0x34f},   {0x61c, 0x61c},
                                     {0x115f, 0x1160},   {0x17b4, 0x17b5}, {0x180b, 0x180f},
                                     {0x200b, 0x200f},   {0x2028, 0x202e}, {0x2060, 0x206f},
                                     {0x3164, 0x3164},   {0xfe00, 0xfe0f}, {0xfeff, 0xfeff},
                                     {0xffa0, 0xffa0},   {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3},
                                     {0x1d173, 0x1d17a}, {0xe000, 0xf8ff}, {0xe0000, 0x10ffff}};
  for (const auto& [first, last] : ranges)
    if (c >= first && c <= last) return true;
  return false;
}

void append_hex(std::string& out, char32_t value, int digits_min) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string digits;
  for (; value > 0 || digits_min > 0; value >>= 4, --digits_min)
    digits.insert(digits.begin(), hex[value & 15]);
  out += digits;
}

void append_escaped(std::string& out, char32_t c) {
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c == '\t') {
    out += "\\t";
  } else if (c < 0x80) {
    append_hex(out += "\\x", c, 2);
  } else {
    append_hex(out += "\\u{", c, 1);
    out += '}';
  }
}

}  // namespace

std::string on_screen(std::string_view text) {
  const WidthScope scope;
  std::string out;
  // A combining mark at the beginning would be drawn onto the text before.
  size_t marks = marks_max;
  while (!text.empty()) {
    const auto [size, valid] = base::utf8::first_sequence(text);
    const std::string_view character = text.substr(0, size);
    text.remove_prefix(size);
    if (!valid) {
      for (const char c : character) append_hex(out += "\\x", static_cast<unsigned char>(c), 2);
      marks = 0;
      continue;
    }
    const char32_t value = value_of(character);
    const int width = is_hidden(value) ? -1 : scope.width(value);
    marks = width == 0 ? marks + 1 : 0;
    if (width < 0 || marks > marks_max)
      append_escaped(out, value);
    else
      out += character;
  }
  return out;
}

std::string on_screen_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    out += on_screen(text.substr(0, end));
    if (end == text.npos) break;
    out += '\n';
    text.remove_prefix(end + 1);
  }
  return out;
}

size_t columns_of(std::string_view text) {
  const WidthScope scope;
  size_t columns = 0;
  while (!text.empty()) {
    const size_t size = base::utf8::character_size(text);
    const int width = scope.width(value_of(text.substr(0, size)));
    if (width > 0) columns += static_cast<size_t>(width);
    text.remove_prefix(size);
  }
  return columns;
}

std::string cut_to(std::string_view text, size_t columns) {
  if (columns_of(text) <= columns) return std::string(text);
  if (columns == 0) return {};
  const WidthScope scope;
  size_t taken = 0, at = 0;
  while (at < text.size()) {
    const size_t size = base::utf8::character_size(text.substr(at));
    const int width = scope.width(value_of(text.substr(at, size)));
    const size_t more = width > 0 ? static_cast<size_t>(width) : 0;
    if (taken + more > columns - 1) break;
    taken += more;
    at += size;
  }
  return std::string(text.substr(0, at)) + "\u2026";
}

std::string fitted(std::string_view text, size_t columns, bool right) {
  std::string out = cut_to(text, columns);
  out.insert(right ? 0 : out.size(), columns - columns_of(out), ' ');
  return out;
}

}  // namespace sluice::config
