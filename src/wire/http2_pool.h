// What the HTTP/2 sessions of one worker share: memory for streams, frames and texts, kept in free
// lists by size so that a settled worker does not allocate, and a bound on the bytes that all its
// sessions hold together. One thread; outlives its sessions.
//
// Blocks above the largest class, and free ones above `kept_bytes_max`, go back to the system.
// Under the address sanitizer none is kept, so that it sees the use of a freed one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::wire {

// Texts of requests and answers that one worker's HTTP/2 sessions hold. Past it: Http2Session's
// bound of a connection, as if that one were reached.
inline constexpr size_t http2_worker_bytes_max = size_t{64} << 20;

class Http2Pool {
 public:
  static constexpr size_t kept_bytes_max = size_t{4} << 20;

  explicit Http2Pool(size_t bytes_max = http2_worker_bytes_max) : bytes_max_(bytes_max) {}
  ~Http2Pool();
  Http2Pool(const Http2Pool&) = delete;
  Http2Pool& operator=(const Http2Pool&) = delete;

  // Null: the system has no memory. `bytes` are what may be used at least; aligned to 16.
  void* allocate(size_t bytes);
  // Null is nothing.
  void release(void* block);
  // As realloc; null leaves `block` as it is.
  void* reallocate(void* block, size_t bytes);
  // What may be used of it.
  static size_t capacity(const void* block);

  // Counts bytes as held; false, and not counted: the bound would be passed.
  bool hold(size_t bytes) {
    if (bytes > bytes_max_ - held_) return false;
    held_ += bytes;
    return true;
  }
  void give_back(size_t bytes) { held_ -= bytes; }
  size_t held_bytes() const { return held_; }

  // Blocks that are in use; taken from the system so far; bytes of free ones.
  size_t blocks() const { return blocks_; }
  uint64_t system_blocks() const { return system_blocks_; }
  size_t kept_bytes() const { return kept_; }

 private:
  struct Header;
  static constexpr size_t class_count = 11;

  static size_t class_of(size_t bytes);

  std::array<Header*, class_count> free_{};
  size_t kept_ = 0, blocks_ = 0;
  uint64_t system_blocks_ = 0;
  size_t held_ = 0;
  const size_t bytes_max_;
};

}  // namespace sluice::wire
