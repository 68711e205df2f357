// `sluice ask resp` with a real server: its output and exit codes, also compared with redis-cli's.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/redis_server.h"

namespace sluice::tests {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

class AskedServer {
 public:
  AskedServer() {
    const std::string config = folder_.write("sluice.yaml",
                                             "listen:\n"
                                             "  - { protocol: resp, address: \"127.0.0.1:0\" }\n"
                                             "rules:\n"
                                             "  - name: login\n"
                                             "    match: { path: /login, ip: '*' }\n"
                                             "    actor: ip\n"
                                             "    limit: { quota: 3, window: 30d }\n"
                                             "  - name: free\n"
                                             "    match: { path: /free }\n"
                                             "    unlimited: true\n");
    process_ = std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", config, "--log-level", "warn"}});
    port_ = await_listening(*process_, "resp");
  }
  uint16_t port() const { return port_; }

 private:
  Folder folder_;
  std::unique_ptr<Process> process_;
  uint16_t port_ = 0;
};

class RespAsk : public testing::Test {
 protected:
  // The output. The exit code must be `status`.
  std::string ask(Words words, int status) const {
    words.insert(words.begin(), {"ask", "resp", "--timeout", "20000", "--server",
                                 "localhost:" + std::to_string(server_.port())});
    const auto finished = run({.arguments = words});
    EXPECT_EQ(finished.status, status) << finished.out << finished.err;
    return finished.out + finished.err;
  }

