// `purge` alone forgets counters that keep their limits, and it forgets no other counters.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "store/embedded_store.h"
#include "tests/support/dice.h"

namespace sluice::store::purge_test {
namespace {

using base::Time;
using limit::Algorithm;
using limit::Limit;
using request::Space;
using request::Verb;

constexpr int64_t second = 1'000'000, start_us = 1'000'000'000 * second;

struct World {
  World() {
    Space like;
    like.windows = {base::seconds(1), base::seconds(60)};
    kept = spaces.intern("kept:", "", std::move(like));
    plain = spaces.intern("plain:", "", Space{});
  }

  // Returns the mask of the windows that were answered.
  uint32_t ask(const Space& space, std::string_view key, Verb verb, int64_t cost,
               const std::vector<Limit>& limits, Time now) {
    request::Group group{.charge_count = 1};
    request::Charge charge;
    charge.space = &space;
    charge.key = key;
    charge.verb = verb;
    charge.cost = cost;
    charge.limits = limits;
    charge.keeps_limits = &space == kept;
    if (!charge.keeps_limits) charge.limits_id = spaces.intern_limits(limits);
    limit::Decision decisions[2];
    EXPECT_EQ(store.apply({{&group, 1}, {&charge, 1}, decisions}, now).settled, 1u);
    EXPECT_EQ(group.error, request::Error::none);
    return charge.slot_mask;
  }
  bool is_there(std::string_view key, Time now) {
    return ask(*kept, key, Verb::peek, 0, {}, now) != 0;
  }
  void sweep_twice(Time now) { store.sweep(now, 4 * store.chains() + 4 * EmbeddedStore::stripes); }

  request::Spaces spaces;
  const Space* kept = nullptr;
  const Space* plain = nullptr;
  EmbeddedStore store{0, base::Hash(7), spaces};
};

Limit per_minute(int64_t quota) {
  return {Algorithm::token_bucket, quota, base::seconds(60), quota};
}

// The model: n of a minute's limit of N are back after n/N minutes.
TEST(Purge, ForgetsExactlyTheFullOnesAndCountsThem) {
  World world;
  sluice::tests::Dice dice(11);
  constexpr size_t count = 5'000;
  std::vector<int64_t> full_us;
  const Time start{start_us};
  for (size_t i = 0; i < count; ++i) {
    const int64_t quota = 1 + dice(int64_t{1000}), cost = dice(quota + 1);
    full_us.push_back(start_us + (cost * 60 * second + quota - 1) / quota);
    world.ask(*world.kept, "k" + std::to_string(i), Verb::take, cost, {per_minute(quota)}, start);
  }
  const Limit window{Algorithm::fixed_window, 10, base::seconds(1)};
  for (size_t i = 0; i < count; ++i)
    world.ask(*world.plain, "p" + std::to_string(i), Verb::take, 1, {window}, start);
  EXPECT_EQ(world.store.stats().counters, 2 * count);

  uint64_t gone = 0;
  std::vector<bool> there(count, true);
  for (const int64_t after :
       {int64_t{0}, second / 2, 7 * second, 30 * second, int64_t{59'999'999}, 60 * second}) {
    const Time now{start_us + after};
    size_t expected = 0;
    for (size_t i = 0; i < count; ++i) {
      if (!there[i] || full_us[i] > now.us) continue;
      there[i] = false;
      ++expected;
    }
    EXPECT_EQ(world.store.purge(now), expected) << after;
    gone += expected;
    EXPECT_EQ(world.store.stats().purged, gone);
    EXPECT_EQ(world.store.stats().counters, 2 * count - gone) << "no other counter goes";
    for (size_t i = 0; i < count; i += 7)
      EXPECT_EQ(world.is_there("k" + std::to_string(i), now), there[i]) << i << " after " << after;
  }
  EXPECT_EQ(gone, count);
  EXPECT_EQ(world.store.stats().swept, 0u);
  world.sweep_twice({start_us + 60 * second});
  EXPECT_EQ(world.store.stats().counters, 0u);
  EXPECT_EQ(world.store.stats().swept, count);
  EXPECT_EQ(world.store.stats().purged, count);
}

TEST(Purge, SweepingDoesNotRemoveBucketsKeptWhenFull) {
  World world;
  for (int i = 0; i < 100; ++i)
    world.ask(*world.kept, "k" + std::to_string(i), Verb::take, 0, {per_minute(5)}, {start_us});
  world.ask(*world.kept, "without limits", Verb::take, 9, {}, {start_us});
  world.sweep_twice({start_us + 3600 * second});
  EXPECT_EQ(world.store.stats().counters, 101u);
  EXPECT_EQ(world.store.purge({start_us + 3600 * second}), 101u);
  EXPECT_EQ(world.store.stats().counters, 0u);
}

// A bucket is forgotten only when every window of it is full.
TEST(Purge, WaitsForEveryWindow) {
  World world;
  const Limit per_second{Algorithm::token_bucket, 10, base::seconds(1), 10};
  world.ask(*world.kept, "k", Verb::take, 10, {per_second, per_minute(10)}, {start_us});
  EXPECT_EQ(world.store.purge({start_us + second}), 0u);
  EXPECT_EQ(world.store.purge({start_us + 60 * second - 1}), 0u);
  EXPECT_EQ(world.store.purge({start_us + 60 * second}), 1u);
}

// A purge beside takes loses no unit: at the end all takes are missing from each bucket.
TEST(Purge, MayRunDuringTakes) {
  World world;
  constexpr int keys = 500, takes = 40;
  const Time now{start_us};
  std::atomic<bool> done{false};
  std::thread house([&] {
    while (!done) world.store.purge(now);
  });
  std::vector<std::thread> workers;
  for (int w = 0; w < 2; ++w)
    workers.emplace_back([&] {
      for (int i = 0; i < keys * takes; ++i)
        world.ask(*world.kept, "k" + std::to_string(i % keys), Verb::take, 1, {per_minute(1000)},
                  now);
    });
  for (auto& worker : workers) worker.join();
  done = true;
  house.join();
  for (int i = 0; i < keys; ++i) {
    request::Group group{.charge_count = 1};
    request::Charge charge;
    const std::string key = "k" + std::to_string(i);
    charge.space = world.kept;
    charge.key = key;
    charge.verb = Verb::peek;
    charge.cost = 0;
    charge.keeps_limits = true;
    limit::Decision decisions[2];
    world.store.apply({{&group, 1}, {&charge, 1}, decisions}, now);
    EXPECT_EQ(decisions[0].remaining, 1000 - 2 * takes) << key;
  }
}

}  // namespace
}  // namespace sluice::store::purge_test
