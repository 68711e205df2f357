// Charges that count past their limits (Verb::count), alone and in groups with takes: the table in
// memory against maps of what was counted in each window.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "limit/aligned_window.h"
#include "store/asking_test.h"
#include "store/fallback.h"
#include "tests/support/dice.h"

namespace sluice::store::count_test {
namespace {

using sluice::tests::Dice;
using namespace tests;

constexpr int64_t span = 60;

Limit per_window(int64_t quota) {
  return {Algorithm::aligned_window, quota, {span}};
}

TEST(CountCharges, ARefusalIsChargedAndAPeekMakesNoCounter) {
  World w;
  const std::vector<Part> one = {{"k", 3, {per_window(5)}}};
  EXPECT_TRUE(w.ask(one, {0}, Verb::peek).allowed());
  EXPECT_EQ(w.store.stats().counters, 0u);
  EXPECT_TRUE(w.ask(one, {0}, Verb::count).allowed());
  const Asked over = w.ask(one, {0}, Verb::count);
  EXPECT_FALSE(over.allowed());
  EXPECT_EQ(over[0].remaining, -1);
  EXPECT_EQ(w.left({"k", 0, {per_window(5)}}, {0}), -1);
  // A first request that is too large makes a counter as well.
  EXPECT_FALSE(w.ask({{"large", 9, {per_window(5)}}}, {0}, Verb::count).allowed());
  EXPECT_EQ(w.left({"large", 0, {per_window(5)}}, {0}), -4);
  EXPECT_EQ(w.put({{"none", 2, {per_window(5)}}}, {0})[0].remaining, 5);
  EXPECT_EQ(w.store.stats().counters, 2u);
}

TEST(CountCharges, AFullCounterStaysAndRefuses) {
  World w;
  const std::vector<Part> all = {{"k", INT64_MAX, {per_window(5)}}};
  EXPECT_FALSE(w.ask(all, {0}, Verb::count).allowed());
  EXPECT_FALSE(w.ask(all, {0}, Verb::count).allowed());
  EXPECT_EQ(w.left({"k", 0, {per_window(5)}}, {0}), 5 - limit::aligned_window::counted_max);
}

// The charges are alone or in a group with a take. Quotas change all the time, as overrides and
// reloads change them.
TEST(CountCharges, RandomGroupsMatchTheModel) {
  World w;
  Dice dice(20261123);
  // By key: the number of the window, and the units used in it.
  std::map<std::string, std::pair<int64_t, int64_t>> model;
  const auto used = [&](const std::string& key, int64_t now) -> int64_t& {
    auto& [number, units] = model[key];
    if (number != now / span) units = 0;
    number = now / span;
    return units;
  };
  int64_t now = 0;
  std::array<size_t, 4> seen{};  // groups: count within (0) or over (2), take fits (0) or not (1)
  for (int round = 0; round < 40'000; ++round) {
    now += dice(int64_t{9});
    const std::string counted = "c" + std::to_string(dice(3)),
                      taken = "t" + std::to_string(dice(3));
    const int64_t quota = dice(int64_t{6}), cost = dice(int64_t{3}), of = 1 + dice(int64_t{5});
    Asked asked = w.prepare({{counted, cost, {per_window(quota)}}}, Verb::count);
    const int64_t after = used(counted, now) += cost;
    const bool within = after <= quota;
    if (dice(2) == 0) {
      w.apply(asked, {now});
      ASSERT_EQ(asked.allowed(), within) << round;
      ASSERT_EQ(asked[0].remaining, quota - after);
    } else {
      const bool first = dice(2) == 0;
      std::vector<Part> parts = {{counted, cost, {per_window(quota)}},
                                 {taken, 1, {per_window(of)}}};
      if (first) std::swap(parts[0], parts[1]);
      asked = w.prepare(parts);
      asked.charges[first ? 1 : 0].verb = Verb::count;
      asked.charges[first ? 1 : 0].counts = 1;
      const bool fits = used(taken, now) + 1 <= of;
      w.apply(asked, {now});
      ASSERT_EQ(asked.allowed(), within && fits) << round;
      ASSERT_EQ(asked[first ? 1 : 0].remaining, quota - after) << round;
      ASSERT_EQ(asked[first ? 1 : 0].allowed, within) << round;
      used(taken, now) += within && fits ? 1 : 0;
      ASSERT_EQ(asked[first ? 0 : 1].remaining, of - used(taken, now)) << round;
      ASSERT_EQ(asked[first ? 0 : 1].allowed, fits) << round;
      ++seen[(within ? 0u : 2u) + (fits ? 0u : 1u)];
    }
    if (dice(4) == 0) {
      const int64_t back = dice(int64_t{3});
      used(counted, now) = std::max<int64_t>(0, used(counted, now) - back);
      ASSERT_EQ(w.put({{counted, back, {per_window(quota)}}}, {now})[0].remaining,
                quota - used(counted, now));
    }
    ASSERT_EQ(w.left({counted, 0, {per_window(quota)}}, {now}), quota - used(counted, now));
    if (round % 64 == 0) w.store.sweep({now}, 5'000);
  }
  for (const size_t times : seen) EXPECT_GT(times, 500u);
}

// If the store cannot decide, the rule's on_store_error applies, as for a take.
TEST(CountCharges, FollowOnStoreErrorLikeTakes) {
  World w;
  for (const auto wanted : {request::OnError::allow, request::OnError::deny}) {
    Asked asked = w.prepare({{"k", 3, {per_window(2)}}}, Verb::count);
    asked.group.on_error = wanted;
    fall_back(asked.group, {{&asked.group, 1}, asked.charges, asked.decisions},
              request::Error::store, {0});
    EXPECT_FALSE(asked.allowed());
    asked.charges[0].cost = 2;
    fall_back(asked.group, {{&asked.group, 1}, asked.charges, asked.decisions},
              request::Error::store, {0});
    EXPECT_EQ(asked.allowed(), wanted == request::OnError::allow);
  }
}

}  // namespace
}  // namespace sluice::store::count_test
