// Listening sockets that a service manager made before this process, and holds across its restarts
// so that no client is turned away meanwhile: the variables LISTEN_PID and LISTEN_FDS of
// sd_listen_fds(3). Main thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "net/socket_address.h"

namespace sluice::net {

class InheritedSockets {
 public:
  // Those of this process; none, if the variables are not there or another process's. Takes the
  // variables out of the environment, so no other thread may run. A problem: a descriptor is not a
  // listening TCP socket, or one for IPv6 alone at an address that means both.
  static base::Result<InheritedSockets> of_environment();

  InheritedSockets() = default;
  InheritedSockets(InheritedSockets&&) = default;
  InheritedSockets& operator=(InheritedSockets&&) = delete;
  // Closes those that nobody took.
  ~InheritedSockets();

  // The socket that listens at the address, which the caller then owns; below 0: there is none.
  int take(const SocketAddress& address);
  // The addresses of those that nobody took, "[::]:8390, 127.0.0.1:8380"; empty: all were taken.
  std::string left() const;
  // Why sockets that were passed are not used; empty: none was passed to another process.
  const std::string& ignored() const { return ignored_; }

 private:
  struct One {
    int fd;
    SocketAddress address;
  };
  std::vector<One> all_;
  std::string ignored_;
};

}  // namespace sluice::net
