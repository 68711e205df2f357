// Which keys are decided most often, and which are denied most often, without a number for every
// key: a Space-Saving sketch (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and
// Top-k Elements in Data Streams, 2005) for each of the two orders, over one bounded table of keys.
// A key that is not tracked takes the place of one with the least count, and its count from there
// on; that is the most by which its own may be too high. So of N that are counted, a key with more
// than N / tracked_max is tracked for certain, and its count is never too low.
//
// Written by one thread, the one worker's that it belongs to; who else wants it has that thread
// copy it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/bounds.h"
#include "base/time.h"
#include "metrics/cells.h"

namespace sluice::metrics {

// A bounded queue of small values between two threads, without a lock: one puts, the other takes. A
// value for which there is no room is dropped and counted. What was put is seen only after
// `publish`, and may be changed until then.

template <class T>
class Ring {
 public:
  // Holds `size` values, a power of two.
  explicit Ring(size_t size) : size_(std::bit_ceil(size)), values_(new T[size_]) {}

  // One thread: puts, goes through what is not published yet, publishes.
  void put(const T& value) {
    if (next_ - taken_seen_ == size_) {
      taken_seen_ = taken_.load(std::memory_order_acquire);
      if (next_ - taken_seen_ == size_) return lost_.add();
    }
    values_[next_++ & (size_ - 1)] = value;
  }
  template <class Change>
  void each_unpublished(Change&& change) {
    for (uint64_t i = put_.load(std::memory_order_relaxed); i != next_; ++i)
      change(values_[i & (size_ - 1)]);
  }
  // True: the ring is half full or more.
  bool publish() {
    put_.store(next_, std::memory_order_release);
    if (next_ - taken_seen_ < size_ / 2) [[likely]]
      return false;
    taken_seen_ = taken_.load(std::memory_order_acquire);
    return next_ - taken_seen_ >= size_ / 2;
  }

  // The other thread: calls `take(value)` for all that is there, or for the first `most` of it.
  template <class Take>
  void drain(Take&& take, size_t most = SIZE_MAX) {
    uint64_t at = taken_.load(std::memory_order_relaxed);
    const uint64_t end = at + std::min<uint64_t>(put_.load(std::memory_order_acquire) - at, most);
    for (; at != end; ++at) take(values_[at & (size_ - 1)]);
    taken_.store(at, std::memory_order_release);
  }

  // Any thread.
  uint64_t lost() const { return lost_.read(); }

 private:
  const size_t size_;
  const std::unique_ptr<T[]> values_;
  uint64_t next_ = 0, taken_seen_ = 0;  // of the one who puts
  Cell lost_;
  alignas(64) std::atomic<uint64_t> put_{0};
  alignas(64) std::atomic<uint64_t> taken_{0};
};

// A sketch's figures of one key. A count is at least what is true, and at most `error` more.
struct Tracked {
  struct Count {
    bool is_tracked = false;
    uint64_t count = 0, error = 0;
  };
  uint64_t hash = 0;
  const void* family = nullptr;
  uint64_t rule = 0;
  uint16_t name = 0;
  std::string key;
  bool has_actor = false;  // false: it is the key
  std::string actor;
  bool cut = false;
  Count active, denied;
  // What was seen of it while it was tracked in either order: at most what is true.
  uint64_t seen_allowed = 0, seen_denied = 0;
};

class TopSketch {
 public:
  static constexpr size_t tracked_max = base::bounds::top_keys_max;  // in each order
  static constexpr size_t key_bytes_max = base::bounds::top_key_bytes_max;

  // Nothing is there before `clear`, so that memory that is not needed is not touched.
  void clear();

  // One decision. `hash`: of the family of keys and the key, with a secret; two keys with the same
  // one are taken for one key. `family`, `name`, `rule`, `actor`: kept as they are for who reads;
  // an actor without an address is the key.
  void count(uint64_t hash, const void* family, std::string_view key, uint16_t name, bool denied,
             uint64_t rule = 0, std::string_view actor = {}) {
    uint16_t slot = find(hash);
    if (slot != none && active_.counts[slot] != untracked) [[likely]]
      ++active_.counts[slot];
    else
      slot = admit(slot, hash, {family, key, actor, rule, name});
    if (!denied) return;
    if (denied_.counts[slot] != untracked) [[likely]]
      ++denied_.counts[slot];
    else
      admit_denied(slot);
  }

  // As this is now, into one that is not read meanwhile: a few microseconds.
  void copy_to(TopSketch& other) const;

  std::vector<Tracked> tracked() const;
  // The most that a key which is not tracked in that order may have been counted.
  uint64_t active_untracked_max() const { return active_.untracked_max(); }
  uint64_t denied_untracked_max() const { return denied_.untracked_max(); }

