// How long calls of one connection take, from written to answered. The clock is read for what one
// write holds, unless another one was timed in the last millisecond or still is; those between
// count as the next that is timed. The worker's thread; `add_to` any.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "metrics/cells.h"

namespace sluice::redis {

inline constexpr std::array<uint64_t, 13> call_bounds_us{
    50, 100, 200, 500, 1'000, 2'000, 5'000, 10'000, 20'000, 50'000, 100'000, 200'000, 500'000};
using CallDistribution = metrics::Distribution<call_bounds_us.size()>;

class CallTimes {
 public:
  // A call must be written; `at_us`: what time its worker takes it to be, more or less.
  void queued(int64_t at_us) {
    ++queued_;
    at_us_ = at_us;
  }
  // All that is queued is written, and something was.
  void written() {
    if (until_ != 0 || queued_ == answered_) return;
    if (timed_ && static_cast<uint64_t>(at_us_) - static_cast<uint64_t>(timed_us_) < period_us)
      return;
    timed_ = true;
    timed_us_ = at_us_;
    until_ = queued_;
    began_ = Clock::now();
  }
  void answered() {
    if (++answered_ != until_) [[likely]]
      return;
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began_);
    times_.observe(static_cast<uint64_t>(took.count()), answered_ - counted_);
    counted_ = answered_;
    until_ = 0;
  }
  // What is under way is lost.
  void lost() {
    answered_ = counted_ = queued_;
    until_ = 0;
  }

  void add_to(CallDistribution& all) const { times_.add_to(all); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr uint64_t period_us = 1'000;

  uint64_t queued_ = 0, answered_ = 0, counted_ = 0;
  uint64_t until_ = 0;  // of the call that ends what is timed; 0: nothing is
  int64_t at_us_ = 0, timed_us_ = 0;
  bool timed_ = false;  // anything so far
  Clock::time_point began_{};
  metrics::Histogram<call_bounds_us.size()> times_{call_bounds_us};
};

}  // namespace sluice::redis
