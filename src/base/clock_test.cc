// The clock (base/clock.h) on made-up sources: steps forward and back, and time that is settled.
#include "base/clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

namespace sluice::base {
namespace {

int64_t monotonic_us, wall_us, held_up_us;

int64_t read_wall() {
  monotonic_us += held_up_us;
  return wall_us;
}

Clock::Source fake() {
  return {[] { return monotonic_us; }, [] { return read_wall(); }};
}

void pass(int64_t us) {
  monotonic_us += us;
  wall_us += us;
}

class ClockTest : public testing::Test {
 protected:
  ClockTest() {
    monotonic_us = 5'000'000;
    wall_us = 1'700'000'000'000'000;
    held_up_us = 0;
  }
};

TEST_F(ClockTest, CountsFromTheWallClock) {
  Clock clock(fake());
  EXPECT_EQ(clock.now().us, 1'700'000'000'000'000);
  pass(250);
  EXPECT_EQ(clock.now().us, 1'700'000'000'000'250);
}

constexpr int64_t hour = 3'600'000'000, day = 24 * hour;

TEST_F(ClockTest, FollowsAStepForwardAndStandsStillAfterAStepBack) {
  Clock clock(fake());
  const int64_t start = clock.now().us;
  pass(200'000);
  wall_us += hour;
  EXPECT_EQ(clock.now().us, start + hour + 200'000);
  pass(Clock::trial_us);
  EXPECT_EQ(clock.now().us, start + hour + 200'000 + Clock::trial_us);
  const int64_t later = clock.now().us;
  wall_us -= 2 * hour;
  pass(200'000);
  EXPECT_EQ(clock.now().us, later + 200'000);
  wall_us += hour;  // back where it was before the step back: not a step for the clock
  pass(200'000);
  EXPECT_EQ(clock.now().us, later + 400'000);
}

TEST_F(ClockTest, UndoesAStepForwardThatIsRevertedWithinAMinute) {
  for (const int64_t lasts : {100'000, 1'000'000, 59'800'000}) {
    Clock clock(fake());
    const int64_t start = clock.now().us;
    pass(200'000);
    wall_us += day;
    EXPECT_EQ(clock.now().us, start + day + 200'000);
    EXPECT_EQ(clock.earliest_now().us, start + 200'000);
    pass(lasts);
    EXPECT_EQ(clock.now().us, start + day + 200'000 + lasts);
    EXPECT_EQ(clock.earliest_now().us, start + 200'000 + lasts);
    wall_us -= day;
    pass(100'000);
    EXPECT_EQ(clock.now().us, start + 300'000 + lasts);
    EXPECT_EQ(clock.earliest_now().us, start + 300'000 + lasts);
  }
}

TEST_F(ClockTest, KeepsAStepForwardThatHasLastedAMinute) {
  Clock clock(fake());
  const int64_t start = clock.now().us;
  pass(200'000);
  wall_us += day;
  EXPECT_EQ(clock.now().us, start + day + 200'000);
  pass(Clock::trial_us);
  EXPECT_EQ(clock.earliest_now().us, start + day + 200'000 + Clock::trial_us);
  wall_us -= day;
  pass(200'000);
  EXPECT_EQ(clock.now().us, start + day + 400'000 + Clock::trial_us);
}

// What goes back beyond the step forward is not followed, like any other step back.
TEST_F(ClockTest, ReturnsToTheTimeBeforeTheStepAndNoFurther) {
  Clock clock(fake());
  const int64_t start = clock.now().us;
  pass(200'000);
  wall_us += hour;
  clock.now();
  wall_us -= 2 * hour;
  pass(200'000);
  EXPECT_EQ(clock.now().us, start + 400'000);
  wall_us += hour + hour / 2;  // half an hour ahead of the clock
  pass(200'000);
  EXPECT_EQ(clock.now().us, start + hour / 2 + 600'000);
}

// The model: the clock is the wall clock or its own lowest offset of the last minute, whichever is
// later.
TEST_F(ClockTest, RandomStepsMatchANaiveModel) {
  std::mt19937_64 dice(7);
  const auto roll = [&](int64_t most) { return static_cast<int64_t>(dice() % uint64_t(most)); };
  for (int round = 0; round < 200; ++round) {
    Clock clock(fake());
    struct Was {
      int64_t from_us, offset_us;
    };
    std::vector<Was> all{{monotonic_us, wall_us - monotonic_us}};
    int64_t settled_before = 0;
    for (int step = 0; step < 200; ++step) {
      pass(5'000'000 + roll(step % 7 == 0 ? 120'000'000 : 10'000'000));
      if (roll(3) == 0) wall_us += (roll(2) == 0 ? 1 : -1) * (roll(2) == 0 ? day : roll(hour));
      int64_t lowest_us = all.back().offset_us;
      for (size_t i = 0; i + 1 < all.size(); ++i)
        if (all[i + 1].from_us > monotonic_us - Clock::trial_us)
          lowest_us = std::min(lowest_us, all[i].offset_us);
      const int64_t wanted_us = std::max(wall_us - monotonic_us, lowest_us);
      // The clock ignores differences below a millisecond.
      if (std::abs(wanted_us - all.back().offset_us) >= 1'000)
        all.push_back({monotonic_us, wanted_us});
      ASSERT_EQ(clock.now().us, monotonic_us + all.back().offset_us) << round << " " << step;
      const int64_t settled_us = clock.earliest_now().us;
      ASSERT_EQ(settled_us, monotonic_us + std::min(lowest_us, all.back().offset_us));
      ASSERT_GE(settled_us, settled_before);
      settled_before = settled_us;
    }
  }
}

// More steps than the clock remembers: still the settled time never goes back.
TEST_F(ClockTest, SettledTimeNeverRunsBackWithManyStepsInAMinute) {
  std::mt19937_64 dice(8);
  Clock clock(fake());
  int64_t before = 0;
  for (int step = 0; step < 20'000; ++step) {
    pass(100'000);
    wall_us += static_cast<int64_t>(dice() % uint64_t(hour)) - (dice() % 3 == 0 ? hour : 0);
    const int64_t now = clock.now().us, settled = clock.earliest_now().us;
    ASSERT_GE(now, settled);
    ASSERT_GT(settled, before);
    before = settled;
  }
}

TEST_F(ClockTest, AThreadPreemptedBetweenTwoReadingsSeesNoStep) {
  Clock clock(fake());
  const int64_t start = clock.now().us;
  pass(200'000);
  held_up_us = 50'000;
  wall_us += 50'000;
  EXPECT_EQ(clock.now().us, start + 200'000);
}

TEST(Clock, ReadsTheSystemClockByDefault) {
  Clock clock;
  const auto a = clock.now(), b = clock.now();
  EXPECT_LE(a.us, b.us);
  EXPECT_GT(a.us, 1'700'000'000'000'000);
}

}  // namespace
}  // namespace sluice::base
