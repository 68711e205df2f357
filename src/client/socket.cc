#include "client/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <system_error>
#include <vector>

#include "base/look_up.h"

namespace sluice::calls {
namespace {

std::string words_for(int problem) {
  return std::generic_category().message(problem);
}

}  // namespace

// Waits for the socket. 0: it is ready; else an errno, ETIMEDOUT when the time has passed first,
// ECANCELED when it was woken.
int Socket::await(short events, Clock::time_point until) const {
  pollfd wanted[] = {{stream_.fd(), events, 0}, {wake_, POLLIN, 0}};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) return ETIMEDOUT;
    const auto ms = std::min<std::chrono::milliseconds::rep>(left.count(), 60'000);
    const int ready = ::poll(wanted, std::size(wanted), static_cast<int>(ms));
    if (ready < 0 && errno != EINTR) return errno;
    if (ready > 0) return wanted[1].revents != 0 ? ECANCELED : 0;
  }
}

base::Result<net::Address> unix_address(const std::string& path) {
  net::Address address;
  auto& its = reinterpret_cast<sockaddr_un&>(address.storage);
  its.sun_family = AF_UNIX;
  if (path.size() >= sizeof its.sun_path)
    return base::Problem{"cannot connect to " + path + ": the path is too long for a socket"};
  path.copy(its.sun_path, path.size());
  address.size = sizeof its;
  return address;
}

base::Result<Socket> Socket::connect(const std::string& host, uint16_t port,
                                     std::chrono::milliseconds timeout, const With& with) {
  if (is_unix_path(host)) {
    const auto address = unix_address(host);
    if (!address) return address.problem();
    return connect(std::span(&*address, 1), host, timeout, with);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  if (const int bad = base::look_up(host, service, hints, &found))
    return base::Problem{"cannot find the host `" + host + "`: " + ::gai_strerror(bad)};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, &::freeaddrinfo);
  std::vector<net::Address> addresses;
  for (const addrinfo* a = all.get(); a != nullptr; a = a->ai_next) {
    net::Address& address = addresses.emplace_back();
    std::memcpy(&address.storage, a->ai_addr, a->ai_addrlen);
    address.size = a->ai_addrlen;
  }
  return connect(addresses, host + " port " + service, timeout, with);
}

base::Result<Socket> Socket::connect(std::span<const net::Address> addresses,
                                     const std::string& shown, std::chrono::milliseconds timeout,
                                     const With& with) {
  const auto try_address = [](const Socket& socket, const net::Address& address) {
    const int fd = socket.stream_.fd();
    if (fd < 0) return errno;
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0)
      return 0;
    if (errno != EINPROGRESS && errno != EINTR) return errno;
    if (const int bad = socket.await(POLLOUT)) return bad;
    int bad = 0;
    socklen_t size = sizeof bad;
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &bad, &size) != 0) return errno;
    return bad;
  };
  const auto deadline = Clock::now() + timeout;
  std::string problem = words_for(ECONNREFUSED);
  for (size_t i = 0; i < addresses.size(); ++i) {
    const net::Address& address = addresses[i];
    const int fd =
        ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      problem = words_for(errno);
      continue;
    }
    // One that does not answer leaves time for the others.
    const auto share = (deadline - Clock::now()) / static_cast<int>(addresses.size() - i);
    Socket socket(net::Stream::connecting(fd, with.tls, with.name), Clock::now() + share,
                  with.wake);
    const int failed = try_address(socket, address);
    base::Done done;
    if (failed == 0 && (done = socket.shake_hands())) {
      socket.deadline_ = deadline;
      return socket;
    }
    // A UNIX socket is connected at once or not at all, unless its queue is full.
    problem = failed == 0           ? done.problem().text
              : failed == ETIMEDOUT ? "no answer in time"
              : failed == EAGAIN    ? "too many others wait there"
                                    : words_for(failed);
    if (failed == ECANCELED) break;
  }
  return base::Problem{"cannot connect to " + shown + ": " + problem};
}

base::Done Socket::shake_hands() {
  while (stream_.shake_hands() < 0) {
    if (errno != EAGAIN) return base::Problem{stream_.problem(errno)};
    if (const int bad = await(stream_.write_wants_read() ? POLLIN : POLLOUT))
      return base::Problem{bad == ETIMEDOUT ? "no answer in time" : words_for(bad)};
  }
  return {};
}

void Socket::keep_alive() {
  constexpr int on = 1, seconds = 15, probes = 3;
  ::setsockopt(stream_.fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(stream_.fd(), IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  ::setsockopt(stream_.fd(), IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  ::setsockopt(stream_.fd(), IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
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
  std::string problem;
  switch (receive(to, deadline_, problem)) {
    case Got::bytes:
      return {};
    case Got::ended:
      return base::Problem{"the server closed the connection without a reply"};
    case Got::late:
      return base::Problem{"no reply in time"};
    case Got::woken:
    case Got::failed:
      break;
  }
  return base::Problem{"no reply: " + problem};
}

Socket::Got Socket::receive(std::string& to, Clock::time_point until, std::string& problem) {
  char chunk[16384];
  for (;;) {
    // Decrypted bytes make no socket readable.
    const short events = stream_.read_wants_write() ? POLLOUT : POLLIN;
    if (const int bad = stream_.has_pending() ? 0 : await(events, until)) {
      if (bad == ETIMEDOUT) return Got::late;
      problem = words_for(bad);
      return bad == ECANCELED ? Got::woken : Got::failed;
    }
    const ssize_t n = stream_.read(chunk, sizeof chunk);
    if (n > 0) {
      to.append(chunk, static_cast<size_t>(n));
      return Got::bytes;
    }
    if (n == 0) {
      ended_ = true;
      return Got::ended;
    }
    if (errno == EAGAIN) continue;
    problem = stream_.problem(errno);
    return Got::failed;
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
