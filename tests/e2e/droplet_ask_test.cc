// `sluice ask droplet` with a real server, and what the server's log says of a request.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/droplet_client.h"

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
