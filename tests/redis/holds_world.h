// Holds whose counters are in a real Redis of the test or in a Redis Cluster, under a time that the
// test tells: requests of other kinds are calls of the same scripts as a server's. For one thread.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "redis/cluster_map.h"
#include "redis/redis_store.h"
#include "redis/script_call.h"
#include "request/space.h"
#include "store/hold_book.h"
#include "store/holds_model_test.h"
#include "tests/redis/both_stores.h"
#include "tests/support/redis_cluster.h"

namespace sluice::redis {

using store::holds_test::HoldsHere;

class HoldsInRedis final : public HoldsHere {
 public:
  // Of those that are made next. Null: one Redis.
  inline static tests::RedisCluster* cluster = nullptr;

  explicit HoldsInRedis(const store::HoldBook::Options& options) {
    Options its;
    its.nodes.clear();
    const size_t nodes = cluster == nullptr ? 1 : cluster->size();
    for (size_t i = 0; i < nodes; ++i) {
      tests::RedisServer& node = cluster == nullptr ? server() : cluster->node(i);
      clients_.push_back(node.client());
      clients_.back()({"FLUSHALL"});
      its.nodes.push_back({"127.0.0.1", node.port()});
    }
    its.cluster = cluster != nullptr;
    auto opened = RedisStore::open(
        std::move(its), spaces,
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
    EXPECT_TRUE(opened) << opened.problem().text;
    store_ = *std::move(opened);
    book_ = store_->make_holds(options, true);
  }
  store::HoldBook& book() override { return *book_; }
  bool settle(std::vector<request::Charge>& charges, std::vector<limit::Decision>& decisions,
              int64_t now) override {
    bool allowed = false;
    ScriptCall ask{.charges = charges,
                   .key_prefix = "sluice:",
                   .tagged = cluster != nullptr,
                   .told = {now},
                   .now = {now}};
    std::string key;
    append_stored_name(key, charges.front(), "sluice:", cluster != nullptr, {now});
    for (int attempt = 0; attempt < 4; ++attempt) {
      Weight weight;
      const Script& script = script_of(ask, scripts_, texts_, weight);
      std::string bytes;
      append_call(bytes, ask, script, false, scripts_, texts_);
      const tests::RedisReply reply = client_of(key).raw(bytes);
      EXPECT_FALSE(reply.is_error()) << reply.text;
      const ScriptReply said = read_answer(reply.text, charges, decisions, allowed, {now});
      EXPECT_NE(said, ScriptReply::nonsense) << reply.text;
      if (said == ScriptReply::decided || said == ScriptReply::nonsense) return allowed;
      ask.weight = said == ScriptReply::again_wide ? Weight::wide : Weight::full;
    }
    ADD_FAILURE() << "again and again";
    return allowed;
  }
  // A connection to the node that has the key.
  tests::RedisClient& client_of(const std::string& key) {
    if (cluster == nullptr) return clients_.front();
    return clients_[cluster->owner_of(slot_of(key))];
  }
  std::vector<tests::RedisClient>& clients() { return clients_; }
  // A name that begins so; all are in the same slot.
  static std::string named(std::string_view name) {
    static std::map<std::string, std::string, std::less<>> names;
    const auto slot = [](const std::string& actor) {
      std::string tag;
      append_tag(tag, actor);
      return slot_of(tag);
    };
    if (cluster == nullptr) return std::string(name);
    const auto known = names.find(name);
    if (known != names.end()) return known->second;
    std::string found(name);
    for (int i = 0; slot(found) != slot("a"); ++i) found = std::string(name) + std::to_string(i);
    return names[std::string(name)] = found;
  }

 private:
  std::vector<tests::RedisClient> clients_;
  Scripts scripts_{Scripts::Time::told};
  LimitTexts texts_;
  std::unique_ptr<RedisStore> store_;
  std::unique_ptr<store::HoldBook> book_;
};

}  // namespace sluice::redis
