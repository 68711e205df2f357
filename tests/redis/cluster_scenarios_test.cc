// What a store over a real Redis Cluster does while a primary is cut off from the others, while
// every node restarts in turn, while a node is added and removed, and while a primary stands still.
// A ledger has every grant, and is compared with the counters afterwards. `make test` runs one
// partition; the others take minutes together, so only `make test-all` runs them
// (SLUICE_SCENARIOS).
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <set>
#include <string>
#include <thread>

#include "redis/cluster_map.h"
#include "tests/redis/slots_world.h"

#define SLUICE_SCENARIO() \
  if (std::getenv("SLUICE_SCENARIOS") == nullptr) GTEST_SKIP() << "a matter of `make test-all`"

namespace sluice::redis::cluster_scenarios_test {
namespace {

using Clock = std::chrono::steady_clock;

Options options_for(const tests::RedisCluster& cluster) {
  Options options = ClusterWorld::options_for(cluster);
  options.deadline = base::milliseconds(500);
  return options;
}

// Takes units of all actors without a pause, and remembers when takes failed.
class Load {
 public:
  explicit Load(ClusterWorld& world, size_t actors) : world_(world), all_(names(actors)) {}

  void round() {
    const auto began = Clock::now();
    const size_t errors = world_.take_of(all_);
    errors_ += errors;
    if (errors == 0) return;
    if (!failing_) first_error_ = began;
    failing_ = true;
    last_error_ = Clock::now();
    world_.turn();
  }
  template <class Condition>
  bool until(Condition&& condition) {
    const auto deadline = tests::soon();
    while (!condition()) {
      if (Clock::now() > deadline) return false;
      round();
    }
    return true;
  }
  void rounds(int count) {
    for (int i = 0; i < count; ++i) round();
  }
  // Runs until two rounds in a row had no error.
  bool until_well() {
    size_t before = errors_ + 1;
    int well = 0;
    return until([&] {
      well = errors_ == before ? well + 1 : 0;
      before = errors_;
      return well >= 2;
    });
  }
  size_t errors() const { return errors_; }
  // The time from the first take that failed to the last one.
  int64_t failed_ms() const {
    using std::chrono::duration_cast;
    return failing_ ? duration_cast<std::chrono::milliseconds>(last_error_ - first_error_).count()
                    : 0;
  }
  // Compares the ledger with the counters: no counter may lack more than what was granted plus,
  // once each, what was answered with an error. Returns how many granted units are missing in the
  // counters.
  int64_t compare(const char* what) {
    int64_t granted = 0, used = 0, forgotten = 0, unknown = 0;
    for (const std::string& name : all_) {
      const int64_t has = world_.used(name), units = world_.granted[name];
      EXPECT_GE(has, 0) << name;
      EXPECT_LE(has, units + world_.unknown[name]) << name;
      granted += units;
      used += has;
      unknown += world_.unknown[name];
      forgotten += std::max<int64_t>(0, units - has);
    }
    std::cout << what << ": granted " << granted << ", with an error " << unknown
              << ", in counters " << used << ", forgotten " << forgotten << ", requests failed for "
              << failed_ms() << " ms\n";
    return forgotten;
  }
  const std::vector<std::string>& all() const { return all_; }

 private:
  ClusterWorld& world_;
  const std::vector<std::string> all_;
  size_t errors_ = 0;
  bool failing_ = false;
  Clock::time_point first_error_, last_error_;
};

bool says(tests::RedisServer& node, const std::string& section, const std::string& words) {
  auto client = node.client();
  const std::string text =
      section == "cluster" ? client({"CLUSTER", "INFO"}).text : client({"INFO", section}).text;
  return text.find(words) != std::string::npos;
}

// How often a node has executed SET, by INFO commandstats.
std::string sets_at(tests::RedisServer& node) {
  const std::string text = node.client()({"INFO", "commandstats"}).text;
  const size_t at = text.find("cmdstat_set:calls=");
  return at == std::string::npos ? "" : text.substr(at, text.find(',', at) - at);
}

// A cluster whose first primary and the other nodes do not hear each other. The store reaches all
// of them.
class CutOff {
 public:
  explicit CutOff(std::vector<std::string> settings)
      : cluster({.primaries = 3,
                 .replicas = 1,
                 .node_timeout_ms = 1'000,
                 .settings = std::move(settings),
                 .proxied = true}),
        world(options_for(cluster)),
        load(world, 60) {
    load.rounds(20);
    EXPECT_EQ(load.errors(), 0u);
    cluster.cut_off(0, 3);
    const std::string before = sets_at(cluster.node(0));
    // The primary continues until it finds itself alone, and then takes no writes.
    EXPECT_TRUE(load.until([&] { return says(cluster.node(0), "cluster", "cluster_state:fail"); }));
    wrote_alone = sets_at(cluster.node(0)) != before;
    EXPECT_TRUE(load.until([&] { return says(cluster.node(3), "replication", "role:master"); }));
  }
  // Ends the partition. Returns how many granted units are forgotten.
  int64_t heal(const char* what) {
    cluster.heal();
    EXPECT_TRUE(load.until([&] { return says(cluster.node(0), "replication", "role:slave"); }));
    EXPECT_TRUE(load.until_well());
    load.rounds(5);
    return load.compare(what);
  }

