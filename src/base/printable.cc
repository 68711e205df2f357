#include "base/printable.h"

#include <algorithm>

#include "base/utf8.h"

namespace sluice::base {

namespace {

void append_escaped(std::string& out, char c) {
  static constexpr char hex[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c == '\t') {
    out += "\\t";
  } else {
    out += "\\x";
    out += hex[byte >> 4];
    out += hex[byte & 15];
  }
}

// Control characters of ASCII, and those that have two bytes (U+0080 to U+009F), which some
// terminals obey.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  return first < 0x20 || first == 0x7f || (first == 0xc2 && character[1] < '\xa0');
}

}  // namespace

void append_printable(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const auto [size, valid] = utf8::first_sequence(text);
    const std::string_view character = text.substr(0, size);
    if (valid && !is_control(character))
      out += character;
    else
      for (const char c : character) append_escaped(out, c);
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
