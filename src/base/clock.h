// The server's clock: the wall clock at the start plus the monotonic time since, so that it never
// stands still or runs backwards. When the wall clock is set forward it follows; when it is set
// back it goes on as if nothing had happened. One for the process, read by any thread, once a
// batch.
#pragma once

#include <atomic>

#include "base/time.h"

namespace sluice::base {

class Clock {
 public:
  // What the clock reads; replaced in tests.
  struct Source {
    int64_t (*monotonic_us)();
    int64_t (*wall_us)();
  };
  static Source system();

  explicit Clock(Source source = system());

  Time now();

 private:
  void follow(int64_t monotonic_us);

  const Source source_;
  std::atomic<int64_t> offset_us_;  // wall minus monotonic
  std::atomic<int64_t> looked_us_;  // monotonic time of the last look at the wall clock
};

}  // namespace sluice::base
