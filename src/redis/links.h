// One worker's connections to one Redis: one to its primary or, in Redis Cluster, one to each
// primary that it has needed so far. Belongs to the worker's thread, except `add_to`.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "redis/link.h"

namespace sluice::redis {

// Sums for metrics.
struct LinkSums {
  std::array<uint64_t, connection_states> states{};
  uint64_t connects = 0, losses = 0, wait_timeouts = 0;
};

// Whether a node can be asked: it has a link that is up; it has one that was lost or is silent.
struct NodeLinks {
  bool up = false, fails = false;
};

class Links {
 public:
  // The arguments outlive the links. `ids`: the counter that gives them their ids.
  Links(LinkOwner& owner, Topology& topology, net::Loop& loop, uint32_t& ids, uint64_t seed);

  Topology& topology() const { return topology_; }
  // The link to the primary; the second one, in Redis Cluster, to the primary of a slot. `looks`:
  // for commands that write nothing, so that they do not queue behind answers that wait for
  // replicas. Null: the primary is not known and is being looked for.
  Link* primary(bool looks = false);
  Link* of_slot(uint16_t slot, bool looks = false);
  // The link to a node to which one command is sent on.
  Link* of_node(const Node& node);
  // The link with that id; null: it is gone.
  Link* by_id(uint32_t id);

  bool is_idle() const;
  void step_back(base::Duration by);
  std::optional<base::Time> advance(base::Time now);

  // Any thread.
  void add_to(LinkSums& sums, CallDistribution& times) const;
  void add_to(std::map<std::string, NodeLinks>& by_name) const;

 private:
  void see_map();
  Link* at_place(size_t place, bool looks);
  Link* make(std::shared_ptr<Endpoint> endpoint, bool looks);
  void drop_those_that_left();

  LinkOwner& owner_;
  Topology& topology_;
  net::Loop& loop_;
  uint32_t& ids_;
  const uint64_t seed_;
  // grants wait for replicas, so reading commands have connections of their own
  const bool waits_;
  Link* fixed_ = nullptr;  // of a Redis whose nodes are fixed
  Link* fixed_looks_ = nullptr;
  uint64_t version_ = 0;
  std::shared_ptr<const ClusterMap> map_;
  // by `looks`, then by index in the map; null: not made yet
  std::array<std::vector<Link*>, 2> by_place_;
  bool some_leave_ = false;
  mutable std::mutex mutex_;  // guards changes of the list, and the members below
  std::vector<std::unique_ptr<Link>> links_;
  LinkSums gone_;
  CallDistribution gone_times_;
};

}  // namespace sluice::redis
