#include "base/background.h"

#include <gtest/gtest.h>
#include <time.h>

#include <chrono>

#include "tests/support/patience.h"

namespace sluice::base {
namespace {

using std::chrono::steady_clock;

double processor_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// Work of 20 ms of processor time; how long it took beside that.
double idle_ms() {
  const auto begin = steady_clock::now();
  const double first = processor_ms();
  while (processor_ms() < first + 20) yield_if_background();
  const std::chrono::duration<double, std::milli> took = steady_clock::now() - begin;
  return took.count() - (processor_ms() - first);
}

TEST(Pace, RestsBetweenBurstsWhereItIsAskedTo) {
  {
    const Paced paced;
    // A hundred bursts, each with its rest of 50 us; some of the work is the resting itself.
    EXPECT_GT(idle_ms(), 2.0);
  }
  const auto begin = steady_clock::now();
  for (int i = 0; i < 1'000'000; ++i) yield_if_background();
  // A look at a flag: a clock would take ten times as long.
  EXPECT_LT(steady_clock::now() - begin, tests::promised(std::chrono::milliseconds(500)));
}

}  // namespace
}  // namespace sluice::base
