#include "redis/queues.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/bounds.h"

namespace sluice::redis {
namespace {

struct Worker {
  int woken = 0;
  store::Port port{[this] { ++woken; }};
  std::vector<uint64_t> called(Queues& queues) {
    std::vector<uint64_t> all;
    queues.take_called(port, all);
    return all;
  }
};

using Arrivals = std::vector<uint64_t>;

TEST(Queues, TheFirstIsCalledAtItsOwnWorker) {
  Queues queues;
  Worker one, two;
  ASSERT_TRUE(queues.enter("c", 1, 5, one.port));
  ASSERT_TRUE(queues.enter("c", 2, 7, two.port));
  ASSERT_TRUE(queues.enter("c", 3, 9, one.port));
  ASSERT_TRUE(queues.enter("d", 4, 1, two.port));
  EXPECT_TRUE(queues.is_first("c", 1));
  EXPECT_FALSE(queues.is_first("c", 2));
  EXPECT_TRUE(queues.is_first("d", 4));
  queues.call("c");
  queues.call("c");
  queues.call("nobody");
  EXPECT_EQ(one.called(queues), Arrivals{1});
  EXPECT_EQ(one.called(queues), Arrivals{});
  EXPECT_EQ(two.called(queues), Arrivals{});
  queues.leave("c", 1);
  EXPECT_EQ(two.called(queues), Arrivals{2});
  EXPECT_GT(two.woken, 0);
  // Who was not the first leaves no one first.
  queues.leave("c", 3);
  queues.leave("c", 3);
  queues.leave("nobody", 3);
  EXPECT_EQ(one.called(queues), Arrivals{});
  EXPECT_EQ(two.called(queues), Arrivals{});
  EXPECT_EQ(queues.size(), 2u);
  queues.call("d");
  queues.forget(two.port);
  EXPECT_EQ(two.called(queues), Arrivals{});
}

TEST(Queues, WhatIsAheadIsWhatThoseInFrontWaitFor) {
  Queues queues;
  Worker worker;
  for (uint64_t i = 1; i <= 4; ++i) queues.enter("c", i, static_cast<int64_t>(10 * i), worker.port);
  EXPECT_EQ(queues.ahead("c", 1), 0);
  EXPECT_EQ(queues.ahead("c", 3), 30);
  EXPECT_EQ(queues.ahead("c", 0), 100);
  EXPECT_EQ(queues.ahead("d", 0), 0);
  queues.enter("c", 2, 1'000, worker.port);  // is there already
  EXPECT_EQ(queues.ahead("c", 0), 100);
  queues.leave("c", 2);
  EXPECT_EQ(queues.ahead("c", 0), 80);
  EXPECT_EQ(queues.ahead("c", 3), 10);
  // Past what a quota may be it is all the same.
  for (uint64_t i = 5; i < 8; ++i) queues.enter("c", i, INT64_MAX, worker.port);
  EXPECT_EQ(queues.ahead("c", 0), base::bounds::quota_max);
  for (uint64_t i = 1; i < 8; ++i) queues.leave("c", i);
  EXPECT_EQ(queues.ahead("c", 0), 0);
  EXPECT_FALSE(queues.any());
}

TEST(Queues, HaveABound) {
  Queues queues;
  Worker worker;
  for (size_t i = 0; i < base::bounds::waiting_max; ++i)
    ASSERT_TRUE(queues.enter("c", i + 1, 1, worker.port));
  EXPECT_FALSE(queues.enter("d", base::bounds::waiting_max + 1, 1, worker.port));
  // Every request on a counter that is waited for asks: not one by one.
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 10'000; ++i)
    ASSERT_EQ(queues.ahead("c", 0), static_cast<int64_t>(base::bounds::waiting_max));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(2));
  queues.leave("c", 7);
  EXPECT_TRUE(queues.enter("d", base::bounds::waiting_max + 1, 1, worker.port));
}

}  // namespace
}  // namespace sluice::redis
