// The address of a TCP socket: one of IPv4 or IPv6, and a port. Values, and functions that ask the
// system about a socket; any thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::net {

// The place of a server as people write it: a hostname or an address, and a port. A plain value.
struct HostPort {
  std::string host;
  uint16_t port = 0;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// The text for people: "localhost:6379", "[::1]:6379".
inline std::string name_of(const HostPort& server) {
  const bool ipv6 = server.host.find(':') != std::string::npos;
  return (ipv6 ? "[" + server.host + "]" : server.host) + ":" + std::to_string(server.port);
}

class SocketAddress {
 public:
  static SocketAddress of(const in_addr& address, uint16_t port);
  static SocketAddress of(const in6_addr& address, uint16_t port);
  // Nothing: it is of another family.
  static std::optional<SocketAddress> of(const sockaddr* address, socklen_t size);
  // The address of this end of a socket, and of the other end. Nothing: the socket is not of IPv4
  // or IPv6, or is not connected.
  static std::optional<SocketAddress> local(int fd);
  static std::optional<SocketAddress> peer(int fd);

  bool is_v6() const { return generic()->sa_family == AF_INET6; }
  // Is it `::`?
  bool is_any_v6() const { return is_v6() && IN6_IS_ADDR_UNSPECIFIED(&v6().sin6_addr); }
  uint16_t port() const { return ntohs(is_v6() ? v6().sin6_port : v4().sin_port); }
  void set_port(uint16_t port);
  // An IPv4 address that is mapped into IPv6 as one of IPv4.
  SocketAddress unmapped() const;
  // "127.0.0.1", "::1", "fe80::1%eth0"
  std::string host() const;
  // "127.0.0.1:8380", "[::1]:8380"
  std::string text() const { return name_of({host(), port()}); }

  // As bind(2) and connect(2) want it.
  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return is_v6() ? sizeof(sockaddr_in6) : sizeof(sockaddr_in); }

  friend bool operator==(const SocketAddress& a, const SocketAddress& b);

 private:
  SocketAddress() = default;
  const sockaddr_in& v4() const { return reinterpret_cast<const sockaddr_in&>(storage_); }
  const sockaddr_in6& v6() const { return reinterpret_cast<const sockaddr_in6&>(storage_); }

  sockaddr_storage storage_{};
};

}  // namespace sluice::net
