#include "store/region.h"

#include <sys/mman.h>

#include <new>

#include "base/bounds.h"
#include "base/check.h"

namespace sluice::store {

void* reserve(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  // Counters are met at random: with small pages most of a lookup's time goes into address
  // translation. A system without huge pages refuses this, and is merely slower.
  madvise(at, bytes, MADV_HUGEPAGE);
  return at;
}

Region::Region(size_t bytes_max)
    : bytes_max_(bytes_max), base_(static_cast<std::byte*>(reserve(bytes_max))) {
  SLUICE_CHECK(bytes_max >= 2 * chunk_bytes && bytes_max <= base::bounds::table_bytes_max);
}

Region::~Region() {
  munmap(base_, bytes_max_);
}

Ref Region::take_chunk() {
  if (!charge(chunk_bytes)) return 0;
  const std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    const Ref chunk = free_.back();
    free_.pop_back();
    return chunk;
  }
  if (fresh_ + chunk_bytes > bytes_max_) {
    release(chunk_bytes);
    return 0;
  }
  const Ref chunk = static_cast<Ref>(fresh_ / unit_bytes);
  fresh_ += chunk_bytes;
  return chunk;
}

void Region::give_back_chunk(Ref chunk) {
  const std::lock_guard lock(mutex_);
  free_.push_back(chunk);
  release(chunk_bytes);
}

bool Region::charge(size_t bytes) {
  size_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > bytes_max_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

void Region::release(size_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace sluice::store
