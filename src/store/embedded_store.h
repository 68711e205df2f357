// The store that needs no other server: every counter in one table in memory, forgotten at exit.
// The table is cut into stripes with a lock each, held for arithmetic only, so any worker decides
// any request at once; a group locks its stripes in order. Owned by main; apply and stats from any
// thread, housekeep and sweep from one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/hash.h"
#include "store/region.h"
#include "store/store.h"
#include "store/stripe.h"

namespace sluice::store {

class EmbeddedStore final : public Store {
 public:
  static constexpr size_t stripes = Heads::stripes;

  // memory_bytes: bound of all that counters hold, 16 MiB (smaller ones are raised to it) to
  // base::bounds:: table_bytes_max. Past it new counters fail with Error::memory; those that exist
  // go on.
  EmbeddedStore(size_t memory_bytes, const base::Hash& hash);
  // The same; null where the system does not give the address space.
  static std::unique_ptr<EmbeddedStore> open(size_t memory_bytes, const base::Hash& hash);
  ~EmbeddedStore() override;

  size_t apply(const limit::Batch& batch, base::Time now) override;
  // Sweeps the table once in 10 s, or once in a second while more than 7/8 of the memory is in use;
  // but for 5 ms a call at most, 30 ms then: a round through tens of millions takes longer.
  void housekeep(base::Time now) override;
  Stats stats() const override;

  // Looks at the next `chains` chains, drops the counters that equal a fresh one, and goes round
  // for ever. Locks one stripe at a time, for at most sweep_chains_per_lock chains.
  void sweep(base::Time now, uint64_t chains);
  // Chains there are now: sweeping twice as many goes round once. For tests.
  uint64_t chains() const;

 private:
  static constexpr uint32_t sweep_chains_per_lock = 64;

  struct alignas(64) Locked {
    mutable std::mutex mutex;
    Stripe stripe;
  };
  static size_t stripe_of(uint64_t hash) { return hash >> 54; }
  static_assert(stripes == size_t{1} << (64 - 54));

  void prepare(const limit::Batch& batch) const;
  bool settle_alone(limit::Group& group, const limit::Charge& charge, limit::Decision* decisions,
                    base::Time now);
  bool settle_together(limit::Group& group, const limit::Batch& batch, base::Time now);

  const base::Hash hash_;
  Region region_;
  Heads heads_;
  std::unique_ptr<std::array<Locked, stripes>> table_;
  std::atomic<uint64_t> swept_{0}, refused_{0};
  uint64_t round_chains_ = 0, chains_seen_ = 0;  // of the last round, and of this one so far
  size_t sweep_stripe_ = 0;
  uint32_t sweep_chain_ = 0;
};

}  // namespace sluice::store
