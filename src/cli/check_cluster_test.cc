// `sluice check` of rules whose counters a Redis Cluster has in several slots.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/command_test.h"

namespace sluice::cli::check_cluster_test {
namespace {

using nlohmann::json;

using CheckForCluster = CommandTest;

// With both settings the rules are named; with a single Redis there is only one place.
TEST_F(CheckForCluster, NamesRulesThatSettleOverSeveralSlots) {
  const std::string rules =
      "rules:\n"
      "  - { name: u, match: { user: \"*\" }, actor: user, limit: { quota: 5, window: 1m }, then: "
      "continue }\n"
      "  - { name: t, match: { tenant: \"*\" }, actor: tenant, limit: { quota: 5, window: 1m } }\n";
  const auto with = [&](const std::string& redis) {
    return file("sluice.yaml", rules + "store: { redis: { nodes: [\"a:1\"]" + redis + " } }\n");
  };
  for (const char* refuses : {", cluster: true", ", cluster: true, across_slots: refuse"}) {
    EXPECT_EQ(command({"check", with(refuses)}), 1);
    EXPECT_TRUE(said(err, "sluice.yaml:3: error: rule t: settles together with rule u (line 2)"))
        << err;
    EXPECT_TRUE(said(err, "write `across_slots: settle`")) << err;
    EXPECT_EQ(out, "");
  }
  EXPECT_EQ(command({"check", with(", cluster: true, across_slots: settle")}), 0) << err;
  EXPECT_EQ(err, "");
  EXPECT_TRUE(said(out, ": settle slot by slot: rule u (line 2), rule t (line 3)\n")) << out;
  EXPECT_EQ(command({"check", "--json", with(", cluster: true, across_slots: settle")}), 0);
  EXPECT_EQ(json::parse(out)["files"][0]["across_slots"][0], "rule u (line 2), rule t (line 3)");
  EXPECT_EQ(command({"check", with("")}), 0) << err;
  EXPECT_FALSE(said(out, "slot by slot")) << out;
}

TEST_F(CheckForCluster, WarnsOfShadowRulesThatAClusterWillRefuse) {
  const auto with = [&](const std::string& redis) {
    return file("sluice.yaml",
                "rules:\n"
                "  - { name: u, match: { user: \"*\" }, actor: user, limit: { quota: 5, window: "
                "1m }, then: continue }\n"
                "  - { name: t, match: { tenant: \"*\" }, actor: tenant, mode: shadow, limit: { "
                "quota: 5, window: 1m } }\n"
                "store: { redis: { nodes: [\"a:1\"]" +
                    redis + " } }\n");
  };
  EXPECT_EQ(command({"check", with(", cluster: true")}), 0) << err;
  EXPECT_TRUE(said(err,
                   "sluice.yaml:3: warning: rule t: is refused without `mode: shadow`: it "
                   "then settles together with rule u (line 2)"))
      << err;
  EXPECT_EQ(command({"check", "--strict", with(", cluster: true")}), 1);
  for (const char* settles : {", cluster: true, across_slots: settle", ""}) {
    EXPECT_EQ(command({"check", with(settles)}), 0) << err;
    EXPECT_EQ(err, "");
  }
}

// A server's flags and variables may name the Redis, beside other settings in the file.
TEST_F(CheckForCluster, KnowsTheRedisThatFlagsAndVariablesName) {
  const std::string rules =
      "rules:\n"
      "  - { name: u, match: { user: \"*\" }, actor: user, limit: { quota: 5, window: 1m }, then: "
      "continue }\n"
      "  - { name: t, match: { tenant: \"*\" }, actor: tenant, limit: { quota: 5, window: 1m } }\n";
  const auto plain = file("plain.yaml", rules);
  const auto settles = file("settles.yaml", rules + "store: { redis: { across_slots: settle } }\n");
  EXPECT_EQ(command({"check", plain}), 0) << err;
  EXPECT_EQ(command({"check", settles}), 1);
  EXPECT_TRUE(said(err, "settles.yaml:4: names no Redis")) << err;
  EXPECT_EQ(command({"check", "--redis", "a:1", plain, settles}), 0) << err;
  EXPECT_EQ(command({"check", "--redis-cluster", "a:1,b:1", plain}), 1);
  EXPECT_TRUE(said(err, "rule t: settles together with rule u (line 2)")) << err;
  EXPECT_EQ(command({"check", "--redis-cluster", "a:1,b:1", settles}), 0) << err;
  variables["SLUICE_REDIS_CLUSTER"] = "a:1";
  EXPECT_EQ(command({"check", plain}), 1);
  EXPECT_TRUE(said(err, "rule t: settles together with rule u (line 2)")) << err;
  EXPECT_EQ(command({"check", settles}), 0) << err;
  EXPECT_TRUE(said(out, ": settle slot by slot: rule u (line 2), rule t (line 3)\n")) << out;
  EXPECT_EQ(command({"check", "--redis", "a:1", plain}), 0) << err;
  variables["SLUICE_REDIS_CLUSTER"] = "a:b";
  EXPECT_EQ(command({"check", plain}), 1);
  EXPECT_TRUE(said(err, "SLUICE_REDIS_CLUSTER: `a:b` is not an address of a Redis")) << err;
}

}  // namespace
}  // namespace sluice::cli::check_cluster_test
