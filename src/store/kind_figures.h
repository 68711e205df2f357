// Which kind of store it is, and the figures that only that kind has, for the admin port. Plain
// values; names are constants.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"

namespace sluice::store {

using NamedCounts = std::vector<std::pair<std::string_view, uint64_t>>;

struct DiskFigures {
  std::string_view durability = {};  // as store.durability is written
  base::Duration interval = {};      // between two commits
  bool sync = false;                 // a commit waits until the medium has the data
};

// Counts are since the start, those of connections now.
struct RedisFigures {
  NamedCounts connections = {};         // by state
  NamedCounts second_connections = {};  // to a Redis for limits of one second; or empty
  NamedCounts failures = {};            // groups of charges that Redis did not decide, by reason
  uint64_t calls = 0;                   // groups of charges that Redis was sent
  uint64_t local_decisions = 0;         // those of `failures` that this server decided
};

// At most one is there; none: counters are in memory alone.
struct KindFigures {
  std::optional<DiskFigures> disk = {};
  std::optional<RedisFigures> redis = {};

  std::string_view kind() const { return redis ? "redis" : disk ? "disk" : "memory"; }
};

}  // namespace sluice::store
