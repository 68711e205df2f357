// One charge on its way through the store: what its counter holds, what its limits answer, and what
// the counter is to hold then. Lives on the stack of the thread that holds the lock of the
// counter's stripe.
#pragma once

#include <algorithm>
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

namespace sluice::store {

struct Queue;

// Room for the cells of a charge. Not zeroed: there may be many, and mostly one is used.
class Cells {
 public:
  limit::State* data() { return reinterpret_cast<limit::State*>(room_); }
  const limit::State* data() const { return reinterpret_cast<const limit::State*>(room_); }

 private:
  alignas(limit::State) std::byte room_[limit::cells_max * sizeof(limit::State)];
};

struct PendingCharge {
  request::Charge* charge = nullptr;
  Entry* entry = nullptr;  // its counter, if there is one
  Queue* queue = nullptr;  // of those that wait for it, if any do
  Entry* place = nullptr;  // made for `next`, where `entry` is none or has another size
  size_t cells = 0;        // of `next`
  size_t left_out = 0;     // of these, the last: limit/left_out.h
  bool changed = false;    // the counter was written under other limits
  bool passed_on = false;  // a later charge of the group has `next` in its own
  Cells next;

  // What the charge's limits answer, and `next`: what taking it would leave. `ahead`: units that
  // are not there for it, as a request waits for them. True: all allow it. Forced inline, as is
  // what it calls: a decision has no room for calls (tools/bench_decisions.py).
  [[gnu::always_inline]] bool evaluate(const request::Spaces& spaces, base::Time now,
                                       limit::Wide ahead, limit::Decision* decisions) {
    if (!charge->keeps_limits) [[likely]] {
      load(spaces, now, next.data());
      if (charge->verb == request::Verb::take && ahead == 0) [[likely]] {
        const bool allowed = take(now, decisions);
        if (left_out > 0 && allowed) [[unlikely]]
          change_left_out(now);
        return allowed;
      }
    }
    return evaluate_rarely(now, ahead, decisions);
  }

  // The group is refused and nothing is taken but by what counts, and where it is sparing by what
  // of that does not fit itself: `next` and the decisions of the limits that would have allowed it
  // say what is left behind `ahead`.
  void deny_all(const request::Spaces& spaces, base::Time now, limit::Wide ahead,
                limit::Decision* decisions, bool sparing);
  // It counts behind an earlier charge on the same counter; both are evaluated, and denied where
  // the group, `allowed` or not, is refused. `next` is that of both.
  void follow(PendingCharge& earlier, const request::Spaces& spaces, bool allowed, base::Time now,
              limit::Decision* decisions);

  // May there be more for those that wait, once it is stored?
  bool brings() const {
    return charge->verb == request::Verb::put || charge->reset_first || changed;
  }

  // Is there a counter? One that is erased only looks like it.
  bool is_there() const { return entry != nullptr && !entry->erased(); }

  // `next` is what its counter holds from now on.
  void write() {
    entry->store(next.data());
    entry->set_limits_id(charge->limits_id, left_out > 0);
  }

  // For want of memory: `next` has no more than the limits in force need.
  void forget_left_out() {
    cells -= left_out;
    left_out = 0;
  }

  // Is there anything in `next` that a fresh counter does not have?
  bool worth_storing() const;

  // Of a space with keep_fresh_for: is its counter dropped at once, as it equals a fresh one in a
  // way that limitd does not list? Such are a bucket that was set again, one that a put of its
  // whole size made full, and any without refill.
  bool drops_fresh() const;

 private:
  bool take_written_limits(const request::Spaces& spaces);
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
  // There is none yet, or it was written under other limits, or some are left out.
  void load_rarely(const request::Spaces& spaces, base::Time now, limit::State* state);
  // What a grant or a put does to limits that are left out.
  void change_left_out(base::Time now);
  bool evaluate_rarely(base::Time now, limit::Wide ahead, limit::Decision* decisions);
  bool evaluate_kept(base::Time now, limit::Decision* decisions, bool take_nothing);
  void take_before(base::Time now, limit::State* state) const;
  // Of what remains, what is left behind `ahead`.
  void deduct_ahead(limit::Wide ahead, limit::Decision* decisions) const;
  bool allows(const limit::Decision* decisions) const;
  bool is_behind(base::Time now, limit::Wide ahead, limit::Decision* decisions);
};

}  // namespace sluice::store
