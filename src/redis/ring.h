// A queue in an array that grows to the largest size it has had, so that under steady load it
// allocates nothing.
#pragma once

#include <cstddef>
#include <vector>

#include "base/check.h"

namespace sluice::redis {

// One thread.
template <class T>
class Ring {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) {
    SLUICE_CHECK(i < size_);
    return room_[(first_ + i) & (room_.size() - 1)];
  }
  void push(const T& element) {
    if (size_ == room_.size()) grow();
    room_[(first_ + size_++) & (room_.size() - 1)] = element;
  }
  T pop() {
    const T front = (*this)[0];
    first_ = (first_ + 1) & (room_.size() - 1);
    --size_;
    return front;
  }
  void clear() { size_ = 0; }

 private:
  void grow() {
    std::vector<T> larger(room_.empty() ? 64 : 2 * room_.size());
    for (size_t i = 0; i < size_; ++i) larger[i] = (*this)[i];
    room_.swap(larger);
    first_ = 0;
  }
  std::vector<T> room_;  // its size is a power of two, or 0
  size_t first_ = 0, size_ = 0;
};

}  // namespace sluice::redis
