// Every algorithm behind one call: what a limit answers to a cost at a time, and whether a counter
// still says anything. Pure functions, any thread; inline, because the store calls them for each
// slot under a stripe's lock.
#pragma once

#include <cstdint>

#include "limit/fixed_window.h"
#include "limit/limit.h"

namespace sluice::limit {

// Always allowed, with all of the quota left, whatever the cost.
inline Decision always(const Limit& limit) {
  return {true, limit.quota, limit.quota, {}, {}};
}

// Never allowed, and no wait helps.
inline Decision refusal() {
  return {false, 0, 0, base::never, base::never};
}

// The preconditions are those of the algorithm (fixed_window.h). Without a counter `state` comes
// back as it is.
inline Outcome decide(const State& state, const Limit& limit, int64_t cost, Time now) {
  switch (limit.algorithm) {
    case Algorithm::fixed_window:
      return fixed_window::decide(state, limit, cost, now);
    case Algorithm::unlimited:
      return {always(limit), state};
    case Algorithm::deny:
      break;
  }
  return {refusal(), state};
}

// Does the counter equal a fresh one at `now`? While the clock does not step back, true for good
// until it is charged again.
inline bool fresh(const State& state, const Limit& limit, Time now) {
  return limit.algorithm != Algorithm::fixed_window || fixed_window::fresh(state, limit, now);
}

}  // namespace sluice::limit
