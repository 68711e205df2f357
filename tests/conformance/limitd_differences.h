// Where sluice answers differently from the recordings of limitd (limitd.json), and why.
// limitd_socket_test.cc checks that each difference is one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sluice::tests {

struct LimitdDifference {
  const char* name;  // of the case
  size_t step;
  const char* response;  // JSON as in the recording, except that `remaining` may be a range
  int delay_ms[2];
  const char* decision;  // why
};
const std::vector<LimitdDifference>& limitd_differences();

}  // namespace sluice::tests
