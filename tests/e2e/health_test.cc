// `sluice health`, as the health check of a container runs it, and the program under the name of a
// server that it takes the place of.
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/support/divvy_server.h"
#include "tests/support/fail.h"
#include "tests/support/http_client.h"
#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/support/redis_server.h"

namespace sluice::tests::health_test {
namespace {

class Health : public testing::Test {
 protected:
  Finished health(std::vector<std::string> words = {},
                  std::map<std::string, std::string> variables = {}) const {
    words.insert(words.begin(), "health");
    variables.try_emplace("RUNTIME_DIRECTORY", folder_.path());
    return run({.arguments = std::move(words), .environment = std::move(variables)});
  }
  // Its admin port is the socket in the folder, as in a container.
  Process::Options options(std::vector<std::string> words) const {
    return {.arguments = std::move(words), .environment = {{"RUNTIME_DIRECTORY", folder_.path()}}};
  }

  Folder folder_;
};

TEST_F(Health, IsTheStateOfTheServerThatRunsHere) {
  EXPECT_EQ(health({"--live"}).status, 1);
  {
    Process server(options({"http", "--port", "0", "--drain", "300s"}));
    await_listening(server, "http");
    const Finished ready = health();
    EXPECT_EQ(ready.status, 0) << ready.err;
    EXPECT_EQ(ready.out, "ready\n");
    EXPECT_EQ(health({"--live"}).out, "live\n");
    EXPECT_EQ(health({"--json"}).out, "{\n  \"status\": \"ready\"\n}\n");
    server.signal(SIGTERM);
    ASSERT_TRUE(server.says("not ready any more"));
    const Finished draining = health();
    EXPECT_EQ(draining.status, 1);
    EXPECT_TRUE(draining.out.starts_with("unhealthy: not ready: ")) << draining.out;
    EXPECT_EQ(health({"--live"}).status, 0);
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait(), 0);
  }
  EXPECT_EQ(health().status, 1);
}

// A port of its own for probes: plain text without a token, whatever the admin port has, and
// nothing but health.
TEST_F(Health, HasAPortOfItsOwnForProbes) {
  folder_.write("admin.token", "a-token-of-enough-bytes");
  const std::string file = folder_.write("sluice.yaml",
                                         "listen:\n"
                                         "- { protocol: http, address: \"127.0.0.1:0\" }\n"
                                         "- { protocol: admin, address: \"127.0.0.1:0\" }\n"
                                         "- { protocol: health, address: \"127.0.0.1:0\" }\n"
                                         "admin: { token_file: admin.token }\n");
  Process server(options({"serve", "--config", file}));
  const uint16_t admin = await_listening(server, "admin"), port = await_listening(server, "health");
  EXPECT_EQ(http_get(port, "/health/ready").status, 200);
  EXPECT_EQ(http_get(port, "/health/live").status, 200);
  for (const char* const target : {"/metrics", "/v1/status", "/v1/config", "/", "/healthy"})
    EXPECT_EQ(http_get(port, target).status, 404) << target;
  EXPECT_EQ(http_get(admin, "/v1/status").status, 401);
}

// The check of a container has the variables of its server, and no token.
TEST_F(Health, AsksWhereTheServersVariableSays) {
  const uint16_t port = free_port();
  const std::map<std::string, std::string> variables{
      {"SLUICE_ADMIN", "127.0.0.1:" + std::to_string(port)},
      {"SLUICE_ADMIN_TOKEN", "a-token-of-enough-bytes"}};
  Process server({.arguments = {"http", "--port", "0"}, .environment = variables});
  await_listening(server, "http");
  const Finished ready = health({}, variables);
  EXPECT_EQ(ready.status, 0) << ready.err;
  EXPECT_EQ(ready.err, "");
  EXPECT_EQ(health({"--admin", "127.0.0.1:" + std::to_string(port)}).status, 0);
  // A token that cannot be read or is none does not matter.
  for (const auto& [name, value] :
       {std::pair{"SLUICE_ADMIN_TOKEN", "short"}, std::pair{"SLUICE_ADMIN_TOKEN_FILE", "/nowhere"}})
    EXPECT_EQ(
        health({}, {{"SLUICE_ADMIN", "127.0.0.1:" + std::to_string(port)}, {name, value}}).status,
        0)
        << name;
}

// A socket that takes connections, in the kernel, and answers nothing.
class Silent {
 public:
  explicit Silent(const sockaddr* address, socklen_t size, int backlog)
      : fd_(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (::bind(fd_, address, size) != 0 || ::listen(fd_, backlog) != 0) fail("bind");
  }
  ~Silent() { ::close(fd_); }
  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;

