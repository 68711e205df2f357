#include <gtest/gtest.h>

#include <cstdint>

#include "redis/cluster_map.h"

namespace sluice::redis::redirects_test {
namespace {

TEST(Redirects, PauseAfterTheFirstFew) {
  for (unsigned times = 0; times < 5; ++times) EXPECT_EQ(redirect_pause_us(times), 0) << times;
  EXPECT_EQ(redirect_pause_us(5), 1'000);
  EXPECT_EQ(redirect_pause_us(6), 2'000);
  EXPECT_EQ(redirect_pause_us(8), 8'000);
  EXPECT_EQ(redirect_pause_us(9), 16'000);
  EXPECT_EQ(redirect_pause_us(10), 16'000);
  EXPECT_EQ(redirect_pause_us(UINT32_MAX), 16'000);
}

TEST(Redirects, TakeHalfOfTheDeadlineAtMost) {
  EXPECT_EQ(redirects_max({0}), 5u);
  EXPECT_EQ(redirects_max(base::milliseconds(1)), 5u);
  EXPECT_EQ(redirects_max(base::milliseconds(2)), 6u);
  EXPECT_EQ(redirects_max(base::milliseconds(50)), 9u);
  for (int64_t ms = 0; ms < 2'000; ++ms) {
    const uint32_t most = redirects_max(base::milliseconds(ms));
    int64_t paused_us = 0;
    for (uint32_t times = 0; times < most; ++times) paused_us += redirect_pause_us(times);
    EXPECT_LE(paused_us, 500 * ms);
    if (most == redirects_most) continue;
    EXPECT_GT(paused_us + redirect_pause_us(most), 500 * ms);
  }
  EXPECT_EQ(redirects_max(base::seconds(20)), redirects_most);
  EXPECT_EQ(redirects_max(base::Duration{INT64_MAX}), redirects_most);
}

}  // namespace
}  // namespace sluice::redis::redirects_test
