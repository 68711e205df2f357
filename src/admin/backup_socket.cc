#include "admin/backup_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/bounds.h"
#include "base/printable.h"

namespace sluice::admin {

namespace {

constexpr std::string_view verb = "backup ", done_word = "ok", error_word = "error ";
// A client that says nothing for so long is closed; it asks with its first bytes.
constexpr int silence_ms = 2'000;

// A path that is too long for an address is reached by the number of its directory, which needs
// /proc.
bool address_of(const std::string& dir, int& dir_fd, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  dir_fd = ::open(dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir_fd < 0) return false;
  std::string path = backup_socket_path(dir);
  if (path.size() >= sizeof address.sun_path)
    path = "/proc/self/fd/" + std::to_string(dir_fd) + "/sluice.sock";
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return true;
}

const sockaddr* plain(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// A line without its end, of base::bounds::backup_line_bytes_max bytes; nothing else before `end`.
bool read_line(int fd, int timeout_ms, int stop, std::string& line) {
  for (;;) {
    std::array<pollfd, 2> watched{{{fd, POLLIN, 0}, {stop, POLLIN, 0}}};
    const int ready = ::poll(watched.data(), stop < 0 ? 1 : 2, timeout_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 || watched[0].revents == 0) return false;
    std::array<char, 1024> bytes;
    const ssize_t count = ::read(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    line.append(bytes.data(), static_cast<size_t>(count));
    const size_t end = line.find('\n');
    if (end != std::string::npos) {
      line.resize(end);
      return true;
    }
    if (line.size() > base::bounds::backup_line_bytes_max) return false;
  }
}

bool send_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

}  // namespace

std::string backup_socket_path(const std::string& dir) {
  return dir + "/sluice.sock";
}

base::Result<std::unique_ptr<BackupSocket>> BackupSocket::open(const std::string& dir,
                                                               Backup backup) {
  const std::string path = backup_socket_path(dir);
  const auto failed = [&](int error) {
    return base::Problem{"`" + base::printable(path, 512) +
                         "` cannot be listened on: " + std::strerror(error)};
  };
  sockaddr_un address;
  int dir_fd = -1;
  if (!address_of(dir, dir_fd, address)) return failed(errno);
  ::unlink(path.c_str());
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // The socket is made with these rights, so no other user is let in meanwhile.
  bool done = listener >= 0 && ::fchmod(listener, 0600) == 0 &&
              ::bind(listener, plain(address), sizeof address) == 0 &&
              ::chmod(path.c_str(), 0600) == 0 && ::listen(listener, 4) == 0;
  int error = errno;
  ::close(dir_fd);
  const int wake = done ? ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
  if (done && wake < 0) {
    error = errno;
    done = false;
  }
  if (!done) {
    if (listener >= 0) ::close(listener);
    return failed(error);
  }
  return std::unique_ptr<BackupSocket>(new BackupSocket(path, listener, wake, std::move(backup)));
}

BackupSocket::BackupSocket(std::string path, int listener, int wake, Backup backup)
    : path_(std::move(path)),
      listener_(listener),
      wake_(wake),
      backup_(std::move(backup)),
      thread_([this] { run(); }) {}

BackupSocket::~BackupSocket() {
  const uint64_t one = 1;
  // An eventfd takes it unless it is full, and then it wakes as well.
  if (::write(wake_, &one, sizeof one) < 0) {
  }
  thread_.join();
  ::unlink(path_.c_str());
  ::close(listener_);
  ::close(wake_);
}

void BackupSocket::run() {
  for (;;) {
    std::array<pollfd, 2> watched{{{listener_, POLLIN, 0}, {wake_, POLLIN, 0}}};
    if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) return;
    if (watched[1].revents != 0) return;
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) {
      // Without descriptors it would be reported again and again.
      if (errno == EMFILE || errno == ENFILE) ::poll(&watched[1], 1, 100);
      continue;
    }
    serve(client);
    ::close(client);
  }
}

void BackupSocket::serve(int client) {
  std::string line;
  if (!read_line(client, silence_ms, wake_, line)) return;
  if (!line.starts_with(verb) || line.size() == verb.size()) {
    send_all(client, std::string(error_word) + "the only command here is `backup TARGET`\n");
    return;
  }
  const base::Done done = backup_(line.substr(verb.size()));
  if (done)
    send_all(client, std::string(done_word) + "\n");
  else
    send_all(client, std::string(error_word) + base::printable(done.problem().text, 1024) + "\n");
}

base::Result<BackupAnswer> ask_for_backup(const std::string& dir, const std::string& target) {
  sockaddr_un address;
  int dir_fd = -1;
  if (!address_of(dir, dir_fd, address)) return BackupAnswer::no_server;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected = fd >= 0 && ::connect(fd, plain(address), sizeof address) == 0;
  const int error = errno;
  ::close(dir_fd);
  base::Result<BackupAnswer> answer = BackupAnswer::done;
  const std::string server =
      "the server that has the store in `" + base::printable(dir, 512) + "` ";
  if (!connected) {
    if (error == ENOENT || error == ECONNREFUSED)
      answer = BackupAnswer::no_server;
    else
      answer = base::Problem{server + "cannot be reached: " + std::strerror(error)};
  } else if (target.find('\n') != std::string::npos ||
             verb.size() + target.size() > base::bounds::backup_line_bytes_max) {
    answer = base::Problem{"the name of the copy is too long, or has a line end in it"};
  } else {
    std::string line;
    if (!send_all(fd, std::string(verb) + target + "\n") || !read_line(fd, -1, -1, line))
      answer = base::Problem{server + "went away before it answered"};
    else if (line != done_word)
      answer = base::Problem{
          base::printable(line.starts_with(error_word) ? line.substr(error_word.size()) : line)};
  }
  if (fd >= 0) ::close(fd);
  return answer;
}

}  // namespace sluice::admin
