// Counters that are forgotten before they were ever committed: while the disk fails, and in long
// intervals.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "durable/durable_life_test.h"
#include "tests/support/dice.h"

namespace sluice::durable {
namespace {

using base::Time;
using request::Error;
using sluice::tests::Dice;
using namespace store::tests;
using limit::Algorithm;
using limit::Limit;
using request::Space;
using request::Verb;
using store::Restored;
using namespace tests;

// 20,000 actors make their first request in this round. Returns how many of them fail.
uint64_t failed_of_new_actors(Life& life, int round, Time now) {
  uint64_t failed = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string name = std::to_string(round) + "/" + std::to_string(i);
    const Asked asked = life.ask({{name, 1, {window(10, second)}}}, now);
    failed += asked.group.error == Error::none ? 0u : 1u;
  }
  return failed;
}

// New actors each second, whose counters equal fresh ones a second later. No request fails, and no
// old state of the disk counts again, however long the disk fails.
TEST(DurableSweep, AFailingDiskDoesNotFillTheMemory) {
  Disk disk;
  {
    Life life(disk, Durability::interval);
    life.until_loaded();
    for (int i = 0; i < 100; ++i) life.ask({{"old " + std::to_string(i), 3, {window(10, second)}}});
    life.until_committed();
    disk.set(&Disk::fails, true);
    life.ask({one});
    eventually([&] { return life.store->stats().failing; });
    Time now = start;
    uint64_t failed = 0;
    for (int round = 0; round < 30; ++round) {
      now.us += second;
      failed += failed_of_new_actors(life, round, now);
      for (int i = 0; i < 100; ++i)
        life.ask({{"old " + std::to_string(i), 3, {window(10, second)}}}, now);
      for (int i = 0; i < 20; ++i) life.store->housekeep({now.us + second / 2 + 1});
    }
    EXPECT_EQ(failed, 0u);
    now.us += 2 * second;
    eventually([&] {
      life.store->housekeep(now);
      return life.store->stats().counters == 1;
    });
    disk.set(&Disk::fails, false);
    eventually([&] { return !life.store->stats().failing; });
  }
  disk.fold();
  Life life(disk, Durability::interval);
  EXPECT_EQ(life.ask({one})[0].remaining, 8);
}

// With an interval that is longer than the limits' windows.
TEST(DurableSweep, ALongIntervalDoesNotFillTheMemory) {
  Disk disk;
  Life life(disk, Durability::interval, start, 0, base::seconds(60));
  life.until_loaded();
  Time now = start;
  uint64_t failed = 0;
  for (int round = 0; round < 30; ++round) {
    now.us += second;
    failed += failed_of_new_actors(life, round, now);
    for (int i = 0; i < 20; ++i) life.store->housekeep({now.us + second / 2 + 1});
  }
  EXPECT_EQ(failed, 0u);
}

// After puts, resets and limits that end earlier, the disk's state of a counter may count for
// longer than the state that replaced it. Each decision is as if no counter were ever forgotten and
// the server never stopped.
TEST(DurableSweep, StaleStatesOnDiskNeverCountAgain) {
  size_t swept = 0, refused = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    Disk disk;
    World model;
    request::Space lingering;
    lingering.keep_fresh_for = base::seconds(30);
    const std::array<const Space*, 2> model_spaces{
        model.space, model.spaces.intern("lingering/", "", lingering)};
    // Each counter has the limits of one row: a rule's and an override's, with longer and shorter
    // windows.
    const std::vector<std::vector<std::vector<Limit>>> kinds{
        {{window(5, 100 * second)}, {window(5, second)}},
        {{bucket(7, 5, 40 * second)}, {bucket(7, 5, second)}},
        {{window(5, 50 * second), {Algorithm::sliding_log, 5, {60 * second}}}, {window(5, second)}},
        {{fixed(6)}, {fixed(6)}}};
    Time now = start;
    for (int life_number = 0; life_number < 6; ++life_number) {
      Life life(disk, Durability::interval, now);
      for (int i = 0; i < 80; ++i) {
        now.us += dice(2) == 0 ? dice(second / 4) : dice(3 * second);
        if (dice(12) == 0) {
          disk.set(&Disk::fails, dice(3) != 0);
          disk.set(&Disk::holds_scans, life_number % 2 == 1 && i < 40 && dice(2) == 0);
        }
        const auto kind = dice(kinds.size());
        const auto& limits = kinds[kind][dice(3) == 0 ? 1 : 0];
        const Part part{std::to_string(kind) + "/" + std::to_string(dice(3)), dice(int64_t{4}),
                        limits};
        const auto verb =
            std::array{Verb::take, Verb::take, Verb::take, Verb::peek, Verb::put}[dice(size_t{5})];
        Asked asked = life.world.prepare({part}, verb), expected = model.prepare({part}, verb);
        const bool all = verb == Verb::put && dice(3) == 0;
        const size_t space = dice(4) == 0 ? 2 : 0;
        asked.charges[0].all = expected.charges[0].all = all;
        asked.charges[0].space = life.spaces[space];
        expected.charges[0].space = model_spaces[space / 2];
        life.settle(asked, now);
        model.apply(expected, now);
        ASSERT_EQ(asked.group.allowed, expected.group.allowed) << life_number << " " << i;
        refused += asked.group.allowed ? 0 : 1;
        for (size_t d = 0; d < asked.decisions.size(); ++d) {
          ASSERT_EQ(asked[d].remaining, expected[d].remaining) << life_number << " " << i;
          ASSERT_EQ(asked[d].reset_after, expected[d].reset_after);
        }
        if (dice(3) == 0)
          for (int n = 0; n < 3; ++n) life.store->housekeep(now);
        if (dice(20) == 0) disk.fold();
      }
      swept += life.store->stats().swept;
      disk.set(&Disk::fails, false);
      disk.set(&Disk::holds_scans, false);
    }
    if (HasFatalFailure()) return;
  }
  // A counter is swept after it was committed; how soon that is depends on the machine's load.
  EXPECT_GT(swept, 100u);
  EXPECT_GT(refused, 500u);
}

