// Which primary to believe when sentinels differ (redis/topology.h).
#include <gtest/gtest.h>

#include <vector>

#include "redis/topology.h"

namespace sluice::redis::sentinel_finder_test {
namespace {

const Node a{"10.0.0.1", 1}, b{"10.0.0.2", 2};

TEST(SentinelViews, TheNewestDecisionCounts) {
  const std::vector<SentinelView> views{{a, 3}, {b, 4}, {a, 3}};
  const auto view = newest(views, 3, 3);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->primary, b);
}

TEST(SentinelViews, DoesNotReturnToAnOlderDecision) {
  // The only sentinel that answers is cut off from the others, and has an older epoch.
  EXPECT_FALSE(newest(std::vector<SentinelView>{{a, 3}}, 4, 3));
  EXPECT_FALSE(newest(std::vector<SentinelView>{{a, 3}, {b, 2}}, 4, 3));
  EXPECT_FALSE(newest({}, 0, 3));
  EXPECT_TRUE(newest(std::vector<SentinelView>{{a, 4}}, 4, 3));
}

TEST(SentinelViews, AcceptsEpochZeroIfMostSentinelsAgree) {
  const auto view = newest(std::vector<SentinelView>{{a, 0}, {a, 0}}, 4, 3);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->primary, a);
  EXPECT_FALSE(newest(std::vector<SentinelView>{{a, 0}, {a, 0}}, 4, 4));
}

}  // namespace
}  // namespace sluice::redis::sentinel_finder_test
