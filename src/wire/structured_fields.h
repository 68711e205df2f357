// Structured Field Values of HTTP (RFC 9651), as far as they are written and read here. Pure
// functions; any thread. Writers append.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/decimal.h"

namespace sluice::wire {

// The largest Integer (3.3.1): 15 digits. Larger numbers are written as this one.
inline constexpr int64_t sf_integer_max = 999'999'999'999'999;

// A String (3.3.3): quoted, `"` and `\` with a backslash in front; bytes that no String may have
// are written as `_`.
void append_sf_string(std::string_view text, base::Buffer& out);
// From -sf_integer_max on; smaller numbers are written as that one.
inline void append_sf_integer(int64_t value, base::Buffer& out) {
  base::append_decimal(std::clamp(value, -sf_integer_max, sf_integer_max), out);
}
// A Byte Sequence (3.3.5): base64 between colons.
void append_sf_bytes(std::string_view bytes, base::Buffer& out);

// Reads a field whose value is one Item (4.2.3) that is a String; its parameters must be well
// formed and are dropped. The text of the String, which may be empty, in `to`, which is cleared.
// False: it is none.
bool parse_sf_string(std::string_view field, std::string& to);

}  // namespace sluice::wire
