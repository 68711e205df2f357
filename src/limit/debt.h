// Debt: a counter from which more was taken than its limits allow. A charge takes a cost whether it
// fits or not, and so does a limit that counts (`over: count`) when it refuses. Pure functions, any
// thread; for what is rare, so not inlined into decisions.
//
// A counter in debt refuses every cost, also 0, until enough came back: `remaining` is below 0.
// What happens to the units is what the algorithm does with units that are used (its header), with
// no bound but used_max. Two algorithms need more cells than without debt, only while there is any:
//
//   token_bucket   A bucket's state says when it will be full, and is read as empty at most: debt
//                  would look the same as a clock that stepped back. So the state of a bucket in
//                  debt has a second cell, with the time t of the state. Before t (the clock
//                  stepped back) what was missing at t is missing; so a step back neither
//                  forgives debt nor adds any.
//   sliding_log, concurrency
//                  min(Q, 32) runs have room for all units of a grant, one each, but not for those
//                  of charges: a counter in debt has up to 32 runs, whatever its quota. From the
//                  33rd on they merge as runs of grants do.
//
// The whole state of a limit has room for both: whole_cells(limit) are 2 for a token_bucket, 32 for
// lists of runs, and cells(limit) for the others. limit/opened.h says how a counter keeps them.
//
//   charge       takes min(cost, what is missing to used_max) units; of a token_bucket no more than
//                come back until the last representable time; and no more than leave a debt of
//                most_debt units (Overdrafts): none of a limit that owes as much or more already.
//                Always allowed. retry_after: until one unit would be granted; 0: now. A refusal's
//                next state is the same, of now.
//   count        as a take where the cost fits; else refused and charged. retry_after: until the
//                same cost is granted after that.
//   bound        what takes are granted stays within the bound of the algorithm: a charge leaves
//                less to every later take than the same counter without it has.
//   gcra_*       have no debt: what does not fit is not charged. No policy has them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "limit/decide.h"
#include "limit/limit.h"

