// Remembers window counters that have exceeded their quota: until the window ends they are refused
// without Redis (redis::Options::over_cache_bytes). Shared by all workers; any thread. Its memory
// is allocated once. If there is no place for a counter, it replaces the one whose window ends
// first, for which Redis is asked again. Counters are distinguished by 128 bits of keyed hashes of
// their names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/time.h"

namespace sluice::redis {

class OverCache {
 public:
  // Uses at most `bytes` of memory, but at least one place in each of its parts.
  explicit OverCache(size_t bytes);

  // Records that the counter holds more than `quota`. `name`: its name until the window ends at
  // `end`.
  void remember(std::string_view name, int64_t quota, base::Time end, base::Time now);
  // Is the counter known to hold more than `quota`?
  bool is_over(std::string_view name, int64_t quota, base::Time now);
  // Units were returned to the counter: forgets it.
  void forget(std::string_view name);

 private:
  static constexpr size_t parts = 64, ways = 8;
  struct Place {
    uint64_t first = 0, second = 0;
    int64_t quota = 0, end_us = INT64_MIN;
  };
  // The places in which a counter may be, with the lock of their part.
  struct Part {
    std::mutex mutex;
    std::vector<std::array<Place, ways>> sets;
  };
  template <class Use>
  void use(std::string_view name, Use&& use);

  const base::Hash first_, second_;
  std::array<Part, parts> parts_;
};

}  // namespace sluice::redis
