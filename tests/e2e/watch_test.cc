// Commands with a real server: `--watch` on a terminal and into a pipe, tables that fit a narrow
// window, and the limit that refuses.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <sstream>
#include <string>

#include "tests/support/divvy_server.h"
#include "tests/support/pty.h"

namespace sluice::tests::watch_test {
namespace {

class Watch : public testing::Test {
 protected:
  Watch() {
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

TEST_F(Watch, ShowsChangesUntilItIsEnded) {
  Pty rules(words("rules", {"--watch", "--every", "100ms"}), {}, {100, 20});
  ASSERT_TRUE(rules.shows("DENIED/S")) << rules.screen().text();
  EXPECT_TRUE(rules.screen().is_other());
  hit(5);
  EXPECT_TRUE(rules.await([](const Screen& screen) {
    const auto lines = screen.lines();
    return lines.size() > 1 && lines[1].find(" 3       2 ") != std::string::npos;
  })) << rules.screen().text();
  rules.type("q");
  EXPECT_EQ(rules.wait(), 0);
  EXPECT_FALSE(rules.screen().is_other());

  Pty counters(words("counters", {"--watch", "--every", "100ms"}), {}, {80, 20});
  EXPECT_TRUE(counters.shows("0 left of 3 per 1h")) << counters.screen().text();
  counters.signal(SIGTERM);
  EXPECT_TRUE(counters.wait());
  Pty status(words("status", {"--watch", "--every", "100ms"}), {}, {80, 20});
  EXPECT_TRUE(status.shows("/s allowed")) << status.screen().text();
  status.type("q");
  EXPECT_EQ(status.wait(), 0);
}

// A missing answer is reported in its place, and the command goes on.
TEST_F(Watch, OutlivesTheServerAndPrintsIntoAPipe) {
  Process status({.arguments = words("status", {"--watch", "--every", "100ms"})});
  for (int i = 0; i < 2;) {
    const auto line = status.read_line();
    ASSERT_TRUE(line);
    i += line->starts_with("server ");
  }
  server.reset();
  EXPECT_TRUE(status.says("error: cannot connect"));
  EXPECT_FALSE(status.wait(std::chrono::steady_clock::now()));
  status.signal(SIGTERM);
  EXPECT_EQ(status.wait(), 128 + SIGTERM);

  EXPECT_EQ(run({.arguments = words("status", {"--watch"})}).status, 3);
  EXPECT_EQ(run({.arguments = words("status", {"--every", "1ms"})}).status, 2);
}

TEST_F(Watch, TablesFitSixtyColumns) {
  hit(5);
  for (const char* command : {"rules", "counters", "top"}) {
    std::vector<std::string> more;
    if (std::string(command) == "top") more = {"--once", "--over", "0s"};
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
    EXPECT_NE(pty.screen().text().find("…"), std::string::npos) << pty.screen().text();
  }
  // Into a pipe nothing is cut.
  const auto piped = run({.arguments = words("rules", {})});
  EXPECT_NE(piped.out.find("that-is-longer-than-any-narrow-window-has-room-for"), piped.out.npos);
}

TEST_F(Watch, TopShowsTheLimitThatRefusesAndFiltersByRule) {
  hit(5);
  const auto top = run({.arguments = words("top", {"--once", "--over", "0s"})});
  EXPECT_EQ(top.status, 0) << top.err;
  EXPECT_NE(top.out.find("REFUSES NOW"), top.out.npos) << top.out;
  EXPECT_NE(top.out.find("3 per 1h, token_bucket"), top.out.npos) << top.out;
  EXPECT_EQ(top.out.find("50 per"), top.out.npos) << top.out;
  const auto of_rule =
      run({.arguments = words("top", {"--once", "--over", "0s", "--rule", "narrow"})});
  EXPECT_NE(of_rule.out.find("alice"), of_rule.out.npos) << of_rule.out;
  const auto other = run({.arguments = words("top", {"--once", "--over", "0s", "--rule", "x-y"})});
  EXPECT_EQ(other.out.find("alice"), other.out.npos) << other.out;
}

}  // namespace
}  // namespace sluice::tests::watch_test
