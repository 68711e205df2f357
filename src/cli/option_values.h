// The type of an option that takes one of some values, as --help shows it: "text|json". Completions
// offer these values. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

inline std::string type_of_values(const std::vector<std::string_view>& values) {
  std::string type;
  for (const std::string_view value : values)
    type += (type.empty() ? "" : "|") + std::string(value);
  return type;
}

}  // namespace sluice::cli
