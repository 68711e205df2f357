#include "redis/shared.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ringbuffer_sink.h>

#include <memory>
#include <string>
#include <utility>

#include "base/hash.h"

namespace sluice::redis::shared_test {
namespace {

// Both Redis as the options name them. Nothing is connected to.
struct World {
  explicit World(Options options)
      : shared(std::move(options), spaces,
               store::EmbeddedStore::open(1 << 20, base::Hash(), spaces), nullptr,
               std::make_shared<spdlog::logger>("test", log)) {}

  size_t lines() const { return log->last_formatted().size(); }

  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> log =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(10);
  request::Spaces spaces;
  Shared shared;
};

Options two_nodes() {
  Options options;
  options.nodes = {{"a", 1}};
  options.second.nodes = {{"b", 2}};
  return options;
}

constexpr const char* error = "CLUSTERDOWN Hash slot not served";

TEST(UnsetCluster, IsTheRedisThatSentTheError) {
  World world(two_nodes());
  Shared& shared = world.shared;
  shared.note_cluster_error(shared.second, "ERR unknown command");
  EXPECT_EQ(world.lines(), 0u);
  for (int i = 0; i < 2; ++i) shared.note_cluster_error(shared.second, error);
  EXPECT_EQ(shared.why_unset_cluster(shared.first), "");
  EXPECT_EQ(shared.why_unset_cluster(shared.second),
            "b:2 is a node of a Redis Cluster, and requests to it fail; set "
            "store.redis.per_second.cluster: true, or name a Redis that is not one");
  EXPECT_EQ(world.lines(), 1u);
  // News of a connection may end in such an error.
  shared.tell(shared.first, false, "a:1: it says ERR SELECT is not allowed in cluster mode");
  EXPECT_EQ(shared.why_unset_cluster(shared.first),
            "a:1 is a node of a Redis Cluster, and requests to it fail; set store.redis.cluster: "
            "true, or name it by --redis-cluster in place of --redis, or name a Redis that is not "
            "one");
}

TEST(UnsetCluster, IsNotAClusterThatTheSettingsName) {
  Options options = two_nodes();
  options.second.cluster = true;
  World world(options);
  world.shared.note_cluster_error(world.shared.second, error);
  for (const Topology* const redis : {&world.shared.first, &world.shared.second})
    EXPECT_EQ(world.shared.why_unset_cluster(*redis), "");
  EXPECT_EQ(world.lines(), 0u);
}

TEST(UnsetCluster, MayBeBehindSentinels) {
  Options options;
  options.nodes = {};
  options.sentinel.master = "one";
  options.second.sentinel.master = "two";
  World world(options);
  Shared& shared = world.shared;
  for (Topology* const redis : {&shared.first, &shared.second})
    shared.note_cluster_error(*redis, error);
  EXPECT_EQ(shared.why_unset_cluster(shared.first),
            "the primary `one` of the sentinels is a node of a Redis Cluster, and requests to it "
            "fail; set store.redis.nodes and cluster: true in place of sentinel, or name another "
            "primary");
  EXPECT_TRUE(shared.why_unset_cluster(shared.second).starts_with("the primary `two` of the "))
      << shared.why_unset_cluster(shared.second);
}

TEST(News, AreOfOneRedis) {
  World world(two_nodes());
  Shared& shared = world.shared;
  for (int i = 0; i < 2; ++i) shared.tell(shared.first, false, "a:1: refused");
  shared.tell(shared.second, true, "b:2: connected");
  for (int i = 0; i < 2; ++i) shared.tell(shared.first, false, "a:1: refused");
  EXPECT_EQ(world.lines(), 2u);
  EXPECT_EQ(shared.first.bad_news(), "a:1: refused");
  EXPECT_EQ(shared.second.bad_news(), "");
  shared.tell(shared.first, true, "a:1: connected");
  EXPECT_EQ(shared.first.bad_news(), "");
}

}  // namespace
}  // namespace sluice::redis::shared_test
