// The token bucket: it holds up to `burst` units, is full at first, and `quota` units come back per
// window, evenly: each microsecond brings its exact share. Pure functions over a State, so they
// have no owner and any thread may call them; inline, because the store calls them under a
// stripe's lock.
//
// Times are integer microseconds. Q = quota, W = window, B = burst. So that no share is ever
// rounded, what is missing is counted in parts: a unit is W parts, and Q parts come back each
// microsecond. The full bucket has B * W parts.
//
//   state        fresh_at_us: the first microsecond at which the bucket is full; units: the parts
//                that come back in the last one before it, 1 to Q. Units 0: it is full. 16 bytes.
//                    missing(now) = (fresh_at_us - 1 - now) * Q + units,    0 from fresh_at_us on.
//   grant        iff missing + cost * W <= B * W. Cost 0 takes nothing and is always granted.
//   limit        B, the most that `remaining` can be.
//   remaining    whole units in the bucket after the decision, floor((B * W - missing) / W): the
//                largest cost that would be granted next, now. 0 to B, so it may exceed Q.
//   retry_after  0 when granted. At a refusal the wait after which the same cost is granted if
//                no units are taken meanwhile: ceil((missing + cost * W - B * W) / Q), and not a
//                microsecond less; `never` when cost > B.
//   reset_after  until the bucket is full: ceil(missing / Q).
//   refusal      takes nothing.
//   put          missing - units * W, or 0 if that is less: what does not fit is spilled.
//   bound        T >= 1 microseconds, [a, a + T) for any a, admit at most (integer division)
//                    min(B + (T - 1) * Q / W,  B * T)
//                so B + Q - ceil(Q / W) in the length of one window: 2Q - 1 for B = Q <= W.
//                Why: the bucket has at most B * W parts at a, (T - 1) * Q come back until the last
//                moment of the interval, and what is granted is taken out of these; each moment
//                grants at most B. Some intervals do admit that many when Q <= (B - 1) * W + 1:
//                take all that there is each microsecond; less than a unit stays, so nothing that
//                comes back is spilled. For B = 1 and Q <= W the most is 1 + (T - 1) / ceil(W / Q).
//   clock        Time that steps back is refilled again: what came back meanwhile is missing once
//                more, but a bucket is never emptier than empty, so no wait is longer than the
//                refill of an empty bucket. (So a state cannot owe more than the bucket holds: debt
//                would look the same as a clock that stepped back.) The bound holds while the
//                clock does not step back.
//   end of time  A cost is granted only if the bucket can be full again before the last
//                representable time, and within `never`; else the state could not be represented.
//                Only a bucket that takes over 292,000 years to fill notices: it holds less.
//   other limit  carry_over() keeps what was used, or what is left; another speed holds from then
//   on.
//
// Exact for every cost >= 0, quota >= 1, window >= 1 us, burst >= 1 and any time; no float, no
// overflow. A call that breaks these preconditions ends the process.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "limit/limit.h"
#include "limit/wide.h"

