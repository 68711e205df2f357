#include "redis/queues.h"

#include <algorithm>

#include "base/bounds.h"

namespace sluice::redis {

bool Queues::enter(const std::string& counter, uint64_t arrival, int64_t units, store::Port& port) {
  const std::lock_guard lock(mutex_);
  if (count_.load(std::memory_order_relaxed) >= base::bounds::waiting_max) return false;
  if (queues_[counter].places.emplace(arrival, Place{units, &port}).second)
    count_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Queues::leave(const std::string& counter, uint64_t arrival) {
  const std::lock_guard lock(mutex_);
  const auto at = queues_.find(counter);
  if (at == queues_.end() || at->second.places.erase(arrival) == 0) return;
  count_.fetch_sub(1, std::memory_order_relaxed);
  auto& places = at->second.places;
  if (places.empty()) {
    queues_.erase(at);
    return;
  }
  ++at->second.woken;
  places.begin()->second.port->wake();
}

bool Queues::is_first(const std::string& counter, uint64_t arrival) {
  const std::lock_guard lock(mutex_);
  const auto at = queues_.find(counter);
  return at != queues_.end() && !at->second.places.empty() &&
         at->second.places.begin()->first == arrival;
}

int64_t Queues::ahead(const std::string& counter, uint64_t arrival) {
  const std::lock_guard lock(mutex_);
  const auto at = queues_.find(counter);
  if (at == queues_.end()) return 0;
  limit::Wide units = 0;
  for (const auto& [number, place] : at->second.places) {
    if (arrival != 0 && number >= arrival) break;
    units += place.units;
  }
  return static_cast<int64_t>(std::min<limit::Wide>(units, base::bounds::quota_max));
}

bool Queues::wake(const std::string& counter) {
  const std::lock_guard lock(mutex_);
  const auto at = queues_.find(counter);
  if (at == queues_.end() || at->second.places.empty()) return false;
  ++at->second.woken;
  at->second.places.begin()->second.port->wake();
  return true;
}

uint64_t Queues::woken(const std::string& counter) {
  const std::lock_guard lock(mutex_);
  const auto at = queues_.find(counter);
  return at == queues_.end() ? 0 : at->second.woken;
}

}  // namespace sluice::redis
