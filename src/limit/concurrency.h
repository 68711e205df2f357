// Places: at most so many units are out at a time, and each comes back by itself at the end of its
// lease. For streams, jobs and connections whose holders may die without giving back. Pure
// functions over a run of State cells, so they have no owner and any thread may call them; inline,
// but what calls them is not.
//
// Times are integer microseconds. Q = quota, L = window, the lease of a take; M = burst, the
// longest lease that any take may have. A run is the units that end in one microsecond.
//
//   state        one run per cell, the last end first. fresh_at_us: the end; units: above 0. Units
//                0: no run here nor after. min(Q, 32) cells of 16 bytes.
//   used         the units of all runs whose end is after now.
//   grant        iff cost <= Q - used. It puts the units into the run that ends at now + L.
//   remaining    Q - used after the decision: the largest cost that would be granted next, now.
//   retry_after  0 when granted. At a refusal the wait after which the same cost is granted if
//                nothing is taken, given back or moved meanwhile: until so many of the earliest
//                ends are over that it fits, and not a microsecond less; `never` when cost > Q.
//   reset_after  until the last end; 0 without any run.
//   refusal      takes nothing.
//   put          takes units out of the runs, those that end first: the oldest, if all leases are
//                as long.
//   other lease  The functions take the lease of each unit from the limit that they are given, so
//                another one is a copy of the limit (with_lease). Runs are kept in the order of
//                their ends, whatever the order of takes was.
//   bound        At any moment at most Q units are out whose lease has not ended: a grant needs
//                room for all of them, and no run ends earlier than any unit in it. So [a, a + T)
//                for any a admits at most (integer division)
//                    Q * ((T - 1) / L + 1)
//                and what is put back in it, if no lease is shorter than L; some do. A holder that
//                works on after the end of its lease is out of the limit's sight.
//   exact        while the units that are out have at most 32 different ends; always so when
//                Q <= 32. The 33rd merges two neighbouring runs at the later end: a unit may come
//                back late, never early. Time is cut into slots of S = ceil(M / 31), and of the
//                pairs in one slot that which loses least is merged (limit/sliding_log.h), so a
//                unit comes back at most S - 1 late, as long as all ends lie within M of now.
//                (After M was lowered, or the clock stepped back, the pair of all that loses
//                least.)
//   clock        An end is a moment of the clock: what a step back puts off is out for so much
//                longer, and no step lets more than Q out. An end past the last representable time
//                is that time, at which every run has ended.
//   other limit  Runs keep their ends under any other quota or lease, and a smaller quota may find
//                itself in debt (remaining < 0).
//
// Exact for every cost >= 0, quota >= 1, 1 us <= window <= burst and any time; no float, no
// overflow. A call that breaks these preconditions ends the process.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "limit/limit.h"
#include "limit/sliding_log.h"

namespace sluice::limit::concurrency {

inline constexpr size_t runs_max = sliding_log::times_max;

// The limit whose takes end after `lease`, or after the longest lease if that is shorter.
inline Limit with_lease(Limit limit, Duration lease) {
  limit.window.us = std::clamp<int64_t>(lease.us, 1, limit.burst);
  return limit;
}

// When a unit that is taken now ends.
constexpr int64_t end_of(const Limit& limit, Time now) {
  return now.us > INT64_MAX - limit.window.us ? INT64_MAX : now.us + limit.window.us;
}

// From now until that moment, which is after now; one too far away for a Duration: the longest.
constexpr Duration wait_until(int64_t end_us, Time now) {
  return {now.us < 0 && end_us > INT64_MAX + now.us ? INT64_MAX : end_us - now.us};
}

// The runs that are not over, with room for one more.
struct Runs {
  std::array<State, runs_max + 1> all;
  size_t count = 0;
  int64_t units = 0;  // of all

  Runs(std::span<const State> state, Time now) {
    SLUICE_CHECK(state.size() <= runs_max);
    for (const State& run : state) {
      if (run.units <= 0 || run.fresh_at_us <= now.us) break;
      all[count++] = run;
      units += run.units;
    }
  }
  auto at(size_t i) { return all.begin() + static_cast<std::ptrdiff_t>(i); }

