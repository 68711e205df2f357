// A server is replaced while clients ask: its listening sockets are a service manager's, or it says
// for a while that it is not ready before it stops.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests::restart_test {
namespace {

using Json = nlohmann::json;

// As one that a service manager makes and holds.
class HeldSocket {
 public:
  explicit HeldSocket(int type = SOCK_STREAM) : fd_(::socket(AF_INET, type | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    if (type == SOCK_STREAM) {
      EXPECT_EQ(::listen(fd_, 4096), 0);
    }
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~HeldSocket() { ::close(fd_); }
  HeldSocket(const HeldSocket&) = delete;
  HeldSocket& operator=(const HeldSocket&) = delete;

  int fd() const { return fd_; }
  uint16_t port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  const int fd_;
  uint16_t port_ = 0;
};

constexpr const char* take =
    R"({"key": "k", "n": 1, "limits": [{"algorithm": "fixed_bucket", "quota": 1000000}]})";
constexpr const char* look =
    R"({"key": "k", "n": 0, "limits": [{"algorithm": "fixed_bucket", "quota": 1000000}]})";

std::string head(bool stays) {
  return "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
         std::string(stays ? "" : "Connection: close\r\n") +
         "Content-Length: " + std::to_string(std::strlen(take)) + "\r\n\r\n";
}

// In one piece, or as many clients do it, the body in a piece of its own. False: the server has
// closed the connection.
bool send_request(TcpClient& client, bool stays, bool in_pieces) {
  if (!in_pieces) return client.send(head(stays) + take);
  if (!client.send(head(stays))) return false;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return client.send(take);
}

// Reads one answer; "": the connection ended before its first byte.
std::string answer(TcpClient& client) {
  const auto first = client.read_line();
  if (!first) return "";
  size_t bytes = 0;
  while (const auto line = client.read_line()) {
    if (line == "\r") break;
    if (line->starts_with("Content-Length: ")) bytes = std::stoul(line->substr(16));
  }
  const auto body = client.read_bytes(bytes);
  return *first + body.value_or("(cut)");
}

struct Told {
  // `late`: this thread was kept from sending for so long that a stop had not to wait for it.
  std::atomic<uint64_t> answered{0}, lost{0}, renewed{0}, late{0};
  std::atomic<int64_t> longest_us{0};
};

// Asks until `done`. With `stays` on one connection, which is made again when the server closed it
// before it sent a byte of an answer, as clients of HTTP do.
void ask_until(const std::atomic<bool>& done, uint16_t port, bool stays, Told& told) {
  std::optional<TcpClient> client;
  for (uint64_t round = 0; !done; ++round) {
    bool is_late = false;
    const auto start = std::chrono::steady_clock::now();
    std::string got;
    for (int tries = 0; tries < (stays ? 2 : 1) && got.empty(); ++tries) {
      const bool is_fresh = !client;
      if (!client) client = TcpClient::connect(port);
      if (!client) break;
      const bool sent = send_request(*client, stays, round % 2 == 0);
      is_late = std::chrono::steady_clock::now() - start > std::chrono::milliseconds(200);
      if (sent) got = answer(*client);
      if (got.empty() || !stays) client.reset();
      if (got.empty() && !is_fresh) ++told.renewed;
      if (got.empty() && is_fresh) break;
    }
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(
                          std::chrono::steady_clock::now() - start)
                          .count();
    if (took > told.longest_us) told.longest_us = took;
    const bool is_answered = got.starts_with("HTTP/1.1 200");
    ++(is_answered ? told.answered : got.empty() && is_late ? told.late : told.lost);
  }
}

class Restart : public testing::Test {
 protected:
  std::unique_ptr<Process> start(const std::vector<std::string>& more = {},
                                 std::vector<int> sockets = {}) {
    std::vector<std::string> words{"serve", "--listen", "http=" + http_.address(), "--admin",
                                   admin_.address()};
    words.insert(words.end(), more.begin(), more.end());
    if (sockets.empty()) sockets = {http_.fd(), admin_.fd()};
    return std::make_unique<Process>(
        Process::Options{.arguments = words, .sockets = std::move(sockets)});
  }
  static void await_serving(Process& process) {
    while (const auto line = process.read_line())
      if (line->starts_with("sluice: counters in")) return;
    FAIL() << "it did not start: " << process.err();
  }
  uint64_t counted() const {
    const HttpAnswer answer =
        http(http_.port(), "POST", "/v1/peek", look, "Content-Type: application/json\r\n");
    return 1'000'000 - Json::parse(answer.body).at("remaining").get<uint64_t>();
  }

  HeldSocket http_, admin_;
};

TEST_F(Restart, LosesNoRequestWhereTheSocketsAreHeld) {
  Folder folder;
  const std::vector<std::string> more{"--data", folder.path() + "/data", "--durability", "always"};
  auto server = start(more);
  await_serving(*server);
  Told fresh, staying;
  std::atomic<bool> done{false};
  std::vector<std::thread> clients;
  for (int i = 0; i < 2; ++i)
    clients.emplace_back([&] { ask_until(done, http_.port(), false, fresh); });
  clients.emplace_back([&] { ask_until(done, http_.port(), true, staying); });
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    server->signal(SIGTERM);
    EXPECT_EQ(server->wait(), 0);
    server = start(more);
    await_serving(*server);
  }
  done = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(fresh.lost, 0u);
  EXPECT_EQ(staying.lost, 0u);
  EXPECT_GT(fresh.answered, 50u);
  EXPECT_GT(staying.answered, 50u);
  // Each was charged, and none twice.
  EXPECT_EQ(counted(), fresh.answered + staying.answered);
  std::printf(
      "restart: %llu answered on connections of their own, %llu on one that was made again %llu "
      "times; the longest took %.0f ms\n",
      static_cast<unsigned long long>(fresh.answered),
      static_cast<unsigned long long>(staying.answered),
      static_cast<unsigned long long>(staying.renewed),
      static_cast<double>(std::max(fresh.longest_us.load(), staying.longest_us.load())) / 1e3);
}

TEST_F(Restart, ASocketOfAnotherAddressIsAnError) {
  HeldSocket other;
  auto server = start({}, {http_.fd(), admin_.fd(), other.fd()});
  EXPECT_EQ(server->wait(), 1);
  EXPECT_NE(server->err().find("the service manager passes sockets that nothing here listens on: " +
                               other.address() + "; take them out of the socket unit"),
            std::string::npos)
      << server->err();
}

// The system's message alone would send its reader after a program that is not there.
TEST_F(Restart, ASocketOfNearlyTheSameAddressIsNamed) {
  HeldSocket other;
  Process server({.arguments = {"serve", "--listen", "http=0.0.0.0:" + std::to_string(other.port()),
                                "--admin", "off"},
                  .sockets = {other.fd()}});
  EXPECT_EQ(server.wait(), 1);
  EXPECT_NE(server.err().find("; the service manager passes sockets on " + other.address() +
                              ": `listen` and the socket unit have to name the same addresses"),
            std::string::npos)
      << server.err();
}

TEST_F(Restart, WhatIsNoListeningSocketIsAnError) {
  HeldSocket datagrams(SOCK_DGRAM);
  auto server = start({}, {datagrams.fd()});
  EXPECT_EQ(server->wait(), 1);
  EXPECT_NE(server->err().find("descriptor 3, of the LISTEN_FDS that the service manager passes, "
                               "is no TCP socket that listens"),
            std::string::npos)
      << server->err();
}

// Clients of IPv4 would be refused where the address means both.
TEST_F(Restart, ASocketForIpv6AloneIsAnError) {
  const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) GTEST_SKIP() << "this machine has no IPv6";
  const int on = 1;
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  EXPECT_EQ(::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on), 0);
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(fd, 5), 0);
  auto server = start({}, {fd});
  EXPECT_EQ(server->wait(), 1);
  EXPECT_NE(server->err().find("listens on [::] for IPv6 alone; write BindIPv6Only=both"),
            std::string::npos)
      << server->err();
  ::close(fd);
}

