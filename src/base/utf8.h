// UTF-8 as WHATWG decodes it (https://encoding.spec.whatwg.org/#utf-8-decoder): is a text well
// formed, and what it reads as if it is not. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::base::utf8 {

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

// What stands at the front of a text: a character, or the maximal subpart of an ill-formed sequence
// that one U+FFFD replaces.
struct Sequence {
  size_t size;
  bool valid;
};
// Of `text`, which is not empty.
Sequence first_sequence(std::string_view text);

// Is the character white space beyond ASCII in JavaScript's eyes (\s in ECMA-262: WhiteSpace and
// LineTerminator): U+00A0, 1680, 2000-200A, 2028, 2029, 202F, 205F, 3000, FEFF?
bool is_wide_blank(std::string_view character);

// Bytes of the character at the front of `text`, which is well formed and not empty.
size_t character_size(std::string_view text);

}  // namespace sluice::base::utf8
