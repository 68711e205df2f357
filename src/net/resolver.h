// Resolves the names of servers on a thread of its own, so that no other thread waits for a name
// server that does not answer. Any thread.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/socket_address.h"

namespace sluice::net {

// An address of one of the servers.
struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  size_t node = 0;  // index of the server among the names
};

class Resolver {
 public:
  // Finds the addresses of a server, at least one.
  using Lookup = std::function<base::Result<std::vector<Address>>(const HostPort& node)>;
  explicit Resolver(std::vector<HostPort> nodes, Lookup lookup = by_system);

  // Begins a lookup, unless one is under way. Servers named by an address are not looked up again.
  void look();
  // Waits until the lookup has ended, at most for `patience`.
  void await(std::chrono::milliseconds patience);
  // The addresses of the last lookup, server by server; of a server whose lookup fails now, those
  // that were found before.
  std::vector<Address> addresses() const;
  // Returns the problem of the last lookup, once; empty: there was none.
  std::string take_problem();

 private:
  struct State;
  static base::Result<std::vector<Address>> by_system(const HostPort& node);
  static void run(State& state);

  const std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace sluice::net
