// The durable store (durable/durable_store.h) over a journal in memory: decisions over stops
// against a table that never stops, commits, failing disks, loading, and steps of the clock between
// two runs.
#include "durable/durable_store.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <set>
#include <sstream>
#include <thread>

#include "durable/durable_life_test.h"
#include "tests/support/dice.h"

namespace sluice::durable {
namespace {

using base::Time;
using request::Error;
using request::OnError;
using sluice::tests::Dice;
using namespace store::tests;
using limit::Algorithm;
using limit::Limit;
using request::Charge;
using request::Space;
using request::Verb;
using namespace tests;

TEST(DurableStore, CountersSurviveAStop) {
  Disk disk;
  for (int64_t left = 9; left >= 0; --left) {
    Life life(disk, left % 2 == 0 ? Durability::always : Durability::interval);
    EXPECT_EQ(life.ask({one})[0].remaining, left);
    if (left % 3 == 0) disk.fold();
  }
  Life life(disk, Durability::interval);
  EXPECT_FALSE(life.ask({one}).allowed());
}

using ThreeSpaces = std::array<const Space*, 3>;

// The spaces of a `Life`, for the model: a table that never stops.
ThreeSpaces spaces_like_a_life(World& model) {
  Space kept;
  kept.windows = {base::seconds(1), base::seconds(60)};
  Space lingering;
  lingering.keep_fresh_for = base::seconds(30);
  return {model.space, model.spaces.intern("kept/", "", kept),
          model.spaces.intern("lingering/", "", lingering)};
}

// A group of one or two counters of different kinds; some counters change their limits.
struct RandomGroup {
  explicit RandomGroup(Dice& dice) {
    const size_t count = 1 + dice(size_t{2});
    verb = std::array{Verb::take, Verb::take, Verb::peek, Verb::put}[dice(size_t{4})];
    all = verb == Verb::put && dice(3) == 0;
    fresh = dice(20) == 0;
    keeps = dice(4) == 0 && verb != Verb::put;
    for (size_t p = 0; p < count; ++p) {
      const size_t kind = (dice(size_t{2}) + p * 2) % kinds().size();
      auto limits = kinds()[kind];
      if (dice(10) == 0) {
        ++limits[0].quota;
        if (is_bucket(limits[0])) limits[0].burst = limits[0].quota;
      }
      parts.push_back(
          {std::to_string(kind) + "/" + std::to_string(dice(3)), dice(int64_t{4}), limits});
    }
    space = dice(4) == 0 ? 2 : 0;
  }

  static const std::vector<std::vector<Limit>>& kinds() {
    static const std::vector<std::vector<Limit>> all{
        {bucket(7, 5, 40 * second)},
        {fixed(6)},
        {window(5, 50 * second), {Algorithm::sliding_log, 5, {60 * second}}},
        {{Algorithm::aligned_window, 5, {50 * second}}, {Algorithm::unlimited, 9, {}}},
        {{Algorithm::sliding_window, 8, {70 * second}}, bucket(9, 3, 20 * second)},
        {{Algorithm::concurrency, 5, {30 * second}, 40 * second}}};
    return all;
  }

  Asked prepare(World& world, const ThreeSpaces& in) const {
    Asked asked = world.prepare(parts, verb);
    for (size_t p = 0; p < parts.size(); ++p) {
      Charge& charge = asked.charges[p];
      charge.all = all;
      charge.reset_first = fresh && verb == Verb::take;
      charge.space = in[space];
      if (!keeps) continue;
      charge.space = in[1];
      charge.keeps_limits = true;
      charge.limits_id = 0;
      asked.limits[p] = {bucket(5, 5, p == 0 ? second : 60 * second)};
      charge.limits = asked.limits[p];
      charge.cost = 1 + static_cast<int64_t>(p);
      charge.decision_first = static_cast<uint32_t>(2 * p);
      asked.decisions.resize(2 * parts.size());
    }
    return asked;
  }

