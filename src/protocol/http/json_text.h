// Writes the parts of JSON (RFC 8259) that answers contain. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/buffer.h"
#include "base/decimal.h"
#include "base/text_writer.h"
#include "base/time.h"

namespace sluice::http {

// A string with its quotes. Bytes that are not UTF-8 are written as U+FFFD.
void append_json_text(std::string_view text, base::Buffer& out);
// Seconds with up to three digits after the point, rounded up to a millisecond: `1.25`;
// base::never: `null`.
void append_json_seconds(base::Duration length, base::Buffer& out);
// The same. Writes at most json_seconds_bytes_max bytes.
inline constexpr size_t json_seconds_bytes_max = base::decimal_digits_max + 4;
void put_json_seconds(base::Duration length, base::TextWriter& writer);

}  // namespace sluice::http
