// Stands in front of the cluster buses of Redis nodes on loopback, one port for each node, so that
// a test can cut one node off from all others while clients still reach it. Which node opened a
// connection is in the first message that it sends. Accepts and forwards in threads of its own.
// Trouble of the harness is thrown.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sluice::tests {

class BusProxy {
 public:
  BusProxy() = default;
  ~BusProxy();
  BusProxy(const BusProxy&) = delete;
  BusProxy& operator=(const BusProxy&) = delete;

  // A port that forwards to that one.
  uint16_t add(uint16_t bus_port);
  // Ends every connection from and to the node, and refuses new ones, until `heal`. `number`: of
  // the order of `add`; `id`: as CLUSTER MYID says.
  void cut(size_t number, const std::string& id);
  void heal();

 private:
  struct Connection {
    size_t to;
    std::string from;
    int client, node;
    std::thread thread;
  };
  void accept_of(size_t number);
  void carry(Connection& connection);
  bool is_cut(size_t to, const std::string& from) const;

  std::mutex mutex_;  // guards all below but the threads that accept
  bool ends_ = false, cut_ = false;
  size_t cut_number_ = 0;
  std::string cut_id_;
  std::vector<int> listeners_;
  std::vector<uint16_t> ports_;
  std::list<Connection> connections_;
  std::vector<std::thread> acceptors_;
};

}  // namespace sluice::tests
