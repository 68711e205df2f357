// What the patterns of a policy may cost on one request: steps, about one for each byte of a value
// that a pattern has to go through. Owned by the caller of `match`; one request, one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bounds.h"

namespace sluice::policy {

class MatchSteps {
 public:
  explicit MatchSteps(uint64_t most = base::bounds::match_steps_max) : left_(most) {}
  // Of a pattern that goes through `bytes` of a value, at `weight` steps a byte; the first of them
  // cost nothing, so that values of an ordinary length never add up, however many rules there are.
  // False: there are not so many left, and none from now on.
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
  // Were more wanted than there were?
  bool over() const { return over_; }
  uint64_t left() const { return left_; }

 private:
  uint64_t left_;
  bool over_ = false;
};

// In words for the client whose request needs more.
inline constexpr const char* too_many_steps =
    "the request takes too many steps to match with the policy";

}  // namespace sluice::policy
