// Where sluice answers differently from the recordings of droplet 1.4.0 (droplet.json), and why.
// droplet_socket_test.cc checks that each difference is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace sluice::tests {

// Sluice's answer to a step in place of the recorded one: a response, or a Close.
struct DropletDifference {
  std::string_view name;
  size_t step;
  std::string_view response_hex;  // empty: a Close
  std::optional<uint16_t> close_code;
  const char* decision;  // why
};
const std::vector<DropletDifference>& droplet_differences();

}  // namespace sluice::tests
