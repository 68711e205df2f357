// Lengths of time in the JSON of answers. Pure functions; any thread.
#pragma once

#include <cstddef>

#include "base/buffer.h"
#include "base/decimal.h"
#include "base/json_writer.h"
#include "base/text_writer.h"
#include "base/time.h"

namespace sluice::http {

using base::append_json_text;

// Seconds with up to three digits after the point, rounded up to a millisecond: `1.25`;
// base::never: `null`.
void append_json_seconds(base::Duration length, base::Buffer& out);
// The same. Writes at most json_seconds_bytes_max bytes.
inline constexpr size_t json_seconds_bytes_max = base::decimal_digits_max + 4;
void put_json_seconds(base::Duration length, base::TextWriter& writer);

}  // namespace sluice::http
