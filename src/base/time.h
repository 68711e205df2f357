// Time as the whole program measures it: signed 64-bit microseconds. `Time` counts from the Unix
// epoch, `Duration` is a length. Both are plain values; nothing here reads a clock (base/clock.h
// does, once a batch).
#pragma once

#include <compare>
#include <cstdint>

namespace sluice::base {

struct Duration {
  int64_t us = 0;
  friend constexpr auto operator<=>(Duration, Duration) = default;
};

struct Time {
  int64_t us = 0;
  friend constexpr auto operator<=>(Time, Time) = default;
};

// "There is no such moment": a refusal that no waiting cures, a counter that never resets.
inline constexpr Duration never{INT64_MAX};

constexpr Duration milliseconds(int64_t n) {
  return {n * 1'000};
}
constexpr Duration seconds(int64_t n) {
  return {n * 1'000'000};
}

}  // namespace sluice::base
