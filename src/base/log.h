// The process's logger: made by main, handed down as std::shared_ptr<spdlog::logger>, never looked
// up. Any thread may log; a line is formatted by the caller, queued, and written to standard error
// by one thread of its own, so that a slow terminal or pipe never holds up a worker. The queue is
// bounded, and so is each line: past the one the oldest lines are dropped, counted and told; past
// the other a line is cut.
#pragma once

#include <spdlog/logger.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

namespace sluice::base {

// The names of levels, from the most to the least talkative.
const std::vector<std::string_view>& log_level_names();  // trace debug info warn error off

// The level of a name; nothing for any other word.
std::optional<spdlog::level::level_enum> log_level(std::string_view name);

class Log {
 public:
  static constexpr size_t queue_lines_default = 8192;
  static constexpr size_t line_bytes_max = 2048;  // of its text; the rest becomes "..."

  // Writes to standard error, in colour only when that is a terminal.
  explicit Log(spdlog::level::level_enum level);
  // Writes to `sink`, for tests.
  Log(spdlog::level::level_enum level, spdlog::sink_ptr sink, size_t queue_lines);
  // Writes what is queued, then how many lines were dropped since that was last told. Where nobody
  // takes them it gives up after half a second and leaves the writer to the end of the process.
  // What is logged afterwards is lost.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  const std::shared_ptr<spdlog::logger>& logger() const { return logger_; }

  // Lines that were dropped so far because the queue was full. While it runs that is told in the
  // log itself, at most every ten seconds.
  size_t dropped() const;

 private:
  class Queue;

  std::shared_ptr<Queue> queue_;
  std::shared_ptr<spdlog::logger> logger_;
  std::thread writer_;
};

}  // namespace sluice::base
