// What a limit's metrics count of a request's hits, also against a count of hits one by one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "protocol/envoy/limit_metrics.h"
#include "tests/support/dice.h"

namespace sluice::envoy::hit_counts_test {
namespace {

constexpr float default_ratio = 0.8F;

HitCounts sum(HitCounts a, const HitCounts& b) {
  a.total_hits += b.total_hits;
  a.over_limit += b.over_limit;
  a.near_limit += b.near_limit;
  a.within_limit += b.within_limit;
  a.over_limit_with_local_cache += b.over_limit_with_local_cache;
  a.shadow_mode += b.shadow_mode;
  return a;
}

TEST(EnvoyHitCounts, TwelveSingleHitsOfTen) {
  HitCounts counts;
  for (uint64_t count = 1; count <= 12; ++count)
    counts = sum(counts, count_hits(1, count, 10, default_ratio, false));
  EXPECT_EQ(counts, (HitCounts{12, 2, 2, 10, 0, 0}));
}

TEST(EnvoyHitCounts, FifteenAtOnceOfTen) {
  EXPECT_EQ(count_hits(15, 15, 10, default_ratio, false), (HitCounts{15, 5, 2, 0, 0, 0}));
}

TEST(EnvoyHitCounts, APeekCountsNothing) {
  for (uint64_t count = 0; count <= 12; ++count)
    EXPECT_EQ(count_hits(0, count, 10, default_ratio, true), HitCounts{}) << count;
}

TEST(EnvoyHitCounts, ShadowModeCountsHitsOverTheLimit) {
  EXPECT_EQ(count_hits(3, 3, 2, default_ratio, true), (HitCounts{3, 1, 1, 0, 0, 1}));
  EXPECT_EQ(count_hits(2, 5, 2, default_ratio, true), (HitCounts{2, 2, 0, 0, 0, 2}));
  EXPECT_EQ(count_hits(1, 1, 2, default_ratio, true).shadow_mode, 0u);
}

TEST(EnvoyHitCounts, LocalCache) {
  EXPECT_EQ(count_hits_of_local_cache(4, false), (HitCounts{4, 4, 0, 0, 4, 0}));
  EXPECT_EQ(count_hits_of_local_cache(4, true), (HitCounts{4, 4, 0, 0, 4, 4}));
}

TEST(EnvoyHitCounts, ACounterThatIsFullCountsItsHitsAsOver) {
  constexpr uint64_t full = INT64_MAX;
  EXPECT_EQ(count_hits(UINT64_MAX, full, 10, default_ratio, false).over_limit, full - 10);
  EXPECT_EQ(count_hits(1, full, 10, default_ratio, false).over_limit, 1u);
}

// Hits are counted one by one: past the limit a hit is over, past the threshold it is near. They
// are within the limit only if all hits of the request are.
TEST(EnvoyHitCounts, MatchCountingHitByHit) {
  tests::Dice dice(1);
  for (int i = 0; i < 50'000; ++i) {
    const auto limit = static_cast<uint32_t>(dice(30));
    const uint64_t hits = dice(uint64_t{12}), before = dice(uint64_t{40});
    const float ratio = static_cast<float>(dice(11)) / 10;
    const bool shadow = dice(2) == 0;
    const uint64_t near = near_threshold(limit, ratio);
    HitCounts expected;
    for (uint64_t n = before + 1; n <= before + hits; ++n) {
      ++expected.total_hits;
      if (n > limit)
        ++expected.over_limit;
      else if (n > near)
        ++expected.near_limit;
    }
    if (before + hits <= limit) expected.within_limit = hits;
    if (shadow) expected.shadow_mode = expected.over_limit;
    ASSERT_EQ(count_hits(hits, before + hits, limit, ratio, shadow), expected)
        << hits << " after " << before << " of " << limit << ", ratio " << ratio;
  }
}

TEST(EnvoyHitCounts, TheThresholdIsComputedIn32Bits) {
  EXPECT_EQ(near_threshold(10, default_ratio), 8u);
  EXPECT_EQ(near_threshold(11, default_ratio), 8u);
  EXPECT_EQ(near_threshold(0, default_ratio), 0u);
  EXPECT_EQ(near_threshold(10, 0.5F), 5u);
  EXPECT_EQ(near_threshold(10, 0), 0u);
  EXPECT_EQ(near_threshold(10, -1), 0u);
  // The product of two 32-bit floats is exact in 64 bits; then it is rounded to 32.
  tests::Dice dice(2);
  int others = 0;
  for (int i = 0; i < 50'000; ++i) {
    const auto limit = static_cast<uint32_t>(dice(uint64_t{1} << (1 + dice(32))));
    const float ratio = static_cast<float>(dice(1'001)) / 1'000;
    const double exact =
        static_cast<double>(static_cast<float>(limit)) * static_cast<double>(ratio);
    const auto expected = static_cast<uint64_t>(std::floor(static_cast<float>(exact)));
    ASSERT_EQ(near_threshold(limit, ratio), expected) << limit << " " << ratio;
    others += static_cast<uint64_t>(std::floor(limit * static_cast<double>(ratio))) != expected;
  }
  EXPECT_GT(others, 100);  // a product of 64 bits would give another threshold
}

}  // namespace
}  // namespace sluice::envoy::hit_counts_test
