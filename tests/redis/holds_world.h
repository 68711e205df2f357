// Holds whose counters are in a real Redis of the test, under a time that the test tells: requests
// of other kinds are calls of the same scripts as a server's. For one thread.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "redis/redis_store.h"
#include "redis/script_call.h"
#include "request/space.h"
#include "store/hold_book.h"
#include "store/holds_model_test.h"
#include "tests/redis/both_stores.h"

namespace sluice::redis {

using store::holds_test::HoldsHere;

class HoldsInRedis final : public HoldsHere {
 public:
  explicit HoldsInRedis(const store::HoldBook::Options& options) : client_(server().client()) {
    client_({"FLUSHALL"});
    Options its;
    its.nodes = {{"127.0.0.1", server().port()}};
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
    ScriptCall ask{.charges = charges, .key_prefix = "sluice:", .told = {now}, .now = {now}};
    for (int attempt = 0; attempt < 4; ++attempt) {
      Weight weight;
      const Script& script = script_of(ask, scripts_, texts_, weight);
      std::string bytes;
      append_call(bytes, ask, script, false, scripts_, texts_);
      const tests::RedisReply reply = client_.raw(bytes);
      EXPECT_FALSE(reply.is_error()) << reply.text;
      const ScriptReply said = read_answer(reply.text, charges, decisions, allowed, {now});
      EXPECT_NE(said, ScriptReply::nonsense) << reply.text;
      if (said == ScriptReply::decided || said == ScriptReply::nonsense) return allowed;
      ask.weight = said == ScriptReply::again_wide ? Weight::wide : Weight::full;
    }
    ADD_FAILURE() << "again and again";
    return allowed;
  }
  tests::RedisClient& client() { return client_; }

 private:
  tests::RedisClient client_;
  Scripts scripts_{Scripts::Time::told};
  LimitTexts texts_;
  std::unique_ptr<RedisStore> store_;
  std::unique_ptr<store::HoldBook> book_;
};

}  // namespace sluice::redis
