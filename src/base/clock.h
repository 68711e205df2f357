// The server's clock: the wall clock at the start plus monotonic time, so that it never stands
// still. When the wall clock is set forward it follows. When that is taken back within `trial_us`
// of monotonic time, so does the clock: down to where it was before the step, and no further. Any
// other step back it ignores. So over a span of `trial_us` it never runs backwards, and
// `earliest_now` never does. One for the process, read by any thread, once a batch.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include "base/time.h"

namespace sluice::base {

class Clock {
 public:
  // How long a step forward may be taken back.
  static constexpr int64_t trial_us = 60'000'000;

  // What the clock reads; replaced in tests.
  struct Source {
    int64_t (*monotonic_us)();
    int64_t (*wall_us)();
  };
  static Source system();

  explicit Clock(Source source = system());

  Time now();
  // For lengths of time, whatever the wall clock does.
  Time monotonic() const { return {source_.monotonic_us()}; }
  // The earliest that `now` may still fall back to: what is over by then stays over, so it may be
  // forgotten.
  Time earliest_now();

 private:
  // From when on the wall clock was so far ahead of monotonic time.
  struct Step {
    int64_t since_us, offset_us;
  };

  int64_t look();
  void follow(int64_t monotonic_us);

  const Source source_;
  std::atomic<int64_t> offset_us_;   // of `now`: wall minus monotonic
  std::atomic<int64_t> settled_us_;  // of `earliest_now`
  std::atomic<int64_t> looked_us_;   // monotonic time of the last look at the wall clock
  std::mutex mutex_;
  // Guarded: the offsets of the last `trial_us`, rising. The first is what may be fallen back to,
  // the last is that of `now`. Past so many the first step is settled early.
  std::array<Step, 16> steps_;
  size_t count_ = 1;
};

}  // namespace sluice::base
