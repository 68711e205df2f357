// `sluice store import-redis` from a Redis of the test into a Redis Cluster of the test, and
// servers on both. Used by one thread, which ends later.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "redis/slots.h"
#include "tests/redis/world.h"
#include "tests/support/redis_cluster.h"

namespace sluice::tests {

inline const std::string imported_rules =
    "rules:\n  - name: api\n    match: { r: \"*\" }\n    actor: r\n    limits:\n"
    "      - { quota: 20, window: 1h }\n"
    "      - { algorithm: token_bucket, quota: 1000, window: 24h, burst: 50 }\n";

// The name that the actor's key has in a cluster.
inline std::string clustered(const std::string& name, const std::string& actor) {
  std::string key = "sluice:";
  redis::append_tag(key, actor);
  return key + name.substr(7);
}

class ImportWorld : public testing::Test {
 protected:
  std::unique_ptr<RedisWorld> old_server() {
    return std::make_unique<RedisWorld>(single.port(), rules, ", deadline_ms: 20000");
  }
  std::unique_ptr<RedisWorld> new_server() {
    return std::make_unique<RedisWorld>(
        cluster.addresses(),
        RedisWorld::Options{
            .rules = rules, .redis = ", cluster: true, deadline_ms: 20000", .connects = false});
  }
  Finished import(const RedisWorld& world, std::vector<std::string> more = {}) {
    std::string nodes;
    for (const std::string& node : cluster.addresses()) nodes += (nodes.empty() ? "" : ",") + node;
    std::vector<std::string> words{
        "store",        "import-redis", "--from",   single.address(),
        "--to-cluster", nodes,          "--config", world.folder().path() + "/sluice.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    return run({.arguments = words});
  }
  nlohmann::json import_json(const RedisWorld& world, std::vector<std::string> more = {}) {
    more.emplace_back("--json");
    const Finished finished = import(world, std::move(more));
    EXPECT_EQ(finished.status, 0) << finished.err;
    return nlohmann::json::parse(finished.out, nullptr, false);
  }
  RedisReply at(const std::vector<std::string>& words) { return cluster.at_owner(words, words[1]); }
  size_t keys_in_cluster() {
    size_t count = 0;
    for (size_t i = 0; i < cluster.size(); ++i)
      count += cluster.node(i).client()({"KEYS", "*"}).list.size();
    return count;
  }

  std::string rules = imported_rules;
  RedisServer single;
  RedisClient client = single.client();
  RedisCluster cluster;
};

}  // namespace sluice::tests
