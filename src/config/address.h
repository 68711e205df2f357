// Addresses as people write them: `[::]:8321`, `127.0.0.1:8321`, `localhost:8321`. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::config {

// The default ports of the admin port, of health by itself, and of statsd.
inline constexpr uint16_t admin_port = 8380, health_port = 8381, statsd_port = 8125;

struct Address {
  std::string host;
  uint16_t port = 0;
};

// Reads HOST:PORT, with an IPv6 address in brackets. `port_default`: the port if none is given;
// empty: a port is required.
base::Result<Address> parse_address(std::string_view text, std::optional<uint16_t> port_default);

// The text that parse_address reads as this host and port.
std::string format_address(std::string_view host, uint16_t port);

// Can only this machine reach that host?
bool is_loopback(std::string_view host);

}  // namespace sluice::config
