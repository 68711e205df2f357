// The queues of requests that wait for counters in Redis (redis/queues.h).
#include "redis/queues.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <unordered_map>

#include "base/bounds.h"
#include "base/running_sums.h"
#include "tests/support/patience.h"

namespace sluice::redis {
namespace {

struct Worker {
  int woken = 0;
  store::CompletionQueue completions{[this] { ++woken; }};
  std::vector<uint64_t> called(Queues& queues) {
    std::vector<uint64_t> all;
    queues.take_called(completions, all);
    return all;
  }
};

using Arrivals = std::vector<uint64_t>;

TEST(Queues, NotifiesTheFirstWaitersOwnWorker) {
  Queues queues;
  Worker one, two;
  queues.enter("c", {.number = 1}, 5, one.completions);
  queues.enter("c", {.number = 2}, 7, two.completions);
  queues.enter("c", {.number = 3}, 9, one.completions);
  queues.enter("d", {.number = 4}, 1, two.completions);
  EXPECT_TRUE(queues.is_first("c", 1));
  EXPECT_FALSE(queues.is_first("c", 2));
  EXPECT_TRUE(queues.is_first("d", 4));
  queues.call("c");
  queues.call("c");
  queues.call("nobody");
  EXPECT_EQ(one.called(queues), Arrivals{1});
  EXPECT_EQ(one.called(queues), Arrivals{});
  EXPECT_EQ(two.called(queues), Arrivals{});
  queues.leave("c", {.number = 1});
  EXPECT_EQ(two.called(queues), Arrivals{2});
  EXPECT_GT(two.woken, 0);
  // When a request that was not the first leaves, no other becomes the first.
  queues.leave("c", {.number = 3});
  queues.leave("c", {.number = 3});
  queues.leave("nobody", {.number = 3});
  EXPECT_EQ(one.called(queues), Arrivals{});
  EXPECT_EQ(two.called(queues), Arrivals{});
  EXPECT_EQ(queues.size(), 2u);
  queues.call("d");
  queues.forget(two.completions);
  EXPECT_EQ(two.called(queues), Arrivals{});
}

TEST(Queues, UnitsAheadAreThoseOfEarlierWaiters) {
  Queues queues;
  Worker worker;
  for (uint64_t i = 1; i <= 4; ++i)
    queues.enter("c", {.number = i}, static_cast<int64_t>(10 * i), worker.completions);
  EXPECT_EQ(queues.ahead("c", {.number = 1}), 0);
  EXPECT_EQ(queues.ahead("c", {.number = 3}), 30);
  EXPECT_EQ(queues.ahead("c", {.number = 0}), 100);
  EXPECT_EQ(queues.ahead("d", {.number = 0}), 0);
  queues.enter("c", {.number = 2}, 1'000, worker.completions);  // it is in the queue already
  EXPECT_EQ(queues.ahead("c", {.number = 0}), 100);
  queues.leave("c", {.number = 2});
  EXPECT_EQ(queues.ahead("c", {.number = 0}), 80);
  EXPECT_EQ(queues.ahead("c", {.number = 3}), 10);
  // The sum stops at the largest quota.
  for (uint64_t i = 5; i < 8; ++i) queues.enter("c", {.number = i}, INT64_MAX, worker.completions);
  EXPECT_EQ(queues.ahead("c", {.number = 0}), base::bounds::quota_max);
  for (uint64_t i = 1; i < 8; ++i) queues.leave("c", {.number = i});
  EXPECT_EQ(queues.ahead("c", {.number = 0}), 0);
  EXPECT_FALSE(queues.any());
}

TEST(Queues, RequestsAreCalledInTurnByTheirValues) {
  Queues queues;
  Worker worker;
  for (uint64_t i = 1; i <= 3; ++i)
    queues.enter("c", {7, queues.new_arrival()}, 1, worker.completions);
  queues.enter("c", {8, queues.new_arrival()}, 1, worker.completions);
  queues.call("c");
  EXPECT_EQ(worker.called(queues), Arrivals{1});
  EXPECT_EQ(queues.ahead("c", {7, 1}), 0);
  EXPECT_EQ(queues.ahead("c", {8, 4}), 3);
  EXPECT_EQ(queues.leave("c", {7, 1}, true), 0u);
  EXPECT_EQ(worker.called(queues), Arrivals{4});
  EXPECT_TRUE(queues.is_first("c", 4));
  // What leaves for another counter takes its turn along.
  const uint64_t turn = queues.leave("c", {8, 4});
  EXPECT_EQ(turn, 4u);
  EXPECT_EQ(worker.called(queues), Arrivals{2});
  queues.enter("c", {8, 4, turn}, 1, worker.completions);
  EXPECT_TRUE(queues.is_first("c", 4));
}

// Names that are in one bucket of the standard library's hash table, as a client might choose them.
TEST(Queues, ChosenNamesDoNotCollide) {
  constexpr size_t count = 1'000;
  std::unordered_map<std::string, int> plain;
  for (size_t i = 0; i < count; ++i) plain[std::to_string(i)];
  Queues queues;
  Worker worker;
  uint64_t number = 0;
  for (size_t found = 0; found < count; ++number) {
    const std::string name = "key " + std::to_string(number);
    if (std::hash<std::string>()(name) % plain.bucket_count() != 0) continue;
    queues.enter(name, {.number = ++found}, 1, worker.completions);
  }
  EXPECT_LT(queues.longest_search(), 30u);
}

TEST(Queues, TheMostWaitersCostLittle) {
  Queues queues;
  Worker worker;
  for (size_t i = 0; i < base::bounds::waiting_max; ++i)
    queues.enter("c", {.number = i + 1}, 1, worker.completions);
  // Each request on a counter with a queue asks what is ahead: that must not count them one by one.
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 10'000; ++i)
    ASSERT_EQ(queues.ahead("c", {.number = 0}), static_cast<int64_t>(base::bounds::waiting_max));
  EXPECT_LT(std::chrono::steady_clock::now() - began, tests::promised(std::chrono::seconds(2)));
}

// A group with several counters asks each counter's queue what is ahead of it.
TEST(Queues, UnitsAheadAreFoundInAFewSteps) {
  constexpr uint64_t many = 1 << 14;
  Queues queues;
  Worker worker;
  for (uint64_t i = 1; i <= many; ++i) queues.enter("c", {.number = i}, 1, worker.completions);
  const uint64_t before = base::running_sums_visited();
  for (uint64_t i = many; i > 0; --i)
    ASSERT_EQ(queues.ahead("c", {.number = i}), static_cast<int64_t>(i - 1));
  EXPECT_LT(base::running_sums_visited() - before, many * 60);
}

}  // namespace
}  // namespace sluice::redis
