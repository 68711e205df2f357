#include "protocol/envoy/go_words.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <system_error>
#include <utility>

namespace sluice::envoy {
namespace {

// In nanoseconds. A unit whose name begins another unit's name comes after it.
constexpr std::array<std::pair<std::string_view, double>, 8> units = {{{"ns", 1.0},
                                                                       {"us", 1e3},
                                                                       {"\xC2\xB5s", 1e3},
                                                                       {"\xCE\xBCs", 1e3},
                                                                       {"ms", 1e6},
                                                                       {"s", 1e9},
                                                                       {"m", 60e9},
                                                                       {"h", 3600e9}}};

// Go's durations are nanoseconds in 63 bits.
constexpr double longest_ns = 9.2233720368547e18;

// Removes a number with its unit from the front of `text`. Nothing: `text` begins with something
// else.
std::optional<double> take_part(std::string_view& text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const bool begins_well = !text.empty() && ((text[0] >= '0' && text[0] <= '9') || text[0] == '.');
  if (!begins_well || error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  for (const auto& [name, ns] : units) {
    if (!text.starts_with(name)) continue;
    text.remove_prefix(name.size());
    return number * ns;
  }
  return std::nullopt;
}

}  // namespace

std::optional<base::Duration> read_go_duration(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text == "0") return base::Duration{};
  if (text.empty()) return std::nullopt;
  double ns = 0;
  while (!text.empty()) {
    const auto part = take_part(text);
    if (!part || (ns += *part) > longest_ns) return std::nullopt;
  }
  return base::Duration{static_cast<int64_t>(std::ceil(ns / 1e3))};
}

std::optional<int64_t> read_go_int(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  const bool prefixed = text.size() > 1 && text[0] == '0';
  if (prefixed) {
    const char letter = static_cast<char>(text[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'b' ? 2 : 8;
    text.remove_prefix(base != 8 || letter == 'o' ? 2 : 1);
  }
  // An underscore stands between two digits, or between the prefix and a digit.
  std::string digits;
  bool after_digit = prefixed;
  for (const char c : text) {
    if (c == '_' && !after_digit) return std::nullopt;
    after_digit = c != '_';
    if (after_digit) digits += c;
  }
  if (!after_digit || digits.starts_with('-')) return std::nullopt;
  if (negative) digits.insert(digits.begin(), '-');
  int64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, number, base);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

std::optional<double> read_go_float(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

std::optional<bool> read_go_bool(std::string_view text) {
  for (const std::string_view word : {"1", "t", "T", "TRUE", "true", "True"})
    if (text == word) return true;
  for (const std::string_view word : {"0", "f", "F", "FALSE", "false", "False"})
    if (text == word) return false;
  return std::nullopt;
}

}  // namespace sluice::envoy
