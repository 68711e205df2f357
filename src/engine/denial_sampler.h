// Picks the denials that are logged: every Nth, and at most a fixed number in a second. Those above
// that number are counted, and their count is logged. Off until an operator turns it on. Owned by
// the server; any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace sluice::engine {

class DenialSampler {
 public:
  static constexpr uint64_t lines_per_second_max = 10;
  static constexpr uint64_t every_max = 1'000'000'000;

  // 0: no denial is logged. Workers read it once a batch.
  uint64_t every() const { return every_.load(std::memory_order_relaxed); }
  // Sets N and restarts the count.
  void set_every(uint64_t every) {
    seen_.store(0, std::memory_order_relaxed);
    every_.store(every, std::memory_order_relaxed);
  }

  // Counts one denial. True: it must be logged. `every` is more than 0.
  bool wants(uint64_t every, base::Time now);
  // Returns how many were not logged for being too many since the last call.
  uint64_t take_passed_over() { return passed_over_.exchange(0, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> every_{0}, seen_{0}, passed_over_{0};
  // The current second times 256, plus the number of lines that were logged in it.
  std::atomic<uint64_t> second_{0};
};

}  // namespace sluice::engine
