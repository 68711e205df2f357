#include "base/printable.h"

#include <algorithm>

#include "base/utf8.h"

namespace sluice::base {

namespace {

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

void append_hex(std::string& out, char c) {
  static constexpr char hex[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  out += hex[byte >> 4];
  out += hex[byte & 15];
}

void append_escaped(std::string& out, char c) {
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c == '\t') {
    out += "\\t";
  } else {
    out += "\\x";
    append_hex(out, c);
  }
}

// U+0080 to U+009F, which some terminals obey.
bool is_wide_control(std::string_view character) {
  return character[0] == '\xc2' && character[1] < '\xa0';
}

}  // namespace

void append_printable(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const auto [size, valid] = utf8::first_sequence(text);
    const std::string_view character = text.substr(0, size);
    if (!valid || is_control(character[0])) {
      for (const char c : character) append_escaped(out, c);
    } else if (size == 2 && is_wide_control(character)) {
      out += "\\u{";
      append_hex(out, character[1]);
      out += '}';
    } else {
      out += character;
    }
    text.remove_prefix(size);
  }
}

std::string printable(std::string_view text, size_t bytes_max) {
  std::string out;
  size_t shown = std::min(text.size(), bytes_max);
  // The bytes of a character stay together.
  for (int i = 0; i < 3 && shown > 0 && shown < text.size() && (text[shown] & 0xc0) == 0x80; ++i)
    --shown;
  append_printable(out, text.substr(0, shown));
  if (text.size() > shown) out += "...";
  return out;
}

}  // namespace sluice::base
