#include "client/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

#include "base/look_up.h"

namespace sluice::calls {
namespace {

std::string words_for(int problem) {
  return std::generic_category().message(problem);
}

}  // namespace

// Waits for the socket. 0: it is ready; else an errno, ETIMEDOUT when the deadline passed first.
int Socket::await(short events) const {
  pollfd wanted{stream_.fd(), events, 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
    if (left.count() <= 0) return ETIMEDOUT;
    const auto ms = std::min<std::chrono::milliseconds::rep>(left.count(), 60'000);
    const int ready = ::poll(&wanted, 1, static_cast<int>(ms));
    if (ready < 0 && errno != EINTR) return errno;
    if (ready > 0) return 0;
  }
}

base::Result<Socket> Socket::connect(const std::string& host, uint16_t port,
                                     std::chrono::milliseconds timeout) {
  if (is_unix_path(host)) return connect_unix(host, timeout);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  if (const int bad = base::look_up(host, service, hints, &found))
    return base::Problem{"cannot find the host `" + host + "`: " + ::gai_strerror(bad)};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, &::freeaddrinfo);

  const auto try_address = [](const Socket& socket, const addrinfo& address) {
    if (!socket.stream_.is_open()) return errno;
    if (::connect(socket.stream_.fd(), address.ai_addr, address.ai_addrlen) == 0) return 0;
    if (errno != EINPROGRESS && errno != EINTR) return errno;
    if (const int bad = socket.await(POLLOUT)) return bad;
    int bad = 0;
    socklen_t size = sizeof bad;
    if (::getsockopt(socket.stream_.fd(), SOL_SOCKET, SO_ERROR, &bad, &size) != 0) return errno;
    return bad;
  };
  const auto deadline = Clock::now() + timeout;
  int last = ECONNREFUSED;
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    Socket socket(::socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), deadline);
    last = try_address(socket, *a);
    if (last == 0) return socket;
    if (last == ETIMEDOUT) break;
  }
  return base::Problem{"cannot connect to " + host + " port " + service + ": " +
                       (last == ETIMEDOUT ? "no answer in time" : words_for(last))};
}

// Such a socket is connected at once or not at all, unless its queue is full.
base::Result<Socket> Socket::connect_unix(const std::string& path,
                                          std::chrono::milliseconds timeout) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto failed = [&](const std::string& why) {
    return base::Problem{"cannot connect to " + path + ": " + why};
  };
  if (path.size() >= sizeof address.sun_path) return failed("the path is too long for a socket");
  path.copy(address.sun_path, path.size());
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
                Clock::now() + timeout);
  if (!socket.stream_.is_open() ||
      ::connect(socket.stream_.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
          0)
    return failed(errno == EAGAIN ? "too many others wait there" : words_for(errno));
  return socket;
}

bool Socket::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = stream_.write(bytes);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      const int problem = await(stream_.write_wants_read() ? POLLIN : POLLOUT);
      if (problem == ETIMEDOUT) return false;
      if (problem != 0) return true;
    } else {
      return true;
    }
  }
  return true;
}

base::Done Socket::receive(std::string& to) {
  char chunk[4096];
  for (;;) {
    // Decrypted bytes make no socket readable.
    const short events = stream_.read_wants_write() ? POLLOUT : POLLIN;
    if (const int bad = stream_.has_pending() ? 0 : await(events))
      return base::Problem{bad == ETIMEDOUT ? "no reply in time" : "no reply: " + words_for(bad)};
    const ssize_t n = stream_.read(chunk, sizeof chunk);
    if (n > 0) {
      to.append(chunk, static_cast<size_t>(n));
      return {};
    }
    if (n == 0) {
      ended_ = true;
      return base::Problem{"the server closed the connection without a reply"};
    }
    if (errno == EAGAIN) continue;
    return base::Problem{"no reply: " + stream_.problem(errno)};
  }
}

std::string Socket::peer() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST];
  if (::getpeername(stream_.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, nullptr,
                    0, NI_NUMERICHOST) != 0)
    return {};
  return host;
}

}  // namespace sluice::calls
