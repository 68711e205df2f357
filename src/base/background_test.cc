// Work of low priority in short bursts (base/background.h).
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

// Works for 20 ms of processor time. Returns for how many ms of that span it was not running.
double idle_ms() {
  const auto begin = steady_clock::now();
  const double first = processor_ms();
  while (processor_ms() < first + 20) yield_if_background();
  const std::chrono::duration<double, std::milli> took = steady_clock::now() - begin;
  return took.count() - (processor_ms() - first);
}

TEST(Pace, RestsBetweenBurstsOnlyInABackgroundThread) {
  {
    const Paced paced;
    // About a hundred bursts, with a pause of 50 us after each; the pauses take processor time,
    // too.
    EXPECT_GT(idle_ms(), 2.0);
  }
  const auto begin = steady_clock::now();
  for (int i = 0; i < 1'000'000; ++i) yield_if_background();
  // Without Paced a call reads one flag; reading a clock would take ten times as long.
  EXPECT_LT(steady_clock::now() - begin, tests::promised(std::chrono::milliseconds(500)));
}

}  // namespace
}  // namespace sluice::base
