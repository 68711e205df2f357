// The memory of a counter table: one reserved run of address space, handed out in chunks of one
// page and named by 32-bit references, and the exact account of all that the table holds. Owned by
// the table; thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace sluice::store {

// A place in the region, in units of 4 bytes from its start. 0: nothing.
using Ref = uint32_t;

// Address space of its own, zeroed, whose memory is taken from the system as it is first touched.
// Freed by munmap. Throws std::bad_alloc.
void* reserve(size_t bytes);

class Region {
 public:
  static constexpr size_t chunk_bytes = 4096;
  static constexpr size_t unit_bytes = 4;

  // Reserves address space for `bytes_max`; memory is taken from the system as it is first touched.
  explicit Region(size_t bytes_max);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // A chunk with unspecified content, or 0 when the bound is reached.
  Ref take_chunk();
  // The chunk may be taken again. The process keeps its memory: what was needed once will be again.
  void give_back_chunk(Ref chunk);

  // Accounts for memory that lies elsewhere. False: the bound is reached, nothing was accounted.
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
  std::vector<Ref> free_;       // chunks given back
  size_t fresh_ = chunk_bytes;  // first byte never handed out; the first chunk stays unused, so
                                // that 0 is not a place
};

}  // namespace sluice::store
