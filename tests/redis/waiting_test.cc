// Requests that wait at the real server, with a real Redis: while Redis is lost, while their client
// disconnects, and while rules or overrides change. In limitd's protocol.
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "tests/redis/world.h"
#include "tests/support/comes.h"
#include "tests/support/limitd_reload.h"

namespace sluice::tests {
namespace {

constexpr const char* local = "sluice_redis_local_decisions_total";
constexpr const char* calls = "sluice_redis_calls_total";
constexpr const char* losses = "sluice_redis_losses_total";

// A call for a waiting request gets no answer. It may have been charged, so it is not repeated.
TEST(RedisWaiting, ALostCallIsAnsweredByOnStoreErrorAndNotRepeated) {
  RedisServer redis;
  RedisWorld world(redis.port());
  LimitdClient client = world.limitd();
  client.ask({LimitdMethod::put, "fixed", "other", 1});  // Redis knows that script from here on
  EXPECT_TRUE(client.take("fixed", "k", 3).conformant);
  const std::string id = client.send({LimitdMethod::wait, "fixed", "k", 2});
  EXPECT_EQ(client.ask({LimitdMethod::ping, "", ""}).kind, "pong");
  EXPECT_EQ(world.await_metric("sluice_waiting_requests", "1"), "");
  EXPECT_EQ(world.metric(local), "0");
  redis.signal(SIGSTOP);
  // limitd's rules use this server's own table then, in which the bucket is full.
  const auto reply = client.await(id);
  ASSERT_TRUE(reply.has_value());
  EXPECT_TRUE(reply->conformant && reply->delayed);
  EXPECT_EQ(reply->remaining, 1);
  EXPECT_EQ(world.metric(local), "1");
  EXPECT_EQ(world.metric("sluice_waiting_requests"), "0");
  redis.signal(SIGCONT);
  EXPECT_EQ(world.await_metric("sluice_redis_connections{state=\"up\"}", "2"), "");
  // Units that are put back must not go to a request that has its answer.
  const int64_t before = std::stoll(world.metric(calls));
  client.ask({LimitdMethod::put, "fixed", "k", 3});
  std::this_thread::sleep_for(Milliseconds(300));
  EXPECT_TRUE(client.take("fixed", "k", 3).conformant);
  EXPECT_EQ(std::stoll(world.metric(calls)), before + 2);
  EXPECT_EQ(client.unclaimed(), 0u);
}

// A waiting request has time: an answer after the deadline of decisions is used.
TEST(RedisWaiting, AcceptsALateAnswer) {
  RedisServer redis;
  RedisWorld world(redis.port());
  LimitdClient client = world.limitd();
  EXPECT_TRUE(client.take("fixed", "k", 3).conformant);
  const std::string id = client.send({LimitdMethod::wait, "fixed", "k", 2});
  EXPECT_EQ(world.await_metric("sluice_waiting_requests", "1"), "");
  auto holds = redis.client();
  holds({"CLIENT", "PAUSE", "400", "WRITE"});
  holds({"DEL", "sluice:limitd:fixed:k"});
  const auto reply = client.await(id);
  ASSERT_TRUE(reply.has_value());
  EXPECT_TRUE(reply->conformant && reply->delayed);
  EXPECT_EQ(reply->remaining, 1);
  if (world.metric(losses) == "0") {
    EXPECT_EQ(world.metric(local), "0");
    EXPECT_EQ(client.ask({LimitdMethod::get, "fixed", "k"}).remaining, 1);
  }
}

// While no Redis can be asked, a request continues to wait. It gets its units from Redis when that
// is back.
TEST(RedisWaiting, AWaiterContinuesToWaitUntilRedisIsBack) {
  RedisServer redis;
  RedisWorld world(redis.port());
  LimitdClient client = world.limitd();
  EXPECT_TRUE(client.take("slow", "k", 2).conformant);
  // The units are there in two seconds. Before that the connection is lost and made again.
  const std::string id = client.send({LimitdMethod::wait, "slow", "k", 2});
  EXPECT_EQ(client.ask({LimitdMethod::ping, "", ""}).kind, "pong");
  redis.client()({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  const auto reply = client.await(id);
  ASSERT_TRUE(reply.has_value());
  EXPECT_TRUE(reply->conformant && reply->delayed);
  // The other worker may notice its loss later.
  EXPECT_TRUE(comes([&] { return std::stoll(world.metric(losses)) >= 2; }));
  EXPECT_EQ(world.metric(local), "0");
  EXPECT_FALSE(client.take("slow", "k", 2).conformant);
}

// Units that Redis grants to a client that has disconnected meanwhile.
TEST(RedisWaiting, ReturnsUnitsGrantedToADisconnectedClient) {
  RedisServer redis;
  RedisWorld world(redis.port());
  for (int attempt = 0; attempt < 6; ++attempt) {
    const std::string key = "k" + std::to_string(attempt);
    const std::string lost = world.metric(losses);
    EXPECT_TRUE(world.limitd().take("fixed", key, 3).conformant);
    auto gone = std::make_unique<LimitdClient>(world.limitd());
    gone->send({LimitdMethod::wait, "fixed", key, 2});
    EXPECT_EQ(world.await_metric("sluice_waiting_requests", "1"), "");
    // Redis holds scripts up for half a second. Then the bucket is full, and the calls of that time
    // are answered.
    auto holds = redis.client();
    holds({"CLIENT", "PAUSE", "500", "WRITE"});
    std::thread fills([&] { holds({"DEL", "sluice:limitd:fixed:" + key}); });
    std::this_thread::sleep_for(Milliseconds(250));
    gone.reset();
    const std::string left = world.await_metric("sluice_waiting_requests", "0");
    const int64_t asked = std::stoll(world.metric(calls));
    fills.join();
    EXPECT_EQ(left, "");
    std::this_thread::sleep_for(Milliseconds(200));
    // The machine was too busy: the connection was given up, or Redis was not asked in that time.
    if (world.metric(losses) != lost) continue;
    if (std::stoll(world.metric(calls)) == asked) continue;
    EXPECT_EQ(std::stoll(world.metric(calls)), asked + 1);
    EXPECT_EQ(world.limitd().ask({LimitdMethod::get, "fixed", key}).remaining, 3);
    EXPECT_TRUE(world.limitd().take("fixed", key, 3).conformant);
    return;
  }
  FAIL() << "nothing was given back, or the machine was too busy, six times";
}

TEST(RedisWaiting, AReloadDecidesWaitingRequestsAgain) {
  RedisServer redis;
  expect_reload_asks_what_waits_again({{"SLUICE_REDIS", redis.address()}});
  for (const RedisReply& key : redis.client()({"KEYS", "*"}).list)
    EXPECT_GT(redis.client()({"PTTL", key.text}).number, 0) << key.text;
}

// The reload happens while a call is at Redis, so the answer is by rules that are no longer live.
TEST(RedisWaiting, AReloadDuringACallDecidesAgain) {
  RedisServer redis;
  const auto rules = [](const std::string& limits) {
    return "rules:\n  - name: pool\n    match: { type: pool, key: \"*\" }\n    actor: key\n    " +
           limits + "\n";
  };
  const std::string units = "{ quota: 3, algorithm: fixed_bucket }";
  RedisWorld world(redis.port(), rules("limit: " + units));
  LimitdClient client = world.limitd();
  EXPECT_TRUE(client.take("pool", "granted", 3).conformant);
  EXPECT_TRUE(client.take("pool", "refused", 3).conformant);
  const auto granted = client.send({LimitdMethod::wait, "pool", "granted", 2});
  const auto refused = client.send({LimitdMethod::wait, "pool", "refused", 2});
  EXPECT_EQ(world.await_metric("sluice_waiting_requests", "2"), "");
  auto holds = redis.client();
  holds({"CLIENT", "PAUSE", "600", "WRITE"});
  std::thread fills([&] {
    auto other = redis.client();
    for (const RedisReply& key : other({"KEYS", "*granted*"}).list) holds({"DEL", key.text});
  });
  EXPECT_EQ(world.await_metric("sluice_redis_connections{state=\"silent\"}", "1"), "");
  // Two limits where there was one.
  world.write_rules(rules("limits:\n      - " + units + "\n      - { quota: 4, window: 1h }"));
  world.process().signal(SIGHUP);
  EXPECT_EQ(world.await_metric("sluice_policy_generation", "2"), "");
  fills.join();
  const auto reply = client.await(granted);
  ASSERT_TRUE(reply.has_value());
  EXPECT_TRUE(reply->conformant && reply->delayed);
  EXPECT_EQ(client.take("pool", "granted", 1).remaining, 0);  // two of three were taken, once
  client.ask({LimitdMethod::put, "pool", "refused", 3});
  const auto later = client.await(refused);
  ASSERT_TRUE(later.has_value());
  EXPECT_TRUE(later->conformant && later->delayed);
  EXPECT_EQ(later->remaining, 1);
}

// An override applies to waiting requests as well. One that becomes unlimited takes nothing any
// more.
TEST(RedisWaiting, AnOverrideDecidesWaitingRequestsAgain) {
  RedisServer redis;
  RedisWorld world(redis.port());
  LimitdClient client = world.limitd();
  const auto set = [&](const std::string& key, const std::string& limit) {
    const auto answer = http(world.admin_port(), "POST", "/v1/overrides",
                             "{\"rule\":\"fixed\",\"actor\":\"" + key + "\"," + limit + "}");
    EXPECT_EQ(answer.status / 100, 2) << answer.body;
  };
  for (const char* key : {"free", "more"}) EXPECT_TRUE(client.take("fixed", key, 3).conformant);
  const auto free = client.send({LimitdMethod::wait, "fixed", "free", 2});
  const auto more = client.send({LimitdMethod::wait, "fixed", "more", 2});
  EXPECT_EQ(world.await_metric("sluice_waiting_requests", "2"), "");
  set("free", "\"deny\":true");
  set("more", "\"limit\":{\"quota\":9,\"algorithm\":\"fixed_bucket\"}");
  EXPECT_EQ(client.ask({LimitdMethod::ping, "", ""}).kind, "pong");
  EXPECT_EQ(world.metric("sluice_waiting_requests"), "2");  // the larger limit has no unit either
  set("free", "\"unlimited\":true");
  set("more", "\"limits\":[{\"quota\":9,\"window\":\"1d\",\"algorithm\":\"sliding_window\"}]");
  for (const auto& id : {free, more}) {
    const auto reply = client.await(id);
    ASSERT_TRUE(reply.has_value());
    EXPECT_TRUE(reply->conformant && reply->delayed);
  }
  EXPECT_EQ(world.await_metric("sluice_waiting_requests", "0"), "");
  EXPECT_EQ(client.take("fixed", "more", 1).remaining, 6);
}

// The request begins to wait at this server's own table, and gets its units from Redis.
TEST(RedisWaiting, AWaitBegunWithoutRedisIsGrantedByRedisLater) {
  RedisServer redis;
  RedisWorld world(redis.port());
  LimitdClient client = world.limitd();
  redis.stop();
  EXPECT_EQ(world.await_metric("sluice_redis_connections{state=\"down\"}", "2"), "");
  EXPECT_TRUE(client.take("fixed", "k", 3).conformant);
  const auto id = client.send({LimitdMethod::wait, "fixed", "k", 2});
  EXPECT_EQ(world.await_metric("sluice_waiting_requests", "1"), "");
  // Units that come back with time are granted from this server's own table.
  EXPECT_TRUE(client.take("fast", "k", 2).conformant);
  const auto reply = client.ask({LimitdMethod::wait, "fast", "k", 2});
  EXPECT_TRUE(reply.conformant && reply.delayed);
  redis.start();
  const auto back = client.await(id);
  ASSERT_TRUE(back.has_value());
  EXPECT_TRUE(back->conformant && back->delayed);
  EXPECT_EQ(back->remaining, 1);
  EXPECT_EQ(redis.client()({"EXISTS", "sluice:limitd:fixed:k"}).number, 1);
  EXPECT_EQ(client.ask({LimitdMethod::get, "fixed", "k"}).remaining, 1);
}

}  // namespace
}  // namespace sluice::tests
