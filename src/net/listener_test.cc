// Listeners over real sockets: options of accepted sockets, floods of connections, names.
#include "net/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/sinks/null_sink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <set>

#include "base/bounds.h"
#include "tests/support/comes.h"

namespace sluice::net {
namespace {

std::shared_ptr<spdlog::logger> silent() {
  return std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
}

// Closing it sends a reset, so that no port stays in TIME_WAIT.
int connect_to(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  const linger now{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  return fd;
}

// The options of an accepted socket: small writes are sent at once, a dead peer is noticed, calls
// do not block, and child processes do not inherit it.
TEST(Listener, SetsTheOptionsOfAcceptedSockets) {
  EventLoop loop;
  int taken = -1;
  Listener listener(
      loop, {"127.0.0.1", 0, {.send = base::seconds(7)}}, [&](int fd) { taken = fd; }, silent());
  ASSERT_EQ(listener.bind(), std::nullopt);
  const int client = connect_to(listener.port());
  ASSERT_TRUE(tests::comes([&] {
    loop.run_ready();
    return taken >= 0;
  }));
  const auto option = [&](int level, int name) {
    int value = 0;
    socklen_t size = sizeof value;
    EXPECT_EQ(getsockopt(taken, level, name, &value, &size), 0);
    return value;
  };
  EXPECT_NE(option(IPPROTO_TCP, TCP_NODELAY), 0);
  EXPECT_NE(option(SOL_SOCKET, SO_KEEPALIVE), 0);
  // What a client does not take is bounded in the kernel's bytes and in time. Linux doubles the
  // sizes that it is asked for.
  EXPECT_LE(option(SOL_SOCKET, SO_SNDBUF), 2 * static_cast<int>(base::bounds::socket_send_bytes));
  EXPECT_LE(option(SOL_SOCKET, SO_RCVBUF),
            2 * static_cast<int>(base::bounds::socket_receive_bytes));
  EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 7'000);
  EXPECT_NE(fcntl(taken, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(fcntl(taken, F_GETFD) & FD_CLOEXEC, 0);
  ::close(client);
  ::close(taken);
}

// A listener whose every accepted connection is followed by a new one.
class Flood {
 public:
  Flood()
      : listener_(
            loop_, {"127.0.0.1", 0}, [this](int fd) { take(fd); }, silent()) {
    EXPECT_EQ(listener_.bind(), std::nullopt);
    client_ = connect_to(listener_.port());
  }
  ~Flood() { ::close(client_); }

  EventLoop& loop() { return loop_; }
  Listener& listener() { return listener_; }
  int taken() const { return taken_; }

 private:
  void take(int fd) {
    if (++taken_ < 3 * Listener::queue_max) {
      ::close(client_);
      client_ = connect_to(listener_.port());
    }
    ::close(fd);
  }

  EventLoop loop_;
  Listener listener_;
  int client_ = -1;
  int taken_ = 0;
};

TEST(Listener, YieldsDuringAFloodOfConnections) {
  Flood flood;
  flood.loop().run_ready();
  EXPECT_GE(flood.taken(), Listener::queue_max);
  EXPECT_LE(flood.taken(), Listener::queue_max + 1);
  EXPECT_TRUE(tests::comes([&] {
    flood.loop().run_ready();
    return flood.taken() >= 2 * Listener::queue_max;
  })) << "it does not go on";
}

TEST(Listener, StopsInAFlood) {
  Flood flood;
  flood.listener().stop();
  EXPECT_LE(flood.taken(), Listener::queue_max + 1);
}

TEST(Listener, ResolvesANameToAllItsAddresses) {
  std::vector<Endpoint> all;
  ASSERT_EQ(Listener::resolve({"localhost", 0}, all), std::nullopt);
  ASSERT_FALSE(all.empty());
  std::set<std::string> hosts;
  for (const auto& options : all) {
    EXPECT_TRUE(hosts.insert(options.host).second) << options.host << " twice";
    EventLoop loop;
    Listener listener(
        loop, options, [](int fd) { ::close(fd); }, silent());
    EXPECT_EQ(listener.bind(), std::nullopt);
  }
  EXPECT_TRUE(hosts.count("127.0.0.1") + hosts.count("::1") > 0);
}

TEST(Listener, DoesNotResolveNumericAddresses) {
  std::vector<Endpoint> all;
  for (const char* host : {"::", "0.0.0.0", "127.0.0.1", "::1", "192.0.2.1"})
    ASSERT_EQ(Listener::resolve({host, 8321}, all), std::nullopt) << host;
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].host, "::");
  EXPECT_EQ(all[4].host, "192.0.2.1");
  EXPECT_EQ(all[4].port, 8321);
  const auto wrong = Listener::resolve({"no.such.host.invalid", 1}, all);
  ASSERT_TRUE(wrong);
  EXPECT_NE(wrong->find("cannot resolve \"no.such.host.invalid\""), std::string::npos) << *wrong;
}

}  // namespace
}  // namespace sluice::net