// Counters that were never on the disk are forgotten at once; of others a mark is kept that they
// are erased.
TEST(DurableSweep, AResetWhileTheDiskFailsIsKeptWhereItIsNeeded) {
  Disk disk;
  {
    Life life(disk, Durability::interval);
    life.until_loaded();
    life.ask({one});
    life.until_committed();
    disk.fold();
    disk.set(&Disk::fails, true);
    life.ask({{"other", 1, one.limits}});
    eventually([&] { return life.store->stats().failing; });
    life.ask({{"new", 1, one.limits}});
    for (const char* const key : {"k", "new"}) life.put_all({key, 1, one.limits});
    eventually([&] {
      life.store->housekeep(start);
      return life.store->stats().counters == 2;  // "other", and the mark of "k"
    });
    for (int i = 0; i < 100; ++i) life.store->housekeep(start);
    EXPECT_EQ(life.store->stats().counters, 2u);
    disk.set(&Disk::fails, false);
    eventually([&] { return !life.store->stats().failing; });
  }
  Life life(disk, Durability::interval);
  EXPECT_EQ(life.ask({one})[0].remaining, 9);
}

// The table is full while the disk is still being read: counters that are fetched replace counters
// that equal fresh ones.
TEST(DurableSweep, LoadedCountersReplaceLingeringOnesAtTheBound) {
  Disk disk;
  {
    Life life(disk, Durability::interval);
    for (int i = 0; i < 1'000; ++i) life.ask({{"old " + std::to_string(i), 9, one.limits}});
  }
  disk.fold();
  disk.set(&Disk::holds_scans, true);
  Life life(disk, Durability::always);
  Time now = start;
  const std::string padding(400, '.');
  const request::Space* const usual = life.world.space;
  life.world.space = life.spaces[2];
  for (int wave = 0; wave < 10; ++wave) {
    for (int i = 0; i < 10'000; ++i) {
      const Asked asked =
          life.ask({{std::to_string(wave * 10'000 + i) + padding, 5, {bucket(5, 5, second)}}}, now);
      ASSERT_EQ(asked.group.error, Error::none) << wave << " " << i;
    }
    life.until_committed();
    now.us += 2 * second;  // full again, and kept for a while
  }
  EXPECT_GT(life.store->stats().swept, 50'000u);
  life.world.space = usual;
  for (int i = 0; i < 1'000; ++i) {
    const Asked asked = life.ask({{"old " + std::to_string(i), 1, one.limits}}, now);
    ASSERT_EQ(asked.group.error, Error::none) << i;
    ASSERT_EQ(asked[0].remaining, 0) << i;
  }
  EXPECT_TRUE(life.store->stats().loading);
  disk.set(&Disk::holds_scans, false);
}

// That a counter is not on the disk is remembered, however full the table is, until the sweep's
// next round.
TEST(DurableSweep, RemembersKeysThatTheDiskDoesNotHold) {
  World w;
  w.store.keep_changes();
  w.store.set_loading(true);
  constexpr int looked_up = 2'000;
  const auto key_of = [](int i) { return "none " + std::to_string(i); };
  for (int i = 0; i < looked_up; ++i) {
    const std::string key = key_of(i);
    ASSERT_EQ(w.store.restore({.space = w.space, .key = key, .cells = {}}, start), Restored::yes);
  }
  const auto absent = [&] {
    int count = 0;
    for (int i = 0; i < looked_up; ++i) {
      Asked asked = w.prepare({{key_of(i), 1, one.limits}});
      w.store.each_absent({{&asked.group, 1}, asked.charges, asked.decisions}, asked.group,
                          [&](const request::Charge&) { ++count; });
    }
    return count;
  };
  Time now = start;
  const std::string padding(400, '.');
  for (int wave = 0; wave < 10; ++wave) {
    for (int i = 0; i < 10'000; ++i) {
      const Asked asked =
          w.ask({{std::to_string(wave * 10'000 + i) + padding, 5, {window(5, second)}}}, now);
      ASSERT_EQ(asked.group.error, Error::none) << wave << " " << i;
    }
    w.store.collect([](const request::CounterRecord&) {});
    now.us += 2 * second;
  }
  EXPECT_GT(w.store.stats().swept, 50'000u);
  EXPECT_EQ(absent(), 0);
  w.store.sweep(now, 4 * w.store.chains());
  EXPECT_EQ(absent(), looked_up);
}

// A disk that cannot be read makes the store not ready, with the reason, until it can be read.
TEST(DurableSweep, IsNotReadyWhileTheDiskCannotBeRead) {
  Disk disk;
  {
    Life life(disk, Durability::interval);
    life.ask({one});
    EXPECT_EQ(life.store->why_not_ready(), "");
  }
  disk.fold();
  disk.set(&Disk::fails_to_read, true);
  Life life(disk, Durability::interval);
  eventually([&] { return !life.store->why_not_ready().empty(); });
  const std::string why = life.store->why_not_ready();
  for (const char* const words : {"DIR", "cannot be read", "sluice store check"})
    EXPECT_NE(why.find(words), std::string::npos) << why;
  // A change that is made meanwhile is forgotten when it has expired.
  life.ask({{"brief", 1, {window(10, second)}}});
}

}  // namespace
}  // namespace sluice::durable
