// The time that commits take, and how long replies wait for them.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "durable/durable_life_test.h"
#include "metrics/page.h"

namespace sluice::durable {
namespace {

using namespace store::tests;
using namespace tests;

TEST(DurableCommits, AnswersStopTwoIntervalsAfterTheLastCommit) {
  using std::chrono::steady_clock;
  Disk disk;
  for (int round = 0; round < 10; ++round) {
    constexpr auto interval = std::chrono::milliseconds(40);
    Life life(disk, Durability::interval, start, 0, base::milliseconds(interval.count()));
    life.until_loaded();
    std::this_thread::sleep_for(std::chrono::microseconds(700 * round));
    disk.set(&Disk::holds_commits, true);
    life.ask({one});
    const auto since = steady_clock::now();
    auto told = since;  // the last call after which no reply had to wait
    for (auto now = since; life.store->commit_seq() == 0 && told - since <= 2 * interval;
         now = steady_clock::now())
      told = now;
    disk.set(&Disk::holds_commits, false);
    EXPECT_LE(told - since, 2 * interval);
    life.until_committed();
  }
}

// A server is killed while a commit hangs: the takes that were answered and are lost were decided
// within two intervals, whenever in an interval the hang began and however long it lasts.
TEST(DurableCommits, AKillDuringAStalledCommitForgetsAtMostTwoIntervals) {
  using std::chrono::steady_clock;
  struct Told {
    steady_clock::time_point asked, answered;
  };
  constexpr auto interval = std::chrono::milliseconds(20);
  const Part part{"k", 1, {window(1'000'000'000, 1'000 * second)}};
  size_t forgotten = 0;
  for (int round = 0; round < 12; ++round) {
    Disk disk, left;
    std::vector<Told> told;
    Life life(disk, Durability::interval, start, 0, base::milliseconds(interval.count()));
    life.until_loaded();
    // False: the reply must wait.
    const auto ask = [&] {
      told.push_back({steady_clock::now(), {}});
      life.ask({part});
      const bool at_once = life.store->commit_seq() == 0;
      told.back().answered = steady_clock::now();
      return at_once;
    };
    const auto stall = steady_clock::now() + interval + round * interval / 6;
    while (steady_clock::now() < stall) {
      if (ask()) continue;
      life.until_committed();
      told.back().answered = steady_clock::now();
    }
    disk.set(&Disk::holds_commits, true);
    const auto end = steady_clock::now() + std::chrono::seconds(120);
    while (ask()) ASSERT_LT(steady_clock::now(), end);
    told.pop_back();
    // The commit still hangs, and still no reply is sent.
    for (int i = 0; i < 100; ++i) {
      EXPECT_FALSE(ask());
      told.pop_back();
    }
    {
      const std::lock_guard lock(disk.mutex);
      left.blocks = disk.blocks;
    }
    disk.set(&Disk::holds_commits, false);

    Life next(left, Durability::interval);
    const auto used = static_cast<size_t>(
        1'000'000'000 - next.ask({part}, start, request::Verb::peek)[0].remaining);
    if (used >= told.size()) continue;
    forgotten += told.size() - used;
    EXPECT_LE(told.back().asked - told[used].answered, 2 * interval) << round;
  }
  EXPECT_GT(forgotten, 0u);
}

TEST(DurableCommits, CommitsAreTimed) {
  Disk disk;
  Life life(disk, Durability::always);
  life.until_loaded();
  const auto count = [&] {
    metrics::Page page;
    life.store->collect(page);
    const std::string text = page.text(), name = "sluice_commit_seconds_count ";
    const size_t at = text.find(name);
    return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + name.size());
  };
  EXPECT_EQ(count(), 0);
  for (int i = 1; i <= 3; ++i) {
    life.ask({one});
    life.until_committed();
    EXPECT_EQ(count(), i);
  }
  // A failed commit is not counted; it is counted when it succeeds.
  disk.set(&Disk::fails, true);
  life.ask({one});
  eventually([&] { return life.store->stats().failing; });
  EXPECT_EQ(count(), 3);
  disk.set(&Disk::fails, false);
  eventually([&] { return count() == 4; });
}

}  // namespace
}  // namespace sluice::durable
