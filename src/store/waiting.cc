// Waiting in the embedded store: parks refused groups, and answers each in its turn.

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

// Why a charge of a refused group has to wait, and for how long.
struct Hindrance {
  bool refused = false;
  bool for_ever = false;  // its cost is more than the limit ever allows
  base::Duration wait{};  // never: until units are returned by a put
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

// Does the group have the same charges on the same counters, under the same limits?
bool asks_the_same(const Waiter& waiter, std::span<const Charge> charges) {
  return std::equal(waiter.charges.begin(), waiter.charges.end(), charges.begin(), charges.end(),
                    [](const Charge& a, const Charge& b) {
                      return a.space == b.space && a.key == b.key && a.cost == b.cost &&
                             a.limits_id == b.limits_id && a.limits_id != 0;
                    });
}

// Is the charge's counter kept under other limits? Then notifies the waiter's owner, once, unless
// the owner has confirmed that the group goes on waiting under its own limits.
bool notify_owner(Waiter& waiter, const Charge& charge, const Entry* entry) {
  if (entry == nullptr || entry->erased() || entry->limits_id() == charge.limits_id) return false;
  const auto i = static_cast<size_t>(&charge - waiter.charges.data());
  if (!waiter.confirmed.empty() && waiter.confirmed[i] == entry->limits_id()) return false;
  if (!std::exchange(waiter.named, true)) waiter.completions.resume_waiter(waiter.ticket);
  return true;
}

}  // namespace

// If the clock was ahead when the counter of a refused charge was written, rewrites the counter as
// of now, under its own limits and without taking anything. This is done once: if it were done at
// each look, the units would always be as far away as at the last one.
void EmbeddedStore::bring_back(PendingCharge& s, std::span<const PendingCharge> group,
                               base::Time now) {
  if (!s.is_there()) return;
  Charge charge = *s.charge;
  charge.limits_id = s.entry->limits_id();
  charge.limits = spaces_.limits(charge.limits_id);
  PendingCharge own;
  own.charge = &charge;
  own.entry = s.entry;
  own.queue = s.queue;
  Cells was;
  s.entry->load(was.data());
  const auto count =
      limit::bring_back({was.data(), s.entry->cells()}, charge.limits, now, own.next.data());
  if (!count) return;
  own.cells = count->all;
  own.left_out = count->left_out;
  if (!make_place(own, group, false, now)) return;
  store(own, false, now);
  s.entry = own.entry;
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
  // In the order of the group, as its decisions are, and not in that of the locks.
  uint32_t first = UINT32_MAX;
  for (const PendingCharge& s : settling) first = std::min(first, s.charge->decision_first);
  size_t limits = 0;
  for (const PendingCharge& s : settling) limits += s.charge->limits.size();
  waiter->limits.reserve(limits);  // so that pointers to them stay valid
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

// Adds the waiter to the queue of the counter with the longest wait, in the order of arrival; aside
// if one of its charges is more than a limit ever allows.
void EmbeddedStore::enqueue(const std::shared_ptr<Waiter>& waiter,
                            std::span<PendingCharge> settling, std::span<const Decision> all,
                            base::Time now) {
  PendingCharge* at = nullptr;
  base::Duration wait{};
  waiter->state = Waiter::State::aside;
  for (PendingCharge& s : settling) {
    const Hindrance h = hindrance(*s.charge, decisions_of(*s.charge, all));
    // Not even a fresh counter has enough units.
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
    // A waiter that needs several counters needs all their locks, which its owner's thread takes.
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

// As `release`, when only the limits of the counter have changed. Units that this makes available
// belong to groups that wait under the new limits, so the first waiter is looked at only after its
// owner has had time to match it again.
void EmbeddedStore::release_anew(Locked& locked, Queue& queue, base::Time now) {
  if (!queue.waiters.empty()) {
    const std::shared_ptr<Waiter> head = queue.waiters.first();
    if (notify_owner(*head, head->charges[head->at], queue.entry))
      return head->completions.wake_at(now, {}, head);
  }
  release(locked, queue, now);
}

// Gives the units that the charge has returned to the waiters of its queue.
void EmbeddedStore::release_for(const PendingCharge& s, base::Time now) {
  Locked& locked = locked_of(*s.charge);
  s.charge->verb == Verb::put || s.charge->reset_first ? release(locked, *s.queue, now)
                                                       : release_anew(locked, *s.queue, now);
}

// Tries to answer the first waiter of a queue, which has one charge. True: it is answered and has
// left the queue.
bool EmbeddedStore::answer_alone(Waiter& waiter, Queue& queue, base::Time now, bool& for_ever,
                                 base::Duration& wait) {
  PendingCharge s;
  s.charge = &waiter.charges.front();
  s.entry = queue.entry;
  s.queue = &queue;
  std::vector<Decision> decisions(waiter.decisions);
  const bool fits = s.evaluate(spaces_, now, 0, decisions.data());
  if (!fits) bring_back(s, {&s, 1}, now);
  if (fits && make_place(s, {&s, 1}, true, now)) {
    store(s, true, now);
    dequeue(waiter);
    answer(waiter, std::move(decisions), now);
    return true;
  }
  const Hindrance h = hindrance(*s.charge, decisions);
  for_ever = h.for_ever;
  // Without memory for a counter of another size it is looked at again soon.
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
    if (!fits) bring_back(s, group_lock.settling, now);
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
    // It may lack the units of another counter by now.
    dequeue(*waiter);
    enqueue(waiter, group_lock.settling, decisions, now);
    if (waiter->queue == &queue) return;
  }
  release(locked, queue, now);
}

// Settles a parked group again: it leaves its queue and comes back under the same locks, so that no
// other group takes its units meanwhile.
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
    // It stays in its place, under the rules that are live now.
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
  // Its queue may have been removed by now.
  if (was_queued) {
    PendingCharge s;
    s.charge = &waiter->charges[waiter->at];
    find(s);
    if (s.queue != nullptr) release_anew(locked_of(*s.charge), *s.queue, now);
  }
  return settled;
}

// Takes the waiter out of its queue. Returns that queue, which must be released.
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
