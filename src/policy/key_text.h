// The text of an actor: what counters are found by, what overrides are filed under, and what people
// type. A single value stands as it is; several are joined by `|`, which like a backslash is
// escaped by a backslash within them, so that no two lists of values give one text. The only
// place that writes it; inlined, as each request's keys are written by it.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace sluice::policy {

// `value_of(i)` is the value of number i of `count`, `allocate(n)` is room for n characters, asked
// for where there are several values. The text is in that room, or it is the single value itself.
template <class ValueOf, class Allocate>
inline std::string_view key_text(size_t count, ValueOf&& value_of, Allocate&& allocate) {
  if (count == 0) return "";
  if (count == 1) return value_of(0);
  // To find a value costs more than to keep it.
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