 private:
  const int fd_;
};

TEST_F(Health, GivesUpWithinTwoSeconds) {
  const uint16_t port = free_port();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const Silent silent(reinterpret_cast<sockaddr*>(&address), sizeof address, 5);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(health({"--admin", "127.0.0.1:" + std::to_string(port)}).status, 1);
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, std::chrono::milliseconds(1700));
  EXPECT_LT(took, promised(std::chrono::milliseconds(2000)));
}

// Brings up the loopback of the network that is this thread's own from here on. False: the system
// does not let it.
bool leave_network() {
  if (::unshare(CLONE_NEWNET) != 0) return false;
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq loopback{};
  std::memcpy(loopback.ifr_name, "lo", sizeof "lo");
  loopback.ifr_flags = IFF_UP | IFF_RUNNING;
  const bool is_up = ::ioctl(fd, SIOCSIFFLAGS, &loopback) == 0;
  ::close(fd);
  return is_up;
}

// The search for the server waits for the usual address, whose queue is full, and the server that
// is found does not answer: the time is for both.
TEST_F(Health, GivesUpWithinTwoSecondsOfAllServers) {
  bool has_network = false;
  std::thread([&] {
    has_network = leave_network();
    if (!has_network) return;
    sockaddr_in usual{};
    usual.sin_family = AF_INET;
    usual.sin_port = htons(8380);
    usual.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const address = reinterpret_cast<sockaddr*>(&usual);
    const Silent full(address, sizeof usual, 0);
    const int other = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(other, address, sizeof usual), 0);
    const std::string path = folder_.path() + "/sluice-1.sock";
    sockaddr_un socket{};
    socket.sun_family = AF_UNIX;
    path.copy(socket.sun_path, sizeof socket.sun_path - 1);
    const Silent found(reinterpret_cast<sockaddr*>(&socket), sizeof socket, 5);
    const auto begin = std::chrono::steady_clock::now();
    const Finished unhealthy = health();
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(unhealthy.status, 1);
    EXPECT_EQ(unhealthy.err, "");
    EXPECT_EQ(unhealthy.out, "unhealthy: " + path + ": no reply in time\n");
    EXPECT_GE(took, std::chrono::milliseconds(1700));
    EXPECT_LT(took, promised(std::chrono::milliseconds(1850)));
    ::close(other);
  }).join();
  if (!has_network) GTEST_SKIP() << "takes the right to make a network";
}

TEST_F(Health, OfSeveralServersIsUnknown) {
  Process one(options({"http", "--port", "0"})), other(options({"http", "--port", "0"}));
  await_listening(one, "http");
  await_listening(other, "http");
  const Finished unknown = health();
  EXPECT_EQ(unknown.status, 1);
  EXPECT_TRUE(unknown.out.starts_with("unhealthy: several servers run on this machine"))
      << unknown.out;
  EXPECT_TRUE(health({"--json"}).out.starts_with("{\n  \"status\": \"unhealthy\",\n  \"reason\""));
}

TEST_F(Health, WrongWordsAreWrongUsage) {
  EXPECT_EQ(health({"now"}).status, 2);
  EXPECT_EQ(health({"--admin", "nowhere:x"}).status, 2);
}

// A container of the original starts /bin/ratelimit without a word.
TEST(NamesOfOriginals, AProgramOfThatNameIsThatServer) {
  Folder folder;
  const std::string link = folder.path() + "/ratelimit";
  std::filesystem::create_symlink(binary_path(), link);
  std::filesystem::create_directories(folder.path() + "/runtime/config");
  std::ofstream(folder.path() + "/runtime/config/shop.yaml")
      << "domain: shop\ndescriptors: [{ key: k, rate_limit: { unit: hour, requests_per_unit: 1 } "
         "}]\n";
  // Compose names the original's path as the command of the image.
  EXPECT_EQ(run({.arguments = {"/bin/ratelimit", "--help"}}).out,
            run({.arguments = {"envoy", "--help"}}).out);
  Process server({.arguments = {},
                  .environment = {{"RUNTIME_ROOT", folder.path() + "/runtime"},
                                  {"PORT", "0"},
                                  {"GRPC_PORT", "0"},
                                  {"SLUICE_DRAIN", "300s"},
                                  {"USE_STATSD", "false"}}},
                 link);
  const uint16_t grpc = await_listening(server, "envoy"), http = await_listening(server, "envoy");
  EXPECT_GT(grpc, 0);
  EXPECT_EQ(http_get(http, "/healthcheck").status, 200);
  server.signal(SIGTERM);
  ASSERT_TRUE(server.says("not ready any more"));
  EXPECT_EQ(http_get(http, "/healthcheck").status, 500);
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
}

}  // namespace
}  // namespace sluice::tests::health_test