  Verb verb{};
  bool all = false, fresh = false, keeps = false;
  size_t space = 0;
  std::vector<Part> parts;
};

// Each decision is the same as if the server had never stopped.
TEST(DurableStore, DecidesLikeAStoreThatNeverStopped) {
  size_t refused = 0, granted = 0;
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    Disk disk;
    World model;
    const ThreeSpaces model_spaces = spaces_like_a_life(model);
    Time now = start;
    for (int life_number = 0; life_number < 12; ++life_number) {
      const auto durability = dice(2) == 0 ? Durability::always : Durability::interval;
      Life life(disk, durability, now);
      for (int i = 0; i < 60; ++i) {
        now.us += dice(second / 2);
        const RandomGroup group(dice);
        Asked asked = group.prepare(life.world, life.spaces);
        Asked expected = group.prepare(model, model_spaces);
        life.settle(asked, now);
        model.apply(expected, now);
        ASSERT_EQ(asked.group.allowed, expected.group.allowed);
        (asked.group.allowed ? granted : refused) += 1;
        for (size_t d = 0; d < asked.decisions.size(); ++d) {
          ASSERT_EQ(asked[d].allowed, expected[d].allowed);
          ASSERT_EQ(asked[d].remaining, expected[d].remaining);
          ASSERT_EQ(asked[d].reset_after, expected[d].reset_after);
          ASSERT_EQ(asked[d].retry_after, expected[d].retry_after);
        }
        if (dice(10) == 0) life.store->housekeep(now);
        if (dice(30) == 0) disk.fold();
      }
    }
  }
  EXPECT_GT(refused, 1'000u);
  EXPECT_GT(granted, 5'000u);
}

TEST(DurableStore, AnswersOnlyAfterTheCommit) {
  Disk disk;
  Life life(disk, Durability::always);
  life.until_loaded();
  EXPECT_EQ(life.store->commit_seq(), 0u);
  disk.set(&Disk::holds_commits, true);
  life.ask({one});
  const uint64_t commit_seq = life.store->commit_seq();
  EXPECT_GT(commit_seq, life.store->durable_seq());
  EXPECT_TRUE(life.store->await_commit(life.completions));
  EXPECT_EQ(disk.block_count(), 0u);
  const int wakes = life.wakes;
  disk.set(&Disk::holds_commits, false);
  eventually([&] { return life.wakes > wakes; });
  EXPECT_GE(life.store->durable_seq(), commit_seq);
  EXPECT_EQ(disk.block_count(), 1u);
  EXPECT_FALSE(life.store->await_commit(life.completions));
  // A peek and a refusal wait for no commit.
  life.ask({one}, start, Verb::peek);
  EXPECT_FALSE(life.ask({{"k", 10, one.limits}}).allowed());
  EXPECT_EQ(life.store->commit_seq(), 0u);
}

TEST(DurableStore, RequestsDuringACommitShareTheNextOne) {
  Disk disk;
  Life life(disk, Durability::always);
  life.until_loaded();
  disk.set(&Disk::holds_commits, true);
  life.ask({one});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until the first commit has begun
  for (int i = 0; i < 100; ++i) life.ask({{std::to_string(i), 1, one.limits}});
  disk.set(&Disk::holds_commits, false);
  life.until_committed();
  EXPECT_LE(disk.block_count(), 2u);
  disk.fold();
  EXPECT_EQ(disk.folded.size(), 101u);
}

TEST(DurableStore, AReplyWithoutACommitToWaitForIsAlreadyOnDisk) {
  Disk disk;
  Life life(disk, Durability::always);
  life.until_loaded();
  constexpr int threads = 4, takes = 2'000;
  const uint32_t limits_id = life.world.spaces.intern_limits(one.limits);
  std::vector<std::thread> all;
  std::atomic<int> missing{0};
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      World world;  // prepares the charges
      store::CompletionQueue completions{[] {}};
      for (int i = 0; i < takes; ++i) {
        Asked asked = world.prepare({{std::to_string(t) + "/" + std::to_string(i), 1, one.limits}});
        asked.charges[0].space = life.spaces[0];
        asked.charges[0].limits_id = limits_id;
        life.store->apply({{&asked.group, 1}, asked.charges, asked.decisions}, start, &completions);
        if (i % 50 != 0) continue;
        while (life.store->commit_seq() > life.store->durable_seq()) std::this_thread::yield();
        const std::lock_guard lock(disk.mutex);
        bool found = false;
        for (const auto& block : disk.blocks) found |= block.contains({"t/", "", asked.keys[0]});
        missing += found ? 0 : 1;
      }
      life.store->attach(completions, nullptr);
    });
  }
  for (auto& thread : all) thread.join();
  EXPECT_EQ(missing, 0);
}

