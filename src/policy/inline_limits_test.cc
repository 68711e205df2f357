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
  InlineLimits one(spaces, SIZE_MAX), other(spaces, SIZE_MAX);
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
  InlineLimits limits(spaces, 5);
  for (int64_t quota = 1; quota <= 5; ++quota) EXPECT_NE(limits.find(list_of(quota)), 0u);
  EXPECT_EQ(limits.find(list_of(6)), 0u);
  EXPECT_NE(limits.find(list_of(5)), 0u) << "it is known";
}

TEST(InlineLimits, ReleasesWhatItDoesNotRemember) {
  request::Spaces spaces;
  InlineLimits limits(spaces, SIZE_MAX);
  constexpr size_t most = base::bounds::inline_limits_kept_max;
  for (size_t i = 1; i <= most + 1; ++i)
    EXPECT_NE(limits.find(list_of(static_cast<int64_t>(i))), 0u);
  EXPECT_EQ(limits.size(), 1u);
  EXPECT_EQ(spaces.known_lists(), most + 1);
  request::Marks marks = spaces.begin_round();
  spaces.end_round(marks);
  EXPECT_EQ(spaces.known_lists(), 1u);
}

}  // namespace
}  // namespace sluice::policy
