// A primary, two replicas and three sentinels on loopback for one test. Ends with the test.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/redis_cluster.h"

namespace sluice::tests {

class RedisSentinels {
 public:
  static constexpr const char* master = "counters";
  explicit RedisSentinels(std::vector<std::string> settings = {});

  RedisServer& node(size_t i) { return *nodes_[i]; }
  RedisServer& sentinel(size_t i) { return *sentinels_[i]; }
  size_t nodes() const { return nodes_.size(); }
  // What the first sentinel that runs says; the number of a node.
  size_t primary();
  // SENTINEL FAILOVER; returns when all sentinels name another primary. The new one's number.
  size_t fail_over();
  // Until all sentinels name another primary than that.
  size_t await_other_than(size_t old);

 private:
  size_t primary_by(RedisServer& sentinel);
  ScratchFolder folder_;
  std::vector<std::unique_ptr<RedisServer>> nodes_, sentinels_;
};

}  // namespace sluice::tests
