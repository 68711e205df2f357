// What happens to one limit's state under another limit: a pure function over a limit's cells, any
// thread; inline, because the store calls it under a stripe's lock. limit/carry_list.h decides
// which limit of a list continues which.
//
//   token_bucket, fixed_bucket, also one after the other
//                   CarryOver::used: the units that are missing still are, but no more than the new
//                   bucket holds; what a token_bucket has no room for is remembered beside it
//                   (carry_list.h), and a fixed_bucket that goes on as one owes it (remaining < 0).
//                   CarryOver::left: the units that are there still are, but no more than the new
//                   bucket holds; so a larger one has to fill up first. (That goes for a stored
//                   counter. One that was full and has been forgotten is full.) Fractions are
//                   rounded so that a change never gives any: to a part, 1/W of the new limit, or
//                   to a unit if that is a fixed_bucket. From now on they come back at the new
//                   speed.
//   fixed_window    the open window goes on with its units, to its end or to W from now if that is
//                   sooner.
//   aligned_window, sliding_window   as it is if the window is the same, else fresh.
//   sliding_log     as it is if the window is the same, else fresh. Where the new quota has fewer
//                   cells, the oldest runs are one, which ends with the newest of them: until that
//                   ends nothing can be taken anyway, as each run in front of it has a unit at
//                   least.
//   unlimited, deny, another algorithm   fresh.
//
// Equal limits change nothing. What is kept may be more than a smaller quota of a window has: then
// the counter is in debt (remaining < 0) until enough of it is over.
//
//   bound   A counter that opens fresh has forgotten: an interval around the change may admit what
//           the old limit admits at most and what the new one does, together. One that is kept
//           has what is used in its account as before.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "limit/decide.h"

namespace sluice::limit {

inline bool is_bucket(const Limit& limit) {
  return limit.algorithm == Algorithm::token_bucket || limit.algorithm == Algorithm::fixed_bucket;
}

// A bucket's parts, of which a unit is `unit`.
struct BucketParts {
  Wide capacity, missing;
  int64_t unit;
};

inline BucketParts parts_of(const State& state, const Limit& limit, Time now) {
  SLUICE_CHECK(limit.burst >= 1);
  if (limit.algorithm == Algorithm::fixed_bucket)
    return {limit.burst, fixed_bucket::missing(state, limit, now), 1};
  SLUICE_CHECK(limit.quota >= 1 && limit.window.us >= 1);
  return {token_bucket::wide::capacity(limit, limit.burst, now),
          token_bucket::wide::missing(state, limit, limit.burst, now), limit.window.us};
}

inline State carry_over_bucket(const State& state, const Limit& from, const Limit& to,
                               CarryOver carry, Time now) {
  const BucketParts was = parts_of(state, from, now), is = parts_of({}, to, now);
  if (carry == CarryOver::used && from.algorithm == Algorithm::fixed_bucket &&
      to.algorithm == from.algorithm)
    return fixed_bucket::state_of(static_cast<int64_t>(was.missing));
  // Of the part that is kept; each product is below 2^126.
  const Wide kept =
      carry == CarryOver::used ? was.missing : std::max<Wide>(was.capacity - was.missing, 0);
  const Wide fraction = kept % was.unit * is.unit;
  const Wide down = kept / was.unit * is.unit + fraction / was.unit;
  const Wide missing = carry == CarryOver::used
                           ? std::min(down + (fraction % was.unit != 0), is.capacity)
                           : is.capacity - std::min(down, is.capacity);
  return to.algorithm == Algorithm::fixed_bucket
             ? fixed_bucket::state_of(static_cast<int64_t>(missing))
             : token_bucket::wide::state_of(missing, to, now);
}

// The newest `next.size()` runs of a sliding_log; what is older ends with the last of them. (Of
// other limits, whose cells are as many: the same.)
inline void keep_runs(std::span<const State> runs, std::span<State> next) {
  const size_t same = std::min(runs.size(), next.size());
  std::copy_n(runs.begin(), same, next.begin());
  std::fill(next.begin() + static_cast<std::ptrdiff_t>(same), next.end(), State{});
  for (const State& run : runs.subspan(same)) next.back().units += run.units;
}

// `state` are the cells(from) cells under the old limit, `next` the cells(to) ones under the new
// one; they may be the same, but not overlap otherwise. The preconditions are those of the
// algorithms, of both limits.
inline void carry_over(std::span<const State> state, const Limit& from, const Limit& to,
                       CarryOver carry, Time now, std::span<State> next) {
  SLUICE_CHECK(state.size() == cells(from) && next.size() == cells(to));
  if (is_bucket(from) && is_bucket(to)) {
    next[0] = carry_over_bucket(state[0], from, to, carry, now);
    return;
  }
  bool keeps = from.algorithm == to.algorithm && has_counter(to.algorithm);
  if (to.algorithm != Algorithm::fixed_window) keeps &= from.window == to.window;
  if (!keeps) {
    std::fill(next.begin(), next.end(), State{});
    return;
  }
  // First read under the old limit at `now`, then under the new one: each drops what no longer
  // counts.
  std::array<State, limit_cells_max> seen;
  decide(state.data(), from, 0, now, seen.data());
  keep_runs({seen.data(), state.size()}, next);
  decide(next.data(), to, 0, now, next.data());
}

}  // namespace sluice::limit
