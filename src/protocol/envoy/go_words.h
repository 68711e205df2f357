// Words of the original's environment as Go's standard library reads them. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/time.h"

namespace sluice::envoy {

// As time.ParseDuration: `1h30m`, `150us`, `1.5s`, `0`; fractions of a microsecond are rounded up.
// Empty: it is not a duration, or is negative.
std::optional<base::Duration> read_go_duration(std::string_view text);

// As strconv.ParseInt(text, 0, 64): `8081`, `-1`, `0x1f91`, `0o17`, `017` (of base 8), `1_000`.
std::optional<int64_t> read_go_int(std::string_view text);

// As strconv.ParseFloat, without hexadecimal numbers: `0.8`, `8e-1`, `+Inf`.
std::optional<double> read_go_float(std::string_view text);

// As strconv.ParseBool: `1 t T TRUE true True`, `0 f F FALSE false False`.
std::optional<bool> read_go_bool(std::string_view text);

}  // namespace sluice::envoy
