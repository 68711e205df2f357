// The wall clock steps forward and back again (base/clock.h) while a store decides: how many units
// more are granted, that no actor is locked out, and that no counter is forgotten. The test sets
// the clock's sources.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "store/asking_test.h"
#include "store/holds.h"
#include "tests/support/dice.h"

namespace sluice::durable {
namespace {

using namespace store::tests;
using limit::Algorithm;
using limit::Limit;

constexpr int64_t second = 1'000'000, day = 86'400 * second;
int64_t monotonic_us, wall_us;

class ClockSteps : public testing::TestWithParam<Limit> {
 protected:
  ClockSteps() {
    monotonic_us = 5 * second;
    wall_us = 1'700'000'000 * second;
  }
  static void pass(int64_t us) {
    monotonic_us += us;
    wall_us += us;
  }
  bool take(const std::string& key) {
    return w.ask({{key, 1, {GetParam()}}}, clock.now()).allowed();
  }
  void keep_house() {
    for (int i = 0; i < 200; ++i) w.store.housekeep(clock.earliest_now());
  }

  World w;
  base::Clock clock{{[] { return monotonic_us; }, [] { return wall_us; }}};
};

TEST_P(ClockSteps, ACounterUntouchedDuringAStepKeepsItsState) {
  while (take("k")) continue;
  wall_us += day;
  pass(second);
  EXPECT_TRUE(take("other"));
  keep_house();
  wall_us -= day;
  pass(second);
  EXPECT_FALSE(take("k"));
  EXPECT_EQ(w.store.stats().swept, 0u);
}

TEST_P(ClockSteps, ACounterChargedDuringAStepGrantsAtMostOneFreshQuotaMore) {
  while (take("k")) continue;
  wall_us += day;
  pass(second);
  int64_t more = 0;
  while (take("k")) ++more;
  EXPECT_LE(more, GetParam().burst > 0 ? GetParam().burst : GetParam().quota);
  wall_us -= day;
  pass(second);
  const auto refused = w.ask({{"k", 1, {GetParam()}}}, clock.now());
  EXPECT_FALSE(refused.allowed());
  EXPECT_LE(refused[0].retry_after.us, 2 * GetParam().window.us) << "and no day ahead";
  // The counter is asked for all the time, and comes back nevertheless.
  int64_t waited = 0;
  for (; !take("k") && waited <= 2 * GetParam().window.us; waited += second) pass(second);
  EXPECT_LE(waited, 2 * GetParam().window.us);
}

// Random requests and steps forward, each taken back within a minute. The grants are at most those
// that the limit allows in the time that passed, and the units of a fresh counter for each step.
TEST_P(ClockSteps, EachStepGrantsAtMostOneFreshQuotaMore) {
  const Limit limit = GetParam();
  const int64_t most = std::max(limit.quota, limit.burst);
  std::mt19937_64 dice(11);
  const auto roll = [&](int64_t n) {
    return static_cast<int64_t>(dice() % static_cast<uint64_t>(n));
  };
  for (int round = 0; round < 40; ++round) {
    std::vector<int64_t> granted(3, 0), asked_in_step(3, 0);
    const int64_t begin_us = monotonic_us;
    std::vector<char> asked(3, 0);
    bool ahead = false;
    int64_t ahead_since = 0;
    for (int i = 0; i < 400; ++i) {
      pass(roll(8 * second));
      if (ahead && monotonic_us - ahead_since > 40 * second) {
        wall_us -= day;
        pass(200'000);
        clock.now();
        ahead = false;
      } else if (!ahead && roll(20) == 0) {
        wall_us += day;
        pass(200'000);
        clock.now();
        ahead = true;
        ahead_since = monotonic_us;
        asked.assign(3, 0);
      }
      const auto actor = static_cast<size_t>(roll(3));
      if (ahead && std::exchange(asked[actor], 1) == 0) ++asked_in_step[actor];
      for (int64_t n = roll(6); n > 0; --n)
        granted[actor] += take(std::to_string(round) + "/" + std::to_string(actor)) ? 1 : 0;
      if (roll(30) == 0) keep_house();
    }
    if (ahead) wall_us -= day;
    pass(second);
    clock.now();
    const int64_t windows = (monotonic_us - begin_us) / limit.window.us + 2;
    for (size_t actor = 0; actor < 3; ++actor)
      EXPECT_LE(granted[actor], most * windows + most * asked_in_step[actor])
          << round << " " << actor;
    pass(120 * second);
  }
}

const auto limits_with_windows = testing::Values(window(5, 30 * second), bucket(5, 5, 30 * second),
                                                 Limit{Algorithm::aligned_window, 5, {30 * second}},
                                                 Limit{Algorithm::sliding_window, 5, {30 * second}},
                                                 Limit{Algorithm::sliding_log, 5, {30 * second}});
std::string name_of_case(const testing::TestParamInfo<Limit>& one) {
  return std::string(limit::name_of(one.param.algorithm));
}

INSTANTIATE_TEST_SUITE_P(Limits, ClockSteps, limits_with_windows, name_of_case);

// Places with ids, while the clock steps forward past their ends and back: at any moment at most
// the quota has not ended, and one that has ended by the clock is never revived.
TEST(ClockStepsOfPlaces, NoStepLetsMoreOutThanThereAre) {
  struct Out {
    int64_t units, end;
  };
  sluice::tests::Dice dice(20261201);
  const Limit pool{Algorithm::concurrency, 5, {20 * second}, 40 * second};
  size_t refused = 0, ended = 0, steps = 0;
  for (int round = 0; round < 60; ++round) {
    monotonic_us = 5 * second;
    wall_us = 1'700'000'000 * second;
    base::Clock clock{{[] { return monotonic_us; }, [] { return wall_us; }}};
    World w;
    store::Holds holds(w.store, w.spaces, {});
    std::map<std::string, Out> out;
    int next = 0;
    int64_t ahead = 0, ahead_since = 0;
    const auto pass = [&](int64_t us) {
      monotonic_us += us;
      wall_us += us;
    };
    const auto settle = [&](request::HoldAsk what, const std::string& id, base::Time now) {
      request::HoldCall call{.ask = what, .id = id, .ttl = base::seconds(1 + dice(int64_t{40}))};
      EXPECT_TRUE(holds.settle(call, now, {}));
      return call;
    };
    for (int i = 0; i < 300; ++i) {
      pass(dice(int64_t{5 * second}));
      if (ahead != 0 && monotonic_us - ahead_since > 40 * second) {
        wall_us -= ahead;
        ahead = 0;
        pass(200'000);
      } else if (ahead == 0 && dice(12) == 0) {
        ahead = (1 + dice(int64_t{60})) * second;
        wall_us += ahead;
        ahead_since = monotonic_us;
        ++steps;
        pass(200'000);
      }
      const base::Time now = clock.now();
      holds.end_due(now);
      ended += std::erase_if(out, [now](const auto& one) { return one.second.end <= now.us; });
      const std::string id =
          "a-place-of-round-" + std::to_string(dice(2) == 0 ? next : dice(next + 1));
      switch (dice(4)) {
        case 0:
        case 1: {
          const int64_t units = 1 + dice(int64_t{3});
          Asked asked = w.prepare({{"pool", units, {pool}}}, Verb::reserve);
          const std::vector<store::Holds::Share> shares(1, {1, "pool"});
          request::HoldCall call{
              .id = id, .ttl = base::seconds(1 + dice(int64_t{40})), .is_place = true};
          ASSERT_TRUE(holds.reserve(call, {}, {{&asked.group, 1}, asked.charges, asked.decisions},
                                    shares, {&units, 1}, now, {}));
          refused += call.outcome == request::HoldOutcome::refused;
          if (call.outcome != request::HoldOutcome::done || call.repeated) break;
          out[id] = {units, now.us + call.ends_in.us};
          ++next;
          break;
        }
        case 2: {
          const auto call = settle(request::HoldAsk::renew, id, now);
          ASSERT_EQ(call.outcome == request::HoldOutcome::done, out.contains(id)) << id;
          if (out.contains(id)) out[id].end = now.us + call.ends_in.us;
          break;
        }
        default:
          settle(request::HoldAsk::release, id, now);
          out.erase(id);
      }
      int64_t used = 0;
      for (const auto& [name, one] : out) used += one.units;
      ASSERT_LE(used, pool.quota) << round << " " << i;
      ASSERT_LE(w.left({"pool", 0, {pool}}, now), pool.quota - used) << round << " " << i;
    }
    // What a step put off ends as well.
    wall_us -= ahead;
    pass(300 * second);
    holds.end_due(clock.now());
    EXPECT_EQ(w.left({"pool", 0, {pool}}, clock.now()), pool.quota);
    EXPECT_EQ(holds.figures().holds, 0u);
  }
  EXPECT_GT(refused, 500u);
  EXPECT_GT(ended, 500u);
  EXPECT_GT(steps, 200u);
}

// A request that begins to wait while the clock is ahead is answered when its units are back.
TEST(ClockStepsOfWaiting, AWaiterIsAnsweredAfterTheStepBack) {
  World w;
  Counting completions;
  const Limit ten = bucket(10, 10, 10 * second);
  const int64_t now = 1'700'000'000 * second;
  w.answered(completions, {now});
  while (w.ask({{"k", 1, {ten}}}, {now + day}).allowed()) continue;
  EXPECT_TRUE(w.wait(completions, 1, {{"k", 3, {ten}}}, {now + day}).group.parked);
  EXPECT_TRUE(w.answered(completions, {now + day}).empty());
  // After the step back: the bucket is empty and fills from now on.
  EXPECT_TRUE(w.answered(completions, {now + second}).empty());
  ASSERT_TRUE(w.next.has_value());
  EXPECT_LE(w.next->us, now + 11 * second);
  EXPECT_EQ(w.answered(completions, *w.next), std::vector<uint32_t>{1});
}

// How long a waiting request waits if the store is called at the times that it names, and no other
// request is made.
base::Duration waited(World& w, Counting& completions, base::Time from, base::Duration most) {
  for (base::Time now = from; now.us <= from.us + most.us; now = *w.next) {
    if (!w.answered(completions, now).empty()) return {now.us - from.us};
    if (!w.next.has_value()) break;
  }
  return base::never;
}

class ClockStepsOfWaitingUnder : public testing::TestWithParam<Limit> {
 protected:
  World w;
  Counting completions;
  const Limit limit = GetParam();
  const base::Time now{1'700'000'000 * second}, ahead{now.us + day}, back{now.us + second};
  const base::Duration most{2 * limit.window.us};
};

TEST_P(ClockStepsOfWaitingUnder, DoesNotWaitForAStepUnderSeveralLimits) {
  const std::vector<Limit> limits = {window(1'000, 100 * day), limit, bucket(500, 1, day)};
  w.answered(completions, now);
  while (w.ask({{"k", 1, limits}}, ahead).allowed()) continue;
  EXPECT_TRUE(w.wait(completions, 1, {{"k", 3, limits}}, ahead).group.parked);
  EXPECT_TRUE(w.answered(completions, ahead).empty());
  EXPECT_LE(waited(w, completions, back, most).us, most.us);
  EXPECT_EQ(w.left({"k", 0, {limits[0]}}, {back.us + most.us}), 1'000 - 5 - 3) << "once each";
}

TEST_P(ClockStepsOfWaitingUnder, DoesNotWaitForAStepUnderSeveralCounters) {
  const std::vector<Part> both = {{"k", 3, {limit, window(1'000, 100 * day)}},
                                  {"other", 2, {bucket(500, 1, day), limit}}};
  w.answered(completions, now);
  for (const Part& part : both)
    while (w.ask({{part.key, 1, part.limits}}, ahead).allowed()) continue;
  EXPECT_TRUE(w.wait(completions, 1, both, ahead).group.parked);
  EXPECT_LE(waited(w, completions, back, {2 * most.us}).us, 2 * most.us);
}

// Another request changed the counter's limits, and the waiting request was matched again.
TEST_P(ClockStepsOfWaitingUnder, DoesNotWaitForAStepUnderOtherLimitsThanTheCounters) {
  Limit other = limit;
  other.quota = 4;
  if (other.burst > 0) other.burst = 4;
  const std::vector<Part> waits = {{"k", 3, {limit}}};
  w.answered(completions, now);
  while (w.ask({{"k", 1, {limit}}}, ahead).allowed()) continue;
  const auto parked = w.wait(completions, 1, waits, ahead);
  EXPECT_TRUE(parked.group.parked);
  EXPECT_FALSE(w.ask({{"k", 1, {other}}}, ahead).allowed());
  EXPECT_TRUE(w.answered(completions, ahead).empty());
  EXPECT_TRUE(w.wait(completions, 1, waits, ahead, parked.group.arrival).group.parked);
  EXPECT_LE(waited(w, completions, back, most).us, most.us);
}

// Limits that an override leaves out do not affect the waiting request; one of them equals a fresh
// one by then.
TEST_P(ClockStepsOfWaitingUnder, DoesNotWaitForLimitsThatAnOverrideLeavesOut) {
  const std::vector<Limit> rules = {limit, window(9, second), window(900, 100 * day)};
  w.answered(completions, now);
  EXPECT_TRUE(w.ask({{"k", 1, rules}}, ahead).allowed());
  while (w.ask({{"k", 1, {limit}}}, ahead).allowed()) continue;
  EXPECT_TRUE(w.wait(completions, 1, {{"k", 3, {limit}}}, ahead).group.parked);
  EXPECT_LE(waited(w, completions, back, most).us, most.us);
}

INSTANTIATE_TEST_SUITE_P(Limits, ClockStepsOfWaitingUnder, limits_with_windows, name_of_case);

}  // namespace
}  // namespace sluice::durable
