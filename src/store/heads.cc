#include "store/heads.h"

#include <sys/mman.h>

namespace sluice::store {

Heads::Heads(Region& region, uint32_t chains_max)
    : region_(region),
      chains_max_((chains_max + per_row - 1) / per_row * per_row),
      heads_(static_cast<Ref*>(reserve(chains_max_ / per_row * row_bytes))) {}

Heads::~Heads() {
  const size_t rows = chains_max_ / per_row;
  munmap(heads_, rows * row_bytes);
  region_.release(rows_ * row_bytes);
}

bool Heads::reach(uint32_t chains) {
  if (chains > chains_max_) return false;
  const uint32_t needed = (chains + per_row - 1) / per_row;
  uint32_t rows = rows_.load(std::memory_order_relaxed);
  while (rows < needed) {
    if (!region_.charge(row_bytes)) return false;
    if (rows_.compare_exchange_strong(rows, rows + 1, std::memory_order_relaxed)) {
      ++rows;
    } else {
      region_.release(row_bytes);  // another stripe was first
    }
  }
  return true;
}

}  // namespace sluice::store
