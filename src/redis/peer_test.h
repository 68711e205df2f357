// A peer for tests of connections: it sends what the test wants.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "net/resolver.h"

namespace sluice::redis {

// A port of this machine; a process listens there after listen().
class Peer {
 public:
  Peer() : listens_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    auto& in = reinterpret_cast<sockaddr_in&>(address.storage);
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.size = sizeof in;
    EXPECT_EQ(::bind(listens_, reinterpret_cast<sockaddr*>(&in), sizeof in), 0);
    EXPECT_EQ(::getsockname(listens_, reinterpret_cast<sockaddr*>(&in), &address.size), 0);
  }
  ~Peer() {
    hang_up();
    ::close(listens_);
  }
  void listen() const { EXPECT_EQ(::listen(listens_, 8), 0); }
  bool accept() {
    for (int i = 0; i < 2000; ++i) {
      fd_ = ::accept4(listens_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd_ >= 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  // Everything that has arrived, once it contains `awaited`, or after 2 s.
  std::string heard(const std::string& awaited = "") {
    std::string all;
    for (int i = 0; i < 2000; ++i) {
      char room[4096];
      const ssize_t got = ::recv(fd_, room, sizeof room, MSG_DONTWAIT);
      if (got > 0) all.append(room, static_cast<size_t>(got));
      if (got == 0 || (got < 0 && all.find(awaited) != std::string::npos)) break;
      if (got < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return all;
  }
  void say(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t done = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (done <= 0) return;  // the other side does not read
      text.remove_prefix(static_cast<size_t>(done));
    }
  }
  void hang_up() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  net::Address address;

 private:
  const int listens_;
  int fd_ = -1;
};

}  // namespace sluice::redis
