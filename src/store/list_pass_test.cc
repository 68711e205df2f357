// One pass through a table that answers many lists (store/list_pass.h), against sets of names.
#include "store/list_pass.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <vector>

#include "request/space.h"
#include "tests/support/dice.h"

namespace sluice::store {
namespace {

using sluice::tests::Dice;

std::string random_text(Dice& dice, size_t length_max) {
  std::string text;
  for (size_t n = dice(length_max + 1); n > 0; --n) text += std::array{'a', 'b', '\xff'}[dice(3u)];
  return text;
}

TEST(PrefixIndex, FindsEveryPrefixOfATextAndNoOther) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Dice dice(seed);
    PrefixIndex index;
    std::vector<std::pair<uint32_t, std::string>> all;
    for (size_t n = dice(size_t{12}); n > 0; --n) {
      all.emplace_back(static_cast<uint32_t>(dice(size_t{2})), random_text(dice, 4));
      index.add(all.back().first, all.back().second, all.size() - 1);
    }
    index.close();
    for (int i = 0; i < 50; ++i) {
      const auto group = static_cast<uint32_t>(dice(size_t{3}));
      const std::string text = random_text(dice, 6);
      std::set<size_t> found, expected;
      index.each(group, text, [&](size_t number) { EXPECT_TRUE(found.insert(number).second); });
      for (size_t k = 0; k < all.size(); ++k)
        if (all[k].first == group && text.starts_with(all[k].second)) expected.insert(k);
      EXPECT_EQ(found, expected) << seed;
    }
  }
}

TEST(PrefixIndex, FindsTheCommonPrefix) {
  PrefixIndex none, one, several;
  EXPECT_EQ(none.common(), "");
  one.add(0, "abc", 0);
  EXPECT_EQ(one.common(), "abc");
  for (const char* prefix : {"abc", "ab", "abd"}) several.add(0, prefix, 0);
  several.close();
  EXPECT_EQ(several.common(), "ab");
}

// A list has the first names in byte order that fit its bytes, without a gap, whatever the order of
// visits.
TEST(ListPass, EndsAListByKeysAndByBytes) {
  request::Spaces spaces;
  const request::Space& space = *spaces.intern("s", "");
  for (unsigned seed = 0; seed < 500; ++seed) {
    Dice dice(seed);
    const ListPass::Bounds bounds{dice(size_t{6}), dice(size_t{20})};
    ListPass pass(bounds);
    const size_t number = pass.add(space, "");
    std::set<std::string> all;
    for (size_t n = dice(size_t{20}); n > 0; --n) {
      const std::string key = random_text(dice, 8);
      all.insert(key);
      pass.visit(space.id, key);
      if (dice(2u) == 0) pass.visit(space.id, key);
    }
    std::vector<std::string> expected;
    size_t bytes = 0;
    for (const std::string& key : all) {
      bytes += key.size();
      if (expected.size() == bounds.keys || (bytes > bounds.bytes && !expected.empty())) break;
      expected.push_back(key);
    }
    EXPECT_EQ(pass.take(number), expected) << seed;
  }
}

TEST(ListPass, IsNeededWhileOneOfItsClientsRemains) {
  request::Spaces spaces;
  const request::Space &one = *spaces.intern("one", ""), &other = *spaces.intern("other", "");
  ListPass pass({10, 1000});
  EXPECT_EQ(pass.add(one, "a"), 0u);
  EXPECT_EQ(pass.add(other, "a"), 1u);
  EXPECT_EQ(pass.add(one, "a"), 0u) << "the same list";
  pass.cancel(0);
  pass.cancel(1);
  EXPECT_TRUE(pass.is_wanted());
  pass.visit(one.id, "ab");
  pass.visit(other.id, "ab");
  pass.cancel(0);
  EXPECT_FALSE(pass.is_wanted());
  EXPECT_EQ(pass.take(0), std::vector<std::string>{"ab"});
  EXPECT_EQ(pass.take(1), std::vector<std::string>{}) << "its only asker had gone";
}

}  // namespace
}  // namespace sluice::store
