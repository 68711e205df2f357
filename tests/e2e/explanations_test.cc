// Explanations over the admin port of the real binary, on every store: each says what the same
// request is then answered.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/counters_world.h"
#include "tests/support/droplet_client.h"
#include "tests/support/limitd_client.h"

namespace sluice::tests::counters_test {
namespace {

class Explanations : public testing::TestWithParam<Kept> {};
INSTANTIATE_TEST_SUITE_P(Stores, Explanations,
                         testing::Values(Kept::memory, Kept::interval, Kept::always, Kept::redis),
                         name_of);

// The verdict that an explanation of `body` gives.
Json verdict_of(World& world, const std::string& body) {
  const Said said = world.explain(body);
  EXPECT_EQ(said.status, 200) << said.body;
  return said.body.at("verdict");
}

TEST_P(Explanations, PredictTheNextAnswer) {
  World world(GetParam());
  const std::string divvy = R"({"protocol": "divvy", "descriptor": {"k": "v", "who": "me"}})";
  for (int i = 0; i < 3; ++i) {
    const Json said = verdict_of(world, divvy);
    EXPECT_EQ(said.at("allowed"), true);
    EXPECT_EQ(said.at("remaining"), 99 - i);
    EXPECT_EQ(world.hit("k=v who=me").substr(0, 11), "OK true " + std::to_string(99 - i) + " ");
  }
  const Json rules = world.explain(divvy).body.at("rules");
  ASSERT_EQ(rules.size(), 3u) << rules;
  EXPECT_EQ(rules[0].at("rule"), "per-tenant");
  EXPECT_EQ(rules[0].at("applies"), false);
  EXPECT_EQ(rules[0].at("mismatch").at("value"), nullptr);
  EXPECT_EQ(rules[1].at("mode"), "shadow");
  EXPECT_EQ(rules[1].at("has_say"), false);
  EXPECT_EQ(rules[1].at("decisions").at(0).at("allowed"), false) << "after three";
  EXPECT_EQ(rules[2].at("counter"), me);
  EXPECT_EQ(rules[2].at("has_say"), true);
  EXPECT_EQ(world.explain(divvy).body.at("unreached"), 4);
}

// The canary and the rule after it share a counter.
TEST_P(Explanations, ChargeACanaryBeforeTheRuleThatFollows) {
  World world(GetParam());
  const std::string both = R"({"protocol": "divvy", "descriptor": {"shadowed": "1"}})";
  EXPECT_EQ(verdict_of(world, both).at("remaining"), 0);
  EXPECT_EQ(world.hit("shadowed=1").substr(0, 9), "OK true 0");
  EXPECT_EQ(verdict_of(world, both).at("allowed"), false);
  EXPECT_EQ(world.hit("shadowed=1").substr(0, 8), "OK false");
}

TEST_P(Explanations, AllowSeveralLimitsAllOrNothing) {
  World world(GetParam());
  const std::string tenant =
      R"({"protocol": "divvy", "cost": 6, "descriptor":
          [{"key": "tenant", "value": "acme"}, {"key": "api", "value": "x"}]})";
  EXPECT_EQ(verdict_of(world, tenant).at("allowed"), true);
  EXPECT_EQ(verdict_of(world, tenant).at("remaining"), 4);
  ASSERT_EQ(world.put("native:per-tenant:acme%7Cx:tenant,api", "{\"used\": 10}").status, 200);
  const Json said = verdict_of(world, tenant);
  EXPECT_EQ(said.at("allowed"), false);
  EXPECT_GT(said.at("retry_after"), 3000);
}

TEST_P(Explanations, CountLimitdsWaitingRequests) {
  World world(GetParam());
  // A take after a wait for more units than the bucket has.
  auto limitd = world.limitd();
  limitd.take("fixed", "w", 2);
  const std::string waits = limitd.send(LimitdAsked{LimitdMethod::wait, "fixed", "w", 3});
  limitd.ask({LimitdMethod::ping, "", ""});
  const std::string take = R"({"protocol": "limitd", "descriptor": {"type": "fixed", "key": "w"}})";
  const Json said = verdict_of(world, take);
  EXPECT_EQ(said.at("allowed"), false);
  EXPECT_EQ(said.at("remaining"), 0);
  EXPECT_FALSE(limitd.take("fixed", "w", 1).conformant);
  EXPECT_EQ(
      verdict_of(world, R"({"protocol": "limitd", "descriptor": {"type": "none", "key": "w"}})")
          .at("matched"),
      false);
}

TEST_P(Explanations, UseTheLimitsOfADropletRequest) {
  World world(GetParam());
  const std::string bucket =
      R"({"protocol": "droplet", "descriptor": {"bucket": "e"}, "cost": 4,
          "limits": [{"quota": 10, "window": "1m"}, {"quota": 5, "window": "1h"}]})";
  EXPECT_EQ(verdict_of(world, bucket).at("remaining"), 1);
  EXPECT_TRUE(world.drop({.bucket = "e", .count = 4, .limits = {{"lm", 10}, {"lh", 5}}}).accept);
  EXPECT_EQ(verdict_of(world, bucket).at("allowed"), false);
  EXPECT_FALSE(world.drop({.bucket = "e", .count = 4, .limits = {{"lm", 10}, {"lh", 5}}}).accept);
}

TEST_P(Explanations, RejectInvalidRequests) {
  World world(GetParam());
  const Json said = verdict_of(world, R"({"protocol": "divvy", "descriptor": {"bad": "x"}})");
  EXPECT_TRUE(said.contains("error")) << said;
  EXPECT_EQ(verdict_of(world, R"({"protocol": "divvy"})").at("allowed"), false)
      << "denied by default";
  for (const char* wrong :
       {"", "[]", "{}", R"({"protocol": "nosuch"})", R"({"protocol": "divvy", "x": 1})",
        R"({"protocol": "divvy", "descriptor": {"a": 1}})", R"({"protocol": "divvy", "cost": 1.5})",
        R"({"protocol": "divvy", "cost": -1})", R"({"protocol": "divvy", "limits": []})",
        R"({"protocol": "divvy", "descriptor": [{"key": "a"}]})",
        R"({"protocol": "droplet", "limits": [{"quota": 1, "window": "2m"}]})",
        R"({"protocol": "droplet", "limits": [{"quota": 0, "window": "1m"}]})"})
    EXPECT_EQ(world.explain(wrong).status, 422) << wrong;
}

}  // namespace
}  // namespace sluice::tests::counters_test
