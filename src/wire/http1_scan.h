// Where the parts of a head of HTTP/1.1 end. Pure functions, any thread. Each gives the place of
// the first byte from `at` on that is not of the part, or the size of `in`.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "wire/http_field.h"

namespace sluice::wire {

using HttpByteSet = std::array<bool, 256>;

constexpr bool is_in(const HttpByteSet& set, char c) {
  return set[static_cast<unsigned char>(c)];
}

constexpr HttpByteSet make_http_value_bytes() {
  HttpByteSet set{};
  for (size_t i = 0; i < set.size(); ++i) set[i] = i == '\t' || (i >= ' ' && i != 0x7F);
  return set;
}
// Of a value (RFC 9110, 5.5): all but control characters, and tabs.
inline constexpr HttpByteSet http_value_bytes = make_http_value_bytes();

inline size_t skip_set(const HttpByteSet& set, std::string_view in, size_t at) {
  const char* const bytes = in.data();
  const size_t unrolled = in.size() < 4 ? 0 : in.size() - 3;
  for (; at < unrolled; at += 4) {
    if (!is_in(set, bytes[at])) return at;
    if (!is_in(set, bytes[at + 1])) return at + 1;
    if (!is_in(set, bytes[at + 2])) return at + 2;
    if (!is_in(set, bytes[at + 3])) return at + 3;
  }
  while (at < in.size() && is_in(set, bytes[at])) ++at;
  return at;
}

// http_value_bytes, eight at a time.
inline size_t skip_value(std::string_view in, size_t at) {
  if constexpr (std::endian::native == std::endian::little) {
    constexpr uint64_t ones = 0x0101010101010101;
    const size_t words = in.size() < 8 ? 0 : in.size() - 7;
    while (at < words) {
      uint64_t bytes;
      std::memcpy(&bytes, in.data() + at, sizeof bytes);
      // The top bits of bytes that are not printable ASCII; below the first of them there are none.
      const uint64_t others = ((bytes - ones * ' ') | (bytes + ones) | bytes) & (ones << 7);
      if (others == 0) {
        at += 8;
        continue;
      }
      at += static_cast<size_t>(std::countr_zero(others)) / 8;
      if (!is_in(http_value_bytes, in[at])) return at;
      ++at;
    }
  }
  return skip_set(http_value_bytes, in, at);
}

}  // namespace sluice::wire