  AskedServer server_;
};

TEST_F(RespAsk, TakesByTheRules) {
  const Words login{"path=/login", "ip=10.0.0.7"};
  const auto with = [&](const std::string& verb, const Words& behind = {}) {
    Words words{verb};
    words.insert(words.end(), login.begin(), login.end());
    words.insert(words.end(), behind.begin(), behind.end());
    return words;
  };
  EXPECT_EQ(ask(with("peek"), 0), "allowed: 2 of 3 left, all of them again within 10d\n");
  EXPECT_EQ(ask(with("take", {"N", "3"}), 0).substr(0, 21), "allowed: 0 of 3 left,");
  EXPECT_EQ(ask(with("take"), 1).substr(0, 34), "denied: 0 of 3 left, try again in ");
  EXPECT_EQ(ask(with("peek", {"N", "4"}), 1), "denied: 0 of 3 left, and waiting does not help\n");
  EXPECT_EQ(ask(with("explain"), 0).substr(0, 53),
            "denied by the rule login\n  token_bucket of native:log");
  EXPECT_EQ(ask(with("put", {"N", "2"}), 0), "2 of 3 left\n");
  EXPECT_NE(ask(with("take", {"WITHNAME"}), 0).find(" (rule login)\n"), std::string::npos);
  EXPECT_EQ(ask(with("reset"), 0), "1 counter reset\n");
  EXPECT_EQ(ask(with("reset"), 0), "0 counters reset\n");
  EXPECT_EQ(ask({"take", "path=/free"}, 0), "allowed: unlimited\n");
  EXPECT_EQ(ask({"take", "path=/other"}, 3), "error: the server refused: NORULE no rule applies\n");
  EXPECT_EQ(ask({"take"}, 3).substr(0, 44), "error: the server refused: ERR wrong number ");
  const json told = json::parse(ask(with("take", {"--json"}), 0));
  EXPECT_EQ(told["allowed"], true);
  EXPECT_EQ(told["remaining"], 2);
  EXPECT_EQ(json::parse(ask(with("explain", {"--json"}), 0))["limits"][0]["limit"], 3);
}

TEST_F(RespAsk, TakesByInlineLimits) {
  const Words take{"take", "KEY", "user:17", "LIMIT", "100", "30d", "N", "40"};
  EXPECT_EQ(ask(take, 0).substr(0, 24), "allowed: 60 of 100 left,");
  EXPECT_EQ(ask(take, 0).substr(0, 24), "allowed: 20 of 100 left,");
  EXPECT_EQ(ask(take, 1).substr(0, 23), "denied: 20 of 100 left,");
}

TEST_F(RespAsk, SpeaksTheThreeOtherProgramsCommands) {
  // One unit every 10 days.
  const Words cell{"cl.throttle", "user:17", "1", "1", "864000"};
  EXPECT_EQ(ask(cell, 0), "allowed: 1 of 2 left, all of them again within 10d\n");
  EXPECT_EQ(ask(cell, 0).substr(0, 43), "allowed: 0 of 2 left, all of them again wit");
  EXPECT_EQ(ask(cell, 1).substr(0, 34), "denied: 0 of 2 left, try again in ");
  EXPECT_EQ(ask({"cl.throttle", "user:17", "1", "1", "864000", "3"}, 1),
            "denied: 0 of 2 left, and waiting does not help\n");
  EXPECT_EQ(ask({"--", "cl.throttle", "user:17", "1", "1", "864000", "-1"}, 0).substr(0, 21),
            "allowed: 1 of 2 left,");
  EXPECT_EQ(ask({"throttle", "user:17", "2", "1", "864000"}, 0), "allowed: 1 of 2 left\n");
  EXPECT_EQ(ask({"throttle", "user:17", "2", "1", "864000", "2"}, 1).substr(0, 34),
            "denied: 1 of 2 left, try again in ");
  EXPECT_EQ(ask({"GCRA", "user:17", "1", "1", "864000"}, 0).substr(0, 21), "allowed: 1 of 2 left,");
  EXPECT_EQ(ask({"gcra", "user:17", "1"}, 3),
            "error: the server refused: ERR wrong number of arguments for 'gcra' command\n");
}

// The exit code says whether units were taken, which scripts need.
TEST_F(RespAsk, WaitsAndTakesOfSeveral) {
  const Words jar{"KEY", "jar", "LIMIT", "1", "0", "ALGORITHM", "fixed_bucket"};
  const auto of_jar = [&](Words words) {
    words.insert(words.end(), jar.begin(), jar.end());
    return words;
  };
  EXPECT_EQ(ask(of_jar({"mtake", "1"}), 0).substr(0, 14), "1) (integer) 1");
  EXPECT_EQ(ask(of_jar({"mtake", "1"}), 1).substr(0, 14), "1) (integer) 0");
  EXPECT_EQ(ask(of_jar({"wait", "0.01"}), 1), "(nil)\n");
  EXPECT_EQ(ask(of_jar({"SLUICE.WAIT", "0.01"}), 1), "(nil)\n");
  Words two = of_jar({"wait", "0.01"});
  two.insert(two.end(), {"N", "2"});
  EXPECT_EQ(ask(two, 1).substr(0, 14), "1) (integer) 0") << "it never fits";
  ask(of_jar({"put"}), 0);
  EXPECT_EQ(ask(of_jar({"wait", "0.01"}), 0).substr(0, 14), "1) (integer) 1");
  EXPECT_NE(ask({"wait", "2s", "path=/free"}, 3).find("timeout"), std::string::npos);
}

TEST_F(RespAsk, PrintsInfoAboutTheServer) {
  EXPECT_TRUE(ask({"info"}, 0).starts_with("version: "));
  EXPECT_EQ(json::parse(ask({"info", "--json"}, 0))["counters"], 0);
}

// Other replies are printed exactly as redis-cli prints them in a terminal.
TEST_F(RespAsk, PrintsOtherRepliesAsRedisCliDoes) {
  const Words commands[] = {{"ping"},
                            {"ping", "a \"b\"\n\xff"},
                            {"echo", "x"},
                            {"EXISTS", "k"},
                            {"config", "get", "save"},
                            {"command", "info", "ping", "no-such"},
                            {"command", "docs", "get", "ttl"},
                            {"command", "count"},
                            {"sluice.mtake", "2", "KEY", "a", "LIMIT", "5", "30d", "KEY", "b",
                             "LIMIT", "5", "30d", "N", "0"},
                            {"sluice.help"},
                            {"cluster", "myid"},
                            {"client", "getname"},
                            {"hello", "7"},
                            {"hello", "2", "setname", "a b"},
                            {"no-such", "word"},
                            {"scan", "0"}};
  for (const Words& words : commands) {
    Process::Options options;
    options.arguments = {"--no-raw", "-p", std::to_string(server_.port())};
    options.arguments.insert(options.arguments.end(), words.begin(), words.end());
    Process cli(options, "/usr/bin/redis-cli");
    ASSERT_TRUE(cli.wait()) << words[0];
    const std::string theirs = cli.out();
    EXPECT_EQ(ask(words, theirs.starts_with("(error)") ? 3 : 0), theirs) << words[0];
  }
  EXPECT_TRUE(ask({"INFO", "server"}, 0).starts_with("# Server\nredis_version:7.0.0\n"));
}

TEST_F(RespAsk, SaysWhyItGotNoDecision) {
  const uint16_t port = free_port();
  const auto nobody = run({.arguments = {"ask", "resp", "--server",
                                         "127.0.0.1:" + std::to_string(port), "take", "a=b"}});
  EXPECT_EQ(nobody.status, 3);
  EXPECT_EQ(nobody.err, "error: cannot connect to 127.0.0.1 port " + std::to_string(port) +
                            ": Connection refused; is the server up? If it listens elsewhere, "
                            "name it: `--server HOST:PORT`\n");
  const auto divvy = DivvyServer("rules.ini", "[default]\ncreditLimit = 1\nresetSeconds = 60\n");
  const auto wrong =
      run({.arguments = {"ask", "resp", "--timeout", "20000", "--server",
                         "127.0.0.1:" + std::to_string(divvy.port()), "take", "a=b"}});
  EXPECT_EQ(wrong.status, 3);
  // The server closes after its error, which may be lost if the server has not read all input.
  EXPECT_TRUE(wrong.err.starts_with("error: that is not a reply of Redis' protocol") ||
              wrong.err.starts_with("error: the server closed the connection without a reply"))
      << wrong.err;
}

// The command that `sluice serve` suggests when it has no policy works.
TEST(RespHint, WorksAgainstTheExamplePolicy) {
  Process server({.arguments = {"serve", "--listen", "resp=127.0.0.1:0", "--log-level", "warn"}});
  const uint16_t port = await_listening(server, "resp");
  const std::string head = "  sluice ask resp --server localhost:" + std::to_string(port) + " ";
  std::optional<std::string> hint;
  while ((hint = server.read_line()) && !hint->starts_with(head)) continue;
  ASSERT_TRUE(hint);
  Words words{"ask", "resp", "--timeout", "20000", "--server", "127.0.0.1:" + std::to_string(port)};
  std::istringstream rest(hint->substr(head.size()));
  for (std::string word; rest >> word;) words.push_back(word);
  const auto asked = run({.arguments = words});
  EXPECT_EQ(asked.status, 0) << asked.err;
  EXPECT_EQ(asked.out, "allowed: 4 of 5 left, all of them again within 6s\n");
  // The same with redis-cli, as a shell runs it.
  const auto other = server.read_line();
  ASSERT_TRUE(other);
  Process::Options options;
  options.arguments = {"-c", *other};
  Process shell(options, "/bin/sh");
  ASSERT_EQ(shell.wait(), 0) << shell.err();
  EXPECT_TRUE(shell.out().starts_with("0\n5\n")) << shell.out();
}

}  // namespace
}  // namespace sluice::tests