namespace sluice::limit::debt {

// The cells of the limit's whole state.
inline size_t whole_cells(const Limit& limit) {
  if (limit.algorithm == Algorithm::token_bucket) return 2;
  if (has_runs(limit)) return sliding_log::times_max;
  return limit::cells(limit);
}

// The same limit with so much room that only used_max bounds what is taken.
inline Limit without_end(const Limit& limit) {
  Limit large = limit;
  large.quota = limit.algorithm == Algorithm::token_bucket ? limit.quota : used_max;
  if (is_bucket(limit)) large.burst = used_max;
  return large;
}

// The whole state of a token_bucket.
namespace bucket {

constexpr State mark_of(Time now) {
  return {INT64_MIN, now.us};
}

inline Wide missing(const State* whole, const Limit& limit, Time now) {
  if (whole[1] == State{}) return token_bucket::wide::missing(whole[0], limit, limit.burst, now);
  return token_bucket::wide::missing(whole[0], limit, used_max, {std::max(now.us, whole[1].units)});
}

inline void set(State* whole, Wide missing, const Limit& limit, Time now) {
  whole[0] = token_bucket::wide::state_of(missing, limit, now);
  whole[1] =
      missing > token_bucket::wide::capacity(limit, limit.burst, now) ? mark_of(now) : State{};
}

}  // namespace bucket

// The functions below take the whole state and set it.

inline Decision decide(State* whole, const Limit& limit, int64_t cost, Time now) {
  if (limit.algorithm == Algorithm::sliding_log) {
    const std::span<State> runs(whole, sliding_log::times_max);
    return sliding_log::decide(runs, limit, cost, now, runs);
  }
  if (limit.algorithm == Algorithm::concurrency) {
    const std::span<State> runs(whole, concurrency::runs_max);
    return concurrency::decide(runs, limit, cost, now, runs);
  }
  if (limit.algorithm != Algorithm::token_bucket || whole[1] == State{})
    return limit::decide(whole, limit, cost, now, whole);
  const Wide missing = bucket::missing(whole, limit, now);
  const Outcome outcome =
      token_bucket::wide::decide_missing(missing, limit, cost, now, limit.burst);
  const Wide taken = outcome.decision.allowed ? Wide{cost} * limit.window.us : 0;
  bucket::set(whole, missing + taken, limit, now);
  return outcome.decision;
}

// The same as limit::peek.
inline Decision peek(const State* whole, const Limit& limit, Time now) {
  std::array<State, limit_cells_max> copy;
  std::copy_n(whole, whole_cells(limit), copy.begin());
  if (!has_runs(limit) && (limit.algorithm != Algorithm::token_bucket || whole[1] == State{}))
    return limit::peek(copy.data(), limit, now);
  Decision decision = decide(copy.data(), limit, 0, now);
  decision.allowed = true;
  decision.retry_after = {};
  return decision;
}

// The time until `cost` units would be granted, if nothing is taken meanwhile; 0: now.
inline Duration wait_for(const State* whole, const Limit& limit, int64_t cost, Time now) {
  // Not zeroed: mostly few cells are used.
  alignas(State) std::byte room[limit_cells_max * sizeof(State)];
  auto* const copy = reinterpret_cast<State*>(room);
  std::copy_n(whole, whole_cells(limit), copy);
  return decide(copy, limit, cost, now).retry_after;
}

// Takes the cost whether it fits or not. `charged`: the units that were taken.
inline Decision charge(State* whole, const Limit& limit, int64_t cost, Time now, int64_t most_debt,
                       int64_t& charged) {
  SLUICE_CHECK(cost >= 0);
  charged = 0;
  Decision decision;
  if (!has_counter(limit.algorithm)) {
    decision = limit::decide(nullptr, limit, 0, now, nullptr);
    decision.allowed = true;
    return decision;
  }
  const Limit large = without_end(limit);
  if (gcra::is_gcra(limit.algorithm)) {
    decision = limit::decide(whole, limit, cost, now, whole);
    if (decision.allowed) charged = cost;
  } else if (limit.algorithm == Algorithm::token_bucket) {
    namespace wide = token_bucket::wide;
    const Wide missing = bucket::missing(whole, limit, now);
    Wide room = wide::capacity(large, used_max, now) - missing;
    if (most_debt < Overdrafts::none)
      room = std::min(room, wide::capacity(limit, limit.burst, now) +
                                Wide{most_debt} * limit.window.us - missing);
    if (room > 0) charged = static_cast<int64_t>(std::min<Wide>(cost, room / limit.window.us));
    const Wide after = missing + Wide{charged} * limit.window.us;
    decision = wide::granted(after, limit, limit.burst, now).decision;
    bucket::set(whole, after, limit, now);
  } else {
    int64_t room = decide(whole, large, 0, now).remaining;
    if (most_debt < Overdrafts::none)
      room = std::min(room, room - (used_max - units_max(limit)) + most_debt);
    charged = std::clamp<int64_t>(cost, 0, std::max<int64_t>(room, 0));
    decision = decide(whole, large, charged, now);
    decision.limit = units_max(limit);
    decision.remaining -= used_max - decision.limit;
  }
  decision.allowed = true;
  decision.retry_after = decision.remaining >= 1 ? Duration{} : wait_for(whole, limit, 1, now);
  return decision;
}

// Takes the cost as a take, or refuses and charges it. `charged`: the units that were taken.
inline Decision count(State* whole, const Limit& limit, int64_t cost, Time now, int64_t most_debt,
                      int64_t& charged) {
  Decision decision = decide(whole, limit, cost, now);
  charged = decision.allowed ? cost : 0;
  if (decision.allowed || cost == 0 || !has_counter(limit.algorithm)) return decision;
  decision = charge(whole, limit, cost, now, most_debt, charged);
  decision.allowed = false;
  decision.retry_after = wait_for(whole, limit, cost, now);
  return decision;
}

// The same as limit::put.
inline Decision put(State* whole, const Limit& limit, int64_t units, bool all, Time now) {
  if (all && has_counter(limit.algorithm)) std::fill_n(whole, whole_cells(limit), State{});
  if (limit.algorithm == Algorithm::sliding_log && !all) {
    const std::span<State> runs(whole, sliding_log::times_max);
    return sliding_log::put(runs, limit, units, now, runs);
  }
  if (limit.algorithm == Algorithm::concurrency && !all) {
    const std::span<State> runs(whole, concurrency::runs_max);
    return concurrency::put(runs, limit, units, now, runs);
  }
  if (limit.algorithm != Algorithm::token_bucket || whole[1] == State{})
    return limit::put(whole, limit, units, all, now, whole);
  SLUICE_CHECK(units >= 0);
  const Wide missing = bucket::missing(whole, limit, now);
  const Wide back = Wide{units} * limit.window.us;
  const Wide left = back < missing ? missing - back : 0;
  bucket::set(whole, left, limit, now);
  return token_bucket::wide::granted(left, limit, limit.burst, now).decision;
}

}  // namespace sluice::limit::debt
