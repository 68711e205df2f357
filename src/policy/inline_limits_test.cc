// Lists of limits that requests bring along (policy/inline_limits.h): their spaces, and the lists
// that were charged.
#include "policy/inline_limits.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bounds.h"
#include "limit/limit.h"
#include "request/space.h"

namespace sluice::policy {
namespace {

using limit::Algorithm;

constexpr size_t most = base::bounds::inline_lists_max;

std::vector<limit::Limit> list_of(std::vector<Algorithm> algorithms) {
  std::vector<limit::Limit> limits;
  for (const Algorithm algorithm : algorithms)
    limits.push_back({algorithm, 9, base::seconds(9), 9});
  return limits;
}

std::vector<std::string> texts(const InlineLists& lists) {
  std::vector<std::string> all;
  for (const auto& limits : lists.all()) all.push_back(algorithms_text(limits));
  return all;
}

TEST(InlineLimits, AreNamedByTheirAlgorithms) {
  for (const char* text : {"token_bucket", "fixed_window,sliding_log", "fixed_bucket,fixed_bucket",
                           "aligned_window,sliding_window,token_bucket"})
    EXPECT_EQ(algorithms_text(limits_named(text)), text);
  for (const char* text : {"", ",", "token_bucket,", "x", "deny", "unlimited", "gcra_cell",
                           "token_bucket,,token_bucket"})
    EXPECT_TRUE(limits_named(text).empty()) << text;
  std::string eight = "fixed_window";
  for (size_t i = 1; i < limit::slots_max; ++i) eight += ",fixed_window";
  EXPECT_EQ(limits_named(eight).size(), limit::slots_max);
  EXPECT_TRUE(limits_named(eight + ",fixed_window").empty());
}

TEST(InlineLists, HoldTheListsThatWereChargedFirst) {
  request::Spaces spaces;
  InlineLists lists;
  InlineLimits one(spaces, SIZE_MAX, &lists), other(spaces, SIZE_MAX, &lists);
  const auto window = list_of({Algorithm::fixed_window});
  const auto bucket = list_of({Algorithm::token_bucket});
  const auto both = list_of({Algorithm::token_bucket, Algorithm::fixed_window});
  ASSERT_NE(one.find(window, false), nullptr);
  EXPECT_TRUE(lists.all().empty()) << "it was looked at";
  one.find(both, true);
  one.find(window, false);
  other.find(bucket, true);
  other.find(both, true);
  one.find(window, true);
  one.find(window, true);
  EXPECT_EQ(texts(lists), (std::vector<std::string>{"token_bucket,fixed_window", "token_bucket",
                                                    "fixed_window"}));
}

TEST(InlineLists, AreBounded) {
  request::Spaces spaces;
  InlineLists lists;
  InlineLimits limits(spaces, SIZE_MAX, &lists);
  const Algorithm two[] = {Algorithm::fixed_window, Algorithm::token_bucket};
  std::vector<std::string> expected;
  for (size_t i = 0; i < 2 * most; ++i) {
    std::vector<Algorithm> algorithms;
    for (size_t bit = 0; bit < 5; ++bit) algorithms.push_back(two[i >> bit & 1]);
    const auto list = list_of(algorithms);
    EXPECT_NE(limits.find(list, true), nullptr) << "it is charged all the same";
    if (i < most) expected.push_back(algorithms_text(list));
  }
  EXPECT_EQ(texts(lists), expected);
}

TEST(InlineLists, StartWithTheListsOfAStore) {
  request::Spaces spaces;
  const auto window = spaces.hold(inline_prefix, ":fixed_window");
  const auto other = spaces.hold("other:", ":token_bucket");
  const auto rule = spaces.hold(inline_prefix, "");
  const auto log = spaces.hold(inline_prefix, ":aligned_window,sliding_log");
  const auto unknown = spaces.hold(inline_prefix, ":no_algorithm");
  InlineLists lists;
  lists.add_known(spaces);
  EXPECT_EQ(texts(lists), (std::vector<std::string>{"fixed_window", "aligned_window,sliding_log"}));
}

}  // namespace
}  // namespace sluice::policy
