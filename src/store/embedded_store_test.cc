// The table in memory (store/embedded_store.h): groups against a model of fixed windows in a map,
// all algorithms on one counter, the memory bound, the sweep, and several threads.
#include "store/embedded_store.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "limit/decide.h"
#include "tests/support/dice.h"

namespace sluice::store::embedded_store_test {
namespace {

// No list of limits is interned in these tests, and no counter changes its limits.
const request::Spaces no_spaces;

using base::Time;
using limit::Algorithm;
using limit::Decision;
using limit::Limit;
using request::Batch;
using request::Charge;
using request::Group;
using request::Space;

Limit window(int64_t quota, int64_t us) {
  return {Algorithm::fixed_window, quota, {us}};
}

// Builds a batch: groups of charges (space, key, cost, limits).
struct Asking {
  void group() { groups.push_back({.charge_first = static_cast<uint32_t>(charges.size())}); }
  void charge(const Space& space, std::string_view key, int64_t cost,
              std::span<const Limit> limits) {
    Charge c;
    c.space = &space;
    c.key = key;
    c.cost = cost;
    c.limits = limits;
    c.decision_first = static_cast<uint32_t>(decisions.size());
    charges.push_back(c);
    decisions.resize(decisions.size() + limits.size());
    ++groups.back().charge_count;
  }
  Batch batch() { return {groups, charges, decisions}; }
  const Decision& decision(size_t charge, size_t slot = 0) const {
    return decisions[charges[charge].decision_first + slot];
  }

  std::vector<Group> groups;
  std::vector<Charge> charges;
  std::vector<Decision> decisions;
};

Decision take(EmbeddedStore& store, const Space& space, std::string_view key, int64_t cost,
              const Limit& limit, Time now) {
  Asking asking;
  asking.group();
  asking.charge(space, key, cost, {&limit, 1});
  EXPECT_EQ(store.apply(asking.batch(), now).settled, 1u);
  return asking.decision(0);
}

// The model: fixed windows in a map; it decides one group at a time.
struct Model {
  struct Window {
    int64_t end_us = 0, used = 0;
  };
  std::map<std::tuple<uint32_t, std::string, size_t>, Window> windows;

  Window& live(const Charge& c, size_t slot, Time now) {
    auto& w = windows[{c.space->id, std::string(c.key), slot}];
    if (w.used == 0 || now.us >= w.end_us) w = {};
    if (w.used > 0 && w.end_us - c.limits[slot].window.us > now.us)
      w.end_us = now.us + c.limits[slot].window.us;
    return w;
  }