 private:
  // A key may be tracked in one order alone.
  static constexpr size_t slots = 2 * tracked_max, heads = 4 * slots;
  static constexpr uint16_t none = UINT16_MAX;
  static constexpr uint32_t untracked = UINT32_MAX;
  static_assert(slots < none && (heads & (heads - 1)) == 0);

  // The counts of one order, by slot. Counts only grow, so those that equal `least` are found by
  // going through them once, from `cursor` on; then the least is another. Each time round raises it
  // by one at the least, and so takes as many decisions as there are keys.
  struct Order {
    std::array<uint32_t, slots> counts;
    uint32_t tracked, least, cursor;

    void clear();
    bool is_full() const { return tracked == tracked_max; }
    uint64_t untracked_max() const;
    uint16_t find_least();
  };
  struct Named {
    const void* family;
    std::string_view key, actor;
    uint64_t rule;
    uint16_t name;
  };
  // Read by queries alone; written when a key is added or dropped.
  // The first 24 bytes of a key share a cache line with the rest.
  struct alignas(64) Slot {
    const void* family;
    uint64_t rule;
    // Seen before the key was last dropped from an order; the other one kept the slot.
    uint32_t active_before, denied_before;
    uint32_t active_error, denied_error;
    uint16_t key_bytes, actor_bytes;
    uint16_t name;
    bool cut, has_actor;
    std::array<char, key_bytes_max> key;  // and the actor
    static_assert(key_bytes_max <= UINT16_MAX);
  };

  uint16_t find(uint64_t hash) const {
    uint16_t slot = heads_[hash & (heads - 1)];
    while (slot != none && hashes_[slot] != hash) slot = next_[slot];
    return slot;
  }
  uint16_t admit(uint16_t slot, uint64_t hash, const Named& named);
  void admit_denied(uint16_t slot);
  void unlink(uint16_t slot);
  void put(uint16_t slot, uint64_t hash, const Named& named);

  std::array<uint16_t, heads> heads_;  // of chains of slots, by hash
  std::array<uint64_t, slots> hashes_;
  std::array<uint16_t, slots> next_, free_;  // free_: a stack of what was used before
  uint16_t free_count_, used_;               // used_: slots from there on never were
  Order active_, denied_;
  std::array<Slot, slots> slots_;
};

// The sketches of one worker, one for each minute of the clock, as many as are asked for and one
// more, so that who reads minute by minute is not overtaken. Its thread alone.
class Top {
 public:
  static constexpr int64_t period_us = 60'000'000;
  // Beside the minute that has begun.
  static constexpr int64_t periods_before = 5;

  Top();

  void count(base::Time now, uint64_t hash, const void* family, std::string_view key, uint16_t name,
             bool denied, uint64_t rule = 0, std::string_view actor = {}) {
    if (static_cast<uint64_t>(now.us - begins_us_) >= uint64_t{period_us}) [[unlikely]]
      begin_period(now);
    current_->count(hash, family, key, name, denied, rule, actor);
  }

  // The number of a minute: of now, and so many before.
  static int64_t period_of(base::Time now) { return now.us / period_us; }
  // That minute's sketch; null: nothing was counted in it, or it is too long ago.
  const TopSketch* at(int64_t period) const;

 private:
  static constexpr size_t generations = periods_before + 2;
  struct Generation {
    int64_t period = -1;
    std::unique_ptr<TopSketch> sketch;
  };
  void begin_period(base::Time now);

  std::array<Generation, generations> all_;
  TopSketch* current_ = nullptr;
  int64_t begins_us_ = std::numeric_limits<int64_t>::min() / 2;
};

// What several sketches (of workers, of minutes) know together, with the bounds that each order
// then has.
class TopMerge {
 public:
  void add(const TopSketch& sketch);

  // All keys of one order, the highest count first. For the other one there is what was seen.
  struct Item {
    uint64_t hash = 0;
    const void* family = nullptr;
    uint64_t rule = 0;
    uint16_t name = 0;
    std::string key, actor;  // a key that has no other actor is the actor
    bool cut = false;
    uint64_t count = 0, error = 0;  // true <= count <= true + error
    uint64_t seen_allowed = 0, seen_denied = 0;
  };
  std::vector<Item> active() const { return ordered(false); }
  std::vector<Item> denied() const { return ordered(true); }

 private:
  // Of a key in one order: what the sketches that track it say, and how much of what the others may
  // hide of any key is not to be added for it.
  struct Sum {
    bool is_tracked = false;
    uint64_t count = 0, error = 0, known_max = 0;
  };
  struct Key {
    Tracked what;  // of the first sketch that had it
    Sum active, denied;
    uint64_t seen_allowed = 0, seen_denied = 0;
  };
  std::vector<Item> ordered(bool denied) const;

  std::vector<Key> keys_;
  std::unordered_multimap<uint64_t, size_t> places_;  // in keys_, by hash
  uint64_t active_untracked_max_ = 0, denied_untracked_max_ = 0;
};

}  // namespace sluice::metrics
