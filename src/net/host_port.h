// The place of a server as people write it: a hostname or an address, and a port. A plain value.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::net {

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

}  // namespace sluice::net
