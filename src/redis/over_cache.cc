#include "redis/over_cache.h"

#include <algorithm>

namespace sluice::redis {

OverCache::OverCache(size_t bytes) {
  const size_t sets = std::max<size_t>(1, bytes / (parts * ways * sizeof(Place)));
  for (Part& part : parts_) part.sets.resize(sets);
}

template <class Use>
void OverCache::use(std::string_view name, Use&& use) {
  const uint64_t first = first_(0, name), second = second_(0, name);
  Part& part = parts_[first % parts];
  const std::lock_guard lock(part.mutex);
  use(part.sets[first / parts % part.sets.size()], first, second);
}

void OverCache::remember(std::string_view name, int64_t quota, base::Time end, base::Time now) {
  use(name, [&](std::array<Place, ways>& set, uint64_t first, uint64_t second) {
    Place* best = set.data();
    for (Place& place : set) {
      if (place.first == first && place.second == second) {
        // Within the same window the larger quota that the counter has exceeded is kept.
        if (place.end_us > now.us) quota = std::max(quota, place.quota);
        best = &place;
        break;
      }
      if (place.end_us < best->end_us) best = &place;
    }
    *best = {first, second, quota, end.us};
  });
}

bool OverCache::is_over(std::string_view name, int64_t quota, base::Time now) {
  bool over = false;
  use(name, [&](const std::array<Place, ways>& set, uint64_t first, uint64_t second) {
    for (const Place& place : set)
      over |= place.first == first && place.second == second && now.us < place.end_us &&
              quota <= place.quota;
  });
  return over;
}

void OverCache::forget(std::string_view name) {
  use(name, [](std::array<Place, ways>& set, uint64_t first, uint64_t second) {
    for (Place& place : set)
      if (place.first == first && place.second == second) place = {};
  });
}

}  // namespace sluice::redis
