#include "net/socket_address.h"

#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>

#include "net/host_port.h"

namespace sluice::net {
namespace {

using TcpEndpoint = boost::asio::ip::tcp::endpoint;

template <class Ask>
bool read(int fd, TcpEndpoint& endpoint, Ask ask) {
  auto size = static_cast<socklen_t>(endpoint.capacity());
  if (ask(fd, endpoint.data(), &size) != 0 || size > endpoint.capacity()) return false;
  const int family = endpoint.data()->sa_family;
  if (family != AF_INET && family != AF_INET6) return false;
  endpoint.resize(size);
  return true;
}

}  // namespace

std::string peer_address(int fd) {
  TcpEndpoint endpoint;
  if (!read(fd, endpoint, ::getpeername)) return {};
  auto address = endpoint.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    address = boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6());
  return name_of(HostPort{address.to_string(), endpoint.port()});
}

uint16_t local_port(int fd) {
  TcpEndpoint endpoint;
  return read(fd, endpoint, ::getsockname) ? endpoint.port() : uint16_t{0};
}

}  // namespace sluice::net
