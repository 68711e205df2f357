// Every algorithm behind one call each: what a limit answers to a cost at a time, and the state
// that taking it, or giving it back, leaves. Pure functions, any thread; inline, because the store
// calls them for each slot under a stripe's lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "limit/aligned_window.h"
#include "limit/concurrency.h"
#include "limit/fixed_bucket.h"
#include "limit/fixed_window.h"
#include "limit/gcra.h"
#include "limit/limit.h"
#include "limit/sliding_counters.h"
#include "limit/sliding_log.h"
#include "limit/token_bucket.h"

namespace sluice::limit {

// The most cells of one limit.
inline constexpr size_t limit_cells_max = sliding_log::times_max;

// Always allowed, with all of the quota left, whatever the cost.
inline Decision always(const Limit& limit) {
  return {true, limit.quota, limit.quota, {}, {}};
}

// Never allowed, and no wait helps.
inline Decision refusal() {
  return {false, 0, 0, base::never, base::never};
}

// The number of cells that the limit has in a counter's state.
inline size_t cells(const Limit& limit) {
  switch (limit.algorithm) {
    case Algorithm::unlimited:
    case Algorithm::deny:
      return 0;
    case Algorithm::fixed_bucket:
    case Algorithm::fixed_window:
    case Algorithm::aligned_window:
    case Algorithm::token_bucket:
    case Algorithm::gcra_cell:
    case Algorithm::gcra_crab:
    case Algorithm::gcra_redis:
      return 1;
    case Algorithm::sliding_window:
      return sliding_counters::cells(limit);
    case Algorithm::sliding_log:
    case Algorithm::concurrency:
      return sliding_log::cells(limit);
  }
  return 0;
}

inline size_t cells(std::span<const Limit> limits) {
  size_t sum = 0;
  for (const Limit& limit : limits) sum += cells(limit);
  return sum;
}

// Not inlined, so that it costs the other algorithms nothing.
[[gnu::noinline]] inline Decision decide_gcra(const State* state, const Limit& limit, int64_t cost,
                                              Time now, State* next) {
  const Outcome outcome = gcra::decide(*state, limit, cost, now);
  *next = outcome.next;
  return outcome.decision;
}

// Not inlined either.
[[gnu::noinline]] inline Decision decide_places(const State* state, const Limit& limit,
                                                int64_t cost, Time now, State* next) {
  const size_t count = sliding_log::cells(limit);
  return concurrency::decide(std::span(state, count), limit, cost, now, std::span(next, count));
}

// `state` and `next` are the limit's cells(limit) cells, and may be the same. The preconditions are
// those of the algorithm.
[[gnu::always_inline]] inline Decision decide(const State* state, const Limit& limit, int64_t cost,
                                              Time now, State* next) {
  const auto one_cell = [next](const Outcome& outcome) {
    *next = outcome.next;
    return outcome.decision;
  };
  switch (limit.algorithm) {
    case Algorithm::fixed_window:
      return one_cell(fixed_window::decide(*state, limit, cost, now));
    case Algorithm::token_bucket:
      return one_cell(token_bucket::decide(*state, limit, cost, now, limit.burst));
    case Algorithm::aligned_window:
      return one_cell(aligned_window::decide(*state, limit, cost, now));
    case Algorithm::sliding_window:
      return sliding_counters::decide(std::span(state, 2), limit, cost, now, std::span(next, 2));
    case Algorithm::sliding_log: {
      const size_t count = sliding_log::cells(limit);
      return sliding_log::decide(std::span(state, count), limit, cost, now, std::span(next, count));
    }
    case Algorithm::unlimited:
      return always(limit);
    case Algorithm::fixed_bucket:
      return one_cell(fixed_bucket::decide(*state, limit, cost, now));
    case Algorithm::concurrency:
      return decide_places(state, limit, cost, now, next);
    case Algorithm::gcra_cell:
    case Algorithm::gcra_crab:
    case Algorithm::gcra_redis:
      return decide_gcra(state, limit, cost, now, next);
    case Algorithm::deny:
      break;
  }
  return refusal();
}

// The state: the decision of cost 0, but allowed even in debt, because it takes nothing. Only
// `deny` refuses a peek. Nothing changes an unlimited counter: with a window its reset_after is 0,
// without one `never`.
inline Decision peek(const State* state, const Limit& limit, Time now) {
  if (limit.algorithm == Algorithm::deny) return refusal();
  std::array<State, limit_cells_max> unused;
  Decision decision = decide(state, limit, 0, now, unused.data());
  decision.allowed = true;
  decision.retry_after = {};
  if (limit.algorithm == Algorithm::unlimited && limit.window == Duration{})
    decision.reset_after = base::never;
  // Allowed whatever the numbers of the call are.
  if (gcra::is_gcra(limit.algorithm))
    decision.reset_after = {
        std::max<int64_t>(0, state->fresh_at_us - std::max<int64_t>(0, now.us))};
  return decision;
}

// Gives units back, to as many as were used, those taken last first, of places those that end
// first; `all`: whatever the units, the counter is as a fresh one. Allowed, even when debt is left;
// only `deny` refuses. `state` and `next` as in decide().
inline Decision put(const State* state, const Limit& limit, int64_t units, bool all, Time now,
                    State* next) {
  SLUICE_CHECK(units >= 0);
  const auto one_cell = [next](const Outcome& outcome) {
    *next = outcome.next;
    return outcome.decision;
  };
  if (all && has_counter(limit.algorithm)) {
    std::fill_n(next, cells(limit), State{});
    Decision decision = decide(next, limit, 0, now, next);
    decision.allowed = true;  // also under a limit below 0 of gcra_*
    decision.retry_after = {};
    return decision;
  }
  switch (limit.algorithm) {
    case Algorithm::fixed_window:
      return one_cell(fixed_window::put(*state, limit, units, now));
    case Algorithm::token_bucket:
      return one_cell(token_bucket::put(*state, limit, units, now, limit.burst));
    case Algorithm::aligned_window:
      return one_cell(aligned_window::put(*state, limit, units, now));
    case Algorithm::fixed_bucket:
      return one_cell(fixed_bucket::put(*state, limit, units, now));
    case Algorithm::sliding_window:
      return sliding_counters::put(std::span(state, 2), limit, units, now, std::span(next, 2));
    case Algorithm::sliding_log: {
      const size_t count = sliding_log::cells(limit);
      return sliding_log::put(std::span(state, count), limit, units, now, std::span(next, count));
    }
    case Algorithm::concurrency: {
      const size_t count = sliding_log::cells(limit);
      return concurrency::put(std::span(state, count), limit, units, now, std::span(next, count));
    }
    case Algorithm::gcra_cell:
    case Algorithm::gcra_crab:
    case Algorithm::gcra_redis:
      return one_cell(gcra::put(*state, limit, units, now));
    case Algorithm::unlimited:
      return always(limit);
    case Algorithm::deny:
      break;
  }
  return refusal();
}

}  // namespace sluice::limit
