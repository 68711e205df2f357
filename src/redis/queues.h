// Who waits for units of a counter in Redis, over all workers of this server, in order of arrival:
// only the first of a counter asks, and what those in front ask for is not there for anybody behind
// them. (Several servers do not order their waiting requests among each other.) Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/running_sums.h"
#include "limit/wide.h"
#include "store/completion_queue.h"

namespace sluice::redis {

class Queues {
 public:
  // Is there anybody at all?
  bool any() const { return count_.load(std::memory_order_relaxed) > 0; }
  uint64_t new_arrival() { return arrivals_.fetch_add(1, std::memory_order_relaxed) + 1; }
  size_t size() const { return count_.load(std::memory_order_relaxed); }

  // Without a bound of its own: who enters is one of Shared::waiting, which has one. `completions`
  // is woken when it is called.
  void enter(const std::string& counter, uint64_t arrival, int64_t units,
             store::CompletionQueue& completions);
  // Who is the first then is called.
  void leave(const std::string& counter, uint64_t arrival);
  bool is_first(const std::string& counter, uint64_t arrival);
  // Units that those in front of an arrival wait for; 0: of all.
  int64_t ahead(const std::string& counter, uint64_t arrival);
  // Something was put back: its first is called.
  void call(const std::string& counter);
  // Moves the arrivals of the completion queue's that were called since the last time to the end of
  // `called`.
  void take_called(store::CompletionQueue& completions, std::vector<uint64_t>& called);
  // The completion queue is about to go: it has left all queues.
  void forget(store::CompletionQueue& completions);
  // The most counters that a lookup may have to compare with. For tests.
  size_t longest_search();

 private:
  struct Queue {
    base::RunningSums<store::CompletionQueue*, limit::Wide> places;  // by arrival, with their units
  };
  void call_first(Queue& queue);

  // Of a counter's name, which clients choose: with a secret, so that theirs do not meet.
  struct NameHash {
    size_t operator()(const std::string& name) const { return hash(0, name); }
    base::Hash hash;
  };

  std::mutex mutex_;
  std::unordered_map<std::string, Queue, NameHash> queues_;
  std::unordered_map<store::CompletionQueue*, std::vector<uint64_t>> called_;
  std::atomic<size_t> count_{0};
  std::atomic<uint64_t> arrivals_{0};
};

}  // namespace sluice::redis
