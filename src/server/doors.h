// Counts clients that the server refuses (too many connections), that wait in the kernel's queue
// while accepting pauses, and that it closes for a bound or a timeout. Reported in metrics, and in
// the log with a line in log_period at most. Owned by the server; `collect` on any thread, `tell`
// on one.
#pragma once

#include <spdlog/logger.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "engine/worker_stats.h"
#include "metrics/page.h"

namespace sluice::server {

class Doors final : public metrics::Source {
 public:
  static constexpr std::chrono::seconds log_period{10};
  using ClosedFor = std::array<uint64_t, engine::closed_count>;  // by Closed

  explicit Doors(std::shared_ptr<spdlog::logger> log) : log_(std::move(log)) {}

  // A connection beyond the bound was refused, or closed silently. Any thread.
  void turned_away() { turned_away_.fetch_add(1, std::memory_order_relaxed); }
  // Accepting has paused, as there is no free descriptor. Any thread.
  void paused() { pauses_.fetch_add(1, std::memory_order_relaxed); }

  // Connections that were refused or closed silently, since the start. Any thread.
  uint64_t count_turned_away() const { return turned_away_.load(std::memory_order_relaxed); }
  void collect(metrics::Page& page) const override;
  // Logs what is new since the last line, at most once in log_period; `all`: at once. `closed`:
  // counts since the start.
  void tell(const ClosedFor& closed, std::chrono::steady_clock::time_point now, bool all = false);

 private:
  const std::shared_ptr<spdlog::logger> log_;
  std::atomic<uint64_t> turned_away_{0}, pauses_{0};
  ClosedFor told_{};
  uint64_t told_turned_away_ = 0;
  std::chrono::steady_clock::time_point next_log_{};
};

}  // namespace sluice::server
