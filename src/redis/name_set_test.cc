// A set of names with a secret hash (redis/redis_metadata_store.h).
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "redis/redis_metadata_store.h"
#include "tests/support/dice.h"

namespace sluice::redis {
namespace {

TEST(NameSet, IsASet) {
  tests::Dice dice(4);
  NameSet names;
  std::set<std::string> model;
  for (int i = 0; i < 100'000; ++i) {
    const int range = i < 50'000 ? 3000 : 300;
    const std::string name = std::string(static_cast<size_t>(dice(3)), '\0') +
                             std::to_string(dice(range)) +
                             std::string(static_cast<size_t>(dice(2)), 'x');
    switch (dice(3)) {
      case 0:
        ASSERT_EQ(names.insert(name), model.insert(name).second);
        break;
      case 1:
        ASSERT_EQ(names.erase(name), model.erase(name) == 1);
        break;
      default:
        ASSERT_EQ(names.contains(name), model.contains(name));
    }
    ASSERT_EQ(names.size(), model.size());
    if (i % 10'000 != 0) continue;
    std::set<std::string> all;
    names.each([&](std::string_view each) { ASSERT_TRUE(all.emplace(each).second); });
    ASSERT_EQ(all, model);
  }
}

// Names that would all be in one slot of a table with the standard library's hash.
TEST(NameSet, ChosenNamesDoNotCollide) {
  NameSet names;
  for (uint64_t number = 0; names.size() < 1'000; ++number) {
    const std::string name = "key " + std::to_string(number);
    if ((std::hash<std::string_view>()(name) & 4'095) == 0) names.insert(name);
  }
  EXPECT_LT(names.longest_search(), 100u);
}

}  // namespace
}  // namespace sluice::redis
