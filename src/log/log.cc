#include "log/log.h"

#include <fcntl.h>
#include <spdlog/details/log_msg_buffer.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/details/os.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/json_writer.h"

namespace sluice::log {
namespace {

using std::chrono::steady_clock;

constexpr const char* line_pattern = "%Y-%m-%dT%H:%M:%S.%eZ %^%l%$ %v";
constexpr auto log_period = std::chrono::seconds(10);
constexpr auto end_limit = std::chrono::milliseconds(500);

// Past stdio, whose lock a thread that is stuck in a write would hold until the process wants to
// end.
class StandardError : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  StandardError()
      : coloured_(spdlog::details::os::in_terminal(stderr) &&
                  spdlog::details::os::is_color_terminal()) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& line) override {
    text_.clear();
    formatter_->format(line, text_);
    std::string_view text(text_.data(), text_.size());
    if (coloured_ && line.color_range_end > line.color_range_start) {
      write(text.substr(0, line.color_range_start));
      write(colour_of(line.level));
      write(text.substr(line.color_range_start, line.color_range_end - line.color_range_start));
      write("\033[m");
      text.remove_prefix(line.color_range_end);
    }
    write(text);
  }
  void flush_() override {}

 private:
  static std::string_view colour_of(spdlog::level::level_enum level) {
    switch (level) {
      case spdlog::level::err:
      case spdlog::level::critical:
        return "\033[31m";
      case spdlog::level::warn:
        return "\033[33m";
      case spdlog::level::info:
        return "\033[32m";
      default:
        return "\033[36m";
    }
  }

  static void write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
      if (n < 0 && errno != EINTR) return;  // there is nowhere to report it
      if (n > 0) text.remove_prefix(static_cast<size_t>(n));
    }
  }

  const bool coloured_;
  spdlog::memory_buf_t text_;
};

// What log_fields puts behind each other in one payload. Its parts' sizes are in the line's source,
// which nothing else here uses.
constexpr const char* fields_mark = "fields";
constexpr int size_bits = 12;
static_assert(line_bytes_max + 3 < 1u << size_bits);

struct Parts {
  std::string_view text;     // message and rest
  std::string_view message;  // of a line without fields, all of it
  std::string_view fields;   // empty: there are none
};

Parts parts_of(const spdlog::details::log_msg& line) {
  const std::string_view all(line.payload.data(), line.payload.size());
  if (line.source.funcname != fields_mark) return {all, all, {}};
  const auto sizes = static_cast<size_t>(line.source.line);
  const size_t text = sizes & ((1u << size_bits) - 1);
  return {all.substr(0, text), all.substr(0, sizes >> size_bits), all.substr(text)};
}

// A line as the format of the moment has it.
class LineForm final : public spdlog::formatter {
 public:
  explicit LineForm(std::shared_ptr<const std::atomic<LogFormat>> format)
      : format_(std::move(format)), text_(line_pattern, spdlog::pattern_time_type::utc) {}

