// Addresses of sockets as values and as texts.
#include "net/socket_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>

namespace sluice::net {
namespace {

SocketAddress v4(const char* text, uint16_t port) {
  in_addr address{};
  EXPECT_EQ(::inet_pton(AF_INET, text, &address), 1);
  return SocketAddress::of(address, port);
}

SocketAddress v6(const char* text, uint16_t port) {
  in6_addr address{};
  EXPECT_EQ(::inet_pton(AF_INET6, text, &address), 1);
  return SocketAddress::of(address, port);
}

TEST(SocketAddress, IsWrittenForPeople) {
  EXPECT_EQ(v4("127.0.0.1", 8380).text(), "127.0.0.1:8380");
  EXPECT_EQ(v6("::1", 8380).text(), "[::1]:8380");
  EXPECT_EQ(v6("::", 0).text(), "[::]:0");
  EXPECT_EQ(v6("::ffff:10.0.0.7", 5).text(), "[::ffff:10.0.0.7]:5");
  sockaddr_in6 zoned{};
  zoned.sin6_family = AF_INET6;
  zoned.sin6_scope_id = 1;  // the loopback interface
  ASSERT_EQ(::inet_pton(AF_INET6, "fe80::1", &zoned.sin6_addr), 1);
  const auto address = SocketAddress::of(reinterpret_cast<const sockaddr*>(&zoned), sizeof zoned);
  ASSERT_TRUE(address);
  EXPECT_EQ(address->host(), "fe80::1%lo");
}

TEST(SocketAddress, IsUnmapped) {
  EXPECT_EQ(v6("::ffff:10.0.0.7", 5).unmapped(), v4("10.0.0.7", 5));
  EXPECT_EQ(v6("2001:db8::7", 5).unmapped(), v6("2001:db8::7", 5));
  EXPECT_EQ(v4("10.0.0.7", 5).unmapped(), v4("10.0.0.7", 5));
}

TEST(SocketAddress, IsComparedByAddressAndPort) {
  EXPECT_EQ(v4("10.0.0.7", 5), v4("10.0.0.7", 5));
  EXPECT_FALSE(v4("10.0.0.7", 5) == v4("10.0.0.8", 5));
  EXPECT_FALSE(v4("10.0.0.7", 5) == v4("10.0.0.7", 6));
  EXPECT_FALSE(v6("::1", 5) == v6("::2", 5));
  EXPECT_FALSE(v6("::ffff:10.0.0.7", 5) == v4("10.0.0.7", 5));
  SocketAddress moved = v6("::1", 5);
  moved.set_port(6);
  EXPECT_EQ(moved, v6("::1", 6));
}

TEST(SocketAddress, IsThatOfBothEndsOfASocket) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const SocketAddress any = v4("127.0.0.1", 0);
  ASSERT_EQ(::bind(listener, any.generic(), any.size()), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  const auto where = SocketAddress::local(listener);
  ASSERT_TRUE(where);
  EXPECT_EQ(where->host(), "127.0.0.1");
  EXPECT_NE(where->port(), 0);
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(client, where->generic(), where->size()), 0);
  EXPECT_EQ(SocketAddress::peer(client), where);
  EXPECT_EQ(SocketAddress::peer(listener), std::nullopt) << "it has none";
  for (const int fd : {client, listener}) ::close(fd);
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  EXPECT_EQ(SocketAddress::peer(pair[0]), std::nullopt) << "it is none of TCP";
  for (const int fd : pair) ::close(fd);
}

}  // namespace
}  // namespace sluice::net
