// What a store over a real Redis Cluster does while primaries die, stop, restart or are promoted. A
// ledger has every grant, and is compared with the counters afterwards.
#include <gtest/gtest.h>

#include <csignal>
#include <iostream>
#include <string>

#include "tests/redis/cluster_world.h"

namespace sluice::redis::cluster_failover_test {
namespace {

using Clock = std::chrono::steady_clock;

Options options_for(const tests::RedisCluster& cluster) {
  Options options = ClusterWorld::options_for(cluster);
  options.deadline = base::milliseconds(500);
  return options;
}

int64_t ms_since(Clock::time_point began) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began).count();
}

// Takes one unit of each actor again and again, until two rounds had no error. Returns for how long
// takes failed, in ms.
int64_t take_until_well(ClusterWorld& world, const std::vector<std::string>& all) {
  const auto began = Clock::now();
  const auto deadline = tests::soon();
  int64_t failed_ms = 0;
  for (int well = 0; well < 2 && Clock::now() < deadline;) {
    if (world.take_of(all) == 0) {
      ++well;
      continue;
    }
    well = 0;
    failed_ms = ms_since(began);
    world.turn();
  }
  return failed_ms;
}

struct Ledger {
  int64_t granted = 0, used = 0, unknown = 0, forgotten = 0;
};

// No counter may lack more than what was granted plus, once each, what was answered with an error.
Ledger compare(ClusterWorld& world) {
  Ledger sum;
  for (const auto& [name, units] : world.granted) {
    const int64_t used = world.used(name);
    const int64_t unknown = world.unknown[name];
    EXPECT_LE(used, units + unknown) << name;  // nothing was charged twice
    sum.granted += units;
    sum.used += used;
    sum.unknown += unknown;
    sum.forgotten += std::max<int64_t>(0, units - used);
  }
  return sum;
}

void tell(const char* what, const Ledger& ledger, int64_t failed_ms) {
  std::cout << what << ": granted " << ledger.granted << ", with an error " << ledger.unknown
            << ", in counters " << ledger.used << ", forgotten " << ledger.forgotten
            << ", requests failed for " << failed_ms << " ms\n";
}

TEST(ClusterFailover, AReplicaReplacesAKilledPrimary) {
  tests::RedisCluster cluster({.primaries = 3, .replicas = 1, .node_timeout_ms = 1'000});
  ClusterWorld world(options_for(cluster));
  const auto all = names(60);
  for (int round = 0; round < 20; ++round) EXPECT_EQ(world.take_of(all), 0u);
  cluster.stop(0);
  const int64_t failed_ms = take_until_well(world, all);
  for (int round = 0; round < 5; ++round) EXPECT_EQ(world.take_of(all), 0u);
  const Ledger ledger = compare(world);
  tell("kill of a primary", ledger, failed_ms);
  EXPECT_GT(ledger.unknown, 0);
  // The old primary comes back as a replica. The store does not write to it.
  cluster.start(0);
  cluster.await_ok();
  EXPECT_EQ(world.take_of(all), 0u);
  EXPECT_EQ(cluster.node(0).client()({"ROLE"}).list.at(0).text, "slave");
}

TEST(ClusterFailover, AStoppedPrimaryDoesNotDelayOtherSlots) {
  tests::RedisCluster cluster({.primaries = 3, .node_timeout_ms = 1'000});
  ClusterWorld world(options_for(cluster));
  const auto all = names(60);
  EXPECT_EQ(world.take_of(all), 0u);
  cluster.node(1).signal(SIGSTOP);
  // The other primaries decide while this one is silent.
  size_t errors = 0;
  const auto began = Clock::now();
  while (errors == 0 && ms_since(began) < 20'000) errors = world.take_of(all);
  EXPECT_GT(errors, 0u);
  EXPECT_LT(errors, all.size());
  cluster.node(1).signal(SIGCONT);
  const int64_t failed_ms = take_until_well(world, all);
  const Ledger ledger = compare(world);
  tell("SIGSTOP of a primary", ledger, failed_ms);
  EXPECT_EQ(ledger.forgotten, 0);
}

TEST(ClusterFailover, FlushedCountersStartFresh) {
  tests::RedisCluster cluster({.primaries = 3, .node_timeout_ms = 1'000});
  ClusterWorld world(options_for(cluster));
  const auto all = names(30);
  EXPECT_EQ(world.take_of(all), 0u);
  cluster.node(2).client()({"FLUSHALL"});
  EXPECT_EQ(world.take_of(all), 0u);
  const Ledger ledger = compare(world);
  EXPECT_GT(ledger.forgotten, 0);
  EXPECT_LT(ledger.forgotten, 30);
}

}  // namespace
}  // namespace sluice::redis::cluster_failover_test
