// What `sluice ask divvy` prints when a server does not answer as the protocol requires. A server
// with fixed replies stands in for it.
#include <gtest/gtest.h>

#include <sstream>

#include "config/command_io.h"
#include "protocol/divvy/commands.h"
#include "testing/fake_server.h"

namespace sluice::divvy::ask_test {
namespace {

struct Outcome {
  int status = 0;
  std::string out, err;
};

Outcome ask_at(const std::string& host, uint16_t port, const std::string& timeout = "20000") {
  std::ostringstream out, err;
  config::CommandIo io{.out = out, .err = err, .environment = {}};
  const int status =
      ask({"--server", host + ":" + std::to_string(port), "--timeout", timeout, "ip=10.0.0.7"}, io);
  return {status, out.str(), err.str()};
}

TEST(AskDivvy, ReportsTheDecisionByExitStatusAndText) {
  calls::FakeServer server({"OK true 2 3600\n", "OK false 0 59\n", "OK false 0 -1\r\n"});
  const Outcome granted = ask_at("127.0.0.1", server.port());
  EXPECT_EQ(granted.status, 0);
  EXPECT_EQ(granted.out, "allowed: 2 left, all of them again in 1h\n");
  const Outcome denied = ask_at("127.0.0.1", server.port());
  EXPECT_EQ(denied.status, 1);
  EXPECT_EQ(denied.out, "denied: none left, try again in 59s\n");
  EXPECT_EQ(ask_at("127.0.0.1", server.port()).out,
            "denied: none left, and waiting does not help: a rule denies for good, or no rule "
            "applies (the protocol answers both alike; `sluice explain` says which)\n");
  EXPECT_EQ(server.lines(), std::vector<std::string>(3, "HIT \"ip\"=\"10.0.0.7\""));
}

TEST(AskDivvy, TriesEveryAddressOfAName) {
  calls::FakeServer server({"OK true 1 1\n"});  // only on IPv4; localhost may name IPv6 first
  const Outcome granted = ask_at("localhost", server.port());
  EXPECT_EQ(granted.status, 0) << granted.err;
}

TEST(AskDivvy, ReportsServerErrors) {
  const std::string hint = ": is that the port you mean?";
  struct Case {
    std::string answer, error;
  };
  const Case cases[] = {
      {"ERR unknown \"x\"\n", "the server refused: ERR unknown \"x\""},
      {"ERR Internal Error\n", "the server refused: ERR Internal Error"},
      {"OK true\n",
       "that is not a reply of Divvy's protocol: OK true; it answers as a server of a line "
       "protocol does" +
           hint},
      {"HTTP/1.1 400 Bad Request\r\n",
       "that is not a reply of Divvy's protocol: HTTP/1.1 400 Bad Request; it answers as an HTTP "
       "server does" +
           hint},
      {"",
       "the server closed the connection without a reply; if that port has TLS, write https:// or "
       "such in front of the address"},
      {"SSH-2.0",
       "the server closed the connection without a reply; it answers as an SSH server does" + hint},
      {std::string(1 << 20, 'x'),
       "the reply has no line end; that is not a server of Divvy's protocol"},
  };
  for (const auto& [answer, error] : cases) {
    calls::FakeServer server({answer});
    const Outcome outcome = ask_at("127.0.0.1", server.port());
    EXPECT_EQ(outcome.status, 3);
    EXPECT_EQ(outcome.err, "error: " + error + "\n");
  }
}

TEST(AskDivvy, GivesUpAtTheDeadlineAndWhereNothingListens) {
  uint16_t port = 0;
  {
    calls::FakeServer server({calls::FakeServer::silence});
    port = server.port();
    const Outcome late = ask_at("127.0.0.1", port, "50");
    EXPECT_EQ(late.status, 3);
    EXPECT_EQ(late.err, "error: no reply in time\n");
  }
  const Outcome gone = ask_at("127.0.0.1", port);
  EXPECT_EQ(gone.status, 3);
  EXPECT_EQ(gone.err, "error: cannot connect to 127.0.0.1 port " + std::to_string(port) +
                          ": Connection refused; is the server up? If it listens elsewhere, name "
                          "it: `--server HOST:PORT`\n");
}

}  // namespace
}  // namespace sluice::divvy::ask_test