TEST(DurableStore, AppliesOnStoreErrorWhenTheDiskFails) {
  Disk disk;
  {
    Life life(disk, Durability::always);
    life.until_loaded();
    life.ask({one});
    life.until_committed();
    disk.set(&Disk::fails, true);
    life.ask({one});  // decided, but not committed
    eventually([&] { return life.store->stats().failing; });
    EXPECT_EQ(life.store->commit_seq(), 0u);
    EXPECT_GT(life.store->failed_seq(), life.store->durable_seq());
    const auto ask = [&](OnError on_error, Verb verb = Verb::take) {
      Asked asked = life.world.prepare({one}, verb);
      asked.group.on_error = on_error;
      EXPECT_EQ(life.apply(asked, start).settled, 1u);
      return asked;
    };
    EXPECT_EQ(ask(OnError::error).group.error, Error::store);
    EXPECT_FALSE(ask(OnError::deny).allowed());
    EXPECT_TRUE(ask(OnError::allow).allowed());
    EXPECT_EQ(ask(OnError::error, Verb::peek)[0].remaining, 8);  // none of the takes was charged
    const Asked local = ask(OnError::local);
    EXPECT_TRUE(local.allowed());
    EXPECT_EQ(local[0].remaining, 7);
    EXPECT_EQ(life.store->commit_seq(), 0u);
    disk.set(&Disk::fails, false);
    eventually([&] { return !life.store->stats().failing; });
    EXPECT_EQ(ask(OnError::error)[0].remaining, 6);
    life.until_committed();
    EXPECT_NE(life.told.str().find("the disk is full"), std::string::npos);
    EXPECT_NE(life.told.str().find("can be written again"), std::string::npos);
  }
  Life life(disk, Durability::interval);
  EXPECT_EQ(life.ask({one})[0].remaining, 5);
}

TEST(DurableStore, ADiskErrorChangesNoAnswerWithIntervals) {
  Disk disk;
  {
    Life life(disk, Durability::interval);
    disk.set(&Disk::fails, true);
    for (int64_t left = 9; left >= 4; --left) {
      EXPECT_EQ(life.ask({one})[0].remaining, left);
      if (left == 7) eventually([&] { return life.store->stats().failing; });
    }
    EXPECT_EQ(life.store->commit_seq(), 0u);
    disk.set(&Disk::fails, false);
  }
  Life life(disk, Durability::interval);
  EXPECT_EQ(life.ask({one})[0].remaining, 3);
}

// A disk with one folded counter, of which one unit is left.
void use_nine(Disk& disk) {
  {
    Life life(disk, Durability::interval);
    life.ask({{"k", 9, one.limits}});
  }
  disk.fold();
}

TEST(DurableStore, LooksUpACounterOnDiskBeforeItIsCharged) {
  Disk disk;
  use_nine(disk);
  disk.set(&Disk::holds_scans, true);
  disk.set(&Disk::holds_finds, true);
  Life life(disk, Durability::always);
  Asked asked = life.world.prepare({{"k", 2, one.limits}}), other = life.world.prepare({one});
  const store::Applied first = life.apply(asked, start, {1, 0});
  EXPECT_TRUE(first.later);
  EXPECT_EQ(first.settled, 0u);
  EXPECT_TRUE(life.apply(other, start, {2, 0}).later);
  EXPECT_FALSE(life.named({1, 0}));
  disk.set(&Disk::holds_finds, false);
  eventually([&] { return life.named({1, 0}); });
  EXPECT_EQ(life.apply(asked, start, {1, 0}).settled, 1u);
  EXPECT_FALSE(asked.allowed());
  EXPECT_EQ(asked[0].remaining, 1);
  eventually([&] { return life.named({2, 0}); });
  EXPECT_EQ(life.apply(other, start, {2, 0}).settled, 1u);
  EXPECT_TRUE(other.allowed());
  // A counter that was never there.
  EXPECT_EQ(life.ask({{"new", 1, one.limits}})[0].remaining, 9);
  EXPECT_TRUE(life.store->stats().loading);
  disk.set(&Disk::holds_scans, false);
  life.until_loaded();
  EXPECT_FALSE(life.ask({one}).allowed());
}

TEST(DurableStore, LooksUpAllCountersOfAGroupOnDisk) {
  Disk disk;
  use_nine(disk);
  disk.set(&Disk::holds_scans, true);
  Life life(disk, Durability::always);
  EXPECT_FALSE(life.ask({{"a", 1, one.limits}, {"k", 2, one.limits}}).allowed());
  EXPECT_EQ(life.ask({{"a", 0, one.limits}})[0].remaining, 10);
  disk.set(&Disk::holds_scans, false);
}

