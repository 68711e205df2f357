// Commands with a real server: tables that fit a narrow window, and the limit that refuses.
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>

#include "tests/support/divvy_server.h"
#include "tests/support/pty.h"

namespace sluice::tests::tables_test {
namespace {

class Tables : public testing::Test {
 protected:
  Tables() {
    const auto yaml = folder.write(
        "sluice.yaml",
        "listen:\n  - { protocol: divvy, address: \"127.0.0.1:0\" }\n"
        "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
        "rules:\n"
        "  - name: a-rule-with-a-name-that-is-longer-than-any-narrow-window-has-room-for\n"
        "    match: { user: '*' }\n"
        "    actor: user\n"
        "    limits: [{ quota: 3, window: 1h }, { quota: 50, window: 1d }]\n");
    server = std::make_unique<Process>(Process::Options{.arguments = {"serve", "--config", yaml}});
    divvy = await_listening(*server);
    admin = "127.0.0.1:" + std::to_string(await_listening(*server, "admin"));
  }
  void hit(int times) const {
    auto client = TcpClient::connect(divvy);
    ASSERT_TRUE(client);
    for (int i = 0; i < times; ++i) client->ask("HIT user=alice");
  }
  std::vector<std::string> words(const std::string& command,
                                 const std::vector<std::string>& more) const {
    std::vector<std::string> all{command, "--admin", admin, "--timeout", "20000"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Folder folder;
  std::unique_ptr<Process> server;
  uint16_t divvy = 0;
  std::string admin;
};

TEST_F(Tables, FitSixtyColumns) {
  hit(5);
  for (const char* command : {"rules", "counters", "top"}) {
    std::vector<std::string> more;
    if (std::string(command) == "top") more = {"--over", "0s"};
    Pty pty(words(command, more), {{"NO_COLOR", "1"}}, {60, 20});
    EXPECT_EQ(pty.wait(), 0);
    std::istringstream lines(pty.output());
    size_t shown = 0;
    for (std::string line; std::getline(lines, line); ++shown) {
      // Characters, each a column wide, without the carriage return.
      size_t columns = 0;
      for (const char c : line)
        columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80 && c != '\r';
      EXPECT_LE(columns, 60u) << line;
    }
    EXPECT_GE(shown, 2u);
    EXPECT_NE(pty.output().find("…"), std::string::npos) << pty.output();
  }
  // Into a pipe nothing is cut.
  const auto piped = run({.arguments = words("rules", {})});
  EXPECT_NE(piped.out.find("that-is-longer-than-any-narrow-window-has-room-for"), piped.out.npos);
}

TEST_F(Tables, TopShowsTheLimitThatRefusesAndFiltersByRule) {
  hit(5);
  const auto top = run({.arguments = words("top", {"--over", "0s"})});
  EXPECT_EQ(top.status, 0) << top.err;
  EXPECT_NE(top.out.find("REFUSES NOW"), top.out.npos) << top.out;
  EXPECT_NE(top.out.find("3 per 1h, token_bucket"), top.out.npos) << top.out;
  EXPECT_EQ(top.out.find("50 per"), top.out.npos) << top.out;
  const auto of_rule = run({.arguments = words("top", {"--over", "0s", "--rule", "narrow"})});
  EXPECT_NE(of_rule.out.find("alice"), of_rule.out.npos) << of_rule.out;
  const auto other = run({.arguments = words("top", {"--over", "0s", "--rule", "x-y"})});
  EXPECT_EQ(other.out.find("alice"), other.out.npos) << other.out;
}

}  // namespace
}  // namespace sluice::tests::tables_test
