// Requests that wait in turn by a value (Charge::fair_value), in the table in memory: who is served
// when, of units that come with time and of places that are put back, over one counter and over
// two, and who keeps its turn. The random sequences are in waiting_property_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/running_sums.h"
#include "store/asking_test.h"
#include "tests/support/dice.h"

namespace sluice::store::fair_waiting_test {
namespace {

using namespace tests;
using Tickets = std::vector<uint32_t>;

constexpr int64_t second = 1'000'000;
constexpr uint64_t many = 1, first_of_nine = 2, last_of_nine = 10;

// One that waits for a unit of the limit, by the value.
void wait_by(World& w, Counting& at, uint32_t ticket, uint64_t value, const Limit& limit,
             int64_t cost = 1, base::Time now = {0}) {
  ASSERT_TRUE(w.wait(at, ticket, {{"k", cost, {limit}, value}}, now).group.parked);
}

TEST(FairWaiting, ServesTheValuesInTurnAndEachInOrderOfArrival) {
  World w;
  Counting at;
  const Limit two = fixed(2);
  w.ask({{"k", 2, {two}}}, {0});
  wait_by(w, at, 1, 7, two);
  wait_by(w, at, 2, 7, two);
  wait_by(w, at, 3, 7, two);
  wait_by(w, at, 4, 8, two);
  wait_by(w, at, 5, 9, two);
  wait_by(w, at, 6, 8, two);
  Tickets order;
  for (int i = 0; i < 6; ++i) {
    w.put({{"k", 1, {two}}}, {0});
    const Tickets answered = w.answered(at, {0});
    ASSERT_EQ(answered.size(), 1u);
    order.push_back(answered[0]);
  }
  EXPECT_EQ(order, (Tickets{1, 4, 5, 2, 6, 3}));
}

TEST(FairWaiting, OneThatLeavesCostsItsValueNoTurn) {
  World w;
  Counting at;
  const Limit one = fixed(1);
  w.ask({{"k", 1, {one}}}, {0});
  wait_by(w, at, 1, 7, one);
  wait_by(w, at, 2, 8, one);
  wait_by(w, at, 3, 7, one);
  ASSERT_TRUE(w.store.cancel(at.completions, {1, 0}, {0}));
  w.put({{"k", 1, {one}}}, {0});
  EXPECT_EQ(w.answered(at, {0}), (Tickets{3}));
  w.put({{"k", 1, {one}}}, {0});
  EXPECT_EQ(w.answered(at, {0}), (Tickets{2}));
}

// The large one is passed once by each other value, until its turn comes; then by none.
TEST(FairWaiting, ALargeRequestIsNotOvertakenForEver) {
  World w;
  Counting at;
  const Limit ten = bucket(10, 1, second);
  w.ask({{"k", 10, {ten}}}, {0});
  uint32_t ticket = 1;
  wait_by(w, at, ticket++, 7, ten);
  wait_by(w, at, ticket++, 8, ten);
  wait_by(w, at, ticket++, 9, ten, 10);  // the third
  Tickets order;
  for (int64_t now = 0; order.empty() || order.back() != 3; ++now) {
    ASSERT_LT(now, 20);
    const Tickets answered = w.answered(at, {now * second});
    order.insert(order.end(), answered.begin(), answered.end());
    for (const uint64_t value : {7u, 8u}) wait_by(w, at, ticket++, value, ten, 1, {now * second});
  }
  EXPECT_EQ(order, (Tickets{1, 2, 3}));
}

// With one value of 1,000 that wait and nine of one, which come again at once and at random: each
// of the nine is served within ten grants of its coming to the front.
void serve_beside_many(const Limit& limit, int64_t step_us, bool puts) {
  World w;
  Counting at;
  base::Time now{0};
  ASSERT_TRUE(w.ask({{"k", limit.quota, {limit}}}, now).allowed());
  std::map<uint32_t, std::pair<uint64_t, size_t>> came;  // by ticket: value, and grants before
  uint32_t ticket = 1;
  size_t grants = 0;
  const auto wait = [&](uint64_t value) {
    came[ticket] = {value, grants};
    wait_by(w, at, ticket++, value, limit, 1, now);
  };
  for (int i = 0; i < 1'000; ++i) wait(many);
  for (uint64_t value = first_of_nine; value <= last_of_nine; ++value) wait(value);
  std::map<uint64_t, size_t> served;
  uint32_t last_of_many = 0;
  while (grants < 3'000) {
    now.us += step_us;
    if (puts) {
      w.put({{"k", 1, {limit}}}, now);
    }
    const Tickets answered = w.answered(at, now);
    ASSERT_FALSE(answered.empty());
    for (const uint32_t one : answered) {
      ++grants;
      const auto [value, before] = came.at(one);
      ++served[value];
      if (value != many) {
        ASSERT_LE(grants - before, 10u) << "value " << value;
      } else {
        ASSERT_GT(one, last_of_many);
        last_of_many = one;
      }
    }
    for (const uint32_t one : answered) wait(came.at(one).first);
  }
  for (const auto& [value, times] : served)
    EXPECT_TRUE(times >= 299 && times <= 301) << times << "value " << value;
  EXPECT_EQ(served.size(), 10u);
}

TEST(FairWaiting, OfARateEachOfNineIsServedWithinTenGrantsBesideAThousandOfOneValue) {
  serve_beside_many(bucket(5, 5, second), second / 5, false);
}

TEST(FairWaiting, OfPlacesEachOfNineIsServedWithinTenGrantsBesideAThousandOfOneValue) {
  serve_beside_many({Algorithm::concurrency, 10, {1'000 * second}, 1'000 * second}, 1, true);
}

// Two counters each: who waits for the one keeps its turn when it lacks units of the other.
TEST(FairWaiting, KeepsItsTurnAtAnotherCounter) {
  World w;
  Counting at;
  const Limit one = fixed(1);
  w.ask({{"a", 1, {one}}, {"b", 1, {one}}}, {0});
  const auto both = [&](uint32_t ticket, uint64_t value) {
    ASSERT_TRUE(
        w.wait(at, ticket, {{"a", 1, {one}, value}, {"b", 1, {one}, value}}, {0}).group.parked);
  };
  both(1, 7);
  both(2, 7);
  both(3, 8);
  // Alone at `b`, later.
  ASSERT_TRUE(w.wait(at, 4, {{"b", 1, {one}, 9}}, {0}).group.parked);
  w.put({{"a", 1, {one}}}, {0});
  EXPECT_EQ(w.answered(at, {0}), Tickets{});
  Tickets order;
  for (int i = 0; i < 4; ++i) {
    w.put({{"b", 1, {one}}}, {0});
    const Tickets answered = w.answered(at, {0});
    ASSERT_EQ(answered.size(), 1u);
    order.push_back(answered[0]);
    w.put({{"a", 1, {one}}}, {0});
    EXPECT_EQ(w.answered(at, {0}), Tickets{});
  }
  EXPECT_EQ(order, (Tickets{1, 3, 4, 2}));
}

// Groups of one, two or three counters with few units each, by random values: whatever crosses,
// all are served, and no look is repeated for ever.
TEST(FairWaiting, GroupsOverSeveralCountersNeverBlockEachOther) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    sluice::tests::Dice dice(seed);
    World w;
    Counting at;
    const Limit limit = fixed(3);
    const std::vector<std::string> keys = {"a", "b", "c", "d"};
    std::map<uint32_t, std::vector<Part>> waiting;
    std::map<std::string, int64_t> taken;
    for (const std::string& key : keys) {
      w.ask({{key, 3, {limit}}}, {0});
      taken[key] = 3;
    }
    for (uint32_t ticket = 1; ticket <= 60; ++ticket) {
      std::vector<Part> parts;
      const uint64_t value = dice(uint64_t{4});
      for (const std::string& key : keys)
        if (dice(2) == 0) parts.push_back({key, 1 + dice(int64_t{3}), {limit}, value});
      if (parts.empty()) continue;
      ASSERT_TRUE(w.wait(at, ticket, parts, {0}).group.parked);
      waiting.emplace(ticket, parts);
    }
    for (int step = 0; !waiting.empty(); ++step) {
      ASSERT_LT(step, 10'000);
      const std::string& key = keys[dice(keys.size())];
      if (taken[key] > 0) {
        w.put({{key, 1, {limit}}}, {0});
        --taken[key];
      }
      const uint64_t visited = base::running_sums_visited();
      for (const uint32_t ticket : w.answered(at, {0})) {
        for (const Part& part : waiting.at(ticket)) taken[part.key] += part.cost;
        waiting.erase(ticket);
      }
      ASSERT_LT(base::running_sums_visited() - visited, 100'000u);
      for (const auto& [name, units] : taken) ASSERT_LE(units, 3) << name;
    }
  }
}

TEST(FairWaiting, AHundredThousandOnAThousandPoolsCostFewSteps) {
  constexpr uint32_t pools = 1'000, each = 100;
  constexpr uint64_t values = 10, visits_max = 100;  // for one that waits and is served
  World w;
  Counting at;
  const Limit limit{Algorithm::concurrency, 1, {1'000 * second}, 1'000 * second};
  const auto name = [](uint32_t pool) { return "pool " + std::to_string(pool); };
  const uint64_t before = base::running_sums_visited();
  for (uint32_t pool = 0; pool < pools; ++pool) w.ask({{name(pool), 1, {limit}}}, {0});
  for (uint32_t n = 0; n < pools * each; ++n)
    ASSERT_TRUE(
        w.wait(at, n, {{name(n % pools), 1, {limit}, 1 + n / pools % values}}, {0}).group.parked);
  std::vector<std::vector<uint64_t>> served(pools);
  for (uint32_t n = 0; n < pools * each; ++n) {
    w.put({{name(n % pools), 1, {limit}}}, {0});
    const Tickets answered = w.answered(at, {0});
    ASSERT_EQ(answered.size(), 1u);
    served[answered[0] % pools].push_back(1 + answered[0] / pools % values);
  }
  for (const auto& its : served)
    for (uint64_t i = 0; i < each; ++i) ASSERT_EQ(its[i], 1 + i % values);
  EXPECT_LT(base::running_sums_visited() - before, uint64_t{pools} * each * visits_max);
  EXPECT_EQ(w.store.stats().waiting, 0u);
}

// Charges of other limits than those that it waits under ask it again: its value's turn stays.
TEST(FairWaiting, KeepsItsTurnWhenItIsMatchedAgain) {
  World w;
  Counting at;
  const Limit one = fixed(1), two = fixed(2);
  ASSERT_TRUE(w.ask({{"k", 1, {one}}}, {0}).allowed());
  std::map<uint32_t, uint64_t> arrivals;
  const auto wait = [&](uint32_t ticket, uint64_t value, const Limit& limit) {
    const Asked asked = w.wait(at, ticket, {{"k", 2, {limit}, value}}, {0}, arrivals[ticket]);
    ASSERT_TRUE(asked.group.parked);
    arrivals[ticket] = asked.group.arrival;
  };
  // With one unit at most they stand aside, with two they queue in order of arrival.
  wait(1, 7, two);
  wait(2, 7, two);
  wait(3, 8, two);
  w.put({{"k", 1, {two}}}, {0});
  ASSERT_EQ(w.answered(at, {0}), (Tickets{1}));
  // Now it is the turn of 8, then of 7; other limits do not change that, in whatever order they
  // are asked.
  const Limit more = fixed(3);
  wait(2, 7, more);
  wait(3, 8, more);
  w.put({{"k", 2, {more}}}, {0});
  EXPECT_EQ(w.answered(at, {0}), (Tickets{3}));
}

}  // namespace
}  // namespace sluice::store::fair_waiting_test
