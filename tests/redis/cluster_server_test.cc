// The real server over a real Redis Cluster: divvy, limitd, lists, counters, overrides and waiting.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/redis/world.h"
#include "tests/support/redis_cluster.h"

namespace sluice::tests::cluster_server_test {
namespace {

using Json = nlohmann::json;

const std::string api =
    "rules:\n  - name: api\n    match: { r: \"*\" }\n    actor: r\n    limits:\n"
    "      - { quota: 3, window: 1h }\n";

// The server connects at the first request, which then has time enough for a slow machine.
RedisWorld::Options clustered() {
  return {.rules = api, .redis = ", cluster: true, deadline_ms: 20000", .connects = false};
}

std::set<std::string> keys_of(RedisCluster& cluster) {
  std::set<std::string> keys;
  for (size_t i = 0; i < cluster.size(); ++i)
    for (const auto& key : cluster.node(i).client()({"KEYS", "*"}).list) keys.insert(key.text);
  return keys;
}

// The keys are in several slots. Those of sluice's own counters have a tag, Divvy's have none.
TEST(ClusterServer, EveryProtocolIsServed) {
  RedisCluster cluster;
  const RedisWorld::Options options = clustered();
  RedisWorld one({cluster.node(0).address()}, options), two(cluster.addresses(), options);
  // Divvy's key is at the owner of its slot, with its usual name.
  EXPECT_EQ(one.await_hit("method=GET", "OK true 999"), "");
  EXPECT_EQ(two.await_hit("method=GET", "OK true 998"), "");
  EXPECT_EQ(cluster.at_owner({"GET", "divvy:::1000:600"}, "divvy:::1000:600").text, "998");
  LimitdClient limitd = one.limitd();
  for (int i = 0; i < 12; ++i) {
    const std::string key = "k" + std::to_string(i);
    EXPECT_EQ(limitd.take("fixed", key, 2).remaining, 1);
    EXPECT_EQ(two.limitd().take("fixed", key, 1).remaining, 0);
    EXPECT_FALSE(limitd.take("fixed", key).conformant);
  }
  // A list has the counters of all nodes.
  EXPECT_EQ(limitd.ask({LimitdMethod::status, "fixed", "k"}).items.size(), 12u);
  size_t tagged = 0;
  for (const std::string& key : keys_of(cluster))
    if (!key.starts_with("divvy:")) tagged += key.starts_with("sluice:{") ? 1u : 1'000u;
  EXPECT_EQ(tagged, 12u);
  // A request that waits gets units that are put back at another server.
  LimitdClient waits = one.limitd();
  const std::string id = waits.send({LimitdMethod::wait, "fixed", "k1", 2});
  two.limitd().ask({LimitdMethod::put, "fixed", "k1", 2});
  const auto reply = waits.await(id);
  ASSERT_TRUE(reply.has_value());
  EXPECT_TRUE(reply->conformant);
}

TEST(ClusterServer, CountersAndOverridesIncludeAllNodes) {
  RedisCluster cluster;
  const RedisWorld::Options options = clustered();
  RedisWorld one({cluster.node(0).address()}, options), two(cluster.addresses(), options);
  std::set<std::string> expected = {""};  // the actor of Divvy's rule
  for (RedisWorld* world : {&one, &two}) EXPECT_EQ(world->await_hit("k=v", "OK true"), "");
  for (int i = 0; i < 20; ++i) {
    // An actor may have any byte.
    const std::string actor = "a" + std::to_string(i) + "{}";
    EXPECT_EQ(one.hit("r=" + actor).substr(0, 7), "OK true");
    expected.insert(actor);
  }
  std::set<std::string> listed;
  std::string next;
  for (int page = 0; page < 100; ++page) {
    const auto said = http_get(one.admin_port(), "/v1/counters?limit=7" + next);
    ASSERT_EQ(said.status, 200) << said.body;
    const Json json = Json::parse(said.body);
    for (const Json& counter : json.at("counters")) listed.insert(counter.at("actor"));
    if (!json.contains("next") || json.at("next").is_null()) break;
    next = "&after=" + json.at("next").get<std::string>();
  }
  EXPECT_EQ(listed, expected);
  const auto set = http(one.admin_port(), "POST", "/v1/overrides",
                        R"({"rule":"api","actor":"a1{}","limit":{"quota":50,"window":"1h"}})");
  EXPECT_EQ(set.status, 201) << set.body;
  EXPECT_EQ(two.await_hit("r=a1{}", "OK true 4"), "");
  const std::string id = Json::parse(set.body).at("id");
  EXPECT_EQ(cluster.at_owner({"HEXISTS", "sluice:{kept}", id}, "sluice:{kept}").number, 1);
  // The slot of the overrides moves: they can still be set at once.
  const uint16_t slot = cluster.slot_of("sluice:{kept}");
  const size_t from = cluster.owner_of(slot);
  cluster.move_slot(slot, from, (from + 1) % 3);
  const auto again = http(two.admin_port(), "POST", "/v1/overrides",
                          R"({"rule":"api","actor":"a2{}","limit":{"quota":60,"window":"1h"}})");
  EXPECT_EQ(again.status, 201) << again.body;
  EXPECT_EQ(one.await_hit("r=a2{}", "OK true 5"), "");
}

// A bucket of three units for each key, and one of four units for all keys, in different slots. A
// request that waits is granted when another server puts units back, by an override, and by a
// reload.
TEST(ClusterServer, ARequestWaitsForCountersOfSeveralSlots) {
  RedisCluster cluster;
  const auto rules = [](int of_all) {
    return "rules:\n"
           "  - { name: one, match: { type: pool, key: '*' }, actor: key, limit: { quota: 3, "
           "algorithm: fixed_bucket }, then: continue }\n"
           "  - { name: all, match: { type: pool }, actor: type, limit: { quota: " +
           std::to_string(of_all) + ", algorithm: fixed_bucket } }\n";
  };
  RedisWorld::Options options = clustered();
  options.rules = rules(4);
  options.redis += ", across_slots: settle";
  RedisWorld one(cluster.addresses(), options), two(cluster.addresses(), options);
  LimitdClient client = one.limitd(), other = two.limitd();
  const auto served = [&](const std::string& id) {
    const auto reply = client.await(id);
    return reply && reply->conformant && reply->delayed;
  };
  EXPECT_TRUE(client.take("pool", "a", 3).conformant);
  const std::string b = client.send({LimitdMethod::wait, "pool", "b", 2});
  EXPECT_EQ(one.await_metric("sluice_waiting_requests", "1"), "");
  other.ask({LimitdMethod::put, "pool", "a", 1});
  EXPECT_TRUE(served(b));
  const std::string c = client.send({LimitdMethod::wait, "pool", "c", 2});
  EXPECT_EQ(one.await_metric("sluice_waiting_requests", "1"), "");
  const auto set = http(one.admin_port(), "POST", "/v1/overrides",
                        R"({"rule":"all","actor":"pool",)"
                        R"("limit":{"quota":6,"algorithm":"fixed_bucket"}})");
  EXPECT_EQ(set.status, 201) << set.body;
  EXPECT_TRUE(served(c));
  const std::string d = client.send({LimitdMethod::wait, "pool", "d", 2});
  EXPECT_EQ(one.await_metric("sluice_waiting_requests", "1"), "");
  EXPECT_EQ(http(one.admin_port(), "DELETE",
                 "/v1/overrides/" + Json::parse(set.body).at("id").get<std::string>())
                    .status /
                100,
            2);
  one.write_rules(rules(8));
  one.process().signal(SIGHUP);
  EXPECT_TRUE(served(d));
  EXPECT_EQ(client.unclaimed(), 0u);
  EXPECT_EQ(one.metric("sluice_redis_left_taken_units_total"), "0");
}

TEST(ClusterServer, DivvysDropInReadsRedisClusterFromTheEnvironment) {
  RedisCluster cluster;
  Folder folder;
  const std::string rules =
      folder.write("rules.ini", "[default]\ncreditLimit = 10\nresetSeconds = 600\n");
  Process process({.arguments = {"divvy", rules, "--host", "127.0.0.1"},
                   .environment = {{"PORT", "0"},
                                   {"REDIS_PORT", std::to_string(cluster.node(0).port())},
                                   {"REDIS_HOST", "127.0.0.1"},
                                   {"REDIS_CLUSTER", "1"}}});
  const uint16_t port = await_listening(process, "divvy");
  TcpClient client = connected(port);
  const auto deadline = soon();
  std::string reply;
  while (!reply.starts_with("OK true") && std::chrono::steady_clock::now() < deadline)
    reply = client.ask("HIT a=b");
  EXPECT_EQ(reply.substr(0, 9), "OK true 9");
  EXPECT_EQ(cluster.at_owner({"GET", "divvy:::10:600"}, "divvy:::10:600").text, "9");
}

TEST(ClusterServer, ANodeOfAClusterIsNotUsedAsASingleRedis) {
  RedisCluster cluster;
  RedisWorld world({cluster.node(0).address()}, {});
  const std::string owned = cluster.owner_of(cluster.slot_of("divvy:::1000:600")) == 0
                                ? "OK true"
                                : "ERR Internal Error: Redis cannot be reached";
  EXPECT_EQ(world.await_hit("", owned), "");
}

}  // namespace
}  // namespace sluice::tests::cluster_server_test
