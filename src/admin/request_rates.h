// How many requests a second the server answered lately, by protocol and outcome: /v1/status.
// Totals are added once a second by one thread; any thread reads. A few samples, whatever happens.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "engine/worker_stats.h"
#include "protocol/protocol.h"

namespace sluice::admin {

// Requests that were answered since the start, by RequestOutcome.
using RequestTotals = std::array<uint64_t, engine::request_outcome_count>;
// By the protocols' numbers.
using ProtocolTotals = std::array<RequestTotals, protocol::protocols_max>;

class RequestRates {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds period{1};
  // Rates are of the last `window`, or longer if no totals were added for a while, or since the
  // start if that is less.
  static constexpr std::chrono::seconds window{10};

  // `start`: when nothing had been answered.
  explicit RequestRates(Clock::time_point start = Clock::now()) { samples_[0].at = start; }

  // Ignored if it is less than `period` after the last one.
  void add(const ProtocolTotals& totals, Clock::time_point at);

  struct Rates {
    double over_seconds = 0;
    // In the order of ProtocolTotals.
    std::array<std::array<double, engine::request_outcome_count>, protocol::protocols_max>
        per_second{};
  };
  // `totals`: of `at`. A total below that of a sample counts as one that did not change.
  Rates rates(const ProtocolTotals& totals, Clock::time_point at) const;

 private:
  struct Sample {
    Clock::time_point at{};
    ProtocolTotals totals{};
  };
  // One for each period of the window, and one that is older.
  static constexpr size_t samples_max = window / period + 1;

  mutable std::mutex mutex_;
  std::array<Sample, samples_max> samples_{};  // a ring; guarded, as are the next two
  size_t first_ = 0, count_ = 1;
};

}  // namespace sluice::admin
