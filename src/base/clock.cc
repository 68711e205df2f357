#include "base/clock.h"

#include <algorithm>
#include <cstdlib>
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
      settled_us_(offset_us_.load()),
      looked_us_(source.monotonic_us()),
      steps_{{{looked_us_.load(), offset_us_.load()}}} {}

Time Clock::now() {
  const int64_t monotonic_us = look();
  return {monotonic_us + offset_us_.load(std::memory_order_relaxed)};
}

Time Clock::earliest_now() {
  const int64_t monotonic_us = look();
  return {monotonic_us + settled_us_.load(std::memory_order_relaxed)};
}

int64_t Clock::look() {
  const int64_t monotonic_us = source_.monotonic_us();
  if (monotonic_us - looked_us_.load(std::memory_order_relaxed) >= look_every_us)
    follow(monotonic_us);
  return monotonic_us;
}

void Clock::follow(int64_t monotonic_us) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;  // another thread looks
  looked_us_.store(monotonic_us, std::memory_order_relaxed);
  const int64_t wall_us = source_.wall_us();
  // Held up between the two readings, a thread would see a step that never was: then the next look
  // decides.
  if (source_.monotonic_us() - monotonic_us >= step_us_min) return;
  const auto drop_first = [this] {
    std::copy(steps_.begin() + 1, steps_.begin() + static_cast<std::ptrdiff_t>(count_--),
              steps_.begin());
  };
  while (count_ > 1 && monotonic_us - steps_[1].since_us >= trial_us) drop_first();
  const int64_t offset_us = steps_[count_ - 1].offset_us;
  const int64_t wanted_us = std::max(wall_us - monotonic_us, steps_[0].offset_us);
  if (std::abs(wanted_us - offset_us) >= step_us_min) {
    // What is not below it any more lasted from there on.
    int64_t since_us = monotonic_us;
    while (count_ > 1 && steps_[count_ - 1].offset_us >= wanted_us)
      since_us = steps_[--count_].since_us;
    if (steps_[count_ - 1].offset_us < wanted_us) {
      if (count_ == steps_.size()) drop_first();
      steps_[count_++] = {since_us, wanted_us};
    }
  }
  offset_us_.store(steps_[count_ - 1].offset_us, std::memory_order_relaxed);
  settled_us_.store(steps_[0].offset_us, std::memory_order_relaxed);
}

}  // namespace sluice::base
