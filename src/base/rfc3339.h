// Moments as texts of RFC 3339: "2026-11-27T00:00:00Z". Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace sluice::base {

// Date, `T`, time with or without a fraction of a second (what is beyond microseconds is cut), and
// `Z` or an offset as +01:00. Years 1970 to 9999; no leap second. Nothing: it is none.
std::optional<Time> parse_rfc3339(std::string_view text);

// In UTC, exact, for moments of the years 0 to 9999.
std::string format_rfc3339(Time at);

}  // namespace sluice::base
