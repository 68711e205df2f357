// What `sluice ask limitd` and `sluice limitdctl` print when a server does not answer as the
// protocol requires. A server with fixed replies stands in for it.
#include <gtest/gtest.h>

#include <sstream>

#include "config/command_io.h"
#include "protocol/limitd/commands.h"
#include "testing/fake_server.h"

namespace sluice::limitd::ask_test {
namespace {

constexpr const char* end_of_take = "\x28\x01";  // the count is the last field of a take

struct Outcome {
  int status = 0;
  std::string err;
};

Outcome ask_at(uint16_t port, const std::string& timeout = "20000") {
  std::ostringstream out, err;
  config::CommandIo io{.out = out, .err = err, .environment = {}};
  const int status = ask(
      {"--server", "127.0.0.1:" + std::to_string(port), "--timeout", timeout, "take", "ip", "a"},
      io);
  return {status, err.str()};
}

TEST(AskLimitd, ReportsServerErrors) {
  struct Case {
    std::string answer, error;
  };
  const Case cases[] = {
      {"",
       "the server closed the connection without a reply; if that port has TLS, write https:// or "
       "such in front of the address"},
      {"-ERR x",
       "the server closed the connection without a reply; it answers as a Redis server does: is "
       "that the port you mean?"},
      {std::string("\x03\x0a\x05\x31", 4), "that is not a reply of limitd's protocol"},
      {"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nwhat is "
       "it",
       "that is not a reply of limitd's protocol; it answers as an HTTP server does: is that the "
       "port you mean?"},
      {std::string(1 << 16, '\xff'), "the reply is too long"},
  };
  for (const auto& [answer, error] : cases) {
    calls::FakeServer server({answer}, end_of_take);
    const Outcome outcome = ask_at(server.port());
    EXPECT_EQ(outcome.status, 3);
    EXPECT_EQ(outcome.err, "error: " + error + "\n");
  }
}

TEST(AskLimitd, GivesUpAtTheDeadlineAndWhereNothingListens) {
  uint16_t port = 0;
  {
    calls::FakeServer server({calls::FakeServer::silence}, end_of_take);
    port = server.port();
    EXPECT_EQ(ask_at(port, "50").err, "error: no reply in time\n");
  }
  const std::string nothing =
      "cannot connect to 127.0.0.1 port " + std::to_string(port) + ": Connection refused";
  EXPECT_EQ(ask_at(port).err,
            "error: " + nothing +
                "; is the server up? If it listens elsewhere, name it: `--server HOST:PORT`\n");
  std::ostringstream out, err;
  config::CommandIo io{.out = out, .err = err, .environment = {}};
  EXPECT_EQ(
      limitdctl({"-h", "127.0.0.1", "-p", std::to_string(port), "-b", "ip", "-k", "a", "-t", "1"},
                io),
      1);
  EXPECT_EQ(err.str(), nothing + "\n");
}

}  // namespace
}  // namespace sluice::limitd::ask_test
