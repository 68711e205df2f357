// Requests that would take a worker too many steps to compare with the patterns of a policy or of
// overrides, with the real server: the comparison ends early, is counted and logged, and no request
// escapes a rule by it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"

namespace sluice::tests {
namespace {

using Json = nlohmann::json;

const std::string long_value(1'000'000, 'a');

class Matching : public testing::Test {
 protected:
  void serve(const std::string& rules) {
    folder_.write("rules.ini", "[default]\ncreditLimit = 1000\nresetSeconds = 600\n");
    const std::string file = folder_.write(
        "sluice.yaml",
        "listen: [{ protocol: divvy, address: \"127.0.0.1:0\" }, { protocol: admin, address: "
        "\"127.0.0.1:0\" }]\npolicy: [{ divvy: rules.ini }]\nrules:\n" +
            rules);
    process_ = std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", file, "--log-level", "warn"}});
    divvy_ = await_listening(*process_, "divvy");
    admin_ = await_listening(*process_, "admin");
  }
  std::string hit(const std::string& line) const {
    auto client = TcpClient::connect(divvy_);
    client->send("HIT " + line + "\n");
    return client->read_line().value_or("");
  }

  Folder folder_;
  std::unique_ptr<Process> process_;
  uint16_t divvy_ = 0, admin_ = 0;
};

TEST_F(Matching, ARequestThatTakesTooManyStepsIsAnErrorAndCounted) {
  std::string rules;
  for (int i = 0; i < 20; ++i)
    rules += "- { name: r" + std::to_string(i) + ", match: { k: '*x" + std::to_string(i) +
             "' }, deny: true }\n";
  serve(rules);
  EXPECT_EQ(hit("k=abc").substr(0, 11), "OK true 999");
  EXPECT_EQ(hit("k=abcx19"), "OK false 0 -1");
  EXPECT_EQ(hit("k=" + long_value),
            "ERR Internal Error: the request takes too many steps to match with the policy");
  EXPECT_EQ(sample(admin_, "sluice_match_given_up_total"), "1");
  EXPECT_EQ(hit("k=abc").substr(0, 11), "OK true 998");
  EXPECT_TRUE(process_->says("1 requests took more than 4000000 steps to match with the policy"));
}

// The worst case that was found: it took a worker 5.3 s.
TEST_F(Matching, ANearMatchEverywhereIsDecidedQuickly) {
  serve("- { name: r, match: { k: '*" + std::string(4000, 'a') + "b' }, deny: true }\n");
  EXPECT_EQ(hit("k=" + long_value).substr(0, 11), "OK true 999");
  EXPECT_EQ(hit("k=" + long_value + "b"), "OK false 0 -1");
  EXPECT_EQ(sample(admin_, "sluice_match_given_up_total"), "0");
}

TEST_F(Matching, AKeyThatTakesTooManyStepsDoesNotEscapeOverrides) {
  serve("- { name: r, match: { k: '*' }, actor: k, limit: { quota: 5, window: 1h } }\n");
  Json all = Json::array();
  for (int i = 0; i < 60; ++i)
    all.push_back({{"rule", "r"}, {"actor", "*x" + std::to_string(i)}, {"deny", true}});
  const auto set = http(admin_, "POST", "/v1/overrides", all.dump());
  ASSERT_EQ(set.status, 201) << set.body;
  EXPECT_EQ(hit("k=ax"), "OK true 4 720");
  EXPECT_EQ(hit("k=ax7"), "OK false 0 -1");
  EXPECT_EQ(hit("k=" + long_value), "OK false 0 -1");
  EXPECT_EQ(sample(admin_, "sluice_override_match_given_up_total"), "1");
  EXPECT_TRUE(process_->says(
      "1 keys took more than 4000000 steps to compare with the patterns of overrides"));
}

}  // namespace
}  // namespace sluice::tests
