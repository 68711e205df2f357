// Workers of a store in this process over a real Redis. At the bound of waiting requests, with
// several workers at once, as many wait as may, and each that was answered `parked` is in a queue.
// And: this server's clock is set ahead and back.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <array>
#include <atomic>
#include <barrier>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "redis/loop_test.h"
#include "redis/redis_store.h"
#include "tests/support/patience.h"
#include "tests/support/redis_server.h"

namespace sluice::redis {
namespace {

using request::Ticket;
using request::Verb;

constexpr size_t waiting_max = 2;

class Worker {
 public:
  Worker(RedisStore& store, base::Clock& clock, request::Spaces& spaces, std::string key,
         const limit::Limit& limit)
      : store_(store), clock_(clock), key_(std::move(key)) {
    charge_.space = spaces.intern("bound/", "");
    charge_.key = key_;
    charge_.limits_id = spaces.intern_limits({&limit, 1});
    charge_.limits = spaces.limits(charge_.limits_id);
    store_.attach(port_, &loop_);
  }
  ~Worker() { store_.attach(port_, nullptr); }

  // The result of asking for the one unit of its bucket.
  enum class Is : uint8_t { granted, parked, refused, unanswered };
  Is ask(Verb verb, bool may_wait = false) {
    request::Charge charge = charge_;
    charge.verb = verb;
    limit::Decision decision;
    request::Group group{.charge_count = 1, .may_wait = may_wait, .ticket = {0, ++asked_}};
    const Ticket batch{0, asked_};
    const auto deadline = tests::soon();
    while (
        store_.apply({{&group, 1}, {&charge, 1}, {&decision, 1}}, clock_.now(), &port_, {}, batch)
            .later) {
      for (bool named = false; !named;) {
        if (std::chrono::steady_clock::now() > deadline) return Is::unanswered;
        turn();
        std::vector<Ticket> ready;
        port_.drain_batches(ready);
        for (const Ticket ticket : ready) named |= ticket == batch;
      }
    }
    if (group.error != request::Error::none) return Is::unanswered;
    return group.allowed ? Is::granted : group.parked ? Is::parked : Is::refused;
  }
  // Waits until Redis answers.
  bool connects() {
    const auto deadline = tests::soon();
    while (ask(Verb::peek) != Is::granted) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      turn();
    }
    return true;
  }
  // Waits until the parked request is granted.
  bool awaits() {
    const auto deadline = tests::soon();
    for (std::vector<store::Settled> settled; settled.empty(); port_.drain(settled)) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      turn();
    }
    return true;
  }

 private:
  void turn() {
    store_.advance(port_, clock_.now());
    loop_.turn(1);
  }

  RedisStore& store_;
  base::Clock& clock_;
  const std::string key_;
  request::Charge charge_;
  uint32_t asked_ = 0;
  FakeLoop loop_;
  store::CompletionQueue port_{[] {}};
};

std::unique_ptr<RedisStore> open(const tests::RedisServer& redis, request::Spaces& spaces) {
  Options options;
  options.nodes = {{"127.0.0.1", redis.port()}};
  options.deadline = base::seconds(20);
  options.waiting_max = waiting_max;
  auto store = RedisStore::open(
      options, spaces,
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
  EXPECT_TRUE(store) << store.problem().text;
  return *std::move(store);
}

TEST(RedisWaitingBound, AnswersWaitersWhenTheBoundIsReached) {
  const limit::Limit place{limit::Algorithm::fixed_bucket, 1, {}, 1};
  tests::RedisServer redis;
  request::Spaces spaces;
  base::Clock clock;
  const auto store = open(redis, spaces);
  constexpr size_t workers = 4;
  constexpr int rounds = 500;
  std::array<std::atomic<size_t>, rounds> parked{};
  std::atomic<bool> failed{false};
  std::barrier together(workers);
  const auto work = [&](size_t i) {
    Worker worker(*store, clock, spaces, std::to_string(i), place);
    const auto fail = [&](const char* what, int round) {
      failed = true;
      ADD_FAILURE() << what << " in round " << round << " at worker " << i;
    };
    if (!worker.connects() || worker.ask(Verb::take) != Worker::Is::granted) fail("no answer", -1);
    for (int round = 0; round < rounds; ++round) {
      together.arrive_and_wait();
      if (failed) break;
      const auto is = worker.ask(Verb::take, true);
      const bool waits = is == Worker::Is::parked;
      if (waits) ++parked[static_cast<size_t>(round)];
      if (!waits && is != Worker::Is::refused) fail("granted", round);
      together.arrive_and_wait();
      if (!waits) continue;
      if (worker.ask(Verb::put) != Worker::Is::granted) fail("no put", round);
      if (!worker.awaits()) fail("it waits for nothing", round);
    }
    together.arrive_and_drop();
  };
  std::deque<std::thread> threads;
  for (size_t i = 0; i < workers; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->stats().waiting, 0u);
  if (failed) return;
  for (const auto& count : parked) ASSERT_EQ(count, waiting_max);
}

std::atomic<int64_t> later_us{0}, ahead_us{0};

// Redis' own clock stays right.
TEST(RedisWaitingClock, AWaitBegunWithAClockAheadIsGrantedAfterTheStepBack) {
  constexpr int64_t day_us = int64_t{86'400} * 1'000'000;
  base::Clock clock{
      {[] { return base::Clock::system().monotonic_us() + later_us; },
       [] { return base::Clock::system().monotonic_us() + later_us + day_us + ahead_us; }}};
  const auto set = [&](int64_t us) {
    ahead_us = us;
    later_us += 200'000;  // the clock looks at the wall clock again
    clock.now();
  };
  tests::RedisServer redis;
  request::Spaces spaces;
  const auto store = open(redis, spaces);
  Worker worker(*store, clock, spaces, "k",
                {limit::Algorithm::token_bucket, 1, base::milliseconds(300), 1});
  ASSERT_TRUE(worker.connects());
  for (int round = 0; round < 3; ++round) {
    const base::Time before = clock.now();
    set(day_us);
    ASSERT_GT(clock.now().us, before.us + day_us);
    while (worker.ask(Verb::take) == Worker::Is::granted) continue;
    const auto is = worker.ask(Verb::take, true);
    set(0);
    ASSERT_LT(clock.now().us, before.us + day_us);
    if (is == Worker::Is::granted) continue;  // its unit came back: 300 ms have passed
    ASSERT_EQ(is, Worker::Is::parked);
    ASSERT_TRUE(worker.awaits());
  }
  EXPECT_EQ(store->stats().waiting, 0u);
}

}  // namespace
}  // namespace sluice::redis
