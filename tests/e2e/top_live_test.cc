// `sluice top` on a terminal, as a person uses it: it is live, fits the window, obeys keys, and
// leaves the terminal as it was however it ends.
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <memory>
#include <string>

#include "tests/support/divvy_server.h"
#include "tests/support/pty.h"

namespace sluice::tests {
namespace {

bool same(const termios& a, const termios& b) {
  return a.c_iflag == b.c_iflag && a.c_oflag == b.c_oflag && a.c_cflag == b.c_cflag &&
         a.c_lflag == b.c_lflag && std::memcmp(a.c_cc, b.c_cc, sizeof a.c_cc) == 0;
}

class LiveTop : public testing::Test {
 protected:
  LiveTop() {
    const auto yaml = folder.write(
        "sluice.yaml",
        "listen:\n  - { protocol: divvy, address: \"127.0.0.1:0\" }\n"
        "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
        "rules:\n"
        "  - { name: user, match: { user: '*' }, actor: user, limit: { quota: 3, window: 1h } }\n");
    server = std::make_unique<Process>(Process::Options{.arguments = {"serve", "--config", yaml}});
    divvy = await_listening(*server);
    admin = "127.0.0.1:" + std::to_string(await_listening(*server, "admin"));
  }

  std::unique_ptr<Pty> top(Pty::Size size = {100, 30}, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"top", "--admin", admin, "--every", "100ms", "--timeout", "20000"});
    return std::make_unique<Pty>(std::move(more), std::map<std::string, std::string>{}, size);
  }
  void hit(const std::string& user, int times) const {
    auto client = TcpClient::connect(divvy);
    ASSERT_TRUE(client);
    for (int i = 0; i < times; ++i) client->ask("HIT \"user\"=\"" + user + "\"");
  }
  // The mode of a terminal on which nothing has run yet.
  static termios fresh_mode() {
    Pty pty({"-c", ":"}, {}, {80, 24}, "/bin/sh");
    pty.wait();
    return pty.mode();
  }
  static void expect_restored(const Pty& pty) {
    EXPECT_FALSE(pty.screen().is_other());
    EXPECT_TRUE(pty.screen().has_cursor());
    EXPECT_TRUE(pty.screen().wraps());
    EXPECT_TRUE(same(pty.mode(), fresh_mode()));
    EXPECT_EQ(pty.screen().unknown(), 0u);
  }

  Folder folder;
  std::unique_ptr<Process> server;
  uint16_t divvy = 0;
  std::string admin;
};

TEST_F(LiveTop, IsLiveAndObeysKeys) {
  hit("ann", 8);
  const auto pty = top();
  ASSERT_TRUE(pty->shows("ann")) << pty->output();
  EXPECT_TRUE(pty->screen().is_other());
  EXPECT_FALSE(pty->screen().has_cursor());
  EXPECT_EQ(pty->mode().c_lflag & (ICANON | ECHO), 0u);
  EXPECT_TRUE(pty->shows("most denied of the last "));
  // A new actor appears without a key.
  hit("bob", 20);
  EXPECT_TRUE(pty->shows("bob"));
  EXPECT_TRUE(pty->await([](const Screen& screen) {
    const std::string text = screen.text();
    return text.find("bob") < text.find("ann");
  })) << pty->screen().text();
  // An actor with few requests is active, and not denied.
  hit("eve", 1);
  pty->type("a");
  EXPECT_TRUE(pty->shows("most active of the last "));
  EXPECT_TRUE(pty->shows("eve"));
  pty->type("d");
  EXPECT_TRUE(pty->shows("most denied of the last "));
  EXPECT_TRUE(pty->await(
      [](const Screen& screen) { return screen.text().find("eve") == std::string::npos; }));
  pty->type("\x1b[A\x1b[D");  // arrow keys do nothing
  pty->type("q");
  EXPECT_EQ(pty->wait(), 0);
  expect_restored(*pty);
}

