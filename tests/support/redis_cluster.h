// A real Redis Cluster on loopback for one test: redis-servers with cluster-enabled that have an
// equal share of the slots each, and their replicas. The destructor ends them. Failures of the
// harness are thrown.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/bus_proxy.h"
#include "tests/support/redis_server.h"

namespace sluice::tests {

class RedisCluster {
 public:
  struct Options {
    size_t primaries = 3;
    size_t replicas = 0;  // of each primary
    // A node that does not answer for this time counts as failed. Short only in tests in which a
    // node fails: a busy machine may delay a node for a second.
    int node_timeout_ms = 15'000;
    // Further words of each node's command line; FREE_PORT stands for a free port.
    std::vector<std::string> settings{};
    // The nodes' buses go through a proxy, which `cut_off` needs.
    bool proxied = false;
  };
  RedisCluster() : RedisCluster(Options()) {}
  explicit RedisCluster(const Options& options);

  // The primaries come first, then the replicas of the first primary, and so on.
  RedisServer& node(size_t i) { return *nodes_[i]; }
  size_t size() const { return nodes_.size(); }
  std::vector<std::string> addresses() const;
  // Adds a node without slots that all others know, and returns its number.
  size_t add_node();
  std::string id_of(size_t i);
  // The node that owns the slot, according to the first running node that knows an owner. Throws if
  // none does.
  size_t owner_of(uint16_t slot);
  uint16_t slot_of(const std::string& key);
  // Moves a slot as redis-cli does: the nodes set it as importing and migrating, its keys move,
  // then all nodes are notified. Returns when all running nodes agree on every slot and epoch: a
  // node of Redis 7.0 that becomes an owner before it knows the last owner's epoch may take the
  // same epoch, and then two nodes may each name the other as the owner of a slot.
  void move_slot(uint16_t slot, size_t from, size_t to);
  void begin_move(uint16_t slot, size_t from, size_t to);
  void move_keys(uint16_t slot, size_t from, size_t to);
  void end_move(uint16_t slot, size_t from, size_t to);
  // Sends a command to the node that owns the key's slot, and returns its reply.
  RedisReply at_owner(const std::vector<std::string>& words, const std::string& key);
  // Until `heal`, the node and the others do not hear each other, and `replica`, its only replica
  // if it has one, receives nothing from it. Clients reach all of them. Needs `proxied`.
  void cut_off(size_t i, std::optional<size_t> replica);
  void heal();
  // Stops a node that has no slots, and makes the others forget it.
  void remove_node(size_t i);
  // Waits until every running node says that all slots are served.
  void await_ok();
  // Waits until all running nodes have the same current epoch, the same slots, and a different
  // epoch for each primary.
  void await_agreed();
  // Ends a node, and starts it again.
  void stop(size_t i);
  void start(size_t i);

 private:
  std::vector<std::string> settings_for();
  void meet(size_t i);
  void await_known(size_t count);
  // The epochs and slots that a node knows; empty if two primaries have the same epoch.
  std::string view_of(size_t i);
  std::optional<size_t> owner_seen_by(size_t i, uint16_t slot);

  ScratchFolder folder_;
  std::unique_ptr<BusProxy> proxy_;
  std::optional<size_t> starved_;  // the replica that cannot log in
  const std::vector<std::string> settings_;
  const int node_timeout_ms_;
  std::vector<std::unique_ptr<RedisServer>> nodes_;
  std::vector<bool> runs_;
};

}  // namespace sluice::tests
