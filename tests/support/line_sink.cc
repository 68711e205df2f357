#include "tests/support/line_sink.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

namespace sluice::tests {

LineSink::LineSink(Kind kind, uint16_t port) : kind_(kind) {
  const int type = kind == Kind::udp ? SOCK_DGRAM : SOCK_STREAM;
  fd_ = ::socket(AF_INET, type | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (kind == Kind::tcp) ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (fd_ < 0 || ::bind(fd_, any, size) != 0 || (kind == Kind::tcp && ::listen(fd_, 8) != 0) ||
      ::getsockname(fd_, any, &size) != 0)
    throw std::runtime_error("no socket for a statsd");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { collect(); });
}

LineSink::~LineSink() {
  stopping_ = true;
  thread_.join();
  ::close(fd_);
}

void LineSink::collect() {
  int peer = -1;
  std::vector<char> bytes(1 << 16);
  while (!stopping_) {
    pollfd watched{peer >= 0 ? peer : fd_, POLLIN, 0};
    if (::poll(&watched, 1, 20) <= 0) continue;
    if (kind_ == Kind::tcp && peer < 0) {
      peer = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
      const std::lock_guard lock(mutex_);
      pieces_.emplace_back();
      continue;
    }
    const ssize_t n = ::recv(watched.fd, bytes.data(), bytes.size(), 0);
    const std::lock_guard lock(mutex_);
    if (kind_ == Kind::udp) {
      if (n >= 0) pieces_.emplace_back(bytes.data(), static_cast<size_t>(n));
    } else if (n > 0) {
      pieces_.back().append(bytes.data(), static_cast<size_t>(n));
    } else {
      ::close(peer);
      peer = -1;
    }
    came_.notify_all();
  }
  if (peer >= 0) ::close(peer);
}

bool LineSink::await(const std::string& text, Deadline deadline) {
  std::unique_lock lock(mutex_);
  return came_.wait_until(lock, deadline, [&] {
    for (const auto& piece : pieces_)
      if (piece.find(text) != piece.npos) return true;
    return false;
  });
}

std::vector<std::string> LineSink::pieces() const {
  const std::lock_guard lock(mutex_);
  return pieces_;
}

std::string LineSink::all() const {
  std::string text;
  for (const auto& piece : pieces()) text += piece;
  return text;
}

}  // namespace sluice::tests
