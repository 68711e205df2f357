// A primary, two replicas and three sentinels (real Redis) on loopback for one test. The destructor
// ends them. Failures of the harness are thrown.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/redis_cluster.h"

namespace sluice::tests {

class RedisSentinels {
 public:
  static constexpr const char* master = "counters";
  // The files of a certificate for 127.0.0.1, its key and its authority. All nodes and sentinels
  // use it.
  struct Tls {
    std::string certificate, key, authority;
  };
  // With `tls` they speak TLS with each other, and with clients at separate ports: those that
  // sentinels name, and those in `addresses`. Test code still uses the plain ports.
  explicit RedisSentinels(std::vector<std::string> settings = {}, std::optional<Tls> tls = {});

  RedisServer& node(size_t i) { return *nodes_[i]; }
  RedisServer& sentinel(size_t i) { return *sentinels_[i]; }
  size_t nodes() const { return nodes_.size(); }
  // The sentinels' addresses for clients.
  std::vector<std::string> addresses() const;
  // Waits until a client that logged in as `user` is connected to a sentinel. False: none is in
  // time.
  bool is_used_by(const std::string& user);
  // The number of the primary, according to the first sentinel.
  size_t primary();
  // Sends SENTINEL FAILOVER. Returns the new primary's number when all sentinels name it.
  size_t fail_over();
  // Waits until all sentinels name the same primary and it is not `old`; returns its number.
  size_t await_other_than(size_t old);

 private:
  size_t primary_by(RedisServer& sentinel);
  // The port at which the other nodes and clients reach that node.
  uint16_t port_of(size_t node) const;
  ScratchFolder folder_;
  std::vector<std::unique_ptr<RedisServer>> nodes_, sentinels_;
  std::vector<uint16_t> node_tls_ports_, sentinel_tls_ports_;  // empty: without TLS
};

}  // namespace sluice::tests
