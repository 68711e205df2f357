// The sliding window of two counters: units taken in this window of the clock and in the one
// before, the latter weighted by how much of it the sliding window still covers. It is the
// approximation that Cloudflare described ("How we built rate limiting capable of scaling to
// millions of domains", 2017) and that lua-resty-global-throttle brings to nginx; here in integers.
// Pure functions over a run of State cells, so they have no owner and any thread may call them;
// inline, because the store calls them under a stripe's lock.
//
// Times are integer microseconds. Q = quota, W = window. Windows are [k * W, (k + 1) * W), k any
// integer, counted from the Unix epoch. C and P are the units taken in the window of `now` and in
// the one before; L = what is left of the window of `now`, 1 to W.
//
//   state        two cells, 32 bytes. The first: units C, above 0 unless the counter is fresh, and
//                fresh_at_us, the end of the window after the one that C is of: then the counter is
//                fresh. The second: units P, and fresh_at_us, the end of the window that C is of.
//                A state is moved to the window of `now` by a grant, and until then read as if.
//   used         C + ceil(P * L / W): rounded up, so that rounding never admits a unit more.
//   grant        iff cost <= Q - used. Cost 0 takes nothing.
//   remaining    Q - used after the decision: the largest cost that would be granted next, now.
//                Negative (debt) only after a clock that stepped back or under another limit.
//   retry_after  0 when granted. At a refusal the wait after which the same cost is granted if
//                no units are taken meanwhile, and not a microsecond less:
//                    L - floor((Q - C - cost) * W / P)        when cost <= Q - C: P fades enough
//                    L + W - floor((Q - cost) * W / C)        otherwise: C must, in the next window
//                `never` when cost > Q.
//   reset_after  until nothing that was taken has any weight: to the end of the window after the
//                last grant's. 0 to 2W.
//   refusal      takes nothing.
//   put          C - units, and what that is below 0 from P, down to 0. `remaining` grows by the
//                units that C gives, by those of P only as much as they still weigh.
//   bound        Not the quota. T >= 1 microseconds, [a, a + T) for any a, admit at most, with
//                T - 1 = n * W + r, 0 <= r < W (integer division),
//                    x0 + x1 + ... + xn + y    where x0 = Q, xi = Q - ceil(x(i-1) / W),
//                                              y = Q - ceil(xn * (W - r + 1) / W), or 0 if r = 0,
//                and some do admit that many: so 2Q - ceil(2Q / W) in the length of one window,
//                when W > 1, which is 2Q - 1 when 2Q <= W. Never more than Q * (W + T - 1) / W.
//                Why: let x be the units that a window grants, z those of the one before. A grant
//                that leaves L of the window to come makes x <= Q - ceil(z * L / W), the more the
//                later. A unit less in one window allows at most one more in the next, so each
//                window taking all it can is best, the first as late as it can: the interval
//                begins with the last microsecond of a window, Q there; n whole windows, emptied
//                in their last microsecond (L = 1); r microseconds of another (L = W - r + 1).
//                The plain bound: xn + y <= Q + xn * (r - 1) / W, and every x <= Q.
//   clock        A state of a later window than that of `now` (the clock stepped back) becomes one
//                of the window of `now`, with C and P as they are: no wait is longer than 2W. The
//                bound holds while the clock does not step back. An end past the last
//                representable time is that time, at which every counter is fresh.
//   other limit  Another quota counts on with the same state. Under another window the state counts
//                as one of that window or of the one before, no longer than until its own mark, and
//                until it is over retry_after may be wrong; a fresh counter is the better start.
//
// Exact for every cost >= 0, quota >= 1, window 1 us to base::bounds::window_us_max and any time;
// no float, no overflow. A call that breaks these preconditions ends the process.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bounds.h"
#include "base/check.h"
#include "limit/limit.h"
#include "limit/wide.h"

