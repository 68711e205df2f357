// What a counter holds beside the cells of the limits that are in force: limits that are left out
// at the moment, because an override or other rules took their place, with their states. They stand
// behind the cells in force and decide nothing. Pure functions over cells, any thread.
//
//   left out     a limit; its kind is (algorithm, window or calendar), of concurrency the algorithm
//                alone. It is not charged meanwhile:
//                time goes on for it and nothing else, so it continues where it was when a limit of
//                its kind is in force again. Of fixed_buckets what is put back meanwhile is put
//                back here too, as no time brings it. One that is as a fresh one is dropped.
//   memory       of a token_bucket in force: another one of its kind, with a larger burst. It is
//                what was used before the burst was lowered, of which the smaller bucket holds only
//                a part. It is charged with every grant, so that a raise of the burst gives nothing
//                that is used already. It always has the room that the smaller one has.
//   cells        a head and the cells of its state (limit/debt.h); of runs only those that there
//   are, of a token_bucket the second one only in debt.
//                The head: one cell, quota in `units`, and in fresh_at_us, counted from INT64_MIN,
//                the algorithm (3 bits; 6: an aligned_window of a calendar, whose code stands in
//                place of the window), whether a second cell follows (1 bit), how many cells of
//                state follow (6 bits), and the window. The second one: the burst in `units`, of a
//                token_bucket whose burst is not the quota, and of concurrency, which has the
//                number of a sliding_log and is told from it by the second cell. So no mark of a
//                head is a moment until which a counter is kept.
//   debt         of a limit in force that needs more cells than cells(limit): a head, for a
//                token_bucket the time of its state in `units`, for runs followed by those that
//                come last. These heads come first. Their fresh_at_us, counted from INT64_MIN:
//                7 in place of the algorithm, the limit's index (3 bits), how many cells follow.
//   bound        a counter has cells_max cells, those in force first; only debt may take it to
//                counter_cells_max. Where the runs of a limit do not fit, those that end first
//                are one, which ends with the last of them. What has no room for a single cell is
//                not kept: such a limit begins again when it is in force again.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bounds.h"
#include "base/check.h"
#include "limit/calendar.h"
#include "limit/carry_over.h"
#include "limit/debt.h"
#include "limit/decide.h"
#include "limit/limit.h"

namespace sluice::limit {

struct LeftOut {
  Limit limit;
  std::span<const State> state;

