// What was changed while the server ran, and by whom: overrides, counters, the policy, the log's
// settings. Each change is a line of the log at `info`, in JSON with fields, and the last of them
// are kept for later requests. Owned by the server; any thread but a worker's.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "wire/json.h"

namespace sluice::live {

struct Change {
  // "override set", "override removed", "override expired", "overrides set", "counter set",
  // "counter reset", "hold released", "hold renewed", "policy reloaded", "reload refused", "log changed".
  std::string what;
  std::string by;  // "admin token, 127.0.0.1:4711", "SIGHUP", "files", "another server", "its end"
  wire::Json about = wire::Json::object();       // what it is about: names and ids
  wire::Json before = nullptr, after = nullptr;  // null: there is nothing
  uint64_t number = 0;                           // from 1, one more for each; set by the log
  std::chrono::system_clock::time_point at{};    // set by the log
};

class ChangeLog {
 public:
  static constexpr size_t kept_max = 1000;
  // Of `about`, `before` and `after` each, as text; a longer one is kept and logged as
  // {"cut": its length}.
  static constexpr size_t text_bytes_max = 4096;
  // Of one request or one round that changes more, one line tells how many.
  static constexpr size_t together_max = 100;

  // log: null: nothing is logged.
  explicit ChangeLog(std::shared_ptr<spdlog::logger> log) : log_(std::move(log)) {}

  void add(Change change);

  struct Page {
    std::vector<Change> changes;  // by rising number
    uint64_t total = 0;           // since the start, kept or not; the last one's number
  };
  // Those behind number `after`, the first `max` of them; after: 0: the last `max`.
  Page page(uint64_t after, size_t max) const;

 private:
  const std::shared_ptr<spdlog::logger> log_;
  mutable std::mutex mutex_;
  std::deque<Change> changes_;
  uint64_t total_ = 0;
};

// What came of the last readings of the policy, for callers that start one and those that look
// later. Written by the reloader's thread, read by any.

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
