// A listening socket of tests on a free loopback port. Owned by the test; `shut` wakes an accept
// of another thread.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "base/check.h"

namespace sluice::tests {

class LoopbackListener {
 public:
  LoopbackListener() {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    SLUICE_CHECK(::bind(fd_, generic, size) == 0);
    SLUICE_CHECK(::listen(fd_, 8) == 0);
    SLUICE_CHECK(::getsockname(fd_, generic, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~LoopbackListener() { ::close(fd_); }
  LoopbackListener(const LoopbackListener&) = delete;
  LoopbackListener& operator=(const LoopbackListener&) = delete;

  uint16_t port() const { return port_; }
  // The next connection; below 0 once it is shut.
  int accept() const { return ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC); }
  void shut() const { ::shutdown(fd_, SHUT_RDWR); }

 private:
  int fd_ = -1;
  uint16_t port_ = 0;
};

}  // namespace sluice::tests
