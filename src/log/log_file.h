// A log's place in a file: lines are appended, and after `reopen` the next one goes to whatever
// file has the name by then, as log rotation wants. Made by main and shared with the log, whose
// writer is the only thread that writes; `reopen` may be called from any.
#pragma once

#include <spdlog/sinks/sink.h>

#include <atomic>
#include <memory>
#include <string>

#include "base/result.h"

namespace sluice::log {

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
