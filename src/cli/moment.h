// Moments as people write them, and as the admin port wants them. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace sluice::cli {

// "2026-12-01", "2026-12-01T08:30Z", "2026-12-01T08:30:00+01:00" (RFC 3339; the seconds and, as
// UTC, the zone may be left out; a blank may stand for the T). Nothing: it is none, or not of the
// years 1970 to 9999. Parts of a second are dropped.
std::optional<base::Time> parse_moment(std::string_view text);

// "2026-12-01T08:30:00Z"
std::string format_moment(base::Time moment);

}  // namespace sluice::cli
