// How many refusals are logged each second (engine/denials.h).
#include <gtest/gtest.h>

#include "engine/denials.h"

namespace sluice::engine {
namespace {

constexpr int64_t second = 1'000'000, day = 86'400 * second;
constexpr int64_t now = 1'800'000'000 * second;

// Refuses `denied` requests of rule 1 at that time; returns how many of them are logged.
uint64_t told(DenialSampler& denials, int64_t at_us, uint64_t denied = 25) {
  uint64_t count = 0;
  for (uint64_t i = 0; i < denied; ++i) count += denials.wants(1, {at_us}) ? 1u : 0u;
  return count;
}

TEST(DenialSampler, LogsABoundedNumberOfDenialsASecond) {
  DenialSampler denials;
  EXPECT_EQ(told(denials, now), DenialSampler::lines_per_second_max);
  EXPECT_EQ(told(denials, now + second / 2), 0u);
  EXPECT_EQ(told(denials, now + second), DenialSampler::lines_per_second_max);
  EXPECT_EQ(denials.take_passed_over(), 75 - 2 * DenialSampler::lines_per_second_max);
}

// A batch of an earlier second, of a slower worker, does not begin a new second.
TEST(DenialSampler, AnOlderBatchDoesNotRestartTheSecond) {
  DenialSampler denials;
  EXPECT_EQ(told(denials, now, 4), 4u);
  EXPECT_EQ(told(denials, now + second, 4), 4u);
  EXPECT_EQ(told(denials, now), DenialSampler::lines_per_second_max - 4);
}

TEST(DenialSampler, LogsAgainAfterTheClockStepsBack) {
  DenialSampler denials;
  for (const int64_t ahead : {3 * second, 60 * second, day, 400 * day}) {
    EXPECT_EQ(told(denials, now + ahead), DenialSampler::lines_per_second_max) << ahead;
    EXPECT_EQ(told(denials, now), DenialSampler::lines_per_second_max) << ahead;
    EXPECT_EQ(told(denials, now), 0u) << ahead;
  }
}

}  // namespace
}  // namespace sluice::engine
