// What `sluice ask droplet` prints when a server does not answer as the protocol requires. Correct
// answers are tested with a real server, because the right answer to a handshake differs each time.
#include <gtest/gtest.h>

#include <sstream>

#include "config/command_io.h"
#include "protocol/droplet/commands.h"
#include "testing/fake_server.h"

namespace sluice::droplet::ask_test {
namespace {

std::string error_of(uint16_t port, const std::string& timeout = "20000") {
  std::ostringstream out, err;
  config::CommandIo io{.out = out, .err = err, .environment = {}};
  EXPECT_EQ(
      ask({"--server", "127.0.0.1:" + std::to_string(port), "--timeout", timeout, "query", "jar"},
          io),
      3);
  return err.str();
}

TEST(AskDroplet, ReportsServerErrors) {
  struct Case {
    std::string answer, error;
  };
  const Case cases[] = {
      {"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nfull",
       "the server refused: 503 full"},
      {"SSH-2.0-x\r\n\r\n",
       "that is not a server of droplet's protocol; it answers as an SSH server does: is that the "
       "port you mean?"},
      {"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
       "Sec-WebSocket-Accept: x\r\n\r\n",
       "that is not a server of droplet's protocol: its handshake does not answer ours"},
      {"HTTP/1.1 101",
       "the server closed the connection without a reply; if that port has TLS, write https:// or "
       "such in front of the address"},
      {"",
       "the server closed the connection without a reply; if that port has TLS, write https:// or "
       "such in front of the address"},
      {std::string(1 << 20, 'x'), "that is not a server of droplet's protocol"},
  };
  for (const auto& [answer, error] : cases) {
    calls::FakeServer server({answer}, "\r\n\r\n");
    EXPECT_EQ(error_of(server.port()), "error: " + error + "\n") << answer.substr(0, 100);
    EXPECT_TRUE(server.lines().front().starts_with("GET / HTTP/1.1\r\nHost: 127.0.0.1"));
  }
}

TEST(AskDroplet, GivesUpAtTheDeadlineAndWhereNothingListens) {
  const std::string hint =
      "; is the server up? If it listens elsewhere, name it: `--server HOST:PORT`\n";
  uint16_t port = 0;
  {
    calls::FakeServer server({calls::FakeServer::silence}, "\r\n\r\n");
    port = server.port();
    EXPECT_EQ(error_of(port, "50"), "error: cannot connect to 127.0.0.1 port " +
                                        std::to_string(port) + ": no answer in time" + hint);
  }
  EXPECT_EQ(error_of(port), "error: cannot connect to 127.0.0.1 port " + std::to_string(port) +
                                ": Connection refused" + hint);
}

}  // namespace
}  // namespace sluice::droplet::ask_test
