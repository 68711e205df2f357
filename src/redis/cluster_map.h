// Which primary of a Redis Cluster has which slot, read from a node's answer; and the meaning of
// answers that name another node. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "redis/options.h"
#include "redis/slots.h"

struct redisReply;

namespace sluice::redis {

// With Sentinel there is one primary, and no slots.
struct ClusterMap {
  static constexpr uint16_t no_owner = UINT16_MAX;
  // The primaries with slots, ordered by the first slot of each, so that an index stays the same
  // when a replica takes over. At most base::bounds::redis_primaries_max.
  std::vector<Node> primaries;
  std::vector<uint16_t> owners;  // by slot: an index in `primaries`, or `no_owner`; or empty
  std::vector<Node> failed;      // of `primaries`, those that the cluster counts as failed
  bool is_down = false;          // the nodes answer CLUSTERDOWN

  // The primary that has the slot; null: none is known.
  const Node* owner_of(uint16_t slot) const {
    if (owners.empty() || owners[slot] == no_owner) return nullptr;
    return &primaries[owners[slot]];
  }
  // The number of slots that have a primary.
  size_t covered() const;
  friend bool operator==(const ClusterMap&, const ClusterMap&) = default;
};

// Read the answers to CLUSTER SHARDS and CLUSTER SLOTS. `host`: that of the node that answered, for
// entries without a host. None: not such an answer, or beyond the bound.
std::optional<ClusterMap> read_shards(const redisReply& reply, const std::string& host, bool tls);
std::optional<ClusterMap> read_slots(const redisReply& reply, const std::string& host);

// How current a node's knowledge is, from CLUSTER INFO.
struct ClusterState {
  bool ok = false;     // it takes commands
  uint64_t epoch = 0;  // of the latest change that it knows
};
ClusterState read_state(std::string_view info);

// The error `MOVED slot host:port` or `ASK slot host:port`: the command was not executed.
struct Redirect {
  bool ask = false;  // for this command alone
  uint16_t slot = 0;
  Node node;  // without a host: not known
};
std::optional<Redirect> redirect_of(std::string_view error, const std::string& host);

// The map after that slot has moved to that node. None: it is there already, or the map would
// exceed the bound.
std::optional<ClusterMap> moved(const ClusterMap& map, const Redirect& redirect);

}  // namespace sluice::redis
