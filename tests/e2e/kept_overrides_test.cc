// Overrides that are set over the admin port of a real server with a store on disk: they survive a
// kill, and the store's tools show them.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"

namespace sluice::tests {
namespace {

using Json = nlohmann::json;

const std::string rules =
    "[k=v who=*]\ncreditLimit = 2\nresetSeconds = 600\nactorField = who\nlabel = "
    "theirs\n\n[default]\ncreditLimit = 0\n";

class KeptOverrides : public testing::TestWithParam<const char*> {
 protected:
  struct Served {
    explicit Served(const Process::Options& options) : process(options) {
      divvy = await_listening(process);
      admin = await_listening(process, "admin");
    }
    // Takes a unit, and returns how many are left.
    int left(const std::string& who) const {
      const std::string reply = TcpClient::connect(divvy)->ask("HIT k=v who=" + who);
      EXPECT_TRUE(reply.starts_with("OK true ")) << reply;
      return std::atoi(reply.c_str() + 8);
    }
    void kill() {
      process.signal(SIGKILL);
      EXPECT_EQ(process.wait(), 128 + SIGKILL);
    }
    Process process;
    uint16_t divvy = 0, admin = 0;
  };

  Process::Options options() const {
    return {.arguments = {"divvy", rules_, "--data", data_, "--durability", GetParam(), "--admin",
                          "127.0.0.1:0"},
            .environment = {{"PORT", "0"}, {"SLUICE_LOG_LEVEL", "warn"}}};
  }
  static std::string override_of(const std::string& who, int quota) {
    return R"({"dialect":"divvy","rule":"theirs","actor":")" + who + R"(","limit":{"quota":)" +
           std::to_string(quota) + R"(,"window":"10m","algorithm":"fixed_window"}})";
  }
  // Every override's id, by its actor.
  static std::map<std::string, std::string> listed(const Served& served) {
    std::map<std::string, std::string> all;
    const Json said = Json::parse(http_get(served.admin, "/v1/overrides").body);
    for (const Json& one : said.at("overrides"))
      all[one.at("actor").get<std::string>()] = one.at("id").get<std::string>();
    return all;
  }
  std::string tool(const std::vector<std::string>& words) const {
    std::vector<std::string> all{"store"};
    all.insert(all.end(), words.begin(), words.end());
    const auto finished = run({.arguments = all});
    EXPECT_EQ(finished.status, 0) << finished.err;
    return finished.out;
  }

  Folder folder_;
  const std::string data_ = folder_.path() + "/data";
  const std::string rules_ = folder_.write("rules.ini", rules);
};

TEST_P(KeptOverrides, SurviveAKill) {
  {
    Served served(options());
    EXPECT_EQ(served.left("ann"), 1);
    const auto set = http(served.admin, "POST", "/v1/overrides", override_of("bob", 9));
    EXPECT_EQ(set.status, 201) << set.body;
    const auto two = http(served.admin, "POST", "/v1/overrides",
                          "[" + override_of("cat", 5) + "," + override_of("dan", 6) + "]");
    EXPECT_EQ(two.status, 201) << two.body;
    EXPECT_EQ(served.left("bob"), 8);
    served.kill();
  }
  {
    Served served(options());
    EXPECT_EQ(served.left("cat"), 4);
    EXPECT_EQ(served.left("dan"), 5);
    EXPECT_EQ(served.left("eve"), 1);
    const auto ids = listed(served);
    ASSERT_EQ(ids.size(), 3u);
    // One is changed and one is removed.
    EXPECT_EQ(http(served.admin, "POST", "/v1/overrides", override_of("bob", 20)).status, 200);
    const auto gone = http(served.admin, "DELETE", "/v1/overrides/" + ids.at("dan"));
    EXPECT_EQ(gone.status, 200) << gone.body;
    served.kill();
  }
  // The tools show them.
  EXPECT_EQ(Json::parse(tool({"stats", "--json", data_})).at("texts"), 2);
  EXPECT_EQ(Json::parse(tool({"check", "--json", data_})).at("texts"), 2);
  const std::string dumped = tool({"dump", data_});
  EXPECT_NE(dumped.find("{\"name\":\"o-"), std::string::npos) << dumped;
  EXPECT_NE(tool({"repair", data_}).find("2 texts"), std::string::npos);
  tool({"backup", data_, folder_.path() + "/copy"});
  for (const std::string& path : {data_, folder_.path() + "/copy"}) {
    Process::Options again = options();
    again.arguments[3] = path;
    const Served served(again);
    const auto ids = listed(served);
    EXPECT_EQ(ids.size(), 2u);
    EXPECT_TRUE(ids.contains("bob") && ids.contains("cat"));
    EXPECT_EQ(served.left("dan"), 1);
    EXPECT_EQ(served.left("bob"), 19);
  }
}

// An override of one of a native rule's two limits leaves the other one to the rule, also if the
// rules were edited while no server ran. One that replaces all limits does so after a restart as
// well.
TEST_P(KeptOverrides, KeepTheRulesOtherLimits) {
  const auto config = [&](const std::string& day) {
    return folder_.write(
        "sluice.yaml",
        "listen: [{ protocol: divvy, address: \"127.0.0.1:0\" }, { protocol: admin, address: "
        "\"127.0.0.1:0\" }]\n"
        "store: { path: \"" +
            folder_.path() + "/native\", durability: " + GetParam() +
            " }\n"
            "rules: [{ name: api, match: { who: '*' }, actor: who, limits: [{ quota: 3, window: 1h "
            "}, "
            "{ quota: " +
            day + ", window: 1d, algorithm: fixed_window }] }]\n");
  };
  const auto served = [](const std::string& file) {
    return Served({.arguments = {"serve", "--config", file, "--log-level", "warn"}});
  };
  const auto shown = [](const Served& server, const std::string& actor) {
    const Json all = Json::parse(http_get(server.admin, "/v1/overrides?actor=" + actor).body);
    std::string text;
    for (const Json& limit : all.at("overrides").at(0).at("limits"))
      text += std::to_string(limit.at("quota").get<int>()) + " ";
    return text + all.at("overrides").at(0).at("all_limits").dump();
  };
  const std::string one = R"({"rule":"api","actor":"one","limit":{"quota":50,"window":"1h"}})",
                    all = R"({"rule":"api","actor":"all","limit":{"quota":50,"window":"1h"},)"
                          R"("all_limits":true})";
  {
    Served server = served(config("20"));
    EXPECT_EQ(server.left("one"), 2);
    for (const std::string& body : {one, all})
      EXPECT_EQ(http(server.admin, "POST", "/v1/overrides", body).status, 201);
    EXPECT_EQ(server.left("one"), 18);
    EXPECT_EQ(server.left("all"), 49);
    server.kill();
  }
  const Served server = served(config("10"));
  EXPECT_EQ(shown(server, "one"), "50 10 false");
  EXPECT_EQ(shown(server, "all"), "50 true");
  EXPECT_LT(server.left("one"), 10);
}

INSTANTIATE_TEST_SUITE_P(Each, KeptOverrides, testing::Values("interval", "always"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace sluice::tests
