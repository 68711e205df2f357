// A bounded queue of small values between two threads, without a lock: one puts, the other takes. A
// value that finds no room is counted and gone. What was put is seen only after `publish`, and may
// be changed until then.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "metrics/cells.h"

namespace sluice::metrics {

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

  // The other thread: calls `take(value)` for all that is there.
  template <class Take>
  void drain(Take&& take) {
    uint64_t at = taken_.load(std::memory_order_relaxed);
    const uint64_t end = put_.load(std::memory_order_acquire);
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

}  // namespace sluice::metrics