  // The run with that end, or the one that it was merged into; `count`: there is none.
  size_t of(int64_t end_us) const {
    size_t i = count;
    while (i > 0 && all[i - 1].fresh_at_us < end_us) --i;
    return i > 0 ? i - 1 : count;
  }
  // Adds units that end after now. At most `most` runs are left.
  void add(int64_t end_us, int64_t added, const Limit& limit, size_t most) {
    if (added <= 0) return;
    units += added;
    size_t i = 0;
    while (i < count && all[i].fresh_at_us > end_us) ++i;
    if (i < count && all[i].fresh_at_us == end_us) {
      all[i].units += added;
      return;
    }
    std::copy_backward(at(i), at(count), at(count + 1));
    all[i] = {end_us, added};
    if (++count <= most) return;
    const std::span<State> runs(all.data(), count);
    SLUICE_CHECK(sliding_log::merge_in_slots(runs, sliding_log::slot_us(limit.burst)) ||
                 sliding_log::merge_in_slots(runs, INT64_MAX));
    --count;
  }
  // Takes up to so many units out of run `i`; returns how many.
  int64_t remove(size_t i, int64_t most) {
    const int64_t removed = std::min(all[i].units, most);
    units -= removed;
    all[i].units -= removed;
    if (all[i].units == 0) {
      std::copy(at(i + 1), at(count), at(i));
      --count;
    }
    return removed;
  }
  void write(std::span<State> next) {
    std::fill(std::copy(at(0), at(count), next.begin()), next.end(), State{});
  }
};

// `state` has the limit's cells or, of a counter in debt, runs_max. `next` may be `state` itself.
// That of a refusal is the same runs without those that have ended.
inline Decision decide(std::span<const State> state, const Limit& limit, int64_t cost, Time now,
                       std::span<State> next) {
  SLUICE_CHECK(cost >= 0 && limit.quota >= 1 && limit.window.us >= 1);
  SLUICE_CHECK(limit.burst >= limit.window.us && next.size() == state.size());
  Runs runs(state, now);
  const int64_t left = limit.quota - runs.units;
  Decision decision;
  decision.limit = limit.quota;
  decision.allowed = cost <= left;
  if (decision.allowed) {
    runs.add(end_of(limit, now), cost, limit, next.size());
  } else if (cost > limit.quota) {
    decision.retry_after = base::never;
  } else {
    size_t last = runs.count;
    for (int64_t free = left; free < cost;) free += runs.all[--last].units;
    decision.retry_after = wait_until(runs.all[last].fresh_at_us, now);
  }
  decision.remaining = limit.quota - runs.units;
  if (runs.count > 0) decision.reset_after = wait_until(runs.all[0].fresh_at_us, now);
  runs.write(next);
  return decision;
}

// Gives units back, those that end first. Always allowed. `next` may be `state` itself.
inline Decision put(std::span<const State> state, const Limit& limit, int64_t units, Time now,
                    std::span<State> next) {
  SLUICE_CHECK(units >= 0 && next.size() == state.size());
  Runs runs(state, now);
  while (units > 0 && runs.count > 0) units -= runs.remove(runs.count - 1, units);
  runs.write(next);
  Decision decision = decide(next, limit, 0, now, next);
  decision.allowed = true;
  decision.retry_after = {};
  return decision;
}

// Takes up to `units` out of the run that ends at `from_us`, or the one that it was merged into,
// and out of later ones where that has fewer (others that were merged behind it gave theirs back),
// and puts them into that which ends at `to_us`; a moment that is not after now: they are given
// back. After `from_us` none. Returns how many were moved.
inline int64_t move(std::span<State> state, const Limit& limit, int64_t units, int64_t from_us,
                    int64_t to_us, Time now) {
  Runs runs(state, now);
  if (now.us >= from_us) return 0;
  int64_t moved = 0;
  for (size_t from; moved < units && (from = runs.of(from_us)) != runs.count;)
    moved += runs.remove(from, units - moved);
  if (moved == 0) return 0;
  if (to_us > now.us) runs.add(to_us, moved, limit, state.size());
  runs.write(state);
  return moved;
}

// The units that end at `end_us` or earlier, with those that were merged into the same run.
inline int64_t units_until(std::span<const State> state, int64_t end_us, Time now) {
  const Runs runs(state, now);
  int64_t units = 0;
  for (size_t i = runs.of(end_us); i < runs.count; ++i) units += runs.all[i].units;
  return units;
}

}  // namespace sluice::limit::concurrency
