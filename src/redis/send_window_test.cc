// The window of commands without an answer (redis/send_window.h), against a Redis of told time.
#include "redis/send_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/dice.h"

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

// Four workers and the load have one processor in turns of about a millisecond, so that a worker
// seldom reads answers. Each learns what Redis can do before much of what it sends is late.
TEST(SendWindow, WorkersThatHaveAProcessorInTurnsLearnInTime) {
  constexpr int64_t command_us = 115, capacity = second / command_us;
  constexpr size_t workers = 4;
  uint64_t granted = 0, late = 0;
  for (uint32_t seed = 0; seed < 6; ++seed) {
    tests::Dice dice(seed);
    std::vector<Asker> askers(workers);
    ToldRedis redis{command_us};
    std::vector<int64_t> due_ns(workers);
    size_t turn = 0;
    int64_t turn_ends_us = 0;
    for (int64_t now_us = 0; now_us < 6 * second; now_us += step_us) {
      redis.work(askers, now_us);
      for (int64_t& due : due_ns)
        due += step_us * 1'000 * (capacity * 5 / 2) / static_cast<int64_t>(workers);
      if (now_us >= turn_ends_us) {
        turn = (turn + 1) % (workers + 1);  // the last one is the load's
        turn_ends_us = now_us + 300 + dice(1'400);
      }
      if (turn == workers) continue;
      askers[turn].take_answers(now_us);
      askers[turn].ask(static_cast<uint64_t>(due_ns[turn] / (1'000 * second)), now_us);
      due_ns[turn] %= 1'000 * second;
    }
    for (const Asker& one : askers) granted += one.granted, late += one.late;
  }
  RecordProperty("late", std::to_string(late));
  EXPECT_LE(late, granted / 100);
  EXPECT_GE(granted, static_cast<uint64_t>(6 * 6 * capacity * 95 / 100));
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

// The window as its header describes it, from the time of every command and every answer.
class WholeHistory {
 public:
  bool takes(size_t under_way) const {
    return under_way < window_.value_or(base::bounds::redis_commands_max);
  }
  std::optional<size_t> window() const { return window_; }

  void sent(size_t under_way) {
    commands_.push_back({});
    if (window_ && under_way >= *window_ && !reached_) {
      reached_ = true;
      measured_from_ = commands_.size();
      answers_measured_ = 0;
    }
  }
  void written(int64_t at_us) {
    if (written_ == commands_.size()) return;
    for (; written_ < commands_.size(); ++written_) commands_[written_].at_us = at_us;
    if (!awaits_second_ || at_us - queued_[0].at_us < deadline.us / 16) return;
    awaits_second_ = false;
    set_rate(queued_[0].count, first_took_us_, at_us);
  }
  void answered(size_t count, int64_t at_us) {
    const Answers its{at_us, answered_, count, commands_[answered_].at_us,
                      commands_[answered_ + count - 1].at_us};
    answered_ += count;
    least_us_ = std::min(least_us_, at_us - its.last_at_us);
    const bool queued =
        answered_ < written_ && at_us - commands_[answered_].at_us - least_us_ >= deadline.us / 16;
    awaits_second_ = queued && queued_.empty() && !window_;
    first_took_us_ = at_us - std::max(last_answers_us_, its.first_at_us);
    last_answers_us_ = at_us;
    if (!queued) queued_.clear();
    if (queued) queued_.push_back(its);
    find_rate();
    if (!window_ || its.first < measured_from_) return;
    if (answers_measured_++ == 0) measured_until_ = commands_.size(), longest_us_ = 0;
    longest_us_ = std::max(longest_us_, at_us - its.first_at_us);
    if (answered_ >= measured_until_) adjust(at_us);
  }

 private:
  struct Command {
    int64_t at_us = 0;
  };
  struct Answers {
    int64_t at_us;
    size_t first, count;
    int64_t first_at_us, last_at_us;  // when the first and the last of them were written
  };

  // All answers in `queued_` came while commands queued; those of the first one took an unknown
  // time.
  void find_rate() {
    int64_t span_us = 0;
    size_t count = 0;
    for (size_t i = 1; i < queued_.size(); ++i) {
      span_us += queued_[i].at_us - std::max(queued_[i - 1].at_us, queued_[i].first_at_us);
      count += queued_[i].count;
    }
    if (span_us < deadline.us / 8) return;
    queued_.erase(queued_.begin(), queued_.end() - 1);
    set_rate(count, span_us, queued_[0].at_us);
  }
  void set_rate(size_t count, int64_t took_us, int64_t at_us) {
    const auto in_time = static_cast<size_t>(static_cast<int64_t>(count) * (deadline.us * 7 / 8) /
                                             std::max<int64_t>(took_us, 1));
    const size_t can = std::max<size_t>(in_time, 16);
    const size_t window = window_.value_or(base::bounds::redis_commands_max);
    if (window / 2 > can && commands_.size() - answered_ > can / 2) set(can, at_us);
  }
  void adjust(int64_t at_us) {
    if (longest_us_ >= deadline.us) careful_until_us_ = at_us + 20 * deadline.us;
    const int64_t aim_us = deadline.us * (at_us < careful_until_us_ ? 3 : 5) / 8;
    const int64_t longest_us = std::max<int64_t>(longest_us_, 1);
    // To the nearest whole number, and at least one.
    const size_t sized = std::max<size_t>(
        static_cast<size_t>((2 * static_cast<int64_t>(*window_) * aim_us + longest_us) /
                            (2 * longest_us)),
        1);
    const bool is_too_large = longest_us_ > deadline.us * 7 / 8;
    if (reached_ && sized > *window_) {
      const size_t quarter = (sized - *window_ + 3) / 4,
                   next = *window_ + std::min(quarter, *window_);
      set(next >= 4 ? next + 1 : next, at_us);
    } else if (reached_) {
      set(sized >= 4 ? sized + 1 : sized, at_us);
    } else if (is_too_large) {
      set(sized, at_us);
    } else if (at_us - used_us_ >= 20 * deadline.us) {
      window_.reset();
    } else {
      measure();
    }
  }
  void set(size_t window, int64_t at_us) {
    window_ = window;
    if (window >= base::bounds::redis_commands_max) window_.reset();
    used_us_ = at_us;
    reached_ = false;
    measure();
  }
  void measure() {
    measured_from_ = commands_.size();
    answers_measured_ = 0;
  }

  std::optional<size_t> window_;
  std::vector<Command> commands_;
  size_t written_ = 0, answered_ = 0;
  int64_t least_us_ = INT64_MAX;
  std::vector<Answers> queued_;
  bool awaits_second_ = false;  // answers after the first of `queued_`, which took that long
  int64_t first_took_us_ = 0, last_answers_us_ = 0;
  size_t measured_from_ = 0, measured_until_ = 0, answers_measured_ = 0;
  int64_t longest_us_ = 0, used_us_ = 0, careful_until_us_ = 0;
  bool reached_ = false;
};

// A worker of which each command has one fate, with its window and the model of that.
struct Crossed {
  SendWindow window{deadline};
  WholeHistory model;
  std::deque<int64_t> at_redis;  // when they were written
  size_t unwritten = 0;
  uint64_t sent = 0, refused = 0, in_time = 0, late = 0, lost = 0;

  size_t under_way() const { return at_redis.size() + unwritten; }
  void ask(size_t count) {
    for (; count > 0; --count) {
      const bool takes = window.takes(under_way());
      ASSERT_EQ(takes, model.takes(under_way()));
      if (!takes) {
        refused += count;
        return;
      }
      ++unwritten, ++sent;
      window.sent(under_way());
      model.sent(under_way());
    }
  }
  void end_turn(int64_t now_us) {
    window.written(now_us);
    model.written(now_us);
    for (; unwritten > 0; --unwritten) at_redis.push_back(now_us);
  }
  void take_answers(size_t count, int64_t now_us) {
    count = std::min(count, at_redis.size());
    if (count == 0) return;
    window.answered(count, now_us);
    model.answered(count, now_us);
    for (; count > 0; --count, at_redis.pop_front())
      ++(now_us - at_redis.front() < deadline.us ? in_time : late);
  }
  // The connection is cut, and made again.
  void cut() {
    lost += under_way();
    at_redis.clear();
    unwritten = 0;
    window.lost();
    model = WholeHistory();
  }
};

// Workers that share a Redis whose speed, pauses and load change at random, whose connections are
// cut, and which read their answers late: each window is at each moment as its whole history says.
TEST(SendWindow, IsAtEachMomentAsItsWholeHistorySays) {
  uint64_t in_time = 0, late = 0, lost = 0, refused = 0, known = 0, unknown = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    tests::Dice dice(seed);
    std::vector<Crossed> workers(1 + seed % 4);
    int64_t now_us = second, command_us = 100, load_us = 100, owed_us = 0, until_us = 0;
    for (int step = 0; step < 1'500; ++step) {
      if (now_us >= until_us) {
        until_us = now_us + 50 * ms + dice(400 * ms);
        command_us = 1 + dice(int64_t{1} << (3 + dice(9)));
        load_us = 1 + dice(int64_t{1} << (3 + dice(9)));
      }
      const int64_t passed_us = 1 + dice(dice(20) == 0 ? 60 * ms : 2 * ms);
      now_us += passed_us;
      for (Crossed& one : workers) {
        one.ask(static_cast<size_t>(passed_us / load_us) + dice(size_t{2}));
        if (testing::Test::HasFatalFailure()) return;
        if (dice(4) != 0) one.end_turn(now_us - dice(passed_us));
      }
      // What Redis has answered since, in batches; a worker may be slow to read.
      owed_us = dice(50) == 0 ? 0 : owed_us + passed_us;
      while (owed_us >= command_us && dice(3) != 0) {
        const auto most = static_cast<size_t>(owed_us / command_us);
        const size_t count = 1 + dice(std::min<size_t>(most, 80));
        owed_us -= static_cast<int64_t>(count) * command_us;
        workers[dice(workers.size())].take_answers(count, now_us);
      }
      if (dice(400) == 0) workers[dice(workers.size())].cut();
      for (const Crossed& one : workers) {
        ASSERT_EQ(one.window.is_known(), one.model.window().has_value()) << step;
        ASSERT_EQ(one.window.size(), one.model.window().value_or(base::bounds::redis_commands_max))
            << step;
        ++(one.window.is_known() ? known : unknown);
      }
    }
    for (const Crossed& one : workers) {
      EXPECT_EQ(one.sent, one.in_time + one.late + one.lost + one.under_way());
      in_time += one.in_time, late += one.late, lost += one.lost, refused += one.refused;
    }
  }
  // Every kind of event took part.
  for (const uint64_t count : {in_time, late, lost, refused, known, unknown})
    EXPECT_GT(count, 1'000u);
}

}  // namespace
}  // namespace sluice::redis
