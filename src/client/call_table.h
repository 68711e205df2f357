// The calls under way: their handlers, what replies they expect, and the times by which they end. A
// plain value of the core's, used under its lock. Once it has grown it allocates nothing for a call
// but what the handler needs.
#pragma once

#include <sluice/client.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/time.h"
#include "client/dialect.h"
#include "client/owned_request.h"

namespace sluice::calls {

inline constexpr uint32_t no_index = UINT32_MAX;
inline constexpr base::Time no_time{INT64_MAX};

struct Call {
  // A call that has ended keeps its place until its reply comes, where replies come in order.
  enum class State : uint8_t { free, queued, sent, ended };
  client_handler handler;
  Expected expected;
  State state = State::free;
  bool no_answer = false;
  uint32_t generation = 0, link = no_index;
  uint32_t next = no_index, previous = no_index;  // of its link
  base::Time begun{};
  std::unique_ptr<OwnedRequest> request;  // for a stand-in

  bool is_under_way() const { return state == State::queued || state == State::sent; }
};

class CallTable {
 public:
  Call& operator[](uint32_t index) { return calls_[index]; }
  const Call& operator[](uint32_t index) const { return calls_[index]; }
  size_t used() const { return used_; }

  uint32_t add() {
    uint32_t index = 0;
    if (free_.empty()) {
      index = static_cast<uint32_t>(calls_.size());
      calls_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    ++used_;
    ++calls_[index].generation;
    return index;
  }
  void remove(uint32_t index) {
    Call& call = calls_[index];
    call.state = Call::State::free;
    call.handler = nullptr;
    call.request.reset();
    free_.push_back(index);
    --used_;
  }

  client_call_id id_of(uint32_t index) const {
    return uint64_t{calls_[index].generation} << 32 | (index + 1);
  }
  // no_index: no call of that name is under way.
  uint32_t find(client_call_id id) const {
    const uint64_t place = id & UINT32_MAX;
    if (place == 0 || place > calls_.size()) return no_index;
    const auto index = static_cast<uint32_t>(place - 1);
    const Call& call = calls_[index];
    return call.is_under_way() && call.generation == id >> 32 ? index : no_index;
  }
  // Calls `visit(index)` for all that are under way; it may end them.
  template <class Visit>
  void each_under_way(Visit visit) {
    for (uint32_t i = 0; i < calls_.size(); ++i)
      if (calls_[i].is_under_way()) visit(i);
  }

 private:
  std::vector<Call> calls_;
  std::vector<uint32_t> free_;
  size_t used_ = 0;
};

// Deadlines. Most calls have one of a few lengths, each of which has a queue; those of further
// lengths (a caller's remaining time) are in a heap, so that a new length costs its logarithm.
class Deadlines {
 public:
  // A time past the last one that can be represented never comes.
  void add(base::Duration timeout, base::Time now, client_call_id id) {
    if (timeout.us > INT64_MAX - std::max<int64_t>(now.us, 0)) return;
    const Entry entry{{now.us + timeout.us}, id};
    if (Queue* const queue = queue_of(timeout)) {
      queue->entries.push_back(entry);
      return;
    }
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  // Calls `visit(id)` for each that has passed. `calls`: tells which still matter.
  template <class Visit>
  void pass(base::Time now, const CallTable& calls, Visit visit) {
    for (Queue& queue : queues_) {
      while (!queue.entries.empty()) {
        const auto [time, id] = queue.entries.front();
        const bool matters = calls.find(id) != no_index;
        if (matters && time > now) break;
        queue.entries.pop_front();
        if (matters) visit(id);
      }
      if (queue.entries.size() > 2 * calls.used() + compact_above) compact(queue.entries, calls);
    }
    while (!heap_.empty()) {
      const auto [time, id] = heap_.front();
      const bool matters = calls.find(id) != no_index;
      if (matters && time > now) break;
      std::pop_heap(heap_.begin(), heap_.end(), later);
      heap_.pop_back();
      if (matters) visit(id);
    }
    if (heap_.size() > 2 * calls.used() + compact_above) {
      compact(heap_, calls);
      std::make_heap(heap_.begin(), heap_.end(), later);
    }
  }
  base::Time next() const {
    base::Time first = heap_.empty() ? no_time : heap_.front().first;
    for (const Queue& queue : queues_)
      if (!queue.entries.empty() && queue.entries.front().first < first)
        first = queue.entries.front().first;
    return first;
  }

 private:
  static constexpr size_t compact_above = 4096, queues_max = 8;
  using Entry = std::pair<base::Time, client_call_id>;
  struct Queue {
    base::Duration timeout;
    std::deque<Entry> entries;
  };

  static bool later(const Entry& a, const Entry& b) { return b.first < a.first; }

  // Null: all queues are of other lengths.
  Queue* queue_of(base::Duration timeout) {
    Queue* empty = nullptr;
    for (Queue& queue : queues_) {
      if (queue.timeout == timeout) return &queue;
      if (queue.entries.empty()) empty = &queue;
    }
    if (queues_.size() < queues_max) return &queues_.emplace_back(Queue{timeout, {}});
    if (empty != nullptr) empty->timeout = timeout;
    return empty;
  }
  template <class Entries>
  static void compact(Entries& entries, const CallTable& calls) {
    Entries kept;
    for (const Entry& entry : entries)
      if (calls.find(entry.second) != no_index) kept.push_back(entry);
    entries.swap(kept);
  }

  std::vector<Queue> queues_;
  std::vector<Entry> heap_;
};

}  // namespace sluice::calls
