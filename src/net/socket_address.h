// The two ends of a connected socket, as people write them.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::net {

// "127.0.0.1:50312", "[::1]:50312"; of an IPv4 client on an IPv6 socket its IPv4 address. Empty
// where the socket has no such address.
std::string peer_address(int fd);
// 0: the socket has no port.
uint16_t local_port(int fd);

}  // namespace sluice::net
