// What a charge adds to the counters of statsd that a limit has: how many of its hits were over the
// limit, near it, within it, or let pass by shadow_mode. Pure arithmetic.
#pragma once

#include <cstdint>

namespace sluice::envoy {

struct HitCounts {
  uint64_t total_hits = 0, over_limit = 0, near_limit = 0, within_limit = 0,
           over_limit_with_local_cache = 0, shadow_mode = 0;
  friend bool operator==(const HitCounts&, const HitCounts&) = default;
};

// Hits from which on a limit is near: limit * ratio, computed in 32 bits as the original does.
uint64_t near_threshold(uint32_t limit, float ratio);

// `hits` have been added to a counter, which has `count` now; 0 of a peek, and of a refund.
// `shadow`: of the rule. A count that has stopped at its largest value may be below the hits.
HitCounts count_hits(uint64_t hits, uint64_t count, uint32_t limit, float near_ratio, bool shadow);
// A request that was refused, and charged nothing.
HitCounts count_refused(uint64_t hits, bool shadow);
// A request that the local cache has refused, uncharged.
HitCounts count_hits_of_local_cache(uint64_t hits, bool shadow);

}  // namespace sluice::envoy
