// What /metrics of the real server says about Redis: it is connected, gone, silent, or refuses the
// server.
#include <gtest/gtest.h>

#include <csignal>

#include "tests/redis/world.h"

namespace sluice::tests {
namespace {

const std::string connections = "sluice_redis_connections{state=";
const std::string failures = "sluice_redis_failures_total{reason=";

int64_t number(const std::string& text) {
  return text.empty() ? -1 : std::stoll(text);
}

TEST(RedisMetrics, CountAStoppedRedis) {
  RedisServer redis;
  RedisWorld world(redis.port());
  EXPECT_EQ(world.await_metric(connections + "\"up\"}", "2"), "");
  EXPECT_EQ(world.metric("sluice_redis_connects_total"), "2");
  EXPECT_EQ(world.metric("sluice_redis_losses_total"), "0");
  const int64_t calls = number(world.metric("sluice_redis_calls_total"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(world.hit().substr(0, 7), "OK true");
  EXPECT_TRUE(world.limitd().take("fixed", "a").conformant);
  EXPECT_GE(number(world.metric("sluice_redis_calls_total")), calls + 4);
  EXPECT_EQ(world.metric("sluice_redis_local_decisions_total"), "0");
  for (const char* reason :
       {"store", "deadline", "overloaded", "full", "read_only", "refused", "foreign"})
    EXPECT_EQ(world.metric(failures + "\"" + reason + "\"}"), "0") << reason;

  redis.stop();
  EXPECT_EQ(world.await_metric(connections + "\"down\"}", "2"), "");
  EXPECT_EQ(world.metric(connections + "\"up\"}"), "0");
  const int64_t sent = number(world.metric("sluice_redis_calls_total"));
  EXPECT_EQ(world.hit().substr(0, 3), "ERR");
  EXPECT_EQ(world.metric("sluice_redis_local_decisions_total"), "0");
  EXPECT_TRUE(world.limitd().take("fixed", "b").conformant);
  EXPECT_EQ(world.metric("sluice_redis_local_decisions_total"), "1");
  EXPECT_EQ(world.metric(failures + "\"store\"}"), "2");
  EXPECT_EQ(number(world.metric("sluice_redis_calls_total")), sent);
  EXPECT_GE(number(world.metric("sluice_redis_losses_total")), 2);

  redis.start();
  EXPECT_EQ(world.await_metric(connections + "\"up\"}", "2"), "");
  EXPECT_EQ(world.metric("sluice_redis_connects_total"), "4");
  EXPECT_EQ(world.hit().substr(0, 7), "OK true");
}

TEST(RedisMetrics, DistinguishASilentRedisFromAStoppedOne) {
  RedisServer redis;
  RedisWorld world(redis.port());
  EXPECT_EQ(world.await_metric(connections + "\"up\"}", "2"), "");
  redis.signal(SIGSTOP);
  // The worker that sent the call knows at its deadline. It keeps the connection for another
  // second.
  EXPECT_EQ(world.hit().substr(0, 3), "ERR");
  EXPECT_EQ(world.metric(connections + "\"silent\"}"), "1");
  EXPECT_EQ(world.metric(connections + "\"up\"}"), "1");
  EXPECT_EQ(world.metric(failures + "\"deadline\"}"), "1");
  redis.signal(SIGCONT);
  EXPECT_EQ(world.await_metric(connections + "\"up\"}", "2"), "");
}

TEST(RedisMetrics, CountARejectedLogin) {
  RedisServer redis;
  RedisWorld world(redis.port());
  auto client = redis.client();
  client({"CONFIG", "SET", "requirepass", "secret"});
  client({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  EXPECT_EQ(world.await_metric(connections + "\"refused\"}", "2"), "");
  EXPECT_EQ(world.hit().substr(0, 3), "ERR");
  EXPECT_EQ(world.metric(failures + "\"refused\"}"), "1");
  client({"CONFIG", "SET", "requirepass", ""});
  EXPECT_EQ(world.await_metric(connections + "\"up\"}", "2"), "");
}

}  // namespace
}  // namespace sluice::tests
