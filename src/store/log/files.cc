#include "store/log/files.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/printable.h"

namespace sluice::disk {

int Files::open(const std::string& path, int flags) {
  return ::open(path.c_str(), flags | O_CLOEXEC, 0600);
}

void Files::close(int fd) {
  ::close(fd);
}

ssize_t Files::read(int fd, char* to, size_t bytes, uint64_t at) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::pread(fd, to + done, bytes - done, static_cast<off_t>(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && done == 0) return -1;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  return static_cast<ssize_t>(done);
}

int64_t Files::size(int fd) {
  return ::lseek(fd, 0, SEEK_END);
}

bool Files::write(int fd, std::span<const std::string_view> parts, uint64_t at) {
  constexpr size_t parts_max = 64;
  std::array<iovec, parts_max> all;
  size_t skip = 0;  // bytes of the first part that are written
  while (!parts.empty()) {
    size_t count = 0;
    for (; count < std::min(parts.size(), parts_max); ++count) {
      const std::string_view part = parts[count].substr(count == 0 ? skip : 0);
      all[count] = {const_cast<char*>(part.data()), part.size()};
    }
    ssize_t n = ::pwritev(fd, all.data(), static_cast<int>(count), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    at += static_cast<uint64_t>(n);
    auto left = static_cast<size_t>(n);
    while (!parts.empty() && left >= parts.front().size() - skip) {
      left -= parts.front().size() - skip;
      skip = 0;
      parts = parts.subspan(1);
    }
    skip += left;
  }
  return true;
}

bool Files::cut(int fd, uint64_t bytes) {
  return ::ftruncate(fd, static_cast<off_t>(bytes)) == 0;
}

void Files::reserve(int fd, uint64_t at, uint64_t bytes) {
  // Without it each write makes its own room.
  if (::fallocate(fd, 0, static_cast<off_t>(at), static_cast<off_t>(bytes)) != 0) return;
}

bool Files::sync(int fd) {
  return ::fdatasync(fd) == 0;
}

bool Files::sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool synced = ::fsync(fd) == 0;
  const int error = errno;
  ::close(fd);
  errno = error;
  return synced;
}

bool Files::rename(const std::string& from, const std::string& to) {
  return ::rename(from.c_str(), to.c_str()) == 0;
}

bool Files::remove(const std::string& path) {
  return ::unlink(path.c_str()) == 0;
}

Files& system_files() {
  static Files files;
  return files;
}

std::string quoted(const std::string& path) {
  return "`" + base::printable(path, 512) + "`";
}

std::string with_errno(const std::string& text, int error) {
  return text + ": " + std::strerror(error);
}

base::Result<std::string> read_whole(Files& files, const std::string& path, size_t most) {
  const int fd = files.open(path, O_RDONLY);
  if (fd < 0) return base::Problem{with_errno(quoted(path) + " cannot be read", errno)};
  std::string text(most, '\0');
  const ssize_t bytes = files.read(fd, text.data(), most, 0);
  const int error = errno;
  files.close(fd);
  if (bytes < 0) return base::Problem{with_errno(quoted(path) + " cannot be read", error)};
  text.resize(static_cast<size_t>(bytes));
  return text;
}

base::Done write_whole(Files& files, const std::string& folder, const std::string& name,
                       std::string_view text) {
  const std::string path = folder + "/" + name, fresh = path + ".new";
  const int fd = files.open(fresh, O_CREAT | O_TRUNC | O_WRONLY);
  bool done = fd >= 0 && files.write(fd, {&text, 1}, 0) && files.sync(fd);
  int error = errno;
  if (fd >= 0) files.close(fd);
  if (done) {
    done = files.rename(fresh, path) && files.sync_folder(folder);
    error = errno;
  }
  if (done) return {};
  return base::Problem{with_errno(quoted(path) + " cannot be written", error)};
}

}  // namespace sluice::disk
