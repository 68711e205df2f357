#include "protocol/envoy/hit_counts.h"

#include <algorithm>
#include <cmath>

namespace sluice::envoy {

uint64_t near_threshold(uint32_t limit, float ratio) {
  const float threshold = std::floor(static_cast<float>(limit) * ratio);
  constexpr float threshold_max = 1e18F;
  return static_cast<uint64_t>(std::clamp(threshold, 0.0F, threshold_max));
}

HitCounts count_hits(uint64_t hits, uint64_t count, uint32_t limit, float near_ratio, bool shadow) {
  HitCounts counts;
  counts.total_hits = hits;
  const uint64_t before = count - std::min(hits, count);
  const uint64_t near = near_threshold(limit, near_ratio);
  if (count <= limit) {
    counts.within_limit = hits;
    if (count > near) counts.near_limit = before >= near ? hits : count - near;
    return counts;
  }
  if (before >= limit) {
    counts.over_limit = hits;
  } else {
    counts.over_limit = count - limit;
    counts.near_limit = limit - std::min<uint64_t>(limit, std::max(near, before));
  }
  if (shadow) counts.shadow_mode = counts.over_limit;
  return counts;
}

HitCounts count_refused(uint64_t hits, bool shadow) {
  HitCounts counts;
  counts.total_hits = counts.over_limit = hits;
  if (shadow) counts.shadow_mode = hits;
  return counts;
}

HitCounts count_hits_of_local_cache(uint64_t hits, bool shadow) {
  HitCounts counts = count_refused(hits, shadow);
  counts.over_limit_with_local_cache = hits;
  return counts;
}

}  // namespace sluice::envoy
