// Counters that are known to be past a quota until their window ends (redis/shared.h).
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "redis/shared.h"

namespace sluice::redis {
namespace {

TEST(OverCache, RemembersAnExceededQuotaUntilTheWindowEnds) {
  OverCache cache(1 << 20);
  EXPECT_FALSE(cache.is_over("k", 0, {0}));
  cache.remember("k", 5, {100}, {0});
  EXPECT_TRUE(cache.is_over("k", 5, {99}));
  EXPECT_TRUE(cache.is_over("k", 4, {0}));
  EXPECT_FALSE(cache.is_over("k", 6, {0}));
  EXPECT_FALSE(cache.is_over("k", 5, {100}));
  EXPECT_FALSE(cache.is_over("K", 5, {0}));
  cache.remember("k", 3, {100}, {10});
  EXPECT_TRUE(cache.is_over("k", 5, {50}));
  cache.remember("k", 3, {200}, {100});
  EXPECT_FALSE(cache.is_over("k", 5, {150}));
  EXPECT_TRUE(cache.is_over("k", 3, {150}));
  cache.forget("k");
  EXPECT_FALSE(cache.is_over("k", 0, {150}));
}

// When the memory is full, counters whose windows end first are forgotten.
TEST(OverCache, ForgetsFirstTheWindowsThatEndFirst) {
  OverCache cache(0);
  for (int i = 0; i < 100'000; ++i) cache.remember("short" + std::to_string(i), 1, {1'000}, {0});
  for (int i = 0; i < 64; ++i) cache.remember("long" + std::to_string(i), 1, {1'000'000}, {0});
  for (int i = 0; i < 100'000; ++i) cache.remember("more" + std::to_string(i), 1, {1'000}, {0});
  int known = 0, kept = 0;
  for (int i = 0; i < 100'000; ++i) known += cache.is_over("short" + std::to_string(i), 1, {0});
  for (int i = 0; i < 64; ++i) kept += cache.is_over("long" + std::to_string(i), 1, {0});
  EXPECT_LE(known, 512);
  EXPECT_GE(kept, 60);
}

TEST(OverCache, AnyThreadMayAsk) {
  OverCache cache(1 << 16);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&cache, t] {
      for (int i = 0; i < 20'000; ++i) {
        const std::string name = "k" + std::to_string(i % 50);
        if (t % 2 == 0)
          cache.remember(name, i % 7, {1'000 + i}, {i});
        else
          cache.is_over(name, 3, {i});
        if (i % 1'000 == 0) cache.forget(name);
      }
    });
  for (std::thread& thread : threads) thread.join();
  cache.remember("k1", 6, {1'000'000}, {0});
  EXPECT_TRUE(cache.is_over("k1", 6, {0}));
}

}  // namespace
}  // namespace sluice::redis
