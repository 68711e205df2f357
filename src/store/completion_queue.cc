#include "store/completion_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "store/waiter.h"

namespace sluice::store {

namespace {

constexpr int64_t set_later_max_us = 1'000'000;

}  // namespace

CompletionQueue::CompletionQueue(std::function<void()> wake) : wake_(std::move(wake)) {}
CompletionQueue::~CompletionQueue() = default;

void CompletionQueue::drain(std::vector<Settled>& settled) {
  const size_t first = settled.size();
  {
    const std::lock_guard lock(mutex_);
    settled.reserve(first + settled_.size());  // or none is taken
    std::move(settled_.begin(), settled_.end(), std::back_inserter(settled));
    settled_.clear();
  }
  for (size_t i = first; i < settled.size(); ++i) parked_.erase(key(settled[i].ticket));
}

void CompletionQueue::drain_batches(std::vector<request::Ticket>& ready) {
  const std::lock_guard lock(mutex_);
  ready.insert(ready.end(), batches_.begin(), batches_.end());
  batches_.clear();
}

void CompletionQueue::resume_batch(request::Ticket ticket) {
  const std::lock_guard lock(mutex_);
  batches_.push_back(ticket);
  wake_once();
}

void CompletionQueue::resume_waiter(request::Ticket ticket) {
  const std::lock_guard lock(mutex_);
  waiters_.push_back(ticket);
  wake_once();
}

void CompletionQueue::drain_waiters(std::vector<request::Ticket>& named) {
  const std::lock_guard lock(mutex_);
  named.insert(named.end(), waiters_.begin(), waiters_.end());
  waiters_.clear();
}

void CompletionQueue::settle(Settled settled) {
  const std::lock_guard lock(mutex_);
  settled_.push_back(std::move(settled));
  wake_once();
}

void CompletionQueue::park(const std::shared_ptr<Waiter>& waiter) {
  make_room(parked_.size() + 1);
  Due place;
  place.emplace(std::pair(Waiter::no_time, waiter->arrival), nullptr);
  SLUICE_CHECK(parked_.emplace(key(waiter->ticket), waiter).second);
  waiter->due_place = place.extract(place.begin());
}

void CompletionQueue::make_room() {
  make_room(parked_.size());
}

// Each of those that are parked may be settled once, and named once until it is asked again.
void CompletionQueue::make_room(size_t parked) {
  const auto reserve = [parked](auto& list) {
    const size_t wanted = list.size() + parked;
    if (list.capacity() < wanted) list.reserve(std::max(2 * list.capacity(), wanted));
  };
  const std::lock_guard lock(mutex_);
  reserve(settled_);
  reserve(waiters_);
}

std::shared_ptr<Waiter> CompletionQueue::find_parked(request::Ticket ticket) const {
  const auto at = parked_.find(key(ticket));
  return at == parked_.end() ? nullptr : at->second;
}

void CompletionQueue::unpark(request::Ticket ticket) {
  parked_.erase(key(ticket));
}

void CompletionQueue::deliver(Waiter& waiter, Settled settled) {
  const std::lock_guard lock(mutex_);
  remove(waiter);
  settled_.push_back(std::move(settled));
  wake_once();
}

void CompletionQueue::wake_at(base::Time now, base::Duration wait,
                              const std::shared_ptr<Waiter>& waiter) {
  const std::lock_guard lock(mutex_);
  remove(*waiter);
  set_us_ = std::max(set_us_, now.us);
  waiter->due_us = wait.us < INT64_MAX - now.us ? now.us + wait.us : INT64_MAX;
  if (waiter->due_us == Waiter::no_time) return;
  waiter->due_place.key().first = waiter->due_us;
  waiter->due_place.mapped() = waiter;
  const auto place = due_.insert(std::move(waiter->due_place)).position;
  if (place == due_.begin()) wake_once();
}

void CompletionQueue::forget(Waiter& waiter) {
  const std::lock_guard lock(mutex_);
  remove(waiter);
}

void CompletionQueue::remove(Waiter& waiter) {
  if (waiter.due_us == Waiter::no_time) return;
  take(due_.find({waiter.due_us, waiter.arrival}));
}

// Takes a waiter out, which keeps its place for the next time.
std::shared_ptr<Waiter> CompletionQueue::take(Due::iterator at) {
  Due::node_type place = due_.extract(at);
  std::shared_ptr<Waiter> waiter = std::move(place.mapped());
  waiter->due_us = Waiter::no_time;
  waiter->due_place = std::move(place);
  return waiter;
}

std::shared_ptr<Waiter> CompletionQueue::take_due(base::Time now) {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  // Times are also set between two of these calls, and by other threads, a little later than now.
  const bool all = now.us < std::exchange(now_us_, now.us) || now.us + set_later_max_us < set_us_;
  if (all) set_us_ = now.us;
  std::shared_ptr<Waiter> first;
  for (std::shared_ptr<Waiter>* end = &first;
       !due_.empty() && (all || due_.begin()->first.first <= now.us); end = &(*end)->next_due)
    *end = take(due_.begin());
  return first;
}

std::optional<base::Time> CompletionQueue::rest() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  if (due_.empty()) return std::nullopt;
  return base::Time{due_.begin()->first.first};
}

void CompletionQueue::wake() {
  const std::lock_guard lock(mutex_);
  wake_once();
}

void CompletionQueue::wake_once() {
  if (std::exchange(woken_, true)) return;
  wake_();
}

}  // namespace sluice::store
