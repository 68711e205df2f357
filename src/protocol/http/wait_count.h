// Counts the requests of the server that wait for units. Any thread.
#pragma once

#include <atomic>
#include <cstddef>

namespace sluice::http {

class WaitCount {
 public:
  // Counts one more. False: `most` wait already, and it is not counted.
  bool begin(size_t most) {
    if (waiting_.fetch_add(1, std::memory_order_relaxed) < most) return true;
    end();
    return false;
  }
  void end() { waiting_.fetch_sub(1, std::memory_order_relaxed); }
  size_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

 private:
  std::atomic<size_t> waiting_{0};
};

}  // namespace sluice::http