TEST(DurableStore, ACounterForgottenDuringLoadingDoesNotReappear) {
  Disk disk;
  use_nine(disk);
  {
    disk.set(&Disk::holds_scans, true);
    Life life(disk, Durability::always);
    life.put_all(one);
    life.until_committed();
    for (int i = 0; i < 300; ++i) life.store->housekeep(start);
    EXPECT_EQ(life.ask({one}, start, Verb::peek)[0].remaining, 10);
    disk.set(&Disk::holds_scans, false);
    life.until_loaded();
    EXPECT_EQ(life.ask({one}, start, Verb::peek)[0].remaining, 10);
    for (int i = 0; i < 300; ++i) life.store->housekeep(start);
    EXPECT_EQ(life.store->stats().counters, 0u);
  }
  disk.fold();
  EXPECT_TRUE(disk.folded.empty());
}

TEST(DurableStore, AReadErrorIsNotAFreshCounter) {
  Disk disk;
  use_nine(disk);
  disk.set(&Disk::fails_to_read, true);
  Life life(disk, Durability::interval);
  const auto ask = [&](OnError on_error) {
    Asked asked = life.world.prepare({{"k", 2, one.limits}});
    asked.group.on_error = on_error;
    life.settle(asked, start);
    return asked;
  };
  EXPECT_EQ(ask(OnError::error).group.error, Error::store);
  EXPECT_EQ(ask(OnError::local).group.error, Error::store);
  EXPECT_FALSE(ask(OnError::deny).allowed());
  EXPECT_TRUE(ask(OnError::allow).allowed());
  disk.set(&Disk::fails_to_read, false);
  EXPECT_FALSE(ask(OnError::error).allowed());
  EXPECT_EQ(life.ask({one})[0].remaining, 0);
}

TEST(DurableStore, DoesNotResumeABatchWhoseClientHasLeft) {
  Disk disk;
  use_nine(disk);
  disk.set(&Disk::holds_scans, true);
  disk.set(&Disk::holds_finds, true);
  Life life(disk, Durability::interval);
  Asked asked = life.world.prepare({one}), kept = life.world.prepare({{"other", 1, one.limits}});
  EXPECT_TRUE(life.apply(kept, start, {1, 0}).later);
  EXPECT_TRUE(life.apply(asked, start, {2, 0}).later);
  life.store->abandon(life.completions, {2, 0});
  disk.set(&Disk::holds_finds, false);
  eventually([&] { return life.named({1, 0}); });
  disk.set(&Disk::holds_scans, false);
  life.until_loaded();
  EXPECT_FALSE(life.named({2, 0}));
}

