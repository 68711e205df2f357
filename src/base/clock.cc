#include "base/clock.h"

#include <ctime>

namespace sluice::base {

namespace {

constexpr int64_t look_every_us = 100'000;
// Below this it is the time between two readings, not a step; slewing moves both clocks alike.
constexpr int64_t step_us_min = 1'000;

int64_t read(clockid_t id) {
  timespec t;
  clock_gettime(id, &t);
  return int64_t{t.tv_sec} * 1'000'000 + t.tv_nsec / 1'000;
}

}  // namespace

Clock::Source Clock::system() {
  return {[] { return read(CLOCK_MONOTONIC); }, [] { return read(CLOCK_REALTIME); }};
}

Clock::Clock(Source source)
    : source_(source),
      offset_us_(source.wall_us() - source.monotonic_us()),
      looked_us_(source.monotonic_us()) {}

Time Clock::now() {
  const int64_t monotonic_us = source_.monotonic_us();
  if (monotonic_us - looked_us_.load(std::memory_order_relaxed) >= look_every_us)
    follow(monotonic_us);
  return {monotonic_us + offset_us_.load(std::memory_order_relaxed)};
}

void Clock::follow(int64_t monotonic_us) {
  looked_us_.store(monotonic_us, std::memory_order_relaxed);
  const int64_t wall_us = source_.wall_us();
  // Held up between the two readings, a thread would see a step that never was: then the next look
  // decides.
  if (source_.monotonic_us() - monotonic_us >= step_us_min) return;
  int64_t offset_us = offset_us_.load(std::memory_order_relaxed);
  while (wall_us - monotonic_us - offset_us >= step_us_min &&
         !offset_us_.compare_exchange_weak(offset_us, wall_us - monotonic_us,
                                           std::memory_order_relaxed)) {
  }
}

}  // namespace sluice::base
