// Commits of the table (EmbeddedStore::collect): what a group takes from several counters is part
// of one commit as a whole, while other threads take; and walks, which see each counter.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "store/asking_test.h"

namespace sluice::store::tests {
namespace {

using std::chrono::steady_clock;

constexpr base::Time now{1'000'000'000};
constexpr size_t sets = 40, per_set = 4;
const Limit many = window(1'000'000'000, 3'600'000'000);

std::string key_of(size_t set, size_t i) {
  return "set " + std::to_string(set) + " " + std::to_string(i);
}

// Each group takes one unit from all counters of a set, so in every commit they are equal.
TEST(Commits, HaveAGroupAsAWhole) {
  World world;
  world.store.keep_changes();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> taken{0};
  std::vector<std::thread> threads;
  world.spaces.intern_limits(std::vector<Limit>{many});
  for (uint32_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 dice(t);
      while (!stop) {
        const size_t set = dice() % sets;
        std::vector<Part> parts;
        for (size_t i = 0; i < per_set; ++i) parts.push_back({key_of(set, i), 1, {many}});
        Asked asked = world.prepare(parts);
        world.apply(asked, now);
        ++taken;
        // And from other counters alone.
        Asked alone = world.prepare({{"alone " + std::to_string(dice() % 5000), 1, {many}}});
        world.apply(alone, now);
      }
    });
  std::map<std::string, int64_t> committed;
  const auto collect = [&] {
    world.store.collect([&](const request::CounterRecord& record) {
      committed[std::string(record.key)] = record.cells[0].units;
    });
    for (size_t set = 0; set < sets; ++set)
      for (size_t i = 1; i < per_set; ++i)
        if (committed[key_of(set, i)] != committed[key_of(set, 0)]) return false;
    return true;
  };
  const auto end = steady_clock::now() + std::chrono::seconds(2);
  int commits = 0;
  bool whole = true;
  while (whole && (steady_clock::now() < end || taken < 5000)) {
    whole = collect();
    ++commits;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(whole) << "commit " << commits;
  EXPECT_GT(commits, 20);
  ASSERT_TRUE(collect());
  int64_t units = 0;
  for (size_t set = 0; set < sets; ++set) units += committed[key_of(set, 0)];
  EXPECT_EQ(units, static_cast<int64_t>(taken));
}

TEST(Commits, AWalkSeesEachCounter) {
  World world;
  world.store.keep_changes();
  constexpr int count = 3000;
  for (int i = 0; i < count; ++i) world.ask({{std::to_string(i), i % 7 + 1, {many}}}, now);
  world.put_all({"7", 0, {many}}, now);  // it is gone, and its place is left
  std::map<std::string, int64_t> seen;
  EXPECT_TRUE(world.store.walk([&](const request::CounterRecord& record) {
    EXPECT_EQ(record.space, world.space);
    EXPECT_EQ(world.spaces.limits(record.limits_id).front().quota, many.quota);
    EXPECT_EQ(record.forget_us, now.us + many.window.us);
    seen[std::string(record.key)] = record.cells[0].units;
    return true;
  }));
  ASSERT_EQ(seen.size(), count - 1u);
  for (const auto& [key, units] : seen) EXPECT_EQ(units, std::stoi(key) % 7 + 1);
  size_t visited = 0;
  EXPECT_FALSE(world.store.walk([&](const request::CounterRecord&) { return ++visited < 10; }));
  EXPECT_EQ(visited, 10u);
}

}  // namespace
}  // namespace sluice::store::tests
