// A group of several charges under the locks of all their stripes: what settling one and retrying
// one that waits have in common. Lives on the stack for the length of the locks.
#pragma once

#include <algorithm>
#include <array>
#include <mutex>
#include <span>

#include "base/bounds.h"
#include "base/check.h"
#include "store/embedded_store.h"
#include "store/settling.h"

namespace sluice::store {

using limit::Charge;

// The charges of a group in the order in which their stripes are locked, and their locks.
struct EmbeddedStore::Together {
  Together(EmbeddedStore& store, std::span<Charge> charges)
      : settling(room.data(), charges.size()) {
    SLUICE_CHECK(charges.size() <= room.size());
    for (size_t i = 0; i < charges.size(); ++i) {
      settling[i].charge = &charges[i];
      settling[i].entry = nullptr;
      settling[i].queue = nullptr;
    }
    // By hash is by stripe: every group locks in the same order, and equal keys would stand
    // together.
    std::sort(settling.begin(), settling.end(), [](const Settling& a, const Settling& b) {
      return hash_of(*a.charge) < hash_of(*b.charge);
    });
    const Charge* before = nullptr;
    for (size_t i = 0; i < settling.size(); ++i) {
      const Charge& charge = *settling[i].charge;
      if (!charge.counted) continue;
      if (before == nullptr || stripe_of(before->hash) != stripe_of(charge.hash))
        locks[i] = std::unique_lock(store.locked_of(charge).mutex);
      if (before != nullptr && before->hash == charge.hash)
        SLUICE_CHECK(before->space != charge.space || before->key != charge.key);
      store.find(settling[i]);
      before = &charge;
    }
  }
  static uint64_t hash_of(const Charge& charge) { return charge.counted ? charge.hash : 0; }

  std::array<Settling, base::bounds::group_charges_max> room;
  std::array<std::unique_lock<std::mutex>, base::bounds::group_charges_max> locks;
  const std::span<Settling> settling;
};

}  // namespace sluice::store
