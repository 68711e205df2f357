// The one interface to what owns counters. It settles batches of groups; it never blocks on
// anything slower than a stripe's lock and never calls back. Any number of threads may call it at
// once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "limit/limit.h"

namespace sluice::store {

struct Stats {
  uint64_t counters = 0;      // alive in the store, swept ones excluded
  uint64_t memory_bytes = 0;  // held for counters, exact
  uint64_t swept = 0;         // counters dropped because they equalled a fresh one, since the start
  uint64_t refused = 0;       // groups that failed for want of memory, since the start
};

class Store {
 public:
  static constexpr base::Duration housekeeping_period = base::milliseconds(100);

  virtual ~Store() = default;

  // Settles the groups in order, each all or nothing, and stops behind the first that fails
  // (Group::error) and may not: the caller knows whether what follows is still wanted. Returns how
  // many were settled or failed. Per group the charges' keys are distinct and at most
  // base::bounds::group_charges_max; the keys are copied, nothing of the batch is kept.
  virtual size_t apply(const limit::Batch& batch, base::Time now) = 0;

  // Housekeeping, called by one thread every housekeeping_period: forgets what need not be kept, in
  // small steps.
  virtual void housekeep(base::Time now) = 0;

  virtual Stats stats() const = 0;
};

}  // namespace sluice::store
