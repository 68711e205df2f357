// One stripe of the counter table: a linear hash of chained entries. It grows and shrinks by one
// chain at a time, so no request ever waits for a rehash. Not thread-safe: the table holds its lock
// around every call. A counter costs an entry of 16 bytes, 16 bytes for each cell and the key,
// rounded up to 4, plus 5 bytes of chain heads: 53 for a 16-byte key and one cell.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "limit/limit.h"
#include "request/space.h"
#include "store/region.h"

namespace sluice::store {

// A stored counter. Lives in the region until erased or swept; never moves.
class Entry {
 public:
  static constexpr size_t inline_key_bytes_max =
      512;  // a longer key lies on the heap, and is accounted for in the region

  size_t cells() const { return cells_; }
  // Most have one cell.
  void load(limit::State* out) const {
    if (cells_ == 1) [[likely]]
      __builtin_memcpy(out, bytes(), sizeof *out);
    else
      __builtin_memcpy(out, bytes(), cells_ * sizeof *out);
  }
  void store(const limit::State* in) {
    if (cells_ == 1) [[likely]]
      __builtin_memcpy(bytes(), in, sizeof *in);
    else
      __builtin_memcpy(bytes(), in, cells_ * sizeof *in);
  }
  limit::State cell(size_t i) const {
    limit::State s;
    __builtin_memcpy(&s, bytes() + i * sizeof s, sizeof s);
    return s;
  }
  std::string_view key() const;
  uint32_t space() const { return space_; }
  // The limits that its cells were written under (Spaces::intern_limits), and whether there are
  // further cells, of limits that are left out (limit/left_out.h).
  uint32_t limits_id() const { return limits_ & ~left_out_bit; }
  bool leaves_out() const { return (limits_ & left_out_bit) != 0; }
  void set_limits_id(uint32_t id, bool leaves_out) {
    limits_ = leaves_out ? id | left_out_bit : id;
  }
  // Are its cells exactly those of that list of limits?
  bool is_just(uint32_t limits_id) const { return limits_ == limits_id; }

  // The flags below belong to the stripe's owner; sweeping obeys them.
  bool waited_for() const { return (flags_ & waited_for_flag) != 0; }  // requests wait for it
  void set_waited_for(bool is) { set(waited_for_flag, is); }
  bool keeps_limits() const { return (flags_ & keeps_limits_flag) != 0; }
  void set_keeps_limits() { set(keeps_limits_flag, true); }
  // Its space has keep_fresh_for.
  bool keeps_fresh() const { return (flags_ & keeps_fresh_flag) != 0; }
  void set_keeps_fresh() { set(keeps_fresh_flag, true); }
  // It has changed since it was committed.
  bool dirty() const { return (flags_ & dirty_flag) != 0; }
  void set_dirty(bool is) { set(dirty_flag, is); }
  // The counter does not exist. The entry records that until it is committed, or so that it is not
  // looked up on the disk again.
  bool erased() const { return (flags_ & erased_flag) != 0; }
  void set_erased(bool is) { set(erased_flag, is); }
  // It is newer than what the disk may hold: must not be dropped before all counters are loaded.
  bool newer() const { return (flags_ & newer_flag) != 0; }
  void set_newer() { set(newer_flag, true); }
  // The disk may hold a state of the counter.
  bool stored() const { return (flags_ & stored_flag) != 0; }
  void set_stored(bool is) { set(stored_flag, is); }
  // That state may expire later than this one: must not be dropped before the disk's state is
  // replaced.
  bool outlived() const { return (flags_ & outlived_flag) != 0; }
  void set_outlived(bool is) { set(outlived_flag, is); }
  // Neither flag is set that a take would have to obey.
  bool is_plain() const { return (flags_ & (keeps_fresh_flag | erased_flag)) == 0; }
  // Makes it equal to a fresh counter, under no limits.
  void clear() {
    __builtin_memset(bytes(), 0, cells_ * sizeof(limit::State));
    limits_ = 0;
  }

 private:
  friend class Stripe;
  static constexpr uint32_t left_out_bit = uint32_t{1} << 31;
  static constexpr uint8_t waited_for_flag = 1, keeps_limits_flag = 2, keeps_fresh_flag = 4,
                           dirty_flag = 8, erased_flag = 16, newer_flag = 32, stored_flag = 64,
                           outlived_flag = 128;
  void set(uint8_t flag, bool is) {
    flags_ = static_cast<uint8_t>(is ? flags_ | flag : flags_ & ~flag);
  }
  char* bytes() { return reinterpret_cast<char*>(this + 1); }
  const char* bytes() const { return reinterpret_cast<const char*>(this + 1); }

  Ref next_;            // the next entry of its chain
  uint32_t space_;      // Space::id
  uint32_t limits_;     // limits_id, and left_out_bit
  uint16_t key_bytes_;  // long_key: the key is on the heap, and a Long after the cells points to it
  uint8_t cells_;
  uint8_t flags_;
};

// What sweeping drops: see EmbeddedStore::sweep.
struct Sweep {
  base::Time now;
  bool purges = false;  // counters that keep their limits, and no others
  // says how long a fresh counter is kept; null: not at all
  const request::Spaces* spaces = nullptr;
  bool loading = false;   // the disk may hold counters that are not in the table: see Entry::newer
  bool replaces = false;  // for a new counter that needs the place; else a round of housekeeping
  std::span<const Entry* const> held = {};  // entries that the caller still uses

