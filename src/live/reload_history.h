// What came of the last readings of the policy, for callers that start one and those that look
// later. Written by the reloader's thread, read by any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/diagnostic.h"

namespace sluice::live {

struct Reading {
  enum class Outcome : uint8_t { none, live, refused, unchanged };
  Outcome outcome = Outcome::none;
  uint64_t answered = 0;  // requests up to that number
  std::chrono::system_clock::time_point at{};
  uint64_t generation = 0, hash = 0;  // of what is live since, or still
  std::vector<std::string> files;     // that the live policy was read from
  base::Diagnostics diagnostics;      // the first of them
};

class ReloadHistory {
 public:
  void put(Reading reading) {
    const std::lock_guard lock(mutex_);
    if (reading.outcome == Reading::Outcome::refused) {
      ++refusals_;
      refused_ = reading;
    }
    if (reading.outcome == Reading::Outcome::live) live_ = reading;
    last_ = std::move(reading);
    changed_.notify_all();
  }
  // No thread reads any more.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  Reading last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }
  // The last one that was refused, or that went live.
  Reading last_refused() const {
    const std::lock_guard lock(mutex_);
    return refused_;
  }
  Reading last_live() const {
    const std::lock_guard lock(mutex_);
    return live_;
  }
  uint64_t refusals() const {
    const std::lock_guard lock(mutex_);
    return refusals_;
  }
  // The reading that answers a request; nothing: not by then, or never.
  std::optional<Reading> await(uint64_t request,
                               std::chrono::steady_clock::time_point deadline) const {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [&] { return closed_ || last_.answered >= request; });
    if (last_.answered < request) return std::nullopt;
    return last_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Reading last_, refused_, live_;
  uint64_t refusals_ = 0;
  bool closed_ = false;
};

}  // namespace sluice::live
