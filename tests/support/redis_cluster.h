// A real Redis Cluster on loopback for one test: redis-servers with cluster-enabled that share the
// slots out evenly, and replicas of them. Ends with the test. Trouble of the harness is thrown.
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
    // A node that does not answer for so long counts as failed. Short only where a test fails one:
    // a busy machine may hold up a node for a second.
    int node_timeout_ms = 15'000;
    std::vector<std::string> settings{};
    // The nodes speak with each other through a proxy, for `cut_off`.
    bool proxied = false;
  };
  RedisCluster() : RedisCluster(Options()) {}
  explicit RedisCluster(const Options& options);

  // Primaries first, then the replicas of the first of them, and so on.
  RedisServer& node(size_t i) { return *nodes_[i]; }
  size_t size() const { return nodes_.size(); }
  std::vector<std::string> addresses() const;
  // Empty, and known to all others.
  size_t add_node();
  std::string id_of(size_t i);
  // The node that has the slot, as the first one that runs and knows says.
  size_t owner_of(uint16_t slot);
  uint16_t slot_of(const std::string& key);
  // Moves a slot as redis-cli does: it is importing and migrating, its keys move, then all are
  // notified. Returns when all nodes that run agree on every slot and epoch: a node of Redis 7.0 that
  // becomes an owner before it knows the epoch of the last one may take the same epoch, and then
  // two nodes may each name the other as the owner of a slot.
  void move_slot(uint16_t slot, size_t from, size_t to);
  void begin_move(uint16_t slot, size_t from, size_t to);
  void move_keys(uint16_t slot, size_t from, size_t to);
  void end_move(uint16_t slot, size_t from, size_t to);
  // What a primary says; nothing where no one has it, or it does not run.
  RedisReply at_owner(const std::vector<std::string>& words, const std::string& key);
  // From now on the node and the others do not hear each other, and its replica (if it has one,
  // that is the only one and follows its number) receives nothing; clients reach all of them. Until
  // `heal`. Needs `proxied`.
  void cut_off(size_t i, std::optional<size_t> replica);
  void heal();
  // The others forget a node that has no slots, which then ends.
  void remove_node(size_t i);
  // Until every node that runs says that all slots are served.
  void await_ok();
  // Until every node that runs has the same current epoch, slots, and a different epoch for each
  // primary.
  void await_agreed();
  // The node does not run any more, or does again.
  void stop(size_t i);
  void start(size_t i);

 private:
  std::vector<std::string> settings_for();
  void meet(size_t i);
  void await_known(size_t count);
  // Epochs and slots as a node knows them; empty where two primaries have the same epoch.
  std::string view_of(size_t i);
  std::optional<size_t> owner_seen_by(size_t i, uint16_t slot);

  ScratchFolder folder_;
  std::unique_ptr<BusProxy> proxy_;
  std::optional<size_t> starved_;  // the replica that is not let in
  const std::vector<std::string> settings_;
  const int node_timeout_ms_;
  std::vector<std::unique_ptr<RedisServer>> nodes_;
  std::vector<bool> runs_;
};

}  // namespace sluice::tests
