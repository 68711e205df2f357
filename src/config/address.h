// Addresses as people write them: `[::]:8321`, `127.0.0.1:8321`, `localhost:8321`. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::config {

// Where the admin port is, and others look for a statsd, by default.
inline constexpr uint16_t admin_port = 8380, statsd_port = 8125;

struct Address {
  std::string host;
  uint16_t port = 0;
};

// HOST:PORT, with an IPv6 address in brackets. Without a port it is `port_default`, where there is
// one.
base::Result<Address> parse_address(std::string_view text, std::optional<uint16_t> port_default);

// As parse_address reads it back.
std::string format_address(std::string_view host, uint16_t port);

// Does only this machine reach it?
bool is_loopback(std::string_view host);

}  // namespace sluice::config
