// Products of two 64-bit numbers that may exceed 64 bits. Pure functions and types. Only this file
// names the compiler's 128-bit integer.
#pragma once

#include <cstdint>

namespace sluice::limit {

__extension__ using Wide = __int128;

// a * b / c, rounded down or up, for a, b >= 0 and c >= 1 whose result fits. Most products fit 64
// bits and then no 128-bit division (a call) is paid.
inline int64_t mul_div_floor(int64_t a, int64_t b, int64_t c) {
  int64_t product;
  if (!__builtin_mul_overflow(a, b, &product)) [[likely]]
    return product / c;
  return static_cast<int64_t>(Wide{a} * b / c);
}

inline int64_t mul_div_ceil(int64_t a, int64_t b, int64_t c) {
  int64_t product;
  if (!__builtin_mul_overflow(a, b, &product)) [[likely]]
    return product / c + (product % c != 0);
  const Wide wide = Wide{a} * b;
  return static_cast<int64_t>(wide / c + (wide % c != 0));
}

}  // namespace sluice::limit
