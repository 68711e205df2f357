// Divides the hits of a charge among a limit's statsd counters: over the limit, near it, within it,
// or allowed by shadow_mode. Pure arithmetic.
#pragma once

#include <cstdint>

namespace sluice::envoy {

struct HitCounts {
  uint64_t total_hits = 0, over_limit = 0, near_limit = 0, within_limit = 0,
           over_limit_with_local_cache = 0, shadow_mode = 0;
  friend bool operator==(const HitCounts&, const HitCounts&) = default;
};

// The number of hits from which on the limit is near: limit * ratio, computed in 32 bits as in the
// original.
uint64_t near_threshold(uint32_t limit, float ratio);

// `hits` were added to a counter, which now has `count`; 0 hits for a peek and for a refund.
// `shadow`: the rule's. A count that has stopped at its largest value may be less than the hits.
HitCounts count_hits(uint64_t hits, uint64_t count, uint32_t limit, float near_ratio, bool shadow);
// For a request that was refused and not charged.
HitCounts count_refused(uint64_t hits, bool shadow);
// For a request that the local cache refused without a charge.
HitCounts count_hits_of_local_cache(uint64_t hits, bool shadow);

}  // namespace sluice::envoy
