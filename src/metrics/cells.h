// Numbers that one thread adds to and any thread reads: a cell has one owner, so adding takes no
// lock and no locked instruction, and a scrape that reads meanwhile sees the number before or
// after. Owned by the counting thread (a worker's statistics); read by its collector.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sluice::metrics {

// Never wraps, as a counter that falls is one that began anew; a client chooses what it adds.
constexpr uint64_t bounded_sum(uint64_t a, uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

class Cell {
 public:
  // Owner's thread.
  void add(uint64_t n = 1) { value_.store(read() + n, std::memory_order_relaxed); }
  void add_bounded(uint64_t n) { value_.store(bounded_sum(read(), n), std::memory_order_relaxed); }
  void subtract(uint64_t n = 1) { value_.store(read() - n, std::memory_order_relaxed); }
  void set(uint64_t n) { value_.store(n, std::memory_order_relaxed); }

  uint64_t read() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// How often a value fell into each bucket, that is up to and with bounds[i] and above the bound
// before; the last one is what is above all bounds.
template <size_t size>
struct Distribution {
  std::array<uint64_t, size + 1> counts{};
  uint64_t sum = 0;

  uint64_t count() const {
    uint64_t all = 0;
    for (const uint64_t n : counts) all += n;
    return all;
  }
};

// A histogram with fixed buckets, rising; `bounds` outlives it.
template <size_t size>
class Histogram {
 public:
  explicit Histogram(const std::array<uint64_t, size>& bounds) : bounds_(bounds) {}

  // The bucket of a value.
  size_t bucket_of(uint64_t value) const {
    return static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) -
                               bounds_.begin());
  }
  // Owner's thread. `bucket` is bucket_of(value), which the caller may know already.
  void observe(uint64_t value, size_t bucket, uint64_t times) {
    counts_[bucket].add(times);
    if (value > 0) sum_.add(value * times);
  }
  void observe(uint64_t value, uint64_t times = 1) { observe(value, bucket_of(value), times); }

  void add_to(Distribution<size>& all) const {
    for (size_t i = 0; i < counts_.size(); ++i) all.counts[i] += counts_[i].read();
    all.sum += sum_.read();
  }

 private:
  const std::array<uint64_t, size>& bounds_;
  std::array<Cell, size + 1> counts_;
  Cell sum_;
};

}  // namespace sluice::metrics
