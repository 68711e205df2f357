// Sums over numbered parts in a balanced tree (base/running_sums.h), against a map.
#include "base/running_sums.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/support/dice.h"

namespace sluice::base {
namespace {

using Sums = RunningSums<int, int64_t>;

TEST(RunningSums, MatchesAPlainMap) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    tests::Dice dice(seed);
    Sums sums;
    std::map<uint64_t, std::pair<int64_t, int>> model;
    for (int i = 0; i < 3'000; ++i) {
      const uint64_t number = dice(uint64_t{200});
      const int64_t weight = dice(int64_t{100});
      if (dice(2) == 0)
        ASSERT_EQ(sums.insert(number, weight, i),
                  model.emplace(number, std::pair(weight, i)).second);
      else
        ASSERT_EQ(sums.erase(number), model.erase(number) > 0);
      int64_t all = 0, before = 0;
      const uint64_t asked = dice(uint64_t{210});
      for (const auto& [its, value] : model) {
        all += value.first;
        if (its < asked) before += value.first;
      }
      ASSERT_EQ(sums.sum(), all);
      ASSERT_EQ(sums.sum_before(asked), before);
      ASSERT_EQ(sums.empty(), model.empty());
      const int* const found = sums.find(asked);
      ASSERT_EQ(found != nullptr, model.contains(asked));
      if (found != nullptr) {
        ASSERT_EQ(*found, model.at(asked).second);
      }
      if (model.empty()) continue;
      ASSERT_EQ(sums.first_number(), model.begin()->first);
      ASSERT_EQ(sums.first(), model.begin()->second.second);
    }
  }
}

// Numbers in rising order, as arrivals have them, would make an unbalanced tree a list.
TEST(RunningSums, ACallVisitsFewNodesWhateverTheOrder) {
  constexpr uint64_t many = 1 << 16;
  constexpr uint64_t visits_max = 80;  // for one call: 5 log2(n)
  Sums sums;
  auto visited = [&, before = uint64_t{0}](const char* what) mutable {
    const uint64_t visits = running_sums_visited() - std::exchange(before, running_sums_visited());
    EXPECT_LT(visits, many * visits_max) << what;
  };
  visited("");
  for (uint64_t i = 1; i <= many; ++i) ASSERT_TRUE(sums.insert(i, 1, 0));
  visited("inserted");
  for (uint64_t i = 1; i <= many; ++i) {
    const uint64_t number = (i * 40'503) % many + 1;
    ASSERT_EQ(sums.sum_before(number), static_cast<int64_t>(number - 1));
  }
  visited("asked");
  for (uint64_t i = 1; i <= many; ++i) {
    ASSERT_TRUE(sums.erase(i));
  }
  EXPECT_TRUE(sums.empty());
  visited("erased in their order");
  for (uint64_t i = many; i > 0; --i) ASSERT_TRUE(sums.insert(i, 2, 0));
  visited("inserted backwards");
  for (uint64_t i = many; i > 0; --i) ASSERT_TRUE(sums.erase(i));
  visited("erased");
  EXPECT_TRUE(sums.empty());
}

}  // namespace
}  // namespace sluice::base
