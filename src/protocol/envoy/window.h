// Windows of Envoy's limits: how long units are, how a window is written in units, and when it
// ends. Pure functions; time is an argument.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "protocol/envoy/messages.h"

namespace sluice::envoy {

// In seconds: a month has 30 days, a year 365. 0: not a unit.
constexpr int64_t unit_seconds(WireUnit unit) {
  switch (unit) {
    case WireUnit::second:
      return 1;
    case WireUnit::minute:
      return 60;
    case WireUnit::hour:
      return 3'600;
    case WireUnit::day:
      return 86'400;
    case WireUnit::week:
      return 7 * 86'400;
    case WireUnit::month:
      return 30 * 86'400;
    case WireUnit::year:
      return 365 * 86'400;
    default:
      return 0;
  }
}

// Seconds until the window of that length ends in which `unix_seconds` lies, 1 to `window_seconds`.
// Windows are aligned to the Unix epoch.
constexpr int64_t seconds_until_window_ends(int64_t unix_seconds, int64_t window_seconds) {
  const int64_t into = unix_seconds % window_seconds;
  return window_seconds - (into < 0 ? into + window_seconds : into);
}

// A window that a rule gives as a length, in the largest of day, hour, minute and second of which
// it is a whole multiple. A multiplier of 1 is 0, because `unit_multiplier` is then left out.
// WireUnit::unknown: the window is not in whole seconds, or the multiplier exceeds 32 bits.
struct WindowInUnits {
  WireUnit unit = WireUnit::unknown;
  uint32_t multiplier = 0;
  friend bool operator==(const WindowInUnits&, const WindowInUnits&) = default;
};
WindowInUnits window_in_units(base::Duration window);

// Whole seconds, rounded up; 0 for a negative length.
int64_t seconds_rounded_up(base::Duration length);

}  // namespace sluice::envoy
