// The memory of a counter table: a reserved range of address space, handed out in chunks of one
// page that 32-bit references name, and the exact sum of all memory that the table holds. Owned by
// the table; thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace sluice::store {

// A place in the region, in units of 4 bytes from its start. 0: nothing.
using Ref = uint32_t;

// Reserves zeroed address space; memory is taken from the system when it is first touched. Freed by
// munmap. Throws std::bad_alloc.
void* reserve(size_t bytes);

class Region {
 public:
  static constexpr size_t chunk_bytes = 4096;
  static constexpr size_t unit_bytes = 4;

  // Reserves address space for `bytes_max` bytes; memory is taken from the system when it is first
  // touched.
  explicit Region(size_t bytes_max);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // Returns a chunk with unspecified content; 0: the bound is reached.
  Ref take_chunk();
  // Gives a chunk back for later use. The process keeps its memory, which it is likely to need
  // again.
  void give_back_chunk(Ref chunk);

  // Accounts for memory outside the region. False: the bound is reached, and nothing was accounted
  // for.
  bool charge(size_t bytes);
  void release(size_t bytes);

  void* at(Ref ref) const { return base_ + size_t{ref} * unit_bytes; }
  Ref ref_of(const void* p) const {
    return static_cast<Ref>(static_cast<size_t>(static_cast<const std::byte*>(p) - base_) /
                            unit_bytes);
  }
  static constexpr Ref chunk_of(Ref ref) {
    return ref & ~static_cast<Ref>(chunk_bytes / unit_bytes - 1);
  }

  size_t bytes() const { return used_.load(std::memory_order_relaxed); }
  size_t bytes_max() const { return bytes_max_; }

 private:
  const size_t bytes_max_;
  std::byte* base_;
  std::atomic<size_t> used_{0};
  std::mutex mutex_;            // of the two below
  Ref free_ = 0;                // chunks given back, each of which begins with the next; 0: none
  size_t fresh_ = chunk_bytes;  // first byte never handed out; the first chunk stays unused, so
                                // that 0 is not a place
};

// The chain heads of all stripes in one array, so laid out that stripes which grow together fill it
// from the front without gaps: a row holds 16 heads (a cache line) of each stripe. Memory is taken
// a row at a time and kept. Shared by the stripes; a head is guarded by its stripe's lock.

class Heads {
 public:
  static constexpr uint32_t stripes = 1024;

  // Room for `chains_max` chains of each stripe, accounted in `region` as it is used.
  Heads(Region& region, uint32_t chains_max);
  ~Heads();
  Heads(const Heads&) = delete;
  Heads& operator=(const Heads&) = delete;

  Ref& at(uint32_t stripe, uint32_t chain) const {
    return heads_[(size_t{chain / per_row} * stripes + stripe) * per_row + chain % per_row];
  }

  // Makes the first `chains` of every stripe usable; they read 0 at first. False: no memory, or
  // more than chains_max.
  bool reach(uint32_t chains);

 private:
  static constexpr uint32_t per_row = 16;
  static constexpr size_t row_bytes = size_t{per_row} * stripes * sizeof(Ref);

  Region& region_;
  const uint32_t chains_max_;
  Ref* const heads_;
  std::atomic<uint32_t> rows_{0};
};

// Allocates places for entries: chunks of the region, each divided into places of one size. An
// empty chunk goes back to the region, so memory follows what is stored. A slab of one stripe is
// guarded by the stripe's lock. Stripes of a small table share slabs, each with a lock of its own:
// a slab holds a partly used chunk for every size that it has met, and 1,024 slabs would need more
// than such a table has. Lock order: stripe, slab, region.

class Slab {
 public:
  // The size of the largest place, in bytes.
  static constexpr size_t bytes_max = 2040;

  Slab() = default;
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // Makes it usable by several stripes. Must be called before its first use.
  void share() { shared_ = true; }

  // A place of at least `bytes` (1 to bytes_max) with unspecified content, or 0 when the region is
  // full and no place up to twice as large is free.
  Ref allocate(Region& region, size_t bytes);
  // Gives back a place got by `allocate`.
  void free(Region& region, Ref place);

 private:
  // Sizes: every 4 bytes up to 128; then those that fill a chunk with 30, 28, 26 ... places, so
  // that a place of up to 580 bytes is at most a seventh larger than asked for.
  static constexpr std::array<uint16_t, 23> large_sizes{136, 144, 156, 168, 184,  204,  224, 240,
                                                        252, 272, 288, 312, 340,  368,  408, 452,
                                                        508, 580, 680, 816, 1020, 1360, 2040};
  static constexpr size_t small_classes = 32;
  static constexpr size_t classes = small_classes + large_sizes.size();
  static constexpr size_t unit = Region::unit_bytes;

  static constexpr size_t bytes_of(size_t size_class) {
    return size_class < small_classes ? (size_class + 1) * unit
                                      : large_sizes[size_class - small_classes];
  }
  static size_t class_of(size_t bytes);

  struct Chunk;
  void link(Region& region, size_t size_class, Ref chunk);
  void unlink(Region& region, Chunk& header);
  bool open_chunk(Region& region, size_t size_class);
  size_t larger_class(size_t size_class) const;

  bool shared_ = false;
  std::mutex mutex_;                 // used if it is shared
  std::array<Ref, classes> open_{};  // per size: a list of the chunks that have room
};

}  // namespace sluice::store
