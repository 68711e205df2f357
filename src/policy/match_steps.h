// The budget for matching one request against the patterns of a policy, in steps: about one for
// each byte of a value that a pattern examines. Owned by the caller of `match`; one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bounds.h"

namespace sluice::policy {

class MatchSteps {
 public:
  explicit MatchSteps(uint64_t most = base::bounds::match_steps_max) : left_(most) {}
  // Takes the steps of a pattern that examines `bytes` of a value, `weight` steps a byte. The first
  // bytes are free, so that values of ordinary length never use up the budget, whatever the number
  // of rules. False: not enough steps are left; from then on none are.
  bool take(size_t bytes, uint64_t weight = 1) {
    if (bytes <= base::bounds::match_free_bytes) [[likely]]
      return !over_;
    return spend((bytes - base::bounds::match_free_bytes) * weight);
  }
  bool spend(uint64_t steps) {
    over_ = over_ || steps > left_;
    left_ = over_ ? 0 : left_ - steps;
    return !over_;
  }
  // Has `take` ever returned false?
  bool over() const { return over_; }
  uint64_t left() const { return left_; }

 private:
  uint64_t left_;
  bool over_ = false;
};

// The error text for the client whose request needs more steps.
inline constexpr const char* too_many_steps =
    "the request takes too many steps to match with the policy";

}  // namespace sluice::policy
