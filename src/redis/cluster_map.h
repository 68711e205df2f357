// Which primary of a Redis Cluster has which slot, as one of its nodes says, and what an answer
// that names another node means. Pure.
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

// Behind Sentinel there is one primary, and no slots.
struct ClusterMap {
  static constexpr uint16_t no_owner = UINT16_MAX;
  // Those that have slots, in the order of the first slot of each, so that a place stays the same
  // when a replica takes over. At most base::bounds::redis_primaries_max.
  std::vector<Node> primaries;
  std::vector<uint16_t> owners;  // by slot: a place in `primaries`, or `no_owner`; or empty

  // Null: no primary has it, as far as is known.
  const Node* owner_of(uint16_t slot) const {
    if (owners.empty() || owners[slot] == no_owner) return nullptr;
    return &primaries[owners[slot]];
  }
  // Slots that a primary has.
  size_t covered() const;
  friend bool operator==(const ClusterMap&, const ClusterMap&) = default;
};

// The answers to CLUSTER SHARDS and CLUSTER SLOTS. `host`: of the node that answered, which is
// meant where it names no host. None: it is not such an answer, or past the bound.
std::optional<ClusterMap> read_shards(const redisReply& reply, const std::string& host, bool tls);
std::optional<ClusterMap> read_slots(const redisReply& reply, const std::string& host);

// What CLUSTER INFO says of how far a node's knowledge goes.
struct ClusterState {
  bool ok = false;     // it takes commands
  uint64_t epoch = 0;  // of the last change that it knows of
};
ClusterState read_state(std::string_view info);

// `MOVED slot host:port`, `ASK slot host:port`: the command was not executed.
struct Redirect {
  bool ask = false;  // for this command alone
  uint16_t slot = 0;
  Node node;  // without a host: it is not known where
};
std::optional<Redirect> redirect_of(std::string_view error, const std::string& host);

// The map with that slot at that node. None: it is so already, or it would be past the bound.
std::optional<ClusterMap> moved(const ClusterMap& map, const Redirect& redirect);

}  // namespace sluice::redis
