// The fixed window aligned to the clock: `quota` units in each window [k * W, (k + 1) * W), k any
// integer, counted from the Unix epoch; what people mean by "per calendar minute". Or in each
// window of a calendar (limit/calendar.h), of which lengths differ. Pure functions over a State, so
// they have no owner and any thread may call them; inline, because the store calls them under a
// stripe's lock.
//
// Times are integer microseconds. Q = quota, W = window, U = units taken in the window of `now`.
//
//   state        fresh_at_us: end of the window that was taken from, units: U. Units 0: nothing was
//                taken. 16 bytes.
//   grant        iff cost <= Q - U. Cost 0 takes nothing.
//   remaining    Q - U after the decision: the largest cost that would be granted next, now.
//   retry_after  0 when granted. At a refusal the wait after which the same cost is granted if
//                no units are taken meanwhile: to the end of the window and not a microsecond less;
//                `never` when cost > Q.
//   reset_after  until the window ends; 0 when nothing was taken in it.
//   refusal      takes nothing.
//   put          U - units, or 0 if that is less. So what is put back counts as never taken, the
//                latest first, in the bound as well.
//   count        takes the units whether they fit or not, then allows iff U <= Q; so a refusal
//                takes as well, and remaining = Q - U is below 0. U stops at counted_max, 2^53 - 1,
//                and is above every quota then. Quota 0: only cost 0 of a fresh counter is allowed.
//                retry_after of a refusal: to the end of the window, `never` when cost > Q.
//                Envoy's ratelimit decides so (docs/algorithms.md).
//   bound        T >= 1 microseconds, [a, a + T) for any a, admit at most (integer division)
//                    Q * ((T + W - 2) / W + 1)
//                and some do admit that many: so 2Q in the length of one window, when W > 1.
//                Why: that is the most windows that [a, a + T) meets, reached when its first
//                microsecond is the last of a window; each admits Q, all of it at any one moment.
//                The same for `count`, as what it refuses is never given back but by put.
//   clock        A state whose window ends later than the window of `now` (the clock stepped back)
//                counts in the window of `now`: no wait is longer than W. The bound holds while the
//                clock does not step back. An end past the last representable time is that time,
//                at which every window is over.
//   calendar     With the windows of a calendar W is the length of the window of `now`, and the
//                bound of an interval is Q * n, n the number of windows that it meets; some do
//                admit that many, as above. A state counts in the window that contains the
//                microsecond before its end, and ends with that: so it does where the calendar's
//                zone has other data now. A store may have forgotten it at its own end.
//   other limit  A state that another limit left behind counts until the end that it names, or to
//                that of the window of `now` if that is sooner: a smaller quota may find itself in
//                debt (remaining < 0).
//
// Exact for every cost >= 0, quota >= 0, window >= 1 us and any time; no float, no
// overflow. A call that breaks these preconditions ends the process.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "limit/calendar.h"
#include "limit/limit.h"

namespace sluice::limit::aligned_window {

// Where the window of `now` ends; after `now`, except at the last representable time.
inline int64_t window_end_us(int64_t window_us, Time now) {
  const int64_t past_us = now.us % window_us;  // since the start; before the epoch: of the next one
  const int64_t left_us = past_us < 0 ? -past_us : window_us - past_us;
  return now.us > INT64_MAX - left_us ? INT64_MAX : now.us + left_us;
}

// The window of an instant, for people: the present one of a calendar stays as it is.
inline Calendar::Window window_of(const Limit& limit, Time at) {
  if (limit.calendar) return limit.calendar.find(at);
  const int64_t end_us = window_end_us(limit.window.us, at);
  const int64_t begun_us =
      at.us % limit.window.us + (at.us % limit.window.us < 0 ? limit.window.us : 0);
  return {at.us < INT64_MIN + begun_us ? INT64_MIN : at.us - begun_us, end_us};
}

// The state as one of the window of `now`: 0 units are a fresh one's.
struct Present {
  int64_t end_us, used;
};
[[gnu::always_inline]] inline Present of_clock(const State& state, const Limit& limit, Time now) {
  const bool open = state.units > 0 && now.us < state.fresh_at_us;
  const int64_t latest_us = window_end_us(limit.window.us, now);
  return {open ? std::min(state.fresh_at_us, latest_us) : latest_us, open ? state.units : 0};
}
[[gnu::always_inline]] inline Present of_calendar(const State& state, const Limit& limit,
                                                  Time now) {
  const Calendar::Window window = limit.calendar.window(now);
  const bool open = state.units > 0 && state.fresh_at_us > window.start_us;
  return {window.end_us, open ? state.units : 0};
}
[[gnu::always_inline]] inline Present present(const State& state, const Limit& limit, Time now) {
  return limit.calendar ? of_calendar(state, limit, now) : of_clock(state, limit, now);
}

// Does the counter equal a fresh one, so that its store may forget it?
inline bool fresh(const State& state, const Limit& limit, Time now) {
  return present(state, limit, now).used == 0;
}

// Units that `count` counts to.
inline constexpr int64_t counted_max = used_max;

[[gnu::always_inline]] inline Outcome decide_in(const Present& window, const Limit& limit,
                                                int64_t cost, Time now) {
  const auto [end_us, used] = window;
  const int64_t quota = limit.quota;
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

// `next` of a refusal is the same window; of a counter from which nothing was taken it is State{}.
[[gnu::always_inline]] inline Outcome decide(const State& state, const Limit& limit, int64_t cost,
                                             Time now) {
  SLUICE_CHECK(cost >= 0 && limit.quota >= 0 && limit.window.us >= 1);
  return decide_in(present(state, limit, now), limit, cost, now);
}

// Takes the cost in any case, then compares. `next` of cost 0 is the same window. `most`: units
// that it counts to, where something else than a State keeps them.
inline Outcome count(const State& state, const Limit& limit, int64_t cost, Time now,
                     int64_t most = counted_max) {
  const int64_t quota = limit.quota;
  SLUICE_CHECK(cost >= 0 && quota >= 0 && limit.window.us >= 1);

  const auto [end_us, used] = present(state, limit, now);
  const int64_t units = used + std::min(cost, std::max<int64_t>(most - used, 0));
  // A counter that is full says nothing of what came past it.
  const bool allowed = units <= quota && cost <= most - used;
  const Duration to_end{end_us - now.us};

  Outcome out;
  out.decision.allowed = allowed;
  out.decision.limit = quota;
  out.decision.remaining = quota - units;
  out.decision.reset_after = units > 0 ? to_end : Duration{};
  out.decision.retry_after = allowed ? Duration{} : cost > quota ? base::never : to_end;
  out.next = units > 0 ? State{end_us, units} : State{};
  return out;
}

// Gives units of the window of `now` back, down to none. Always allowed.
inline Outcome put(const State& state, const Limit& limit, int64_t units, Time now) {
  SLUICE_CHECK(units >= 0);
  State less;
  const auto [end_us, used] = present(state, limit, now);
  if (units < used) less = {end_us, used - units};
  Outcome out = decide(less, limit, 0, now);
  out.decision.allowed = true;
  out.decision.retry_after = {};
  return out;
}

}  // namespace sluice::limit::aligned_window
