// A primary, two replicas and three sentinels on loopback for one test. Ends with the test.
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
  // Files of a certificate for 127.0.0.1 that all of them have, its key and its authority.
  struct Tls {
    std::string certificate, key, authority;
  };
  // With `tls` they speak TLS with each other, and with clients at ports of their own: those that
  // sentinels name, and `addresses`. Test code goes on to use the other ports.
  explicit RedisSentinels(std::vector<std::string> settings = {}, std::optional<Tls> tls = {});

  RedisServer& node(size_t i) { return *nodes_[i]; }
  RedisServer& sentinel(size_t i) { return *sentinels_[i]; }
  size_t nodes() const { return nodes_.size(); }
  // Of the sentinels, for clients.
  std::vector<std::string> addresses() const;
  // A client with that name is connected to one of the sentinels, or comes in time.
  bool is_used_by(const std::string& user);
  // What the first sentinel that runs says; the number of a node.
  size_t primary();
  // SENTINEL FAILOVER; returns when all sentinels name another primary. The new one's number.
  size_t fail_over();
  // Until all sentinels name another primary than that.
  size_t await_other_than(size_t old);

 private:
  size_t primary_by(RedisServer& sentinel);
  // At which port the others, and clients, reach that node.
  uint16_t port_of(size_t node) const;
  ScratchFolder folder_;
  std::vector<std::unique_ptr<RedisServer>> nodes_, sentinels_;
  std::vector<uint16_t> node_tls_ports_, sentinel_tls_ports_;  // empty: they speak no TLS
};

}  // namespace sluice::tests
