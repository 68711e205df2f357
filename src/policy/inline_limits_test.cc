// The numbers of lists of limits that requests bring along (policy/inline_limits.h).
#include "policy/inline_limits.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bounds.h"
#include "limit/limit.h"
#include "request/space.h"

namespace sluice::policy {
namespace {

using limit::Algorithm;

std::vector<limit::Limit> list_of(int64_t quota, Algorithm algorithm = Algorithm::fixed_window) {
  return {{algorithm, quota, base::seconds(9), quota}};
}

TEST(InlineLimits, AreNumberedAsTheListsOfRules) {
  request::Spaces spaces;
  const auto of_rule = spaces.hold_limits(list_of(3));
  InlineLimits one(spaces, {}), other(spaces, {});
  EXPECT_EQ(one.find(list_of(3)), of_rule.id());
  const uint32_t bucket = one.find(list_of(3, Algorithm::token_bucket));
  EXPECT_NE(bucket, of_rule.id());
  EXPECT_NE(bucket, 0u);
  EXPECT_EQ(other.find(list_of(3, Algorithm::token_bucket)), bucket);
  auto two = list_of(3);
  two.push_back(two.front());
  EXPECT_NE(one.find(two), of_rule.id());
  EXPECT_EQ(one.find(two), one.find(two));
  EXPECT_EQ(one.size(), 3u);
}

TEST(InlineLimits, AreBounded) {
  request::Spaces spaces;
  InlineLimits limits(spaces, {.all = 5});
  for (int64_t quota = 1; quota <= 5; ++quota) EXPECT_NE(limits.find(list_of(quota)), 0u);
  EXPECT_EQ(limits.find(list_of(6)), 0u);
  EXPECT_NE(limits.find(list_of(5)), 0u) << "it is known";
}

TEST(InlineLimits, ReleasesWhatItDoesNotRemember) {
  request::Spaces spaces;
  InlineLimits limits(spaces, {});
  constexpr size_t most = base::bounds::inline_limits_kept_max;
  for (size_t i = 1; i <= most + 1; ++i)
    EXPECT_NE(limits.find(list_of(static_cast<int64_t>(i))), 0u);
  EXPECT_EQ(limits.size(), 1u);
  EXPECT_EQ(spaces.known_lists(), most + 1);
  request::Marks marks = spaces.begin_round();
  spaces.end_round(marks);
  EXPECT_EQ(spaces.known_lists(), 1u);
}

TEST(InlineLimits, ReleasesWhatHasGivenWay) {
  request::Spaces spaces;
  InlineLimits first(spaces, {.one = 3}), second(spaces, {.one = 3});
  for (int64_t quota = 1; quota <= 3; ++quota) {
    first.serve(7, {quota * 1'000'000});
    EXPECT_NE(first.find(list_of(quota)), 0u);
  }
  second.serve(8, {4'000'000});
  EXPECT_NE(second.find(list_of(1)), 0u) << "used by another client, which makes it no owner";
  first.serve(7, {5'000'000});
  EXPECT_NE(first.find(list_of(4)), 0u);
  EXPECT_EQ(spaces.brought().given_way, 1u);
  first.release_given_way();
  EXPECT_EQ(first.size(), 3u) << "the list of 2, which was used least recently";
  spaces.end_round(spaces.begin_round());
  EXPECT_EQ(spaces.known_lists(), 4u) << "1, 3, 4, and the one for counters without limits";
  // What has given way and is brought again is the bringer's.
  EXPECT_NE(second.find(list_of(2)), 0u);
  EXPECT_NE(second.find(list_of(5)), 0u);
  EXPECT_EQ(spaces.brought().given_way, 1u);
}

}  // namespace
}  // namespace sluice::policy
