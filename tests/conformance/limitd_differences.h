// Where sluice differs from the recordings of limitd, and why. Every difference has to be one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sluice::tests {

struct LimitdDifference {
  const char* name;  // of the case
  size_t step;
  const char* response;  // JSON as in the recording, but that `remaining` may be a range
  int delay_ms[2];
  const char* decision;  // of the recording, or of spec/limitd.md's sections
};
const std::vector<LimitdDifference>& limitd_differences();

}  // namespace sluice::tests
