// The bucket without refill: it holds up to `burst` units, is full at first, and units come back
// only when they are put back. It is for things that are borrowed and returned, such as seats,
// connections or concurrent jobs. Pure functions over a State, so they have no owner and any thread
// may call them; inline, because the store calls them under a stripe's lock.
//
// B = burst, and the quota is as much; M = the units that are missing. There is no window.
//
//   state        units: M; fresh_at_us: the last representable time while something is missing, so
//                that it is not forgotten. Units 0: it is full. 16 bytes.
//   grant        iff cost <= B - M. Cost 0 takes nothing and is always granted.
//   limit        B, the most that `remaining` can be.
//   remaining    B - M after the decision: the largest cost that would be granted next. Below 0
//                (debt, not even cost 0 is granted) only after the limit was lowered.
//   retry_after  0 when granted. At a refusal `never`: no length of time helps.
//   reset_after  `never`, also of a full one: time alone brings nothing.
//   refusal      takes nothing.
//   bound        whatever the interval, what it admits is at most B and what is put back in it: so
//                many units are at most out at any time.
//   put          M - units, or 0 if that is less: what does not fit is spilled.
//   clock        is not looked at, but that at the last representable time every bucket is full.
//   other limit  M stays: what is out is out, and a smaller bucket may owe some of it until that is
//                put back. So no change of the limit lets more out than the largest B. (Or what is
//                left stays: limit::carry_over.)
//
// Exact for every cost >= 0, burst >= 1 and any time; no float, no overflow. A call that breaks
// these preconditions ends the process.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "limit/limit.h"

namespace sluice::limit::fixed_bucket {

// Does the counter equal a fresh one, so that the store may forget it?
inline bool fresh(const State& state, const Limit&, Time now) {
  return state.units <= 0 || now.us >= state.fresh_at_us;
}

inline int64_t missing(const State& state, const Limit& limit, Time now) {
  return fresh(state, limit, now) ? 0 : state.units;
}

inline State state_of(int64_t missing) {
  return missing > 0 ? State{INT64_MAX, missing} : State{};
}

// `next` of a refusal has as many units missing as `state`; of a full bucket it is State{}.
inline Outcome decide(const State& state, const Limit& limit, int64_t cost, Time now) {
  SLUICE_CHECK(cost >= 0 && limit.burst >= 1);
  const int64_t missed = missing(state, limit, now);
  const int64_t left = limit.burst - missed;
  const bool allowed = cost <= left;
  const int64_t taken = allowed ? cost : 0;
  return {{allowed, limit.burst, left - taken, base::never, allowed ? Duration{} : base::never},
          state_of(missed + taken)};
}

// Gives units back, to full at most. Always allowed.
inline Outcome put(const State& state, const Limit& limit, int64_t units, Time now) {
  SLUICE_CHECK(units >= 0 && limit.burst >= 1);
  const int64_t misses = std::max<int64_t>(0, missing(state, limit, now) - units);
  return {{true, limit.burst, limit.burst - misses, base::never, {}}, state_of(misses)};
}

}  // namespace sluice::limit::fixed_bucket
