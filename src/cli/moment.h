// Reads times as people write them. Pure functions.
#pragma once

#include <optional>
#include <string_view>

#include "base/time.h"

namespace sluice::cli {

// Reads a time in the form of RFC 3339, where the seconds, the zone (then it is UTC) or the whole
// time of day may be missing, and a blank may replace the T: "2026-12-01", "2026-12-01 08:30",
// "2026-12-01T08:30:00+01:00". Fractions of a second are dropped. Empty: it is not such a time, or
// not in the years 1970 to 9999.
std::optional<base::Time> parse_moment(std::string_view text);

}  // namespace sluice::cli
