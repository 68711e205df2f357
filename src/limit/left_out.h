// What a counter holds beside the cells of the limits that are in force: limits that are left out
// at the moment, because an override or other rules took their place, with their states. They stand
// behind the cells in force and decide nothing. Pure functions over cells, any thread.
//
//   a limit left out   its kind is (algorithm, window). It is not charged meanwhile: time goes on
//                for it and nothing else, so it continues where it was when a limit of its kind is
//                in force again. Of fixed_buckets what is put back meanwhile is put back here too,
//                as no time brings it. One that is as a fresh one is dropped.
//   a bucket's memory   a token_bucket of the kind of one that is in force, with a larger burst:
//                what was used before the burst was lowered, of which the smaller bucket holds only
//                a part. It is charged with every grant, so that a raise of the burst gives nothing
//                that is used already. It always has the room that the smaller one has.
//   cells        a head and the cells of its state; of a sliding_log only those that hold a run.
//                The head: one cell, quota in `units`, and in fresh_at_us, counted from INT64_MIN,
//                the algorithm (3 bits), whether a second cell follows (1 bit), how many cells of
//                state follow (6 bits), and the window. The second one: the burst in `units`, where
//                that is not the quota. So no mark of a head is a moment until which a counter is
//                kept.
//   bound        a counter has cells_max cells, those in force first. Where the runs of a
//                sliding_log do not fit, the oldest are one, which ends with the newest of them.
//                What has no room for a single cell is not kept: such a limit begins again, as
//                everything did in store format 2.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bounds.h"
#include "base/check.h"
#include "limit/carry_over.h"
#include "limit/decide.h"
#include "limit/limit.h"

namespace sluice::limit {

struct LeftOut {
  Limit limit;
  std::span<const State> state;

