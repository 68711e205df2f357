// A proxy for the cluster buses of Redis nodes on loopback, with one port for each node, so that a
// test can cut one node off from all others while clients still reach it. The first message on a
// connection says which node opened it. The proxy accepts and forwards on threads of its own.
// Failures of the harness are thrown.
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

  // Returns a port that forwards to `bus_port`.
  uint16_t add(uint16_t bus_port);
  // Ends every connection from and to a node, and refuses new ones, until `heal`. `number`: the
  // node's place in the order of `add`, from 0; `id`: its id by CLUSTER MYID.
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

  std::mutex mutex_;  // guards all members below except acceptors_
  bool ends_ = false, cut_ = false;
  size_t cut_number_ = 0;
  std::string cut_id_;
  std::vector<int> listeners_;
  std::vector<uint16_t> ports_;
  std::list<Connection> connections_;
  std::vector<std::thread> acceptors_;
};

}  // namespace sluice::tests
