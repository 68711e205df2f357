// The process's logger: made by main, handed down as std::shared_ptr<spdlog::logger>, never looked
// up. Any thread may log; a line is formatted by the caller, queued, and written to standard error
// by one thread of its own, so that a slow terminal or pipe never holds up a worker. The queue is
// bounded: past it the oldest lines are dropped, and counted.
#pragma once

#include <spdlog/logger.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace spdlog::details {
class thread_pool;
}

namespace sluice::base {

// The names of levels, from the most to the least talkative.
const std::vector<std::string_view>& log_level_names();  // trace debug info warn error off

// The level of a name; nothing for any other word.
std::optional<spdlog::level::level_enum> log_level(std::string_view name);

class Log {
 public:
  static constexpr size_t queue_lines_default = 8192;

  // Writes to standard error, in colour only when that is a terminal.
  explicit Log(spdlog::level::level_enum level);
  // Writes to `sink`, for tests.
  Log(spdlog::level::level_enum level, spdlog::sink_ptr sink, size_t queue_lines);
  // Writes what is queued, then how many lines were dropped. The logger is not to be used
  // afterwards.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  const std::shared_ptr<spdlog::logger>& logger() const { return logger_; }

  // Lines that were dropped so far because the queue was full.
  size_t dropped() const;

 private:
  spdlog::sink_ptr sink_;
  std::shared_ptr<spdlog::details::thread_pool> writer_;
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace sluice::base
