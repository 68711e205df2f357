#include "config/address.h"

#include <arpa/inet.h>

#include "base/units.h"

namespace sluice::config {

std::optional<Address> parse_address(std::string_view text, std::optional<uint16_t> port_default,
                                     std::string& problem) {
  std::string_view host = text, rest;
  if (text.find("://") != std::string_view::npos) {
    problem = "an address is HOST:PORT alone, as in `localhost:8321`, not a URL";
    return std::nullopt;
  }
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) {
      problem = "the address has no `]`";
      return std::nullopt;
    }
    host = text.substr(1, close - 1);
    rest = text.substr(close + 1);
  } else if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    if (text.find(':', colon + 1) != std::string_view::npos) {
      problem = "an IPv6 address goes into brackets, as in `[::1]:8321`";
      return std::nullopt;
    }
    host = text.substr(0, colon);
    rest = text.substr(colon);
  }
  if (host.empty()) {
    problem =
        "the address has no host; write HOST:PORT, as in `localhost:8321`; `[::]` is every address "
        "of this machine";
    return std::nullopt;
  }
  if (host.find_first_not_of("0123456789") == std::string_view::npos) {
    // The resolver would take it for an IPv4 address that no user means.
    problem =
        "the address has no host; write HOST:PORT, as in `localhost:" + std::string(host) + "`";
    return std::nullopt;
  }
  if (rest.empty()) {
    if (port_default) return Address{std::string(host), *port_default};
    problem = "the address has no port; write HOST:PORT, as in `[::]:8321`";
    return std::nullopt;
  }
  const auto port = rest.front() == ':' ? base::parse_port(rest.substr(1)) : std::nullopt;
  if (!port) {
    problem =
        "behind the host comes `:` and a port from 0 to 65535, not `" + std::string(rest) + "`";
    return std::nullopt;
  }
  return Address{std::string(host), *port};
}

std::string format_address(std::string_view host, uint16_t port) {
  const bool ipv6 = host.find(':') != std::string_view::npos;
  return (ipv6 ? "[" + std::string(host) + "]" : std::string(host)) + ":" + std::to_string(port);
}

bool is_loopback(std::string_view host) {
  in_addr address;
  if (::inet_pton(AF_INET, std::string(host).c_str(), &address) == 1)
    return ntohl(address.s_addr) >> 24 == 127;
  return host == "localhost" || host == "::1";
}

}  // namespace sluice::config
