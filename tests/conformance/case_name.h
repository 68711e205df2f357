// Names parameterised tests after their cases, in the letters that GoogleTest allows.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/conformance/vectors.h"

namespace sluice::tests {

inline std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace sluice::tests