  bool drops(const Entry& entry) const;
  // The same for an entry that has changed and is not committed: the disk's state of it must have
  // expired.
  bool drops_changed(const Entry& entry) const;

 private:
  bool is_as_fresh(const Entry& entry) const;
};

class Stripe {
 public:
  // The stripe's heads are those of `index` in `heads`; its entries lie in `slab`. Both outlive it.
  void open(Heads& heads, uint32_t index, Slab& slab);
  // Frees memory that is not in the region (long keys).
  void close(Region& region);

  // Makes chains for that many entries at once, so that they need not grow one by one. The stripe
  // must be empty.
  void reserve(uint32_t entries);

  Entry* find(const Region& region, uint64_t hash, uint32_t space, std::string_view key) const;

  // Adds an entry that `find` did not find, its cells zeroed. Null: no memory.
  Entry* insert(Region& region, const base::Hash& hash_of, uint64_t hash, uint32_t space,
                std::string_view key, size_t cells);

  // Removes an entry that `find` or `insert` returned; the pointer is void.
  void erase(Region& region, uint64_t hash, Entry* entry);

  // Drops entries of chains [first, first + count) as `sweep` says, and gives back chain heads that
  // are no longer needed. Returns how many went.
  size_t sweep(Region& region, const Sweep& sweep, uint32_t first, uint32_t count);

  // Drops entries of the next `count` chains, and starts again after the last one. Ends early once
  // it has seen four entries for each of `count`. Returns how many it dropped.
  size_t sweep_next(Region& region, const Sweep& sweep, uint32_t count);

  // Calls `visit(entry)` for the entries of a chain.
  template <class Visit>
  void each(const Region& region, uint32_t chain, Visit&& visit) const {
    for (Ref at = head(chain); at != 0;) {
      const auto* entry = static_cast<const Entry*>(region.at(at));
      at = entry->next_;
      visit(*entry);
    }
  }

  // Prefetches the chain's first entry, before `each`.
  void prefetch_chain(const Region& region, uint32_t chain) const {
    const char* entry = static_cast<const char*>(region.at(get(head(chain))));
    __builtin_prefetch(entry);
    __builtin_prefetch(entry + second_line);
  }

  template <class Visit>
  void each(const Region& region, uint32_t chain, Visit&& visit) {
    std::as_const(*this).each(region, chain,
                              [&](const Entry& entry) { visit(const_cast<Entry&>(entry)); });
  }

  // These two may be called without the lock.
  uint32_t chains() const { return chains_.load(std::memory_order_relaxed); }
  uint32_t entries() const { return entries_.load(std::memory_order_relaxed); }
  uint32_t index() const { return index_; }  // of its heads
  // How often a chain was merged into a lower one. If it changes during a pass from the first chain
  // to the last, the pass may have missed entries.
  uint32_t merges() const { return merges_; }

  // Called without the lock before `find`: these prefetch the chain's head, and then its first
  // entry. What they read may be outdated; no result depends on it.
  void prefetch_head(uint64_t hash) const { __builtin_prefetch(&head(chain_of(hash))); }
  void prefetch_entry(const Region& region, uint64_t hash) const {
    const char* entry = static_cast<const char*>(region.at(get(head(chain_of(hash)))));
    __builtin_prefetch(entry);
    __builtin_prefetch(entry + second_line);
  }

 private:
  // The offset in an entry at which its second cache line is prefetched: most entries cover two.
  static constexpr size_t second_line = 40;

  uint32_t chain_of(uint64_t hash) const {
    const uint32_t floor = floor_.load(std::memory_order_relaxed);
    const uint32_t chain = static_cast<uint32_t>(hash) & (2 * floor - 1);
    return chain < chains() ? chain : chain & (floor - 1);
  }
  // Links are written under the lock, and heads read without it by the prefetches.
  static Ref get(Ref& link) { return std::atomic_ref(link).load(std::memory_order_relaxed); }
  static void set(Ref& link, Ref to) { std::atomic_ref(link).store(to, std::memory_order_relaxed); }
  Ref& head(uint32_t chain) const { return heads_->at(index_, chain); }
  uint32_t sweep_chain(Region& region, const Sweep& sweep, uint32_t chain);
  void set_chains(uint32_t chains);
  void set_entries(uint32_t entries) { entries_.store(entries, std::memory_order_relaxed); }
  void split(Region& region, const base::Hash& hash_of);
  void merge(Region& region);
  void destroy(Region& region, Entry* entry);

  Heads* heads_ = nullptr;
  uint32_t index_ = 0;
  std::atomic<uint32_t> chains_{0};
  std::atomic<uint32_t> floor_{1};  // the largest power of two not above chains_
  std::atomic<uint32_t> entries_{0};
  uint32_t merges_ = 0;
  uint32_t next_swept_ = 0;  // the chain at which sweep_next continues
  Slab* slab_ = nullptr;
};

}  // namespace sluice::store
