#include "redis/queues.h"

#include <algorithm>

#include "base/bounds.h"

namespace sluice::redis {

void Queues::enter(const std::string& counter, const Place& place, int64_t units,
                   store::CompletionQueue& completions) {
  const std::lock_guard lock(mutex_);
  if (queues_[counter].insert(place, units, &completions))
    count_.fetch_add(1, std::memory_order_relaxed);
}

uint64_t Queues::leave(const std::string& counter, const Place& place, bool granted) {
  const std::lock_guard lock(mutex_);
  const auto at = queues_.find(counter);
  if (at == queues_.end()) return place.turn;
  Places& places = at->second;
  const bool was_first = places.first_number() == place.number;
  const uint64_t turn = places.turn_of(place.key, place.number);
  const bool left = granted ? places.serve(place.key, place.number, new_arrival())
                            : places.erase(place.key, place.number);
  if (!left) return place.turn;
  count_.fetch_sub(1, std::memory_order_relaxed);
  if (places.empty())
    queues_.erase(at);
  else if (was_first)
    call_first(places);
  return granted ? 0 : turn;
}

uint64_t Queues::turn_of(const std::string& counter, const Place& place) {
  const std::lock_guard lock(mutex_);
  const auto at = queues_.find(counter);
  return at == queues_.end() ? place.turn : at->second.turn_of(place.key, place.number);
}

bool Queues::is_first(const std::string& counter, uint64_t arrival) {
  const std::lock_guard lock(mutex_);
  const auto at = queues_.find(counter);
  return at != queues_.end() && at->second.first_number() == arrival;
}

int64_t Queues::ahead(const std::string& counter, const Place& place) {
  const std::lock_guard lock(mutex_);
  const auto at = queues_.find(counter);
  if (at == queues_.end()) return 0;
  const Places& places = at->second;
  const limit::Wide units = place.number == 0 ? places.sum() : places.ahead(place);
  return static_cast<int64_t>(std::min<limit::Wide>(units, base::bounds::quota_max));
}

void Queues::call(const std::string& counter) {
  const std::lock_guard lock(mutex_);
  const auto at = queues_.find(counter);
  if (at != queues_.end()) call_first(at->second);
}

void Queues::call_first(Places& places) {
  const uint64_t arrival = places.first_number();
  store::CompletionQueue* const completions = places.first();
  auto& called = called_[completions];
  if (called.empty() || called.back() != arrival) called.push_back(arrival);
  completions->wake();
}

void Queues::take_called(store::CompletionQueue& completions, std::vector<uint64_t>& called) {
  const std::lock_guard lock(mutex_);
  const auto at = called_.find(&completions);
  if (at == called_.end()) return;
  called.insert(called.end(), at->second.begin(), at->second.end());
  at->second.clear();
}

void Queues::forget(store::CompletionQueue& completions) {
  const std::lock_guard lock(mutex_);
  called_.erase(&completions);
}

size_t Queues::longest_search() {
  const std::lock_guard lock(mutex_);
  size_t longest = 0;
  for (size_t i = 0; i < queues_.bucket_count(); ++i)
    longest = std::max(longest, queues_.bucket_size(i));
  return longest;
}

}  // namespace sluice::redis
