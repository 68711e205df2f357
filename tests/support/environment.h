// Numbers that the caller of the tests may give by the environment. `make` exports a variable that
// is not set as an empty one, which is as good as none.
#pragma once

#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sluice::tests {

// Throws std::invalid_argument, with the variable's name, where it is anything but a number that
// fits.
template <class Integer>
Integer number_from_environment(const char* name, Integer if_none) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return if_none;
  const std::string_view whole(text);
  Integer number{};
  const auto [end, problem] = std::from_chars(whole.data(), whole.data() + whole.size(), number);
  if (problem != std::errc() || end != whole.data() + whole.size())
    throw std::invalid_argument(std::string(name) + " is no such number: " + std::string(whole));
  return number;
}

}  // namespace sluice::tests
