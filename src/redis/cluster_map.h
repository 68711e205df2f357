// Which primary of a Redis Cluster has which slot, read from a node's answer; and the meaning of
// answers that name another node. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "base/time.h"
#include "redis/options.h"

namespace sluice::redis {

// Hash slots of Redis Cluster: which of the 16,384 slots a key is in, and the tag that puts all
// keys of one actor into the same slot. Pure.

inline constexpr size_t slot_count = 16'384;

// CRC16 (XMODEM) of the key or, if it is not empty, of the text between the key's first `{` and the
// next `}`.
uint16_t slot_of(std::string_view key);

// Appends `{xxxxxxxx}`, hexadecimal digits of a hash of the actor's values. It is the same in every
// process; no byte of an actor can end the tag or begin another. Servers must agree on it, so it
// has no secret: a client that chooses actors can choose their slot, as with any key of Redis
// Cluster.
void append_tag(std::string& out, std::string_view actor);
inline constexpr size_t tag_size = 10;

// `text` without the tag at its beginning; `text` itself if it has none.
std::string_view without_tag(std::string_view text);

// How often a command of one worker is sent on in Redis Cluster because a node names another one
// for its slot (MOVED, ASK), and after which pauses. Slots that move quickly are followed at once;
// two nodes that name each other, as while a slot changes hands or after a failover, get time to
// agree. Pure.

inline constexpr int64_t redirect_pause_min_us = 1'000, redirect_pause_max_us = 16'000;

// The pause before a command is sent on that was sent on `times` before: none for the first
// base::bounds::redis_redirects_max, then one that doubles up to its maximum.
constexpr int64_t redirect_pause_us(unsigned times) {
  constexpr unsigned at_once = base::bounds::redis_redirects_max;
  if (times < at_once) return 0;
  constexpr unsigned doublings_max = 4;
  const unsigned doublings = std::min(times - at_once, doublings_max);
  return std::min(redirect_pause_min_us << doublings, redirect_pause_max_us);
}

// How often a command is sent on at most: as long as all its pauses together fit into half of
// `deadline`, the time that one decision has, and no more than redirects_most.
inline constexpr uint32_t redirects_most = 40;
constexpr uint32_t redirects_max(base::Duration deadline) {
  uint32_t times = base::bounds::redis_redirects_max;
  int64_t left_us = deadline.us / 2 - redirect_pause_us(times);
  for (; left_us >= 0 && times < redirects_most; left_us -= redirect_pause_us(times)) ++times;
  return times;
}

}  // namespace sluice::redis

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
