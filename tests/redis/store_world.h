// A server's store whose counters are in a test's own Redis, and one worker of it, whose turns the
// test takes. For one thread.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/sinks/ringbuffer_sink.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "redis/loop_test.h"
#include "redis/redis_store.h"
#include "tests/support/patience.h"
#include "tests/support/redis_server.h"

namespace sluice::redis {

class StoreWorld {
 public:
  // At that Redis, with time enough for a slow machine.
  static Options options_for(const tests::RedisServer& redis) {
    Options options;
    options.nodes = {{"127.0.0.1", redis.port()}};
    options.deadline = base::seconds(20);
    return options;
  }

  explicit StoreWorld(Options options) {
    auto store = RedisStore::open(std::move(options), spaces,
                                  std::make_shared<spdlog::logger>("test", log_));
    EXPECT_TRUE(store) << store.problem().text;
    store_ = *std::move(store);
    store_->attach(port_, loop_);
  }
  ~StoreWorld() { store_->detach(port_); }

  // The groups in one batch. False: there was no answer.
  bool ask(std::vector<request::Group>& groups, std::vector<request::Charge>& charges,
           std::vector<limit::Decision>& decisions, base::Time now) {
    decisions.assign(charges.size(), {});
    for (size_t i = 0; i < charges.size(); ++i)
      charges[i].decision_first = static_cast<uint32_t>(i);
    const auto deadline = tests::soon();
    const request::Ticket batch{0, ++asked_};
    std::span<request::Group> rest(groups);
    for (;;) {
      const store::Applied applied =
          store_->apply({rest, charges, decisions}, now, &port_, {}, batch);
      if (!applied.later) break;
      rest = rest.subspan(applied.settled);
      for (bool named = false; !named;) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        turn();
        std::vector<request::Ticket> ready;
        port_.drain_batches(ready);
        for (const request::Ticket ticket : ready) named |= ticket == batch;
      }
    }
    return true;
  }
  // A batch that is under way beside those of other servers: `start`, then `go_on` until it is
  // true. What it names lives until then.
  struct UnderWay {
    std::span<request::Group> rest;
    std::span<request::Charge> charges;
    std::span<limit::Decision> decisions;
    request::Ticket ticket{};
  };
  bool start(UnderWay& batch) {
    batch.ticket = {2, ++asked_};  // a slot that no other batch uses
    return apply(batch);
  }
  // Takes one turn of the worker.
  bool go_on(UnderWay& batch) {
    turn();
    std::vector<request::Ticket> ready;
    port_.drain_batches(ready);
    for (const request::Ticket ticket : ready)
      if (ticket == batch.ticket) return apply(batch);
    return false;
  }
  // Nothing needs its answer any more.
  void abandon(const UnderWay& batch) { store_->abandon(port_, batch.ticket); }
  // A group that is parked under its ticket has other charges from now on, or leaves.
  void replace(std::span<request::Group> groups, std::span<request::Charge> charges,
               std::span<limit::Decision> decisions) {
    store_->apply({groups, charges, decisions}, clock.now(), &port_);
  }
  bool cancel(request::Ticket ticket) { return store_->cancel(port_, ticket, clock.now()); }
  // Has the groups asked for; their answer is dropped.
  void begin(std::vector<request::Group>& groups, std::vector<request::Charge>& charges,
             std::vector<limit::Decision>& decisions) {
    for (int i = 0; i < 100; ++i) turn();  // it is connected
    store_->apply({groups, charges, decisions}, clock.now(), &port_, {}, {1, ++asked_});
    turn();
  }
  // A group, until Redis decides it, or something does in its place.
  request::Group ask(std::vector<request::Charge> charges, std::vector<limit::Decision>& decisions,
                     request::OnError on_error = request::OnError::error) {
    const auto deadline = tests::soon();
    for (;;) {
      std::vector<request::Group> groups = {
          {.charge_count = static_cast<uint32_t>(charges.size()), .on_error = on_error}};
      const bool answered = ask(groups, charges, decisions, clock.now());
      if (answered && groups[0].error == request::Error::none) return groups[0];
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "no answer";
        return groups[0];
      }
      turn();
    }
  }
  void turn() {
    store_->advance(port_, now());
    loop_.turn(1);
  }
  // The answers of groups that were parked, since the last time.
  std::vector<store::Settled> settled() {
    std::vector<store::Settled> settled;
    port_.drain(settled);
    return settled;
  }
  base::Time now() { return told ? *told : clock.now(); }
  RedisStore& store() { return *store_; }
  // The last lines of its log.
  std::string log() {
    std::string all;
    for (const std::string& line : log_->last_formatted()) all += line;
    return all;
  }

  request::Spaces spaces;
  base::Clock clock;
  std::optional<base::Time> told;  // what time it is, in place of the clock's

 private:
  bool apply(UnderWay& batch) {
    const store::Applied applied = store_->apply({batch.rest, batch.charges, batch.decisions},
                                                 now(), &port_, {}, batch.ticket);
    if (applied.later) batch.rest = batch.rest.subspan(applied.settled);
    return !applied.later;
  }

  const std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> log_ =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(32);
  uint32_t asked_ = 0;
  FakeLoop loop_;
  store::CompletionQueue port_{[] {}};
  std::unique_ptr<RedisStore> store_;
};

}  // namespace sluice::redis
