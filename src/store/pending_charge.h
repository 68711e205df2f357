// One charge while the store settles it: its counter's state, the decisions of its limits, and the
// state that the counter will have afterwards. Lives on the stack of the thread that holds the lock
// of the counter's stripe.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"
#include "limit/decide.h"
#include "limit/limit.h"
#include "limit/wide.h"
#include "request/charge.h"
#include "request/space.h"
#include "store/stripe.h"

namespace sluice::limit {
class Opened;
}

namespace sluice::store {

struct Queue;

// Room for the cells of a charge. Not zeroed: mostly one of many is used.
class Cells {
 public:
  limit::State* data() { return reinterpret_cast<limit::State*>(room_); }
  const limit::State* data() const { return reinterpret_cast<const limit::State*>(room_); }

 private:
  alignas(limit::State) std::byte room_[limit::counter_cells_max * sizeof(limit::State)];
};

struct PendingCharge {
  request::Charge* charge = nullptr;
  Entry* entry = nullptr;  // its counter, if there is one
  Queue* queue = nullptr;  // the requests that wait for it, if any do
  Entry* place = nullptr;  // made for `next`, if `entry` is null or has another size
  size_t cells = 0;        // of `next`
  // how many of these, at the end, are of debt and of limits left out (limit/left_out.h)
  size_t left_out = 0;
  bool changed = false;  // the counter was written under other limits
  // The commit of its group's changes (Changes); 0: it has none of its own.
  uint64_t commit = 0;
  bool passed_on = false;  // a later charge of the group contains this one's `next`
  Cells next;

  // Decides the charge by its limits, and sets `next` to the state after taking it. `ahead`: units
  // that earlier waiting requests claim. True: all limits allow it. Forced inline with all that it
  // calls, as calls cost a decision too much (tools/bench_decisions.py).
  [[gnu::always_inline]] bool evaluate(const request::Spaces& spaces, base::Time now,
                                       limit::Wide ahead, limit::Decision* decisions) {
    if (!charge->keeps_limits) [[likely]] {
      if (entry != nullptr && !charge->reset_first && entry->is_just(charge->limits_id))
          [[likely]] {
        cells = entry->cells();
        entry->load(next.data());
        if (charge->verb == request::Verb::take && ahead == 0) [[likely]]
          return take(now, decisions);
        if (charge->verb == request::Verb::charge && ahead == 0)
          return charge_in_force(now, decisions);
      } else {
        // Not in front, as each decision goes through this. Under these very limits any peek will
        // do.
        if (charge->as_written) return peek_as_written(spaces, now, decisions);
        load_rarely(spaces, now, next.data());
      }
    }
    return evaluate_rarely(now, ahead, decisions);
  }

  // The group is refused: sets `next`, and the decisions of limits that would have allowed it, to
  // what remains after `ahead`. Nothing is taken, except from limits that count, of charges that
  // count; in a sparing group only by those of these that do not fit themselves.
  void deny_all(const request::Spaces& spaces, base::Time now, limit::Wide ahead,
                limit::Decision* decisions, bool sparing);
  // Adds this charge to an `earlier` one of the group on the same counter, both of which are
  // evaluated. If the group is not `allowed` both are denied. `next` is then the state after both.
  void follow(PendingCharge& earlier, const request::Spaces& spaces, bool allowed, base::Time now,
              limit::Decision* decisions);

  // May storing it make units available to waiting requests?
  bool brings() const { return gives_back() || charge->reset_first || changed; }

  // Does it return units that were taken?
  bool gives_back() const {
    return charge->verb == request::Verb::put || charge->verb == request::Verb::settle;
  }

  // Of a reserve that was allowed, whose `next` is the state after it: fills its part.
  void note_held(base::Time now);

  // Is there a counter? An entry that is erased is not one.
  bool is_there() const { return entry != nullptr && !entry->erased(); }

  // Writes `next` into the counter.
  void write() {
    entry->store(next.data());
    entry->set_limits_id(charge->limits_id, left_out > 0);
  }

  // There is no memory: removes the limits that are left out from `next`. Debt stays. False: there
  // are none.
  bool forget_left_out();

  // Does `next` differ from a fresh counter?
  bool worth_storing() const;

  // In a space with keep_fresh_for: is the counter dropped at once, as it is full in a way that
  // limitd does not list? That is so for a bucket that was reset, for one that a put of its whole
  // size filled, and for any without refill.
  bool drops_fresh() const;

 private:
  bool peek_as_written(const request::Spaces& spaces, base::Time now, limit::Decision* decision);
  [[gnu::always_inline]] void load(const request::Spaces& spaces, base::Time now,
                                   limit::State* state) {
    if (entry != nullptr && !charge->reset_first && entry->is_just(charge->limits_id)) [[likely]] {
      cells = entry->cells();
      entry->load(state);
    } else {
      load_rarely(spaces, now, state);
    }
  }
  [[gnu::always_inline]] bool take(base::Time now, limit::Decision* decisions) {
    bool allowed = true;
    limit::State* state = next.data();
    for (const limit::Limit& limit : charge->limits) {
      *decisions = limit::decide(state, limit, charge->cost, now, state);
      allowed &= decisions->allowed;
      ++decisions;
      if (charge->limits.size() > 1) state += limit::cells(limit);
    }
    return allowed;
  }
  // Loads a counter that does not exist yet, was written under other limits, is in debt, or has
  // left-out limits.
  void load_rarely(const request::Spaces& spaces, base::Time now, limit::State* state);
  bool evaluate_rarely(base::Time now, limit::Wide ahead, limit::Decision* decisions);
  bool settle(base::Time now, limit::Decision* decisions);
  void lease_places();
  bool evaluate_kept(base::Time now, limit::Decision* decisions, bool take_nothing);
  bool charge_in_force(base::Time now, limit::Decision* decisions);
  bool evaluate_opened(size_t done, base::Time now, limit::Wide ahead, limit::Decision* decisions);
  bool take_each(base::Time now, limit::Decision* decisions);
  bool fits_in_force(base::Time now, limit::Decision* decisions);
  template <class Counter>
  bool ask(Counter& counter, base::Time now, limit::Wide ahead, limit::Decision* decisions);
  // Units for each limit.
  using Taken = std::array<int64_t, limit::slots_max>;
  Taken costs() const;
  void deny_opened(const Cells& before, base::Time now, limit::Wide ahead,
                   limit::Decision* decisions, bool sparing);
  // Deducts `ahead` from what the decisions say remains.
  void deduct_ahead(limit::Wide ahead, limit::Decision* decisions) const;
  bool allows(const limit::Decision* decisions) const;
};

}  // namespace sluice::store
