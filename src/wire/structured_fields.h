// Writes Structured Field Values of HTTP (RFC 9651), as far as sluice needs them. Pure functions,
// which append; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/buffer.h"
#include "base/decimal.h"

namespace sluice::wire {

// The largest Integer (3.3.1): 15 digits. Larger numbers are written as this one.
inline constexpr int64_t sf_integer_max = 999'999'999'999'999;

// A String (3.3.3): quoted, with a backslash before `"` and `\`; bytes that a String cannot have
// are written as `_`.
void append_sf_string(std::string_view text, base::Buffer& out);
// An Integer. Numbers below -sf_integer_max are written as -sf_integer_max.
inline void append_sf_integer(int64_t value, base::Buffer& out) {
  base::append_decimal(std::clamp(value, -sf_integer_max, sf_integer_max), out);
}
// A Byte Sequence (3.3.5): base64 between colons.
void append_sf_bytes(std::string_view bytes, base::Buffer& out);

}  // namespace sluice::wire
