// Where a fuzz target cuts its input: a session must answer the same however its input is cut.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::tests {

// The lengths of the pieces of `bytes`, by `seed`: single bytes, up to four, or up to `longest`.
inline std::vector<size_t> random_cuts(uint32_t seed, size_t bytes, uint32_t longest = 32) {
  std::vector<size_t> cuts;
  const uint32_t most = seed % 4 == 0 ? 1 : seed % 4 == 1 ? 4 : longest;
  for (size_t left = bytes; left > 0;) {
    seed = seed * 1'664'525 + 1'013'904'223;
    cuts.push_back(std::min<size_t>(left, (seed >> 16) % most + 1));
    left -= cuts.back();
  }
  return cuts;
}

}  // namespace sluice::tests
