// Holds of several servers that use one Redis, asked as workers ask.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/hold_book.h"
#include "tests/redis/hold_server.h"
#include "tests/support/dice.h"

namespace sluice::redis::holds_servers_test {
namespace {

using limit::Limit;
using request::Charge;
using request::Error;
using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::OnError;
using request::Verb;
using store::HoldBook;
using Milliseconds = std::chrono::milliseconds;

constexpr int64_t quota = 1'000'000;
const std::string an_id = "0123456789abcdef";

// One server with one worker.
class Server : public HoldServer {
 public:
  explicit Server(const Options& options, const HoldBook::Options& holds = {})
      : HoldServer(options, {limit::Algorithm::fixed_bucket, quota, {}, quota}, holds) {}

  HoldCall reserve(std::string_view id, const std::string& key, int64_t units,
                   base::Duration ttl = {}, OnError on_error = OnError::error) {
    Charge one = charge(key, Verb::reserve, units);
    limit::Decision decision;
    request::Group group{.charge_count = 1, .on_error = on_error};
    const HoldBook::Share share{1, "rule"};
    HoldCall call{.id = id, .ttl = ttl};
    EXPECT_TRUE(world_.ask_book([&](const HoldBook::Asker& asker) {
      return book_->reserve(call, {}, {{&group, 1}, {&one, 1}, {&decision, 1}}, {&share, 1},
                            {&units, 1}, world_.now(), asker);
    }));
    error_ = group.error;
    remaining_ = decision.remaining;
    return call;
  }
  HoldCall charge_unknown(std::string_view id, const std::string& key, int64_t units, bool& known) {
    Charge one = charge(key, Verb::charge, units);
    limit::Decision decision;
    request::Group group{.charge_count = 1};
    const HoldBook::Share share{1, "rule"};
    HoldCall call{.ask = HoldAsk::commit, .id = id, .units = {units}};
    EXPECT_TRUE(world_.ask_book([&](const HoldBook::Asker& asker) {
      return book_->charge_unknown(call, {{&group, 1}, {&one, 1}, {&decision, 1}}, {&share, 1},
                                   world_.now(), asker, known);
    }));
    return call;
  }
  // Until it is connected.
  void connect() { used("nobody"); }
  Error error() const { return error_; }
  int64_t remaining() const { return remaining_; }
  std::string log() { return world_.log(); }

