// UTF-8 as WHATWG decodes it (https://encoding.spec.whatwg.org/#utf-8-decoder): is a text well
// formed, and what it reads as if it is not. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::wire::utf8 {

// U+FFFD, what ill-formed bytes become.
inline constexpr std::string_view replacement = "\xEF\xBF\xBD";

// Well formed: no stray or missing continuation, no overlong form, no surrogate, nothing above
// U+10FFFF.
bool is_valid(std::string_view text);

// Bytes that `sanitize` writes for `text`: at most replacement.size() times as many as it has.
size_t sanitized_size(std::string_view text);

// Writes `text` to `out`, each maximal subpart of an ill-formed sequence (Unicode 15, 3.9, table
// 3-8) replaced by U+FFFD; `out` has room for sanitized_size(text) bytes and does not overlap it.
void sanitize(std::string_view text, char* out);

// Bytes of the character at the front of `text`, which is well formed and not empty.
size_t character_size(std::string_view text);

}  // namespace sluice::wire::utf8
