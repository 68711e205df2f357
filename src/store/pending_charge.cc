#include "store/pending_charge.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "limit/calendar.h"
#include "limit/carry_list.h"
#include "limit/debt.h"
#include "limit/decide.h"
#include "limit/held.h"
#include "limit/kept_limits.h"
#include "limit/opened.h"
#include "request/hold.h"

namespace sluice::store {

using limit::Decision;
using limit::Limit;
using limit::State;
using limit::Wide;
using request::Verb;

namespace {

// The units that remain after those that others wait for. A debt is returned as it is.
int64_t left_behind(int64_t remaining, Wide ahead) {
  return static_cast<int64_t>(
      std::max<Wide>(Wide{remaining} - ahead, std::min<int64_t>(remaining, 0)));
}

// A counter that has no cells but those of its limits in force, which are decided where they are.
class InForce {
 public:
  InForce(State* cells, std::span<const Limit> limits) : cells_(cells), limits_(limits) {}

  template <class Visit>
  void each(const Visit& visit) {
    State* state = cells_;
    for (const Limit& limit : limits_) {
      visit(limit, state);
      state += limit::cells(limit);
    }
  }
  static Decision decide(State* state, const Limit& limit, int64_t cost, base::Time now) {
    return limit::decide(state, limit, cost, now, state);
  }
  static Decision peek(const State* state, const Limit& limit, base::Time now) {
    return limit::peek(state, limit, now);
  }
  static Decision put(State* state, const Limit& limit, int64_t units, bool all, base::Time now) {
    return limit::put(state, limit, units, all, now, state);
  }
  static Decision if_taken(const State* state, const Limit& limit, int64_t cost, base::Time now) {
    Cells unused;
    return limit::decide(state, limit, cost, now, unused.data());
  }

 private:
  State* cells_;
  std::span<const Limit> limits_;
};

// The same for a counter with more cells.
class Whole {
 public:
  Whole(limit::Opened& counter, std::span<const Limit> limits)
      : counter_(counter), limits_(limits) {}

  template <class Visit>
  void each(const Visit& visit) {
    for (size_t i = 0; i < limits_.size(); ++i) visit(limits_[i], counter_.whole(i));
  }
  static Decision decide(State* state, const Limit& limit, int64_t cost, base::Time now) {
    return limit::debt::decide(state, limit, cost, now);
  }
  static Decision peek(const State* state, const Limit& limit, base::Time now) {
    return limit::debt::peek(state, limit, now);
  }
  static Decision put(State* state, const Limit& limit, int64_t units, bool all, base::Time now) {
    return limit::debt::put(state, limit, units, all, now);
  }
  static Decision if_taken(const State* state, const Limit& limit, int64_t cost, base::Time now) {
    Cells copy;
    std::copy_n(state, limit::debt::whole_cells(limit), copy.data());
    return limit::debt::decide(copy.data(), limit, cost, now);
  }

