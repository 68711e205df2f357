// For tests and fuzzing only: UTF-8 to UTF-16 and back in the simplest way. base/utf8.h is compared
// with it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::base::utf8::model {

// WHATWG's UTF-8 decoder, byte by byte, to UTF-16.
inline std::u16string decode(std::string_view bytes) {
  std::u16string out;
  uint32_t point = 0;
  int needed = 0, seen = 0;
  uint32_t lower = 0x80, upper = 0xBF;
  const auto put = [&](uint32_t c) {
    if (c >= 0x10000) {
      out.push_back(static_cast<char16_t>(0xD800 + ((c - 0x10000) >> 10)));
      out.push_back(static_cast<char16_t>(0xDC00 + ((c - 0x10000) & 0x3FF)));
    } else {
      out.push_back(static_cast<char16_t>(c));
    }
  };
  for (size_t i = 0; i < bytes.size();) {
    const uint32_t b = static_cast<uint8_t>(bytes[i]);
    if (needed == 0) {
      ++i;
      if (b <= 0x7F) {
        put(b);
      } else if (b >= 0xC2 && b <= 0xDF) {
        needed = 1, point = b & 0x1F;
      } else if (b >= 0xE0 && b <= 0xEF) {
        if (b == 0xE0) lower = 0xA0;
        if (b == 0xED) upper = 0x9F;
        needed = 2, point = b & 0xF;
      } else if (b >= 0xF0 && b <= 0xF4) {
        if (b == 0xF0) lower = 0x90;
        if (b == 0xF4) upper = 0x8F;
        needed = 3, point = b & 0x7;
      } else {
        put(0xFFFD);
      }
      continue;
    }
    const bool fits = b >= lower && b <= upper;
    lower = 0x80, upper = 0xBF;
    if (!fits) {
      needed = seen = 0;
      put(0xFFFD);  // and this byte again
      continue;
    }
    ++i;
    point = (point << 6) | (b & 0x3F);
    if (++seen == needed) {
      put(point);
      needed = seen = 0;
    }
  }
  if (needed != 0) put(0xFFFD);
  return out;
}

inline std::string encode(std::u16string_view units) {
  std::string out;
  const auto put = [&](uint32_t c) { out.push_back(static_cast<char>(c)); };
  for (size_t i = 0; i < units.size(); ++i) {
    uint32_t c = units[i];
    if (c >= 0xD800 && c < 0xE000) {
      const bool pair = c < 0xDC00 && i + 1 < units.size() && (units[i + 1] & 0xFC00) == 0xDC00;
      c = pair ? 0x10000 + ((c - 0xD800) << 10) + (units[++i] - 0xDC00u) : 0xFFFD;
    }
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
      put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
    } else {
      put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F));
      put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
    }
  }
  return out;
}

}  // namespace sluice::base::utf8::model
