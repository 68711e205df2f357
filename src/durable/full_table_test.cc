// A table whose memory is used up: a new counter takes the place of one that equals a fresh one,
// and never of another.
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

// A flood of new keys over a table that has room for a third of them. `length`: bytes of a key.
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

// Nothing is swept meanwhile but by those that want a place.
TEST(FullTable, AFloodOverWhatLingersIsGranted) {
  expect_a_flood_is_granted(true, [] { return size_t{16}; });
}

TEST(FullTable, AFloodOverWhatIsNotSweptYetIsGranted) {
  expect_a_flood_is_granted(false, [] { return size_t{16}; });
}

TEST(FullTable, AFloodOfKeysOfAnyLengthIsGranted) {
  Dice dice(4);
  expect_a_flood_is_granted(true, [&] { return 8 + dice(size_t{493}); });
}

// Keys that lie outside of the table's pages.
TEST(FullTable, AFloodOfLongKeysIsGranted) {
  Dice dice(5);
  expect_a_flood_is_granted(true, [&] { return 513 + dice(size_t{2'000}); });
}

TEST(FullTable, WhereNothingIsFreshANewCounterIsRefused) {
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
  // Refused first are those whose stripe has no place left, in the end all.
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

// Against limits in plain maps, over a full table: whatever takes whose place, every decision is
// what it would be with room for all. Groups settle together, and counters change their size.
TEST(FullTable, NothingThatDiffersFromAFreshCounterGoes) {
  World w;
  Space like;
  like.keep_fresh_for = {60 * second};
  const Space* const spaces[] = {w.space, w.spaces.intern("lingering/", "", like)};
  Dice dice(6);
  const std::vector<std::vector<Limit>> kinds = {
      {bucket(3, 1, second / 10)},
      {window(2, second / 2)},
      {window(3, second / 5), window(4, 2 * second)},
      {Limit{Algorithm::sliding_log, 20, {second}}},
      {fixed(4)},
  };
  struct Counter {
    size_t kind = 0;
    std::vector<State> state;
  };
  std::map<std::pair<size_t, std::string>, Counter> model;
  const std::string padding(400, '.');  // so that few fill the table
  Time now{second};
  size_t refused = 0, denied = 0, granted = 0;
  for (int step = 0; step < 250'000; ++step) {
    now.us += dice(int64_t{40});
    std::vector<Part> parts;
    std::vector<size_t> of_space;
    std::vector<Counter*> counters;
    std::vector<bool> anew;
    for (size_t i = 1 + (dice(3) == 0 ? dice(size_t{4}) : 0); i > 0; --i) {
      const std::string key = std::to_string(dice(40'000)) + padding;
      const size_t space = dice(size_t{2});
      Counter& counter = model[{space, key}];
      if (std::find(counters.begin(), counters.end(), &counter) != counters.end()) continue;
      // A counter begins again with other limits, and mostly needs another place then.
      const bool first = counter.state.empty(), fresh = first || dice(8) == 0;
      if (fresh && !first && dice(2) == 0) counter.kind = dice(kinds.size());
      if (first) counter.kind = dice(10) == 0 ? 4 : dice(size_t{4});
      if (fresh) counter.state.assign(limit::cells(kinds[counter.kind]), {});
      counters.push_back(&counter);
      anew.push_back(fresh);
      of_space.push_back(space);
      parts.push_back({key, 1 + dice(int64_t{2}), kinds[counter.kind]});
    }
    Asked asked = w.prepare(parts);
    for (size_t i = 0; i < parts.size(); ++i) {
      asked.charges[i].space = spaces[of_space[i]];
      asked.charges[i].reset_first = anew[i];
    }
    w.apply(asked, now);
    if (asked.group.error == request::Error::memory) {
      // Nothing happened: the counter that should have started again is as it was, so its model is
      // unknown.
      for (size_t i = 0; i < parts.size(); ++i)
        if (anew[i]) model.erase({of_space[i], parts[i].key});
      ++refused;
      continue;
    }
    bool allowed = true;
    for (size_t i = 0; i < parts.size(); ++i) {
      size_t at = 0;
      for (const Limit& l : parts[i].limits) {
        std::vector<State> unused(limit::cells(l));
        allowed &=
            limit::decide(&counters[i]->state[at], l, parts[i].cost, now, unused.data()).allowed;
        at += limit::cells(l);
      }
    }
    ASSERT_EQ(asked.allowed(), allowed) << step;
    ++(allowed ? granted : denied);
    size_t decision = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      size_t at = 0;
      for (const Limit& l : parts[i].limits) {
        State* const state = &counters[i]->state[at];
        std::vector<State> next(limit::cells(l));
        limit::Decision d = limit::decide(state, l, parts[i].cost, now, next.data());
        if (!allowed && d.allowed) d = limit::decide(state, l, 0, now, next.data());
        std::copy(next.begin(), next.end(), state);
        ASSERT_EQ(asked[decision].remaining, d.remaining) << step;
        ASSERT_EQ(asked[decision].retry_after, d.retry_after) << step;
        ++decision;
        at += limit::cells(l);
      }
    }
  }
  EXPECT_GT(granted, 100'000u);
  EXPECT_GT(denied, 1'000u);
  EXPECT_GT(w.store.stats().swept, 50'000u);
  EXPECT_GT(w.store.stats().memory_bytes, w.store.stats().memory_bytes_max / 8 * 7);
}

// Stripes of a table of this size share slabs, and each thread replaces counters of its own.
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

// What has changed is not forgotten before it is committed; then it is as in memory.
TEST(FullTable, ADurableOneReplacesWhatIsCommitted) {
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
      now.us += 2 * second;  // full again, and lingering
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
