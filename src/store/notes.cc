#include "store/notes.h"

#include <charconv>

namespace sluice::store {

// Its three numbers in decimal, with a space between them.
std::string text_of(const limit::Given& given) {
  return std::to_string(given.units) + ' ' + std::to_string(given.puts) + ' ' +
         std::to_string(given.resets);
}

bool parse_given(std::string_view text, limit::Given& given) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](auto& n, bool is_last) {
    const auto [next, error] = std::from_chars(at, end, n);
    if (error != std::errc() || (is_last ? next != end : next == end || *next != ' ')) return false;
    at = is_last ? next : next + 1;
    return true;
  };
  return number(given.units, false) && number(given.puts, false) && number(given.resets, true);
}

}  // namespace sluice::store
