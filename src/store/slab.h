// Places for the entries of one stripe: chunks of the region, each cut into places of one size. An
// empty chunk goes back to the region, so memory follows what is stored. Owned by a stripe and
// guarded by its lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "store/region.h"

namespace sluice::store {

class Slab {
 public:
  // The largest place.
  static constexpr size_t bytes_max = 2040;

  // A place of at least `bytes` (1 to bytes_max) with unspecified content, or 0 when the region is
  // full.
  Ref allocate(Region& region, size_t bytes);
  // Gives back a place got by `allocate` with the same `bytes`.
  void free(Region& region, Ref place, size_t bytes);

 private:
  // Sizes: every 4 bytes up to 128, every 32 up to 512, every 128 up to 1280, then a third and half
  // of a chunk.
  static constexpr size_t classes = 32 + 12 + 6 + 2;
  static constexpr size_t class_of(size_t bytes) {
    if (bytes <= 128) return (bytes + 3) / 4 - 1;
    if (bytes <= 512) return 32 + (bytes - 129) / 32;
    if (bytes <= 1280) return 44 + (bytes - 513) / 128;
    return bytes <= 1360 ? 50 : 51;
  }
  static constexpr size_t bytes_of(size_t size_class) {
    if (size_class < 32) return (size_class + 1) * 4;
    if (size_class < 44) return 128 + (size_class - 31) * 32;
    if (size_class < 50) return 512 + (size_class - 43) * 128;
    return size_class == 50 ? 1360 : 2040;
  }

  struct Chunk;
  void link(Region& region, size_t size_class, Ref chunk);
  void unlink(Region& region, size_t size_class, Chunk& header);

  std::array<Ref, classes> open_{};  // per size: a list of the chunks that have room
};

}  // namespace sluice::store