  void format(const spdlog::details::log_msg& line, spdlog::memory_buf_t& out) override {
    if (*format_ == LogFormat::text) {
      spdlog::details::log_msg text = line;
      const std::string_view its = parts_of(line).text;
      text.payload = spdlog::string_view_t(its.data(), its.size());
      text_.format(text, out);
      line.color_range_start = text.color_range_start;
      line.color_range_end = text.color_range_end;
      return;
    }
    json_.clear();
    append_json_line(json_, line);
    out.append(json_.data(), json_.data() + json_.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineForm>(format_);
  }

 private:
  const std::shared_ptr<const std::atomic<LogFormat>> format_;
  spdlog::pattern_formatter text_;
  std::string json_;
};

// As much of the text as a line may have, whole characters of it.
std::string_view start_of(std::string_view text, size_t bytes) {
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

// RFC 3339, in UTC, to the microsecond.
void append_time(std::string& out, std::chrono::system_clock::time_point at) {
  using std::chrono::floor;
  const auto second = floor<std::chrono::seconds>(at);
  const auto us = floor<std::chrono::microseconds>(at - second).count();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(second);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  out.append(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S.", &parts));
  const std::string digits = std::to_string(us);
  out.append(6 - digits.size(), '0');
  out += digits;
  out += 'Z';
}

int open_to_append(const std::string& path) {
  constexpr mode_t mode = 0644;
  return ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, mode);
}

}  // namespace

const std::vector<std::string_view>& log_level_names() {
  static const std::vector<std::string_view> names{"trace", "debug", "info",
                                                   "warn",  "error", "off"};
  return names;
}

std::optional<spdlog::level::level_enum> log_level(std::string_view name) {
  using namespace spdlog::level;
  static constexpr level_enum levels[] = {trace, debug, info, warn, err, off};
  const auto& names = log_level_names();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return std::nullopt;
  return levels[at - names.begin()];
}

std::string_view name_of(spdlog::level::level_enum level) {
  if (level == spdlog::level::critical) level = spdlog::level::err;
  for (const std::string_view name : log_level_names())
    if (log_level(name) == level) return name;
  return "off";
}

std::optional<LogModule> log_module(std::string_view name) {
  const auto at = std::find(log_module_names.begin(), log_module_names.end(), name);
  if (at == log_module_names.end()) return std::nullopt;
  return static_cast<LogModule>(at - log_module_names.begin());
}

// What stands between those who log and the one who writes. It belongs to both, as a writer that
// is stuck outlives the Log. (spdlog's own queue joins its thread, whatever that takes, and keeps
// lines of any length.)
class Log::Queue : public spdlog::sinks::sink {
 public:
  Queue(spdlog::sink_ptr target, size_t lines_max)
      : target_(std::move(target)), lines_max_(lines_max) {}

  void log(const spdlog::details::log_msg& line) override {
    spdlog::details::log_msg cut = line;
    std::string text;
    if (cut.payload.size() > line_bytes_max && parts_of(line).fields.empty()) {
      text = start_of({cut.payload.data(), cut.payload.size()}, line_bytes_max);
      text += "...";
      cut.payload = text;
    }
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    lines_.emplace_back(cut);
    if (lines_.size() > lines_max_) {
      lines_.pop_front();
      ++dropped_;
    }
    changed_.notify_all();
  }
  void flush() override {}
  void set_pattern(const std::string& pattern) override { target_->set_pattern(pattern); }
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override {
    target_->set_formatter(std::move(formatter));
  }

  // The writer's thread.
  void write() {
    std::unique_lock lock(mutex_);
    while (!abandoned_) {
      const auto now = steady_clock::now();
      const bool untold = dropped_ > told_;
      if (untold && (now >= next_log_ || (ending_ && lines_.empty()))) {
        next_log_ = now + log_period;
        const size_t lost = dropped_ - std::exchange(told_, dropped_);
        lock.unlock();
        const std::string text = fmt::format(
            "{} log lines were dropped: they came faster than standard error took them", lost);
        target_->log(spdlog::details::log_msg("", spdlog::level::warn, text));
        lock.lock();
      } else if (!lines_.empty()) {
        const spdlog::details::log_msg_buffer line = std::move(lines_.front());
        lines_.pop_front();
        lock.unlock();
        target_->log(line);
        lock.lock();
      } else if (ending_) {
        break;
      } else if (untold) {
        changed_.wait_until(lock, next_log_);
      } else {
        changed_.wait(lock);
      }
    }
    ended_ = true;
    changed_.notify_all();
  }

  // False: the writer is stuck.
  bool end() {
    std::unique_lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
    if (changed_.wait_for(lock, end_limit, [&] { return ended_; })) return true;
    abandoned_ = true;
    return false;
  }

  size_t dropped() const {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }

