// A list that only grows and never moves its elements. One thread at a time appends, and other
// threads read meanwhile without a lock: they may read the elements whose index they received from
// the appending thread, or that is below a size() they read. Elements live as long as the list. A
// thread that changes an element must make sure that no other thread reads it at that time.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <utility>

#include "base/check.h"

namespace sluice::request {

template <class T>
class StableList {
 public:
  StableList() = default;
  ~StableList() {
    for (auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
  }
  StableList(const StableList&) = delete;
  StableList& operator=(const StableList&) = delete;

  size_t size() const { return size_.load(std::memory_order_acquire); }
  const T& operator[](size_t i) const {
    SLUICE_CHECK(i < size());
    const Place place = place_of(i);
    return chunks_[place.chunk].load(std::memory_order_relaxed)[place.at];
  }

  T& operator[](size_t i) { return const_cast<T&>(std::as_const(*this)[i]); }

  const T& push_back(T element) {
    return append([&](T& its) { its = std::move(element); });
  }
  // Appends an element; `fill(element)` completes it before any reader can see it.
  template <class Fill>
  T& append(Fill&& fill) {
    const size_t i = size_.load(std::memory_order_relaxed);
    const Place place = place_of(i);
    auto& chunk = chunks_[place.chunk];
    if (place.at == 0) chunk.store(new T[first << place.chunk], std::memory_order_relaxed);
    T& its = chunk.load(std::memory_order_relaxed)[place.at];
    fill(its);
    size_.store(i + 1, std::memory_order_release);
    return its;
  }

 private:
  // Elements of the first chunk; each further chunk is twice as large as the one before.
  static constexpr size_t first = 16;
  struct Place {
    size_t chunk, at;
  };
  static Place place_of(size_t i) {
    const size_t chunk = static_cast<size_t>(std::bit_width(i / first + 1)) - 1;
    return {chunk, i - (first << chunk) + first};
  }

  std::array<std::atomic<T*>, 40> chunks_{};
  std::atomic<size_t> size_{0};
};

}  // namespace sluice::request
