// A Redis user with the rights that docs/redis.md names, and no others, is enough at every node of
// a Redis Cluster and behind sentinels. And: a cluster that speaks TLS.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "redis/cluster_map.h"
#include "tests/redis/certificates.h"
#include "tests/redis/cluster_world.h"
#include "tests/redis/world.h"
#include "tests/support/redis_sentinels.h"

namespace sluice::redis::cluster_users_test {
namespace {

void add_user(tests::RedisServer& node) {
  const auto reply =
      node.client()({"ACL", "SETUSER", "limiter", "on", ">pass", "~*", "-@all", "+@read", "+@write",
                     "+@scripting", "+@connection", "+time", "+cluster|shards", "+cluster|slots",
                     "+cluster|info", "+asking"});
  EXPECT_FALSE(reply.is_error()) << reply.text;
}

bool is_used(tests::RedisServer& node) {
  return node.client()({"CLIENT", "LIST"}).text.find("user=limiter") != std::string::npos;
}

TEST(ClusterUsers, LogsInAtEveryNode) {
  tests::RedisCluster cluster;
  for (size_t i = 0; i < cluster.size(); ++i) add_user(cluster.node(i));
  Options options = ClusterWorld::options_for(cluster);
  options.username = "limiter";
  options.password = "pass";
  ClusterWorld world(options);
  const auto all = names(30);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(world.take_of(all), 0u);
  std::string moved = "sluice:";
  append_tag(moved, all[0]);
  const uint16_t slot = slot_of(moved);
  const size_t from = cluster.owner_of(slot);
  cluster.begin_move(slot, from, (from + 1) % 3);
  cluster.move_keys(slot, from, (from + 1) % 3);
  EXPECT_EQ(world.take_of(all), 0u);  // by ASKING
  EXPECT_GT(world.metric("sluice_redis_redirects_total{kind=\"ask\"}"), 0);
  cluster.end_move(slot, from, (from + 1) % 3);
  EXPECT_EQ(world.take_of(all), 0u);
  EXPECT_EQ(world.compare(), "");
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(is_used(cluster.node(i))) << i;
    EXPECT_TRUE(cluster.node(i).client()({"ACL", "LOG"}).list.empty()) << i;
  }
}

TEST(ClusterUsers, AWrongPasswordDecidesNothing) {
  tests::RedisCluster cluster;
  for (size_t i = 0; i < cluster.size(); ++i) add_user(cluster.node(i));
  Options options = ClusterWorld::options_for(cluster);
  options.deadline = base::milliseconds(500);
  options.username = "limiter";
  options.password = "other";
  ClusterWorld world(options);
  EXPECT_EQ(world.take_of({"a", "b"}), 2u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(cluster.node(i).client()({"DBSIZE"}).number, 0) << i;
}

TEST(ClusterUsers, SentinelsHaveTheirOwnUser) {
  tests::RedisSentinels all;
  Options options;
  options.nodes.clear();
  options.deadline = base::milliseconds(500);
  options.username = "limiter";
  options.password = "pass";
  options.sentinel.master = tests::RedisSentinels::master;
  options.sentinel.username = "watcher";
  options.sentinel.password = "word";
  for (size_t i = 0; i < 3; ++i) {
    add_user(all.node(i));
    const auto made =
        all.sentinel(i).client()({"ACL", "SETUSER", "watcher", "on", ">word", "allchannels",
                                  "-@all", "+@connection", "+sentinel", "+subscribe"});
    EXPECT_FALSE(made.is_error()) << made.text;
    options.sentinel.nodes.push_back({"127.0.0.1", all.sentinel(i).port()});
  }
  ClusterWorld world(options);
  const auto actors = names(5);
  const auto decides = [&] {
    const auto deadline = tests::soon();
    while (world.take_of(actors) > 0)
      if (std::chrono::steady_clock::now() > deadline)
        return false;
      else
        world.turn();
    return true;
  };
  ASSERT_TRUE(decides());
  EXPECT_TRUE(is_used(all.node(0)));
  EXPECT_NE(all.sentinel(0).client()({"CLIENT", "LIST"}).text.find("user=watcher"),
            std::string::npos);
  const size_t now = all.fail_over();
  ASSERT_TRUE(decides());
  const auto deadline = tests::soon();
  while (!is_used(all.node(now)) && std::chrono::steady_clock::now() < deadline)
    world.take_of(actors);
  EXPECT_TRUE(is_used(all.node(now)));
}

TEST(ClusterTls, CountersOfAllNodesGoOverIt) {
  const tests::Folder folder;
  const tests::Authority authority(folder, "authority");
  const auto files = authority.sign("IP:127.0.0.1");
  tests::RedisCluster cluster(
      {.settings = {"--tls-cluster", "yes", "--tls-replication", "yes", "--tls-port", "FREE_PORT",
                    "--tls-cert-file", files.certificate, "--tls-key-file", files.key,
                    "--tls-ca-cert-file", authority.certificate(), "--tls-auth-clients", "no"}});
  const auto port = cluster.node(0).client()({"CONFIG", "GET", "tls-port"}).list.at(1).text;
  for (size_t i = 0; i < cluster.size(); ++i) add_user(cluster.node(i));
  tests::RedisWorld world({"127.0.0.1:" + port},
                          {.redis = ", cluster: true, tls: true, deadline_ms: 20000, "
                                    "username: limiter, password: pass",
                           .environment = {{"SSL_CERT_FILE", authority.certificate()}},
                           .connects = false});
  EXPECT_EQ(world.await_hit("", "OK true 999"), "");
  EXPECT_EQ(cluster.at_owner({"GET", "divvy:::1000:600"}, "divvy:::1000:600").text, "999");
  tests::LimitdClient limitd = world.limitd();
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(limitd.take("fixed", "k" + std::to_string(i)).remaining, 2) << i;
  EXPECT_EQ(limitd.ask({tests::LimitdMethod::status, "fixed", "k"}).items.size(), 20u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_GT(cluster.node(i).client()({"DBSIZE"}).number, 0) << i;
    EXPECT_TRUE(is_used(cluster.node(i))) << i;
  }
}

}  // namespace
}  // namespace sluice::redis::cluster_users_test
