// What was changed while the server ran, and by whom: overrides, counters, the policy, the log's
// settings. Each change is a line of the log at `info`, and the last of them are kept for later
// requests. Owned by the server; any thread but a worker's.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "wire/json.h"

namespace sluice::live {

struct Change {
  // "override set", "override removed", "override expired", "overrides set", "counter set",
  // "counter reset", "policy reloaded", "reload refused", "log changed".
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

}  // namespace sluice::live
