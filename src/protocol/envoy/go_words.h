// Words of the original's environment as Go's standard library reads them. Pure functions.
#pragma once

#include <optional>
#include <string_view>

#include "base/time.h"

namespace sluice::envoy {

// time.ParseDuration: `1h30m`, `150us`, `1.5s`, `0`; parts of a microsecond count as one. Nothing:
// it is none, or below 0.
std::optional<base::Duration> read_go_duration(std::string_view text);

// strconv.ParseBool: `1 t T TRUE true True`, `0 f F FALSE false False`.
std::optional<bool> read_go_bool(std::string_view text);

}  // namespace sluice::envoy
