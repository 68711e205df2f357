#include "engine/denial_sampler.h"

namespace sluice::engine {

bool DenialSampler::wants(uint64_t every, base::Time now) {
  if ((seen_.fetch_add(1, std::memory_order_relaxed) + 1) % every != 0) return false;
  const uint64_t begin = static_cast<uint64_t>(now.us / 1'000'000) << 8;
  constexpr uint64_t seconds_ahead_max = uint64_t{2} << 8;
  uint64_t seen = second_.load(std::memory_order_relaxed);
  for (;;) {
    // Another worker may have read the clock a moment later than this one. A second that is further
    // ahead means that the clock has been set back.
    const uint64_t second = seen & ~uint64_t{255};
    const bool is_other = second < begin || second > begin + seconds_ahead_max;
    const uint64_t next = is_other ? begin + 1 : seen + 1;
    if ((next & 255) > lines_per_second_max) break;
    if (second_.compare_exchange_weak(seen, next, std::memory_order_relaxed)) return true;
  }
  passed_over_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

}  // namespace sluice::engine
