#include "log/log_file.h"

#include <fcntl.h>
#include <spdlog/pattern_formatter.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

namespace sluice::log {
namespace {

int open_to_append(const std::string& path) {
  constexpr mode_t mode = 0644;
  return ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, mode);
}

}  // namespace

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
