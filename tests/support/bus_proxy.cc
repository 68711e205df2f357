#include "tests/support/bus_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

namespace sluice::tests {

namespace {

// In a message of the bus the sender's id of 40 bytes follows the first 40 bytes.
constexpr size_t id_at = 40, id_size = 40;

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool send_all(int to, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(to, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

}  // namespace

uint16_t BusProxy::add(uint16_t bus_port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof(address);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener, 64) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("the proxy of a bus cannot listen");
  const std::scoped_lock lock(mutex_);
  listeners_.push_back(listener);
  ports_.push_back(bus_port);
  acceptors_.emplace_back([this, number = ports_.size() - 1] { accept_of(number); });
  return ntohs(address.sin_port);
}

BusProxy::~BusProxy() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
    for (const int listener : listeners_) shutdown(listener, SHUT_RDWR);
  }
  for (std::thread& acceptor : acceptors_) acceptor.join();
  for (Connection& connection : connections_) {
    shutdown(connection.client, SHUT_RDWR);
    shutdown(connection.node, SHUT_RDWR);
    connection.thread.join();
    close(connection.client);
    close(connection.node);
  }
  for (const int listener : listeners_) close(listener);
}

bool BusProxy::is_cut(size_t to, const std::string& from) const {
  return cut_ && (to == cut_number_ || from == cut_id_);
}

void BusProxy::cut(size_t number, const std::string& id) {
  const std::scoped_lock lock(mutex_);
  cut_ = true;
  cut_number_ = number;
  cut_id_ = id;
  for (Connection& connection : connections_) {
    if (!is_cut(connection.to, connection.from)) continue;
    shutdown(connection.client, SHUT_RDWR);
    shutdown(connection.node, SHUT_RDWR);
  }
}

void BusProxy::heal() {
  const std::scoped_lock lock(mutex_);
  cut_ = false;
}

void BusProxy::accept_of(size_t number) {
  int listener = 0;
  uint16_t port = 0;
  {
    const std::scoped_lock lock(mutex_);
    listener = listeners_[number];
    port = ports_[number];
  }
  for (;;) {
    const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    const std::scoped_lock lock(mutex_);
    if (client < 0 && ends_) return;
    if (client < 0) continue;
    const int node = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(port);
    if (ends_ || is_cut(number, "") ||
        connect(node, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      close(client);
      close(node);
      continue;
    }
    Connection& made = connections_.emplace_back(Connection{number, "", client, node, {}});
    made.thread = std::thread([this, &made] { carry(made); });
  }
}

void BusProxy::carry(Connection& connection) {
  std::array<char, 65'536> bytes{};
  std::string first;
  bool goes_on = true;
  while (goes_on) {
    std::array<pollfd, 2> both{pollfd{connection.client, POLLIN, 0},
                               pollfd{connection.node, POLLIN, 0}};
    if (poll(both.data(), both.size(), -1) < 0) continue;
    for (size_t i = 0; i < 2 && goes_on; ++i) {
      if (both[i].revents == 0) continue;
      const ssize_t got = recv(both[i].fd, bytes.data(), bytes.size(), 0);
      const int to = i == 0 ? connection.node : connection.client;
      goes_on = got > 0;
      // The first bytes are held back until they contain the sender's id.
      if (goes_on && i == 0 && first.size() < id_at + id_size) {
        first.append(bytes.data(), static_cast<size_t>(got));
        if (first.size() < id_at + id_size) continue;
        const std::scoped_lock lock(mutex_);
        connection.from = first.substr(id_at, id_size);
        goes_on =
            !is_cut(connection.to, connection.from) && send_all(to, first.data(), first.size());
      } else if (goes_on) {
        goes_on = send_all(to, bytes.data(), static_cast<size_t>(got));
      }
    }
  }
  shutdown(connection.client, SHUT_RDWR);
  shutdown(connection.node, SHUT_RDWR);
}

}  // namespace sluice::tests
