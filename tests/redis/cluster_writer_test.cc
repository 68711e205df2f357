// What an import into a cluster writes (ClusterWriter) while nodes refer it to each other. The
// nodes are scripted.
#include "redis/cluster_writer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/redis/scripted_world.h"

namespace sluice::redis::cluster_writer_test {
namespace {

constexpr std::chrono::milliseconds patience{400};

struct Writing {
  Writing() {
    topology.resolve();
    topology.await(std::chrono::seconds(20));
  }
  base::Done write() {
    ClusterWriter writer(topology, false, patience);
    return writer.write({{{ValueForm::own, "sluice:{k}native:k"}, {"s1;f,5,1,0 1 2", no_end}}},
                        counts);
  }
  std::string moved_to(const std::string& address) const {
    return "MOVED " + std::to_string(slot_of("sluice:{k}native:k")) + " " + address;
  }
  tests::ScriptedCluster cluster{2};
  const Options options = options_of(cluster);
  Topology topology{options, nullptr, [](bool, const std::string&) {}};
  ClusterWriter::Counts counts;
};

TEST(ImportWriter, GivesUpOnEndlessRedirects) {
  Writing w;
  const std::string first = "127.0.0.1:" + std::to_string(w.cluster.port(0));
  const std::string second = "127.0.0.1:" + std::to_string(w.cluster.port(1));
  w.cluster.decide([&](const Call& call) {
    return Act{Fate::error, w.moved_to(call.node == 0 ? second : first)};
  });
  const base::Done done = w.write();
  ASSERT_FALSE(done);
  EXPECT_TRUE(done.problem().text.starts_with("MOVED ")) << done.problem().text;
  EXPECT_LT(w.cluster.take_calls().size(), 50u);  // because the writer pauses between them
  w.cluster.decide({});
  EXPECT_TRUE(w.write());
  EXPECT_EQ(w.counts.made, 1u);
}

TEST(ImportWriter, GivesUpOnARedirectWithoutAHost) {
  Writing w;
  w.cluster.decide([&](const Call&) { return Act{Fate::error, w.moved_to("?:6379")}; });
  EXPECT_FALSE(w.write());
  EXPECT_LT(w.cluster.take_calls().size(), 50u);
}

TEST(ImportWriter, FollowsAMovingSlot) {
  Writing w;
  const uint16_t slot = slot_of("sluice:{k}native:k");
  w.cluster.move(slot, 1 - w.cluster.owner_of(slot));
  EXPECT_TRUE(w.write());
  EXPECT_EQ(w.counts.made, 1u);
  w.cluster.migrate(slot, 1 - w.cluster.owner_of(slot));
  EXPECT_TRUE(w.write());
  EXPECT_EQ(w.counts.kept, 1u);
}

}  // namespace
}  // namespace sluice::redis::cluster_writer_test
