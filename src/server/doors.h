// What becomes of clients for want of room or of patience: those that are turned away, those that
// wait in the kernel's queue while accepting pauses, and those that are closed for a bound or a
// timeout. As metrics, and in the log: a line in a while, however many. Owned by the server;
// `collect` any thread, `tell` one.
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

  // There are as many connections as may be: one more was refused, or just closed. Any thread.
  void turned_away() { turned_away_.fetch_add(1, std::memory_order_relaxed); }
  // Clients wait for a descriptor. Any thread.
  void paused() { pauses_.fetch_add(1, std::memory_order_relaxed); }

  void collect(metrics::Page& page) const override;
  // Says what is new, not sooner than log_period after the last time; `all`: now. `closed`: since
  // the start.
  void tell(const ClosedFor& closed, std::chrono::steady_clock::time_point now, bool all = false);

 private:
  const std::shared_ptr<spdlog::logger> log_;
  std::atomic<uint64_t> turned_away_{0}, pauses_{0};
  ClosedFor told_{};
  uint64_t told_turned_away_ = 0;
  std::chrono::steady_clock::time_point next_log_{};
};

}  // namespace sluice::server
