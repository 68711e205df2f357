// Places that several servers share in one Redis, asked as workers ask.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "limit/limit.h"
#include "redis/redis_holds.h"
#include "store/hold_book.h"
#include "tests/redis/hold_server.h"
#include "tests/support/dice.h"
#include "tests/support/redis_sentinels.h"

namespace sluice::redis::places_servers_test {
namespace {

using request::Error;
using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::HoldTerms;
using request::Verb;
using store::HoldBook;
using Milliseconds = std::chrono::milliseconds;

constexpr int64_t places = 4;
const std::string an_id = "0123456789abcdef", another_id = "fedcba9876543210";

// One server with one worker.
class Server : public HoldServer {
 public:
  explicit Server(const Options& options)
      : HoldServer(options, {limit::Algorithm::concurrency, places, base::seconds(60),
                             base::seconds(600).us}) {
    used();  // connected
  }

  HoldCall acquire(std::string_view id, int64_t n, base::Duration ttl, uint64_t owner = 0,
                   bool is_place = true) {
    request::Charge one = charge(Verb::reserve, n);
    limit::Decision decision;
    request::Group group{.charge_count = 1};
    const HoldBook::Share share{1, "rule"};
    HoldCall call{.id = id, .ttl = ttl, .is_place = is_place, .owner = owner};
    const HoldTerms terms{.ttl_max = {limit_.burst}, .ignores_late = true};
    EXPECT_TRUE(world_.ask_book([&](const HoldBook::Asker& asker) {
      return book_->reserve(call, terms, {{&group, 1}, {&one, 1}, {&decision, 1}}, {&share, 1},
                            {&n, 1}, world_.now(), asker);
    }));
    retry_after_ = decision.retry_after;
    return call;
  }
  int64_t used() { return HoldServer::used("pool"); }
  bool await_used(int64_t units) { return HoldServer::await_used("pool", units); }
  request::Charge charge(Verb verb, int64_t units) const {
    return HoldServer::charge("pool", verb, units);
  }
  uint64_t events(HoldBook::Event event) const {
    return book_->figures().of_places[static_cast<size_t>(event)];
  }
  base::Duration retry_after() const { return retry_after_; }

