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
//                   speed. Debt (limit/debt.h) is not forgiven: the new bucket owes as many units
//                   as the old one at least.
//   fixed_window    the open window goes on with its units, to its end or to W from now if that is
//                   sooner.
//   aligned_window, sliding_window   as it is if the window, or the calendar, is the same, else
//                   fresh.
//   sliding_log     as it is if the window is the same, else fresh. Where the new quota has fewer
//                   cells, the oldest runs are one, which ends with the newest of them: until that
//                   ends nothing can be taken anyway, as each run in front of it has a unit at
//                   least. The runs of a counter in debt that has more than its cells stay apart.
//   concurrency     as it is, whatever the lease is: each unit keeps its end. Under a smaller quota
//                   it has up to 32 runs, as if it were in debt, so that they stay apart.
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
#include "limit/debt.h"
#include "limit/decide.h"

namespace sluice::limit {

// A bucket's parts, of which a unit is `unit`.
struct BucketParts {
  Wide capacity, missing;
  int64_t unit;
};

inline BucketParts parts_of(const State* whole, const Limit& limit, Time now) {
  SLUICE_CHECK(limit.burst >= 1);
  if (limit.algorithm == Algorithm::fixed_bucket)
    return {limit.burst, fixed_bucket::missing(*whole, limit, now), 1};
  SLUICE_CHECK(limit.quota >= 1 && limit.window.us >= 1);
  return {token_bucket::wide::capacity(limit, limit.burst, now),
          debt::bucket::missing(whole, limit, now), limit.window.us};
}

// A bucket's whole state; the second cell is not used by a fixed_bucket.
using WholeBucket = std::array<State, 2>;

inline WholeBucket carry_over_bucket(const State* whole, const Limit& from, const Limit& to,
                                     CarryOver carry, Time now) {
  constexpr WholeBucket fresh{};
  const BucketParts was = parts_of(whole, from, now), is = parts_of(fresh.data(), to, now);
  if (carry != CarryOver::left && from.algorithm == Algorithm::fixed_bucket &&
      to.algorithm == from.algorithm)
    return {fixed_bucket::state_of(static_cast<int64_t>(was.missing))};
  // Each product is below 2^126.
  const auto down = [&](Wide parts) {
    return parts / was.unit * is.unit + parts % was.unit * is.unit / was.unit;
  };
  const auto up = [&](Wide parts) {
    return down(parts) + (parts % was.unit * is.unit % was.unit != 0);
  };
  const Wide owed = up(std::max<Wide>(was.missing - was.capacity, 0));
  const Wide missing = carry != CarryOver::left ? std::min(up(was.missing), is.capacity + owed)
                       : owed > 0
                           ? is.capacity + owed
                           : is.capacity - std::min(down(was.capacity - was.missing), is.capacity);
  if (to.algorithm == Algorithm::fixed_bucket)
    return {fixed_bucket::state_of(static_cast<int64_t>(std::min<Wide>(missing, used_max)))};
  WholeBucket next;
  const Wide most = token_bucket::wide::capacity(to, used_max, now);
  debt::bucket::set(next.data(), std::min(missing, most), to, now);
  return next;
}

// The `next.size()` runs that end last; what ends earlier ends with the first of them. (Of other
// limits, whose cells are as many: the same.)
inline void keep_runs(std::span<const State> runs, std::span<State> next) {
  const size_t same = std::min(runs.size(), next.size());
  std::copy_n(runs.begin(), same, next.begin());
  std::fill(next.begin() + static_cast<std::ptrdiff_t>(same), next.end(), State{});
  for (const State& run : runs.subspan(same)) next.back().units += run.units;
}

// `state` is the state under the old limit, `next` becomes the one under the new limit; they may be
// the same. Each has the limit's whole cells or, where it is known not to be in debt, only cells().
// The preconditions are those of the algorithms, of both limits.
inline void carry_over(std::span<const State> state, const Limit& from, const Limit& to,
                       CarryOver carry, Time now, std::span<State> next) {
  SLUICE_CHECK(state.size() >= cells(from) && next.size() >= cells(to));
  std::array<State, limit_cells_max> was{}, is{};
  std::copy(state.begin(), state.end(), was.begin());
  bool keeps = from.algorithm == to.algorithm && has_counter(to.algorithm);
  if (to.algorithm != Algorithm::fixed_window) keeps &= same_kind(from, to);
  if (is_bucket(from) && is_bucket(to)) {
    const WholeBucket bucket = carry_over_bucket(was.data(), from, to, carry, now);
    std::copy(bucket.begin(), bucket.end(), is.begin());
  } else if (keeps) {
    // First read under the old limit at `now`, then under the new one: each drops what no longer
    // counts.
    debt::decide(was.data(), from, 0, now);
    const size_t all = debt::whole_cells(from);
    const bool apart = to.algorithm == Algorithm::concurrency ||
                       (all > cells(from) && was[cells(from)] != State{});
    keep_runs(std::span(was).first(apart ? all : cells(from)),
              std::span(is).first(apart ? debt::whole_cells(to) : cells(to)));
    debt::decide(is.data(), to, 0, now);
  }
  if (has_runs(to)) return keep_runs(is, next);
  std::copy_n(is.begin(), next.size(), next.begin());
}

}  // namespace sluice::limit
