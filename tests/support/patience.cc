#include "tests/support/patience.h"

#include <algorithm>

namespace sluice::tests {

int left_ms(Deadline deadline) {
  const auto left = std::chrono::ceil<Milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::max<Milliseconds::rep>(left.count(), 0));
}

}  // namespace sluice::tests
