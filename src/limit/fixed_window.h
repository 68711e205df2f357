// The fixed window: `quota` units per window, and a window opens with its first unit. Pure
// functions over a State, so they have no owner and any thread may call them; inline, because
// the store calls them under a stripe's lock.
//
// Times are integer microseconds. Q = quota, W = window, U = units taken in the open window.
//
//   state        fresh_at_us: end of the open window, units: U. Units 0: none is open. 16 bytes.
//   open         A window opens with a grant of cost > 0 at a time t without an open one, and is
//                open during [t, t + W). Nothing that happens in it, granted or not, moves its end.
//   grant        iff cost <= Q - U. Cost 0 takes nothing and opens nothing.
//   remaining    Q - U after the decision: the largest cost that would be granted next, now.
//   retry_after  0 when granted. At a refusal the wait after which the same cost is granted if
//                no units are taken meanwhile: to the end of the window and not a microsecond less;
//                `never` when cost > Q.
//   reset_after  until the window ends; 0 when none is open.
//   refusal      takes nothing, opens nothing.
//   put          U - units, or 0 if that is less; 0 closes the window. So what is put back counts
//                as never taken, the latest first, in the bound as well.
//   bound        T >= 1 microseconds, [a, a + T) for any a, admit at most (integer division)
//                    Q * ((T - 1) / W + 1)        when W divides T - 1,
//                    Q * ((T - 1) / W + 2) - 1    otherwise,
//                and some do admit that many: so 2Q - 1 in the length of one window, when W > 1.
//                Why: windows are disjoint and admit at most Q each; openings lie W apart or more.
//                If no window reaches in from before a, (T - 1) / W + 1 openings fit. One that does
//                has spent a unit out there and so adds Q - 1, but then the first opening inside is
//                at a + 1 or later, and (T - 2) / W + 1 fit (none if T = 1).
//   clock        A window that would have opened in the future of `now` (the clock stepped back) is
//                taken to have opened now, with its units: no wait is longer than W. The bound
//                holds while the clock does not step back. An end past the last representable time
//                is that time, at which every window is over.
//   other limit  The open window goes on with its units, to its end or to W from now if that is
//                sooner: a smaller quota may find itself in debt (remaining < 0).
//
// Exact for every cost >= 0, quota >= 1, window >= 1 us and any time; no float, no overflow. A call
// that breaks these preconditions ends the process.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "limit/limit.h"

namespace sluice::limit::fixed_window {

inline bool is_open(const State& state, Time now) {
  return state.units > 0 && now.us < state.fresh_at_us;
}

// Does the counter equal a fresh one, so that its store may forget it?
inline bool fresh(const State& state, const Limit&, Time now) {
  return !is_open(state, now);
}

// `next` of a refusal is the same window; of a counter without an open one it is State{}.
inline Outcome decide(const State& state, const Limit& limit, int64_t cost, Time now) {
  const int64_t quota = limit.quota;
  const int64_t window_us = limit.window.us;
  SLUICE_CHECK(cost >= 0 && quota >= 1 && window_us >= 1);

  const bool open = is_open(state, now);
  // The end of a window that opens now is also the latest that an open one may have.
  const int64_t latest_us = now.us > INT64_MAX - window_us ? INT64_MAX : now.us + window_us;
  const int64_t end_us = open ? std::min(state.fresh_at_us, latest_us) : latest_us;
  const int64_t used = open ? state.units : 0;
  const int64_t left = quota - used;
  const bool allowed = cost <= left;
  const int64_t taken = allowed ? cost : 0;
  const int64_t units = used + taken;
  const Duration to_end{end_us - now.us};

  Outcome out;
  out.decision.allowed = allowed;
  out.decision.limit = quota;
  out.decision.remaining = left - taken;
  out.decision.reset_after = units > 0 ? to_end : Duration{};
  out.decision.retry_after = allowed ? Duration{} : cost > quota ? base::never : to_end;
  out.next = units > 0 ? State{end_us, units} : State{};
  return out;
}

// Gives units of the open window back, down to none: then it is as if it had never opened. Always
// allowed.
inline Outcome put(const State& state, const Limit& limit, int64_t units, Time now) {
  SLUICE_CHECK(units >= 0);
  State less;
  if (is_open(state, now) && units < state.units) less = {state.fresh_at_us, state.units - units};
  Outcome out = decide(less, limit, 0, now);
  out.decision.allowed = true;
  out.decision.retry_after = {};
  return out;
}

}  // namespace sluice::limit::fixed_window
