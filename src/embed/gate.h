// Lets many threads read what is rarely changed: who reads enters and leaves, and never waits for
// another reader; who changes closes the gate, waits for those inside, and changes alone. Readers
// that come meanwhile wait for it, so it is closed for the exchange of a few pointers only. Each
// reader counts in the cell of its stack, which other threads seldom share.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>

namespace sluice::embed {

class Gate {
 public:
  static constexpr size_t cells = 64;

  // Inside as long as it lives. Must not be nested, nor closed from inside.
  class Inside {
   public:
    explicit Inside(Gate& gate) : gate_(gate), cell_(cell_of_thread()) { gate_.enter(cell_); }
    ~Inside() { gate_.cells_[cell_].inside.fetch_sub(1, std::memory_order_release); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

    size_t cell() const { return cell_; }

   private:
    Gate& gate_;
    const size_t cell_;
  };

  // No other thread is inside as long as it lives.
  class Closed {
   public:
    explicit Closed(Gate& gate) : gate_(gate), lock_(gate.mutex_) {
      gate_.closed_.store(true);
      for (Cell& cell : gate_.cells_)
        while (cell.inside.load() != 0) std::this_thread::yield();
    }
    ~Closed() { gate_.closed_.store(false); }
    Closed(const Closed&) = delete;
    Closed& operator=(const Closed&) = delete;

   private:
    Gate& gate_;
    const std::lock_guard<std::mutex> lock_;
  };

 private:
  struct alignas(64) Cell {
    std::atomic<uint32_t> inside{0};
  };

  // Stacks lie megabytes apart.
  static size_t cell_of_thread() {
    const auto stack = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) >> 16;
    return (stack * 0x9E3779B97F4A7C15u) >> 58;
  }
  static_assert(cells == size_t{1} << (64 - 58));

  void enter(size_t cell) {
    for (;;) {
      // Ordered with `closed_`: one of the two sees the other.
      cells_[cell].inside.fetch_add(1);
      if (!closed_.load()) [[likely]]
        return;
      cells_[cell].inside.fetch_sub(1);
      const std::lock_guard wait(mutex_);
    }
  }

  std::array<Cell, cells> cells_;
  alignas(64) std::atomic<bool> closed_{false};
  std::mutex mutex_;  // of who closes
};

}  // namespace sluice::embed
