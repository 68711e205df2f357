// Finds the primaries of a Redis Cluster and their slots, by asking some of its nodes: it takes the
// newest answer of a node that accepts commands. Used on the topology's thread.
#pragma once

#include <string>
#include <vector>

#include "redis/topology.h"

namespace sluice::redis {

class ClusterFinder final : public Finder {
 public:
  std::chrono::milliseconds look_every() const override {
    return std::chrono::seconds(is_well_ ? 5 : 1);
  }
  base::Result<ClusterMap> find(Topology& topology) override;

 private:
  struct View {
    ClusterState state;
    ClusterMap map;
  };
  std::vector<Node> candidates(const Topology& topology) const;
  static base::Result<View> ask(Topology& topology, const Node& node);

  std::vector<Node> bad_;  // nodes that did not answer the last time; they are asked last
  bool is_well_ = true;    // the last answer counted no primary as failed
};

}  // namespace sluice::redis