 private:
  Error error_ = Error::none;
  int64_t remaining_ = 0;
};

class HoldServersInEach : public InEachRedis {};
INSTANTIATE_TEST_SUITE_P(Redis, HoldServersInEach, testing::Bool(), redis_of);

TEST_P(HoldServersInEach, SettleEachOthersIds) {
  Server one(redis.options()), other(redis.options());
  one.connect();
  other.connect();
  const HoldCall held = one.reserve({}, "ann", 400);
  ASSERT_EQ(held.outcome, HoldOutcome::done);
  EXPECT_EQ(one.remaining(), quota - 400);
  EXPECT_EQ(other.used("ann"), 400);
  const HoldCall more = other.settle(HoldAsk::extend, held.made_id, {50});
  EXPECT_EQ(more.outcome, HoldOutcome::done);
  EXPECT_EQ(more.reserved, std::vector<int64_t>{450});
  EXPECT_EQ(one.settle(HoldAsk::renew, held.made_id).outcome, HoldOutcome::done);
  const HoldCall done = other.settle(HoldAsk::commit, held.made_id, {120});
  EXPECT_EQ(done.outcome, HoldOutcome::done);
  EXPECT_EQ(done.returned, 330);
  EXPECT_EQ(done.rule, "rule");
  EXPECT_EQ(done.decision.remaining, quota - 120);
  const HoldCall again = one.settle(HoldAsk::commit, held.made_id, {120});
  EXPECT_TRUE(again.repeated);
  EXPECT_EQ(again.returned, 330);
  EXPECT_EQ(one.settle(HoldAsk::commit, held.made_id, {121}).outcome, HoldOutcome::settled);
  EXPECT_EQ(one.used("ann"), 120);
  // A put of one server counts for a hold of the other: it may have been of its units.
  ASSERT_EQ(one.reserve(an_id, "bob", 10).outcome, HoldOutcome::done);
  std::vector<limit::Decision> decisions;
  other.world().ask({other.charge("bob", Verb::put, 4)}, decisions);
  EXPECT_EQ(one.settle(HoldAsk::release, an_id).returned, 6);
  EXPECT_EQ(one.used("bob"), 0);
}

TEST(HoldServers, EndTheHoldsOfAServerThatHasGone) {
  const tests::RedisServer redis;
  Server other(StoreWorld::options_for(redis));
  other.connect();
  {
    Server gone(StoreWorld::options_for(redis));
    gone.connect();
    ASSERT_EQ(gone.reserve(an_id, "ann", 400, base::milliseconds(500)).outcome, HoldOutcome::done);
  }
  // On a busy machine it may have ended before its server was gone.
  const bool is_left = redis.client()({"ZCARD", "sluice:holds"}).number == 1;
  // Nobody asks about it.
  EXPECT_TRUE(other.await_used("ann", 0));
  const auto deadline = tests::soon();
  const auto expired = [&] {
    return other.book().figures().events[static_cast<size_t>(HoldBook::Event::expired)];
  };
  while (is_left && expired() == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(Milliseconds(5));
  EXPECT_EQ(expired(), is_left ? 1u : 0u);
  const HoldCall late = other.settle(HoldAsk::commit, an_id, {30});
  EXPECT_TRUE(late.late);
  EXPECT_EQ(late.charged, 30);
  EXPECT_EQ(other.used("ann"), 30);
}

TEST(HoldServers, LoadTheScriptAgainWhereRedisHasLostIt) {
  const tests::RedisServer redis;
  tests::RedisClient client = redis.client();
  Server server(StoreWorld::options_for(redis));
  server.connect();
  bool known = true;
  const auto flush = [&] { client({"SCRIPT", "FLUSH"}); };
  flush();
  EXPECT_EQ(server.reserve(an_id, "ann", 400).outcome, HoldOutcome::done);
  flush();
  EXPECT_EQ(server.settle(HoldAsk::extend, an_id, {5}).outcome, HoldOutcome::done);
  flush();
  EXPECT_EQ(server.settle(HoldAsk::commit, an_id, {20}).outcome, HoldOutcome::done);
  flush();
  const std::string another = "fedcba9876543210";
  EXPECT_EQ(server.settle(HoldAsk::commit, another, {3}).outcome, HoldOutcome::unknown);
  flush();
  EXPECT_EQ(server.charge_unknown(another, "ann", 3, known).outcome, HoldOutcome::done);
  EXPECT_FALSE(known);
  EXPECT_EQ(server.used("ann"), 23);
}

// Redis receives what it is sent, and answers when nobody waits any more.
TEST(HoldServers, ACommitWhoseAnswerWasLostIsSettledOnce) {
  const tests::RedisServer redis;
  Options options = StoreWorld::options_for(redis);
  options.deadline = base::milliseconds(200);
  Server server(options);
  server.connect();
  HoldCall held;
  do {
    server.world().turn();
    held = server.reserve(an_id, "ann", 400);
  } while (held.outcome == HoldOutcome::failed);
  ASSERT_EQ(held.outcome, HoldOutcome::done);
  redis.signal(SIGSTOP);
  const HoldCall lost = server.settle(HoldAsk::commit, an_id, {120});
  EXPECT_EQ(lost.outcome, HoldOutcome::failed);
  EXPECT_NE(lost.error, Error::none);
  redis.signal(SIGCONT);
  HoldCall again;
  const auto deadline = tests::soon();
  do {
    server.world().turn();
    again = server.settle(HoldAsk::commit, an_id, {120});
  } while (again.outcome == HoldOutcome::failed && std::chrono::steady_clock::now() < deadline);
  EXPECT_EQ(again.outcome, HoldOutcome::done);
  EXPECT_EQ(again.returned, 280);
  EXPECT_EQ(server.used("ann"), 120);
}

TEST(HoldServers, WithoutRedisTheRulesSayWhatAReserveIs) {
  tests::RedisServer redis;
  Server server(StoreWorld::options_for(redis));
  server.connect();
  redis.stop();
  while (server.reserve({}, "ann", 4).outcome == HoldOutcome::done) continue;
  EXPECT_EQ(server.reserve({}, "ann", 4).outcome, HoldOutcome::failed);
  EXPECT_NE(server.error(), Error::none);
  EXPECT_EQ(server.reserve({}, "ann", 4, {}, OnError::local).outcome, HoldOutcome::failed);
  EXPECT_EQ(server.reserve({}, "ann", 4, {}, OnError::deny).outcome, HoldOutcome::refused);
  const HoldCall unheld = server.reserve({}, "ann", 4, {}, OnError::allow);
  EXPECT_EQ(unheld.outcome, HoldOutcome::not_held);
  EXPECT_TRUE(unheld.made_id.empty());
  for (const HoldAsk what : {HoldAsk::extend, HoldAsk::renew, HoldAsk::commit, HoldAsk::release})
    EXPECT_EQ(server.settle(what, an_id, {4}).outcome, HoldOutcome::failed);
  bool known = true;
  EXPECT_EQ(server.charge_unknown(an_id, "ann", 4, known).outcome, HoldOutcome::failed);
}

TEST_P(HoldServersInEach, CountersThatOtherProgramsShareAreRefusedByName) {
  Server server(redis.options());
  server.connect();
  request::Space shared;
  shared.encoding = request::KeyEncoding::remaining_text;
  const auto space = server.world().spaces.hold("divvy:", "", shared);
  Charge one = server.charge("ann", Verb::reserve, 1);
  one.space = space.get();
  limit::Decision decision;
  request::Group group{.charge_count = 1};
  const HoldBook::Share share{1, "rule"};
  const int64_t units = 1;
  HoldCall call;
  EXPECT_TRUE(server.book().reserve(call, {}, {{&group, 1}, {&one, 1}, {&decision, 1}}, {&share, 1},
                                    {&units, 1}, server.world().now(), {}));
  EXPECT_EQ(call.outcome, HoldOutcome::failed);
  EXPECT_NE(server.log().find("a reservation needs the counter divvy:ann"), std::string::npos)
      << server.log();
}

// A calendar's windows are known where they are asked for, also by a server that has no rule of it.
TEST_P(HoldServersInEach, SettleWindowsOfTheCalendar) {
  Server one(redis.options()), other(redis.options());
  one.connect();
  other.connect();
  const auto made = limit::Calendar::of({.unit = limit::Calendar::Unit::year});
  Limit limit{limit::Algorithm::aligned_window, quota,
              limit::Calendar::nominal(limit::Calendar::Unit::year)};
  limit.calendar = made.calendar;
  const auto list = one.world().spaces.hold_limits({&limit, 1});
  Charge charge = one.charge("ann", Verb::reserve, 100);
  charge.limits = {&limit, 1};
  charge.limits_id = list.id();
  limit::Decision decision;
  request::Group group{.charge_count = 1};
  const HoldBook::Share share{1, "rule"};
  const int64_t units = 100;
  HoldCall call{.id = an_id};
  EXPECT_TRUE(one.world().ask_book([&](const HoldBook::Asker& asker) {
    return one.book().reserve(call, {}, {{&group, 1}, {&charge, 1}, {&decision, 1}}, {&share, 1},
                              {&units, 1}, one.world().now(), asker);
  }));
  ASSERT_EQ(call.outcome, HoldOutcome::done);
  const HoldCall more = other.settle(HoldAsk::extend, an_id, {20});
  EXPECT_EQ(more.outcome, HoldOutcome::done);
  EXPECT_EQ(more.limit, limit);
  EXPECT_EQ(more.decision.remaining, quota - 120);
  const HoldCall done = other.settle(HoldAsk::commit, an_id, {500});
  EXPECT_EQ(done.outcome, HoldOutcome::done);
  EXPECT_EQ(done.charged, 380);
  EXPECT_EQ(done.decision.remaining, quota - 500);
}

// ---- The ledger ----

// What clients of two servers came to, by tenant, and ids that the other server shall settle.
struct Ledger {
  std::mutex mutex;
  std::map<std::string, int64_t> used;
  struct Open {
    std::string id, tenant;
    int64_t units;
  };
  std::deque<Open> open;
};

void run_clients(const Options& options, Ledger& ledger, uint32_t seed, int clients) {
  Server server(options);
  server.connect();
  tests::Dice dice(seed);
  for (int i = 0; i < clients; ++i) {
    const std::string tenant = "tenant-" + std::to_string(dice(5));
    const int64_t estimate = 1 + dice(int64_t{100});
    const HoldCall held = server.reserve({}, tenant, estimate, base::milliseconds(100));
    ASSERT_EQ(held.outcome, HoldOutcome::done);
    if (dice(3) == 0) continue;  // it dies
    std::optional<Ledger::Open> one;
    {
      // Estimates are wrong by 0.1 to 10 times.
      const std::lock_guard lock(ledger.mutex);
      ledger.open.push_back({held.made_id, tenant, estimate * (1 + dice(int64_t{100})) / 10});
      if (dice(4) == 0) continue;
      one = ledger.open.front();
      ledger.open.pop_front();
    }
    if (dice(5) == 0) server.settle(HoldAsk::extend, one->id, {dice(int64_t{50})});
    if (dice(6) == 0) server.settle(HoldAsk::release, one->id);
    const HoldCall done = server.settle(HoldAsk::commit, one->id, {one->units});
    ASSERT_EQ(done.outcome, HoldOutcome::done);
    const std::lock_guard lock(ledger.mutex);
    ledger.used[one->tenant] += one->units;
  }
}

TEST_P(HoldServersInEach, CountersAreWhatTheLedgerSays) {
  const Options options = redis.options();
  Ledger ledger;
  std::vector<std::thread> servers;
  for (uint32_t seed : {1u, 2u})
    servers.emplace_back([&, seed] { run_clients(options, ledger, seed, 300); });
  for (std::thread& one : servers) one.join();
  Server server(options);
  EXPECT_FALSE(ledger.used.empty());
  for (const auto& [tenant, units] : ledger.used)
    EXPECT_TRUE(server.await_used(tenant, units))
        << tenant << " has " << server.used(tenant) << ", the ledger " << units;
  EXPECT_TRUE(redis.keys("sluice:*holds").empty());
  EXPECT_TRUE(redis.keys("sluice:*given:*").empty());
}

}  // namespace
}  // namespace sluice::redis::holds_servers_test
