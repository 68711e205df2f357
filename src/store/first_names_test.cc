// Pages of names in byte order (store/first_names.h), against a sorted set.
#include "store/first_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace sluice::store {
namespace {

// Names come in any order. The pages together have all of them, each once and in order, and each
// page keeps its bounds.
TEST(FirstNames, PagesHaveAllNamesInOrderWithinTheirBounds) {
  std::mt19937_64 dice(3);
  for (int round = 0; round < 300; ++round) {
    std::set<std::string> names;
    for (size_t i = dice() % 60; i > 0; --i) {
      const size_t size = dice() % 8 == 0 ? 50 + dice() % 100 : 1 + dice() % 5;
      names.insert(std::string(size, static_cast<char>('a' + dice() % 3)) +
                   std::to_string(dice() % 10));
    }
    std::vector<std::string> shuffled(names.begin(), names.end());
    const size_t max = 1 + dice() % 10, bytes_max = 1 + dice() % 200;
    std::vector<std::string> all;
    for (;;) {
      std::shuffle(shuffled.begin(), shuffled.end(), dice);
      FirstNames first(max, bytes_max);
      const std::string after = all.empty() ? "" : all.back();
      for (int pass = 0; pass < 2; ++pass)  // a search may meet a name twice
        for (const std::string& name : shuffled)
          if (name > after && (first.end() == nullptr || name < *first.end())) first.add(name);
      ScanPage stored;
      first.move_to(stored);
      size_t bytes = 0;
      for (const std::string& name : stored.keys) bytes += name.size();
      ASSERT_LE(stored.keys.size(), max);
      ASSERT_TRUE(stored.keys.size() <= 1 || bytes <= bytes_max);
      all.insert(all.end(), stored.keys.begin(), stored.keys.end());
      if (!stored.more && stored.keys.size() < max) break;
      ASSERT_FALSE(stored.keys.empty());
    }
    ASSERT_EQ(all, std::vector<std::string>(names.begin(), names.end())) << round;
  }
}

}  // namespace
}  // namespace sluice::store
