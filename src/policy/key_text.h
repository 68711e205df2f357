// The text of an actor: the key of its counters and of its overrides, and the text that people
// type. A single value is unchanged. Several values are joined by `|`; a `|` or a backslash within
// them is escaped by a backslash, so that different lists of values have different texts. No other
// code writes this text. Inlined, because each request's keys are written by it.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace sluice::policy {

// `value_of(i)` returns value i of `count`. `allocate(n)` returns room for n characters; it is
// called once if there are several values. The result is in that room, or is the single value
// itself.
template <class ValueOf, class Allocate>
inline std::string_view key_text(size_t count, ValueOf&& value_of, Allocate&& allocate) {
  if (count == 0) return "";
  if (count == 1) return value_of(0);
  // A lookup of a value costs more than storing it.
  std::array<std::string_view, 4> kept;
  size_t bytes_max = count;
  for (size_t i = 0; i < count; ++i) {
    const std::string_view value = value_of(i);
    if (i < kept.size()) kept[i] = value;
    bytes_max += 2 * value.size();
  }
  char* const begin = allocate(bytes_max);
  char* end = begin;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) *end++ = '|';
    for (const char c : i < kept.size() ? kept[i] : value_of(i)) {
      if (c == '|' || c == '\\') *end++ = '\\';
      *end++ = c;
    }
  }
  return {begin, static_cast<size_t>(end - begin)};
}

}  // namespace sluice::policy