  bool take(std::span<const Charge> charges, Time now, std::vector<Decision>& out) {
    bool allowed = true;
    for (const auto& c : charges) {
      for (size_t slot = 0; slot < c.limits.size(); ++slot) {
        allowed &= c.cost <= c.limits[slot].quota - live(c, slot, now).used;
      }
    }
    for (const auto& c : charges) {
      for (size_t slot = 0; slot < c.limits.size(); ++slot) {
        const auto& l = c.limits[slot];
        auto& w = live(c, slot, now);
        const int64_t left = l.quota - w.used;
        Decision d;
        d.limit = l.quota;
        d.allowed = c.cost <= left;
        if (allowed && c.cost > 0) {
          if (w.used == 0) w.end_us = now.us + l.window.us;
          w.used += c.cost;
        }
        d.remaining = l.quota - w.used;
        d.reset_after.us = w.used > 0 ? w.end_us - now.us : 0;
        if (!d.allowed)
          d.retry_after = c.cost > l.quota ? base::never : base::Duration{w.end_us - now.us};
        out.push_back(d);
      }
    }
    return allowed;
  }
};

void expect_equal(const Decision& a, const Decision& b) {
  ASSERT_EQ(a.allowed, b.allowed);
  ASSERT_EQ(a.limit, b.limit);
  ASSERT_EQ(a.remaining, b.remaining);
  ASSERT_EQ(a.reset_after, b.reset_after);
  ASSERT_EQ(a.retry_after, b.retry_after);
}

TEST(EmbeddedStore, RandomGroupsMatchTheModel) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    sluice::tests::Dice random(seed);
    EmbeddedStore store(0, base::Hash(seed), no_spaces);
    Model model;
    std::vector<Space> spaces(4);
    for (uint32_t i = 0; i < 4; ++i) spaces[i].id = i;
    // Space i has i % 3 + 1 limits.
    std::vector<std::vector<Limit>> limits(4);
    for (size_t i = 0; i < 4; ++i) {
      for (size_t slot = 0; slot < i % 3 + 1; ++slot) {
        limits[i].push_back(window(1 + random(int64_t{8}), 1 + random(int64_t{2'000})));
      }
    }
    Time now{1'000'000};
    for (int round = 0; round < 1'500; ++round) {
      now.us += random(int64_t{40}) - 4;  // sometimes a step back
      Asking asking;
      std::vector<std::string> keys;
      keys.reserve(64);
      for (int g = random(4); g >= 0; --g) {
        asking.group();
        const uint32_t first = random(12u);
        for (uint32_t c = 0, n = 1 + random(5u); c < n; ++c) {
          keys.push_back(std::to_string((first + c) / 4));  // (space, key) is used once in a group
          const size_t space = (first + c) % 4;
          asking.charge(spaces[space], keys.back(), random(int64_t{4}), limits[space]);
        }
      }
      ASSERT_EQ(store.apply(asking.batch(), now).settled, asking.groups.size());
      std::vector<Decision> expected;
      for (const auto& group : asking.groups) {
        const bool allowed =
            model.take(std::span(asking.charges).subspan(group.charge_first, group.charge_count),
                       now, expected);
        ASSERT_EQ(group.allowed, allowed);
      }
      ASSERT_EQ(expected.size(), asking.decisions.size());
      for (size_t i = 0; i < expected.size(); ++i) expect_equal(asking.decisions[i], expected[i]);
      if (round % 100 == 0) store.sweep(now, store.chains());
    }
  }
}

// Limits of every algorithm on one counter: the store separates their cells, and a group takes from
// all of them or from none. The algorithms are tested against models in limit/.
TEST(EmbeddedStore, LimitsOfAllAlgorithmsShareACounter) {
  sluice::tests::Dice dice(9);
  EmbeddedStore store(0, base::Hash(3), no_spaces);
  const std::vector<Limit> limits = {
      {Algorithm::sliding_window, 9, {700}},  {Algorithm::token_bucket, 5, {300}, 7},
      {Algorithm::unlimited, 1, {}},          {Algorithm::sliding_log, 8, {500}},
      {Algorithm::aligned_window, 10, {400}}, {Algorithm::fixed_window, 9, {600}},
      {Algorithm::concurrency, 9, {350}, 900}};
  const Space spaces[] = {{0, "", ""}, {1, "", ""}};
  std::map<std::pair<uint32_t, std::string>, std::vector<limit::State>> model;
  const auto states = [&](uint32_t space, const std::string& key) -> std::vector<limit::State>& {
    auto& state = model[{space, key}];
    if (state.empty()) state.resize(limit::cells(limits));
    return state;
  };
  Time now{1'000'000};
  int granted = 0, refused = 0;
  for (int round = 0; round < 30'000; ++round) {
    now.us += dice(int64_t{60});
    const int64_t cost = dice(int64_t{4});
    Asking asking;
    asking.group();
    std::vector<std::string> keys;
    for (uint32_t space = 0; space < 2; ++space) keys.push_back(std::to_string(dice(4)));
    const uint32_t both = 1 + dice(2u);
    for (uint32_t space = 0; space < both; ++space)
      asking.charge(spaces[space], keys[space], cost, limits);
    ASSERT_EQ(store.apply(asking.batch(), now).settled, 1u);

    bool allowed = true;
    for (uint32_t space = 0; space < both; ++space) {
      auto state = states(space, keys[space]);
      limit::State* at = state.data();
      for (const auto& limit : limits) {
        allowed &= limit::decide(at, limit, cost, now, at).allowed;
        at += limit::cells(limit);
      }
    }
    ASSERT_EQ(asking.groups[0].allowed, allowed);
    ++(allowed ? granted : refused);
    for (uint32_t space = 0; space < both; ++space) {
      limit::State* at = states(space, keys[space]).data();
      for (size_t slot = 0; slot < limits.size(); ++slot) {
        std::vector<limit::State> before(at, at + limit::cells(limits[slot]));
        const Decision asked = limit::decide(before.data(), limits[slot], cost, now, before.data());
        const Decision settled = limit::decide(at, limits[slot], allowed ? cost : 0, now, at);
        expect_equal(asking.decision(space, slot), allowed || !asked.allowed ? asked : settled);
        at += limit::cells(limits[slot]);
      }
    }
    if (round % 50 == 0) store.sweep(now, store.chains());
  }
  EXPECT_GT(granted, 3'000);
  EXPECT_GT(refused, 3'000);
}

// Every sequence of four groups over two keys with small quotas. A group takes 0-2 of key a and 0-2
// of key b; between two groups the clock goes 0-2 us on.
TEST(EmbeddedStore, EveryShortSequenceMatchesTheModel) {
  const Space space{7, "", ""};
  const Limit small = window(2, 3), smaller = window(1, 2);
  constexpr int steps = 4, takes = 3 * 3, clocks = 3;
  int total = takes;
  for (int i = 1; i < steps; ++i) total *= takes * clocks;
  EmbeddedStore store(0, base::Hash(5), no_spaces);
  for (int sequence = 0; sequence < total; ++sequence) {
    Model model;
    Time now{1'000};
    // A new pair of keys for each sequence, which is cheaper than a new store.
    const std::string a = "a" + std::to_string(sequence), b = "b" + std::to_string(sequence);
    for (int i = 0, rest = sequence; i < steps; ++i, rest /= takes * clocks) {
      const int take = rest % takes;
      Asking asking;
      asking.group();
      asking.charge(space, a, take % 3, {&small, 1});
      asking.charge(space, b, take / 3, {&smaller, 1});
      store.apply(asking.batch(), now);
      std::vector<Decision> expected;
      ASSERT_EQ(asking.groups[0].allowed, model.take(asking.charges, now, expected)) << sequence;
      for (size_t d = 0; d < expected.size(); ++d) expect_equal(asking.decisions[d], expected[d]);
      if (HasFatalFailure()) FAIL() << "sequence " << sequence << ", step " << i;
      now.us += rest / takes % clocks;
    }
    if (sequence % 5'000 == 0) store.sweep({1'000'000}, store.chains() * 2);
  }
}

TEST(EmbeddedStore, ARefusedGroupTakesNothingAndReportsTheRemainingUnits) {
  EmbeddedStore store(0, base::Hash(1), no_spaces);
  const Space space{0, "", ""};
  const Limit ten = window(10, 1'000), one = window(1, 1'000);
  take(store, space, "small", 1, one, {0});
  Asking asking;
  asking.group();
  asking.charge(space, "large", 4, {&ten, 1});
  asking.charge(space, "small", 1, {&one, 1});
  store.apply(asking.batch(), {100});
  EXPECT_FALSE(asking.groups[0].allowed);
  EXPECT_TRUE(asking.decision(0).allowed);
  EXPECT_EQ(asking.decision(0).remaining, 10);
  EXPECT_FALSE(asking.decision(1).allowed);
  EXPECT_EQ(asking.decision(1).retry_after.us, 900);
  EXPECT_EQ(store.stats().counters, 1u);  // "large" was not created
}

TEST(EmbeddedStore, LimitsWithoutACounterCostNone) {
  EmbeddedStore store(0, base::Hash(1), no_spaces);
  const Space space{0, "", ""};
  const Limit open{Algorithm::unlimited, 5, {}}, closed{Algorithm::deny, 0, {}};
  const auto yes = take(store, space, "k", 1, open, {0}),
             no = take(store, space, "k", 1, closed, {0});
  EXPECT_TRUE(yes.allowed);
  EXPECT_EQ(yes.remaining, 5);
  EXPECT_FALSE(no.allowed);
  EXPECT_EQ(no.retry_after, base::never);
  EXPECT_EQ(store.stats().counters, 0u);
}

TEST(EmbeddedStore, CostNothingAndRefusedAtOnceStoreNothing) {
  EmbeddedStore store(0, base::Hash(1), no_spaces);
  const Space space{0, "", ""};
  take(store, space, "a", 0, window(3, 10), {0});
  take(store, space, "b", 4, window(3, 10), {0});
  EXPECT_EQ(store.stats().counters, 0u);
}

TEST(EmbeddedStore, WithoutMemoryNewCountersFailAndOldOnesContinue) {
  EmbeddedStore store(0, base::Hash(1), no_spaces);  // 0 is raised to the smallest table
  const Space space{0, "", ""};
  const Limit limit = window(1'000, 1'000'000);
  uint64_t count = 0;
  while (true) {
    const std::string key = "counter " + std::to_string(count);
    Asking asking;
    asking.group();
    asking.charge(space, key, 1, {&limit, 1});
    ASSERT_EQ(store.apply(asking.batch(), {0}).settled, 1u);
    if (asking.groups[0].error == request::Error::memory) break;
    ++count;
  }
  EXPECT_GT(count, 190'000u);
  EXPECT_LE(store.stats().memory_bytes, size_t{16} << 20);
  EXPECT_EQ(take(store, space, "counter 0", 1, limit, {0}).remaining, 998);

  // A group with an existing counter and two new ones takes nothing from the existing one, and the
  // store stops after that group.
  Asking asking;
  asking.group();
  asking.charge(space, "counter 1", 1, {&limit, 1});
  const std::string large(10'000, 'x');
  asking.charge(space, "new", 1, {&limit, 1});
  asking.charge(space, large, 1, {&limit, 1});
  asking.group();
  asking.charge(space, "counter 1", 1, {&limit, 1});
  EXPECT_EQ(store.apply(asking.batch(), {0}).settled, 1u);
  EXPECT_EQ(asking.groups[0].error, request::Error::memory);
  EXPECT_FALSE(asking.groups[0].allowed);
  EXPECT_EQ(take(store, space, "counter 1", 0, limit, {0}).remaining, 999);
  EXPECT_GE(store.stats().refused, 2u);

  // There is room again when the old counters have expired.
  for (int i = 0; i < 300; ++i) store.housekeep({2'000'000});
  EXPECT_EQ(store.stats().counters, 0u);
  EXPECT_EQ(store.stats().swept, count);
  EXPECT_EQ(take(store, space, "new", 1, limit, {2'000'000}).remaining, 999);
}

TEST(EmbeddedStore, TheSweepKeepsCountersThatStillCount) {
  EmbeddedStore store(0, base::Hash(1), no_spaces);
  const Space space{0, "", ""};
  for (int i = 0; i < 10'000; ++i)
    take(store, space, std::to_string(i), 1, window(5, i % 2 == 0 ? 100 : 200), {0});
  store.sweep({100}, store.chains() * 2);
  EXPECT_EQ(store.stats().counters, 5'000u);
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(take(store, space, std::to_string(i), 0, window(5, i % 2 == 0 ? 100 : 200), {100})
                  .remaining,
              i % 2 == 0 ? 5 : 4);
  }
}

TEST(EmbeddedStoreDeathTest, OneKeyTwiceInAGroupIsABug) {
  EmbeddedStore store(0, base::Hash(1), no_spaces);
  const Space space{0, "", ""};
  const Limit limit = window(5, 100);
  Asking asking;
  asking.group();
  asking.charge(space, "k", 1, {&limit, 1});
  asking.charge(space, "k", 1, {&limit, 1});
  EXPECT_DEATH(store.apply(asking.batch(), {0}), "check failed");
}

TEST(EmbeddedStore, ContinuesAfterAGroupThatMayFail) {
  EmbeddedStore store(0, base::Hash(1), no_spaces);
  const Space space{0, "", ""};
  const Limit limit = window(5, 1'000'000);
  take(store, space, "old", 1, limit, {0});
  const std::string large(size_t{17} << 20, 'x');
  Asking asking;
  for (const bool may_fail : {true, false}) {
    asking.group();
    asking.groups.back().may_fail = may_fail;
    asking.charge(space, large, 1, {&limit, 1});
    asking.group();
    asking.charge(space, "old", 1, {&limit, 1});
  }
  EXPECT_EQ(store.apply(asking.batch(), {0}).settled, 3u);
  EXPECT_EQ(asking.groups[0].error, request::Error::memory);
  EXPECT_TRUE(asking.groups[1].allowed);
  EXPECT_EQ(asking.groups[2].error, request::Error::memory);
  EXPECT_FALSE(asking.groups[3].allowed);
  EXPECT_EQ(take(store, space, "old", 0, limit, {0}).remaining, 3);
}

// The sweep runs beside takes of the same and of other counters: no units are lost.
TEST(EmbeddedStoreThreads, TheSweepRemovesOnlyExpiredCounters) {
  EmbeddedStore store(0, base::Hash(1), no_spaces);
  const Space brief{0, "", ""}, lasting{1, "", ""};
  const Limit short_limit = window(1'000'000, 50), long_limit = window(1'000'000, 1'000'000'000);
  std::atomic<int64_t> now_us{1'000};
  std::atomic<bool> done{false};
  constexpr int threads = 3, rounds = 30'000, keys = 500;
  std::thread sweeper([&] {
    while (!done) store.housekeep({now_us});
  });
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      sluice::tests::Dice dice(static_cast<uint32_t>(t) + 1);
      for (int i = 0; i < rounds; ++i) {
        const Time now{now_us.fetch_add(1) + 1};
        take(store, brief, std::to_string(dice(5'000)), 1, short_limit, now);
        take(store, lasting, std::to_string(i % keys), 1, long_limit, now);
      }
    });
  }
  for (auto& thread : running) thread.join();
  done = true;
  sweeper.join();
  for (int key = 0; key < keys; ++key) {
    EXPECT_EQ(take(store, lasting, std::to_string(key), 0, long_limit, {now_us}).remaining,
              1'000'000 - threads * rounds / keys);
  }
  EXPECT_GT(store.stats().swept, 1'000u);
}

// Random groups of the keys "0" to "39" by one thread, with what was granted and refused, by key.
struct RandomGroups {
  static constexpr int keys = 40, rounds = 20'000;

  void run(EmbeddedStore& store, const Space& space, const std::vector<Limit>& limits,
           uint32_t seed) {
    sluice::tests::Dice random(seed);
    for (int round = 0; round < rounds; ++round) {
      Asking asking;
      asking.group();
      std::map<int, int64_t> wanted;
      for (int n = 1 + random(4); n > 0; --n) wanted[random(keys)] = 1 + random(int64_t{3});
      std::vector<std::string> names;
      names.reserve(wanted.size());
      for (const auto& [key, cost] : wanted) {
        names.push_back(std::to_string(key));
        asking.charge(space, names.back(), cost, {&limits[static_cast<size_t>(key)], 1});
      }
      store.apply(asking.batch(), {round});
      if (asking.groups[0].allowed) {
        for (const auto& [key, cost] : wanted) granted[key] += cost;
      } else {
        refused.push_back(std::move(wanted));
      }
    }
  }

  std::map<int, int64_t> granted;
  std::vector<std::map<int, int64_t>> refused;
};

// Several threads take overlapping groups, more than the quotas: the grants of each key add up to
// what is missing, no key grants more than its quota, and each refused group has a key that has too
// little left to the end.
TEST(EmbeddedStoreThreads, OverlappingGroupsAddUpExactly) {
  constexpr int threads = 4, keys = RandomGroups::keys;
  EmbeddedStore store(0, base::Hash(1), no_spaces);
  const Space space{0, "", ""};
  std::vector<Limit> limits;
  for (int i = 0; i < keys; ++i) limits.push_back(window(500 + 137 * (i % 7), 1'000'000'000));
  std::vector<RandomGroups> asked(threads);
  std::vector<std::thread> running;
  for (uint32_t t = 0; t < threads; ++t)
    running.emplace_back([&, t] { asked[t].run(store, space, limits, t + 1); });
  std::thread sweeper([&] {
    for (int i = 0; i < 200; ++i) {
      store.housekeep({0});
      store.stats();
    }
  });
  for (auto& thread : running) thread.join();
  sweeper.join();

  std::vector<int64_t> left;
  for (int key = 0; key < keys; ++key) {
    int64_t sum = 0;
    for (const RandomGroups& its : asked) {
      if (const auto at = its.granted.find(key); at != its.granted.end()) sum += at->second;
    }
    const auto& limit = limits[static_cast<size_t>(key)];
    left.push_back(
        take(store, space, std::to_string(key), 0, limit, {RandomGroups::rounds}).remaining);
    EXPECT_EQ(left.back(), limit.quota - sum) << key;
    EXPECT_GE(left.back(), 0);
  }
  size_t refusals = 0;
  for (const RandomGroups& its : asked) {
    refusals += its.refused.size();
    for (const auto& wanted : its.refused) {
      bool justified = false;
      for (const auto& [key, cost] : wanted) justified |= cost > left[static_cast<size_t>(key)];
      ASSERT_TRUE(justified);
    }
  }
  EXPECT_GT(refusals, 1'000u);
}

// Threads create new keys, so that stripes grow under load.
TEST(EmbeddedStoreThreads, GrowthUnderLoadLosesNothing) {
  constexpr int threads = 4;
  constexpr int64_t keys = 50'000;
  EmbeddedStore store(size_t{64} << 20, base::Hash(1), no_spaces);
  const Space space{0, "", ""};
  const Limit limit = window(threads, 1'000'000'000);
  std::vector<std::thread> running;
  std::atomic<int64_t> granted{0};
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&] {
      for (int64_t i = 0; i < keys; i += 8) {
        Asking asking;
        std::vector<std::string> names;
        names.reserve(8);
        for (int64_t k = i; k < i + 8; ++k) {
          names.push_back("key " + std::to_string(k));
          asking.group();
          asking.charge(space, names.back(), 1, {&limit, 1});
        }
        store.apply(asking.batch(), {0});
        for (const auto& group : asking.groups) granted += group.allowed;
      }
    });
  }
  for (auto& thread : running) thread.join();
  EXPECT_EQ(granted.load(), threads * keys);
  EXPECT_EQ(store.stats().counters, static_cast<uint64_t>(keys));
  for (int64_t i = 0; i < keys; ++i) {
    ASSERT_FALSE(take(store, space, "key " + std::to_string(i), 1, limit, {0}).allowed);
  }
}

}  // namespace
}  // namespace sluice::store::embedded_store_test