 private:
  const spdlog::sink_ptr target_;
  const size_t lines_max_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded.
  std::deque<spdlog::details::log_msg_buffer> lines_;
  size_t dropped_ = 0, told_ = 0;
  steady_clock::time_point next_log_{};
  bool ending_ = false, ended_ = false, abandoned_ = false;
};

Log::Log(spdlog::level::level_enum level)
    : Log(level, std::make_shared<StandardError>(), queue_lines_default) {}

Log::Log(spdlog::level::level_enum level, spdlog::sink_ptr sink, size_t queue_lines)
    : queue_(std::make_shared<Queue>(std::move(sink), queue_lines)),
      format_(std::make_shared<std::atomic<LogFormat>>(LogFormat::text)) {
  for (size_t i = 0; i < loggers_.size(); ++i)
    loggers_[i] = std::make_shared<spdlog::logger>(std::string(log_module_names[i]), queue_);
  queue_->set_formatter(std::make_unique<LineForm>(format_));
  set({.level = level});
  writer_ = std::thread([queue = queue_] { queue->write(); });
}

Log::~Log() {
  if (queue_->end())
    writer_.join();
  else
    writer_.detach();
}

LogSettings Log::settings() const {
  const std::lock_guard lock(mutex_);
  return settings_;
}

void Log::set(const LogSettings& settings) {
  const std::lock_guard lock(mutex_);
  settings_ = settings;
  *format_ = settings.format;
  for (size_t i = 0; i < loggers_.size(); ++i) {
    const auto own = settings.modules.find(static_cast<LogModule>(i));
    loggers_[i]->set_level(own == settings.modules.end() ? settings.level : own->second);
  }
}

size_t Log::dropped() const {
  return queue_->dropped();
}

void log_fields(spdlog::logger& logger, spdlog::level::level_enum level, std::string_view message,
                std::string_view rest, const char* name, std::string_view fields) {
  if (!logger.should_log(level)) return;
  std::string payload(message);
  payload += rest;
  if (payload.size() > line_bytes_max) {
    payload.resize(start_of(payload, line_bytes_max).size());
    payload += "...";
  }
  const size_t text = payload.size();
  const size_t sizes = std::min(message.size(), text) << size_bits | text;
  payload += fields.size() > line_bytes_max ? "null" : fields;
  logger.log(spdlog::source_loc{name, static_cast<int>(sizes), fields_mark}, level,
             spdlog::string_view_t(payload.data(), payload.size()));
}

void append_json_line(std::string& out, const spdlog::details::log_msg& line) {
  out += "{\"time\":\"";
  append_time(out, line.time);
  out += "\",\"level\":\"";
  out += name_of(line.level);
  out += "\",\"module\":";
  // The log itself has no name.
  base::append_json_text(line.logger_name.size() == 0
                             ? std::string_view("log")
                             : std::string_view(line.logger_name.data(), line.logger_name.size()),
                         out);
  out += ",\"message\":";
  const Parts parts = parts_of(line);
  base::append_json_text(parts.message, out);
  if (!parts.fields.empty()) {
    out += ",\"";
    out += line.source.filename;
    out += "\":";
    out += parts.fields;
  }
  out += "}\n";
}

base::Result<std::shared_ptr<LogFile>> LogFile::open(const std::string& path) {
  const int fd = open_to_append(path);
  if (fd < 0) return base::Problem{std::generic_category().message(errno)};
  return std::shared_ptr<LogFile>(new LogFile(path, fd));
}

LogFile::~LogFile() {
  ::close(fd_);
}

void LogFile::log(const spdlog::details::log_msg& line) {
  if (reopen_.exchange(false)) open_again();
  write(line);
}

void LogFile::open_again() {
  const int fd = open_to_append(path_);
  if (fd >= 0) {
    ::close(fd_);
    fd_ = fd;
    return;
  }
  const std::string text = "the log file " + path_ + " cannot be opened again (" +
                           std::generic_category().message(errno) + "); the old one goes on";
  write(spdlog::details::log_msg("", spdlog::level::err, text));
}

void LogFile::write(const spdlog::details::log_msg& line) {
  spdlog::memory_buf_t text;
  formatter_->format(line, text);
  std::string_view left(text.data(), text.size());
  while (!left.empty()) {
    const ssize_t n = ::write(fd_, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // a full disk cannot be reported anywhere
    left.remove_prefix(static_cast<size_t>(n));
  }
}

void LogFile::set_pattern(const std::string& pattern) {
  formatter_ = std::make_unique<spdlog::pattern_formatter>(pattern);
}

void LogFile::set_formatter(std::unique_ptr<spdlog::formatter> formatter) {
  formatter_ = std::move(formatter);
}

}  // namespace sluice::log
