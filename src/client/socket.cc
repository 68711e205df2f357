#include "client/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

namespace sluice::client {
namespace {

// Waits for the socket. 0: it is ready; else an errno, ETIMEDOUT when the deadline passed first.
int await(const Socket& socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return ETIMEDOUT;
    pollfd wanted{socket.fd(), events, 0};
    const auto ms = std::min<std::chrono::milliseconds::rep>(left.count(), 60'000);
    const int ready = ::poll(&wanted, 1, static_cast<int>(ms));
    if (ready > 0) return 0;
    if (ready < 0 && errno != EINTR) return errno;
  }
}

int connect_to(const Socket& socket, const addrinfo& address, Clock::time_point deadline) {
  if (socket.fd() < 0) return errno;
  if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (const int problem = await(socket, POLLOUT, deadline)) return problem;
  int problem = 0;
  socklen_t size = sizeof problem;
  if (::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &problem, &size) != 0) return errno;
  return problem;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

std::string words_for(int problem) {
  return std::generic_category().message(problem);
}

int send_all(const Socket& socket, std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      if (const int problem = await(socket, POLLOUT, deadline)) return problem;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

bool connect(const std::string& host, uint16_t port, Clock::time_point deadline, Socket& socket,
             std::string& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  if (const int bad = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &found)) {
    error = "cannot find the host `" + host + "`: " + ::gai_strerror(bad);
    return false;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, &::freeaddrinfo);

  int last = ECONNREFUSED;
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    Socket next(::socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    last = connect_to(next, *a, deadline);
    if (last == 0) {
      socket = std::move(next);
      return true;
    }
    if (last == ETIMEDOUT) break;
  }
  error = "cannot connect to " + host + " port " + service + ": " +
          (last == ETIMEDOUT ? "no answer in time" : words_for(last));
  return false;
}

bool receive_some(const Socket& socket, Clock::time_point deadline, std::string& bytes,
                  std::string& error) {
  char chunk[4096];
  for (;;) {
    if (const int problem = await(socket, POLLIN, deadline)) {
      error = problem == ETIMEDOUT ? "no reply in time" : "no reply: " + words_for(problem);
      return false;
    }
    const ssize_t n = ::recv(socket.fd(), chunk, sizeof chunk, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n < 0) {
      error = "no reply: " + words_for(errno);
    } else if (n == 0) {
      error = "the server closed the connection without a reply";
    } else {
      bytes.append(chunk, static_cast<size_t>(n));
      return true;
    }
    return false;
  }
}

}  // namespace sluice::client
