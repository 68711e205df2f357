// A store over a real Redis Cluster: where keys are, and slots that move while it decides.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "redis/cluster_map.h"
#include "tests/redis/slots_world.h"

namespace sluice::redis::cluster_test {
namespace {

using limit::Algorithm;
using limit::Limit;
using request::Error;
using request::Group;
using request::Verb;

const Limit three_an_hour{Algorithm::fixed_window, 3, base::seconds(3'600), 0};
const Limit counted_an_hour{Algorithm::aligned_window, 1'000, base::seconds(3'600), 0};

std::set<std::string> keys_of(tests::RedisServer& node) {
  std::set<std::string> keys;
  for (const auto& key : node.client()({"KEYS", "*"}).list) keys.insert(key.text);
  return keys;
}

TEST(Cluster, EachPrimaryDecidesForItsSlots) {
  tests::RedisCluster& cluster = three_primaries();
  // Only one node is configured.
  Options options = ClusterWorld::options_for(cluster);
  options.nodes.resize(1);
  ClusterWorld world(options);
  const auto all = names(60);
  for (int round = 0; round < 2; ++round) EXPECT_EQ(world.take_of(all), 0u);
  EXPECT_EQ(world.compare(), "");
  std::set<std::string> stored;
  for (size_t i = 0; i < 3; ++i) {
    const auto its = keys_of(cluster.node(i));
    EXPECT_GT(its.size(), 5u) << i;
    stored.insert(its.begin(), its.end());
  }
  std::set<std::string> expected;
  for (const std::string& name : all) expected.insert(stored_name(name));
  EXPECT_EQ(stored, expected);
  EXPECT_EQ(world.metric("sluice_redis_primaries"), 3);
  EXPECT_EQ(world.metric("sluice_redis_connections{state=\"up\"}"), 3);
}

TEST(Cluster, SharedKeysKeepTheirNames) {
  tests::RedisCluster& cluster = three_primaries();
  ClusterWorld world(ClusterWorld::options_for(cluster));
  using Encoding = request::KeyEncoding;
  const Limit window{Algorithm::fixed_window, 5, base::seconds(60), 0};
  const auto divvy =
      world.charge("a:5:60", window, Verb::take, 1, "divvy:", Encoding::remaining_text);
  EXPECT_TRUE(world.settle({divvy}).allowed);
  EXPECT_EQ(cluster.at_owner({"GET", "divvy:a:5:60"}, "divvy:a:5:60").text, "4");
  const auto envoy =
      world.charge("k_v", counted_an_hour, Verb::count, 1, "d_", Encoding::window_text);
  EXPECT_TRUE(world.settle({envoy}).allowed);
  std::string name;
  append_stored_name(name, envoy, "sluice:", true, world.clock.now());
  EXPECT_TRUE(name.starts_with("d_k_v_")) << name;
  EXPECT_EQ(cluster.at_owner({"GET", name}, name).text, "1");
  EXPECT_GT(cluster.at_owner({"TTL", name}, name).number, 0);
}

TEST(Cluster, RulesWithTheSameActorSettleInOneStep) {
  tests::RedisCluster& cluster = three_primaries();
  ClusterWorld world(ClusterWorld::options_for(cluster));
  for (int i = 0; i < 20; ++i) {
    const std::string actor = "who {}" + std::to_string(i);
    const auto two = [&] {
      return world.settle({world.charge(actor, three_an_hour, Verb::take, 2, "native:a:"),
                           world.charge(actor, three_an_hour, Verb::take, 1, "native:b:")});
    };
    EXPECT_TRUE(two().allowed);
    EXPECT_FALSE(two().allowed);
    EXPECT_EQ(world.decisions[0].remaining, 1);
    EXPECT_EQ(world.decisions[1].remaining, 2);  // nothing was taken
  }
}

TEST(Cluster, AGroupOfSeveralSlotsFailsAndIsCounted) {
  tests::RedisCluster& cluster = three_primaries();
  ClusterWorld world(ClusterWorld::options_for(cluster));
  const Group group = world.settle({world.charge("a"), world.charge("b")});
  EXPECT_EQ(group.error, Error::store);
  EXPECT_EQ(world.metric("sluice_redis_apart_total"), 1);
  EXPECT_EQ(world.used("a"), 0);
  EXPECT_EQ(world.used("b"), 0);
}

TEST(Cluster, FollowsAMovedSlot) {
  tests::RedisCluster& cluster = three_primaries();
  ClusterWorld world(ClusterWorld::options_for(cluster));
  const auto all = names(12);
  EXPECT_EQ(world.take_of(all), 0u);
  for (const std::string& name : all) {
    const uint16_t slot = slot_of(stored_name(name));
    const size_t from = cluster.owner_of(slot);
    cluster.move_slot(slot, from, (from + 1) % 3);
    EXPECT_EQ(world.take_of(all), 0u) << name;
  }
  EXPECT_EQ(world.compare(), "");
  EXPECT_GT(world.metric("sluice_redis_redirects_total{kind=\"moved\"}"), 0);
}

TEST(Cluster, FindsEachKeyWhileItsSlotMoves) {
  tests::RedisCluster& cluster = three_primaries();
  ClusterWorld world(ClusterWorld::options_for(cluster));
  const std::string name = "mover";
  const uint16_t slot = slot_of(stored_name(name));
  const size_t from = cluster.owner_of(slot), to = (from + 1) % 3;
  EXPECT_EQ(world.take_of({name}), 0u);
  cluster.begin_move(slot, from, to);
  EXPECT_EQ(world.take_of({name, name}), 0u);  // the key is still there
  EXPECT_EQ(keys_of(cluster.node(from)).count(stored_name(name)), 1u);
  // One of two counters is not there: neither node can settle them.
  const auto both = [&] {
    return world.settle(
        {world.charge(name), world.charge(name, three_an_hour, Verb::take, 1, "native:other:")});
  };
  EXPECT_EQ(both().error, Error::store);
  cluster.move_keys(slot, from, to);
  EXPECT_EQ(world.take_of({name, name}), 0u);  // the store asks the other node for it
  EXPECT_EQ(keys_of(cluster.node(from)).count(stored_name(name)), 0u);
  EXPECT_GT(world.metric("sluice_redis_redirects_total{kind=\"ask\"}"), 0);
  cluster.end_move(slot, from, to);
  EXPECT_EQ(world.take_of({name}), 0u);
  EXPECT_EQ(world.compare(), "");
  EXPECT_EQ(both().error, Error::none);
}

// A count is two commands; between them its slot may leave.
TEST(Cluster, CountersKeepTheirExpiryWhenTheirSlotMoves) {
  tests::RedisCluster& cluster = three_primaries();
  ClusterWorld world(ClusterWorld::options_for(cluster));
  using Encoding = request::KeyEncoding;
  const base::Time now{1'800'000'017'000'000};
  world.told = now;
  const auto charge = [&] {
    return world.charge("w", counted_an_hour, Verb::count, 1, "d_", Encoding::window_text);
  };
  std::string name;
  append_stored_name(name, charge(), "sluice:", true, now);
  const uint16_t slot = slot_of(name);
  for (int i = 1; i <= 6; ++i) {
    const size_t from = cluster.owner_of(slot), to = (from + 1) % 3;
    // The key is at the node to which its slot moves, or has moved.
    cluster.begin_move(slot, from, to);
    cluster.move_keys(slot, from, to);
    if (i % 2 == 0) cluster.end_move(slot, from, to);
    std::vector<Group> groups = {{.charge_count = 1}};
    std::vector<request::Charge> charges = {charge()};
    std::vector<limit::Decision> decisions;
    ASSERT_TRUE(world.ask(groups, charges, decisions, now));
    EXPECT_EQ(groups[0].error, Error::none) << i;
    if (i % 2 == 1) cluster.end_move(slot, from, to);
    EXPECT_EQ(cluster.at_owner({"GET", name}, name).text, std::to_string(i));
    EXPECT_GT(cluster.at_owner({"TTL", name}, name).number, 0) << i;
  }
}

TEST(Cluster, HalfOfTheSlotsOfANodeMoveWhileItDecides) {
  tests::RedisCluster& cluster = three_primaries();
  ClusterWorld world(ClusterWorld::options_for(cluster));
  const auto all = names(200);
  EXPECT_EQ(world.take_of(all), 0u);
  std::set<uint16_t> slots;
  for (const std::string& name : all)
    if (const uint16_t slot = slot_of(stored_name(name)); cluster.owner_of(slot) == 0)
      slots.insert(slot);
  std::atomic<bool> done{false};
  std::atomic<size_t> rounds{0};
  std::thread reshard([&] {
    // Every eight slots a round of takes ends, whatever the speed of each.
    size_t moved = 0;
    const auto move = [&](uint16_t slot, size_t from, size_t to) {
      cluster.move_slot(slot, from, to);
      if (++moved % 8 == 0) rounds.wait(rounds);
    };
    // There and back, so that both nodes are taken from and given to.
    for (const uint16_t slot : slots) move(slot, 0, 1);
    for (const uint16_t slot : slots)
      if (slot % 2 == 0) move(slot, 1, 2);
    done = true;
  });
  size_t errors = 0;
  while (!done) {
    errors += world.take_of(all);
    ++rounds;
    rounds.notify_one();
  }
  errors += world.take_of(all);  // finds what moved last
  reshard.join();
  EXPECT_EQ(errors, 0u) << "in " << rounds << " rounds";
  EXPECT_GT(rounds, 3u);
  EXPECT_EQ(world.compare(), "");
  EXPECT_GT(world.metric("sluice_redis_redirects_total{kind=\"moved\"}"), 0);
}

TEST(Cluster, ANodeIsAddedAndANodeGoes) {
  tests::RedisCluster cluster({.primaries = 2});
  ClusterWorld world(ClusterWorld::options_for(cluster));
  const auto all = names(20);
  EXPECT_EQ(world.take_of(all), 0u);
  const size_t added = cluster.add_node();
  std::set<uint16_t> slots;
  for (const std::string& name : all) slots.insert(slot_of(stored_name(name)));
  for (const uint16_t slot : slots) {
    cluster.move_slot(slot, cluster.owner_of(slot), added);
    EXPECT_EQ(world.take_of(all), 0u);
  }
  EXPECT_GT(keys_of(cluster.node(added)).size(), 0u);
  for (const uint16_t slot : slots) cluster.move_slot(slot, added, 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(world.take_of(all), 0u);
  EXPECT_EQ(keys_of(cluster.node(added)).size(), 0u);
  EXPECT_EQ(world.compare(), "");
}

TEST(Cluster, ASlotWithoutAPrimaryIsAnError) {
  tests::RedisCluster& cluster = three_primaries();
  ClusterWorld world(ClusterWorld::options_for(cluster));
  EXPECT_EQ(world.take_of({"x"}), 0u);
  const uint16_t slot = slot_of(stored_name("x"));
  const size_t owner = cluster.owner_of(slot);
  // Each node answers CLUSTERDOWN once the slot has no owner.
  for (size_t i = 0; i < 3; ++i)
    cluster.node(i).client()({"CLUSTER", "DELSLOTS", std::to_string(slot)});
  const auto deadline = tests::soon();
  while (world.take_of({"x"}) == 0 && std::chrono::steady_clock::now() < deadline) {
  }
  EXPECT_GT(world.unknown["x"], 0);
  EXPECT_EQ(world.settle({world.charge("x")}).error, Error::store);
  for (size_t i = 0; i < 3; ++i) {
    auto client = cluster.node(i).client();
    if (i == owner) client({"CLUSTER", "ADDSLOTS", std::to_string(slot)});
  }
  while (world.take_of({"x"}) != 0 && std::chrono::steady_clock::now() < deadline) {
  }
  // Nothing was charged for what had an error: it was not executed.
  EXPECT_EQ(world.compare(), "");
}

}  // namespace
}  // namespace sluice::redis::cluster_test
