// One stripe of the counter table: a linear hash of chained entries. It grows and shrinks by one
// chain at a time, so no request ever waits for a rehash. Not thread-safe: the table holds its lock
// around every call. What it costs: an entry of 12 bytes, 16 a slot and the key, rounded up to 4,
// plus 5 bytes of chain heads: 49 for a 16-byte key and one slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/hash.h"
#include "limit/limit.h"
#include "store/region.h"
#include "store/slab.h"

namespace sluice::store {

// A stored counter. Lives in the region until erased or swept; never moves.
class Entry {
 public:
  static constexpr size_t inline_key_bytes_max =
      1024;  // a longer key lies on the heap, accounted in the region

  size_t slots() const { return slots_; }
  limit::State state(size_t slot) const {
    limit::State s;
    __builtin_memcpy(&s, bytes() + slot * sizeof s, sizeof s);
    return s;
  }
  void set_state(size_t slot, const limit::State& s) {
    __builtin_memcpy(bytes() + slot * sizeof s, &s, sizeof s);
  }
  std::string_view key() const;

 private:
  friend class Stripe;
  char* bytes() { return reinterpret_cast<char*>(this + 1); }
  const char* bytes() const { return reinterpret_cast<const char*>(this + 1); }

  Ref next_;            // in its chain
  uint32_t space_;      // Space::id
  uint16_t key_bytes_;  // long_key: the key is a heap block, told by a Long behind the slots
  uint8_t slots_;
  uint8_t unused_;
};

class Stripe {
 public:
  // `heads`: zeroed address space for `heads_max` chain heads, which outlives the stripe.
  void open(Ref* heads, uint32_t heads_max);
  // Frees what the region does not hold itself (long keys).
  void close(Region& region);

  Entry* find(const Region& region, uint64_t hash, uint32_t space, std::string_view key) const;

  // Adds an entry that `find` did not find, its slots zeroed. Null: no memory.
  Entry* insert(Region& region, const base::Hash& hash_of, uint64_t hash, uint32_t space,
                std::string_view key, size_t slots);

  // Removes an entry that `find` or `insert` gave; the pointer dies.
  void erase(Region& region, uint64_t hash, Entry* entry);

  // Drops the entries of chains [first, first + count) that equal a fresh one, and gives back chain
  // heads that are no longer needed. Returns how many went.
  size_t sweep(Region& region, base::Time now, uint32_t first, uint32_t count);

  uint32_t chains() const { return heads_count_; }
  uint32_t entries() const { return entries_; }

  void prefetch(uint64_t hash) const { __builtin_prefetch(&heads_[chain_of(hash)]); }

 private:
  uint32_t chain_of(uint64_t hash) const {
    const uint32_t chain = static_cast<uint32_t>(hash) & (2 * floor_ - 1);
    return chain < heads_count_ ? chain : chain & (floor_ - 1);
  }
  uint64_t hash_of_entry(const base::Hash& hash_of, const Entry& entry) const;
  bool resize_heads(Region& region, uint32_t count);
  void split(Region& region, const base::Hash& hash_of);
  void merge(Region& region);
  void destroy(Region& region, Entry* entry);

  Ref* heads_ = nullptr;
  uint32_t heads_count_ = 0;
  uint32_t heads_max_ = 0;
  uint32_t floor_ = 0;  // the largest power of two not above heads_count_
  uint32_t entries_ = 0;
  Slab slab_;
};

}  // namespace sluice::store
