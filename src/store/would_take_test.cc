// Probes (Verb::would_take) against the take itself; counters that are set to a number of used
// units, also while requests wait for them; and pages of stored names against a set of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "store/asking_test.h"
#include "tests/support/dice.h"

namespace sluice::store::would_take_test {
namespace {

using base::Time;
using sluice::tests::Dice;
using namespace tests;

constexpr int64_t second = 1'000'000;

void expect_equal(const Decision& a, const Decision& b) {
  EXPECT_EQ(a.allowed, b.allowed);
  EXPECT_EQ(a.limit, b.limit);
  EXPECT_EQ(a.remaining, b.remaining);
  EXPECT_EQ(a.reset_after.us, b.reset_after.us);
  EXPECT_EQ(a.retry_after.us, b.retry_after.us);
}

const std::vector<std::vector<Limit>> kinds = {
    {bucket(7, 5, 40)},
    {fixed(6)},
    {window(5, 50), {Algorithm::sliding_log, 5, {60}}},
    {{Algorithm::concurrency, 5, {30}, 60}},
    {{Algorithm::aligned_window, 5, {50}}, {Algorithm::unlimited, 9, {}}},
    {{Algorithm::sliding_window, 8, {70}}, bucket(9, 3, 20), fixed(20)},
    {bucket(4, 5, 40)}};

std::vector<Part> random_parts(Dice& dice) {
  std::vector<Part> parts;
  const int count = 1 + dice(3);
  const int first = dice(4);
  for (int i = 0; i < count; ++i)
    parts.push_back({std::to_string((first + i) % 4), dice(int64_t{5}), kinds[dice(kinds.size())]});
  return parts;
}

// Groups of several counters whose limits change, while other requests wait.
TEST(WouldTake, IsAnsweredLikeTheNextTakeAndChangesNothing) {
  size_t waited = 0, allowed = 0, refused = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    World w;
    Counting completions;
    Dice dice(seed);
    Time now{second};
    uint32_t ticket = 0;
    for (int round = 0; round < 300; ++round) {
      now.us += dice(int64_t{15});
      const auto parts = random_parts(dice);
      if (dice(8) == 0) {
        waited += w.wait(completions, ++ticket, parts, now).group.parked ? 1u : 0u;
      } else if (dice(6) == 0) {
        w.put(parts, now);
      } else {
        std::vector<int64_t> before, after;
        // A peek with other limits answers waiting requests that these limits allow. The first
        // peeks do that, so the second ones see the final state.
        for (const Part& part : parts) w.left(part, now);
        for (const Part& part : parts) before.push_back(w.left(part, now));
        const uint64_t counters = w.store.stats().counters;
        const Asked probe = w.ask(parts, now, Verb::would_take);
        EXPECT_EQ(w.store.stats().counters, counters);
        for (const Part& part : parts) after.push_back(w.left(part, now));
        EXPECT_EQ(before, after);
        const Asked take = w.ask(parts, now);
        EXPECT_EQ(probe.allowed(), take.allowed());
        for (size_t i = 0; i < take.decisions.size(); ++i) expect_equal(probe[i], take[i]);
        ++(take.allowed() ? allowed : refused);
      }
      w.answered(completions, now);
      if (dice(16) == 0) w.store.sweep(now, 5'000);
      ASSERT_FALSE(HasFailure()) << "seed " << seed << " round " << round;
    }
  }
  EXPECT_GT(waited, 100u);
  EXPECT_GT(allowed, 1'000u);
  EXPECT_GT(refused, 500u);
}

// `before`: how many takes of the same charge, one in each group, come before it, as shadow rules
// make them.
TEST(WouldTake, AfterTakesInTheSameBatchIsAnsweredAsIfTheyWereCharged) {
  size_t refused = 0;
  Dice dice(7);
  for (int round = 0; round < 3'000; ++round) {
    World w;
    Time now{second};
    const Part part{"k", dice(int64_t{4}), kinds[dice(kinds.size())]};
    for (int i = dice(4); i > 0; --i, now.us += dice(int64_t{10}))
      w.ask({{"k", dice(int64_t{4}), part.limits}}, now);
    const int before = dice(4);
    Asked probe = w.prepare({part, {"other", 1, kinds[dice(kinds.size())]}}, Verb::would_take);
    probe.charges[0].before = static_cast<uint8_t>(before);
    w.apply(probe, now);
    for (int i = 0; i < before; ++i) w.ask({part}, now);
    const Asked take = w.ask(
        {part, {"other", 1, {probe.charges[1].limits.begin(), probe.charges[1].limits.end()}}},
        now);
    ASSERT_EQ(probe.allowed(), take.allowed());
    for (size_t i = 0; i < take.decisions.size(); ++i) expect_equal(probe[i], take[i]);
    refused += take.allowed() ? 0u : 1u;
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  EXPECT_GT(refused, 200u);
}

TEST(Set, EqualsAFreshCounterAndATakeInOneStep) {
  Dice dice(3);
  for (int round = 0; round < 2'000; ++round) {
    World w, other;
    Time now{second};
    const auto& old = kinds[dice(kinds.size())];
    const auto& limits = dice(2) == 0 ? old : kinds[dice(kinds.size())];
    for (int i = dice(5); i > 0; --i, now.us += dice(int64_t{10}))
      w.ask({{"k", dice(int64_t{4}), old}}, now);
    const Part part{"k", dice(int64_t{5}), limits};
    Asked set = w.prepare({part});
    set.charges[0].reset_first = true;
    w.apply(set, now);
    const Asked take = other.ask({part}, now);
    ASSERT_EQ(set.allowed(), take.allowed());
    for (int i = 0; i < 3; ++i, now.us += dice(int64_t{30})) {
      const Asked a = w.ask({{"k", 1, limits}}, now), b = other.ask({{"k", 1, limits}}, now);
      for (size_t j = 0; j < a.decisions.size(); ++j) expect_equal(a[j], b[j]);
    }
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

TEST(Set, LeavesRemainingUnitsToWaiters) {
  World w;
  Counting completions;
  w.ask({{"k", 10, {fixed(10)}}}, {0});
  for (uint32_t i = 1; i <= 3; ++i) w.wait(completions, i, {{"k", 2, {fixed(10)}}}, {0});
  Asked set = w.prepare({{"k", 5, {fixed(10)}}});
  set.charges[0].reset_first = true;
  w.apply(set, {0});
  EXPECT_TRUE(set.allowed());
  EXPECT_EQ(set[0].remaining, 5);
  EXPECT_EQ(w.answered(completions, {0}), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(w.store.stats().waiting, 1u);
  EXPECT_EQ(w.left({"k", 0, {fixed(10)}}, {0}), 0);  // the unit that is left is for ticket 3
  w.put_all({"k", 0, {fixed(10)}}, {0});
  EXPECT_EQ(w.answered(completions, {0}), (std::vector<uint32_t>{3}));
}

// Droplet's buckets, which keep their limits.
TEST(Set, KeepsTheLimitsOfCountersThatKeepThem) {
  World w;
  Space like;
  like.windows = {{100}, {1'000}};
  w.space = w.spaces.intern("kept", "", like);
  const auto ask = [&](const std::vector<Limit>& limits, int64_t cost, Verb verb, bool refill,
                       bool all, Time now) {
    Asked asked = w.prepare({{"k", cost, limits}}, verb);
    asked.charges[0].keeps_limits = true;
    asked.charges[0].limits_id = 0;
    asked.charges[0].refill = refill;
    asked.charges[0].all = all;
    asked.decisions.resize(2);
    w.apply(asked, now);
    return asked;
  };
  const Limit ten{Algorithm::token_bucket, 10, {100}, 10},
      six{Algorithm::token_bucket, 6, {1'000}, 6};
  ask({ten, six}, 6, Verb::take, false, false, {second});
  ask({}, 2, Verb::take, true, false, {second});
  Asked seen = ask({}, 0, Verb::peek, false, false, {second});
  EXPECT_EQ(seen.charges[0].slot_mask, 3u);
  EXPECT_EQ(seen[0].remaining, 8);
  EXPECT_EQ(seen[1].remaining, 4);
  const Asked probe = ask({six}, 5, Verb::would_take, false, false, {second});
  EXPECT_FALSE(probe.allowed());
  EXPECT_EQ(probe[0].retry_after.us, 167);
  EXPECT_EQ(ask({}, 0, Verb::peek, false, false, {second})[1].remaining, 4);
  ask({}, 0, Verb::put, false, true, {second});
  EXPECT_EQ(ask({}, 0, Verb::peek, false, false, {second}).charges[0].slot_mask, 0u);
  EXPECT_EQ(w.store.stats().counters, 0u);
}

TEST(ListStored, MatchesAPlainSetOfNames) {
  Dice dice(11);
  for (int round = 0; round < 30; ++round) {
    World w;
    const auto text = [&](int length) {
      std::string all;
      for (int i = dice(length + 1); i > 0; --i) all += "ab\xff:"[dice(4)];
      return all;
    };
    std::vector<const Space*> spaces;
    for (int i = 0; i < 6; ++i) spaces.push_back(w.spaces.intern(text(3), text(2)));
    const std::vector<const Space*> wanted(spaces.begin(), spaces.begin() + 4);
    const request::SpaceIndex index(wanted);
    std::set<std::string> names;
    for (int i = 0; i < 200; ++i) {
      w.space = spaces[dice(spaces.size())];
      const std::string key = text(4);
      w.ask({{key, 1, {fixed(3)}}}, {0});
      if (std::find(wanted.begin(), wanted.end(), w.space) != wanted.end())
        names.insert(w.space->prefix + key + w.space->suffix);
    }
    for (int i = 0; i < 50; ++i) {
      const std::string prefix = text(3), after = dice(2) == 0 ? text(5) : "";
      const auto max = static_cast<size_t>(dice(30));
      std::vector<std::string> expected;
      for (const std::string& name : names)
        if (name.starts_with(prefix) && name > after && expected.size() < max)
          expected.push_back(name);
      const ScanPage stored = w.store.scan_page(index, prefix, after, max, "");
      ASSERT_EQ(stored.keys, expected);
      EXPECT_FALSE(stored.failed);
      EXPECT_EQ(stored.rest, "") << "a table in memory is looked at whole";
    }
  }
}

}  // namespace
}  // namespace sluice::store::would_take_test
