// One server with one worker whose holds are in a real Redis, asked as workers ask: what the tests
// of several such servers have in common. All counters have one limit. For one thread.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "limit/limit.h"
#include "store/hold_book.h"
#include "tests/redis/cluster_world.h"
#include "tests/redis/store_world.h"
#include "tests/support/redis_cluster.h"

namespace sluice::redis {

// The Redis of a test: one of its own, or a cluster that the tests of a process share.
class HoldRedis {
 public:
  explicit HoldRedis(bool in_cluster) {
    if (!in_cluster) {
      one_ = std::make_unique<tests::RedisServer>();
      return;
    }
    static tests::RedisCluster the_cluster;
    cluster_ = &the_cluster;
    for (size_t i = 0; i < cluster_->size(); ++i) cluster_->node(i).client()({"FLUSHALL"});
  }
  Options options() const {
    return cluster_ == nullptr ? StoreWorld::options_for(*one_)
                               : ClusterWorld::options_for(*cluster_);
  }
  // Servers connect to the nodes of a cluster when they need them.
  bool is_cluster() const { return cluster_ != nullptr; }
  // The settings of a server that uses it, in YAML.
  std::string settings() const {
    std::string nodes;
    for (const Node& node : options().nodes)
      nodes += (nodes.empty() ? "\"" : ", \"") + node.host + ":" + std::to_string(node.port) + "\"";
    return "nodes: [" + nodes + "]" + (cluster_ == nullptr ? "" : ", cluster: true");
  }
  // The names of all keys of that pattern.
  std::vector<std::string> keys(const std::string& pattern) const {
    std::vector<std::string> all;
    const auto add = [&](const tests::RedisServer& node) {
      for (const tests::RedisReply& key : node.client()({"KEYS", pattern}).list)
        all.push_back(key.text);
    };
    if (cluster_ == nullptr) add(*one_);
    for (size_t i = 0; cluster_ != nullptr && i < cluster_->size(); ++i) add(cluster_->node(i));
    return all;
  }

 private:
  std::unique_ptr<tests::RedisServer> one_;
  tests::RedisCluster* cluster_ = nullptr;
};

// Tests with one Redis, and with a Redis Cluster.
class InEachRedis : public testing::TestWithParam<bool> {
 protected:
  const HoldRedis redis{GetParam()};
};
inline std::string redis_of(const testing::TestParamInfo<bool>& in) {
  return in.param ? "Cluster" : "One";
}

class HoldServer {
 public:
  HoldServer(const Options& options, const limit::Limit& limit,
             const store::HoldBook::Options& holds = {})
      : limit_(limit), world_(options), book_(world_.store().make_holds(holds)) {
    space_ = world_.spaces.hold("test:", "", {});
    id_ = world_.spaces.hold_limits({&limit_, 1});
  }

  request::HoldCall settle(request::HoldAsk what, std::string_view id,
                           std::vector<int64_t> units = {}) {
    request::HoldCall call{.ask = what, .id = id, .units = std::move(units)};
    EXPECT_TRUE(world_.ask_book([&](const store::HoldBook::Asker& asker) {
      return book_->settle(call, world_.now(), asker);
    }));
    return call;
  }
  // How many units, or places, of the counter are used. `key` must live until then.
  int64_t used(std::string_view key) {
    std::vector<limit::Decision> decisions;
    world_.ask({charge(key, request::Verb::peek, 0)}, decisions);
    return limit_.quota - decisions[0].remaining;
  }
  // Waits until as many are used. False: not in time.
  bool await_used(std::string_view key, int64_t units) {
    const auto deadline = tests::soon();
    while (used(key) != units) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  // `key` must live as long.
  request::Charge charge(std::string_view key, request::Verb verb, int64_t units) const {
    return {.space = space_.get(),
            .key = key,
            .verb = verb,
            .cost = units,
            .limits = {&limit_, 1},
            .limits_id = id_.id()};
  }
  store::HoldBook& book() { return *book_; }
  StoreWorld& world() { return world_; }

 protected:
  const limit::Limit limit_;
  StoreWorld world_;
  const std::unique_ptr<store::HoldBook> book_;
  request::SpaceRef space_;
  request::LimitsRef id_;
};

}  // namespace sluice::redis
