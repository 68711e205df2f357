// The waiting of the embedded store: parking what is refused, and answering it in its turn.

#include <algorithm>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "limit/carry_list.h"
#include "store/embedded_store.h"
#include "store/locked_group.h"

namespace sluice::store {

using limit::Decision;
using limit::Wide;
using request::Charge;
using request::Verb;

namespace {

// Why a charge of a refused group cannot go ahead, and for how long.
struct Hindrance {
  bool refused = false;
  bool for_ever = false;  // it asks for more than there can ever be
  base::Duration wait{};  // never: until units are put back
};

Hindrance hindrance(const Charge& charge, std::span<const Decision> decisions) {
  Hindrance h;
  for (const Decision& d : decisions) {
    if (d.allowed) continue;
    h.refused = true;
    h.for_ever |= charge.cost > d.limit || d.limit == 0;
    h.wait = std::max(h.wait, d.retry_after);
  }
  return h;
}

std::span<const Decision> decisions_of(const Charge& charge, std::span<const Decision> all) {
  return all.subspan(charge.decision_first, charge.limits.size());
}

std::vector<std::string> keys_of(std::span<PendingCharge> settling) {
  std::vector<std::string> keys;
  for (const PendingCharge& s : settling) keys.emplace_back(s.charge->key);
  return keys;
}

// The same of the same counters, under the same limits?
bool asks_the_same(const Waiter& waiter, std::span<const Charge> charges) {
  return std::equal(waiter.charges.begin(), waiter.charges.end(), charges.begin(), charges.end(),
                    [](const Charge& a, const Charge& b) {
                      return a.space == b.space && a.key == b.key && a.cost == b.cost &&
                             a.limits_id == b.limits_id && a.limits_id != 0;
                    });
}

// Is a charge's counter kept under other limits? Then its owner is notified, once, unless it has
// said that the group waits on under its own.
bool notify_owner(Waiter& waiter, const Charge& charge, const Entry* entry) {
  if (entry == nullptr || entry->erased() || entry->limits_id() == charge.limits_id) return false;
  const auto i = static_cast<size_t>(&charge - waiter.charges.data());
  if (!waiter.confirmed.empty() && waiter.confirmed[i] == entry->limits_id()) return false;
  if (!std::exchange(waiter.named, true)) waiter.completions.resume_waiter(waiter.ticket);
  return true;
}

}  // namespace

// Was the clock ahead when the counter of a refused charge was written? Then it becomes one of now
// once, and not at each look again, which would find its units as far away as the last one. Under
// the limits that it has, whatever the charge's are, and nothing is taken.
void EmbeddedStore::bring_back(const PendingCharge& s, base::Time now) {
  if (!s.is_there()) return;
  Charge charge = *s.charge;
  charge.limits_id = s.entry->limits_id();
  charge.limits = spaces_.limits(charge.limits_id);
  PendingCharge own;
  own.charge = &charge;
  own.entry = s.entry;
  own.cells = s.entry->cells();
  own.left_out = s.entry->leaves_out() ? own.cells - limit::cells(charge.limits) : 0;
  s.entry->load(own.next.data());
  if (limit::bring_back({own.next.data(), own.cells}, charge.limits, now)) write(own);
}

void EmbeddedStore::park(request::Group& group, std::span<PendingCharge> settling,
                         std::span<const Decision> all, base::Time now,
                         CompletionQueue& completions, const Pin& pin) {
  if (std::any_of(settling.begin(), settling.end(),
                  [](const PendingCharge& s) { return s.charge->keeps_limits; }))
    return;
  if (waiting_.fetch_add(1, std::memory_order_relaxed) >= waiting_max_) {
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  if (group.arrival == 0) group.arrival = arrivals_.fetch_add(1, std::memory_order_relaxed) + 1;
  group.parked = true;
  auto waiter =
      std::make_shared<Waiter>(completions, group.ticket, group.arrival, pin, keys_of(settling));
  // In the order of the group, which its decisions have, whatever the order of the locks.
  uint32_t first = UINT32_MAX;
  for (const PendingCharge& s : settling) first = std::min(first, s.charge->decision_first);
  size_t limits = 0;
  for (const PendingCharge& s : settling) limits += s.charge->limits.size();
  waiter->limits.reserve(limits);  // so that they stay where they are
  for (size_t i = 0; i < settling.size(); ++i) {
    Charge charge = *settling[i].charge;
    charge.key = waiter->keys[i];
    const size_t first_limit = waiter->limits.size();
    waiter->limits.insert(waiter->limits.end(), charge.limits.begin(), charge.limits.end());
    charge.limits = std::span(waiter->limits).subspan(first_limit);
    charge.decision_first -= first;
    waiter->decisions += charge.limits.size();
    waiter->charges.push_back(charge);
  }
  completions.park(waiter);
  enqueue(waiter, settling, all, now);
}

// At the counter that needs the longest, in the place that its arrival gives it; aside if one asks
// for more than there can ever be.
void EmbeddedStore::enqueue(const std::shared_ptr<Waiter>& waiter,
                            std::span<PendingCharge> settling, std::span<const Decision> all,
                            base::Time now) {
  PendingCharge* at = nullptr;
  base::Duration wait{};
  waiter->state = Waiter::State::aside;
  for (PendingCharge& s : settling) {
    const Hindrance h = hindrance(*s.charge, decisions_of(*s.charge, all));
    // Nor is there enough in a counter that is fresh.
    if (h.for_ever || (h.refused && !s.is_there())) return;
    if (!h.refused || (at != nullptr && h.wait <= wait)) continue;
    at = &s;
    wait = h.wait;
  }
  SLUICE_CHECK(at != nullptr && at->entry != nullptr);
  Locked& locked = locked_of(*at->charge);
  if (at->queue == nullptr) {
    if (!locked.queues) locked.queues = std::make_unique<std::map<const Entry*, Queue>>();
    at->queue = &(*locked.queues)[at->entry];
    at->queue->entry = at->entry;
    at->entry->set_waited_for(true);
  }
  Queue& queue = *at->queue;
  waiter->state = Waiter::State::queued;
  waiter->queue = &queue;
  for (size_t i = 0; i < waiter->charges.size(); ++i) {
    const Charge& charge = waiter->charges[i];
    if (charge.space == at->charge->space && charge.key == at->charge->key) waiter->at = i;
  }
  const std::shared_ptr<Waiter> head = queue.waiters.empty() ? nullptr : queue.waiters.first();
  SLUICE_CHECK(queue.waiters.insert(waiter->arrival, waiter->cost(), waiter));
  if (queue.waiters.first() != waiter) return;
  if (head != nullptr) head->completions.forget(*head);
  if (wait != base::never) waiter->completions.wake_at(now, wait, waiter);
}

Wide EmbeddedStore::units_ahead(const PendingCharge& s, uint64_t arrival) {
  // A reset ignores waiters' claims.
  if (s.queue == nullptr || s.charge->reset_first) return 0;
  return arrival == 0 ? s.queue->units() : s.queue->waiters.sum_before(arrival);
}

void EmbeddedStore::dequeue(Waiter& waiter) {
  if (waiter.state != Waiter::State::queued) return;
  Queue& queue = *waiter.queue;
  queue.waiters.erase(waiter.arrival);
  waiter.queue = nullptr;
  waiter.state = Waiter::State::aside;
}

void EmbeddedStore::close_if_empty(Locked& locked, Queue& queue) {
  if (!queue.waiters.empty()) return;
  queue.entry->set_waited_for(false);
  locked.queues->erase(queue.entry);
}

void EmbeddedStore::answer(Waiter& waiter, std::vector<Decision> decisions, base::Time now) {
  waiter.state = Waiter::State::done;
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  waiter.completions.deliver(waiter,
                             {waiter.ticket, request::Error::none, now, std::move(decisions)});
}

void EmbeddedStore::release(Locked& locked, Queue& queue, base::Time now) {
  for (size_t answers = 0; !queue.waiters.empty(); ++answers) {
    const std::shared_ptr<Waiter> head = queue.waiters.first();
    // One that needs several counters takes all their locks; its own thread does that.
    if (head->charges.size() > 1 || answers == answers_per_lock_max)
      return head->completions.wake_at(now, {}, head);
    Hindrance h;
    if (!answer_alone(*head, queue, now, h.for_ever, h.wait)) {
      notify_owner(*head, head->charges.front(), queue.entry);
      if (!h.for_ever) {
        h.wait == base::never ? head->completions.forget(*head)
                              : head->completions.wake_at(now, h.wait, head);
        return;
      }
      dequeue(*head);
      head->completions.forget(*head);
    }
  }
  close_if_empty(locked, queue);
}

// As `release`, where only the limits of the counter have changed: what that brings is for those
// who wait under the new ones, so the first is looked at when its owner has had time to ask it
// again.
void EmbeddedStore::release_anew(Locked& locked, Queue& queue, base::Time now) {
  if (!queue.waiters.empty()) {
    const std::shared_ptr<Waiter> head = queue.waiters.first();
    if (notify_owner(*head, head->charges[head->at], queue.entry))
      return head->completions.wake_at(now, {}, head);
  }
  release(locked, queue, now);
}

// What the charge has brought is for those at its queue.
void EmbeddedStore::release_for(const PendingCharge& s, base::Time now) {
  Locked& locked = locked_of(*s.charge);
  s.charge->verb == Verb::put || s.charge->reset_first ? release(locked, *s.queue, now)
                                                       : release_anew(locked, *s.queue, now);
}

// The head of a queue, with one charge. True: it has its answer and is gone.
bool EmbeddedStore::answer_alone(Waiter& waiter, Queue& queue, base::Time now, bool& for_ever,
                                 base::Duration& wait) {
  PendingCharge s;
  s.charge = &waiter.charges.front();
  s.entry = queue.entry;
  s.queue = &queue;
  std::vector<Decision> decisions(waiter.decisions);
  const bool fits = s.evaluate(spaces_, now, 0, decisions.data());
  if (!fits) bring_back(s, now);
  if (fits && make_place(s, {&s, 1}, true, now)) {
    store(s, true, now);
    dequeue(waiter);
    answer(waiter, std::move(decisions), now);
    return true;
  }
  const Hindrance h = hindrance(*s.charge, decisions);
  for_ever = h.for_ever;
  // No memory for a counter of another size: looked at again soon.
  wait = h.refused ? h.wait : housekeeping_period;
  return false;
}

std::optional<base::Time> EmbeddedStore::advance(CompletionQueue& completions, base::Time now) {
  std::vector<std::shared_ptr<Waiter>> due;
  completions.take_due(now, due);
  for (const auto& waiter : due) {
    waiter->charges.size() == 1 ? retry_alone(*waiter, now) : retry_together(waiter, now);
  }
  return completions.rest();
}

void EmbeddedStore::retry_alone(Waiter& waiter, base::Time now) {
  Locked& locked = locked_of(waiter.charges.front());
  const std::lock_guard lock(locked.mutex);
  if (waiter.state == Waiter::State::queued) release(locked, *waiter.queue, now);
}

void EmbeddedStore::retry_together(const std::shared_ptr<Waiter>& waiter, base::Time now) {
  const LockedGroup group_lock(*this, waiter->charges);
  if (waiter->state != Waiter::State::queued) return;
  Queue& queue = *waiter->queue;
  Locked& locked = locked_of(waiter->charges[waiter->at]);

  std::vector<Decision> decisions(waiter->decisions);
  bool allowed = true;
  for (PendingCharge& s : group_lock.settling) {
    const Wide ahead = units_ahead(s, waiter->arrival);
    const bool fits = s.evaluate(spaces_, now, ahead, &decisions[s.charge->decision_first]);
    if (!fits) bring_back(s, now);
    allowed &= fits;
  }
  if (allowed && make_places(group_lock.settling, true, now)) {
    for (PendingCharge& s : group_lock.settling) store(s, true, now);
    dequeue(*waiter);
    answer(*waiter, std::move(decisions), now);
  } else if (allowed) {
    return waiter->completions.wake_at(now, housekeeping_period, waiter);
  } else {
    for (const PendingCharge& s : group_lock.settling) notify_owner(*waiter, *s.charge, s.entry);
    // It may be another counter by now that it lacks units of.
    dequeue(*waiter);
    enqueue(waiter, group_lock.settling, decisions, now);
    if (waiter->queue == &queue) return;
  }
  release(locked, queue, now);
}

// A group that is parked is asked again: it leaves and comes back at once, so that no other takes
// meanwhile what it waits for.
bool EmbeddedStore::settle_again(request::Group& group, const request::Batch& batch, base::Time now,
                                 CompletionQueue* completions, const Pin& pin) {
  SLUICE_CHECK(completions != nullptr);
  const auto charges = batch.charges.subspan(group.charge_first, group.charge_count);
  const std::shared_ptr<Waiter> waiter = completions->find_parked(group.ticket);
  if (waiter == nullptr) {
    const LockedGroup group_lock(*this, charges);
    return settle_locked(group, batch, group_lock.settling, now, completions, pin);
  }
  const LockedGroup group_lock(*this, charges, waiter->charges);
  if (waiter->state == Waiter::State::done) {
    group.answered = true;
    return true;
  }
  if (asks_the_same(*waiter, charges)) {
    // It stays where it is, under the rules that are live now.
    waiter->confirmed.clear();
    for (const PendingCharge& s : group_lock.settling) {
      const auto i = static_cast<size_t>(s.charge - charges.data());
      waiter->charges[i].rule_name = charges[i].rule_name;
      if (s.entry == nullptr || s.entry->limits_id() == charges[i].limits_id) continue;
      waiter->confirmed.resize(charges.size());
      waiter->confirmed[i] = s.entry->limits_id();
    }
    waiter->pin = pin;
    group.allowed = false;
    group.parked = true;
    waiter->named = false;
    return true;
  }
  completions->unpark(group.ticket);
  const bool was_queued = leave(*waiter) != nullptr;
  const bool settled = settle_locked(group, batch, group_lock.settling, now, completions, pin);
  // Its queue may be gone by now.
  if (was_queued) {
    PendingCharge s;
    s.charge = &waiter->charges[waiter->at];
    find(s);
    if (s.queue != nullptr) release_anew(locked_of(*s.charge), *s.queue, now);
  }
  return settled;
}

// It waits no longer. Returns the queue that it was in, to be released.
Queue* EmbeddedStore::leave(Waiter& waiter) {
  Queue* const queue = waiter.queue;
  dequeue(waiter);
  waiter.state = Waiter::State::done;
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  waiter.completions.forget(waiter);
  return queue;
}

bool EmbeddedStore::cancel(CompletionQueue& completions, request::Ticket ticket, base::Time now) {
  const std::shared_ptr<Waiter> waiter = completions.find_parked(ticket);
  if (waiter == nullptr) return false;
  {
    const LockedGroup group_lock(*this, waiter->charges);
    if (waiter->state == Waiter::State::done) return false;
    Queue* const queue = leave(*waiter);
    if (queue != nullptr) release(locked_of(waiter->charges[waiter->at]), *queue, now);
  }
  completions.unpark(ticket);
  return true;
}

}  // namespace sluice::store
