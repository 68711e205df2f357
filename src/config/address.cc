#include "config/address.h"

#include <arpa/inet.h>

#include "base/units.h"

namespace sluice::config {

base::Result<Address> parse_address(std::string_view text, std::optional<uint16_t> port_default) {
  std::string_view host = text, rest;
  if (text.find("://") != std::string_view::npos)
    return base::Problem{"an address is HOST:PORT alone, as in `localhost:8321`, not a URL"};
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return base::Problem{"the address has no `]`"};
    host = text.substr(1, close - 1);
    rest = text.substr(close + 1);
  } else if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    if (text.find(':', colon + 1) != std::string_view::npos)
      return base::Problem{"an IPv6 address goes into brackets, as in `[::1]:8321`"};
    host = text.substr(0, colon);
    rest = text.substr(colon);
  }
  if (host.empty())
    return base::Problem{
        "the address has no host; write HOST:PORT, as in `localhost:8321`; `[::]` is every address "
        "of this machine"};
  if (host.find_first_of(" \t\r\n") != std::string_view::npos)
    return base::Problem{"the host has a space in it; write HOST:PORT, as in `localhost:8321`"};
  if (host.find_first_not_of("0123456789") == std::string_view::npos) {
    // The resolver would read it as an IPv4 address that no user means.
    return base::Problem{
        "the address has no host; write HOST:PORT, as in `localhost:" + std::string(host) + "`"};
  }
  if (rest.empty()) {
    if (port_default) return Address{std::string(host), *port_default};
    return base::Problem{"the address has no port; write HOST:PORT, as in `[::]:8321`"};
  }
  const auto port = rest.front() == ':' ? base::parse_port(rest.substr(1)) : std::nullopt;
  if (!port)
    return base::Problem{"the host must be followed by `:` and a port from 0 to 65535, not `" +
                         std::string(rest) + "`"};
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
