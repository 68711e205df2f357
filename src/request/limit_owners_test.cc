#include "request/limit_owners.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace sluice::request {
namespace {

// Says the same by going through everything.
struct Model {
  struct List {
    uint64_t owner = 0, left = 0;  // 0: nobody
    int64_t used_us = 0;
  };

  size_t count(uint64_t owner) const {
    return static_cast<size_t>(
        std::ranges::count_if(lists, [&](const auto& one) { return one.second.owner == owner; }));
  }
  size_t leaving(uint64_t owner) const {
    return static_cast<size_t>(
        std::ranges::count_if(lists, [&](const auto& one) { return one.second.left == owner; }));
  }
  void give_way(uint64_t owner, std::vector<uint32_t>& given_way) {
    uint32_t least = 0;
    for (const auto& [number, one] : lists)
      if (one.owner == owner && (least == 0 || one.used_us < lists.at(least).used_us))
        least = number;
    lists.at(least).left = owner;
    lists.at(least).owner = 0;
    given_way.push_back(least);
  }
  bool admit(uint64_t owner, std::optional<size_t> known, const LimitShares& shares,
             std::vector<uint32_t>& given_way) {
    const size_t has = count(owner), leaves = leaving(owner);
    if (known && *known >= shares.all - shares.reserve) {
      size_t all_leaving = 0;
      uint64_t largest = 0;
      for (uint64_t one = 1; one <= owners; ++one) {
        all_leaving += leaving(one);
        if (count(one) > 0 && (largest == 0 || count(one) >= count(largest))) largest = one;
      }
      if (all_leaving < shares.reserve && largest != 0) give_way(largest, given_way);
      if (*known >= shares.all || has + leaves > shares.few) return false;
    }
    if (has < shares.one) return true;
    if (leaves >= shares.one) return false;
    while (count(owner) >= shares.one) give_way(owner, given_way);
    return true;
  }

  uint64_t owners = 6;
  std::map<uint32_t, List> lists;
};

TEST(LimitOwners, LoseTheirLeastRecentlyUsedLists) {
  std::minstd_rand dice(1);
  const auto roll = [&](size_t sides) { return dice() % sides; };
  const LimitShares shares{.all = 60, .reserve = 12, .few = 5, .one = 15};
  Model model;
  LimitOwners owners([&](uint32_t list) { return model.lists.at(list).used_us; });
  int64_t now_us = 0;
  size_t refused = 0, given = 0, most_of_one = 0;
  for (int step = 0; step < 30'000; ++step) {
    ++now_us;  // so that no two uses are at one time
    const auto list = static_cast<uint32_t>(1 + roll(120));
    const auto at = model.lists.find(list);
    switch (roll(8)) {
      case 0:
        if (roll(4) != 0) break;
        // A round: what is leaving, and some others, are forgotten.
        for (auto one = model.lists.begin(); one != model.lists.end();) {
          if (one->second.left == 0 && roll(10) != 0) {
            ++one;
            continue;
          }
          owners.forget(one->first);
          one = model.lists.erase(one);
        }
        break;
      case 1:
      case 2:
        if (at != model.lists.end()) at->second.used_us = now_us;
        break;
      default: {
        const uint64_t owner = roll(3) == 0 ? 1 + roll(model.owners) : 1;
        if (at != model.lists.end() && at->second.owner != 0) break;
        std::optional<size_t> known;
        if (at == model.lists.end()) known = model.lists.size();
        std::vector<uint32_t> given_way, expected;
        Model before = model;
        const bool admitted = owners.admit(owner, known, shares, given_way);
        ASSERT_EQ(admitted, before.admit(owner, known, shares, expected)) << step;
        ASSERT_EQ(given_way, expected) << step;
        model = before;
        given += given_way.size();
        if (!admitted) {
          ++refused;
          break;
        }
        model.lists[list] = {owner, 0, now_us};
        owners.own(owner, list, now_us);
      }
    }
    size_t leaving = 0;
    std::set<uint64_t> known_owners;
    for (uint64_t owner = 1; owner <= model.owners; ++owner) {
      ASSERT_EQ(owners.held_by(owner), model.count(owner));
      ASSERT_LE(model.count(owner), shares.one);
      most_of_one = std::max(most_of_one, model.count(owner));
      leaving += model.leaving(owner);
      if (model.count(owner) + model.leaving(owner) > 0) known_owners.insert(owner);
    }
    ASSERT_EQ(owners.leaving(), leaving);
    ASSERT_EQ(owners.owners(), known_owners.size());
    ASSERT_LE(model.lists.size(), shares.all);
  }
  EXPECT_GT(refused, 500u);
  EXPECT_GT(given, 1'000u);
  EXPECT_EQ(most_of_one, shares.one);
  EXPECT_EQ(owners.given_way(), given);
}

}  // namespace
}  // namespace sluice::request
