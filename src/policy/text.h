// Functions on texts for the readers of other programs' policies: repair of UTF-8, and the
// behaviour of JavaScript that Divvy's formats depend on (white space, the spelling of numbers, the
// order of keys). Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/same.h"

namespace sluice::policy {

using base::same;
using base::same_bytes;
inline bool begins_with(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && same_bytes(text.data(), prefix.data(), prefix.size());
}

// A code point and its size in bytes. A byte that begins no well-formed sequence is a code point of
// its own, greater than every real one, so that ill-formed texts are compared byte by byte.
struct CodePoint {
  uint32_t value;
  uint32_t size;
};
CodePoint decode(std::string_view text, size_t at);

// `text` with every maximal ill-formed part replaced by U+FFFD. `replaced_at`: the index of the
// first such part in `text`; npos: there is none.
std::string sound_utf8(std::string_view text, size_t& replaced_at);

// The size in bytes of the white space character (JavaScript's \s) at `at`; 0: there is none.
size_t space_size(std::string_view text, size_t at);
std::string_view trim(std::string_view text);

// A number as JavaScript writes it: 3, 4.5, 1e+21.
std::string number_text(double value);

// The order of UTF-16 code units, by which Divvy sorts the keys of an operation.
bool utf16_less(std::string_view a, std::string_view b);

// The text, cut between characters to at most `bytes_max` bytes; then it ends with an ellipsis.
std::string shortened(std::string_view text, size_t bytes_max);

// The text as a diagnostic quotes it: shortened, in backticks.
std::string in_ticks(std::string_view text);

}  // namespace sluice::policy
