// Grants wait until replicas have what was written (`wait_replicas`), in a real primary with a real
// replica.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "tests/redis/cluster_world.h"
#include "tests/support/comes.h"

namespace sluice::redis::wait_replicas_test {
namespace {

struct Pair {
  Pair() {
    auto client = replica.client();
    client({"REPLICAOF", "127.0.0.1", std::to_string(primary.port())});
    const auto deadline = tests::soon();
    while (client({"INFO", "replication"}).text.find("master_link_status:up") ==
               std::string::npos &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(tests::Milliseconds(10));
  }
  Options options(unsigned replicas, int64_t timeout_ms) const {
    Options options = StoreWorld::options_for(primary);
    options.wait_replicas = replicas;
    options.wait_timeout = base::milliseconds(timeout_ms);
    return options;
  }
  tests::RedisServer primary{{"--repl-diskless-sync-delay", "0"}}, replica;
};

TEST(WaitReplicas, AGrantIsAtTheReplicaWhenItIsAnswered) {
  Pair pair;
  ClusterWorld world(pair.options(1, 20'000));
  for (int i = 1; i <= 20; ++i) {
    EXPECT_EQ(world.take_of({"a", "b"}), 0u);
    // Read once, without waiting: the grant was answered after the replica's acknowledgement.
    const std::string value = pair.replica.client()({"GET", "sluice:native:rule:a"}).text;
    EXPECT_TRUE(value.ends_with(" " + std::to_string(i))) << value;
  }
  EXPECT_EQ(world.metric("sluice_redis_wait_timeouts_total"), 0);
}

TEST(WaitReplicas, AGrantWithoutAReplicaInTimeStandsAndIsCounted) {
  Pair pair;
  ClusterWorld world(pair.options(2, 30));  // the primary has one replica
  EXPECT_EQ(world.take_of({"a"}), 0u);      // sends the script, too
  const double before = world.metric("sluice_redis_wait_timeouts_total");
  EXPECT_GE(before, 1);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(world.take_of({"a"}), 0u);
  EXPECT_GE(std::chrono::steady_clock::now() - began, tests::Milliseconds(25));
  EXPECT_EQ(world.granted["a"], 2);
  EXPECT_EQ(world.metric("sluice_redis_wait_timeouts_total"), before + 1);
  EXPECT_EQ(world.compare(), "");
}

TEST(WaitReplicas, PeeksDoNotWaitForReplicas) {
  Pair pair;
  ClusterWorld world(pair.options(2, 20'000));
  EXPECT_EQ(world.used("a"), 0);
  // The take has no answer yet when the look is answered.
  std::vector<request::Group> groups = {{.charge_count = 1}};
  std::vector<request::Charge> charges = {world.charge("a")};
  std::vector<limit::Decision> decisions(1);
  world.begin(groups, charges, decisions);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_GE(world.used("a"), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(19));
}

// A primary that is cut off from its replica, and configured to take no writes then.
TEST(WaitReplicas, APartitionedPrimaryGrantsNothing) {
  Pair pair;
  auto client = pair.primary.client();
  client({"CONFIG", "SET", "min-replicas-to-write", "1"});
  client({"CONFIG", "SET", "min-replicas-max-lag", "2"});
  ClusterWorld world(StoreWorld::options_for(pair.primary));
  // The replica may be late already. Then the store leaves the primary, and a turn connects again.
  ASSERT_TRUE(tests::comes([&] {
    world.turn();
    return world.take_of({"a"}) == 0;
  }));
  pair.replica.signal(SIGSTOP);
  const auto deadline = tests::soon();
  request::Group group;
  while (group.error != request::Error::read_only && std::chrono::steady_clock::now() < deadline) {
    world.turn();
    group = world.settle({world.charge("a")});
  }
  EXPECT_EQ(group.error, request::Error::read_only);
  const std::string value = client({"GET", "sluice:native:rule:a"}).text;
  for (int i = 0; i < 20; ++i) EXPECT_NE(world.take_of({"a"}), 0u);
  EXPECT_EQ(client({"GET", "sluice:native:rule:a"}).text, value);
  pair.replica.signal(SIGCONT);
  while (world.take_of({"a"}) > 0 && std::chrono::steady_clock::now() < deadline) world.turn();
  EXPECT_NE(client({"GET", "sluice:native:rule:a"}).text, value);
}

}  // namespace
}  // namespace sluice::redis::wait_replicas_test
