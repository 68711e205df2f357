// Overrides that replace some limits of a rule (live/override_text.h).
#include <gtest/gtest.h>

#include <algorithm>

#include "live/override_text.h"

namespace sluice::live::override_merge_test {
namespace {

using limit::Algorithm;
using limit::Limit;

Limit bucket(int64_t quota, int64_t seconds) {
  return {Algorithm::token_bucket, quota, base::seconds(seconds), quota};
}
Limit window(int64_t quota, int64_t seconds) {
  return {Algorithm::fixed_window, quota, base::seconds(seconds), 0};
}
Limit fixed(int64_t size) {
  return {Algorithm::fixed_bucket, size, {}, size};
}

TEST(OverrideMerge, ReplacesTheLimitOfTheSameWindow) {
  const std::vector<Limit> rule = {bucket(10, 1), window(1000, 86'400)};
  size_t wrong = 0;
  const auto day = merge_limits(rule, std::vector{window(5000, 86'400)}, wrong);
  ASSERT_TRUE(day);
  EXPECT_EQ(day->limits, (std::vector{bucket(10, 1), window(5000, 86'400)}));
  EXPECT_EQ(day->own, 2u);
  EXPECT_EQ(own_limits(day->limits, day->own), std::vector{window(5000, 86'400)});
  // The result has the order of the rule, whatever the order of the override; the algorithm may be
  // another one.
  const auto both = merge_limits(rule, std::vector{bucket(9, 86'400), window(8, 1)}, wrong);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->limits, (std::vector{window(8, 1), bucket(9, 86'400)}));
  EXPECT_EQ(both->own, 3u);
  EXPECT_FALSE(merge_limits(rule, std::vector{bucket(1, 1), bucket(5, 60)}, wrong));
  EXPECT_EQ(wrong, 1u);
  EXPECT_FALSE(merge_limits(rule, std::vector{bucket(1, 1), bucket(2, 1)}, wrong));
  EXPECT_EQ(wrong, 1u);
  // A limit without a counter has no window to be recognized by.
  EXPECT_FALSE(
      merge_limits(std::vector{Limit{Algorithm::deny, 0, {}, 0}}, std::vector{fixed(5)}, wrong));
}

TEST(OverrideMerge, DistinguishesLimitsOfOneWindowByTheAlgorithm) {
  const std::vector<Limit> rule = {bucket(10, 60), window(20, 60), fixed(5)};
  size_t wrong = 0;
  const auto second = merge_limits(rule, std::vector{window(30, 60)}, wrong);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->own, 2u);
  const auto third = merge_limits(rule, std::vector{fixed(7)}, wrong);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->own, 4u);
  Limit log = window(30, 60);
  log.algorithm = Algorithm::sliding_log;
  EXPECT_FALSE(merge_limits(rule, std::vector{log}, wrong));
  EXPECT_EQ(wrong, 0u);
  EXPECT_FALSE(
      merge_limits(std::vector{bucket(1, 60), bucket(2, 60)}, std::vector{bucket(3, 60)}, wrong));
  EXPECT_EQ(window_words(rule), "1m (token_bucket), 1m (fixed_window) and none (fixed_bucket)");
  EXPECT_EQ(window_words(std::vector{bucket(1, 1), bucket(1, 86'400)}), "1s and 1d");
}

// Every rule of up to four limits with three windows and two algorithms, and every override of one
// or two limits: the result has each limit of the override once, and the rule's limits in all other
// places.
TEST(OverrideMerge, EverySmallCase) {
  std::vector<Limit> all;
  for (const int64_t seconds : {1, 60, 3600}) {
    all.push_back(bucket(10, seconds));
    all.push_back(window(10, seconds));
  }
  const auto lists = [&all](size_t most) {
    std::vector<std::vector<Limit>> made = {{}};
    for (size_t from = 0, size = 1; size <= most; ++size) {
      const size_t to = made.size();
      for (; from < to; ++from)
        for (const Limit& one : all) {
          auto longer = made[from];
          longer.push_back(one);
          made.push_back(std::move(longer));
        }
    }
    return made;
  };
  size_t merged_ones = 0;
  for (const auto& rule : lists(4)) {
    for (auto own : lists(2)) {
      if (own.empty()) continue;
      for (Limit& one : own) one.quota = 77;
      size_t wrong = 0;
      const auto merged = merge_limits(rule, own, wrong);
      if (!merged) {
        ASSERT_LT(wrong, own.size());
        continue;
      }
      ++merged_ones;
      ASSERT_EQ(merged->limits.size(), rule.size());
      auto its = own_limits(merged->limits, merged->own);
      ASSERT_TRUE(std::is_permutation(its.begin(), its.end(), own.begin(), own.end()));
      for (size_t i = 0; i < rule.size(); ++i) {
        if ((merged->own >> i & 1) == 0)
          ASSERT_EQ(merged->limits[i], rule[i]);
        else
          ASSERT_EQ(merged->limits[i].window, rule[i].window);
      }
      // Merging with the result's own limits gives the same result.
      const auto again = merge_limits(rule, its, wrong);
      ASSERT_TRUE(again && again->limits == merged->limits && again->own == merged->own);
    }
  }
  EXPECT_GT(merged_ones, 5000u);
}

}  // namespace
}  // namespace sluice::live::override_merge_test
