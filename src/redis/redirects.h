// How often a command of one worker is sent on in Redis Cluster because a node names another one
// for its slot (MOVED, ASK), and after which pauses. Slots that move quickly are followed at once;
// two nodes that name each other, as while a slot changes hands or after a failover, get time to
// agree. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/bounds.h"
#include "base/time.h"

namespace sluice::redis {

inline constexpr int64_t redirect_pause_min_us = 1'000, redirect_pause_max_us = 16'000;

// The pause before a command is sent on that was sent on `times` before: none for the first
// base::bounds::redis_redirects_max, then one that doubles up to its maximum.
constexpr int64_t redirect_pause_us(unsigned times) {
  constexpr unsigned at_once = base::bounds::redis_redirects_max;
  if (times < at_once) return 0;
  constexpr unsigned doublings_max = 4;
  const unsigned doublings = std::min(times - at_once, doublings_max);
  return std::min(redirect_pause_min_us << doublings, redirect_pause_max_us);
}

// How often a command is sent on at most: as long as all its pauses together fit into half of
// `deadline`, the time that one decision has, and no more than redirects_most.
inline constexpr uint32_t redirects_most = 40;
constexpr uint32_t redirects_max(base::Duration deadline) {
  uint32_t times = base::bounds::redis_redirects_max;
  int64_t left_us = deadline.us / 2 - redirect_pause_us(times);
  for (; left_us >= 0 && times < redirects_most; left_us -= redirect_pause_us(times)) ++times;
  return times;
}

}  // namespace sluice::redis
