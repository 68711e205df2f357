#include "net/socket_address.h"

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace sluice::net {

namespace {

template <class Ask>
std::optional<SocketAddress> ask(int fd, Ask ask) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  auto* const generic = reinterpret_cast<sockaddr*>(&storage);
  if (ask(fd, generic, &size) != 0) return std::nullopt;
  return SocketAddress::of(generic, size);
}

// The zone of a link-local address by the name of its interface.
std::string zone_of(const sockaddr_in6& address) {
  if (address.sin6_scope_id == 0) return {};
  std::array<char, IF_NAMESIZE> name{};
  const bool is_link =
      IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr) || IN6_IS_ADDR_MC_LINKLOCAL(&address.sin6_addr);
  if (is_link && ::if_indextoname(address.sin6_scope_id, name.data()) != nullptr)
    return std::string("%") + name.data();
  return "%" + std::to_string(address.sin6_scope_id);
}

}  // namespace

SocketAddress SocketAddress::of(const in_addr& address, uint16_t port) {
  SocketAddress its;
  auto& v4 = reinterpret_cast<sockaddr_in&>(its.storage_);
  v4.sin_family = AF_INET;
  v4.sin_addr = address;
  v4.sin_port = htons(port);
  return its;
}

SocketAddress SocketAddress::of(const in6_addr& address, uint16_t port) {
  SocketAddress its;
  auto& v6 = reinterpret_cast<sockaddr_in6&>(its.storage_);
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = address;
  v6.sin6_port = htons(port);
  return its;
}

std::optional<SocketAddress> SocketAddress::of(const sockaddr* address, socklen_t size) {
  const bool is_v4 = size >= sizeof(sockaddr_in) && address->sa_family == AF_INET,
             is_v6 = size >= sizeof(sockaddr_in6) && address->sa_family == AF_INET6;
  if (!is_v4 && !is_v6) return std::nullopt;
  SocketAddress its;
  std::memcpy(&its.storage_, address, std::min<size_t>(size, sizeof its.storage_));
  return its;
}

std::optional<SocketAddress> SocketAddress::local(int fd) {
  return ask(fd, ::getsockname);
}

std::optional<SocketAddress> SocketAddress::peer(int fd) {
  return ask(fd, ::getpeername);
}

void SocketAddress::set_port(uint16_t port) {
  if (is_v6())
    reinterpret_cast<sockaddr_in6&>(storage_).sin6_port = htons(port);
  else
    reinterpret_cast<sockaddr_in&>(storage_).sin_port = htons(port);
}

SocketAddress SocketAddress::unmapped() const {
  if (!is_v6() || !IN6_IS_ADDR_V4MAPPED(&v6().sin6_addr)) return *this;
  in_addr inner{};
  std::memcpy(&inner, v6().sin6_addr.s6_addr + 12, sizeof inner);
  return of(inner, port());
}

std::string SocketAddress::host() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (!is_v6()) {
    ::inet_ntop(AF_INET, &v4().sin_addr, text.data(), text.size());
    return text.data();
  }
  ::inet_ntop(AF_INET6, &v6().sin6_addr, text.data(), text.size());
  return text.data() + zone_of(v6());
}

bool operator==(const SocketAddress& a, const SocketAddress& b) {
  if (a.is_v6() != b.is_v6() || a.port() != b.port()) return false;
  if (!a.is_v6()) return a.v4().sin_addr.s_addr == b.v4().sin_addr.s_addr;
  return IN6_ARE_ADDR_EQUAL(&a.v6().sin6_addr, &b.v6().sin6_addr) &&
         a.v6().sin6_scope_id == b.v6().sin6_scope_id;
}

}  // namespace sluice::net