 private:
  limit::Opened& counter_;
  std::span<const Limit> limits_;
};

// How long until `units` are available, one after the other. More units than the limit need several
// waits. Exact for a bucket; for windows if the costs fill them; for a sliding window plus one
// window, for its rounding.
template <class Counter>
base::Duration wait_behind(const State* state, const Limit& limit, Wide units, base::Time now) {
  const auto cost = static_cast<int64_t>(std::min<Wide>(units, INT64_MAX));
  const Decision whole = Counter::if_taken(state, limit, cost, now);
  if (whole.retry_after != base::never || units <= whole.limit || whole.limit == 0)
    return whole.retry_after;
  if (whole.reset_after == base::never) return base::never;
  const Wide more = units - whole.limit;
  if (limit.calendar) {
    const Wide windows = (more - 1) / limit.quota + 1;
    const int64_t end_us =
        limit.calendar.later_end_us(now, static_cast<int64_t>(std::min<Wide>(windows, INT64_MAX)));
    return end_us == INT64_MAX ? base::never : base::Duration{end_us - now.us};
  }
  const int spare = limit.algorithm == limit::Algorithm::sliding_window ? 1 : 0;
  const Wide more_us = limit.algorithm == limit::Algorithm::token_bucket
                           ? more * limit.window.us / limit.quota + 1
                           : ((more - 1) / limit.quota + 1 + spare) * limit.window.us;
  const Wide wait_us = Wide{whole.reset_after.us} + more_us;
  return wait_us < base::never.us ? base::Duration{static_cast<int64_t>(wait_us)} : base::never;
}

// A take that is refused if its cost does not fit after the units that others wait for.
template <class Counter>
Decision take_behind(State* state, const Limit& limit, int64_t cost, Wide ahead, base::Time now) {
  const bool counted = limit::has_counter(limit.algorithm);
  if (ahead == 0 || cost == 0 || !counted) return Counter::decide(state, limit, cost, now);
  const Wide wanted = ahead + cost;
  Decision decision = Counter::peek(state, limit, now);
  if (wanted <= decision.remaining) return Counter::decide(state, limit, cost, now);
  decision.allowed = false;
  decision.retry_after =
      cost > decision.limit ? base::never : wait_behind<Counter>(state, limit, wanted, now);
  return decision;
}

// The same; what the limit refuses is charged. `charged`: the units that were taken.
Decision count_behind(State* whole, const Limit& limit, int64_t cost, Wide ahead, base::Time now,
                      int64_t most_debt, int64_t& charged) {
  Decision decision = take_behind<Whole>(whole, limit, cost, ahead, now);
  charged = decision.allowed ? cost : 0;
  if (decision.allowed || cost == 0 || !limit::has_counter(limit.algorithm)) return decision;
  decision = limit::debt::charge(whole, limit, cost, now, most_debt, charged);
  decision.allowed = false;
  decision.retry_after =
      cost > decision.limit ? base::never : wait_behind<Whole>(whole, limit, ahead + cost, now);
  return decision;
}

// A charge; the units that others wait for stand before the one that retry_after is for.
Decision charge_behind(State* whole, const Limit& limit, int64_t cost, Wide ahead, base::Time now,
                       int64_t most_debt, int64_t& charged) {
  Decision decision = limit::debt::charge(whole, limit, cost, now, most_debt, charged);
  if (ahead > 0 && limit::has_counter(limit.algorithm) && decision.remaining <= ahead)
    decision.retry_after =
        decision.limit == 0 ? base::never : wait_behind<Whole>(whole, limit, ahead + 1, now);
  return decision;
}

// A take as if the requests that wait had taken their units.
template <class Counter>
void take_before(Counter& counter, const request::Charge& charge, base::Time now) {
  for (uint8_t i = 0; i < charge.before; ++i) {
    bool allowed = true;
    size_t at = 0;
    counter.each([&](const Limit& limit, State* state) {
      allowed &= Counter::if_taken(state, limit, charge.cost_of(at++), now).allowed;
    });
    if (!allowed) return;
    at = 0;
    counter.each([&](const Limit& limit, State* state) {
      Counter::decide(state, limit, charge.cost_of(at++), now);
    });
  }
}

}  // namespace

[[gnu::noinline]] void PendingCharge::load_rarely(const request::Spaces& spaces, base::Time now,
                                                  State* state) {
  left_out = 0;
  if (charge->held != nullptr && charge->held->adopts && is_there()) {
    charge->limits_id = entry->limits_id();
    charge->limits = spaces.limits(charge->limits_id);
  }
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
  if (entry->limits_id() == charge->limits_id) {
    count = limit::drop_fresh(all, charge->limits, now, state);
  } else {
    changed = true;
    count = limit::carry_over_list(all, spaces.limits(entry->limits_id()), charge->limits,
                                   charge->space->carry, now, state);
  }
  cells = count.all;
  left_out = count.left_out;
}

// Limits that are left out are a part of the counter.
[[gnu::noinline]] bool PendingCharge::peek_as_written(const request::Spaces& spaces, base::Time now,
                                                      Decision* decision) {
  *decision = {true, 1, 1, {}, {}};
  cells = 0;
  if (!is_there()) return true;
  Cells room;
  entry->load(room.data());
  const std::span<const Limit> limits = spaces.limits(entry->limits_id());
  limit::Opened counter({room.data(), entry->cells()}, limits);
  const auto look = [&](const Limit& limit, const State* whole) {
    if (!limit::has_counter(limit.algorithm)) return;
    const Decision is = limit::debt::peek(whole, limit, now);
    const base::Duration life = limit.algorithm != limit::Algorithm::fixed_bucket ? is.reset_after
                                : is.remaining < is.limit                         ? base::never
                                                          : base::Duration{};
    decision->reset_after = std::max(decision->reset_after, life);
  };
  for (size_t i = 0; i < limits.size(); ++i) look(limits[i], counter.whole(i));
  counter.change_left_out(look);
  return true;
}

[[gnu::noinline]] bool PendingCharge::evaluate_rarely(base::Time now, Wide ahead,
                                                      Decision* decisions) {
  if (charge->keeps_limits) return evaluate_kept(now, decisions, false);
  if (charge->verb == Verb::take && ahead == 0 && left_out == 0) return take(now, decisions);
  charge->dropped = 0;
  if (charge->verb == Verb::reserve && charge->held->ttl.us > 0) lease_places();
  if (charge->verb == Verb::settle) return settle(now, decisions);
  if (left_out > 0) return evaluate_opened(0, now, ahead, decisions);
  if (charge->verb == Verb::charge) {
    if (ahead == 0) return charge_in_force(now, decisions);
    return evaluate_opened(0, now, ahead, decisions);
  }
  if (charge->verb == Verb::count)
    return (ahead == 0 && fits_in_force(now, decisions)) ||
           evaluate_opened(0, now, ahead, decisions);
  InForce counter(next.data(), charge->limits);
  return ask(counter, now, ahead, decisions);
}

// Charges a counter that has no cells but those in force. From the first limit whose debt needs
// more cells on, the counter is opened.
[[gnu::noinline]] bool PendingCharge::charge_in_force(base::Time now, Decision* decisions) {
  State* state = next.data();
  int64_t dropped = 0;
  for (size_t i = 0; i < charge->limits.size(); ++i) {
    const Limit& limit = charge->limits[i];
    Decision& decision = decisions[i];
    const int64_t cost = charge->cost_of(i);
    decision = limit::decide(state, limit, cost, now, state);
    if (!decision.allowed) [[unlikely]] {
      // What was refused has changed nothing.
      charge->dropped = dropped;
      if (limit::debt::whole_cells(limit) != limit::cells(limit))
        return evaluate_opened(i, now, 0, decisions);
      int64_t charged = 0;
      decision = limit::debt::charge(state, limit, cost, now, charge->overdraft_of(i), charged);
      if (limit::has_counter(limit.algorithm)) dropped = std::max(dropped, cost - charged);
    } else if (decision.remaining < 1) [[unlikely]] {
      decision.retry_after = InForce::if_taken(state, limit, 1, now).retry_after;
    }
    if (charge->limits.size() > 1) state += limit::cells(limit);
  }
  charge->dropped = dropped;
  return true;
}

// A take with units of its own for each limit.
bool PendingCharge::take_each(base::Time now, Decision* decisions) {
  bool allowed = true;
  State* state = next.data();
  for (size_t i = 0; i < charge->limits.size(); ++i) {
    const Limit& limit = charge->limits[i];
    decisions[i] = limit::decide(state, limit, charge->costs[i], now, state);
    allowed &= decisions[i].allowed;
    state += limit::cells(limit);
  }
  return allowed;
}

// Tries a count as a take. False: it does not fit, and `next` is as it was.
bool PendingCharge::fits_in_force(base::Time now, Decision* decisions) {
  Cells before;
  std::copy_n(next.data(), cells, before.data());
  if (charge->costs == nullptr ? take(now, decisions) : take_each(now, decisions)) return true;
  std::copy_n(before.data(), cells, next.data());
  return false;
}

// Takes, looks and puts, on either form of the counter.
template <class Counter>
bool PendingCharge::ask(Counter& counter, base::Time now, Wide ahead, Decision* decisions) {
  const bool takes = charge->verb == Verb::take || charge->verb == Verb::would_take ||
                     charge->verb == Verb::reserve;
  if (takes) take_before(counter, *charge, now);
  Decision* decision = decisions;
  bool allowed = true, behind = false;
  const auto cost = [&] { return charge->cost_of(static_cast<size_t>(decision - decisions)); };
  if (takes && ahead > 0 && charge->cost > 0) {
    counter.each([&](const Limit& limit, State* state) {
      *decision = Counter::peek(state, limit, now);
      const bool fits = limit::has_counter(limit.algorithm) && cost() > 0
                            ? ahead + cost() <= decision->remaining
                            : decision->allowed;
      behind |= !fits;
      ++decision;
    });
    decision = decisions;
  }
  counter.each([&](const Limit& limit, State* state) {
    if (behind) {
      if (!limit::has_counter(limit.algorithm) || cost() == 0 ||
          ahead + cost() <= decision->remaining) {
        // As a peek has it: this limit does not hold the request back.
      } else {
        decision->allowed = false;
        decision->retry_after = cost() > decision->limit
                                    ? base::never
                                    : wait_behind<Counter>(state, limit, ahead + cost(), now);
      }
    } else if (takes) {
      *decision = Counter::decide(state, limit, cost(), now);
    } else if (charge->verb == Verb::put) {
      *decision = Counter::put(state, limit, charge->cost, charge->all, now);
    } else {
      *decision = Counter::peek(state, limit, now);
    }
    allowed &= decision->allowed;
    ++decision;
  });
  // A put reports the level after it and before waiting requests take from it, as limitd does.
  if (charge->verb != Verb::put) deduct_ahead(ahead, decisions);
  return allowed;
}

namespace {

// The limit of the list that a limit of a part stands for; null: there is none. Two of one kind are
// told apart by their order.
State* find_kind(limit::Opened& counter, std::span<const Limit> limits, const Limit& kind,
                 limit::LimitMask& found, size_t& at) {
  for (at = 0; at < limits.size(); ++at) {
    if (limit::has(found, at) || !limit::same_kind(limits[at], kind)) continue;
    found = static_cast<limit::LimitMask>(found | 1u << at);
    return counter.whole(at);
  }
  return nullptr;
}

}  // namespace

// Gives back what was not used of the hold's parts, then charges what was used beyond them.
// Has places of a reserve end with it.
[[gnu::noinline]] void PendingCharge::lease_places() {
  request::HeldCharge& held = *charge->held;
  const std::span<const Limit> limits = charge->limits;
  if (std::ranges::none_of(limits, limit::has_places)) return;
  std::ranges::transform(limits, held.leased.begin(),
                         [&](const Limit& one) { return limit::held::limit_for(one, held.ttl); });
  charge->limits = std::span<const Limit>(held.leased).first(limits.size());
}

[[gnu::noinline]] bool PendingCharge::settle(base::Time now, Decision* decisions) {
  request::HeldCharge& held = *charge->held;
  const std::span<const Limit> limits = charge->limits;
  limit::Opened counter({next.data(), cells}, limits);
  held.returned = 0;
  for (size_t p = 0; p < held.parts.size(); ++p) {
    request::HeldPart& part = held.parts[p];
    limit::LimitMask found = 0;
    int64_t returned = 0;
    for (size_t i = 0; i < part.then.size(); ++i) {
      const Limit& then = part.then[i];
      const limit::held::Part its{then, part.marks[i], part.taken, part.given};
      const bool places = limit::has_places(then);
      const int64_t back = places ? part.units : held.back[p];
      const auto give_back = [&](const Limit& limit, State* whole) -> int64_t {
        if (!places || held.moves_to.us == 0)
          return limit::held::give_back(whole, limit, its, back, held.given, now);
        // Places that have ended or were put back are not held any more.
        const int64_t moved =
            limit::held::move(whole, limit, its, back, held.given, held.moves_to, now);
        part.marks[i] = moved > 0 ? limit::held::mark_at(whole, held.moves_to.us, now) : State{};
        return 0;
      };
      size_t at = 0;
      if (State* const whole = find_kind(counter, limits, then, found, at); whole != nullptr)
        returned = std::max(returned, give_back(limits[at], whole));
      counter.change_left_out([&](const Limit& limit, State* whole) {
        if (limit::same_kind(limit, then)) returned = std::max(returned, give_back(limit, whole));
      });
    }
    held.returned += returned;
    // Each part sees what the parts before it gave back.
    held.given.units += static_cast<uint64_t>(returned);
  }
  Taken taken = costs();
  for (size_t i = 0; i < limits.size(); ++i) {
    const bool places = limit::has_places(limits[i]);
    decisions[i] = limit::debt::charge(counter.whole(i), limits[i], places ? 0 : charge->cost, now,
                                       charge->overdraft_of(i), taken[i]);
    if (!places && limit::has_counter(limits[i].algorithm))
      charge->dropped = std::max(charge->dropped, charge->cost - taken[i]);
  }
  if (charge->cost > 0) counter.take_left_out(limit::all_of(limits), now, taken);
  const limit::CellCount count = counter.close(next.data());
  cells = count.all;
  left_out = count.left_out;
  held.is_decided = false;
  for (size_t i = 0; i < limits.size(); ++i) {
    if (!limit::has_counter(limits[i].algorithm)) continue;
    if (held.is_decided && !request::is_tighter_of_charge(decisions[i], held.decision)) continue;
    held.is_decided = true;
    held.limit = limits[i];
    held.decision = decisions[i];
  }
  return true;
}

void PendingCharge::note_held(base::Time now) {
  request::HeldPart& part = charge->held->part;
  charge->held->is_taken = true;
  part.taken = now;
  part.units = charge->cost;
  part.given = charge->held->given;
  limit::Opened counter({next.data(), cells}, charge->limits);
  for (size_t i = 0; i < charge->limits.size(); ++i)
    part.marks[i] = limit::has_counter(charge->limits[i].algorithm)
                        ? limit::held::mark_of(counter.whole(i), charge->limits[i], now)
                        : State{};
}

// `done`: so many limits have been charged already.
[[gnu::noinline]] bool PendingCharge::evaluate_opened(size_t done, base::Time now, Wide ahead,
                                                      Decision* decisions) {
  limit::Opened counter({next.data(), cells}, charge->limits);
  Whole whole(counter, charge->limits);
  bool allowed = true;
  Taken taken = costs();
  if (charge->verb == Verb::charge || charge->verb == Verb::count) {
    for (size_t i = done; i < charge->limits.size(); ++i) {
      const Limit& limit = charge->limits[i];
      State* const state = counter.whole(i);
      const int64_t most_debt = charge->overdraft_of(i);
      if (charge->verb == Verb::charge) {
        decisions[i] =
            charge_behind(state, limit, charge->cost_of(i), ahead, now, most_debt, taken[i]);
        if (limit::has_counter(limit.algorithm))
          charge->dropped = std::max(charge->dropped, charge->cost_of(i) - taken[i]);
      } else if (limit::has(charge->counts, i)) {
        decisions[i] =
            count_behind(state, limit, charge->cost_of(i), ahead, now, most_debt, taken[i]);
      } else {
        decisions[i] = take_behind<Whole>(state, limit, charge->cost_of(i), ahead, now);
      }
      allowed &= decisions[i].allowed;
    }
    deduct_ahead(ahead, decisions);
    counter.take_left_out(allowed ? limit::all_of(charge->limits) : charge->counts, now, taken);
  } else {
    allowed = ask(whole, now, ahead, decisions);
    if (charge->verb == Verb::put)
      charge->all ? counter.forget_left_out()
                  : counter.put_left_out(charge->cost, charge->space->carry, now);
    else if (charge->verb != Verb::peek && allowed)
      counter.take_left_out(limit::all_of(charge->limits), now, taken);
  }
  const limit::CellCount count = counter.close(next.data());
  cells = count.all;
  left_out = count.left_out;
  return allowed;
}

PendingCharge::Taken PendingCharge::costs() const {
  Taken units;
  for (size_t i = 0; i < charge->limits.size(); ++i) units[i] = charge->cost_of(i);
  return units;
}

void PendingCharge::deduct_ahead(Wide ahead, Decision* decisions) const {
  if (ahead == 0) return;
  for (const Limit& limit : charge->limits) {
    if (limit::has_counter(limit.algorithm))
      decisions->remaining = left_behind(decisions->remaining, ahead);
    ++decisions;
  }
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
  const bool charges = charge->verb == Verb::charge;
  const bool takes = charge->verb == Verb::take || charge->verb == Verb::would_take || charges;
  // What no limit is asked for is taken from all that there are, whether it fits or not.
  const auto asked = charges ? std::span<const Limit>() : charge->limits;
  const auto result = takes ? limit::kept_limits::take(windows, in, asked, charge->cost, now,
                                                       next.data(), decisions, take_nothing)
                            : limit::kept_limits::peek(windows, in, now, decisions);
  charge->slot_mask = result.mask;
  cells = charge->verb == Verb::take || charges ? result.cells : 0;
  return result.allowed;
}

[[gnu::noinline]] void PendingCharge::deny_all(const request::Spaces& spaces, base::Time now,
                                               Wide ahead, Decision* decisions, bool sparing) {
  if (charge->verb == Verb::charge) return;
  if (charge->verb == Verb::count && !(sparing && allows(decisions)) &&
      charge->counts == limit::all_of(charge->limits))
    return;
  if (charge->keeps_limits) {
    evaluate_kept(now, decisions, true);
    return;
  }
  const size_t was_left_out = left_out;
  Cells before;
  load(spaces, now, before.data());
  if (charge->verb == Verb::count || left_out > 0 || was_left_out > 0)
    return deny_opened(before, now, ahead, decisions, sparing);
  InForce counter(before.data(), charge->limits);
  take_before(counter, *charge, now);
  State* state = next.data();
  counter.each([&](const Limit& limit, const State* was) {
    // A limit that refused has already set its state.
    if (decisions->allowed) {
      std::copy_n(was, limit::cells(limit), state);
      *decisions = limit::decide(state, limit, 0, now, state);
      if (limit::has_counter(limit.algorithm))
        decisions->remaining = left_behind(decisions->remaining, ahead);
    }
    ++decisions;
    state += limit::cells(limit);
  });
}

[[gnu::noinline]] void PendingCharge::deny_opened(const Cells& before, base::Time now, Wide ahead,
                                                  Decision* decisions, bool sparing) {
  const bool counts = charge->verb == Verb::count && !(sparing && allows(decisions));
  limit::Opened counter({before.data(), cells}, charge->limits);
  Whole whole(counter, charge->limits);
  take_before(whole, *charge, now);
  Taken taken{};
  for (size_t i = 0; i < charge->limits.size(); ++i) {
    const Limit& limit = charge->limits[i];
    if (counts && limit::has(charge->counts, i)) {
      // The same decision again; what it takes stays taken.
      count_behind(counter.whole(i), limit, charge->cost_of(i), ahead, now, charge->overdraft_of(i),
                   taken[i]);
      continue;
    }
    const Decision is = limit::debt::decide(counter.whole(i), limit, 0, now);
    if (!decisions[i].allowed) continue;
    decisions[i] = is;
    if (limit::has_counter(limit.algorithm))
      decisions[i].remaining = left_behind(is.remaining, ahead);
  }
  if (counts) counter.take_left_out(charge->counts, now, taken);
  const limit::CellCount count = counter.close(next.data());
  cells = count.all;
  left_out = count.left_out;
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
  limit::Opened counter({next.data(), cells}, charge->limits);
  Whole whole(counter, charge->limits);
  Taken taken{};
  size_t at = 0;
  whole.each([&](const Limit& limit, State* state) {
    decisions[at] = limit::debt::count(state, limit, takes ? charge->cost : 0, now,
                                       charge->overdraft_of(at), taken[at]);
    ++at;
  });
  if (takes) counter.take_left_out(limit::all_of(charge->limits), now, taken);
  const limit::CellCount count = counter.close(next.data());
  cells = count.all;
  left_out = count.left_out;
}

bool PendingCharge::forget_left_out() {
  limit::Opened counter({next.data(), cells}, charge->limits);
  if (counter.left_out().empty()) return false;
  counter.forget_left_out();
  const limit::CellCount count = counter.close(next.data());
  cells = count.all;
  left_out = count.left_out;
  return true;
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