  // The whole state.
  std::array<State, limit_cells_max> cells() const {
    std::array<State, limit_cells_max> all{};
    std::copy(state.begin(), state.end(), all.begin());
    return all;
  }
};

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
// In place of an algorithm's index.
inline constexpr uint64_t of_calendar = 6, is_debt = 7;
inline constexpr int index_shift = 3;
inline constexpr uint64_t index_bits = 7;
static_assert(slots_max <= index_bits + 1 && algorithms.size() == of_calendar);
inline constexpr int count_shift = 4, window_shift = 10;
// So that INT64_MIN and a head is below zero.
static_assert(Calendar::code_bits + window_shift <= 63);
inline constexpr uint64_t count_bits = 63;

// The most limits left out that a counter can have: a head and a cell each.
inline constexpr size_t most = cells_max / 2;

inline size_t head_cells(const Limit& limit) {
  const bool second = (limit.algorithm == Algorithm::token_bucket && limit.burst != limit.quota) ||
                      limit.algorithm == Algorithm::concurrency;
  return second ? 2 : 1;
}

// Appends after the first `count` cells of `out`, which has cells_max. Returns the new count; the
// same count: it does not fit.
inline size_t append(const LeftOut& one, State* out, size_t count) {
  const size_t head = head_cells(one.limit);
  size_t cells = one.state.size();
  if (one.limit.algorithm == Algorithm::token_bucket) {
    if (cells == 2 && one.state[1] == State{}) cells = 1;
  } else if (has_runs(one.limit)) {
    while (cells > 0 && one.state[cells - 1].units <= 0) --cells;
    if (count + head + cells > cells_max) cells = cells_max - std::min(cells_max, count + head);
  }
  if (cells == 0 || count + head + cells > cells_max) return count;
  const Algorithm stored = has_runs(one.limit) ? Algorithm::sliding_log : one.limit.algorithm;
  const auto* const at = std::find(algorithms.begin(), algorithms.end(), stored);
  SLUICE_CHECK(at != algorithms.end());
  const Calendar calendar = one.limit.calendar;
  const uint64_t packed =
      (calendar ? of_calendar : static_cast<uint64_t>(at - algorithms.begin())) |
      (head == 2 ? second_bit : 0) | uint64_t{cells} << count_shift |
      (calendar ? calendar.code() : static_cast<uint64_t>(one.limit.window.us)) << window_shift;
  out[count++] = {INT64_MIN + static_cast<int64_t>(packed), one.limit.quota};
  if (head == 2) out[count++] = {INT64_MIN, one.limit.burst};
  keep_runs(one.state.first(std::min(one.state.size(), limit_cells_max)), {out + count, cells});
  return count + cells;
}

// The head of a limit's debt; `cells` follow it.
inline State debt_head(size_t index, size_t cells, int64_t units) {
  const uint64_t packed =
      is_debt | uint64_t{index} << index_shift | uint64_t{cells} << window_shift;
  return {INT64_MIN + static_cast<int64_t>(packed), units};
}

struct Debt {
  size_t index = 0;  // of the limit
  int64_t units = 0;
  std::span<const State> state;  // behind the head
};

// Reads the first limit's debt, and removes it from `cells`. False: there is none.
inline bool next(std::span<const State>& cells, std::span<const Limit> limits, Debt& debt) {
  if (cells.empty()) return false;
  const uint64_t packed = static_cast<uint64_t>(cells[0].fresh_at_us) ^ uint64_t { 1 } << 63;
  if ((packed & algorithm_bits) != is_debt) return false;
  const size_t index = packed >> index_shift & index_bits, count = packed >> window_shift;
  if (index >= limits.size() || count >= cells.size()) return false;
  const bool is_bucket = limits[index].algorithm == Algorithm::token_bucket;
  if (has_runs(limits[index])
          ? count < 1 || count > sliding_log::times_max - limit::cells(limits[index])
          : !is_bucket || count > 0)
    return false;
  debt = {index, cells[0].units, cells.subspan(1, count)};
  cells = cells.subspan(1 + count);
  return true;
}

// Reads the first limit left out, and removes it from `cells`. False: the cells are not valid.
inline bool next(std::span<const State>& cells, LeftOut& one) {
  if (cells.empty()) return false;
  const uint64_t packed = static_cast<uint64_t>(cells[0].fresh_at_us) ^ uint64_t { 1 } << 63;
  const uint64_t kind = packed & algorithm_bits, window = packed >> window_shift;
  Limit limit;
  limit.quota = cells[0].units;
  if (kind == of_calendar) {
    limit.algorithm = Algorithm::aligned_window;
    limit.calendar = Calendar::of_code(window);
    if (!limit.calendar) return false;
    limit.window = Calendar::nominal(limit.calendar.unit());
  } else if (kind < of_calendar && window <= uint64_t{base::bounds::window_us_max}) {
    limit.algorithm = algorithms[kind];
    limit.window = {static_cast<int64_t>(window)};
  } else {
    return false;
  }
  const bool is_fixed_bucket = limit.algorithm == Algorithm::fixed_bucket;
  const bool is_bucket = is_fixed_bucket || limit.algorithm == Algorithm::token_bucket;
  const bool second = (packed & second_bit) != 0;
  if (second && limit.algorithm == Algorithm::sliding_log) limit.algorithm = Algorithm::concurrency;
  if (is_bucket) limit.burst = limit.quota;
  if (second && cells.size() > 1 && cells[1].fresh_at_us == INT64_MIN) limit.burst = cells[1].units;
  const auto is_count = [](int64_t n) { return n >= 1 && n <= base::bounds::quota_max; };
  const bool denies_all = limit.algorithm == Algorithm::aligned_window && limit.quota == 0;
  if ((!is_count(limit.quota) && !denies_all) || (is_bucket && !is_count(limit.burst)) ||
      is_fixed_bucket == (limit.window.us > 0) || second != (head_cells(limit) == 2) ||
      (limit.algorithm == Algorithm::concurrency &&
       (limit.burst < limit.window.us || limit.burst > base::bounds::window_us_max)))
    return false;
  const size_t head = head_cells(limit), state = packed >> count_shift & count_bits;
  const size_t state_max = debt::whole_cells(limit);
  const size_t least = has_runs(limit) ? 1 : limit::cells(limit);
  if (state < least || state > state_max || cells.size() < head + state) return false;
  if (state == 2 && limit.algorithm == Algorithm::token_bucket &&
      cells[head + 1].fresh_at_us != INT64_MIN)
    return false;
  one = {limit, cells.subspan(head, state)};
  cells = cells.subspan(head + state);
  return true;
}

// Are these the cells of a counter under those limits, including valid limits left out?
inline bool fits(std::span<const Limit> limits, std::span<const State> cells) {
  const size_t in_force = limit::cells(limits);
  if (cells.size() < in_force || cells.size() > counter_cells_max) return false;
  cells = cells.subspan(in_force);
  for (Debt debt; next(cells, limits, debt);) continue;
  for (LeftOut one; !cells.empty();)
    if (!next(cells, one)) return false;
  return true;
}

inline bool is_memory(const Limit& limit, std::span<const Limit> in_force) {
  return limit.algorithm == Algorithm::token_bucket && is_any_of_kind(in_force, limit);
}

}  // namespace left_out
}  // namespace sluice::limit
