// What the real server sends to others while it runs: to statsd, and to the service manager.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>

#include "tests/e2e/policies.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/line_sink.h"

namespace sluice::tests {
namespace {

// A port on which no process listens at the moment.
uint16_t nobodys_port() {
  return LineSink(LineSink::Kind::tcp).port();
}

// A socket at a path, as systemd has for its services' notifications.
class ServiceManager {
 public:
  explicit ServiceManager(const std::string& path)
      : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    const timeval limit{.tv_sec = 25, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("no socket for a service manager");
  }
  ~ServiceManager() { ::close(fd_); }
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  std::string receive() const {
    char bytes[256];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    return n < 0 ? "(nothing)" : std::string(bytes, static_cast<size_t>(n));
  }

 private:
  const int fd_;
};

TEST(Statsd, AnUnreachableOneDoesNotDelayRequests) {
  const Folder folder;
  for (const bool tcp : {false, true}) {
    std::map<std::string, std::string> environment{{"PORT", "0"},
                                                   {"STATSD_HOST", "127.0.0.1"},
                                                   {"STATSD_PORT", std::to_string(nobodys_port())}};
    if (tcp) environment["STATSD_USE_TCP"] = "1";
    Process process(
        {.arguments = {"divvy", folder.write("r.ini", hundred_policy), "--admin", "127.0.0.1:0"},
         .environment = environment});
    const uint16_t divvy = await_listening(process), admin = await_listening(process, "admin");
    // Far more than the ring holds, so that it is full for a while.
    std::string batch;
    for (int i = 0; i < 1'000; ++i) batch += "HIT k=x actor=a\n";
    auto client = TcpClient::connect(divvy);
    for (int round = 0; round < 100; ++round) {
      ASSERT_TRUE(client->send(batch));
      for (int i = 0; i < 1'000; ++i) ASSERT_TRUE(client->read_line()->starts_with("OK true "));
    }
    const std::string page = http_get(admin, "/metrics").body;
    EXPECT_NE(page.find("verb=\"take\",outcome=\"allowed\"} 100000\n"), std::string::npos) << page;
    if (tcp) {
      std::string lost;
      for (const auto limit = soon(); std::chrono::steady_clock::now() < limit;) {
        std::smatch found;
        const std::string text = http_get(admin, "/metrics").body;
        std::regex_search(text, found,
                          std::regex(R"re(sluice_statsd_lines_total\{outcome="lost"\} (\d+))re"));
        lost = found[1];
        if (lost != "0") break;
      }
      EXPECT_NE(lost, "0");
    }
    process.signal(SIGTERM);
    EXPECT_EQ(process.wait(within(std::chrono::seconds(5))), 0);
  }
}

TEST(Systemd, IsNotifiedWhenTheServerListens) {
  const Folder folder;
  const std::string path = folder.path() + "/notify";
  const ServiceManager manager(path);
  Process process({.arguments = {"divvy", folder.write("r.ini", hundred_policy)},
                   .environment = {{"PORT", "0"}, {"NOTIFY_SOCKET", path}}});
  EXPECT_EQ(manager.receive(), "READY=1");
  EXPECT_TRUE(TcpClient::connect(await_listening(process)));
  process.signal(SIGTERM);
  EXPECT_EQ(manager.receive(), "STOPPING=1\nEXTEND_TIMEOUT_USEC=25000000");
  EXPECT_EQ(process.wait(), 0);
}

}  // namespace
}  // namespace sluice::tests
