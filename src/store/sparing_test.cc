// Groups that spare counters whose quota the request fits (Group::sparing), against maps of what
// was counted: also beside charges that take, and with several charges on one counter. And groups
// whose time to be answered has passed.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "limit/aligned_window.h"
#include "store/asking_test.h"
#include "tests/support/dice.h"

namespace sluice::store::sparing_test {
namespace {

using sluice::tests::Dice;
using namespace tests;

constexpr int64_t span = 60;

Limit per_window(int64_t quota) {
  return {Algorithm::aligned_window, quota, {span}};
}

// As recorded: the limit `min` has room for two requests, `hour` for five.
TEST(SparingGroups, ChargeOnlyTheCountersThatRefuse) {
  World w;
  const auto ask = [&](const std::vector<Part>& parts) {
    Asked asked = w.prepare(parts, Verb::count);
    asked.group.sparing = true;
    std::set<std::string> keys;
    for (Charge& charge : asked.charges)
      charge.follows = !keys.insert(std::string(charge.key)).second;
    w.apply(asked, {0});
    return asked;
  };
  const Part min{"min", 1, {per_window(2)}}, hour{"hour", 1, {per_window(5)}};
  EXPECT_TRUE(ask({min}).allowed());
  EXPECT_TRUE(ask({min}).allowed());
  for (const auto& parts : {std::vector<Part>{min, hour}, std::vector<Part>{hour, min}}) {
    const Asked asked = ask(parts);
    const size_t over = parts[0].key == "min" ? 0 : 1;
    EXPECT_FALSE(asked.allowed());
    EXPECT_FALSE(asked[over].allowed);
    EXPECT_TRUE(asked[1 - over].allowed);
    EXPECT_EQ(asked[1 - over].remaining, 5);
  }
  EXPECT_EQ(w.left({"min", 0, {per_window(2)}}, {0}), -2);
  EXPECT_EQ(w.left({"hour", 0, {per_window(5)}}, {0}), 5);
  EXPECT_EQ(w.store.stats().counters, 1u);
  // Two charges on one counter: both are decided on its state before the group.
  const Part twice{"twice", 1, {per_window(2)}};
  Asked asked = ask({twice, twice});
  EXPECT_TRUE(asked.allowed());
  EXPECT_EQ(asked[0].remaining, 1);
  EXPECT_EQ(asked[1].remaining, 0);
  asked = ask({twice, twice});
  EXPECT_FALSE(asked.allowed());
  EXPECT_EQ(asked[0].remaining, -1);
  EXPECT_EQ(asked[1].remaining, -2);
  const Part edge{"edge", 1, {per_window(2)}};
  ask({edge});
  asked = ask({edge, edge});
  EXPECT_TRUE(asked.allowed());
  EXPECT_TRUE(asked[0].allowed);
  EXPECT_FALSE(asked[1].allowed);
  EXPECT_EQ(asked[1].remaining, -1);
}

TEST(SparingGroups, RandomGroupsMatchTheModel) {
  World w;
  Dice dice(417);
  std::map<std::string, std::pair<int64_t, int64_t>> model;  // number of the window, units
  int64_t now = 0;
  const auto used = [&](const std::string& key) -> int64_t& {
    auto& [number, units] = model[key];
    if (number != now / span) units = 0;
    number = now / span;
    return units;
  };
  std::array<size_t, 4> seen{};
  for (int round = 0; round < 30'000; ++round) {
    now += dice(int64_t{9});
    std::vector<Part> parts;
    std::vector<bool> counts;
    const int count = 1 + dice(4);
    for (int i = 0; i < count; ++i) {
      counts.push_back(i == 0 || dice(4) > 0);
      parts.push_back({counts.back() ? "c" + std::to_string(dice(3)) : "t" + std::to_string(i),
                       dice(int64_t{4}),
                       {per_window(dice(int64_t{8}))}});
    }
    Asked asked = w.prepare(parts);
    asked.group.sparing = true;
    std::set<std::string> keys;
    bool all = true, twice = false;
    std::vector<bool> fits;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (counts[i]) asked.charges[i].verb = Verb::count;
      if (counts[i]) asked.charges[i].counts = 1;
      asked.charges[i].follows = !keys.insert(parts[i].key).second;
      twice |= asked.charges[i].follows;
      fits.push_back(used(parts[i].key) + parts[i].cost <= parts[i].limits[0].quota);
      all = all && fits[i];
    }
    w.apply(asked, {now});
    ASSERT_EQ(asked.allowed(), all) << round;
    for (size_t i = 0; i < parts.size(); ++i) {
      int64_t& units = used(parts[i].key);
      if (all || (counts[i] && !fits[i])) units += parts[i].cost;
      ASSERT_EQ(asked[i].remaining, parts[i].limits[0].quota - units) << round << " " << i;
      const bool allowed = counts[i] ? units <= parts[i].limits[0].quota : fits[i];
      ASSERT_EQ(asked[i].allowed, allowed) << round << " " << i;
    }
    for (size_t i = 0; i < parts.size(); ++i)
      ASSERT_EQ(w.left({parts[i].key, 0, {per_window(9)}}, {now}), 9 - used(parts[i].key));
    ++seen[(all ? 1u : 0u) + (twice ? 2u : 0u)];
    if (round % 64 == 0) w.store.sweep({now}, 5'000);
  }
  for (const size_t times : seen) EXPECT_GT(times, 500u);
}

TEST(LateGroups, AreNotCharged) {
  World w;
  const std::vector<Part> one = {{"k", 1, {per_window(5)}}},
                          two = {{"k", 1, {per_window(5)}}, {"m", 1, {per_window(5)}}};
  for (const auto& parts : {one, two}) {
    for (const int64_t late_us : {0, 1, 1'000}) {
      Asked asked = w.prepare(parts);
      asked.group.answer_by = {5'000 - late_us};
      asked.group.on_error = request::OnError::allow;
      w.apply(asked, {5'000});
      EXPECT_EQ(asked.group.error, request::Error::deadline);
      EXPECT_FALSE(asked.allowed());
    }
    Asked asked = w.prepare(parts);
    asked.group.answer_by = {5'001};
    w.apply(asked, {5'000});
    EXPECT_TRUE(asked.allowed());
  }
  EXPECT_EQ(w.left({"k", 0, {per_window(5)}}, {5'000}), 3);
  // A late group of a shadow rule does not stop the batch.
  Asked first = w.prepare(one), second = w.prepare(one);
  std::array<request::Group, 2> groups = {first.group, second.group};
  groups[0].answer_by = {0};
  groups[0].may_fail = true;
  groups[1].charge_first = 1;
  std::vector<Charge> charges = {first.charges[0], second.charges[0]};
  std::vector<Decision> decisions(2);
  charges[1].decision_first = 1;
  EXPECT_EQ(w.store.apply({groups, charges, decisions}, {5'000}).settled, 2u);
  EXPECT_EQ(groups[0].error, request::Error::deadline);
  EXPECT_TRUE(groups[1].allowed);
  EXPECT_EQ(decisions[1].remaining, 2);
}

}  // namespace
}  // namespace sluice::store::sparing_test
