// One server with one worker whose holds are in a real Redis, asked as workers ask: what the tests
// of several such servers have in common. All counters have one limit. For one thread.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "limit/limit.h"
#include "store/hold_book.h"
#include "tests/redis/store_world.h"

namespace sluice::redis {

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
