// The window of commands without an answer (redis/send_window.h), against a Redis of told time.
#include "redis/send_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace sluice::redis {
namespace {

constexpr int64_t ms = 1'000, second = 1'000'000;
constexpr base::Duration deadline = base::milliseconds(50);
constexpr int64_t wire_us = 50, step_us = 50;

// A connection that is asked through a window, and what has become of its commands.
struct Asker {
  SendWindow window{deadline};
  std::deque<int64_t> under_way;                      // when they were sent
  std::deque<int64_t> at_redis;                       // when they arrive there
  std::deque<std::pair<int64_t, uint64_t>> answered;  // when, how many
  uint64_t granted = 0, late = 0, refused = 0;
  int64_t longest_us = 0;

  void take_answers(int64_t now_us) {
    uint64_t count = 0;
    for (; !answered.empty() && answered.front().first <= now_us; answered.pop_front())
      count += answered.front().second;
    if (count == 0) return;
    window.answered(count, now_us);
    for (; count > 0; --count, under_way.pop_front()) {
      const int64_t took_us = now_us - under_way.front();
      longest_us = std::max(longest_us, took_us);
      ++(took_us < deadline.us ? granted : late);
    }
  }
  void ask(uint64_t count, int64_t now_us) {
    for (; count > 0; --count) {
      if (!window.takes(under_way.size())) {
        ++refused;
        continue;
      }
      under_way.push_back(now_us);
      at_redis.push_back(now_us + wire_us);
      window.sent(under_way.size());
    }
    window.written(now_us);
  }
  void forget_counts() { granted = late = refused = 0, longest_us = 0; }
};

// Takes up to `at_once` commands of each connection in a turn, as Redis reads 16 KiB of each, and
// answers them all at its end.
struct ToldRedis {
  int64_t command_us;
  size_t at_once = 80;
  int64_t busy_until_us = 0;

