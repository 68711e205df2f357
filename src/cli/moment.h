// Moments as people write them. Pure functions.
#pragma once

#include <optional>
#include <string_view>

#include "base/time.h"

namespace sluice::cli {

// As RFC 3339, where seconds, the zone (then it is UTC) and the whole time of day may be left out,
// and a blank may stand for the T: "2026-12-01", "2026-12-01 08:30", "2026-12-01T08:30:00+01:00".
// Parts of a second are dropped. Nothing: it is none, or not of the years 1970 to 9999.
std::optional<base::Time> parse_moment(std::string_view text);

}  // namespace sluice::cli