TEST(DurableStore, CountersBeyondMemoryFailInsteadOfStartingFresh) {
  Disk disk;
  // More than the smallest table, of 16 MiB, holds. The keys are long, so there are few: the thread
  // that loads them has the lowest priority, and a busy machine loads few in time.
  constexpr size_t many = 20'000;
  const auto key_of = [](size_t i) { return std::to_string(i) + std::string(1'000, '.'); };
  {
    Life life(disk, Durability::interval, start, size_t{256} << 20);
    life.until_loaded();
    for (size_t i = 0; i < many; ++i) life.ask({{key_of(i), 10, one.limits}});
  }
  disk.fold();
  ASSERT_EQ(disk.folded.size(), many);
  Life life(disk, Durability::interval, start, 0);
  eventually([&] { return life.told.str().find("more counters than") != std::string::npos; });
  size_t refused = 0, failed = 0;
  for (size_t i = 0; i < many; i += 97) {
    const Asked asked = life.ask({{key_of(i), 1, one.limits}});
    ASSERT_FALSE(asked.group.error == Error::none && asked.allowed());
    refused += asked.group.error == Error::none ? 1 : 0;
    failed += asked.group.error == Error::memory ? 1 : 0;
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(failed, 0u);
}

TEST(DurableStore, AcceptsAClockStepBetweenTwoRuns) {
  for (const bool folded : {false, true}) {
    Disk disk;
    const Part used{"k", 9, {window(10, 1'000 * second)}},
        bucketful{"b", 9, {bucket(10, 1, 10 * second)}};
    {
      Life life(disk, Durability::interval);
      life.ask({used});
      life.ask({bucketful});
    }
    if (folded) disk.fold();
    {
      // The clock was set back: no units come back, and none are lost.
      Life life(disk, Durability::interval, {start.us - 500 * second});
      const Time now{start.us - 500 * second};
      EXPECT_EQ(life.ask({used}, now, Verb::peek)[0].remaining, 1);
      // A bucket stores the time at which it is full; if that is too far ahead, it is empty now and
      // fills from now on.
      const Asked bucket = life.ask({{"b", 2, bucketful.limits}}, now);
      EXPECT_FALSE(bucket.allowed());
      EXPECT_LE(bucket[0].retry_after.us, 20 * second);
      EXPECT_LE(life.ask({used}, now)[0].retry_after.us, 1'000 * second);
    }
    {
      // The clock was set forward, past the end of both.
      Life life(disk, Durability::interval, {start.us + 2'000 * second});
      const Time now{start.us + 2'000 * second};
      EXPECT_TRUE(life.ask({used}, now).allowed());
      EXPECT_TRUE(life.ask({bucketful}, now).allowed());
    }
  }
}

TEST(DurableStore, APurgedCounterStaysRemoved) {
  Disk disk;
  const auto take = [](Life& life, Time now, std::vector<Limit> limits) {
    Asked asked = life.world.prepare({{"k", 1, std::move(limits)}});
    asked.charges[0].space = life.spaces[1];
    asked.charges[0].keeps_limits = true;
    asked.charges[0].limits_id = 0;
    asked.decisions.resize(2);
    life.settle(asked, now);
    return asked.charges[0].slot_mask;
  };
  const Time later{start.us + 100 * second};
  {
    Life life(disk, Durability::interval);
    EXPECT_EQ(take(life, start, {bucket(5, 5, second)}), 1u);
    EXPECT_EQ(life.store->purge(start), 0u);
    life.until_loaded();
    eventually([&] { return life.store->purge(later) == 1; });  // after it was committed
    EXPECT_EQ(life.store->purge(later), 0u);
  }
  disk.fold();
  EXPECT_TRUE(disk.folded.empty());
  Life life(disk, Durability::interval);
  EXPECT_EQ(take(life, later, {}), 0u);
}

TEST(DurableStore, AnInvalidStoredCounterIsReportedAndStartsFresh) {
  Disk disk;
  use_nine(disk);
  for (auto& [key, stored] : disk.folded) stored.cells.resize(7);
  Life life(disk, Durability::interval);
  EXPECT_EQ(life.ask({one})[0].remaining, 9);
  life.until_loaded();
  eventually([&] { return life.told.str().find("1 counters are damaged") != std::string::npos; });
}

TEST(DurableStore, AListWaitsUntilCountersAreLoadedFromDisk) {
  Disk disk;
  use_nine(disk);
  disk.set(&Disk::holds_scans, true);
  Life life(disk, Durability::interval);
  std::atomic<bool> listed{false};
  std::vector<std::string> keys;
  std::thread scanner([&] {
    keys = life.store->list(*life.spaces[0], "", 10);
    listed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(listed);
  disk.set(&Disk::holds_scans, false);
  scanner.join();
  EXPECT_EQ(keys, std::vector<std::string>{"k"});
}

TEST(DurableStore, IntervalModeHoldsRepliesAfterTwoUncommittedIntervals) {
  Disk disk;
  Life life(disk, Durability::interval);
  life.until_loaded();
  disk.set(&Disk::holds_commits, true);
  life.ask({one});
  eventually([&] { return life.store->commit_seq() != 0; });
  EXPECT_TRUE(life.store->await_commit(life.completions));
  const int wakes = life.wakes;
  disk.set(&Disk::holds_commits, false);
  eventually([&] { return life.wakes > wakes && life.store->commit_seq() == 0; });
}

TEST(DurableStore, UsesLittleProcessorTimeWhenIdle) {
  Disk disk;
  for (const auto durability : {Durability::interval, Durability::always}) {
    Life life(disk, durability);
    life.until_loaded();
    life.ask({one});
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::clock_t before = std::clock();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 4);
  }
}

TEST(DurableStore, CloseReportsWhetherAllIsCommitted) {
  Disk disk;
  {
    Life life(disk, Durability::interval);
    life.ask({one});
    EXPECT_TRUE(life.store->close());
  }
  Life life(disk, Durability::interval);
  life.until_loaded();
  disk.set(&Disk::fails, true);
  life.ask({one});
  EXPECT_FALSE(life.store->close());
  EXPECT_NE(life.told.str().find("stopped without"), std::string::npos);
}

TEST(DurableStore, EndListsStopsAListThatWaitsForLoading) {
  Disk disk;
  use_nine(disk);
  disk.set(&Disk::holds_scans, true);
  Life life(disk, Durability::interval);
  std::thread scanner([&] { EXPECT_TRUE(life.store->list(*life.spaces[0], "", 10).empty()); });
  life.store->end_lists();
  scanner.join();
  disk.set(&Disk::holds_scans, false);
}

}  // namespace
}  // namespace sluice::durable
