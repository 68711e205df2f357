// A group of several charges, with the locks of all their stripes held: used when a group is
// settled, and when a waiting group is tried again. Lives on the stack as long as the locks are
// held.
#pragma once

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <span>

#include "base/bounds.h"
#include "base/check.h"
#include "store/embedded_store.h"
#include "store/pending_charge.h"

namespace sluice::store {

using request::Charge;

// The charges of a group, by hash, and the locks of their stripes.
struct EmbeddedStore::LockedGroup {
  // `also`: more charges whose stripes are locked.
  LockedGroup(EmbeddedStore& store, std::span<Charge> charges, std::span<const Charge> also = {})
      : settling(reinterpret_cast<PendingCharge*>(room), charges.size()) {
    constexpr size_t max = base::bounds::group_charges_max;
    SLUICE_CHECK(charges.size() <= max && also.size() <= max);
    std::array<Charge*, max> order;
    for (size_t i = 0; i < charges.size(); ++i) order[i] = &charges[i];
    const auto by_hash = std::span(order).first(charges.size());
    std::sort(by_hash.begin(), by_hash.end(), [](const Charge* a, const Charge* b) {
      return hash_of(*a) != hash_of(*b) ? hash_of(*a) < hash_of(*b) : a < b;
    });
    also.empty() ? lock(store, by_hash) : lock(store, by_hash, also);
    const Charge* before = nullptr;
    for (size_t i = 0; i < charges.size(); ++i) {
      Charge& charge = *by_hash[i];
      PendingCharge& s = *new (&settling[i]) PendingCharge;
      s.charge = &charge;
      if (!charge.counted) continue;
      // Equal keys have equal hashes, so they stand side by side.
      if (before != nullptr && before->hash == charge.hash)
        SLUICE_CHECK(charge.follows || before->space != charge.space || before->key != charge.key);
      store.find(s);
      before = &charge;
    }
  }
  ~LockedGroup() {
    for (size_t i = 0; i < count; ++i) locked[i]->unlock();
  }
  LockedGroup(const LockedGroup&) = delete;
  LockedGroup& operator=(const LockedGroup&) = delete;

  static uint64_t hash_of(const Charge& charge) { return charge.counted ? charge.hash : 0; }

  // The order of hashes is the order of stripes, so every group locks in the same order.
  void lock(EmbeddedStore& store, std::span<Charge* const> by_hash) {
    for (const Charge* charge : by_hash)
      if (charge->counted) lock_after(store.locked_of(*charge).mutex);
  }
  [[gnu::noinline]] void lock(EmbeddedStore& store, std::span<Charge* const> by_hash,
                              std::span<const Charge> also) {
    std::array<const Charge*, 2 * base::bounds::group_charges_max> all;
    auto end = std::copy(by_hash.begin(), by_hash.end(), all.begin());
    for (const Charge& charge : also) *end++ = &charge;
    end = std::remove_if(all.begin(), end, [](const Charge* charge) { return !charge->counted; });
    std::sort(all.begin(), end, [](const Charge* a, const Charge* b) { return a->hash < b->hash; });
    for (auto at = all.begin(); at != end; ++at) lock_after(store.locked_of(**at).mutex);
  }
  void lock_after(std::mutex& mutex) {
    if (count > 0 && locked[count - 1] == &mutex) return;
    mutex.lock();
    locked[count++] = &mutex;
  }

  // Not zeroed: there is room for many charges, and mostly few are used.
  alignas(PendingCharge) std::byte room[base::bounds::group_charges_max * sizeof(PendingCharge)];
  const std::span<PendingCharge> settling;
  std::array<std::mutex*, 2 * base::bounds::group_charges_max> locked;
  size_t count = 0;
};

}  // namespace sluice::store