// Those that are not passed are made as ever; and another process's are not taken.
TEST_F(Restart, SomeSocketsMayBeHeldAndOthersNot) {
  auto server = start({"--listen", "divvy=127.0.0.1:0"}, {http_.fd(), admin_.fd()});
  const uint16_t divvy = await_listening(*server, "divvy");
  EXPECT_EQ(http_get(http_.port(), "/v1/health").status, 200);
  EXPECT_TRUE(TcpClient::connect(divvy)->ask("HIT a=b").starts_with("OK "));
  Process foreign({.arguments = {"serve", "--listen", "http=127.0.0.1:0", "--admin", "off"},
                   .environment = {{"LISTEN_PID", "1"}, {"LISTEN_FDS", "1"}}});
  EXPECT_EQ(http_get(await_listening(foreign, "http"), "/v1/health").status, 200);
  EXPECT_TRUE(foreign.says("LISTEN_FDS is for process 1 and not for this one"));
}

TEST_F(Restart, ADrainServesOnAndSaysThatItIsNotReady) {
  auto server = start({"--drain", "300s"});
  await_serving(*server);
  EXPECT_EQ(http_get(admin_.port(), "/health/ready").status, 200);
  EXPECT_EQ(http_get(http_.port(), "/v1/health").status, 200);
  server->signal(SIGTERM);
  ASSERT_TRUE(server->says("not ready any more, and stopping in 300000 ms"));
  EXPECT_EQ(http_get(admin_.port(), "/health/ready").status, 503);
  EXPECT_EQ(http_get(admin_.port(), "/health/live").status, 200);
  // The checks of load balancers at the protocol's own port.
  EXPECT_EQ(http_get(http_.port(), "/v1/health").status, 503);
  EXPECT_EQ(
      http(http_.port(), "POST", "/v1/take", take, "Content-Type: application/json\r\n").status,
      200);
}

TEST_F(Restart, ADrainLastsAsLongAsItIsSet) {
  auto server = start({"--drain", "1s"});
  await_serving(*server);
  const auto begin = std::chrono::steady_clock::now();
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait(), 0);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1000));
}

TEST_F(Restart, ASecondSignalEndsADrain) {
  auto server = start({"--drain", "300s"});
  await_serving(*server);
  server->signal(SIGTERM);
  ASSERT_TRUE(server->says("stopping in 300000 ms"));
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait(), 0);
}

}  // namespace
}  // namespace sluice::tests::restart_test