namespace sluice::limit::token_bucket {

inline bool is_filling(const State& state, Time now) {
  return state.units > 0 && now.us < state.fresh_at_us;
}

// Does the counter equal a fresh one, so that its store may forget it?
inline bool fresh(const State& state, const Limit&, Time now) {
  return !is_filling(state, now);
}

// The same arithmetic where 64 bits may not do. All products fit 128: each factor is under 2^64
// and one of the two under 2^63.
namespace wide {

// The latest representable time to full: not `never`, and not past the last representable time.
inline Wide horizon_us(Time now) {
  return Wide{INT64_MAX} - std::max<int64_t>(now.us, 1);
}

// The parts that may be missing at most.
inline Wide capacity(const Limit& limit, int64_t burst, Time now) {
  return std::min(Wide{burst} * limit.window.us, horizon_us(now) * limit.quota);
}

inline Wide missing(const State& state, const Limit& limit, int64_t burst, Time now) {
  if (!is_filling(state, now)) return 0;
  const Wide parts = (Wide{state.fresh_at_us} - 1 - now.us) * limit.quota + state.units;
  return std::min(parts, capacity(limit, burst, now));
}

inline State state_of(Wide missing, const Limit& limit, Time now) {
  if (missing == 0) return {};
  return {static_cast<int64_t>(now.us + (missing - 1) / limit.quota + 1),
          static_cast<int64_t>((missing - 1) % limit.quota + 1)};
}

// What is granted or given back, and how the bucket then stands. `missing` as in decide_missing.
inline Outcome granted(Wide missing, const Limit& limit, int64_t burst, Time now) {
  Outcome out;
  out.decision.allowed = true;
  out.decision.limit = burst;
  const Wide left = capacity(limit, burst, now) - missing;
  // Rounded down, also below 0.
  const Wide unit = limit.window.us;
  out.decision.remaining =
      static_cast<int64_t>(left >= 0 ? left / unit : -((unit - 1 - left) / unit));
  out.next = state_of(missing, limit, now);
  if (missing > 0)
    out.decision.reset_after.us = static_cast<int64_t>((missing - 1) / limit.quota + 1);
  return out;
}

// The wait of a cost that does not fit now; `never`: it never will.
inline Duration wait_for(Wide missing, const Limit& limit, int64_t cost, Time now, int64_t burst) {
  const Wide parts = Wide{cost} * limit.window.us;
  if (parts > capacity(limit, burst, {})) return base::never;
  // At most the time to full, so it can be represented.
  const Wide lacking = missing + parts - capacity(limit, burst, {});
  const Wide wait_us = lacking > 0 ? (lacking - 1) / limit.quota + 1 : 0;
  // From the epoch on the end of time comes nearer as fast as parts come back: if the cost does not
  // fit then, it never does.
  const Time then{static_cast<int64_t>(now.us + wait_us)};
  const Wide still_missing = std::max<Wide>(missing - wait_us * limit.quota, 0);
  return still_missing + parts <= capacity(limit, burst, then)
             ? Duration{static_cast<int64_t>(wait_us)}
             : base::never;
}

// `missing`: also more than the bucket holds, then it is in debt.
inline Outcome decide_missing(Wide missing, const Limit& limit, int64_t cost, Time now,
                              int64_t burst) {
  Outcome out = granted(missing, limit, burst, now);
  if (cost == 0 && out.decision.remaining >= 0) return out;
  if (cost <= out.decision.remaining)
    return granted(missing + Wide{cost} * limit.window.us, limit, burst, now);
  out.decision.allowed = false;
  out.decision.retry_after = wait_for(missing, limit, cost, now, burst);
  return out;
}

[[gnu::noinline]] inline Outcome decide(const State& state, const Limit& limit, int64_t cost,
                                        Time now, int64_t burst) {
  return decide_missing(wide::missing(state, limit, burst, now), limit, cost, now, burst);
}

}  // namespace wide

// `next` of a refusal misses the same parts; of a full bucket it is State{}. Forced inline, as a
// call would cost what makes it more expensive than a fixed window's (docs/algorithms.md).
[[gnu::always_inline]] inline Outcome decide(const State& state, const Limit& limit, int64_t cost,
                                             Time now, int64_t burst) {
  const int64_t quota = limit.quota;
  const int64_t window_us = limit.window.us;
  SLUICE_CHECK(cost >= 0 && quota >= 1 && window_us >= 1 && burst >= 1);

  // From the epoch to 73,000 years later, with a capacity below 2^61 and a clock that did not step
  // back too far, nothing here overflows.
  int64_t capacity, missing = 0;
  if (__builtin_mul_overflow(burst, window_us, &capacity) || ((capacity | now.us) >> 61) != 0)
      [[unlikely]]
    return wide::decide(state, limit, cost, now, burst);
  if (state.fresh_at_us > now.us) {
    if (__builtin_mul_overflow(state.fresh_at_us - 1 - now.us, quota, &missing)) [[unlikely]]
      return wide::decide(state, limit, cost, now, burst);
    if (missing > capacity - state.units) [[unlikely]]
      return wide::decide(state, limit, cost, now, burst);
    missing += state.units;
  }
  const int64_t left = (capacity - missing) / window_us;
  if (cost <= left) {
    missing += cost * window_us;
    if (missing == 0) return {{true, burst, left, {}, {}}, {}};
    const int64_t to_full_us = (missing - 1) / quota + 1;
    return {{true, burst, left - cost, {to_full_us}, {}},
            {now.us + to_full_us, (missing - 1) % quota + 1}};
  }
  const Duration wait = cost > burst
                            ? base::never
                            : Duration{(missing + cost * window_us - capacity - 1) / quota + 1};
  if (missing == 0) return {{false, burst, left, {}, wait}, {}};
  return {{false, burst, left, {state.fresh_at_us - now.us}, wait}, state};
}

// Gives units back, to full at most; what does not fit is spilled. Always allowed.
inline Outcome put(const State& state, const Limit& limit, int64_t units, Time now, int64_t burst) {
  SLUICE_CHECK(units >= 0 && limit.quota >= 1 && limit.window.us >= 1 && burst >= 1);
  const Wide missing = wide::missing(state, limit, burst, now);
  const Wide back = Wide{units} * limit.window.us;
  return wide::granted(back < missing ? missing - back : 0, limit, burst, now);
}

}  // namespace sluice::limit::token_bucket
