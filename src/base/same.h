// Equality of short byte strings without a call: most of what rules and counters compare has less
// than 16 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace sluice::base {

inline bool same_bytes(const char* a, const char* b, size_t size) {
  const auto differ = [a, b](auto word, size_t at) {
    auto other = word;
    std::memcpy(&word, a + at, sizeof word);
    std::memcpy(&other, b + at, sizeof other);
    return word != other;
  };
  if (size > 16) return std::memcmp(a, b, size) == 0;
  if (size >= 8) return !differ(uint64_t{}, 0) && !differ(uint64_t{}, size - 8);
  if (size >= 4) return !differ(uint32_t{}, 0) && !differ(uint32_t{}, size - 4);
  for (size_t at = 0; at < size; ++at) {
    if (a[at] != b[at]) return false;
  }
  return true;
}

inline bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && same_bytes(a.data(), b.data(), a.size());
}

}  // namespace sluice::base