  tests::RedisCluster cluster;
  ClusterWorld world;
  Load load;
  bool wrote_alone = false;  // the primary, after it was cut off; not if the machine was too slow
};

TEST(ClusterPartition, APartitionedPrimaryGrantsNothingOnceReplaced) {
  CutOff apart({});
  // Its replica has the slots now, so the store sends nothing to the old primary.
  EXPECT_TRUE(apart.load.until_well());
  const std::string then = sets_at(apart.cluster.node(0));
  apart.load.rounds(20);
  EXPECT_EQ(sets_at(apart.cluster.node(0)), then);
  // The units that the old primary granted until it was alone are forgotten.
  const int64_t forgotten = apart.heal("a primary cut off");
  if (apart.wrote_alone) {
    EXPECT_GT(forgotten, 0);
  }
}

TEST(ClusterScenario, APrimaryThatIsCutOffWithMinReplicas) {
  SLUICE_SCENARIO();
  CutOff apart({"--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"});
  // The promoted replica has no replica of its own, so it takes no writes either until the old
  // primary is back.
  EXPECT_GT(apart.world.take_of(apart.load.all()), 0u);
  EXPECT_EQ(apart.heal("a primary cut off, with min-replicas-to-write"), 0);
}

TEST(ClusterScenario, EveryNodeRestartsOneAfterTheOther) {
  SLUICE_SCENARIO();
  tests::RedisCluster cluster({.primaries = 3, .replicas = 1, .node_timeout_ms = 1'000});
  ClusterWorld world(options_for(cluster));
  Load load(world, 60);
  load.rounds(20);
  for (size_t i = 0; i < cluster.size(); ++i) {
    const bool was_primary = says(cluster.node(i), "replication", "role:master");
    cluster.stop(i);
    // A primary is started again when its replica has taken over, because it comes back empty.
    if (was_primary) {
      const size_t replica = i < 3 ? i + 3 : i - 3;
      EXPECT_TRUE(
          load.until([&] { return says(cluster.node(replica), "replication", "role:master"); }));
    }
    cluster.start(i);
    EXPECT_TRUE(
        load.until([&] { return says(cluster.node(i), "replication", "master_link_status:up"); }));
    EXPECT_TRUE(load.until_well()) << i;
  }
  cluster.await_ok();
  load.rounds(20);
  EXPECT_GT(load.errors(), 0u);
  load.compare("restart of all six nodes");
}

TEST(ClusterScenario, ANodeIsAddedAndForgottenAgain) {
  SLUICE_SCENARIO();
  tests::RedisCluster cluster({.primaries = 3});
  ClusterWorld world(options_for(cluster));
  Load load(world, 30);
  load.rounds(5);
  const size_t added = cluster.add_node();
  std::set<uint16_t> slots;
  for (const std::string& name : load.all()) slots.insert(slot_of(stored_name(name)));
  for (const uint16_t slot : slots) {
    cluster.move_slot(slot, cluster.owner_of(slot), added);
    load.round();
  }
  EXPECT_EQ(world.metric("sluice_redis_primaries"), 4);
  for (const uint16_t slot : slots) {
    cluster.move_slot(slot, added, slot % 3);
    load.round();
  }
  cluster.remove_node(added);
  load.rounds(5);
  EXPECT_EQ(load.errors(), 0u);
  EXPECT_EQ(load.compare("a node added and removed"), 0);
}

TEST(ClusterScenario, APrimaryStandsStillForThreeSeconds) {
  SLUICE_SCENARIO();
  tests::RedisCluster cluster({.primaries = 3, .replicas = 1, .node_timeout_ms = 1'000});
  ClusterWorld world(options_for(cluster));
  Load load(world, 60);
  load.rounds(20);
  cluster.node(1).signal(SIGSTOP);
  const auto until = Clock::now() + std::chrono::seconds(3);
  load.until([&] { return Clock::now() >= until; });
  cluster.node(1).signal(SIGCONT);
  EXPECT_TRUE(load.until_well());
  EXPECT_TRUE(load.until([&] { return says(cluster.node(1), "replication", "role:slave"); }));
  EXPECT_TRUE(load.until_well());
  load.rounds(20);
  EXPECT_GT(load.errors(), 0u);
  load.compare("SIGSTOP of a primary for 3 s");
}

TEST(ClusterScenario, OnlyTheCountersOfAFlushedNodeStartFresh) {
  SLUICE_SCENARIO();
  tests::RedisCluster cluster({.primaries = 3});
  ClusterWorld world(options_for(cluster));
  Load load(world, 60);
  load.rounds(50);
  int64_t its = 0;
  for (const std::string& name : load.all())
    if (cluster.owner_of(slot_of(stored_name(name))) == 2) its += world.granted[name];
  cluster.node(2).client()({"FLUSHALL"});
  load.rounds(50);
  EXPECT_EQ(load.errors(), 0u);
  EXPECT_EQ(load.compare("FLUSHALL of a primary"), its);
}

}  // namespace
}  // namespace sluice::redis::cluster_scenarios_test
