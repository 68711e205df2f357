// The process's log: made by main; each of its modules is handed down as
// std::shared_ptr<spdlog::logger>, never looked up, and has a level of its own, which may be
// changed while it runs. Any thread may log; a line is formatted by the caller, queued, and written
// to standard error by one thread of its own, so that a slow terminal or pipe never holds up a
// worker. The queue is bounded, and so is each line: past the one the oldest lines are dropped,
// counted and told; past the other a line is cut.
#pragma once

#include <spdlog/details/log_msg.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/sink.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"

namespace sluice::log {

// The names of levels, from the most to the least talkative.
const std::vector<std::string_view>& log_level_names();  // trace debug info warn error off

// The level of a name; nothing for any other word.
std::optional<spdlog::level::level_enum> log_level(std::string_view name);

// The word for a level, the nearest one for those that have none.
std::string_view name_of(spdlog::level::level_enum level);

// Who logs.
enum class LogModule : uint8_t {
  server,    // start, stop, listeners, signals
  requests,  // what was asked and what became of it, where that is needed
  policy,    // rules that are read, refused, live
  store,     // counters and the disk
  redis,     // its connections
  admin,     // the admin port, and what is asked of it
};
inline constexpr std::array<std::string_view, 6> log_module_names{"server", "requests", "policy",
                                                                  "store",  "redis",    "admin"};
inline std::string_view name_of(LogModule module) {
  return log_module_names[static_cast<size_t>(module)];
}
std::optional<LogModule> log_module(std::string_view name);

// text: a time, a level, and the message. json: an object a line, with the module as well.
enum class LogFormat : uint8_t { text, json };
inline constexpr std::array<std::string_view, 2> log_format_names{"text", "json"};

// What of it is written, and how.
struct LogSettings {
  spdlog::level::level_enum level = spdlog::level::info;
  std::map<LogModule, spdlog::level::level_enum> modules{};  // those with a level of their own
  LogFormat format = LogFormat::text;
  friend bool operator==(const LogSettings&, const LogSettings&) = default;
};

inline constexpr size_t line_bytes_max = 2048;  // of a line's text; the rest becomes "..."

class Log {
 public:
  static constexpr size_t queue_lines_default = 8192;
  static constexpr size_t line_bytes_max = log::line_bytes_max;

  // Writes to standard error, in colour only when that is a terminal.
  explicit Log(spdlog::level::level_enum level);
  // Writes to `sink`, for tests.
  Log(spdlog::level::level_enum level, spdlog::sink_ptr sink, size_t queue_lines);
  // Writes what is queued, then how many lines were dropped since that was last reported. Where no
  // process takes them it gives up after half a second and leaves the writer to the end of the
  // process. What is logged afterwards is lost.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  const std::shared_ptr<spdlog::logger>& logger(LogModule module = LogModule::server) const {
    return loggers_[static_cast<size_t>(module)];
  }

  // Any thread.
  LogSettings settings() const;
  void set(const LogSettings& settings);

  // Lines that were dropped so far because the queue was full. While it runs that is reported in
  // the log itself, at most every ten seconds.
  size_t dropped() const;

 private:
  class Queue;

  std::shared_ptr<Queue> queue_;
  std::array<std::shared_ptr<spdlog::logger>, log_module_names.size()> loggers_;
  mutable std::mutex mutex_;
  LogSettings settings_;  // guarded
  // Of the format; shared with the writing threads.
  const std::shared_ptr<std::atomic<LogFormat>> format_;
  std::thread writer_;
};

// Logs a line that programs read as well. As text it is `message` and then `rest`, cut as others
// are; as JSON it is `message`, and beside it a member `name`, a constant, with `fields`: the text
// of a JSON value of at most line_bytes_max bytes, or else null. The loggers are a Log's.
void log_fields(spdlog::logger& logger, spdlog::level::level_enum level, std::string_view message,
                std::string_view rest, const char* name, std::string_view fields);

// A line of the log as JSON: one object, well formed whatever bytes the message has:
// {"time":"2026-01-02T03:04:05.678901Z","level":"info","module":"server","message":"..."} and LF.
// A line of log_fields has one member more.
void append_json_line(std::string& out, const spdlog::details::log_msg& line);

// A log's place in a file: lines are appended, and after `reopen` the next one goes to whatever
// file has the name by then, as log rotation wants. Made by main and shared with the log, whose
// writer is the only thread that writes; `reopen` may be called from any.
class LogFile : public spdlog::sinks::sink {
 public:
  // A problem: the system's reason why it cannot be opened, without the path.
  static base::Result<std::shared_ptr<LogFile>> open(const std::string& path);
  ~LogFile() override;

  // One that cannot be opened again is reported in the old file, which goes on.
  void reopen() { reopen_ = true; }

  void log(const spdlog::details::log_msg& line) override;
  void flush() override {}
  void set_pattern(const std::string& pattern) override;
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override;

 private:
  LogFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  void open_again();
  void write(const spdlog::details::log_msg& line);

  const std::string path_;
  int fd_;
  std::atomic<bool> reopen_{false};
  std::unique_ptr<spdlog::formatter> formatter_;
};

}  // namespace sluice::log
