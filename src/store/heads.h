// The chain heads of all stripes in one array, so laid out that stripes which grow together fill it
// from the front without gaps: a row holds 16 heads (a cache line) of each stripe. Memory is taken
// a row at a time and kept. Shared by the stripes; a head is guarded by its stripe's lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "store/region.h"

namespace sluice::store {

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

}  // namespace sluice::store
