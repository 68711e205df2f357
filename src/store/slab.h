// Allocates places for entries: chunks of the region, each divided into places of one size. An
// empty chunk goes back to the region, so memory follows what is stored. A slab of one stripe is
// guarded by the stripe's lock. Stripes of a small table share slabs, each with a lock of its own:
// a slab holds a partly used chunk for every size that it has met, and 1,024 slabs would need more
// than such a table has. Lock order: stripe, slab, region.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "store/region.h"

namespace sluice::store {

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
