// The hot path allocates nothing: a real server in this process, real sockets, and all allocations
// of the process counted while requests are served.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spdlog/sinks/null_sink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "base/hash.h"
#include "log/log.h"
#include "protocol/divvy/rules.h"
#include "request/space.h"
#include "server/server.h"
#include "store/embedded_store.h"
#include "tests/timed/allocations.h"

namespace sluice::tests {
namespace {

constexpr size_t connections = 8, depth = 16, rounds = 500;

class Client {
 public:
  explicit Client(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval limit{10, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ok_ = connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~Client() { close(fd_); }

  // Sends the text and reads `lines` lines.
  bool ask(const std::string& text, size_t lines) {
    if (!ok_ ||
        send(fd_, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
      return false;
    std::array<char, 4096> in;
    while (lines > 0) {
      const ssize_t n = recv(fd_, in.data(), in.size(), 0);
      if (n <= 0) return false;
      for (ssize_t i = 0; i < n; ++i) lines -= in[static_cast<size_t>(i)] == '\n';
    }
    return true;
  }

 private:
  int fd_;
  bool ok_ = false;
};

TEST(Allocation, TheCounterCounts) {
  Allocations allocations;
  delete new std::string(100, 'x');
  EXPECT_GE(allocations.count(), 2u);
}

TEST(Allocation, ServingRequestsAllocatesNothing) {
  const char* policy =
      "[method=GET path=/bench ip=*]\ncreditLimit = 50\nresetSeconds = 600\nactorField = ip\n"
      "[path=/canary/*]\ncreditLimit = 5\nresetSeconds = 600\nmatchPolicy = canary\n"
      "[default]\ncreditLimit = 1000\nresetSeconds = 600\n";
  request::Spaces spaces;
  auto rules = std::make_shared<policy::RuleSet>();
  base::Diagnostics diagnostics;
  divvy::read_divvy(policy, divvy::DivvyFormat::ini, divvy::DivvyMatching::code, "test.ini", spaces,
                    *rules, diagnostics);
  ASSERT_FALSE(base::has_errors(diagnostics));
  store::EmbeddedStore store(size_t{64} << 20, base::Hash(1), spaces);
  log::Log log(spdlog::level::info, std::make_shared<spdlog::sinks::null_sink_mt>(), 64);
  server::Options options;
  // With an admin port the top keys are tracked, too.
  options.listeners = {{protocol::find("divvy").value(), "127.0.0.1", 0},
                       {server::Service::admin(), "127.0.0.1", 0}};
  options.workers = 2;
  server::Server server(options, {.first = {rules}}, store, log);
  ASSERT_EQ(server.start(), std::nullopt);
  std::thread running([&] { server.run(); });

  std::array<std::string, 64> texts;
  for (size_t i = 0; i < texts.size(); ++i) {
    for (size_t d = 0; d < depth; ++d) {
      texts[i] += d % 5 == 4 ? "HIT path=/canary/x\n"
                             : "HIT method=GET path=/bench ip=10.0.0." +
                                   std::to_string((i * 7 + d) % 200) + "\n";
    }
  }
  {
    std::vector<std::unique_ptr<Client>> clients;
    for (size_t i = 0; i < connections; ++i)
      clients.push_back(std::make_unique<Client>(server.bound()[0].port));
    const auto serve = [&] {
      bool ok = true;
      for (size_t round = 0; round < rounds; ++round) {
        for (auto& client : clients) ok &= client->ask(texts[round % texts.size()], depth);
      }
      return ok;
    };
    EXPECT_TRUE(serve());  // creates counters, grows buffers
    Allocations allocations;
    EXPECT_TRUE(serve());
    EXPECT_EQ(allocations.count(), 0u) << "over " << connections * rounds * depth << " requests";
  }
  kill(getpid(), SIGTERM);
  running.join();
}

}  // namespace
}  // namespace sluice::tests
