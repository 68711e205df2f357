// Numbers that a test run may set through environment variables. An empty variable counts as not
// set, because `make` exports unset variables as empty ones.
#pragma once

#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sluice::tests {

// The variable's number, `if_none` if it is not set. Throws std::invalid_argument with the
// variable's name if its value is not a number that fits.
template <class Integer>
Integer number_from_environment(const char* name, Integer if_none) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return if_none;
  const std::string_view whole(text);
  Integer number{};
  const auto [end, problem] = std::from_chars(whole.data(), whole.data() + whole.size(), number);
  if (problem != std::errc() || end != whole.data() + whole.size())
    throw std::invalid_argument(std::string(name) +
                                " is not a number that fits: " + std::string(whole));
  return number;
}

}  // namespace sluice::tests