TEST_F(LiveTop, RestoresTheTerminalHoweverItEnds) {
  for (const int number : {0, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    const auto pty = top();
    ASSERT_TRUE(pty->shows("most denied")) << pty->output();
    if (number == 0)
      pty->type("\x03");
    else
      pty->signal(number);
    EXPECT_EQ(pty->wait(), 0) << number;
    expect_restored(*pty);
  }
}

TEST_F(LiveTop, RestoresTheTerminalWhileItIsStopped) {
  const auto pty = top();
  ASSERT_TRUE(pty->shows("most denied")) << pty->output();
  pty->type("\x1a");
  ASSERT_TRUE(pty->await_stop());
  expect_restored(*pty);
  pty->signal(SIGCONT);
  EXPECT_TRUE(pty->await([](const Screen& screen) { return screen.is_other(); }));
  EXPECT_TRUE(pty->shows("most denied"));
  EXPECT_EQ(pty->mode().c_lflag & (ICANON | ECHO), 0u);
  pty->type("q");
  EXPECT_EQ(pty->wait(), 0);
  expect_restored(*pty);
}

TEST_F(LiveTop, FitsTheWindowAndFollowsItsSize) {
  for (int i = 0; i < 60; ++i) hit("user-" + std::to_string(i) + std::string(80, 'x'), 4);
  hit("evil\x1b]0;title\x07name", 5);
  const auto pty = top({100, 30});
  const auto fits = [](size_t columns, size_t rows) {
    return [columns, rows](const Screen& screen) {
      const auto lines = screen.lines();
      if (lines.size() != rows) return false;
      for (const auto& line : lines) {
        size_t width = 0;  // of UTF-8, where every character here takes one column
        for (const char c : line) width += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
        if (width > columns) return false;
      }
      return true;
    };
  };
  EXPECT_TRUE(pty->await(fits(100, 30))) << pty->screen().text();
  EXPECT_TRUE(pty->shows("evil\\x1b]0;title\\x07name")) << pty->screen().text();
  for (const Pty::Size size : {Pty::Size{40, 10}, Pty::Size{20, 3}, Pty::Size{120, 50}}) {
    pty->resize(size);
    EXPECT_TRUE(pty->await(fits(size.columns, size.rows)))
        << size.columns << " by " << size.rows << ":\n"
        << pty->screen().text();
    // A line that is cut fills the window, and shows that in the last column.
    if (size.columns < 100) {
      EXPECT_TRUE(pty->await([&](const Screen& screen) {
        const auto lines = screen.lines();
        return lines.size() > 1 && lines[1].ends_with("\u2026");
      })) << pty->screen().text();
    }
  }
  pty->type("q");
  EXPECT_EQ(pty->wait(), 0);
  expect_restored(*pty);
}

TEST_F(LiveTop, ReportsAnUnreachableServerAndContinues) {
  hit("ann", 8);
  const auto pty = top();
  ASSERT_TRUE(pty->shows("ann"));
  server->signal(SIGTERM);
  server->wait();
  EXPECT_TRUE(pty->shows("cannot connect to 127.0.0.1"));
  EXPECT_TRUE(pty->shows("ann"));  // what was last known stays
  pty->type("q");
  EXPECT_EQ(pty->wait(), 0);
  expect_restored(*pty);
}

// A server that accepts connections and sends nothing does not delay a key.
TEST_F(LiveTop, EndsAtOnceWhileTheServerIsSilent) {
  const auto pty = top();
  ASSERT_TRUE(pty->shows("most denied"));
  server->signal(SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < Milliseconds(300)) pty->shows("(never)", begin);
  pty->type("q");
  EXPECT_EQ(pty->wait(within(std::chrono::seconds(10))), 0);
  expect_restored(*pty);
  server->signal(SIGCONT);
}

TEST_F(LiveTop, ReportsAStartErrorWithoutSwitchingTheScreen) {
  Pty pty({"top", "--admin", "127.0.0.1:1"}, {}, {80, 24});
  EXPECT_EQ(pty.wait(), 3);
  EXPECT_NE(pty.output().find("cannot connect to 127.0.0.1 port 1"), std::string::npos);
  EXPECT_EQ(pty.output().find("\x1b[?1049h"), std::string::npos);
  EXPECT_TRUE(same(pty.mode(), fresh_mode()));
}

}  // namespace
}  // namespace sluice::tests
