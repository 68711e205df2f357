#include "policy/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/utf8.h"

namespace sluice::policy {

namespace utf8 = base::utf8;

namespace {

constexpr uint32_t beyond_unicode = 0x110000;

uint8_t byte_at(std::string_view text, size_t at) {
  return static_cast<uint8_t>(text[at]);
}

}  // namespace

CodePoint decode(std::string_view text, size_t at) {
  const uint8_t first = byte_at(text, at);
  const auto [size, valid] = utf8::first_sequence(text.substr(at));
  if (!valid) return {beyond_unicode + first, 1};
  if (size == 1) return {first, 1};
  uint32_t value = first & (0x7Fu >> size);
  for (size_t i = 1; i < size; ++i) value = value << 6 | (byte_at(text, at + i) & 0x3Fu);
  return {value, static_cast<uint32_t>(size)};
}

std::string sound_utf8(std::string_view text, size_t& replaced_at) {
  replaced_at = std::string_view::npos;
  if (utf8::is_valid(text)) return std::string(text);
  for (size_t at = 0; replaced_at == std::string_view::npos;) {
    const auto [size, valid] = utf8::first_sequence(text.substr(at));
    if (!valid) replaced_at = at;
    at += size;
  }
  std::string out(utf8::sanitized_size(text), '\0');
  utf8::sanitize(text, out.data());
  return out;
}

size_t space_size(std::string_view text, size_t at) {
  const uint8_t byte = byte_at(text, at);
  if (byte < 0x80) return byte == ' ' || (byte >= '\t' && byte <= '\r') ? 1 : 0;
  const auto [size, valid] = utf8::first_sequence(text.substr(at));
  return valid && utf8::is_wide_blank(text.substr(at, size)) ? size : 0;
}

std::string_view trim(std::string_view text) {
  size_t first = 0;
  while (first < text.size()) {
    const size_t size = space_size(text, first);
    if (size == 0) break;
    first += size;
  }
  size_t end = text.size();
  while (end > first) {
    size_t last = end - 1;
    while (last > first && (byte_at(text, last) & 0xC0) == 0x80) --last;
    const size_t size = space_size(text, last);
    if (size == 0 || last + size != end) break;
    end = last;
  }
  return text.substr(first, end - first);
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  if (value == 0) return "0";
  std::array<char, 400> buffer;
  const double magnitude = std::fabs(value);
  const bool plain = magnitude >= 1e-6 && magnitude < 1e21;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  std::string text(buffer.data(), end);
  if (plain) {
    // Fixed notation would write all digits of a large integer; JavaScript writes the shortest
    // digits that identify it, and then zeros.
    if (magnitude < 9007199254740992.0) return text;
    const auto stop = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                    std::chars_format::scientific)
                          .ptr;
    const std::string_view shortest(buffer.data(), static_cast<size_t>(stop - buffer.data()));
    std::string digits;
    for (const char c : shortest.substr(0, shortest.find('e'))) {
      if (c >= '0' && c <= '9') digits += c;
    }
    const size_t whole = text.size() - (value < 0 ? 1 : 0);
    digits.resize(whole, '0');
    return value < 0 ? '-' + digits : digits;
  }
  // "1e-07" to "1e-7"
  const size_t exponent = text.find('e') + 2;
  while (text[exponent] == '0' && exponent + 1 < text.size()) text.erase(exponent, 1);
  return text;
}

bool utf16_less(std::string_view a, std::string_view b) {
  const size_t common = std::min(a.size(), b.size());
  size_t at = 0;
  while (at < common && a[at] == b[at]) ++at;
  if (at == common) return a.size() < b.size();
  const uint8_t x = byte_at(a, at), y = byte_at(b, at);
  // In UTF-16 characters above U+FFFF (lead bytes from F0) are surrogates, which come before U+E000
  // (lead byte EE).
  const bool x_above = x >= 0xF0, y_above = y >= 0xF0;
  if (x_above != y_above && x >= 0xEE && y >= 0xEE) return x_above;
  return x < y;
}

std::string shortened(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  size_t end = bytes_max;
  while (end > 0 && (byte_at(text, end) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string in_ticks(std::string_view text) {
  return "`" + shortened(text, 64) + "`";
}

}  // namespace sluice::policy
