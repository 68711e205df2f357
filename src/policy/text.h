// Text as the readers of foreign policies need it: UTF-8 made sound, and the few habits of
// JavaScript that Divvy's formats are built on (white space, the spelling of numbers, the order of
// keys). Pure functions.
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

// One code point and the bytes it takes. A byte that begins no sound sequence is a code point of
// its own, above every real one, so that ill-formed text is still compared byte by byte.
struct CodePoint {
  uint32_t value;
  uint32_t size;
};
CodePoint decode(std::string_view text, size_t at);

// `text` with every maximal ill-formed part replaced by U+FFFD. `replaced_at`: where the first one
// was, npos if none.
std::string sound_utf8(std::string_view text, size_t& replaced_at);

// The length in bytes of the white space character (JavaScript's \s) at `at`, 0: it is none.
size_t space_size(std::string_view text, size_t at);
std::string_view trim(std::string_view text);

// A number as JavaScript writes it: 3, 4.5, 1e+21.
std::string number_text(double value);

// The order of UTF-16 code units, by which Divvy sorts the keys of an operation.
bool utf16_less(std::string_view a, std::string_view b);

// At most `bytes_max` bytes of the text, cut between characters, with an ellipsis where something
// is missing.
std::string shortened(std::string_view text, size_t bytes_max);

// The text as a diagnostic quotes it: shortened, in backticks.
std::string in_ticks(std::string_view text);

}  // namespace sluice::policy
