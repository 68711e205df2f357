// The environment variables that name the Redis of Envoy's service: a single one, one behind
// sentinels or a cluster, and a second one for limits per second.
#include "protocol/envoy/environment.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "config/settings.h"
#include "protocol/envoy/commands.h"
#include "protocol/protocol.h"
#include "testing/environment_of.h"

namespace sluice::envoy::environment_test {
namespace {

using redis::Node;
using Nodes = std::vector<Node>;

struct World {
  std::map<std::string, std::string> variables;
  config::Config config = {};

  // Reads the variables into `config`; returns the errors and warnings, "" if none.
  std::string apply() {
    const protocol::Protocol self = *protocol::find("envoy");
    variables.try_emplace("USE_STATSD", "false");
    std::ostringstream out, err;
    const config::CommandIo io{out, err, false, false, tests::environment_of(variables)};
    config.listen = {{{self, {"0.0.0.0", 8081}}, ""}, {{self, {"0.0.0.0", 8080}}, ""}};
    base::Diagnostics diagnostics;
    apply_service_environment(io, config, diagnostics);
    std::string all;
    for (const auto& d : diagnostics) all += base::to_string(d) + "\n";
    return all;
  }
  const redis::Options& redis() const { return config.store.redis->value; }
};

World with(std::map<std::string, std::string> more) {
  more.insert({{"REDIS_SOCKET_TYPE", "tcp"}, {"REDIS_URL", "a:1"}});
  return {more};
}

TEST(EnvoyRedisVariables, WithoutARedisTheCountersAreItsOwn) {
  World none{{}};
  EXPECT_EQ(none.apply(), "");
  EXPECT_FALSE(none.config.store.redis);
  for (const char* name : {"REDIS_TYPE", "REDIS_AUTH", "REDIS_SENTINEL_AUTH", "REDIS_PERSECOND",
                           "REDIS_PERSECOND_URL"}) {
    World lonely{{{name, "1"}}};
    EXPECT_EQ(lonely.apply(),
              "warning: " + std::string(name) +
                  ": is about a Redis, and none is named: sluice keeps the counters itself; set "
                  "REDIS_SOCKET_TYPE=tcp and REDIS_URL=HOST:PORT, or unset it\n");
    EXPECT_FALSE(lonely.config.store.redis);
  }
}

TEST(EnvoyRedisVariables, ASingleOne) {
  World world = with({{"REDIS_AUTH", "secret"}});
  EXPECT_EQ(world.apply(), "");
  EXPECT_EQ(world.redis().nodes, (Nodes{{"a", 1}}));
  EXPECT_FALSE(world.redis().cluster);
  EXPECT_EQ(world.redis().username, "");
  EXPECT_EQ(world.redis().password, "secret");
  EXPECT_FALSE(world.redis().tls);
  EXPECT_EQ(world.redis().deadline, base::seconds(10));
  EXPECT_FALSE(world.redis().has_second());
  World more = with({{"REDIS_TYPE", "single"},
                     {"REDIS_AUTH", "app:se:cret"},
                     {"REDIS_TLS", "t"},
                     {"REDIS_TIMEOUT", "150ms"},
                     {"LOCAL_CACHE_SIZE_IN_BYTES", "1000"}});
  EXPECT_EQ(more.apply(), "");
  EXPECT_EQ(std::pair(more.redis().username, more.redis().password),
            std::pair(std::string("app"), std::string("se:cret")));
  EXPECT_TRUE(more.redis().tls);
  EXPECT_EQ(more.redis().deadline, base::milliseconds(150));
  EXPECT_EQ(more.redis().over_cache_bytes, 1'000u);
}

TEST(EnvoyRedisVariables, AClusterIsNamedBySomeOfItsNodes) {
  for (const char* type : {"CLUSTER", "cluster"}) {
    World world = with({{"REDIS_TYPE", type}, {"REDIS_URL", "a:1,b:2,c"}});
    EXPECT_EQ(world.apply(), "");
    EXPECT_TRUE(world.redis().cluster);
    EXPECT_EQ(world.redis().nodes, (Nodes{{"a", 1}, {"b", 2}, {"c", 6379}}));
    EXPECT_TRUE(world.redis().sentinel.master.empty());
  }
}

TEST(EnvoyRedisVariables, SentinelsFollowThePrimarysName) {
  World world = with({{"REDIS_TYPE", "SENTINEL"},
                      {"REDIS_URL", "counters,s1:26379,s2:26380"},
                      {"REDIS_AUTH", "app:secret"},
                      {"REDIS_SENTINEL_AUTH", "watcher:word"}});
  EXPECT_EQ(world.apply(), "");
  EXPECT_TRUE(world.redis().nodes.empty());
  EXPECT_FALSE(world.redis().cluster);
  EXPECT_EQ(world.redis().sentinel,
            (redis::Sentinels{"counters", {{"s1", 26379}, {"s2", 26380}}, "watcher", "word"}));
  EXPECT_EQ(world.redis().username, "app");
  World by_password =
      with({{"REDIS_TYPE", "SENTINEL"}, {"REDIS_URL", "m,s:1"}, {"REDIS_SENTINEL_AUTH", "word"}});
  EXPECT_EQ(by_password.apply(), "");
  EXPECT_EQ(by_password.redis().sentinel.username, "");
  EXPECT_EQ(by_password.redis().sentinel.password, "word");
  for (const char* url : {"counters", ",s1:26379", "counters,"}) {
    World wrong = with({{"REDIS_TYPE", "SENTINEL"}, {"REDIS_URL", url}});
    EXPECT_TRUE(wrong.apply().starts_with("error: REDIS_URL: names no ")) << url;
  }
}

TEST(EnvoyRedisVariables, TheSecondOneHasAllOfThem) {
  const std::map<std::string, std::string> second{{"REDIS_PERSECOND", "true"},
                                                  {"REDIS_PERSECOND_SOCKET_TYPE", "tcp"},
                                                  {"REDIS_PERSECOND_AUTH", "per:second"},
                                                  {"REDIS_PERSECOND_TLS", "true"}};
  auto single = second, cluster = second, sentinel = second;
  single["REDIS_PERSECOND_URL"] = "b:2";
  cluster["REDIS_PERSECOND_URL"] = "b:2,c:3";
  cluster["REDIS_PERSECOND_TYPE"] = "CLUSTER";
  sentinel["REDIS_PERSECOND_URL"] = "m,s:1";
  sentinel["REDIS_PERSECOND_TYPE"] = "SENTINEL";
  sentinel["REDIS_PERSECOND_SENTINEL_AUTH"] = "watcher:word";
  for (const auto& variables : {single, cluster, sentinel}) {
    World world = with(variables);
    EXPECT_EQ(world.apply(), "");
    const redis::Options& redis = world.redis();
    EXPECT_EQ(redis.nodes, (Nodes{{"a", 1}}));
    EXPECT_FALSE(redis.cluster || redis.tls);
    ASSERT_TRUE(redis.has_second());
    EXPECT_EQ(std::pair(redis.second.username, redis.second.password),
              std::pair(std::string("per"), std::string("second")));
    EXPECT_TRUE(redis.second.tls);
    EXPECT_EQ(redis.second.cluster, variables == cluster);
    if (variables == sentinel)
      EXPECT_EQ(redis.second.sentinel, (redis::Sentinels{"m", {{"s", 1}}, "watcher", "word"}));
    else
      EXPECT_EQ(redis.second.nodes.size(), variables == cluster ? 2u : 1u);
  }
}

TEST(EnvoyRedisVariables, ReportInvalidValues) {
  const auto wrong = [](std::map<std::string, std::string> variables) {
    World world = with(std::move(variables));
    return world.apply();
  };
  EXPECT_EQ(wrong({{"REDIS_TYPE", "RING"}}),
            "error: REDIS_TYPE: `RING` is not a type of Redis; set it to SINGLE, CLUSTER or "
            "SENTINEL\n");
  EXPECT_TRUE(wrong({{"REDIS_SOCKET_TYPE", "unix"}})
                  .starts_with("error: REDIS_SOCKET_TYPE: Redis is reached over TCP only"));
  EXPECT_TRUE(wrong({{"REDIS_TIMEOUT", "0s"}})
                  .starts_with("error: REDIS_TIMEOUT: an answer cannot come in no time"));
  std::map<std::string, std::string> second{{"REDIS_PERSECOND", "true"}};
  EXPECT_TRUE(wrong(second).starts_with("error: REDIS_PERSECOND_SOCKET_TYPE: "));
  second["REDIS_PERSECOND_SOCKET_TYPE"] = "tcp";
  EXPECT_TRUE(wrong(second).starts_with("error: REDIS_PERSECOND_URL: names no Redis"));
  second["REDIS_PERSECOND_URL"] = "b:2";
  second["REDIS_PERSECOND_TYPE"] = "RING";
  EXPECT_TRUE(wrong(second).starts_with("error: REDIS_PERSECOND_TYPE: `RING`"));
  second.erase("REDIS_PERSECOND_TYPE");
  second["STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"] = "true";
  EXPECT_TRUE(wrong(second).starts_with("error: REDIS_PERSECOND: does not go together with"));
  for (const char* name : {"REDIS_PERSECOND_POOL_SIZE", "REDIS_CLUSTER_PIPELINE_PARALLELISM"})
    EXPECT_EQ(wrong({{name, "5"}}),
              "warning: " + std::string(name) + ": has no effect here; it may be unset\n");
}

}  // namespace
}  // namespace sluice::envoy::environment_test
