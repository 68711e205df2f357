#include "net/unix_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace sluice::net {
namespace {

constexpr int waiting_max = 16;

// False: the path is too long for a socket.
bool address_of(const std::string& path, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return false;
  path.copy(address.sun_path, path.size());
  return true;
}

const sockaddr* plain(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// Another file than a socket at the path must not be removed.
bool is_socket(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

}  // namespace

base::Result<std::unique_ptr<UnixListener>> UnixListener::open(const std::string& path) {
  const auto problem = [&](const std::string& why) {
    return base::Problem{"the socket `" + path + "` cannot be made: " + why};
  };
  sockaddr_un address;
  if (!address_of(path, address))
    return problem("its path is longer than " + std::to_string(sizeof address.sun_path - 1) +
                   " bytes");
  if (is_socket(path) && !is_listened_on(path)) ::unlink(path.c_str());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // The rights are set before the path exists, so no other user can connect at any time.
  if (fd >= 0 && ::fchmod(fd, 0600) == 0 && ::bind(fd, plain(address), sizeof address) == 0) {
    if (::chmod(path.c_str(), 0600) == 0 && ::listen(fd, waiting_max) == 0)
      return std::unique_ptr<UnixListener>(new UnixListener(path, fd));
    const int error = errno;
    ::unlink(path.c_str());
    errno = error;
  }
  const int error = errno;
  if (fd >= 0) ::close(fd);
  return problem(std::generic_category().message(error));
}

UnixListener::~UnixListener() {
  ::unlink(path_.c_str());
  ::close(fd_);
}

bool is_listened_on(const std::string& path) {
  sockaddr_un address;
  if (!address_of(path, address)) return false;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  // EAGAIN: the queue is full, so a process listens.
  const bool there = ::connect(fd, plain(address), sizeof address) == 0 || errno == EAGAIN;
  ::close(fd);
  return there;
}

}  // namespace sluice::net
