#include "tests/support/tcp_client.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <stdexcept>
#include <utility>

#include "tests/support/fail.h"

namespace sluice::tests {
namespace {

bool is_end(int problem) {
  return problem == EPIPE || problem == ECONNRESET;
}

}  // namespace

std::optional<TcpClient> TcpClient::connect(uint16_t port, const std::string& host,
                                            Deadline deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    throw std::runtime_error("cannot resolve " + host);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> keep(found, &::freeaddrinfo);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int fd = ::socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) fail("socket");
    TcpClient client(fd);
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int problem = ::connect(fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (problem == EINPROGRESS) {
      if (!client.await(POLLOUT, deadline)) throw std::runtime_error("connecting took too long");
      socklen_t size = sizeof problem;
      ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &size);
    }
    if (problem == 0) return client;
  }
  return std::nullopt;
}

TcpClient::TcpClient(TcpClient&& other) noexcept {
  *this = std::move(other);
}

TcpClient& TcpClient::operator=(TcpClient&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(in_, other.in_);
  std::swap(ended_, other.ended_);
  std::swap(reset_, other.reset_);
  return *this;
}

TcpClient::~TcpClient() {
  if (fd_ >= 0) ::close(fd_);
}

bool TcpClient::await(short events, Deadline deadline) const {
  pollfd watched{fd_, events, 0};
  while (true) {
    const int n = ::poll(&watched, 1, left_ms(deadline));
    if (n > 0) return true;
    if (n == 0) return false;
    if (errno != EINTR) fail("poll");
  }
}

bool TcpClient::send(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      if (!await(POLLOUT, deadline)) throw std::runtime_error("sending took too long");
    } else if (is_end(errno)) {
      return false;
    } else if (errno != EINTR) {
      fail("send");
    }
  }
  return true;
}

size_t TcpClient::send_some(std::string_view bytes) {
  const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return n < 0 ? 0 : static_cast<size_t>(n);
}

bool TcpClient::receive(Deadline deadline) {
  char bytes[65536];
  while (true) {
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n > 0) {
      in_.append(bytes, static_cast<size_t>(n));
      return true;
    }
    if (n == 0 || is_end(errno)) {
      ended_ = true;
      reset_ = n < 0;
      return true;
    }
    if (errno == EAGAIN) {
      if (!await(POLLIN, deadline)) return false;
    } else if (errno != EINTR) {
      fail("recv");
    }
  }
}

std::optional<std::string> TcpClient::read_line(Deadline deadline) {
  size_t searched = 0, end = 0;
  while ((end = in_.find('\n', searched)) == std::string::npos) {
    if (ended_) return std::nullopt;
    searched = in_.size();
    if (!receive(deadline)) throw std::runtime_error("no reply in time; so far: " + in_);
  }
  std::string line = in_.substr(0, end);
  in_.erase(0, end + 1);
  return line;
}

std::optional<std::string> TcpClient::read_bytes(size_t count, Deadline deadline) {
  while (in_.size() < count)
    if (ended_ || !receive(deadline)) return std::nullopt;
  std::string bytes = in_.substr(0, count);
  in_.erase(0, count);
  return bytes;
}

std::string TcpClient::read_to_end(Deadline deadline) {
  while (!ended_) {
    if (!receive(deadline))
      throw std::runtime_error("the connection did not end in time; so far: " +
                               in_.substr(0, 1000));
  }
  return std::exchange(in_, {});
}

std::optional<std::string> TcpClient::peek_line(Milliseconds pause) {
  const Deadline deadline = std::chrono::steady_clock::now() + pause;
  size_t end = 0;
  while ((end = in_.find('\n')) == std::string::npos) {
    if (ended_ || !receive(deadline)) return std::nullopt;
  }
  std::string line = in_.substr(0, end);
  in_.erase(0, end + 1);
  return line;
}

std::string TcpClient::ask(std::string_view line, Deadline deadline) {
  std::string bytes(line);
  bytes += '\n';
  if (!send(bytes, deadline)) return "(end)";
  return read_line(deadline).value_or("(end)");
}

void TcpClient::half_close() {
  ::shutdown(fd_, SHUT_WR);
}

void TcpClient::abort() {
  const linger at_once{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(std::exchange(fd_, -1));
}

void TcpClient::limit_receive_buffer(int bytes) {
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

}  // namespace sluice::tests