namespace sluice::limit::sliding_counters {

constexpr size_t cells(const Limit&) {
  return 2;
}

// Does the counter equal a fresh one, so that its store may forget it?
inline bool fresh(std::span<const State> state, const Limit&, Time now) {
  return state[0].units <= 0 || now.us >= state[0].fresh_at_us;
}

// The window of `now`: how much of it is to come, 1 to W.
inline int64_t to_come_us(int64_t window_us, Time now) {
  const int64_t past_us = now.us % window_us;  // since the start; before the epoch: of the next one
  return past_us < 0 ? -past_us : window_us - past_us;
}

// `next` may be `state` itself. That of a refusal is the same state, moved back if the clock was;
// of a fresh counter it is all zero.
inline Decision decide(std::span<const State> state, const Limit& limit, int64_t cost, Time now,
                       std::span<State> next) {
  const int64_t quota = limit.quota;
  const int64_t window_us = limit.window.us;
  SLUICE_CHECK(cost >= 0 && quota >= 1 && window_us >= 1);
  SLUICE_CHECK(window_us <= base::bounds::window_us_max);
  SLUICE_CHECK(state.size() == 2 && next.size() == 2);

  const auto later_us = [](int64_t us, int64_t by_us) {
    return us > INT64_MAX - by_us ? INT64_MAX : us + by_us;
  };
  const int64_t left_us = to_come_us(window_us, now);
  const int64_t end_us = later_us(now.us, left_us);

  const State first = state[0], second = state[1];
  const bool live = !fresh(state, limit, now);
  const bool moves_on = live && second.fresh_at_us <= now.us;
  const int64_t current = live && !moves_on ? first.units : 0;
  const int64_t previous = !live ? 0 : moves_on ? first.units : second.units;

  const int64_t left = quota - current - mul_div_ceil(previous, left_us, window_us);
  Decision decision;
  decision.limit = quota;
  decision.allowed = cost <= left;
  const int64_t taken = decision.allowed ? cost : 0;
  decision.remaining = left - taken;

  if (!decision.allowed) {
    decision.retry_after = base::never;
    if (cost <= quota) {
      const int64_t wait_us =
          cost <= quota - current
              ? left_us - mul_div_floor(quota - current - cost, window_us, previous)
              : left_us + window_us - mul_div_floor(quota - cost, window_us, current);
      decision.retry_after.us = later_us(now.us, wait_us) - now.us;
    }
  }

  if (current + taken > 0) {
    next[0] = {later_us(end_us, window_us), current + taken};
    next[1] = {end_us, previous};
  } else if (live) {
    next[0] = {std::min(first.fresh_at_us, end_us), first.units};  // less only under another window
    next[1] = second;
  } else {
    next[0] = next[1] = {};
  }
  if (next[0].units > 0) decision.reset_after.us = next[0].fresh_at_us - now.us;
  return decision;
}

// Gives units back, those of the window of `now` first, then those of the one before. Always
// allowed. `next` may be `state` itself.
inline Decision put(std::span<const State> state, const Limit& limit, int64_t units, Time now,
                    std::span<State> next) {
  SLUICE_CHECK(units >= 0 && limit.window.us >= 1);
  SLUICE_CHECK(state.size() == 2 && next.size() == 2);
  const State first = state[0], second = state[1];
  next[0] = next[1] = {};
  if (fresh(std::array{first, second}, limit, now)) {
    // Nothing to give back.
  } else if (units < first.units) {
    next[0] = {first.fresh_at_us, first.units - units};
    next[1] = second;
  } else if (second.fresh_at_us > now.us && units - first.units < second.units) {
    // Only the earlier window has units left: a state of that window.
    const int64_t left_us = to_come_us(limit.window.us, now);
    const int64_t past_us = limit.window.us - left_us;
    next[0] = {now.us > INT64_MAX - left_us ? INT64_MAX : now.us + left_us,
               second.units - (units - first.units)};
    next[1].fresh_at_us = now.us < INT64_MIN + past_us ? INT64_MIN : now.us - past_us;
  }
  Decision decision = decide(next, limit, 0, now, next);
  decision.allowed = true;
  decision.retry_after = {};
  return decision;
}

}  // namespace sluice::limit::sliding_counters
