// Who waits while Redis is lost, goes away while it is asked, or has other rules meanwhile.
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "tests/redis/world.h"

namespace sluice::tests {
namespace {

constexpr const char* local = "sluice_redis_local_decisions_total";
constexpr const char* calls = "sluice_redis_calls_total";
constexpr const char* losses = "sluice_redis_losses_total";

// Asked on behalf of who waits, and no answer: it may have been charged, so it is not asked again.
TEST(RedisWaiting, AQuestionThatIsLostIsAnsweredByTheRulesAndNotAskedAgain) {
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
  // limitd's rules: a table of this server's own, and there the bucket is full.
  const auto reply = client.await(id);
  ASSERT_TRUE(reply.has_value());
  EXPECT_TRUE(reply->conformant && reply->delayed);
  EXPECT_EQ(reply->remaining, 1);
  EXPECT_EQ(world.metric(local), "1");
  EXPECT_EQ(world.metric("sluice_waiting_requests"), "0");
  redis.signal(SIGCONT);
  EXPECT_EQ(world.await_metric("sluice_redis_connections{state=\"up\"}", "2"), "");
  // What is put back is nobody's who has had his answer.
  const int64_t before = std::stoll(world.metric(calls));
  client.ask({LimitdMethod::put, "fixed", "k", 3});
  std::this_thread::sleep_for(Milliseconds(300));
  EXPECT_TRUE(client.take("fixed", "k", 3).conformant);
  EXPECT_EQ(std::stoll(world.metric(calls)), before + 2);
  EXPECT_EQ(client.unclaimed(), 0u);
}

// Who waits has time: an answer behind the deadline of decisions is an answer.
TEST(RedisWaiting, AnAnswerThatIsLateIsTaken) {
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

// While nobody is asked, who waits goes on waiting: Redis comes back, and it has its units there.
TEST(RedisWaiting, WhoIsNotAskedForWaitsUntilRedisIsBack) {
  RedisServer redis;
  RedisWorld world(redis.port());
  LimitdClient client = world.limitd();
  EXPECT_TRUE(client.take("slow", "k", 2).conformant);
  // In two seconds; the connection is lost and made again before.
  const std::string id = client.send({LimitdMethod::wait, "slow", "k", 2});
  EXPECT_EQ(client.ask({LimitdMethod::ping, "", ""}).kind, "pong");
  redis.client()({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  const auto reply = client.await(id);
  ASSERT_TRUE(reply.has_value());
  EXPECT_TRUE(reply->conformant && reply->delayed);
  EXPECT_GE(std::stoll(world.metric(losses)), 2);
  EXPECT_EQ(world.metric(local), "0");
  EXPECT_FALSE(client.take("slow", "k", 2).conformant);
}

// Granted to somebody who has gone while Redis was asked.
TEST(RedisWaiting, WhatIsGrantedToNobodyIsGivenBack) {
  RedisServer redis;
  RedisWorld world(redis.port());
  for (int attempt = 0; attempt < 6; ++attempt) {
    const std::string key = "k" + std::to_string(attempt);
    const std::string lost = world.metric(losses);
    EXPECT_TRUE(world.limitd().take("fixed", key, 3).conformant);
    auto gone = std::make_unique<LimitdClient>(world.limitd());
    gone->send({LimitdMethod::wait, "fixed", key, 2});
    EXPECT_EQ(world.await_metric("sluice_waiting_requests", "1"), "");
    // Scripts are held up for half a second; then the bucket is full, and what was asked meanwhile
    // is answered.
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
    // A machine too busy for that: the connection was given up, or it had not been asked.
    if (world.metric(losses) != lost) continue;
    if (std::stoll(world.metric(calls)) == asked) continue;
    EXPECT_EQ(std::stoll(world.metric(calls)), asked + 1);
    EXPECT_EQ(world.limitd().ask({LimitdMethod::get, "fixed", key}).remaining, 3);
    EXPECT_TRUE(world.limitd().take("fixed", key, 3).conformant);
    return;
  }
  FAIL() << "nothing was given back, or the machine was too busy, six times";
}

// What waits is asked again by the new types.
TEST(RedisWaiting, AReloadAsksWhatWaitsAgain) {
  RedisServer redis;
  const auto config = [](const std::string& buckets) {
    return "db: { inMemory: true }\nbuckets:\n" + buckets;
  };
  LimitdServer server(config("  ip: { size: 3 }\n  gone: { size: 3 }\n  same: { size: 3 }\n"),
                      {.environment = {{"SLUICE_REDIS", redis.address()}}});
  LimitdClient client = server.client();
  for (const char* type : {"ip", "gone", "same"}) EXPECT_TRUE(client.take(type, "k", 3).conformant);
  const auto too_large = client.send({LimitdMethod::wait, "ip", "k", 5});
  const auto gone = client.send({LimitdMethod::wait, "gone", "k", 1});
  const auto same = client.send({LimitdMethod::wait, "same", "k", 2});
  EXPECT_EQ(client.ask({LimitdMethod::ping, "", ""}).kind, "pong");
  server.folder().write("config.yml", config("  ip: { size: 10 }\n  same: { size: 3 }\n"));
  server.process().signal(SIGHUP);
  const auto refused = client.await(gone);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind, "error");
  client.ask({LimitdMethod::put, "ip", "k", 6});
  const auto granted = client.await(too_large);
  ASSERT_TRUE(granted);
  EXPECT_TRUE(granted->conformant && granted->delayed);
  EXPECT_EQ(granted->remaining, 1);
  EXPECT_EQ(granted->limit, 10);
  EXPECT_EQ(client.unclaimed(), 0u);
  client.ask({LimitdMethod::put, "same", "k", 2});
  EXPECT_TRUE(client.await(same).value().conformant);
  for (const RedisReply& key : redis.client()({"KEYS", "*"}).list)
    EXPECT_GT(redis.client()({"PTTL", key.text}).number, 0) << key.text;
}

}  // namespace
}  // namespace sluice::tests
