// gRPC connections of the real server whose clients are silent: what it sends to a watch, and when
// it closes a connection.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/comes.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/process.h"
#include "tests/support/tcp_client.h"
#include "wire/http2_peer_test.h"

namespace sluice::tests::envoy_connection_test {
namespace {

using wire::http2_peer::Peer;

struct Service {
  explicit Service(std::map<std::string, std::string> more, const std::string& limits) {
    folder.write("current/config/a.yaml", limits);
    std::map<std::string, std::string> environment{{"RUNTIME_ROOT", folder.path() + "/current"},
                                                   {"HOST", "127.0.0.1"},
                                                   {"PORT", "0"},
                                                   {"GRPC_HOST", "127.0.0.1"},
                                                   {"GRPC_PORT", "0"}};
    environment.merge(more);
    process = std::make_unique<Process>(
        Process::Options{.arguments = {"envoy"}, .environment = environment});
    port = await_listening(*process, "envoy");
  }
  void write(const std::string& limits) {
    folder.write("next", limits);
    std::filesystem::rename(folder.path() + "/next", folder.path() + "/current/config/a.yaml");
  }

  Folder folder;
  std::unique_ptr<Process> process;
  uint16_t port = 0;
};

// The same service, by `sluice serve` and a file of sluice's own.
struct Listener {
  explicit Listener(const std::string& settings, const std::string& envoy = "{}") {
    folder.write("limits/a.yaml", "domain: a");
    const std::string file = folder.write(
        "sluice.yaml", "workers: 1\nlisten: [{ protocol: envoy, address: \"127.0.0.1:0\"" +
                           settings + " }]\npolicy: [{ envoy: limits }]\nenvoy: " + envoy + "\n");
    process = std::make_unique<Process>(Process::Options{.arguments = {"serve", "--config", file}});
    port = await_listening(*process, "envoy");
  }

  Folder folder;
  std::unique_ptr<Process> process;
  uint16_t port = 0;
};

// A client that sends HTTP/2's preface and settings, and then only what a test sends.
struct Client {
  explicit Client(uint16_t port) : socket(TcpClient::connect(port).value()) {
    socket.send(wire::http2_peer::hello() + wire::http2_peer::settings_ack());
  }
  // Reads frames until the condition holds. False: the connection ended, or the deadline passed.
  template <class Condition>
  bool reads_until(Condition&& condition) {
    while (!condition()) {
      const auto header = socket.read_bytes(9);
      if (!header) return false;
      const auto payload =
          socket.read_bytes(wire::http2_peer::read_number(std::string_view(*header).substr(0, 3)));
      if (!payload) return false;
      peer.read(*header + *payload);
    }
    return true;
  }

  TcpClient socket;
  Peer peer;
};

TEST(EnvoyConnection, NotifiesASilentHealthWatchOfAChange) {
  const std::string not_serving("\0\0\0\0\x02\x08\x02", 7), serving("\0\0\0\0\x02\x08\x01", 7);
  Service service({{"FORCE_START_WITHOUT_INITIAL_CONFIG", "true"}}, "domain: [");
  Client client(service.port);
  client.socket.send(client.peer.headers(1, Peer::grpc("/grpc.health.v1.Health/Watch"), false) +
                     wire::http2_peer::data(1, std::string_view("\0\0\0\0\0", 5), false));
  const std::string& told = client.peer.answers[1].body;
  ASSERT_TRUE(client.reads_until([&] { return told.size() >= 7; }));
  EXPECT_EQ(told, not_serving);
  service.write("domain: a");
  ASSERT_TRUE(client.reads_until([&] { return told.size() >= 14; }));
  EXPECT_EQ(told, not_serving + serving);
  service.process->signal(SIGTERM);
  ASSERT_TRUE(client.reads_until([&] { return told.size() >= 21; }));
  EXPECT_EQ(told, not_serving + serving + not_serving);
}

// A message of the server to a watch does not extend the timeout of a request that has not arrived
// whole.
TEST(EnvoyConnection, AHealthWatchDoesNotExtendTheRequestTimeout) {
  const Listener server(", request_timeout: 2s");
  Client client(server.port);
  client.socket.send(client.peer.headers(1, Peer::grpc("/grpc.health.v1.Health/Watch"), false) +
                     wire::http2_peer::data(1, std::string_view("\0\0\0\0\0", 5), false));
  ASSERT_TRUE(client.reads_until([&] { return !client.peer.answers[1].body.empty(); }));
  client.socket.send(client.peer.headers(
      3, Peer::grpc("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"), false));
  EXPECT_FALSE(client.reads_until([] { return false; }));
  EXPECT_TRUE(client.socket.ended());
}

// An age that is too long for a timer means no limit.
TEST(EnvoyConnection, AcceptsAMaximumAgeOfThousandsOfYears) {
  const Listener server("", "{ connection_age: 999999d, connection_grace: 999999d }");
  for (int i = 0; i < 3; ++i) {
    Client client(server.port);
    client.socket.send(wire::http2_peer::ping(7));
    EXPECT_TRUE(client.reads_until([&] { return !client.peer.acknowledged_pings.empty(); }));
  }
  EXPECT_EQ(http_get(server.port, "/healthcheck").status, 200);
}

TEST(EnvoyConnection, EndsAtItsMaximumAgeWithASilentClient) {
  Service service({{"GRPC_MAX_CONNECTION_AGE", "2s"}, {"GRPC_MAX_CONNECTION_AGE_GRACE", "2s"}},
                  "domain: a");
  Client client(service.port);
  ASSERT_TRUE(client.reads_until([&] { return !client.peer.goaways.empty(); }));
  EXPECT_EQ(client.peer.goaways[0].second, 0u);  // NO_ERROR
  // The client does not close the connection; the server closes it after the grace.
  EXPECT_FALSE(client.reads_until([] { return false; }));
  EXPECT_TRUE(client.socket.ended());
}

}  // namespace
}  // namespace sluice::tests::envoy_connection_test
