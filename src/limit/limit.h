// What a limit is, the state of a counter under it, and what one decides. Plain values without
// behaviour, clock or memory of their own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "limit/calendar.h"

namespace sluice::limit {

using base::Duration;
using base::Time;

enum class Algorithm : uint8_t {
  unlimited,       // always allowed, no counter
  deny,            // never allowed, no counter
  fixed_window,    // quota units per window that opens with its first unit
  aligned_window,  // quota units per window of the clock
  token_bucket,    // quota units per window come back continuously, up to burst
  sliding_window,  // two counters of the clock's windows, the older one weighted
  sliding_log,     // the times of units, exact while few enough are stored
  fixed_bucket,    // burst units that come back only by being put back
  concurrency,  // quota units out at a time, each given back at the end of its lease at the latest
  // The generic cell rate algorithm with the numbers and replies of other programs, whose requests
  // bring the numbers along (limit/gcra.h). No policy has them.
  gcra_cell,   // redis-cell's CL.THROTTLE
  gcra_crab,   // throttlecrab's THROTTLE
  gcra_redis,  // Redis' GCRA
};

// As policies spell it: "token_bucket".
std::string_view name_of(Algorithm algorithm);

// A rule's numbers. quota: units, 0 to base::bounds::quota_max. window: above 0 wherever the
// algorithm has one, 0 for a fixed_bucket; of concurrency the lease. calendar: of an aligned_window
// whose windows are those of a calendar; `window` is Calendar::nominal then and decides nothing.
// Elsewhere none. burst: a bucket's capacity, 1 to quota_max, of a fixed_bucket the same as its
// quota; of concurrency the longest lease in microseconds, at least `window`; 0 elsewhere. Of
// gcra_* limit/gcra.h says what the three hold.
struct Limit {
  Algorithm algorithm = Algorithm::deny;
  int64_t quota = 0;
  Duration window{};
  int64_t burst = 0;
  Calendar calendar{};
  friend bool operator==(const Limit&, const Limit&) = default;
};

// Are the windows of both the same?
constexpr bool same_window(const Limit& a, const Limit& b) {
  return a.window == b.window && a.calendar == b.calendar;
}

// Has a counter under one of them a state that the other one goes on with? A place keeps its end
// whatever the lease of later ones is.
constexpr bool same_kind(const Limit& a, const Limit& b) {
  return a.algorithm == b.algorithm && (a.algorithm == Algorithm::concurrency || same_window(a, b));
}

// The window for people: "90s" or "month@Europe/Berlin"; exact: in one unit, as policies spell it.
std::string window_text(const Limit& limit);
std::string exact_window_text(const Limit& limit);
// "10 at a time, concurrency, lease 30s, at most 5m": a limit of places for people.
std::string places_text(const Limit& limit);

// The most units that a charge, or a limit that counts, lets a counter have used.
inline constexpr int64_t used_max = (int64_t{1} << 53) - 1;

constexpr bool is_bucket(const Limit& limit) {
  return limit.algorithm == Algorithm::token_bucket || limit.algorithm == Algorithm::fixed_bucket;
}

// Is the state a list of runs, each with an end of its own? The first ends last.
constexpr bool has_runs(const Limit& limit) {
  return limit.algorithm == Algorithm::sliding_log || limit.algorithm == Algorithm::concurrency;
}

// The most units that a fresh counter has.
constexpr int64_t units_max(const Limit& limit) {
  return is_bucket(limit) ? limit.burst : limit.quota;
}

// Does the algorithm need a counter, or does the limit alone decide?
constexpr bool has_counter(Algorithm algorithm) {
  return algorithm >= Algorithm::fixed_window;
}

// Are its units places, each of which ends with its lease (limit/concurrency.h)?
constexpr bool has_places(const Limit& limit) {
  return limit.algorithm == Algorithm::concurrency;
}

// One cell of a counter's stored state; a limit has one or more of them (limit/decide.h). All zero
// is a fresh one.
struct State {
  int64_t fresh_at_us = 0;  // of a limit's first cell: the time from which the limit equals a fresh
                            // one, and the store may forget it
  int64_t units = 0;        // its meaning depends on the algorithm
  friend bool operator==(const State&, const State&) = default;
};

// What was given back to a counter while it has holds (limit/held.h): how many units, how often by
// somebody else than a hold, and how often it was reset.
struct Given {
  uint64_t units = 0;
  uint32_t puts = 0, resets = 0;
  friend bool operator==(const Given&, const Given&) = default;
};

// Does any of the limits have a counter?
constexpr bool is_counted(std::span<const Limit> limits) {
  for (const Limit& limit : limits) {
    if (has_counter(limit.algorithm)) return true;
  }
  return false;
}

// The answer of one limit.
struct Decision {
  bool allowed = false;
  int64_t limit = 0;      // the most that `remaining` can be: a bucket's burst, else the quota
  int64_t remaining = 0;  // units left after a grant, or as they stand at a refusal; negative: debt
  Duration reset_after{};  // until the counter is as fresh; base::never: it never will be
  Duration retry_after{};  // until the same request could be allowed; 0: it is, base::never: no
                           // wait helps
};

// A decision with the state that committing it leaves behind. An algorithm is a pure function to
// this.
struct Outcome {
  Decision decision;
  State next;
};

// What a bucket keeps when its limit changes.
enum class CarryOver : uint8_t {
  used,  // the units that are missing: a larger bucket has more left
  left,  // the units that are there, as many as fit: limitd's way
  // The units that are missing, of limits of its own kind alone: lists that come with requests are
  // not versions of one another, so that no limit goes on with another one, nor gets its units
  // back.
  apart,
};

// Limits that share one counter at most, and cells that they have together at most.
inline constexpr size_t slots_max = 8;
inline constexpr size_t cells_max = 64;

// What the quota of places counts, as header fields tell it.
inline constexpr std::string_view places_unit = "concurrent-requests";

// Some limits of a list; bit i is limit i. Of those that count (`over: count`): what they refuse is
// taken from them all the same. It does not belong to Limit, as a counter's state does not depend
// on it.
using LimitMask = uint8_t;
static_assert(slots_max <= 8);

constexpr bool has(LimitMask mask, size_t limit) {
  return (mask >> limit & 1) != 0;
}
constexpr LimitMask all_of(std::span<const Limit> limits) {
  return static_cast<LimitMask>((1u << limits.size()) - 1);
}

// The most debt of the limits of a list (`overdraft`): a charge, or a hit that a limit counts, is
// taken as far as no more units than that are owed afterwards, and the rest is dropped. As a mask,
// it does not belong to Limit.
struct Overdrafts {
  static constexpr int64_t none = used_max;  // used_max alone bounds it

  std::array<Limit, slots_max> limits{};  // the list
  std::array<int64_t, slots_max> most{};  // of each, in units, 0 to `none`
  size_t count = 0;

  void add(const Limit& limit, int64_t its_most) {
    limits[count] = limit;
    most[count++] = its_most;
  }
  bool has_any() const {
    return std::any_of(most.begin(), most.begin() + count, [](int64_t n) { return n < none; });
  }
  // Of limit `i` of a list that stands in place of this one, as an override's does: that of the
  // limit with the same window and algorithm; if there is none, of those with the same window; else
  // of all. The largest, if these are several.
  int64_t of(std::span<const Limit> list, size_t i) const;
  friend bool operator==(const Overdrafts&, const Overdrafts&) = default;
};

// The most cells of a counter: beside those of its limits each may need one for its debt
// (limit/debt.h).
inline constexpr size_t counter_cells_max = cells_max + slots_max;

}  // namespace sluice::limit
