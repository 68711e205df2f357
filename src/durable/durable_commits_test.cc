// How long commits take, and how long what they hold up waits.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "durable/durable_life_test.h"
#include "metrics/page.h"

namespace sluice::durable {
namespace {

using namespace tests;

TEST(DurableCommits, no_more_is_told_than_two_intervals_may_forget) {
  using std::chrono::steady_clock;
  store::tests::Disk disk;
  for (int round = 0; round < 10; ++round) {
    constexpr auto interval = std::chrono::milliseconds(40);
    Life life(disk, Durability::interval, start, 0, base::milliseconds(interval.count()));
    life.until_loaded();
    std::this_thread::sleep_for(std::chrono::microseconds(700 * round));
    disk.set(&Disk::holds_commits, true);
    life.ask({one});
    const auto since = steady_clock::now();
    auto told = since;  // when it was last asked, and nobody had to wait
    for (auto now = since; life.store->gate() == 0 && told - since <= 2 * interval;
         now = steady_clock::now())
      told = now;
    disk.set(&Disk::holds_commits, false);
    EXPECT_LE(told - since, 2 * interval);
    life.until_committed();
  }
}

TEST(DurableCommits, commits_are_timed) {
  store::tests::Disk disk;
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
  // One that fails is not, until it goes through.
  disk.set(&Disk::fails, true);
  life.ask({one});
  eventually([&] { return life.store->stats().failing; });
  EXPECT_EQ(count(), 3);
  disk.set(&Disk::fails, false);
  eventually([&] { return count() == 4; });
}

}  // namespace
}  // namespace sluice::durable
