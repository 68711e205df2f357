// Copies counters and overrides of this server from a single Redis into a Redis Cluster, for
// `sluice store import-redis`. The single Redis is only read. Blocks the calling thread, the main
// one; at any moment it holds the keys of one SCAN, and all overrides.
//
//   value    copied as text, not as DUMP's, whose format differs between versions of Redis and
//            which cannot be compared; the TTL as the moment at which it ends, as the values
//            themselves hold moments.
//   twice    the cluster's counter is replaced only by one that has more used (more_used), each by
//            one script that compares what is there. So a pass can be interrupted and repeated, and
//            servers may count in the cluster meanwhile.
//   clocks   of all nodes must agree within clocks_differ_max, or nothing is copied.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "redis/options.h"
#include "redis/stored_keys.h"

namespace sluice::redis {

inline constexpr std::chrono::milliseconds clocks_differ_max{1'000};

struct ImportOptions {
  Options from, to;         // `to` is a cluster
  bool overwrites = false;  // replaces what the cluster has, whatever is used of it
  bool dry_run = false;     // writes nothing, and does not ask the cluster
  // Without any progress for so long, as slots fail over, it fails.
  std::chrono::milliseconds patience = std::chrono::seconds(30);
};

struct ImportReport {
  uint64_t database_keys = 0;  // about so many keys does the single Redis have
  uint64_t keys = 0;           // that were listed, but not those of overrides; SCAN may list one
                               // twice. The sum of counters(), `expired` and `foreign`
  uint64_t imported = 0;  // counters that the cluster did not have; of a dry run: that it finds
  uint64_t replaced = 0;  // that had less used there
  uint64_t kept = 0;      // that had as much used there, or more
  uint64_t expired = 0;   // ended since they were listed
  uint64_t foreign = 0;   // keys that are not counters of the rules
  uint64_t foreign_prefixed = 0;           // of these, keys that begin with the prefix
  std::vector<std::string> foreign_first;  // names of the first few of these
  uint64_t overrides = 0;                  // that the cluster did not have
  uint64_t overrides_kept = 0;             // that it had
  uint64_t counters() const { return imported + replaced + kept; }
};

// `progress` is called now and then. What a failure has left out, another pass copies.
base::Done import_to_cluster(const ImportOptions& options, const StoredKeys& keys,
                             ImportReport& report,
                             const std::function<void(const ImportReport&)>& progress);

}  // namespace sluice::redis
