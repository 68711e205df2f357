// A table whose memory is used up: a new counter replaces a counter that equals a fresh one, and no
// other.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "durable/durable_life_test.h"
#include "limit/decide.h"
#include "store/asking_test.h"
#include "store/embedded_store.h"
#include "tests/support/dice.h"

namespace sluice::durable {
namespace {

using base::Time;
using limit::State;
using sluice::tests::Dice;
using namespace store::tests;
using limit::Algorithm;
using limit::Limit;
using request::Space;
using namespace tests;

// New keys for three times the table's memory. `length`: the bytes of the next key.
template <class Length>
void expect_a_flood_is_granted(bool keeps_fresh, Length&& length) {
  World w;
  Space like;
  if (keeps_fresh) like.keep_fresh_for = {120 * second};
  w.space = w.spaces.intern("flood/", "", like);
  const Limit brief = bucket(5, 5, second / 100), lasting = fixed(5);
  constexpr int live = 5'000;
  for (int i = 0; i < live; ++i) w.ask({{"live " + std::to_string(i), 3, {lasting}}}, {0});

  Time now{0};
  Asked asked = w.prepare({{"", 1, {brief}}});
  uint64_t flooded = 0;
  for (size_t bytes = 0; bytes < 3 * (size_t{16} << 20); ++flooded) {
    std::string& key = asked.keys.front();
    key.assign(length(), '.');
    const std::string number = std::to_string(flooded);
    std::copy(number.begin(), number.end(), key.begin());
    asked.charges[0].key = key;
    bytes += 32 + key.size();
    now.us += 1;
    w.apply(asked, now);
    ASSERT_TRUE(asked.allowed()) << flooded << " of " << key.size() << " bytes";
  }
  EXPECT_EQ(w.store.stats().refused, 0u);
  EXPECT_GT(w.store.stats().swept, flooded / 2);
  for (int i = 0; i < live; ++i)
    ASSERT_EQ(w.left({"live " + std::to_string(i), 0, {lasting}}, now), 2) << i;
}

// The sweep does not run meanwhile; new counters replace old ones.
TEST(FullTable, AFloodIsGrantedOverLingeringCounters) {
  expect_a_flood_is_granted(true, [] { return size_t{16}; });
}

TEST(FullTable, AFloodIsGrantedOverCountersNotSweptYet) {
  expect_a_flood_is_granted(false, [] { return size_t{16}; });
}

TEST(FullTable, AFloodOfKeysOfAnyLengthIsGranted) {
  Dice dice(4);
  expect_a_flood_is_granted(true, [&] { return 8 + dice(size_t{493}); });
}

// Keys that are stored apart from the table's pages.
TEST(FullTable, AFloodOfLongKeysIsGranted) {
  Dice dice(5);
  expect_a_flood_is_granted(true, [&] { return 513 + dice(size_t{2'000}); });
}

TEST(FullTable, RefusesANewCounterIfNoneIsFresh) {
  World w;
  const Limit lasting = window(5, 1'000 * second);
  int count = 0;
  Asked asked = w.prepare({{"", 1, {lasting}}});
  const auto ask = [&](int number, int64_t us) {
    asked.keys.front() = "key " + std::to_string(number);
    asked.charges[0].key = asked.keys.front();
    w.apply(asked, {us});
    return asked.group.error;
  };
  // At first counters are refused whose stripe is full, in the end all new ones.
  std::vector<int> there;
  for (int refused = 0; refused < 2'000; ++count) {
    const bool granted = ask(count, 0) == request::Error::none;
    if (granted) there.push_back(count);
    refused = granted ? 0 : refused + 1;
  }
  EXPECT_EQ(w.store.stats().swept, 0u);
  EXPECT_EQ(w.store.stats().refused, static_cast<size_t>(count) - there.size());
  EXPECT_EQ(w.store.stats().counters, there.size());
  for (const int number : there) {
    ASSERT_EQ(ask(number, 1), request::Error::none);
    ASSERT_EQ(asked[0].remaining, 3);
  }
  EXPECT_EQ(ask(count, 1'000 * second), request::Error::none);
}

const std::vector<std::vector<Limit>>& kinds_of_counters() {
  static const std::vector<std::vector<Limit>> all = {
      {bucket(3, 1, second / 10)},
      {window(2, second / 2)},
      {window(3, second / 5), window(4, 2 * second)},
      {Limit{Algorithm::sliding_log, 20, {second}}},
      {fixed(4)},
  };
  return all;
}

// The model: counters in a map, which is never full.
struct PlainCounters {
  struct Counter {
    size_t kind = 0;
    std::vector<State> state;
  };
  // A group of counters, each once. `fresh`: the counter begins again.
  struct Group {
    std::vector<Part> parts;
    std::vector<size_t> of_space;
    std::vector<Counter*> counters;
    std::vector<bool> fresh;
  };

  Group random_group(Dice& dice) {
    const auto& kinds = kinds_of_counters();
    Group group;
    for (size_t i = 1 + (dice(3) == 0 ? dice(size_t{4}) : 0); i > 0; --i) {
      const std::string key = std::to_string(dice(40'000)) + padding;
      const size_t space = dice(size_t{2});
      Counter& counter = model[{space, key}];
      if (std::find(group.counters.begin(), group.counters.end(), &counter) != group.counters.end())
        continue;
      // A counter that begins again may have other limits, and then mostly needs another size.
      const bool first = counter.state.empty(), fresh = first || dice(8) == 0;
      if (fresh && !first && dice(2) == 0) counter.kind = dice(kinds.size());
      if (first) counter.kind = dice(10) == 0 ? 4 : dice(size_t{4});
      if (fresh) counter.state.assign(limit::cells(kinds[counter.kind]), {});
      group.counters.push_back(&counter);
      group.fresh.push_back(fresh);
      group.of_space.push_back(space);
      group.parts.push_back({key, 1 + dice(int64_t{2}), kinds[counter.kind]});
    }
    return group;
  }
  // The store refused the group: a counter that should have begun again has its old state, which
  // the model no longer has.
  void forget_new(const Group& group) {
    for (size_t i = 0; i < group.parts.size(); ++i)
      if (group.fresh[i]) model.erase({group.of_space[i], group.parts[i].key});
  }
  static bool allows(const Group& group, Time now) {
    bool allowed = true;
    for (size_t i = 0; i < group.parts.size(); ++i) {
      size_t at = 0;
      for (const Limit& l : group.parts[i].limits) {
        std::vector<State> unused(limit::cells(l));
        State* const state = &group.counters[i]->state[at];
        allowed &= limit::decide(state, l, group.parts[i].cost, now, unused.data()).allowed;
        at += limit::cells(l);
      }
    }
    return allowed;
  }
  // Takes if the group is `allowed`, and compares with the decisions in `asked`.
  static void take_as(const Asked& asked, const Group& group, bool allowed, Time now) {
    size_t decision = 0;
    for (size_t i = 0; i < group.parts.size(); ++i) {
      size_t at = 0;
      for (const Limit& l : group.parts[i].limits) {
        State* const state = &group.counters[i]->state[at];
        std::vector<State> next(limit::cells(l));
        limit::Decision d = limit::decide(state, l, group.parts[i].cost, now, next.data());
        if (!allowed && d.allowed) d = limit::decide(state, l, 0, now, next.data());
        std::copy(next.begin(), next.end(), state);
        ASSERT_EQ(asked[decision].remaining, d.remaining);
        ASSERT_EQ(asked[decision].retry_after, d.retry_after);
        ++decision;
        at += limit::cells(l);
      }
    }
  }

  const std::string padding = std::string(400, '.');  // so that few counters fill the table
  std::map<std::pair<size_t, std::string>, Counter> model;
};

// A full table against the model: each decision is the same as with memory for all counters,
// whichever ones are replaced. Groups settle together, and counters change their sizes.
TEST(FullTable, RemovesOnlyCountersThatEqualFreshOnes) {
  World w;
  Space like;
  like.keep_fresh_for = {60 * second};
  const Space* const spaces[] = {w.space, w.spaces.intern("lingering/", "", like)};
  Dice dice(6);
  PlainCounters model;
  Time now{second};
  size_t denied = 0, granted = 0;
  for (int step = 0; step < 250'000; ++step) {
    now.us += dice(int64_t{40});
    const PlainCounters::Group group = model.random_group(dice);
    Asked asked = w.prepare(group.parts);
    for (size_t i = 0; i < group.parts.size(); ++i) {
      asked.charges[i].space = spaces[group.of_space[i]];
      asked.charges[i].reset_first = group.fresh[i];
    }
    w.apply(asked, now);
    if (asked.group.error == request::Error::memory) {
      model.forget_new(group);
      continue;
    }
    const bool allowed = PlainCounters::allows(group, now);
    ASSERT_EQ(asked.allowed(), allowed) << step;
    ++(allowed ? granted : denied);
    PlainCounters::take_as(asked, group, allowed, now);
    ASSERT_FALSE(HasFatalFailure()) << step;
  }
  EXPECT_GT(granted, 100'000u);
  EXPECT_GT(denied, 1'000u);
  EXPECT_GT(w.store.stats().swept, 50'000u);
  EXPECT_GT(w.store.stats().memory_bytes, w.store.stats().memory_bytes_max / 8 * 7);
}

// Stripes of a table of this size share their memory, and each thread replaces counters.
TEST(FullTableThreads, CountersThatLastAreExactWhileOthersAreReplaced) {
  constexpr int hot = 50, threads = 4, units = 200;
  World w;
  const std::vector<Limit> lasting = {fixed(units)}, brief = {window(1, second / 100)};
  w.spaces.intern_limits(lasting);
  w.spaces.intern_limits(brief);
  std::atomic<int64_t> now_us{second};
  std::atomic<uint64_t> granted{0}, refused{0};
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      Dice dice(static_cast<uint32_t>(t));
      Asked asked = w.prepare({{"", 1, brief}}), asked_hot = w.prepare({{"", 1, lasting}});
      for (int i = 0; i < 150'000; ++i) {
        const Time now{now_us.fetch_add(1)};
        std::string& key = asked.keys.front();
        key = std::to_string(t) + ":" + std::to_string(i);
        key.resize(16 + dice(size_t{200}), '.');
        asked.charges[0].key = key;
        w.apply(asked, now);
        if (!asked.allowed()) ++refused;
        if (i % 10 != 0) continue;
        asked_hot.keys.front() = "hot " + std::to_string(dice(hot));
        asked_hot.charges[0].key = asked_hot.keys.front();
        w.apply(asked_hot, now);
        granted += asked_hot.allowed() ? 1 : 0;
      }
    });
  }
  for (auto& thread : running) thread.join();
  EXPECT_EQ(refused, 0u);
  EXPECT_EQ(granted, static_cast<uint64_t>(hot) * units);
  EXPECT_GT(w.store.stats().swept, 400'000u);
}

// A changed counter is not replaced before it is committed; then it is replaced as in a table in
// memory.
TEST(FullTable, ADurableTableReplacesCommittedCounters) {
  Disk disk;
  {
    Life life(disk, durable::Durability::always);
    life.until_loaded();
    life.world.space = life.spaces[2];
    const Limit brief = bucket(5, 5, second), lasting = fixed(5);
    for (int i = 0; i < 1'000; ++i) life.ask({{"live " + std::to_string(i), 3, {lasting}}}, start);
    Time now = start;
    const std::string padding(400, '.');
    for (int wave = 0; wave < 10; ++wave) {
      for (int i = 0; i < 10'000; ++i) {
        const Asked asked =
            life.ask({{std::to_string(wave * 10'000 + i) + padding, 5, {brief}}}, now);
        ASSERT_EQ(asked.group.error, request::Error::none) << wave << " " << i;
        ASSERT_TRUE(asked.allowed());
      }
      life.until_committed();
      now.us += 2 * second;  // full again, and kept for a while
    }
    EXPECT_EQ(life.store->stats().refused, 0u);
    EXPECT_GT(life.store->stats().swept, 50'000u);
    EXPECT_TRUE(life.store->close());
  }
  Life life(disk, durable::Durability::always, {start.us + 1'000 * second}, size_t{64} << 20);
  life.until_loaded();
  life.world.space = life.spaces[2];
  for (int i = 0; i < 1'000; ++i) {
    const Asked asked = life.ask({{"live " + std::to_string(i), 0, {fixed(5)}}}, start);
    ASSERT_EQ(asked[0].remaining, 2) << i;
  }
}

}  // namespace
}  // namespace sluice::durable
