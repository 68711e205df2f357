#include "disk/owner.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "base/printable.h"
#include "disk/layout.h"

namespace sluice::disk {

namespace {

// False: there is nothing to give, or no owner to give it to.
bool owner_of(const std::string& dir, struct stat& owner) {
  return ::geteuid() == 0 && ::stat(dir.c_str(), &owner) == 0 && owner.st_uid != 0;
}

// By way of open folders, so that no other process can put a link in the way. 0, or why not.
int give(int folder, const char* name, const struct stat& owner) {
  struct stat its;
  if (::fstatat(folder, name, &its, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? 0 : errno;
  if (S_ISDIR(its.st_mode)) {
    const int fd = ::openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return errno;
    DIR* const all = ::fdopendir(fd);
    if (all == nullptr) {
      const int why = errno;
      ::close(fd);
      return why;
    }
    int error = 0;
    while (const dirent* const entry = ::readdir(all)) {
      const std::string_view its_name = entry->d_name;
      if (its_name == "." || its_name == "..") continue;
      if (const int why = give(fd, entry->d_name, owner)) error = why;
    }
    if (its.st_uid == 0 && ::fchown(fd, owner.st_uid, owner.st_gid) != 0) error = errno;
    ::closedir(all);
    return error;
  }
  if (its.st_uid != 0 || !S_ISREG(its.st_mode)) return 0;
  return ::fchownat(folder, name, owner.st_uid, owner.st_gid, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

}  // namespace

base::Done give_to_owner(const std::string& dir, const std::string& path) {
  struct stat owner;
  if (!owner_of(dir, owner)) return {};
  const int error = give(AT_FDCWD, path.c_str(), owner);
  if (error == 0) return {};
  return base::Problem{with_errno("`" + base::printable(path, 512) +
                                      "` cannot be given to the owner of `" +
                                      base::printable(dir, 512) + "`",
                                  error) +
                       "; it is root's: use `chown -R`"};
}

void give_to_owner(const std::string& dir, int fd) {
  struct stat owner, its;
  if (owner_of(dir, owner) && ::fstat(fd, &its) == 0 && its.st_uid == 0 &&
      ::fchown(fd, owner.st_uid, owner.st_gid) != 0) {
    return;
  }
}

}  // namespace sluice::disk
