// Settings of a Redis Cluster and of sentinels, from the file, variables and flags.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "config/settings.h"
#include "testing/environment_of.h"

namespace sluice::config::redis_settings_test {
namespace {

using redis::Node;
using Nodes = std::vector<Node>;

std::string text_of(const base::Diagnostics& diagnostics) {
  std::string all;
  for (const auto& d : diagnostics) all += base::to_string(d) + "\n";
  return all;
}

// Applies a file, then variables, then flags, as a start does, and returns what is wrong.
struct World {
  std::string file;  // the keys of store.redis; empty: no store
  std::map<std::string, std::string> variables = {};
  Flags flags = {};
  Config config = {};

  std::string apply() {
    std::ostringstream out, err;
    const CommandIo io{out, err, false, false, tests::environment_of(variables)};
    base::Diagnostics diagnostics;
    read_config("policy: [{ divvy: a.ini }]\n" +
                    (file.empty() ? "" : "store: { redis: { " + file + " } }\n"),
                "sluice.yaml", config, diagnostics);
    if (diagnostics.empty()) apply_environment(io, config, diagnostics);
    if (diagnostics.empty()) apply_flags(flags, config, diagnostics);
    if (diagnostics.empty()) check_store(config, diagnostics);
    return text_of(diagnostics);
  }
  const redis::Options& redis() const { return config.store.redis->value; }
};

std::string problem(const std::string& file) {
  World world{file};
  return world.apply();
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(RedisClusterSettings, AreNamedByFileVariableOrFlag) {
  World by_file{"cluster: true, nodes: [\"a:1\", \"b\"]"};
  EXPECT_EQ(by_file.apply(), "");
  EXPECT_TRUE(by_file.redis().cluster);
  EXPECT_EQ(by_file.redis().nodes, (Nodes{{"a", 1}, {"b", 6379}}));

  World by_variable{"", {{"SLUICE_REDIS_CLUSTER", "a:1,[::1]:2,c"}}};
  EXPECT_EQ(by_variable.apply(), "");
  EXPECT_TRUE(by_variable.redis().cluster);
  EXPECT_EQ(by_variable.redis().nodes, (Nodes{{"a", 1}, {"::1", 2}, {"c", 6379}}));
  EXPECT_EQ(by_variable.config.store.redis->origin, "SLUICE_REDIS_CLUSTER");

  World by_flag{""};
  by_flag.flags.given["--redis-cluster"] = "a:1";
  EXPECT_EQ(by_flag.apply(), "");
  EXPECT_TRUE(by_flag.redis().cluster);
  EXPECT_EQ(by_flag.config.store.redis->origin, "--redis-cluster");
}

// The last source says which servers are meant; the file's other settings stay.
TEST(RedisClusterSettings, FlagsOverrideVariablesWhichOverrideTheFile) {
  const std::string more = ", key_prefix: \"p:\", across_slots: settle, deadline_ms: 70";
  World world{"nodes: [\"file:1\"]" + more, {{"SLUICE_REDIS_CLUSTER", "variable:1"}}};
  EXPECT_EQ(world.apply(), "");
  EXPECT_TRUE(world.redis().cluster);
  EXPECT_EQ(world.redis().nodes, (Nodes{{"variable", 1}}));
  EXPECT_EQ(world.redis().key_prefix, "p:");
  EXPECT_TRUE(world.redis().settles_across_slots);
  EXPECT_EQ(world.redis().deadline, base::milliseconds(70));

  World single{"cluster: true, nodes: [\"file:1\"]" + more, {{"SLUICE_REDIS_CLUSTER", "b:1"}}};
  single.flags.given["--redis"] = "flag:1";
  EXPECT_EQ(single.apply(), "");
  EXPECT_FALSE(single.redis().cluster);
  EXPECT_EQ(single.redis().nodes, (Nodes{{"flag", 1}}));

  World sentinels{"sentinel: { master: m, nodes: [\"s:1\"] }", {{"SLUICE_REDIS_CLUSTER", "b:1"}}};
  EXPECT_EQ(sentinels.apply(), "");
  EXPECT_TRUE(sentinels.redis().cluster);
  EXPECT_TRUE(sentinels.redis().sentinel.master.empty());
}

// A file may have settings of a Redis that a flag or a variable names.
TEST(RedisClusterSettings, TheFileMayLeaveTheNodesToOthers) {
  const std::string more = "across_slots: settle, deadline_ms: 70";
  World variable{more, {{"SLUICE_REDIS_CLUSTER", "b:1,c:2"}}};
  World flag{more};
  flag.flags.given["--redis-cluster"] = "b:1,c:2";
  for (World* world : {&variable, &flag}) {
    EXPECT_EQ(world->apply(), "");
    EXPECT_TRUE(world->redis().cluster);
    EXPECT_EQ(world->redis().nodes, (Nodes{{"b", 1}, {"c", 2}}));
    EXPECT_TRUE(world->redis().settles_across_slots);
    EXPECT_EQ(world->redis().deadline, base::milliseconds(70));
  }
  World single{"deadline_ms: 70", {{"SLUICE_REDIS", "b:1"}}};
  EXPECT_EQ(single.apply(), "");
  EXPECT_EQ(single.redis().nodes, (Nodes{{"b", 1}}));
  EXPECT_EQ(single.redis().deadline, base::milliseconds(70));
}

TEST(RedisClusterSettings, ReportInvalidSettings) {
  EXPECT_TRUE(has(problem("cluster: true, nodes: [\"a:1\"], database: 1"),
                  "Redis Cluster has no database 1; take `database` out"));
  EXPECT_TRUE(has(problem("cluster: true, nodes: [\"a:1\"], key_prefix: \"{x}:\""),
                  "key_prefix has a brace, and in Redis Cluster braces decide which node"));
  EXPECT_TRUE(
      has(problem("cluster: perhaps, nodes: [\"a:1\"]"), "`perhaps` is neither true nor false"));
  for (const char* keys : {"cluster: true", "database: 1", "across_slots: settle"})
    EXPECT_TRUE(has(problem(keys), "error: sluice.yaml:2: names no Redis; write")) << keys;
  World empty{"", {{"SLUICE_REDIS_CLUSTER", ","}}};
  EXPECT_TRUE(has(empty.apply(), "SLUICE_REDIS_CLUSTER"));
  World flag{""};
  flag.flags.given["--redis-cluster"] = "a:b";
  EXPECT_TRUE(has(flag.apply(), "error: --redis-cluster: `a:b` is not an address of a Redis"));
  World database{"nodes: [\"a:1\"], database: 2", {{"SLUICE_REDIS_CLUSTER", "b:1"}}};
  EXPECT_TRUE(has(database.apply(), "SLUICE_REDIS_CLUSTER: Redis Cluster has no database 2"));
}

const std::string sentinel =
    "sentinel: { master: counters, nodes: [\"s1\", \"s2:7\"], username: su, password: sp }, "
    "username: u, password: p, tls: true, database: 3";

TEST(RedisSentinelSettings, HaveTheirOwnUser) {
  World world{sentinel};
  EXPECT_EQ(world.apply(), "");
  const redis::Options& redis = world.redis();
  EXPECT_TRUE(redis.nodes.empty());
  EXPECT_EQ(redis.sentinel, (redis::Sentinels{"counters", {{"s1", 26379}, {"s2", 7}}, "su", "sp"}));
  EXPECT_EQ(std::pair(redis.username, redis.password),
            std::pair(std::string("u"), std::string("p")));
  EXPECT_TRUE(redis.tls);
  EXPECT_EQ(redis.database, 3);
}

TEST(RedisSentinelSettings, ApplyToTheSecondRedisAsWell) {
  World world{"nodes: [\"a:1\"], per_second: { " + sentinel + " }"};
  EXPECT_EQ(world.apply(), "");
  EXPECT_EQ(world.redis().second.sentinel.master, "counters");
  EXPECT_EQ(world.redis().second.sentinel.password, "sp");
  EXPECT_EQ(world.redis().second.username, "u");
  EXPECT_TRUE(world.redis().has_second());
  World cluster{"nodes: [\"a:1\"], per_second: { cluster: true, nodes: [\"b:1\"] }"};
  EXPECT_EQ(cluster.apply(), "");
  EXPECT_TRUE(cluster.redis().second.cluster);
  EXPECT_FALSE(cluster.redis().cluster);
}

TEST(RedisSentinelSettings, ReportInvalidSettings) {
  for (const char* incomplete : {"sentinel: { master: m }", "sentinel: { nodes: [\"s:1\"] }"})
    EXPECT_TRUE(has(problem(incomplete), "names no primary, or no sentinels; write `sentinel: {"))
        << incomplete << ": " << problem(incomplete);
  EXPECT_TRUE(has(problem("sentinel: { master: m, nodes: [] }"),
                  "nodes: must be a list with at least one entry"));
  EXPECT_TRUE(has(problem("sentinel: { master: \"\", nodes: [\"s:1\"] }"),
                  "master: has no value; write one value, or take the key out"));
  for (const char* both : {"sentinel: { master: m, nodes: [\"s:1\"] }, nodes: [\"a:1\"]",
                           "nodes: [\"a:1\"], sentinel: { master: m, nodes: [\"s:1\"] }",
                           "sentinel: { master: m, nodes: [\"s:1\"] }, cluster: true"})
    EXPECT_TRUE(has(problem(both), "`sentinel` excludes `nodes` and `cluster`")) << both;
  EXPECT_TRUE(
      has(problem("nodes: [\"a:1\"], per_second: { nodes: [\"b:1\"], sentinel: { master: m, "
                  "nodes: [\"s:1\"] } }"),
          "`sentinel` excludes `nodes` and `cluster`"));
  EXPECT_TRUE(has(problem("sentinel: { master: m, nodes: [\"s:1\"], tls: true }"), "tls"));
}

// A password is never printed; everything else is read back as the same.
TEST(RedisSentinelSettings, ReadBackTheSameAfterPrinting) {
  for (const std::string& file :
       {sentinel, std::string("cluster: true, nodes: [\"a:1\", \"[::1]:2\"], username: u"),
        "nodes: [\"a:1\"], per_second: { " + sentinel + " }"}) {
    World world{file};
    EXPECT_EQ(world.apply(), "");
    const std::string printed = print_config(world.config);
    EXPECT_FALSE(has(printed, "sp\"")) << printed;
    Config again;
    base::Diagnostics diagnostics;
    read_config(printed, "/elsewhere/b.yaml", again, diagnostics);
    EXPECT_EQ(text_of(diagnostics), "") << printed;
    ASSERT_TRUE(again.store.redis) << printed;
    redis::Options expected = world.redis();
    expected.password = expected.second.password = "";
    expected.sentinel.password = expected.second.sentinel.password = "";
    EXPECT_TRUE(again.store.redis->value == expected) << printed;
  }
}

}  // namespace
}  // namespace sluice::config::redis_settings_test
