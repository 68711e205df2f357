#include "protocol/envoy/window.h"

namespace sluice::envoy {
namespace {

constexpr int64_t us_per_second = base::seconds(1).us;

}  // namespace

WindowInUnits window_in_units(base::Duration window) {
  if (window.us <= 0 || window.us % us_per_second != 0) return {};
  const int64_t seconds = window.us / us_per_second;
  for (const WireUnit unit : {WireUnit::day, WireUnit::hour, WireUnit::minute, WireUnit::second}) {
    if (seconds % unit_seconds(unit) != 0) continue;
    const int64_t units = seconds / unit_seconds(unit);
    if (units > UINT32_MAX) break;
    return {unit, units == 1 ? 0 : static_cast<uint32_t>(units)};
  }
  return {};
}

int64_t seconds_rounded_up(base::Duration length) {
  if (length.us <= 0) return 0;
  return length.us / us_per_second + (length.us % us_per_second != 0);
}

}  // namespace sluice::envoy
