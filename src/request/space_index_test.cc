// Which space a stored name belongs to (request/space.h), against a search through all spaces.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "request/space.h"
#include "tests/support/dice.h"

namespace sluice::request {
namespace {

// The model: tries all spaces.
const Space* named(const std::vector<const Space*>& spaces, const std::string& stored) {
  const Space* best = nullptr;
  for (const Space* one : spaces) {
    if (stored.size() < one->prefix.size() + one->suffix.size()) continue;
    if (!stored.starts_with(one->prefix) || !stored.ends_with(one->suffix)) continue;
    if (best == nullptr || one->prefix.size() > best->prefix.size() ||
        (one->prefix.size() == best->prefix.size() && one->suffix.size() > best->suffix.size()))
      best = one;
  }
  return best;
}

TEST(SpaceIndex, FindsTheLongestPrefixWithAMatchingSuffix) {
  tests::Dice dice(5);
  const auto text = [&](int length) {
    std::string all;
    for (int i = dice(length + 1); i > 0; --i) all += "ab:"[dice(3)];
    return all;
  };
  size_t found = 0, missed = 0;
  for (int round = 0; round < 100; ++round) {
    Spaces spaces;
    std::vector<const Space*> all;
    for (int i = 0; i < 8; ++i) {
      const Space* const space = spaces.intern(text(4), text(3));
      if (dice(4) != 0) all.push_back(space);
    }
    const SpaceIndex index(all);
    for (int i = 0; i < 200; ++i) {
      const std::string stored = text(8);
      const Space* const expected = named(all, stored);
      const auto got = index.find(stored);
      ASSERT_EQ(got.has_value(), expected != nullptr) << stored;
      ++(got ? found : missed);
      if (!got) continue;
      EXPECT_EQ(got->space, expected) << stored;
      EXPECT_EQ(expected->prefix + std::string(got->key) + expected->suffix, stored);
    }
  }
  EXPECT_GT(found, 1'000u);
  EXPECT_GT(missed, 1'000u);
}

TEST(SpaceIndex, AnEmptyIndexFindsNothing) {
  EXPECT_FALSE(SpaceIndex().find("a"));
  EXPECT_FALSE(SpaceIndex().find(""));
}

}  // namespace
}  // namespace sluice::request
