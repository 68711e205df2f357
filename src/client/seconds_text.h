// Lengths of time as requests have them: a decimal number of seconds, to the microsecond. A pure
// function; any thread.
#pragma once

#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace sluice::calls {

// The longest text.
inline constexpr size_t seconds_text_bytes_max = 32;

// Writes "1.5", "60", "0.00025" at `to`, and returns its end. `length` is 0 or more.
inline char* write_seconds(std::chrono::microseconds length, char* to) {
  constexpr int64_t second = 1'000'000;
  constexpr int digits_max = 6;
  to = std::to_chars(to, to + 20, length.count() / second).ptr;
  int64_t rest = length.count() % second;
  if (rest == 0) return to;
  *to = '.';
  for (int i = digits_max; i > 0; --i) {
    to[i] = static_cast<char>('0' + rest % 10);
    rest /= 10;
  }
  int digits = digits_max;
  while (to[digits] == '0') --digits;
  return to + 1 + digits;
}

}  // namespace sluice::calls
