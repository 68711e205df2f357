// The real server with two Redis nodes, a primary and its replica: it uses the one that takes
// writes.
#include <gtest/gtest.h>

#include "tests/redis/world.h"

namespace sluice::tests {
namespace {

struct Pair {
  Pair() {
    auto client = second.client();
    client({"REPLICAOF", "127.0.0.1", std::to_string(first.port())});
    for (const auto end = soon(); std::chrono::steady_clock::now() < end;) {
      if (client({"INFO", "replication"}).text.find("master_link_status:up") != std::string::npos)
        return;
      std::this_thread::sleep_for(Milliseconds(20));
    }
    throw std::runtime_error("the replica does not follow");
  }
  RedisServer first{{"--repl-diskless-sync-delay", "0"}}, second;
};

TEST(RedisNodes, AReplicaThatIsPromotedTakesOver) {
  Pair pair;
  RedisWorld world({pair.first.address(), pair.second.address()}, {});
  EXPECT_EQ(world.await_hit("", "OK true 999 600"), "");
  ASSERT_EQ(pair.first.client()({"WAIT", "1", "20000"}).number, 1);
  auto replica = pair.second.client();
  for (const auto end = soon(); std::chrono::steady_clock::now() < end;)
    if (replica({"GET", "divvy:::1000:600"}).text == "999") break;
  pair.first.stop();
  // The replica takes no writes until it is promoted.
  EXPECT_EQ(world.await_hit("", "ERR Internal Error: Redis takes no writes"), "");
  replica({"REPLICAOF", "NO", "ONE"});
  EXPECT_EQ(world.await_hit("", "OK true 998"), "");
  EXPECT_EQ(replica({"GET", "divvy:::1000:600"}).text, "998");
  EXPECT_EQ(world.await_metric("sluice_redis_connections{state=\"up\"}", "2"), "");
  // The old primary is empty when it is back. The server must not use it while the new one answers.
  pair.first.start();
  for (int i = 1; i <= 20; ++i)
    EXPECT_EQ(world.hit().substr(0, 11), "OK true " + std::to_string(998 - i));
  EXPECT_EQ(pair.first.client()({"DBSIZE"}).number, 0);
}

TEST(RedisNodes, FindsTheNodeThatAcceptsWrites) {
  Pair pair;
  RedisWorld world({pair.second.address(), pair.first.address()}, {});
  EXPECT_EQ(world.await_hit("", "OK true 999"), "");
  EXPECT_TRUE(world.process().says(pair.second.address() + ": it takes no writes"));
  EXPECT_EQ(pair.first.client()({"GET", "divvy:::1000:600"}).text, "999");
}

TEST(RedisNodes, AMissingNodeDoesNotAffectRequests) {
  RedisServer redis;
  RedisWorld world({"127.0.0.1:" + std::to_string(free_port()), redis.address()}, {});
  EXPECT_EQ(world.await_hit("", "OK true 999 600"), "");
}

}  // namespace
}  // namespace sluice::tests
