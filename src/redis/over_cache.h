// Counters of a window that were found to be past their quota: until the window ends they are
// refused without Redis (redis::Options::over_cache_bytes). Shared by all workers; any thread. Its
// memory is taken once; where a counter finds no place the one goes whose window ends first, and is
// asked for again. Counters are distinguished by 128 bits of keyed hashes of their names.
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
  // Of no more than so much memory, but one place for each of its parts at least.
  explicit OverCache(size_t bytes);

  // The counter, called so until its window ends, holds more than `quota`.
  void remember(std::string_view name, int64_t quota, base::Time end, base::Time now);
  // Does it hold more than `quota`, as far as is known?
  bool is_over(std::string_view name, int64_t quota, base::Time now);
  // Something was given back to it.
  void forget(std::string_view name);

 private:
  static constexpr size_t parts = 64, ways = 8;
  struct Place {
    uint64_t first = 0, second = 0;
    int64_t quota = 0, end_us = INT64_MIN;
  };
  // The places where a counter may stand, with the lock of their part.
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