  // All cells of the limit, as algorithms want them.
  std::array<State, limit_cells_max> cells() const {
    std::array<State, limit_cells_max> all{};
    std::copy(state.begin(), state.end(), all.begin());
    return all;
  }
};

inline bool same_kind(const Limit& a, const Limit& b) {
  return a.algorithm == b.algorithm && a.window == b.window;
}

inline bool is_any_of_kind(std::span<const Limit> limits, const Limit& kind) {
  return std::any_of(limits.begin(), limits.end(),
                     [&kind](const Limit& limit) { return same_kind(limit, kind); });
}

// Does a limit with these cells equal a fresh one? True for a limit without a counter.
inline bool is_fresh(std::span<const State> state, Time now) {
  return state.empty() || state[0].units <= 0 || state[0].fresh_at_us <= now.us;
}

namespace left_out {

// The indexes are stored, so the order must not change.
inline constexpr std::array algorithms = {Algorithm::fixed_window, Algorithm::aligned_window,
                                          Algorithm::token_bucket, Algorithm::sliding_window,
                                          Algorithm::sliding_log,  Algorithm::fixed_bucket};
inline constexpr uint64_t algorithm_bits = 7, second_bit = 8;
inline constexpr int count_shift = 4, window_shift = 10;
inline constexpr uint64_t count_bits = 63;

// The most limits left out that a counter can have: a head and a cell each.
inline constexpr size_t most = cells_max / 2;

inline size_t head_cells(const Limit& limit) {
  return limit.algorithm == Algorithm::token_bucket && limit.burst != limit.quota ? 2 : 1;
}

// Appends after the first `count` cells of `out`, which has cells_max. Returns the new count; the
// same count: it does not fit.
inline size_t append(const LeftOut& one, State* out, size_t count) {
  const size_t head = head_cells(one.limit);
  size_t cells = one.state.size();
  if (one.limit.algorithm == Algorithm::sliding_log) {
    while (cells > 0 && one.state[cells - 1].units <= 0) --cells;
    if (count + head + cells > cells_max) cells = cells_max - std::min(cells_max, count + head);
  }
  if (cells == 0 || count + head + cells > cells_max) return count;
  const auto* const at = std::find(algorithms.begin(), algorithms.end(), one.limit.algorithm);
  SLUICE_CHECK(at != algorithms.end());
  const uint64_t packed = static_cast<uint64_t>(at - algorithms.begin()) |
                          (head == 2 ? second_bit : 0) | uint64_t{cells} << count_shift |
                          static_cast<uint64_t>(one.limit.window.us) << window_shift;
  out[count++] = {INT64_MIN + static_cast<int64_t>(packed), one.limit.quota};
  if (head == 2) out[count++] = {INT64_MIN, one.limit.burst};
  keep_runs(one.state, {out + count, cells});
  return count + cells;
}

// Reads the first limit left out, and removes it from `cells`. False: the cells are not valid.
inline bool next(std::span<const State>& cells, LeftOut& one) {
  if (cells.empty()) return false;
  const uint64_t packed = static_cast<uint64_t>(cells[0].fresh_at_us) ^ uint64_t { 1 } << 63;
  if ((packed & algorithm_bits) >= algorithms.size() ||
      packed >> window_shift > uint64_t{base::bounds::window_us_max})
    return false;
  Limit limit{algorithms[packed & algorithm_bits],
              cells[0].units,
              {static_cast<int64_t>(packed >> window_shift)}};
  const bool is_fixed_bucket = limit.algorithm == Algorithm::fixed_bucket;
  const bool is_bucket = is_fixed_bucket || limit.algorithm == Algorithm::token_bucket;
  const bool second = (packed & second_bit) != 0;
  if (is_bucket) limit.burst = limit.quota;
  if (second && cells.size() > 1 && cells[1].fresh_at_us == INT64_MIN) limit.burst = cells[1].units;
  const auto is_count = [](int64_t n) { return n >= 1 && n <= base::bounds::quota_max; };
  if (!is_count(limit.quota) || (is_bucket && !is_count(limit.burst)) ||
      is_fixed_bucket == (limit.window.us > 0) || second != (head_cells(limit) == 2))
    return false;
  const size_t head = head_cells(limit), state = packed >> count_shift & count_bits;
  const bool is_log = limit.algorithm == Algorithm::sliding_log;
  if (is_log ? state < 1 || state > limit::cells(limit) : state != limit::cells(limit))
    return false;
  if (cells.size() < head + state) return false;
  one = {limit, cells.subspan(head, state)};
  cells = cells.subspan(head + state);
  return true;
}

// Are these the cells of a counter under those limits, including valid limits left out?
inline bool fits(std::span<const Limit> limits, std::span<const State> cells) {
  const size_t in_force = limit::cells(limits);
  if (cells.size() < in_force || cells.size() > cells_max) return false;
  cells = cells.subspan(in_force);
  for (LeftOut one; !cells.empty();)
    if (!next(cells, one)) return false;
  return true;
}

// Calls `visit(limit, state)` for each limit left out. `fits` must be true for the cells.
template <class Visit>
void each(std::span<State> cells, Visit&& visit) {
  std::span<const State> rest = cells;
  LeftOut one;
  while (next(rest, one)) {
    visit(one.limit,
          cells.subspan(cells.size() - rest.size() - one.state.size(), one.state.size()));
  }
}

inline bool is_memory(const Limit& limit, std::span<const Limit> in_force) {
  return limit.algorithm == Algorithm::token_bucket && is_any_of_kind(in_force, limit);
}

// What a grant of `cost` takes of them, and what a put gives back.
inline void take(std::span<State> cells, std::span<const Limit> in_force, int64_t cost, Time now) {
  each(cells, [&](const Limit& limit, std::span<State> state) {
    if (is_memory(limit, in_force)) decide(state.data(), limit, cost, now, state.data());
  });
}
inline void put(std::span<State> cells, std::span<const Limit> in_force, int64_t units, Time now) {
  each(cells, [&](const Limit& limit, std::span<State> state) {
    if (is_memory(limit, in_force) || limit.algorithm == Algorithm::fixed_bucket)
      limit::put(state.data(), limit, units, false, now, state.data());
  });
}

}  // namespace left_out
}  // namespace sluice::limit
