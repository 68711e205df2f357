// Which denials the log tells, where that is needed: every Nth, but so many a second at most; how
// many of those were skipped is counted, and logged as well. Off until an operator turns it on.
// Owned by the server; any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace sluice::engine {

class DenialSampler {
 public:
  static constexpr uint64_t lines_per_second_max = 10;
  static constexpr uint64_t every_max = 1'000'000'000;

  // 0: none. The deciding thread looks once a batch.
  uint64_t every() const { return every_.load(std::memory_order_relaxed); }
  // Counts again.
  void set_every(uint64_t every) {
    seen_.store(0, std::memory_order_relaxed);
    every_.store(every, std::memory_order_relaxed);
  }

  // One more was denied. True: it must be logged. `every` is more than 0.
  bool wants(uint64_t every, base::Time now);
  // How many were skipped since this was asked last.
  uint64_t take_passed_over() { return passed_over_.exchange(0, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> every_{0}, seen_{0}, passed_over_{0};
  // The second of which lines are counted, times 256, and how many there were.
  std::atomic<uint64_t> second_{0};
};

}  // namespace sluice::engine
