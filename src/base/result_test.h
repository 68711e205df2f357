// For tests of functions that return a Result: whether it succeeded, and if not, why.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace sluice::base {

inline bool succeeds(const Done& done, std::string& problem) {
  if (!done) problem = done.problem().text;
  return static_cast<bool>(done);
}

// On success its value is moved to `value`.
template <class T>
bool succeeds(Result<T> result, T& value, std::string& problem) {
  if (result)
    value = *std::move(result);
  else
    problem = result.problem().text;
  return static_cast<bool>(result);
}

}  // namespace sluice::base
