// Writes counters into a Redis Cluster from a thread that may block, many at once: each is compared
// with what is there and set by one call of a script at the primary of its slot. Follows slots that
// move and primaries that fail over. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "redis/blocking_connection.h"
#include "redis/stored_keys.h"
#include "redis/topology.h"

namespace sluice::redis {

struct CounterWrite {
  StoredKeys::Counter counter;
  StoredValue value;
};

class ClusterWriter {
 public:
  struct Counts {
    uint64_t made = 0, replaced = 0, kept = 0;
  };

  // The topology, which is of a cluster, outlives this.
  ClusterWriter(Topology& cluster, bool overwrites, std::chrono::milliseconds patience);

  // Returns when the cluster has all of them. A problem: it has some.
  base::Done write(std::vector<CounterWrite> counters, Counts& counts);
  // How far the clock of each primary is from this machine's, in ms; empty: one cannot be asked.
  base::Result<std::vector<int64_t>> clocks();

 private:
  struct Pending;
  using Line = std::unique_ptr<BlockingConnection>;
  BlockingConnection* line_to(const Node& node);
  bool write_to(const Node& node, std::vector<Pending*>& part, Counts& counts);
  bool take_answer(const Answer& answer, Pending& pending, const Node& node, Counts& counts);
  bool take_error(std::string_view text, Pending& pending, const Node& node);

  Topology& cluster_;
  const bool overwrites_;
  const std::chrono::milliseconds patience_;
  std::map<std::string, Line> lines_;  // by the node's name
  std::string problem_;                // of the last trouble
  bool failed_ = false;                // by an error that does not pass
};

// How far the clock of that Redis is from this machine's, in ms.
base::Result<int64_t> clock_of(BlockingConnection& line);

}  // namespace sluice::redis
