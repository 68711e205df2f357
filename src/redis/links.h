// What one worker has of one Redis: a connection to its primary, or, in Redis Cluster, one to each
// primary that it needed so far. Belongs to the worker's thread, but for `add_to`.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/time.h"
#include "redis/link.h"

namespace sluice::redis {

// For metrics.
struct LinkSums {
  std::array<uint64_t, connection_states> states{};
  uint64_t connects = 0, losses = 0, wait_timeouts = 0;
};

class Links {
 public:
  // All of it outlives the links. `ids`: where their numbers come from.
  Links(LinkOwner& owner, Topology& topology, net::Loop& loop, uint32_t& ids, uint64_t seed);

  Topology& topology() const { return topology_; }
  // To the primary, where there are no slots; to that of a slot, where there are. `looks`: for what
  // writes nothing, which does not stand behind what waits for replicas. Null: none is known; it is
  // looked for.
  Link* primary(bool looks = false);
  Link* of_slot(uint16_t slot, bool looks = false);
  // To the node that one command is sent on to.
  Link* of_node(const Node& node);
  // Null: there is none any more.
  Link* by_id(uint32_t id);

  bool is_idle() const;
  void step_back(base::Duration by);
  std::optional<base::Time> advance(base::Time now);

  // Any thread.
  void add_to(LinkSums& sums, CallDistribution& times) const;

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
  const bool waits_;       // for replicas: looks have connections of their own
  Link* fixed_ = nullptr;  // where nothing is looked for
  Link* fixed_looks_ = nullptr;
  uint64_t version_ = 0;
  std::shared_ptr<const ClusterMap> map_;
  std::array<std::vector<Link*>, 2> by_place_;  // in the map, by `looks`; null: not made yet
  bool some_leave_ = false;
  mutable std::mutex mutex_;  // of the list while it changes, and of what follows
  std::vector<std::unique_ptr<Link>> links_;
  LinkSums gone_;
  CallDistribution gone_times_;
};

}  // namespace sluice::redis
