// Whole numbers as decimal text, for writers of replies: two digits at a time, without a locale and
// without a bound to check. Pure functions; any thread.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/buffer.h"

namespace sluice::base {

inline constexpr size_t decimal_digits_max = 20;  // of a uint64_t, or of an int64_t with its sign

namespace decimal {

constexpr std::array<char, 200> make_pairs() {
  std::array<char, 200> text{};
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t digit = i % 2 == 0 ? i / 20 : i / 2 % 10;
    text[i] = static_cast<char>('0' + digit);
  }
  return text;
}
// "00" to "99".
inline constexpr std::array<char, 200> pairs = make_pairs();

constexpr std::array<uint64_t, decimal_digits_max> make_powers() {
  std::array<uint64_t, decimal_digits_max> all{1};
  for (size_t i = 1; i < all.size(); ++i) all[i] = all[i - 1] * 10;
  return all;
}
// 10^0 to 10^19.
inline constexpr std::array<uint64_t, decimal_digits_max> powers = make_powers();

}  // namespace decimal

// 1 to decimal_digits_max; of 0 it is 1.
inline size_t decimal_digits(uint64_t value) {
  // 1233 / 4096 is just above log10(2): the number of digits, or one less.
  value |= 1;  // 0 has a digit too; of other numbers this changes no length
  const size_t guess = static_cast<size_t>(std::bit_width(value)) * 1233 >> 12;
  return guess + (value >= decimal::powers[guess] ? 1 : 0);
}

// Writes at `to`, which has room for as many bytes as there are digits; returns their end.
inline char* write_decimal(uint64_t value, char* to) {
  char* const end = to + decimal_digits(value);
  char* at = end;
  for (; value >= 100; value /= 100)
    std::memcpy(at -= 2, decimal::pairs.data() + value % 100 * 2, 2);
  if (value >= 10)
    std::memcpy(at - 2, decimal::pairs.data() + value * 2, 2);
  else
    at[-1] = static_cast<char>('0' + value);
  return end;
}

inline void append_decimal(int64_t value, Buffer& out) {
  char* const start = out.prepare(decimal_digits_max);
  char* to = start;
  uint64_t size = static_cast<uint64_t>(value);
  if (value < 0) {
    *to++ = '-';
    size = 0 - size;
  }
  out.commit(static_cast<size_t>(write_decimal(size, to) - start));
}

}  // namespace sluice::base
