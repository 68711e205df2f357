#include "disk/copy_place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "disk/layout.h"

namespace sluice::disk {

namespace {

namespace fs = std::filesystem;

// Says that what it lies in is a copy that is being made.
constexpr const char* marker = "/UNFINISHED";

fs::path folder_of(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  // Of "a/b/" as of "a/b".
  return absolute.has_filename() ? absolute.parent_path() : absolute.parent_path().parent_path();
}

bool lies_in(const fs::path& folder, const std::string& dir) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(folder, error), outer = fs::canonical(dir, error);
  if (error) return false;
  const fs::path from = inner.lexically_relative(outer);
  return !from.empty() && *from.begin() != "..";
}

bool is_there(const std::string& path) {
  struct stat unused;
  return ::lstat(path.c_str(), &unused) == 0;
}

// A copy that was not finished, or a folder with nothing in it.
bool may_be_removed(const std::string& path) {
  struct stat its;
  if (::lstat(path.c_str(), &its) != 0 || !S_ISDIR(its.st_mode)) return false;
  std::error_code error;
  return is_there(path + marker) || (fs::is_empty(path, error) && !error);
}

// Who may read it, and that it is on the medium. 0, or why not.
int settle(const fs::path& path, mode_t mode) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno;
  const int error = ::fchmod(fd, mode) == 0 && ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

}  // namespace

CopyPlace::~CopyPlace() {
  std::error_code ignored;
  if (made_) fs::remove_all(fresh_, ignored);
}

base::Done CopyPlace::make(const std::string& dir) {
  if (is_there(target_))
    return base::Problem{quoted(target_) + " is there already; name a directory that is not"};
  const fs::path folder = folder_of(target_);
  if (lies_in(folder, dir))
    return base::Problem{quoted(target_) + " lies in " + quoted(dir) +
                         ", of which it must be a copy; name a directory outside of it"};
  std::error_code error;
  fs::create_directories(folder, error);
  if (is_there(fresh_)) {
    if (!may_be_removed(fresh_))
      return base::Problem{quoted(fresh_) +
                           " is there already, and is not a copy that was left unfinished; move it "
                           "away, or name another directory"};
    fs::remove_all(fresh_, error);
  }
  const int fd =
      ::mkdir(fresh_.c_str(), 0700) != 0
          ? -1
          : ::open((fresh_ + marker).c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  made_ = fd >= 0;
  if (made_) ::close(fd);
  if (made_ && ::mkdir(store_of(fresh_).c_str(), 0700) == 0) return {};
  return base::Problem{with_errno(
      "the backup to " + quoted(target_) + " failed: " + quoted(fresh_) + " cannot be made",
      errno)};
}

base::Done CopyPlace::finish() {
  std::error_code error;
  int failed = 0;
  for (fs::recursive_directory_iterator at(fresh_, error), end; !error && failed == 0 && at != end;
       at.increment(error))
    failed = settle(at->path(), at->is_directory() ? 0700 : 0600);
  if (failed == 0 && error) failed = error.value();
  if (failed == 0 && ::unlink((fresh_ + marker).c_str()) != 0) failed = errno;
  if (failed == 0) failed = settle(fresh_, 0700);
  if (failed == 0 && ::rename(fresh_.c_str(), target_.c_str()) != 0) failed = errno;
  if (failed != 0) return base::Problem{with_errno(quoted(fresh_), failed)};
  made_ = false;
  // Else a power cut could take the name away again.
  return sync_directory(folder_of(target_).string());
}

}  // namespace sluice::disk