 private:
  base::Duration retry_after_{};
};

class PlaceServersInEach : public InEachRedis {};
INSTANTIATE_TEST_SUITE_P(Redis, PlaceServersInEach, testing::Bool(), redis_of);

TEST_P(PlaceServersInEach, SettleEachOthersPlaces) {
  Server one(redis.options()), other(redis.options());
  const HoldCall held = one.acquire(an_id, 3, base::seconds(300));
  ASSERT_EQ(held.outcome, HoldOutcome::done);
  EXPECT_EQ(other.used(), 3);
  EXPECT_EQ(other.acquire(another_id, 2, base::seconds(60)).outcome, HoldOutcome::refused);
  EXPECT_GT(other.retry_after().us, base::seconds(200).us);
  EXPECT_EQ(other.settle(HoldAsk::renew, an_id).outcome, HoldOutcome::done);
  EXPECT_EQ(other.settle(HoldAsk::extend, an_id, {1}).reserved, std::vector<int64_t>{4});
  EXPECT_EQ(other.settle(HoldAsk::extend, an_id, {1}).outcome, HoldOutcome::refused);
  size_t listed = 0;
  other.book().each(other.world().now(), [&](const HoldBook::Listed& its) {
    ++listed;
    EXPECT_TRUE(its.is_place);
    EXPECT_EQ(its.units, 4);
    return true;
  });
  EXPECT_EQ(listed, 1u);
  const HoldCall back = other.settle(HoldAsk::release, an_id);
  EXPECT_EQ(back.outcome, HoldOutcome::done);
  EXPECT_EQ(back.returned, 4);
  EXPECT_EQ(one.used(), 0);
  EXPECT_EQ(one.settle(HoldAsk::renew, an_id).outcome, HoldOutcome::ended);
  EXPECT_EQ(one.events(HoldBook::Event::held), 1u);
  EXPECT_EQ(other.events(HoldBook::Event::released), 1u);
  EXPECT_EQ(other.events(HoldBook::Event::refused), 2u);
}

TEST_P(PlaceServersInEach, AReservationIsNotTheAcquireOfItsId) {
  Server server(redis.options());
  ASSERT_EQ(server.acquire(an_id, 1, base::seconds(300)).outcome, HoldOutcome::done);
  EXPECT_TRUE(server.acquire(an_id, 1, base::seconds(300)).repeated);
  EXPECT_EQ(server.acquire(an_id, 1, base::seconds(300), 0, false).outcome, HoldOutcome::in_use);
  EXPECT_EQ(server.used(), 1);
}

TEST_P(PlaceServersInEach, APlaceAndItsHoldEndInOneMomentAndAreNotRevived) {
  Server one(redis.options()), other(redis.options());
  ASSERT_EQ(one.acquire(an_id, 4, base::milliseconds(400)).outcome, HoldOutcome::done);
  ASSERT_EQ(one.settle(HoldAsk::renew, an_id).outcome, HoldOutcome::done);
  EXPECT_TRUE(other.await_used(0));
  EXPECT_EQ(one.settle(HoldAsk::renew, an_id).outcome, HoldOutcome::ended);
  EXPECT_EQ(one.settle(HoldAsk::extend, an_id, {1}).outcome, HoldOutcome::ended);
  EXPECT_EQ(one.settle(HoldAsk::release, an_id).returned, 0);
  EXPECT_EQ(one.used(), 0);
}

TEST_P(PlaceServersInEach, APlaceOfAConnectionIsReleasedWithIt) {
  Server one(redis.options()), other(redis.options());
  ASSERT_EQ(one.acquire(an_id, 1, base::seconds(300), 7).outcome, HoldOutcome::done);
  ASSERT_EQ(one.acquire(another_id, 1, base::seconds(300), 8).outcome, HoldOutcome::done);
  // Whose id is used again is still the first one's.
  EXPECT_TRUE(one.acquire(an_id, 1, base::seconds(300), 8).repeated);
  const auto began = std::chrono::steady_clock::now();
  one.book().close(8, one.world().now());
  EXPECT_TRUE(other.await_used(1));
  EXPECT_LT(std::chrono::steady_clock::now() - began, tests::promised(Milliseconds(100)));
  EXPECT_EQ(one.settle(HoldAsk::renew, an_id).outcome, HoldOutcome::done);
  EXPECT_EQ(one.settle(HoldAsk::renew, another_id).outcome, HoldOutcome::ended);
  one.book().close(7, one.world().now());
  EXPECT_TRUE(other.await_used(0));
}

// Its answer would have come when the connection was gone.
// Those whose leases end by themselves are forgotten, and those that are held go with it.
TEST(PlaceServers, AConnectionThatLetsManyLeasesEndIsRemembered) {
  const tests::RedisServer redis;
  Server server(StoreWorld::options_for(redis));
  ASSERT_EQ(server.acquire(an_id, 1, base::seconds(300), 7).outcome, HoldOutcome::done);
  const auto& book = dynamic_cast<RedisHolds&>(server.book());
  size_t granted = 0, most = 0;
  for (int i = 0; i < 3'000; ++i) {
    const HoldCall call = server.acquire({}, 1, base::milliseconds(1), 7);
    granted += call.outcome == HoldOutcome::done;
    most = std::max(most, book.owned());
  }
  EXPECT_GT(granted, 1'500u);
  EXPECT_LE(most, 1'024u);
  server.book().close(7, server.world().now());
  EXPECT_TRUE(server.await_used(0));
  EXPECT_EQ(server.settle(HoldAsk::renew, an_id).outcome, HoldOutcome::ended);
}

TEST(PlaceServers, APlaceThatIsGrantedWhileItsConnectionEndsComesBack) {
  const tests::RedisServer redis;
  Server one(StoreWorld::options_for(redis)), other(StoreWorld::options_for(redis));
  redis.signal(SIGSTOP);
  request::Charge charge = one.charge(Verb::reserve, 2);
  limit::Decision decision;
  request::Group group{.charge_count = 1};
  const HoldBook::Share share{1, "rule"};
  const int64_t units = 2;
  HoldCall call{.id = an_id, .ttl = base::seconds(300), .is_place = true, .owner = 7};
  EXPECT_FALSE(one.book().reserve(call, {.ttl_max = base::seconds(300)},
                                  {{&group, 1}, {&charge, 1}, {&decision, 1}}, {&share, 1},
                                  {&units, 1}, one.world().now(), {&one.world().port(), {1, 1}}));
  one.world().turn();
  one.book().close(7, one.world().now());
  one.world().store().abandon(one.world().port(), {1, 1});
  std::this_thread::sleep_for(Milliseconds(50));
  redis.signal(SIGCONT);
  EXPECT_TRUE(other.await_used(0));
  const auto deadline = tests::soon();
  while (other.settle(HoldAsk::renew, an_id).outcome != HoldOutcome::ended &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(Milliseconds(5));
  EXPECT_EQ(other.settle(HoldAsk::renew, an_id).outcome, HoldOutcome::ended);
  EXPECT_EQ(other.used(), 0);
}

TEST_P(PlaceServersInEach, AStopReleasesThePlacesOfItsConnections) {
  Server other(redis.options());
  {
    Server stopped(redis.options());
    ASSERT_EQ(stopped.acquire(an_id, 1, base::seconds(300), 7).outcome, HoldOutcome::done);
    ASSERT_EQ(stopped.acquire({}, 1, base::seconds(300), 8).outcome, HoldOutcome::done);
    ASSERT_EQ(stopped.acquire(another_id, 2, base::seconds(300)).outcome, HoldOutcome::done);
  }
  EXPECT_EQ(other.used(), 2);
}

TEST(PlaceServers, LoadTheScriptAgainWhereRedisHasLostIt) {
  const tests::RedisServer redis;
  tests::RedisClient client = redis.client();
  Server server(StoreWorld::options_for(redis));
  client({"SCRIPT", "FLUSH"});
  EXPECT_EQ(server.acquire(an_id, 2, base::seconds(60)).outcome, HoldOutcome::done);
  client({"SCRIPT", "FLUSH"});
  EXPECT_EQ(server.settle(HoldAsk::renew, an_id).outcome, HoldOutcome::done);
  client({"SCRIPT", "FLUSH"});
  EXPECT_EQ(server.settle(HoldAsk::release, an_id).returned, 2);
}

// Nobody can know whose places those are that are out, so the holder is told to stop.
TEST(PlaceServers, ARenewalEndsWhereWhatWasGivenBackIsLost) {
  const tests::RedisServer redis;
  Server server(StoreWorld::options_for(redis));
  ASSERT_EQ(server.acquire(an_id, 2, base::seconds(300)).outcome, HoldOutcome::done);
  EXPECT_EQ(redis.client()({"DEL", "sluice:given:test:pool"}).number, 1);
  EXPECT_EQ(server.settle(HoldAsk::renew, an_id).outcome, HoldOutcome::ended);
  EXPECT_EQ(server.used(), 2);
}

// A renewal or release is answered when nobody waits any more; it is sent again.
TEST(PlaceServers, LostAnswersAreGivenAgain) {
  const tests::RedisServer redis;
  Options options = StoreWorld::options_for(redis);
  options.deadline = base::milliseconds(200);
  Server server(options);
  const auto until = [&](const auto& ask) {
    HoldCall call;
    const auto deadline = tests::soon();
    do {
      server.world().turn();
      call = ask();
    } while (call.outcome == HoldOutcome::failed && std::chrono::steady_clock::now() < deadline);
    return call;
  };
  redis.signal(SIGSTOP);
  EXPECT_EQ(server.acquire(an_id, 3, base::seconds(60)).outcome, HoldOutcome::failed);
  redis.signal(SIGCONT);
  const HoldCall held = until([&] { return server.acquire(an_id, 3, base::seconds(60)); });
  EXPECT_EQ(held.outcome, HoldOutcome::done);
  EXPECT_EQ(server.used(), 3);
  redis.signal(SIGSTOP);
  EXPECT_EQ(server.settle(HoldAsk::release, an_id).outcome, HoldOutcome::failed);
  redis.signal(SIGCONT);
  EXPECT_EQ(until([&] { return server.settle(HoldAsk::release, an_id); }).outcome,
            HoldOutcome::done);
  EXPECT_EQ(server.used(), 0);
}

// Redis goes away and comes back empty: its places are gone with it, and holders are told.
TEST(PlaceServers, WithoutRedisNoPlaceIsGranted) {
  tests::RedisServer redis;
  Server server(StoreWorld::options_for(redis));
  ASSERT_EQ(server.acquire(an_id, 3, base::seconds(60)).outcome, HoldOutcome::done);
  redis.stop();
  while (server.settle(HoldAsk::renew, an_id).outcome == HoldOutcome::done) continue;
  EXPECT_EQ(server.acquire(another_id, 1, base::seconds(60)).outcome, HoldOutcome::failed);
  redis.start();
  HoldCall renewed;
  const auto deadline = tests::soon();
  do {
    server.world().turn();
    renewed = server.settle(HoldAsk::renew, an_id);
  } while (renewed.outcome == HoldOutcome::failed && std::chrono::steady_clock::now() < deadline);
  EXPECT_EQ(renewed.outcome, HoldOutcome::unknown);
  EXPECT_EQ(server.acquire(another_id, 4, base::seconds(60)).outcome, HoldOutcome::done);
}

// Places are out while Sentinel makes a replica the primary: none is granted twice, and their
// holders renew and release them there.
TEST(PlacesBehindSentinel, OutliveTheirPrimary) {
  tests::RedisSentinels all;
  Options options;
  options.nodes.clear();
  options.sentinel.master = tests::RedisSentinels::master;
  for (size_t i = 0; i < 3; ++i)
    options.sentinel.nodes.push_back({"127.0.0.1", all.sentinel(i).port()});
  options.deadline = base::milliseconds(500);
  Server one(options), other(options);
  ASSERT_EQ(one.acquire(an_id, 3, base::seconds(600)).outcome, HoldOutcome::done);
  ASSERT_EQ(other.acquire(another_id, 1, base::seconds(600)).outcome, HoldOutcome::done);
  // What was written before has reached the replicas with this.
  tests::RedisClient client = all.node(0).client();
  client({"SET", "last", "1"});
  ASSERT_EQ(client({"WAIT", "2", "20000"}).number, 2);
  all.node(0).signal(SIGKILL);
  const auto deadline = tests::soon();
  const auto again = [&](Server& server, const auto& ask) {
    HoldCall call = ask();
    while (call.outcome == HoldOutcome::failed && std::chrono::steady_clock::now() < deadline) {
      server.world().turn();
      call = ask();
    }
    return call.outcome;
  };
  EXPECT_EQ(again(one, [&] { return one.settle(HoldAsk::renew, an_id); }), HoldOutcome::done);
  EXPECT_NE(all.await_other_than(0), 0u);
  EXPECT_EQ(again(other, [&] { return other.acquire({}, 1, base::seconds(60)); }),
            HoldOutcome::refused);
  EXPECT_EQ(again(other, [&] { return other.settle(HoldAsk::release, an_id); }), HoldOutcome::done);
  EXPECT_EQ(one.used(), 1);
  EXPECT_EQ(one.acquire({}, 3, base::seconds(60)).outcome, HoldOutcome::done);
}

// Who is out when: a holder is surely out from its answer until it asks for the release, or until
// its last known end.
struct Out {
  std::mutex mutex;
  std::vector<std::pair<std::chrono::steady_clock::time_point, int64_t>> changes;
  void add(std::chrono::steady_clock::time_point at, int64_t n) {
    const std::lock_guard lock(mutex);
    changes.emplace_back(at, n);
  }
};

// Of these holders a third dies, and some come back when their lease is over.
void run_holders(const Options& options, Out& out, uint32_t seed, int turns) {
  Server server(options);
  tests::Dice dice(seed);
  for (int i = 0; i < turns; ++i) {
    const int64_t n = 1 + dice(int64_t{2});
    const auto asked = std::chrono::steady_clock::now();
    const base::Duration ttl = base::milliseconds(20 + dice(int64_t{40}));
    HoldCall held = server.acquire({}, n, ttl);
    if (held.outcome == HoldOutcome::refused) {
      std::this_thread::sleep_for(Milliseconds(1));
      continue;
    }
    ASSERT_EQ(held.outcome, HoldOutcome::done);
    // By the clock of Redis it ends no sooner than so long after it was asked for.
    auto ends = asked + std::chrono::microseconds(ttl.us);
    auto begins = std::chrono::steady_clock::now();
    if (dice(2) == 0) {
      const auto again = std::chrono::steady_clock::now();
      if (server.settle(HoldAsk::renew, held.made_id).outcome == HoldOutcome::done)
        ends = again + std::chrono::microseconds(ttl.us);
    }
    if (dice(3) != 0) {
      const auto before = std::chrono::steady_clock::now();
      const HoldCall back = server.settle(HoldAsk::release, held.made_id);
      ASSERT_EQ(back.outcome, HoldOutcome::done);
      ends = std::min(ends, before);
    }
    if (begins >= ends) continue;
    out.add(begins, n);
    out.add(ends, -n);
  }
}

TEST_P(PlaceServersInEach, NoMoreThanTheQuotaAreOutOverTwoServers) {
  const Options options = redis.options();
  Out out;
  std::vector<std::thread> servers;
  for (uint32_t seed : {1u, 2u, 3u})
    servers.emplace_back([&, seed] { run_holders(options, out, seed, 400); });
  for (std::thread& one : servers) one.join();
  std::ranges::sort(out.changes);
  int64_t now = 0, most = 0;
  for (const auto& [at, n] : out.changes) most = std::max(most, now += n);
  EXPECT_LE(most, places);
  EXPECT_GE(most, places - 1);
  Server server(options);
  EXPECT_TRUE(server.await_used(0));
  const auto deadline = tests::soon();
  const auto left = [&] { return redis.keys("sluice:*held_places").size(); };
  while (left() > 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(Milliseconds(5));
  EXPECT_EQ(left(), 0u);
  EXPECT_TRUE(redis.keys("sluice:*given:*").empty());
}

}  // namespace
}  // namespace sluice::redis::places_servers_test
