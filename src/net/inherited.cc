#include "net/inherited.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace sluice::net {
namespace {

constexpr int first_descriptor = 3;  // SD_LISTEN_FDS_START
constexpr int sockets_max = 256;

// Nothing is 0.
int number_of(const char* variable) {
  const char* const text = std::getenv(variable);
  int number = 0;
  if (text == nullptr) return 0;
  const std::string_view digits = text;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  return error == std::errc() && end == digits.end() ? number : 0;
}

bool has_option(int fd, int level, int option) {
  int on = 0;
  socklen_t size = sizeof on;
  return ::getsockopt(fd, level, option, &on, &size) == 0 && on != 0;
}

bool is_listening(int fd) {
  return has_option(fd, SOL_SOCKET, SO_ACCEPTCONN);
}

}  // namespace

base::Result<InheritedSockets> InheritedSockets::of_environment() {
  InheritedSockets inherited;
  const int process = number_of("LISTEN_PID"), count = number_of("LISTEN_FDS");
  for (const char* variable : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(variable);
  if (count <= 0) return inherited;
  if (process != static_cast<int>(::getpid())) {
    inherited.ignored_ = "LISTEN_FDS is for process " + std::to_string(process) +
                         " and not for this one, so its sockets are not used; start the program "
                         "itself, without a shell around it";
    return inherited;
  }
  if (count > sockets_max)
    return base::Problem{"the service manager passes " + std::to_string(count) +
                         " sockets, and at most " + std::to_string(sockets_max) + " can be used"};
  const auto wrong = [](int fd, const char* what, const char* remedy) {
    return base::Problem{"descriptor " + std::to_string(fd) +
                         ", of the LISTEN_FDS that the service manager passes, " + what + "; " +
                         remedy};
  };
  for (int fd = first_descriptor; fd < first_descriptor + count; ++fd) {
    const std::optional<SocketAddress> address = SocketAddress::local(fd);
    const int flags = ::fcntl(fd, F_GETFL);
    if (!is_listening(fd) || !address || flags < 0 || ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
        ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
      return wrong(fd, "is no TCP socket that listens",
                   "write ListenStream=ADDRESS:PORT in the socket unit");
    if (address->is_any_v6() && has_option(fd, IPPROTO_IPV6, IPV6_V6ONLY))
      return wrong(fd, "listens on [::] for IPv6 alone",
                   "write BindIPv6Only=both in the socket unit");
    inherited.all_.push_back({fd, *address});
  }
  return inherited;
}

InheritedSockets::~InheritedSockets() {
  for (const One& one : all_) ::close(one.fd);
}

int InheritedSockets::take(const SocketAddress& address) {
  const auto at = std::find_if(all_.begin(), all_.end(),
                               [&](const One& one) { return one.address == address; });
  if (at == all_.end()) return -1;
  const int fd = at->fd;
  all_.erase(at);
  return fd;
}

std::string InheritedSockets::left() const {
  std::string all;
  for (const One& one : all_) all.append(all.empty() ? "" : ", ").append(one.address.text());
  return all;
}

}  // namespace sluice::net
