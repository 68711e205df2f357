// Waits, by polling, for a condition that another process or thread makes true.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/support/patience.h"

namespace sluice::tests {

// False: the condition did not hold in time.
template <class Condition>
bool comes(Condition&& condition, Deadline deadline = soon()) {
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(Milliseconds(5));
  }
  return false;
}

// Throws std::runtime_error with `what` if the condition does not hold in time.
template <class Condition>
void await(const std::string& what, Condition&& condition) {
  if (!comes(condition)) throw std::runtime_error(what);
}

}  // namespace sluice::tests
