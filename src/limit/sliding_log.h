// The sliding window of stored times: a unit counts for exactly one window from the microsecond in
// which it was taken, as long as not too many microseconds must be distinguished. Pure functions
// over a run of State cells, so they have no owner and any thread may call them; inline, because
// the store calls them under a stripe's lock.
//
// Times are integer microseconds. Q = quota, W = window. A run is what was taken in one
// microsecond.
//
//   state        one run per cell, the newest first. fresh_at_us: when the run ends to count, W
//                after it was taken; units: taken, above 0. Units 0: no run here nor after. The
//                first cell ends last, so from its fresh_at_us on the counter is fresh. min(Q, 32)
//                cells of 16 bytes.
//   used         the units of all runs whose end is after now.
//   grant        iff cost <= Q - used. Cost 0 takes nothing.
//   remaining    Q - used after the decision: the largest cost that would be granted next, now.
//   retry_after  0 when granted. At a refusal the wait after which the same cost is granted if
//                no units are taken meanwhile: until so many of the oldest runs have ended that it
//                fits, and not a microsecond less; `never` when cost > Q.
//   reset_after  until the newest run ends; 0 without any.
//   refusal      takes nothing.
//   put          takes units out of the runs, the newest first. So what is put back counts as never
//                taken, the latest first, in the bound as well.
//   bound        T >= 1 microseconds, [a, a + T) for any a, admit at most (integer division)
//                    Q * ((T - 1) / W + 1)
//                and some do admit that many: so Q in the length of one window, and in any shorter.
//                Why: every unit counts for W or longer, so at a grant all that was granted in the
//                W microseconds that end with it is in `used`: they admit at most Q. [a, a + T) is
//                covered by (T - 1) / W + 1 such intervals; Q at a, a + W, a + 2W ... reach it.
//   exact        while the last W microseconds hold at most 32 in which units were taken; always so
//                when Q <= 32. A grant in the 33rd merges two neighbouring runs at the later time,
//                which can only refuse more. Time is cut into slots of S = ceil(W / 31); only ends
//                in the same slot are merged, of these the pair that loses least (the units of the
//                older times the microseconds between), the oldest of equals. There is such a pair:
//                the ends lie in W neighbouring microseconds, which meet at most 32 slots.
//                So a unit never counts for longer than W + S - 1, 3.3 % too long: its run never
//                leaves the slot of its own end, however often it is merged.
//   clock        A run taken in the future of `now` (the clock stepped back) becomes one of now: no
//                wait is longer than W. The bound holds while the clock does not step back. An end
//                past the last representable time is that time, at which every run has ended.
//   other limit  Another quota of as many cells counts on with the same state, and a smaller one
//                may find itself in debt (remaining < 0). Under another window runs keep their
//                ends, but none ends later than a run of now.
//
// Exact for every cost >= 0, quota >= 1, window >= 1 us and any time; no float, no overflow. A call
// that breaks these preconditions ends the process.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "limit/limit.h"
#include "limit/wide.h"

