#include "redis/queues.h"

#include <algorithm>

#include "base/bounds.h"

namespace sluice::redis {

bool Queues::enter(const std::string& counter, uint64_t arrival, int64_t units, store::Port& port) {
  const std::lock_guard lock(mutex_);
  if (count_.load(std::memory_order_relaxed) >= base::bounds::waiting_max) return false;
  Queue& queue = queues_[counter];
  if (!queue.places.emplace(arrival, Place{units, &port}).second) return true;
  queue.units += units;
  count_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Queues::leave(const std::string& counter, uint64_t arrival) {
  const std::lock_guard lock(mutex_);
  const auto at = queues_.find(counter);
  if (at == queues_.end()) return;
  Queue& queue = at->second;
  const auto place = queue.places.find(arrival);
  if (place == queue.places.end()) return;
  const bool was_first = place == queue.places.begin();
  queue.units -= place->second.units;
  queue.places.erase(place);
  count_.fetch_sub(1, std::memory_order_relaxed);
  if (queue.places.empty())
    queues_.erase(at);
  else if (was_first)
    call_first(queue);
}

bool Queues::is_first(const std::string& counter, uint64_t arrival) {
  const std::lock_guard lock(mutex_);
  const auto at = queues_.find(counter);
  return at != queues_.end() && at->second.places.begin()->first == arrival;
}

int64_t Queues::ahead(const std::string& counter, uint64_t arrival) {
  const std::lock_guard lock(mutex_);
  const auto at = queues_.find(counter);
  if (at == queues_.end()) return 0;
  limit::Wide units = 0;
  if (arrival == 0) {
    units = at->second.units;
  } else {
    for (const auto& [number, place] : at->second.places) {
      if (number >= arrival) break;
      units += place.units;
    }
  }
  return static_cast<int64_t>(std::min<limit::Wide>(units, base::bounds::quota_max));
}

void Queues::call(const std::string& counter) {
  const std::lock_guard lock(mutex_);
  const auto at = queues_.find(counter);
  if (at != queues_.end()) call_first(at->second);
}

void Queues::call_first(Queue& queue) {
  const auto& [arrival, place] = *queue.places.begin();
  auto& called = called_[place.port];
  if (called.empty() || called.back() != arrival) called.push_back(arrival);
  place.port->wake();
}

void Queues::take_called(store::Port& port, std::vector<uint64_t>& called) {
  const std::lock_guard lock(mutex_);
  const auto at = called_.find(&port);
  if (at == called_.end()) return;
  called.insert(called.end(), at->second.begin(), at->second.end());
  at->second.clear();
}

void Queues::forget(store::Port& port) {
  const std::lock_guard lock(mutex_);
  called_.erase(&port);
}

}  // namespace sluice::redis
