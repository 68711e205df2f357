// A real Redis Cluster on loopback for one test: redis-servers with cluster-enabled that share the
// slots out evenly, and replicas of them. Ends with the test. Trouble of the harness is thrown.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
  // notified.
  void move_slot(uint16_t slot, size_t from, size_t to);
  void begin_move(uint16_t slot, size_t from, size_t to);
  void move_keys(uint16_t slot, size_t from, size_t to);
  void end_move(uint16_t slot, size_t from, size_t to);
  // What a primary says; nothing where no one has it, or it does not run.
  RedisReply at_owner(const std::vector<std::string>& words, const std::string& key);
  // Until every node that runs says that all slots are served.
  void await_ok();
  // The node does not run any more, or does again.
  void stop(size_t i);
  void start(size_t i);

 private:
  std::vector<std::string> settings_for() const;
  void await_known(size_t count);
  std::optional<size_t> owner_seen_by(size_t i, uint16_t slot);

  ScratchFolder folder_;
  const std::vector<std::string> settings_;
  const int node_timeout_ms_;
  std::vector<std::unique_ptr<RedisServer>> nodes_;
  std::vector<bool> runs_;
};

}  // namespace sluice::tests
