// `sluice ask droplet` with a real server, and what the server's log says of a request.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/droplet_client.h"
#include "tests/support/paths.h"

namespace sluice::tests {
namespace {

using nlohmann::json;

class DropletAsk : public testing::Test {
 protected:
  // The output. The exit code must be `status`.
  std::string ask(std::vector<std::string> words, int status) const {
    words.insert(words.begin(), {"ask", "droplet", "--timeout", "20000", "--server",
                                 "localhost:" + std::to_string(server_.port())});
    const auto finished = run({.arguments = words});
    EXPECT_EQ(finished.status, status) << finished.err;
    return finished.out;
  }

  DropletServer server_;
};

TEST_F(DropletAsk, PrintsTheRemainingUnits) {
  EXPECT_EQ(ask({"query", "jar"}, 0), "no limits are known of it\n");
  EXPECT_EQ(ask({"take", "jar", "--lh", "10", "--lo", "1k"}, 0),
            "allowed: 9 left per hour, 999 per month\n");
  EXPECT_EQ(ask({"take", "jar", "--count", "12", "--lh", "10", "--lo", "1000"}, 1),
            "denied: 3 too many per hour\n");
  EXPECT_EQ(ask({"query", "jar"}, 0), "9 left per hour, 999 per month\n");
  EXPECT_EQ(ask({"take", "jar"}, 0), "allowed: no limit applies\n");
  EXPECT_EQ(ask({"take", "--count", "-3", "--ld", "5", "jar"}, 0), "allowed: 5 left per day\n");
  EXPECT_EQ(ask({"take", "jar", "--reset", "--lw", "7", "--count", "0"}, 0),
            "allowed: 7 left per week\n");
  EXPECT_EQ(ask({"take", "--count", "1", "--", "--odd name"}, 0), "allowed: no limit applies\n");
}

TEST_F(DropletAsk, SaysItInJson) {
  EXPECT_EQ(json::parse(ask({"take", "jar", "--ld", "4", "--json"}, 0)),
            json::parse(R"({"allowed": true, "left": {"ld": 3}})"));
  EXPECT_EQ(json::parse(ask({"take", "jar", "--ld", "4", "--count", "4", "--json"}, 1)),
            json::parse(R"({"allowed": false, "left": {"ld": -1}})"));
  EXPECT_EQ(json::parse(ask({"query", "jar", "--json"}, 0)), json::parse(R"({"left": {"ld": 3}})"));
  EXPECT_EQ(json::parse(ask({"query", "other", "--json"}, 0)), json::parse(R"({"left": {}})"));
}

TEST_F(DropletAsk, SaysWhyItGotNoDecision) {
  const auto divvy = DivvyServer("rules.ini", "[default]\ncreditLimit = 1\nresetSeconds = 60\n");
  const auto wrong =
      run({.arguments = {"ask", "droplet", "--timeout", "20000", "--server",
                         "127.0.0.1:" + std::to_string(divvy.port()), "query", "x"}});
  EXPECT_EQ(wrong.status, 3);
  EXPECT_NE(wrong.err.find("error: "), std::string::npos) << wrong.err;
  DropletServer full({.arguments = {"--connections", "1"}});
  const DropletClient first = full.client();
  const auto refused =
      run({.arguments = {"ask", "droplet", "--timeout", "20000", "--server",
                         "127.0.0.1:" + std::to_string(full.port()), "query", "x"}});
  EXPECT_EQ(refused.status, 3);
  EXPECT_NE(refused.err.find("the server refused: 503"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("too many connections"), std::string::npos) << refused.err;
}

// The README's commands with a fresh server print what the README shows.
TEST_F(DropletAsk, SaysWhatTheReadmeShows) {
  std::ifstream readme(tests::source_path("README.md"));
  std::string line;
  while (std::getline(readme, line) && line != "## From droplet to sluice") continue;
  while (std::getline(readme, line) && line != "```console") continue;
  int commands = 0;
  for (std::string said; std::getline(readme, line) && line != "```";) {
    const std::string begin = "$ sluice ask droplet ";
    ASSERT_TRUE(line.starts_with(begin)) << line;
    ASSERT_TRUE(std::getline(readme, said));
    std::istringstream rest(line.substr(begin.size()));
    std::vector<std::string> words;
    for (std::string word; rest >> word;) words.push_back(word);
    EXPECT_EQ(ask(words, said.starts_with("denied") ? 1 : 0), said + "\n") << line;
    ++commands;
  }
  EXPECT_EQ(commands, 3);
}

TEST(DropletLog, ShowsTheIdOfARequestAtDebug) {
  DropletServer server({.arguments = {"--log-level", "debug"}});
  DropletClient client = server.client();
  client.ask({.bucket = "jar", .id = "order\n4711", .limits = {{"lh", 10}, {"lo", 20}}});
  EXPECT_TRUE(server.process().says("droplet: take bucket=jar id order\\n4711 | "))
      << server.process().err();
  EXPECT_TRUE(server.process().says("allowed, 9 of 10 left, 19 of 20 left"));
  // Without limits the line shows no remaining units.
  client.ask({.bucket = "jar", .id = "bare"});
  EXPECT_TRUE(server.process().says("droplet: take bucket=jar id bare | "))
      << server.process().err();
  client.ask({.bucket = "absent", .id = "look", .query = true});
  EXPECT_TRUE(server.process().says("droplet: peek bucket=absent id look | "));
  // The line shortens a long id.
  client.ask({.bucket = "jar", .id = std::string(100'000, 'x')});
  EXPECT_TRUE(server.process().says("id " + std::string(256, 'x') + "... |"));
}

}  // namespace
}  // namespace sluice::tests