namespace sluice::limit::sliding_log {

// The most runs of one counter.
inline constexpr size_t times_max = 32;

constexpr size_t cells(const Limit& limit) {
  return limit.quota < int64_t{times_max} ? static_cast<size_t>(limit.quota) : times_max;
}

// How much longer than W a unit may count, and a microsecond: the length of a slot.
constexpr int64_t slot_us(int64_t window_us) {
  return (window_us - 1) / int64_t{times_max - 1} + 1;
}

// Does the counter equal a fresh one, so that its store may forget it?
inline bool fresh(std::span<const State> state, const Limit&, Time now) {
  return state[0].units <= 0 || now.us >= state[0].fresh_at_us;
}

// Merges the pair of one slot that loses least; one run less. False: no two are in one slot.
inline bool merge_in_slots(std::span<State> runs, int64_t length_us) {
  const auto slot = [length_us](const State& run) {
    return run.fresh_at_us / length_us - (run.fresh_at_us % length_us < 0);
  };
  size_t best = 0;  // index of the older one
  Wide least = 0;
  for (size_t i = runs.size() - 1; i > 0; --i) {
    if (slot(runs[i]) != slot(runs[i - 1])) continue;
    const Wide loss = (Wide{runs[i - 1].fresh_at_us} - runs[i].fresh_at_us) * runs[i].units;
    if (best == 0 || loss < least) {
      best = i;
      least = loss;
    }
  }
  if (best == 0) return false;
  runs[best - 1].units += runs[best].units;
  std::copy(runs.begin() + static_cast<std::ptrdiff_t>(best) + 1, runs.end(),
            runs.begin() + static_cast<std::ptrdiff_t>(best));
  return true;
}

// There is such a pair (see `exact`).
inline void merge_pair(std::span<State> runs, int64_t window_us) {
  SLUICE_CHECK(merge_in_slots(runs, slot_us(window_us)));
}

// `state` has cells(limit) cells or, of a counter in debt, times_max. `next` may be `state` itself.
// That of a refusal is the same runs without those that have ended;
// of a counter without any it is all zero.
inline Decision decide(std::span<const State> state, const Limit& limit, int64_t cost, Time now,
                       std::span<State> next) {
  const int64_t quota = limit.quota;
  const int64_t window_us = limit.window.us;
  SLUICE_CHECK(cost >= 0 && quota >= 1 && window_us >= 1);
  SLUICE_CHECK(state.size() >= cells(limit) && state.size() <= times_max);
  SLUICE_CHECK(next.size() == state.size());

  // The end of a run of now is also the latest that any may have.
  const int64_t latest_us = now.us > INT64_MAX - window_us ? INT64_MAX : now.us + window_us;

  // The runs that count, with room in front for the one that this grant may add.
  std::array<State, times_max + 1> room;
  size_t count = 0;
  int64_t used = 0;
  for (const State& run : state) {
    if (run.units <= 0 || run.fresh_at_us <= now.us) break;
    const int64_t end_us = std::min(run.fresh_at_us, latest_us);
    used += run.units;
    if (count > 0 && room[count].fresh_at_us == end_us) {
      room[count].units += run.units;
    } else {
      room[++count] = {end_us, run.units};
    }
  }

  const int64_t left = quota - used;
  Decision decision;
  decision.limit = quota;
  decision.allowed = cost <= left;
  const int64_t taken = decision.allowed ? cost : 0;
  decision.remaining = left - taken;
  if (!decision.allowed) {
    decision.retry_after = base::never;
    if (cost <= quota) {
      size_t oldest = count + 1;
      for (int64_t free = left; free < cost;) free += room[--oldest].units;
      decision.retry_after.us = room[oldest].fresh_at_us - now.us;
    }
  }

  std::span<State> runs = std::span(room).subspan(1, count);
  if (taken > 0) {
    if (count > 0 && runs[0].fresh_at_us == latest_us) {
      runs[0].units += taken;
    } else {
      room[0] = {latest_us, taken};
      runs = std::span(room).first(count + 1);
      if (runs.size() > next.size()) {
        merge_pair(runs, window_us);
        runs = runs.first(runs.size() - 1);
      }
    }
  }
  if (!runs.empty()) decision.reset_after.us = runs[0].fresh_at_us - now.us;
  std::fill(std::copy(runs.begin(), runs.end(), next.begin()), next.end(), State{});
  return decision;
}

// Gives units back, those taken last first. Always allowed. `next` may be `state` itself.
inline Decision put(std::span<const State> state, const Limit& limit, int64_t units, Time now,
                    std::span<State> next) {
  SLUICE_CHECK(units >= 0 && state.size() >= cells(limit) && next.size() == state.size());
  size_t first = 0;  // the first run that keeps units
  const auto counts = [&] {
    return first < state.size() && !fresh(state.subspan(first), limit, now);
  };
  while (counts() && units >= state[first].units) units -= state[first++].units;
  const bool any = counts();
  const auto kept = any ? state.subspan(first) : state.first(0);
  std::fill(std::copy(kept.begin(), kept.end(), next.begin()), next.end(), State{});
  if (any) next[0].units -= units;
  Decision decision = decide(next, limit, 0, now, next);
  decision.allowed = true;
  decision.retry_after = {};
  return decision;
}

}  // namespace sluice::limit::sliding_log