  void work(std::vector<Asker>& askers, int64_t now_us) {
    while (busy_until_us <= now_us) {
      const int64_t begin_us = std::max(busy_until_us, now_us - step_us);
      int64_t work_us = 0;
      std::vector<uint64_t> counts;
      for (Asker& one : askers) {
        uint64_t& count = counts.emplace_back(0);
        for (; count < at_once && !one.at_redis.empty() && one.at_redis.front() <= begin_us;
             ++count)
          one.at_redis.pop_front();
        work_us += static_cast<int64_t>(count) * command_us;
      }
      if (work_us == 0) return;
      busy_until_us = begin_us + work_us;
      for (size_t i = 0; i < askers.size(); ++i)
        if (counts[i] > 0) askers[i].answered.emplace_back(busy_until_us + wire_us, counts[i]);
    }
  }
};

// `per_second`: requests to each asker.
void run(ToldRedis& redis, std::vector<Asker>& askers, std::vector<int64_t> per_second,
         int64_t from_us, int64_t until_us) {
  for (int64_t now_us = from_us; now_us < until_us; now_us += step_us) {
    redis.work(askers, now_us);
    for (size_t i = 0; i < askers.size(); ++i) {
      askers[i].take_answers(now_us);
      const auto due = [&](int64_t at_us) {
        return static_cast<uint64_t>((at_us - from_us) * per_second[i] / second);
      };
      const uint64_t count = due(now_us + step_us) - due(now_us);
      if (count > 0) askers[i].ask(count, now_us);
    }
  }
}

TEST(SendWindow, ThereIsNoneUntilCommandsQueue) {
  std::vector<Asker> askers(1);
  ToldRedis redis{100};
  run(redis, askers, {8'000}, 0, 5 * second);
  EXPECT_FALSE(askers[0].window.is_known());
  EXPECT_EQ(askers[0].refused, 0u);
  EXPECT_EQ(askers[0].late, 0u);
}

// Of 2.5 times what Redis can do, it is asked for what it can do.
TEST(SendWindow, AnOverloadedRedisIsKeptBusyAndAnswersInTime) {
  for (const int64_t command_us : {20, 150, 600}) {
    for (const size_t at_once : {1u, 16u, 80u}) {
      SCOPED_TRACE(std::to_string(command_us) + " us, " + std::to_string(at_once));
      std::vector<Asker> askers(1);
      ToldRedis redis{command_us, at_once};
      const int64_t capacity = second / command_us;
      run(redis, askers, {capacity * 5 / 2}, 0, 10 * second);
      const auto can = static_cast<uint64_t>(10 * capacity);
      EXPECT_GE(askers[0].granted, can * 95 / 100);
      EXPECT_LE(askers[0].late, can / 100);
      // Once it is known what Redis can do, no answer is late.
      askers[0].forget_counts();
      run(redis, askers, {capacity * 5 / 2}, 10 * second, 20 * second);
      EXPECT_GE(askers[0].granted, can * 95 / 100);
      EXPECT_EQ(askers[0].late, 0u);
    }
  }
}

TEST(SendWindow, WorkersThatAskOneRedisShareIt) {
  constexpr int64_t command_us = 150, capacity = second / command_us;
  std::vector<Asker> askers(4);
  ToldRedis redis{command_us};
  // The last one asks for little, and is not starved by the others.
  const std::vector<int64_t> per_second{capacity, capacity, capacity / 2, capacity / 20};
  run(redis, askers, per_second, 0, 5 * second);
  for (Asker& one : askers) one.forget_counts();
  run(redis, askers, per_second, 5 * second, 15 * second);
  uint64_t granted = 0, late = 0;
  for (const Asker& one : askers) granted += one.granted, late += one.late;
  EXPECT_GE(granted, static_cast<uint64_t>(10 * capacity * 95 / 100));
  EXPECT_LE(late, granted / 1000);
  EXPECT_GE(askers[0].granted, static_cast<uint64_t>(2 * capacity));
  EXPECT_GE(askers[3].granted, static_cast<uint64_t>(10 * capacity / 20 * 9 / 10));
}

TEST(SendWindow, FollowsARedisThatBecomesSlowerAndFaster) {
  std::vector<Asker> askers(1);
  ToldRedis redis{150};
  run(redis, askers, {20'000}, 0, 5 * second);
  const size_t before = askers[0].window.size();
  redis.command_us = 600;
  run(redis, askers, {20'000}, 5 * second, 6 * second);
  askers[0].forget_counts();
  run(redis, askers, {20'000}, 6 * second, 11 * second);
  EXPECT_LT(askers[0].window.size(), before / 2);
  EXPECT_GE(askers[0].granted, 5u * second / 600 * 95 / 100);
  EXPECT_EQ(askers[0].late, 0u);
  redis.command_us = 150;
  run(redis, askers, {20'000}, 11 * second, 12 * second);
  askers[0].forget_counts();
  run(redis, askers, {20'000}, 12 * second, 17 * second);
  EXPECT_GE(askers[0].granted, 5u * second / 150 * 95 / 100);
  EXPECT_EQ(askers[0].late, 0u);
}

// A burst that is answered in time is sent whole, also while little is known.
TEST(SendWindow, ABurstThatIsAnsweredInTimeIsSentWhole) {
  std::vector<Asker> askers(1);
  ToldRedis redis{10};
  run(redis, askers, {100}, 0, second);
  for (int64_t at_us = second; at_us < 11 * second; at_us += second) {
    askers[0].ask(4'000, at_us);
    run(redis, askers, {100}, at_us, at_us + second);
  }
  EXPECT_EQ(askers[0].refused, 0u);
  EXPECT_EQ(askers[0].late, 0u);
}

// Redis forks, or the machine is busy: what has queued meanwhile is answered in time.
TEST(SendWindow, APauseOfRedisIsNotItsRate) {
  std::vector<Asker> askers(1);
  ToldRedis redis{10};
  for (int64_t at_us = 0; at_us < 20 * second; at_us += second) {
    redis.busy_until_us = at_us + 30 * ms;
    run(redis, askers, {30'000}, at_us, at_us + second);
  }
  EXPECT_EQ(askers[0].refused, 0u);
  EXPECT_EQ(askers[0].late, 0u);
}

// This process runs every 30 ms only, and finds the answers of all that it sent the last time.
TEST(SendWindow, ABusyMachineIsNotTakenForABusyRedis) {
  std::vector<Asker> askers(1);
  ToldRedis redis{10};
  Asker& one = askers[0];
  one.ask(1, 0);
  run(redis, askers, {0}, 0, ms);
  for (int64_t at_us = ms; at_us < 10 * second; at_us += 30 * ms) {
    one.ask(20, at_us);
    for (int64_t now_us = at_us; now_us < at_us + 30 * ms; now_us += step_us)
      redis.work(askers, now_us);
    one.take_answers(at_us + 30 * ms);
  }
  EXPECT_FALSE(one.window.is_known());
  EXPECT_EQ(one.late, 0u);
}

TEST(SendWindow, AFarRedisIsNotTakenForABusyOne) {
  SendWindow window(deadline);
  constexpr int64_t far_us = 20 * ms;
  int64_t now_us = 0;
  for (uint64_t round = 0; round < 200; ++round) {
    const uint64_t count = 1 + round % 10 * 500;
    for (uint64_t i = 1; i <= count; ++i) {
      ASSERT_TRUE(window.takes(i - 1)) << round;
      window.sent(i);
    }
    window.written(now_us);
    now_us += far_us;
    window.answered(count, now_us);
  }
  EXPECT_FALSE(window.is_known());
}

TEST(SendWindow, IsForgottenOnceItIsNotNeeded) {
  std::vector<Asker> askers(1);
  ToldRedis redis{150};
  run(redis, askers, {20'000}, 0, 2 * second);
  EXPECT_TRUE(askers[0].window.is_known());
  run(redis, askers, {1'000}, 2 * second, 4 * second);
  EXPECT_FALSE(askers[0].window.is_known());
}

TEST(SendWindow, ALostConnectionSaysNothingOfTheNext) {
  std::vector<Asker> askers(1);
  ToldRedis redis{150};
  run(redis, askers, {20'000}, 0, 2 * second);
  EXPECT_TRUE(askers[0].window.is_known());
  askers[0].window.lost();
  EXPECT_FALSE(askers[0].window.is_known());
  EXPECT_TRUE(askers[0].window.takes(10'000));
}

// The window is never so small that nothing is sent.
TEST(SendWindow, ARedisThatAnswersNothingInTimeIsAskedForOne) {
  std::vector<Asker> askers(1);
  ToldRedis redis{80'000, 1};
  run(redis, askers, {1'000}, 0, 30 * second);
  EXPECT_EQ(askers[0].window.size(), 1u);
  EXPECT_TRUE(askers[0].window.takes(0));
}

}  // namespace
}  // namespace sluice::redis
