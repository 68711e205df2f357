// The addresses of the two ends of a connected socket, as texts for people.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::net {

// "127.0.0.1:50312", "[::1]:50312"; for an IPv4 client of an IPv6 socket its IPv4 address. Empty:
// the socket has no such address.
std::string peer_address(int fd);
// The port of this side; 0: the socket has none.
uint16_t local_port(int fd);

}  // namespace sluice::net
