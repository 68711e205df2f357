// The requests of all workers of this server that wait for units of counters in Redis, in the order
// in which they are served: by arrival, and of a rule with `fair_by` in turn by its values
// (base/turns.h). Only the first one of a counter asks Redis, and units that those before it ask
// for are not given to later ones. (Waiting requests of several servers have no common order.) Any
// thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/turns.h"
#include "limit/wide.h"
#include "store/completion_queue.h"

namespace sluice::redis {

class Queues {
 private:
  // one for each waiting request, with its units
  using Places = base::Turns<store::CompletionQueue*, limit::Wide>;

 public:
  // Where a request stands: Charge::fair_value, its arrival, and its turn where it stood before.
  using Place = Places::Place;

  // Does any request wait?
  bool any() const { return count_.load(std::memory_order_relaxed) > 0; }
  uint64_t new_arrival() { return arrivals_.fetch_add(1, std::memory_order_relaxed) + 1; }
  size_t size() const { return count_.load(std::memory_order_relaxed); }

  // Adds a request to a counter's queue. There is no bound here, as all are counted in
  // Shared::waiting, which has one. `completions` is woken when the request is called.
  void enter(const std::string& counter, const Place& place, int64_t units,
             store::CompletionQueue& completions);
  // Removes a request, and calls the one that is the first then. `granted`: its value has had its
  // turn. Returns the turn that it has at its next place (base::Turns::turn_of).
  uint64_t leave(const std::string& counter, const Place& place, bool granted = false);
  // The same while it stays.
  uint64_t turn_of(const std::string& counter, const Place& place);
  bool is_first(const std::string& counter, uint64_t arrival);
  // The units that requests before that place wait for; number 0: those of all requests.
  int64_t ahead(const std::string& counter, const Place& place);
  // Units were returned: calls the first of the counter's queue.
  void call(const std::string& counter);
  // Appends to `called` the arrivals of requests of that completion queue that were called since
  // the last time.
  void take_called(store::CompletionQueue& completions, std::vector<uint64_t>& called);
  // The completion queue is about to go; its requests have left all queues.
  void forget(store::CompletionQueue& completions);
  // The largest number of counters that a lookup has to compare with. For tests.
  size_t longest_search();

 private:
  void call_first(Places& places);

  // The hash of a counter's name. Clients choose names, so it has a secret: they cannot make names
  // collide.
  struct NameHash {
    size_t operator()(const std::string& name) const { return hash(0, name); }
    base::Hash hash;
  };

  std::mutex mutex_;
  std::unordered_map<std::string, Places, NameHash> queues_;
  std::unordered_map<store::CompletionQueue*, std::vector<uint64_t>> called_;
  std::atomic<size_t> count_{0};
  std::atomic<uint64_t> arrivals_{0};
};

}  // namespace sluice::redis
