// What a store over a real Redis Cluster does while primaries die, stop, restart or are promoted. A
// ledger has every grant, and is compared with the counters afterwards.
#include <gtest/gtest.h>

#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "redis/cluster_map.h"
#include "tests/redis/cluster_world.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"

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

// The primary that fails must count as failed soon.
tests::RedisCluster::Options quick() {
  return {.primaries = 3, .node_timeout_ms = 2'000};
}

// A server with the protocol http whose counters are in that cluster.
class Server {
 public:
  explicit Server(const tests::RedisCluster& cluster)
      : process_({.arguments = {"serve", "--config",
                                folder_.write("sluice.yaml",
                                              "listen: [{ protocol: http, address: "
                                              "\"127.0.0.1:0\" }]\n"
                                              "store: { redis: { cluster: true, deadline_ms: "
                                              "20000, nodes: [\"" +
                                                  cluster.addresses()[0] + "\"] } }\n"),
                                "--admin", "127.0.0.1:0"}}),
        http_(tests::await_listening(process_, "http")),
        admin_(tests::await_listening(process_, "admin")) {}
  // Waits until /health/ready has that status, and returns its answer.
  nlohmann::json await_ready(const std::string& status) {
    nlohmann::json got;
    for (const auto deadline = tests::soon(); std::chrono::steady_clock::now() < deadline;) {
      const auto answer = tests::http(admin_, "GET", "/health/ready");
      EXPECT_EQ(answer.status, 200);
      got = nlohmann::json::parse(answer.body);
      if (got["status"] == status) return got;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ADD_FAILURE() << "not " << status << ": " << got;
    return got;
  }
  // Waits until /v1/health of the port for requests answers so.
  void await_http(int status) {
    int got = 0;
    for (const auto deadline = tests::soon();
         got != status && std::chrono::steady_clock::now() < deadline;)
      got = tests::http(http_, "GET", "/v1/health").status;
    EXPECT_EQ(got, status);
  }
  tests::Finished status() {
    return tests::run({.arguments = {"status", "--over", "0s", "--admin",
                                     "127.0.0.1:" + std::to_string(admin_)}});
  }

 private:
  tests::Folder folder_;
  tests::Process process_;
  const uint16_t http_, admin_;
};

TEST(ClusterDegraded, AClusterThatDecidesNothingIsNotReady) {
  tests::RedisCluster cluster(quick());
  Server server(cluster);
  server.await_http(200);
  EXPECT_EQ(server.await_ready("ready"), nlohmann::json({{"status", "ready"}}));
  EXPECT_EQ(server.status().status, 0);

  cluster.stop(1);
  server.await_http(503);
  std::string why;
  for (const auto deadline = tests::soon();
       why.find("CLUSTERDOWN") == why.npos && std::chrono::steady_clock::now() < deadline;)
    why = server.await_ready("degraded")["reasons"].at(0);
  EXPECT_EQ(why, "the Redis Cluster decides nothing (CLUSTERDOWN); not reached: " +
                     cluster.node(1).address() +
                     "; requests are answered as their rules' on_store_error says");
  const tests::Finished told = server.status();
  EXPECT_EQ(told.status, 1) << told.out;
  EXPECT_NE(told.out.find(": degraded\n"), std::string::npos) << told.out;
  EXPECT_NE(told.out.find(cluster.node(1).address()), std::string::npos) << told.out;

  cluster.start(1);
  server.await_ready("ready");
  server.await_http(200);
  EXPECT_EQ(server.status().status, 0);
}

// The other primaries go on. `needed`: requests have needed the primary, so there is a connection.
void expect_told(bool needed) {
  auto options = quick();
  options.settings = {"--cluster-require-full-coverage", "no"};
  tests::RedisCluster cluster(options);
  ClusterWorld world(ClusterWorld::options_for(cluster));
  const auto all = names(40);
  std::vector<std::string> others;
  for (const std::string& name : all) {
    std::string tag;
    append_tag(tag, name);
    if (cluster.owner_of(slot_of(tag)) != 1) others.push_back(name);
  }
  ASSERT_LT(others.size(), all.size());
  EXPECT_EQ(world.take_of(needed ? all : others), 0u);
  EXPECT_EQ(world.store().why_degraded(), "");
  cluster.stop(1);
  EXPECT_EQ(
      world.await_degraded(true),
      "a part of the Redis Cluster decides nothing; not reached: " + cluster.node(1).address() +
          "; requests are answered as their rules' on_store_error says");
  EXPECT_EQ(world.take_of(others), 0u);
  cluster.start(1);
  EXPECT_EQ(world.await_degraded(false), "");
}

TEST(ClusterDegraded, APrimaryThatIsGoneIsNamed) {
  expect_told(true);
}

TEST(ClusterDegraded, APrimaryThatWasNotNeededIsNamed) {
  expect_told(false);
}

}  // namespace
}  // namespace sluice::redis::cluster_failover_test
