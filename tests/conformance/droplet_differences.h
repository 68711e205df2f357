// Where sluice differs from what was recorded of droplet 1.4.0 (droplet.json), and why: every
// difference is listed with the decision behind it, and has to be one. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace sluice::tests {

// What sluice answers to a step instead of what was recorded: a response, or a Close.
struct DropletDifference {
  std::string_view name;
  size_t step;
  std::string_view response_hex;  // empty: a Close
  std::optional<uint16_t> close_code;
  const char* decision;  // of spec/droplet.md, with its section
};
const std::vector<DropletDifference>& droplet_differences();

}  // namespace sluice::tests
