// Shared by the HTTP/2 sessions of one worker: memory for streams, frames and texts, and a bound on
// the bytes that all sessions hold together. Free blocks are kept in lists by size, so that after
// some time a worker does not allocate. One thread; outlives its sessions.
//
// Blocks above the largest size, and free blocks beyond `kept_bytes_max`, are returned to the
// system. With the address sanitizer no block is kept, so that it finds the use of freed ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bounds.h"

namespace sluice::wire {

// The most bytes of streams and of texts of requests and answers that the HTTP/2 sessions of a
// worker hold: what has not arrived whole, what clients do not take, and what is under way. The
// owner bounds the first two, so that they leave room for the last. Beyond it the same happens as
// beyond http2_connection_bytes_max.
inline constexpr size_t http2_worker_bytes_max = base::bounds::unfinished_bytes_max +
                                                 base::bounds::unsent_bytes_max +
                                                 base::bounds::http2_under_way_bytes_max;

class Http2Pool {
 public:
  static constexpr size_t kept_bytes_max = size_t{4} << 20;

  explicit Http2Pool(size_t bytes_max = http2_worker_bytes_max) : bytes_max_(bytes_max) {}
  ~Http2Pool();
  Http2Pool(const Http2Pool&) = delete;
  Http2Pool& operator=(const Http2Pool&) = delete;

  // A block of at least `bytes` bytes, aligned to 16. Null: the system has no memory.
  void* allocate(size_t bytes);
  // Null is ignored.
  void release(void* block);
  // As realloc. If the result is null, `block` is unchanged.
  void* reallocate(void* block, size_t bytes);
  // The bytes of the block that may be used.
  static size_t capacity(const void* block);

  // Counts `bytes` as held. False: they would exceed the bound, and are not counted.
  bool hold(size_t bytes) {
    if (bytes > bytes_max_ - held_) return false;
    held_ += bytes;
    return true;
  }
  void give_back(size_t bytes) { held_ -= bytes; }
  size_t held_bytes() const { return held_; }
  size_t bytes_max() const { return bytes_max_; }
  size_t free_bytes() const { return bytes_max_ - held_; }

  // Of blocks in use their number and bytes; the number of blocks that the system has given so far;
  // the bytes of free blocks.
  size_t blocks() const { return blocks_; }
  size_t used_bytes() const { return used_; }  // of blocks in use, with what is in front of each
  uint64_t system_blocks() const { return system_blocks_; }
  size_t kept_bytes() const { return kept_; }

 private:
  struct Header;
  static constexpr size_t class_count = 11;

  static size_t class_of(size_t bytes);

  std::array<Header*, class_count> free_{};
  size_t kept_ = 0, blocks_ = 0, used_ = 0;
  uint64_t system_blocks_ = 0;
  size_t held_ = 0;
  const size_t bytes_max_;
};

}  // namespace sluice::wire
