#include "disk/layout.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/printable.h"
#include "disk/owner.h"

namespace sluice::disk {

namespace {

namespace fs = std::filesystem;

// "sluice store 3, read by sluice 0.1.0 and later"
constexpr std::string_view format_words = "sluice store ", since_words = ", read by sluice ",
                           end_words = " and later\n";

bool exists(const std::string& path) {
  struct stat unused;
  return ::lstat(path.c_str(), &unused) == 0 || errno != ENOENT;
}

std::string logs_text(const LogsFile& logs) {
  return "logs " + std::to_string(logs.first) + " to " + std::to_string(logs.last) + "\n";
}

}  // namespace

std::string damaged(const std::string& dir, const std::string& what) {
  return "the store in " + quoted(dir) + " is damaged: " + what +
         "; look at it with `sluice store check DIR`, repair it with `sluice store repair DIR`, or "
         "start on a backup";
}

std::string store_of(const std::string& dir) {
  return dir + "/sluice";
}
std::string counters_of(const std::string& dir) {
  return store_of(dir) + "/counters";
}
std::string blocks_of(const std::string& dir) {
  return store_of(dir) + "/blocks";
}
std::string texts_of(const std::string& dir) {
  return store_of(dir) + "/texts";
}
std::string format_file_of(const std::string& dir) {
  return store_of(dir) + "/FORMAT";
}

std::string quoted(const std::string& path) {
  return "`" + base::printable(path, 512) + "`";
}

std::string with_errno(const std::string& text, int error) {
  return text + ": " + std::strerror(error);
}

Lock::~Lock() {
  if (fd_ >= 0) ::close(fd_);
}

base::Done Lock::take(const std::string& dir, bool make) {
  std::error_code error;
  if (make) fs::create_directories(dir, error);
  struct stat found;
  if (::stat(dir.c_str(), &found) != 0) {
    if (error)
      return base::Problem{"the directory " + quoted(dir) + " cannot be made: " + error.message()};
    return base::Problem{with_errno("the directory " + quoted(dir) + " cannot be used", errno)};
  }
  if (!S_ISDIR(found.st_mode)) {
    return base::Problem{quoted(dir) +
                         " is not a directory; name one, or a path where one can be made"};
  }
  const std::string path = dir + "/sluice.lock";
  fd_ = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (fd_ < 0) {
    return base::Problem{
        with_errno("the directory " + quoted(dir) + " cannot be written to", errno) +
        "; let this user write there, or name another"};
  }
  give_to_owner(dir, fd_);
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int why = errno;
    char text[16];
    const ssize_t bytes = ::pread(fd_, text, sizeof text, 0);
    if (bytes > 0) std::from_chars(text, text + bytes, holder_);
    ::close(fd_);
    fd_ = -1;
    if (why != EWOULDBLOCK)
      return base::Problem{with_errno(quoted(path) + " cannot be locked", why)};
    return base::Problem{"the store in " + quoted(dir) + " is in use by " +
                         (holder_ > 0 ? "process " + std::to_string(holder_) : "another process") +
                         "; stop that first, or name another directory"};
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  // The number is for people; without it the lock holds all the same.
  if (::ftruncate(fd_, 0) != 0 ||
      ::pwrite(fd_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return {};
  }
  return {};
}

Look look(const std::string& dir) {
  if (!exists(store_of(dir))) return {};
  const auto is_damaged = [](std::string text) {
    return Look{.condition = Condition::damaged, .problem = {std::move(text)}};
  };
  std::error_code error;
  if (!fs::is_directory(store_of(dir), error))
    return is_damaged(quoted(store_of(dir)) + " is not a directory; move it away");
  std::ifstream file(format_file_of(dir), std::ios::binary);
  if (!file) return is_damaged(damaged(dir, "its file FORMAT cannot be read"));
  std::ostringstream all;
  all << file.rdbuf();
  const std::string text = std::move(all).str().substr(0, 256);
  uint32_t format = 0;
  const char* const end = text.data() + text.size();
  if (!text.starts_with(format_words) ||
      std::from_chars(text.data() + format_words.size(), end, format).ec != std::errc() ||
      format == 0)
    return is_damaged(damaged(dir, "its file FORMAT does not say which format it has"));
  if (format < format_number)
    return {.condition = Condition::foreign,
            .problem = {"the store in " + quoted(dir) + " has format " + std::to_string(format) +
                        ", which no release has; this program reads format " +
                        std::to_string(format_number) + ": move " + quoted(store_of(dir)) +
                        " away to begin a new store, or name another directory"}};
  if (format > format_number) {
    const size_t at = text.find(since_words), stop = text.find(end_words);
    std::string reader = "a newer one";
    if (at != std::string::npos && stop != std::string::npos && stop > at)
      reader = "sluice " +
               base::printable(text.substr(at + since_words.size(), stop - at - since_words.size()),
                               32) +
               " or later";
    return {
        .condition = Condition::foreign,
        .problem = {"the store in " + quoted(dir) + " has format " + std::to_string(format) +
                    ", which " + reader + " reads; this program reads format " +
                    std::to_string(format_number) + ": use that version, or another directory"}};
  }
  for (const std::string& part : {counters_of(dir), blocks_of(dir), texts_of(dir)}) {
    if (!exists(part + "/CURRENT"))
      return is_damaged(damaged(dir, quoted(part + "/CURRENT") + " is missing"));
  }
  return {.condition = Condition::whole, .problem = {}};
}

base::Done sync_directory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int error = fd >= 0 && ::fsync(fd) == 0 ? 0 : errno;
  if (fd >= 0) ::close(fd);
  if (error != 0) return base::Problem{with_errno(quoted(path) + " cannot be synced", error)};
  return {};
}

namespace {

// All of it or what was there before, on the medium.
base::Done write_whole(const std::string& store, const std::string& name, const std::string& text) {
  const std::string path = store + "/" + name, fresh = path + ".new";
  const int fd = ::open(fresh.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  const bool done = fd >= 0 &&
                    ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                    ::fsync(fd) == 0 && ::rename(fresh.c_str(), path.c_str()) == 0;
  const int error = done ? 0 : errno;
  if (fd >= 0) ::close(fd);
  if (!done) return base::Problem{with_errno(quoted(path) + " cannot be written", error)};
  return sync_directory(store);
}

}  // namespace

base::Done write_format(const std::string& store) {
  return write_whole(store, "FORMAT",
                     std::string(format_words) + std::to_string(format_number) +
                         std::string(since_words) + std::string(format_since) +
                         std::string(end_words));
}

base::Done write_logs_file(const std::string& store, const std::string& name,
                           const LogsFile& logs) {
  return write_whole(store, name, logs_text(logs));
}

base::Result<LogsFile> read_logs_file(const std::string& store, const std::string& name) {
  if (!exists(store + "/" + name)) return LogsFile();
  std::ifstream file(store + "/" + name, std::ios::binary);
  char text[64];
  file.read(text, sizeof text);
  const std::string_view all(text, static_cast<size_t>(file.gcount()));
  unsigned first = 0, last = 0;
  if (std::sscanf(std::string(all).c_str(), "logs %u to %u", &first, &last) == 2 && first > 0 &&
      first <= last && logs_text({first, last}) == all)
    return LogsFile{first, last};
  return base::Problem{"its file " + name + " does not say which logs it has"};
}

// 64 bytes, so that no line is in two sectors.
std::string synced_line(uint64_t log, uint64_t bytes) {
  char line[65];
  std::snprintf(line, sizeof line, "log %020llu synced %020llu           \n",
                static_cast<unsigned long long>(log), static_cast<unsigned long long>(bytes));
  return line;
}

base::Result<SyncedLogs> read_synced_file(const std::string& store, const std::string& name) {
  SyncedLogs logs;
  if (!exists(store + "/" + name)) return logs;
  std::ifstream file(store + "/" + name, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    unsigned long long log = 0, bytes = 0;
    if (std::sscanf(line.c_str(), "log %llu synced %llu", &log, &bytes) == 2 &&
        synced_line(log, bytes) == line + "\n" && logs.emplace(log, bytes).second)
      continue;
    return base::Problem{"its file " + name + " does not say up to where its logs are synced"};
  }
  return logs;
}

base::Done write_synced_file(const std::string& store, const std::string& name,
                             const SyncedLogs& logs) {
  std::string text;
  for (const auto& [log, bytes] : logs) text += synced_line(log, bytes);
  return write_whole(store, name, text);
}

}  // namespace sluice::disk
