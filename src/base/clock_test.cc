#include "base/clock.h"

#include <gtest/gtest.h>

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

TEST_F(ClockTest, counts_from_the_wall_clock) {
  Clock clock(fake());
  EXPECT_EQ(clock.now().us, 1'700'000'000'000'000);
  pass(250);
  EXPECT_EQ(clock.now().us, 1'700'000'000'000'250);
}

TEST_F(ClockTest, follows_a_step_forward_and_holds_a_step_back) {
  Clock clock(fake());
  const int64_t start = clock.now().us;
  pass(200'000);
  wall_us += 3'600'000'000;
  EXPECT_EQ(clock.now().us, start + 3'600'200'000);
  wall_us -= 7'200'000'000;
  pass(200'000);
  EXPECT_EQ(clock.now().us, start + 3'600'400'000);
  wall_us += 3'600'000'000;  // back where it was before the step back: nothing to catch up
  pass(200'000);
  EXPECT_EQ(clock.now().us, start + 3'600'600'000);
}

TEST_F(ClockTest, a_thread_held_up_between_two_readings_sees_no_step) {
  Clock clock(fake());
  const int64_t start = clock.now().us;
  pass(200'000);
  held_up_us = 50'000;
  wall_us += 50'000;
  EXPECT_EQ(clock.now().us, start + 200'000);
}

TEST(Clock, the_systems_own_is_now) {
  Clock clock;
  const auto a = clock.now(), b = clock.now();
  EXPECT_LE(a.us, b.us);
  EXPECT_GT(a.us, 1'700'000'000'000'000);
}

}  // namespace
}  // namespace sluice::base
