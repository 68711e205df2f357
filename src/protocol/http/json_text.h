// Pieces of JSON (RFC 8259) as answers have them. Appends; pure functions, any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/buffer.h"
#include "base/time.h"

namespace sluice::http {

// A string with its quotes. Bytes that are not UTF-8 are written as U+FFFD.
void append_json_text(std::string_view text, base::Buffer& out);
// Seconds with up to three digits behind the point, rounded up to a millisecond: `1.25`;
// base::never: `null`.
void append_json_seconds(base::Duration length, base::Buffer& out);

}  // namespace sluice::http
