// Where servers are that people name. Names are looked up on a thread of its own, for which no
// other thread waits: a name server may be silent for long. Any thread.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/host_port.h"

namespace sluice::net {

// An address of one of the servers.
struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  size_t node = 0;  // its place among the names
};

class Resolver {
 public:
  // The addresses of a node, at least one.
  using Lookup = std::function<base::Result<std::vector<Address>>(const HostPort& node)>;
  explicit Resolver(std::vector<HostPort> nodes, Lookup lookup = by_system);

  // Begins to look, unless it does. What nodes are called by number is not looked for again.
  void look();
  // Until all that was begun is found, or for so long.
  void await(std::chrono::milliseconds patience);
  // As found last, node by node; of one that is not found any more, where it was.
  std::vector<Address> addresses() const;
  // Of the last look, once; empty: none.
  std::string take_problem();

 private:
  struct State;
  static base::Result<std::vector<Address>> by_system(const HostPort& node);
  static void run(State& state);

  const std::shared_ptr<State> state_;  // the thread has it too
};

}  // namespace sluice::net
