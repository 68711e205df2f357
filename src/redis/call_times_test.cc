// The times of calls to Redis (CallTimes of redis/async_connection.h): which writes are measured,
// and which calls count with the measured time.
#include <gtest/gtest.h>

#include <cstdio>
#include <thread>

#include "redis/async_connection.h"

namespace sluice::redis {
namespace {

CallDistribution of(const CallTimes& times) {
  CallDistribution all;
  times.add_to(all);
  return all;
}

TEST(CallTimes, AWriteIsTimedUntilItsLastAnswer) {
  CallTimes times;
  for (int i = 0; i < 3; ++i) times.queued(5'000);
  times.written();
  times.answered();
  times.answered();
  EXPECT_EQ(of(times).count(), 0u);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  times.answered();
  EXPECT_EQ(of(times).count(), 3u);
  EXPECT_GE(of(times).sum, 9'000u);
  EXPECT_EQ(of(times).counts[0], 0u);
}

TEST(CallTimes, UntimedCallsCountWithTheNextTimedOne) {
  CallTimes times;
  const auto call = [&](int64_t at_us) {
    times.queued(at_us);
    times.written();
    times.answered();
  };
  call(10'000);
  EXPECT_EQ(of(times).count(), 1u);
  for (int i = 1; i < 10; ++i) call(10'000 + 100 * i);
  EXPECT_EQ(of(times).count(), 1u);
  call(11'000);
  EXPECT_EQ(of(times).count(), 11u);
  // While one write is measured no other is.
  times.queued(20'000);
  times.written();
  times.queued(30'000);
  times.written();
  times.answered();
  EXPECT_EQ(of(times).count(), 12u);
  times.answered();
  EXPECT_EQ(of(times).count(), 12u);
  // After the clock was set back, calls are measured again.
  call(1'000);
  EXPECT_EQ(of(times).count(), 14u);
}

TEST(CallTimes, LostCallsDoNotCount) {
  CallTimes times;
  for (int i = 0; i < 3; ++i) times.queued(5'000);
  times.written();
  times.answered();
  times.lost();
  EXPECT_EQ(of(times).count(), 0u);
  times.queued(10'000);
  times.written();
  times.answered();
  EXPECT_EQ(of(times).count(), 1u);
}

}  // namespace
}  // namespace sluice::redis
