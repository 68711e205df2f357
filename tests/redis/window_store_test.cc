// A store with counters of windows in a real Redis: the deadlines of clients, a second Redis for
// windows of one second, and the cache of counters that are over their limit.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "metrics/page.h"
#include "tests/redis/store_world.h"
#include "tests/support/redis_server.h"

namespace sluice::redis::window_store_test {
namespace {

using limit::Algorithm;
using limit::Decision;
using limit::Limit;
using request::Charge;
using request::Error;
using request::Group;
using request::Verb;

constexpr int64_t second_us = 1'000'000, start_us = 1'800'000'000'000'000;

const Limit two_a_minute{Algorithm::aligned_window, 2, base::seconds(60), 0};
const Limit five_an_hour{Algorithm::aligned_window, 5, base::seconds(3'600), 0};
const Limit two_a_second{Algorithm::aligned_window, 2, base::seconds(1), 0};

class Server : public StoreWorld {
 public:
  explicit Server(Options options) : StoreWorld(std::move(options)) { told = now; }

  Charge charge(const Limit& limit, int64_t cost = 1, Verb verb = Verb::count,
                std::string_view key = "x") {
    request::Space like;
    like.encoding = request::KeyEncoding::window_text;
    const std::string name = "w" + std::to_string(limit.window.us / second_us) + "_";
    Charge charge;
    charge.space = spaces.intern(name, "", like);
    charge.key = key;
    charge.verb = verb;
    if (verb == Verb::count) charge.counts = 1;
    charge.cost = cost;
    charge.limits = {&limit, 1};
    charge.limits_id = spaces.intern_limits({&limit, 1});
    return charge;
  }
  // A group with its charges and decisions.
  struct Asked {
    Group group;
    std::vector<Charge> charges;
    std::vector<Decision> decisions;
  };
  Asked settle(std::vector<Charge> charges, Group group = {}) {
    group.charge_count = static_cast<uint32_t>(charges.size());
    Asked asked{group, std::move(charges), {}};
    std::vector<Group> groups = {asked.group};
    EXPECT_TRUE(StoreWorld::ask(groups, asked.charges, asked.decisions, now));
    asked.group = groups[0];
    return asked;
  }

  base::Time now{start_us + 17 * second_us};
};

int64_t calls(tests::RedisClient& client, const std::string& command) {
  const std::string all = client({"INFO", "commandstats"}).text;
  const size_t at = all.find("cmdstat_" + command + ":calls=");
  return at == std::string::npos ? 0 : std::stoll(all.substr(all.find('=', at) + 1));
}

TEST(ClientsDeadline, ARequestPastItIsNotSentToRedis) {
  tests::RedisServer redis;
  Server server(StoreWorld::options_for(redis));
  ASSERT_TRUE(server.settle({server.charge(two_a_minute, 0)}).group.allowed);
  for (const int64_t before_us : {int64_t{0}, int64_t{1}, server.now.us}) {
    const auto asked = server.settle(
        {server.charge(two_a_minute)},
        {.on_error = request::OnError::allow, .answer_by = {server.now.us - before_us}});
    EXPECT_EQ(asked.group.error, Error::deadline);
    EXPECT_FALSE(asked.group.allowed);
  }
  EXPECT_EQ(redis.client()({"DBSIZE"}).number, 0);
  const auto asked =
      server.settle({server.charge(two_a_minute)}, {.answer_by = {server.now.us + 1}});
  EXPECT_EQ(asked.group.error, Error::none);
  EXPECT_EQ(asked.decisions[0].remaining, 1);
}

TEST(ClientsDeadline, AHangingRedisDelaysNoRequestBeyondIt) {
  tests::RedisServer redis;
  Server server(StoreWorld::options_for(redis));
  ASSERT_TRUE(server.settle({server.charge(two_a_minute)}).group.allowed);
  redis.signal(SIGSTOP);
  // The store's own deadline is 20 s.
  server.told = base::Time{server.now.us + 2 * second_us};
  const auto asked =
      server.settle({server.charge(two_a_minute)}, {.answer_by = {server.now.us + second_us}});
  EXPECT_EQ(asked.group.error, Error::deadline);
  redis.signal(SIGCONT);
  // The count was charged nevertheless. Its late answer goes to no other request.
  server.now = *server.told;
  const auto next = server.settle({server.charge(two_a_minute)});
  EXPECT_EQ(next.group.error, Error::none);
  EXPECT_EQ(next.decisions[0].remaining, -1);
}

TEST(SecondRedis, HasTheCountersOfWindowsOfOneSecond) {
  tests::RedisServer first, second;
  Options options = StoreWorld::options_for(first);
  options.second.nodes = {{"127.0.0.1", second.port()}};
  Server server(options);
  auto one = first.client(), two = second.client();
  for (const Limit& limit : {two_a_minute, two_a_second}) {
    EXPECT_EQ(server.settle({server.charge(limit)}).group.error, Error::none);
    const auto asked =
        server.settle({server.charge(limit), server.charge(limit, 1, Verb::count, "y")});
    EXPECT_EQ(asked.group.error, Error::none);
  }
  for (tests::RedisClient* const client : {&one, &two}) {
    EXPECT_GE(calls(*client, "incrby"), 1);
    // Two for one group, because at first Redis does not know the script.
    EXPECT_EQ(calls(*client, "eval") + calls(*client, "evalsha"), 2);
  }
  EXPECT_EQ(one({"KEYS", "w1_*"}).list.size(), 0u);
  EXPECT_EQ(two({"KEYS", "w60_*"}).list.size(), 0u);
  // Counters of both cannot be settled in one step, so the group fails.
  const int64_t before = calls(one, "incrby") + calls(two, "incrby");
  const auto both = server.settle({server.charge(two_a_minute), server.charge(two_a_second)});
  EXPECT_EQ(both.group.error, Error::store);
  EXPECT_EQ(calls(one, "incrby") + calls(two, "incrby"), before);
  metrics::Page page;
  server.store().collect(page);
  const std::string text = page.text();
  EXPECT_NE(text.find("sluice_redis_connections{state=\"up\"} 1"), text.npos) << text;
  EXPECT_NE(text.find("sluice_redis_second_connections{state=\"up\"} 1"), text.npos);
}

TEST(SecondRedis, FailsIndependently) {
  tests::RedisServer first, second;
  Options options = StoreWorld::options_for(first);
  options.second.nodes = {{"127.0.0.1", second.port()}};
  Server server(options);
  ASSERT_EQ(server.settle({server.charge(two_a_second)}).group.error, Error::none);
  second.stop();
  const auto deadline = tests::soon();
  while (server.settle({server.charge(two_a_second)}).group.error != Error::store) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    server.turn();
  }
  EXPECT_EQ(server.settle({server.charge(two_a_minute)}).group.error, Error::none);
  const std::string why = server.await_degraded(true);
  EXPECT_TRUE(
      why.starts_with("the Redis of limits of one second cannot be asked: none of 1 "
                      "connection to it is up (127.0.0.1:" +
                      std::to_string(second.port()) + ": "))
      << why;
  second.start();
  server.told.reset();  // connecting again takes time
  EXPECT_EQ(server.await_degraded(false), "");
  first.stop();
  second.stop();
  const std::string in_first =
      "the Redis of all other limits cannot be asked: none of 1 connection to it is up";
  const std::string in_second =
      "; the Redis of limits of one second cannot be asked: none of 1 connection to it is up "
      "(127.0.0.1:" +
      std::to_string(second.port()) + ": ";
  const auto until = tests::soon();
  std::string all;
  while (!all.starts_with(in_first) || all.find(in_second) == all.npos) {
    ASSERT_LT(std::chrono::steady_clock::now(), until) << all;
    server.turn();
    all = server.store().why_degraded();
  }
}

// Its node serves no slots, so it refuses each command as only a node of a Redis Cluster does.
TEST(SecondRedis, IsANodeOfARedisCluster) {
  for (const bool configured : {false, true}) {
    SCOPED_TRACE(configured);
    tests::RedisServer first, second({"--cluster-enabled", "yes"});
    Options options = StoreWorld::options_for(first);
    options.second.nodes = {{"127.0.0.1", second.port()}};
    options.second.cluster = configured;
    Server server(options);
    EXPECT_EQ(server.settle({server.charge(two_a_minute)}).group.error, Error::none);
    server.settle({server.charge(two_a_second)});
    const std::string why = server.await_degraded(true);
    EXPECT_EQ(server.log().find(" is a node of a Redis Cluster") != std::string::npos, !configured)
        << server.log();
    EXPECT_EQ(why.starts_with(second.address() + " is a node of a Redis Cluster, and requests to "
                                                 "it fail; set store.redis.per_second.cluster"),
              !configured)
        << why;
    EXPECT_EQ(why.find(" of limits of one second ") != why.npos, configured) << why;
    EXPECT_EQ(server.settle({server.charge(two_a_minute)}).group.error, Error::none);
  }
}

Options remembering(const tests::RedisServer& redis) {
  Options options = StoreWorld::options_for(redis);
  options.over_cache_bytes = 1 << 20;
  return options;
}

TEST(WhatIsOver, IsRefusedWithoutRedisUntilItsWindowEnds) {
  tests::RedisServer redis;
  Server server(remembering(redis));
  auto client = redis.client();
  for (int i = 0; i < 5; ++i) {
    const auto asked = server.settle({server.charge(two_a_minute)});
    EXPECT_EQ(asked.group.allowed, i < 2);
    EXPECT_EQ(asked.charges[0].from_cache, i > 2) << i;
    EXPECT_EQ(asked.decisions[0].allowed, i < 2);
  }
  const std::string name = "w60_x_1800000000";
  EXPECT_EQ(client({"GET", name}).text, "3");  // no longer counted
  client({"FLUSHALL"});
  for (const auto& [verb, cost] : {std::pair(Verb::count, 0), std::pair(Verb::count, 9),
                                   std::pair(Verb::peek, 1), std::pair(Verb::take, 1)}) {
    const auto asked = server.settle({server.charge(two_a_minute, cost, verb)});
    EXPECT_FALSE(asked.group.allowed);
    EXPECT_TRUE(asked.charges[0].from_cache);
    EXPECT_EQ(asked.decisions[0].limit, 2);
    EXPECT_LT(asked.decisions[0].remaining, 0);
    EXPECT_EQ(asked.decisions[0].reset_after, base::seconds(43));
  }
  EXPECT_EQ(client({"DBSIZE"}).number, 0);
  // The cache has nothing of another key, of a larger quota and of the next window.
  EXPECT_TRUE(server.settle({server.charge(two_a_minute, 1, Verb::count, "y")}).group.allowed);
  const Limit nine{Algorithm::aligned_window, 9, base::seconds(60), 0};
  EXPECT_TRUE(server.settle({server.charge(nine)}).group.allowed);
  server.now = {server.now.us + 43 * second_us};
  EXPECT_TRUE(server.settle({server.charge(two_a_minute)}).group.allowed);
}

TEST(WhatIsOver, IsSentToRedisAgainAfterARefund) {
  tests::RedisServer redis;
  Server server(remembering(redis));
  ASSERT_FALSE(server.settle({server.charge(two_a_minute, 3)}).group.allowed);
  ASSERT_TRUE(server.settle({server.charge(two_a_minute)}).charges[0].from_cache);
  EXPECT_TRUE(server.settle({server.charge(two_a_minute, 2, Verb::put)}).group.allowed);
  const auto asked = server.settle({server.charge(two_a_minute)});
  EXPECT_FALSE(asked.charges[0].from_cache);
  EXPECT_TRUE(asked.group.allowed);
}

// A charge that this server answered from its memory would not be counted.
TEST(WhatIsOver, IsChargedInRedis) {
  tests::RedisServer redis;
  Server server(remembering(redis));
  auto client = redis.client();
  ASSERT_FALSE(server.settle({server.charge(two_a_minute, 3)}).group.allowed);
  ASSERT_TRUE(server.settle({server.charge(two_a_minute)}).charges[0].from_cache);
  const auto asked = server.settle({server.charge(two_a_minute, 4, Verb::charge)});
  EXPECT_TRUE(asked.group.allowed);
  EXPECT_FALSE(asked.charges[0].from_cache);
  EXPECT_EQ(asked.decisions[0].remaining, -5);
  EXPECT_EQ(asked.decisions[0].retry_after, base::seconds(43));
  EXPECT_EQ(client({"GET", "w60_x_1800000000"}).text, "7");
}

// A refused take does not mean that the counter is past its quota.
TEST(WhatIsOver, IsNotRememberedForARefusedTake) {
  tests::RedisServer redis;
  Server server(remembering(redis));
  for (int i = 0; i < 3; ++i)
    EXPECT_FALSE(server.settle({server.charge(two_a_minute, 3, Verb::take)}).charges[0].from_cache);
  EXPECT_TRUE(server.settle({server.charge(two_a_minute, 2)}).group.allowed);
}

TEST(WhatIsOver, OthersOfTheGroupAreChargedUnlessItIsSparing) {
  tests::RedisServer redis;
  Server server(remembering(redis));
  auto client = redis.client();
  ASSERT_FALSE(server.settle({server.charge(two_a_minute, 3)}).group.allowed);
  const Limit bucket{Algorithm::token_bucket, 5, base::seconds(100'000), 5};
  for (const bool sparing : {true, false}) {
    Charge own;
    own.space = server.spaces.intern("own/", "");
    own.key = "k";
    own.limits = {&bucket, 1};
    own.limits_id = server.spaces.intern_limits({&bucket, 1});
    const auto asked = server.settle(
        {server.charge(two_a_minute), server.charge(five_an_hour), own}, {.sparing = sparing});
    EXPECT_EQ(asked.group.error, Error::none);
    EXPECT_FALSE(asked.group.allowed);
    EXPECT_TRUE(asked.charges[0].from_cache);
    EXPECT_FALSE(asked.decisions[0].allowed);
    EXPECT_TRUE(asked.decisions[1].allowed);
    EXPECT_EQ(asked.decisions[1].remaining, sparing ? 5 : 4);
    EXPECT_EQ(asked.decisions[2].remaining, 5);  // a refused group takes nothing from it
    EXPECT_EQ(client({"EXISTS", "w3600_x_1800000000"}).number, sparing ? 0 : 1);
    EXPECT_EQ(client({"GET", "w60_x_1800000000"}).text, "3");
  }
  // Where nothing may be charged, a count that would exceed its limit is not charged either.
  const auto asked = server.settle({server.charge(two_a_minute), server.charge(five_an_hour, 9)},
                                   {.sparing = true});
  EXPECT_TRUE(asked.decisions[1].allowed);
  EXPECT_EQ(client({"GET", "w3600_x_1800000000"}).text, "1");
}

}  // namespace
}  // namespace sluice::redis::window_store_test
