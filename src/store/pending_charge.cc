#include "store/pending_charge.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "limit/carry_list.h"
#include "limit/decide.h"
#include "limit/kept_limits.h"
#include "limit/left_out.h"

namespace sluice::store {

using limit::Decision;
using limit::Limit;
using limit::State;
using limit::Wide;
using request::Verb;

namespace {

// What is left behind units that others wait for. Debt stays what it is.
int64_t left_behind(int64_t remaining, Wide ahead) {
  return static_cast<int64_t>(
      std::max<Wide>(Wide{remaining} - ahead, std::min<int64_t>(remaining, 0)));
}

// How long until `units` fit one after the other. Where they are more than the limit it is not one
// wait but several: of a bucket exactly, of windows if the costs fill them (of a sliding one with a
// window to spare, for what its rounding loses).
base::Duration wait_behind(const State* state, const Limit& limit, Wide units, base::Time now) {
  Cells unused;
  const auto cost = static_cast<int64_t>(std::min<Wide>(units, INT64_MAX));
  const Decision whole = limit::decide(state, limit, cost, now, unused.data());
  if (whole.retry_after != base::never || whole.limit == 0) return whole.retry_after;
  if (whole.reset_after == base::never) return base::never;
  const Wide more = units - whole.limit;
  const int spare = limit.algorithm == limit::Algorithm::sliding_window ? 1 : 0;
  const Wide more_us = limit.algorithm == limit::Algorithm::token_bucket
                           ? more * limit.window.us / limit.quota + 1
                           : ((more - 1) / limit.quota + 1 + spare) * limit.window.us;
  const Wide wait_us = Wide{whole.reset_after.us} + more_us;
  return wait_us < base::never.us ? base::Duration{static_cast<int64_t>(wait_us)} : base::never;
}

}  // namespace

[[gnu::noinline]] void PendingCharge::load_rarely(const request::Spaces& spaces, base::Time now,
                                                  State* state) {
  left_out = 0;
  cells = limit::cells(charge->limits);
  SLUICE_CHECK(charge->limits.size() <= limit::slots_max && cells <= limit::cells_max);
  if (entry == nullptr || charge->reset_first || entry->erased()) {
    std::fill_n(state, cells, State{});
    return;
  }
  Cells before;
  entry->load(before.data());
  const std::span<const State> all(before.data(), entry->cells());
  limit::CellCount count;
  const bool same = entry->limits_id() == charge->limits_id;
  const bool as_written = !same && charge->as_written && take_written_limits(spaces);
  if (same || as_written) {
    count = limit::drop_fresh(all, charge->limits, now, state);
  } else {
    changed = true;
    count = limit::carry_over_list(all, spaces.limits(entry->limits_id()), charge->limits,
                                   charge->space->carry, now, state);
  }
  cells = count.all;
  left_out = count.left_out;
}

// The limits that the counter was written under, in place of the charge's. False: they have other
// algorithms.
bool PendingCharge::take_written_limits(const request::Spaces& spaces) {
  const std::span<const Limit> written = spaces.limits(entry->limits_id());
  if (!std::ranges::equal(written, charge->limits, {}, &Limit::algorithm, &Limit::algorithm))
    return false;
  charge->limits = written;
  return true;
}

[[gnu::noinline]] void PendingCharge::change_left_out(base::Time now) {
  const std::span<State> behind(next.data() + cells - left_out, left_out);
  if (charge->verb == Verb::put)
    limit::left_out::put(behind, charge->limits, charge->cost, now);
  else
    limit::left_out::take(behind, charge->limits, charge->cost, now);
}

bool PendingCharge::evaluate_rarely(base::Time now, Wide ahead, Decision* decisions) {
  if (charge->keeps_limits) return evaluate_kept(now, decisions, false);
  if (charge->verb == Verb::take || charge->verb == Verb::would_take) {
    take_before(now, next.data());
    const bool behind = ahead > 0 && charge->cost > 0 && is_behind(now, ahead, decisions);
    const bool allowed = !behind && take(now, decisions);
    if (left_out > 0 && allowed) change_left_out(now);
    deduct_ahead(ahead, decisions);
    return allowed;
  }
  State* state = next.data();
  bool allowed = true;
  for (const Limit& limit : charge->limits) {
    if (charge->verb == Verb::put) {
      *decisions = limit::put(state, limit, charge->cost, charge->all, now, state);
    } else if (charge->verb == Verb::count) {
      *decisions = limit::count(state, limit, charge->cost, now, state);
    } else {
      *decisions = limit::peek(state, limit, now);
    }
    allowed &= decisions->allowed;
    ++decisions;
    state += limit::cells(limit);
  }
  if (charge->verb == Verb::put && charge->all) forget_left_out();
  if ((charge->verb == Verb::put || charge->verb == Verb::count) && left_out > 0)
    change_left_out(now);
  // A put tells what it brought about, before those that wait for it have it (limitd's way).
  if (charge->verb != Verb::put && charge->verb != Verb::count)
    deduct_ahead(ahead, decisions - charge->limits.size());
  return allowed;
}

// What is probed is asked behind others that would have taken by then.
void PendingCharge::take_before(base::Time now, State* state) const {
  for (uint8_t i = 0; i < charge->before; ++i) {
    Cells taken;
    size_t first = 0;
    bool allowed = true;
    for (const Limit& limit : charge->limits) {
      allowed &=
          limit::decide(state + first, limit, charge->cost, now, taken.data() + first).allowed;
      first += limit::cells(limit);
    }
    if (allowed) std::copy_n(taken.data(), first, state);
  }
}

void PendingCharge::deduct_ahead(Wide ahead, Decision* decisions) const {
  if (ahead == 0) return;
  for (const Limit& limit : charge->limits) {
    if (limit::has_counter(limit.algorithm))
      decisions->remaining = left_behind(decisions->remaining, ahead);
    ++decisions;
  }
}

// Does the cost not fit behind the units that others wait for? Then it is refused.
bool PendingCharge::is_behind(base::Time now, Wide ahead, Decision* decisions) {
  const Wide group_lock = ahead + charge->cost;
  const State* state = next.data();
  bool behind = false;
  for (size_t i = 0; i < charge->limits.size(); ++i) {
    const Limit& limit = charge->limits[i];
    Decision& decision = decisions[i];
    decision = limit::peek(state, limit, now);
    const bool counted = limit::has_counter(limit.algorithm);
    const bool fits = counted ? group_lock <= decision.remaining : decision.allowed;
    if (!fits) {
      behind = true;
      decision.allowed = false;
      decision.retry_after =
          charge->cost > decision.limit ? base::never : wait_behind(state, limit, group_lock, now);
    }
    state += limit::cells(limit);
  }
  return behind;
}

bool PendingCharge::evaluate_kept(base::Time now, Decision* decisions, bool take_nothing) {
  Cells before;
  size_t count = 0;
  if (entry != nullptr && !charge->reset_first && !entry->erased()) {
    count = entry->cells();
    entry->load(before.data());
  }
  if (charge->refill) limit::kept_limits::refill({before.data(), count});
  const std::span<const State> in(before.data(), count);
  const auto& windows = charge->space->windows;
  const bool takes = charge->verb == Verb::take || charge->verb == Verb::would_take;
  const auto result = takes ? limit::kept_limits::take(windows, in, charge->limits, charge->cost,
                                                       now, next.data(), decisions, take_nothing)
                            : limit::kept_limits::peek(windows, in, now, decisions);
  charge->slot_mask = result.mask;
  cells = charge->verb == Verb::take ? result.cells : 0;
  return result.allowed;
}

[[gnu::noinline]] void PendingCharge::deny_all(const request::Spaces& spaces, base::Time now,
                                               Wide ahead, Decision* decisions, bool sparing) {
  if (charge->verb == Verb::count && !(sparing && allows(decisions))) return;
  if (charge->keeps_limits) {
    evaluate_kept(now, decisions, true);
    return;
  }
  Cells before;
  load(spaces, now, before.data());
  take_before(now, before.data());
  size_t first = 0;
  for (const Limit& limit : charge->limits) {
    const size_t count = limit::cells(limit);
    // A limit that refused has left its state as it must be.
    if (decisions->allowed) {
      State* const state = next.data() + first;
      std::copy_n(before.data() + first, count, state);
      *decisions = limit::decide(state, limit, 0, now, state);
      if (limit::has_counter(limit.algorithm))
        decisions->remaining = left_behind(decisions->remaining, ahead);
    }
    ++decisions;
    first += count;
  }
  // Nothing is taken of what is left out either.
  std::copy_n(before.data() + first, left_out, next.data() + first);
}

bool PendingCharge::allows(const Decision* decisions) const {
  return std::all_of(decisions, decisions + charge->limits.size(),
                     [](const Decision& decision) { return decision.allowed; });
}

void PendingCharge::follow(PendingCharge& earlier, const request::Spaces& spaces, bool allowed,
                           base::Time now, Decision* decisions) {
  const bool takes = allowed || !allows(decisions);
  earlier.passed_on = true;
  if (earlier.charge->limits_id == charge->limits_id) {
    cells = earlier.cells;
    left_out = earlier.left_out;
    std::copy_n(earlier.next.data(), cells, next.data());
  } else {
    const limit::CellCount count = limit::carry_over_list(
        {earlier.next.data(), earlier.cells}, spaces.limits(earlier.charge->limits_id),
        charge->limits, charge->space->carry, now, next.data());
    cells = count.all;
    left_out = count.left_out;
  }
  State* state = next.data();
  for (const Limit& limit : charge->limits) {
    *decisions = limit::count(state, limit, takes ? charge->cost : 0, now, state);
    ++decisions;
    state += limit::cells(limit);
  }
  if (left_out > 0 && takes) change_left_out(now);
}

bool PendingCharge::worth_storing() const {
  return std::any_of(next.data(), next.data() + cells, [](const State& s) { return s != State{}; });
}

bool PendingCharge::drops_fresh() const {
  if (charge->keeps_limits || worth_storing()) return false;
  bool whole = charge->verb == Verb::put, refills = false;
  for (const Limit& limit : charge->limits) {
    whole &= charge->cost >= limit::units_max(limit);
    refills |= limit.algorithm != limit::Algorithm::fixed_bucket;
  }
  return charge->reset_first || whole || !refills;
}

}  // namespace sluice::store
