// A server's store whose counters are in a Redis of the test, and one worker of it, whose turns the
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
  // Uses that Redis, and waits long enough for a slow machine.
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
    store_->attach(port_, &loop_);
  }
  ~StoreWorld() { store_->attach(port_, nullptr); }

  // Settles the groups as one batch. False if there was no answer in time.
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
  // A batch that is under way while batches of other servers are. After `start`, `go_on` is called
  // until one of both returns true: then the batch is settled. The memory that it names must stay
  // until then.
  struct UnderWay {
    std::span<request::Group> rest;
    std::span<request::Charge> charges;
    std::span<limit::Decision> decisions;
    request::Ticket ticket{};
  };
  bool start(UnderWay& batch) {
    batch.ticket = {2, ++asked_};  // a ticket's slot that no other batch uses
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
  // The answer of the batch is not needed any more.
  void abandon(const UnderWay& batch) { store_->abandon(port_, batch.ticket); }
  // Gives the group that is parked under its ticket other charges. `cancel` removes it.
  void replace(std::span<request::Group> groups, std::span<request::Charge> charges,
               std::span<limit::Decision> decisions) {
    store_->apply({groups, charges, decisions}, clock.now(), &port_);
  }
  bool cancel(request::Ticket ticket) { return store_->cancel(port_, ticket, clock.now()); }
  // Sends the groups to Redis. Their answer is dropped.
  void begin(std::vector<request::Group>& groups, std::vector<request::Charge>& charges,
             std::vector<limit::Decision>& decisions) {
    for (int i = 0; i < 100; ++i) turn();  // until it is connected
    store_->apply({groups, charges, decisions}, clock.now(), &port_, {}, {1, ++asked_});
    turn();
  }
  // Settles one group, and repeats that until it has no error: until Redis decides it, or this
  // server does as `on_error` says.
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
  // Asks a book of holds of this store, as a worker does, until it is answered. False if there was
  // no answer in time.
  template <class Ask>
  bool ask_book(Ask&& ask) {
    const auto deadline = tests::soon();
    const store::HoldBook::Asker asker{&port_, {3, ++asked_}};
    while (!ask(asker)) {
      for (bool named = false; !named;) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        turn();
        std::vector<request::Ticket> ready;
        port_.drain_batches(ready);
        for (const request::Ticket ticket : ready) named |= ticket == asker.ticket;
      }
    }
    return true;
  }
  void turn() {
    store_->advance(port_, now());
    loop_.turn(1);
  }
  // The answers to parked groups since the last call.
  std::vector<store::Settled> settled() {
    std::vector<store::Settled> settled;
    port_.drain(settled);
    return settled;
  }
  // Takes turns until the store is degraded, or is not any more. Returns why it is.
  std::string await_degraded(bool degraded) {
    const auto deadline = tests::soon();
    while (store_->why_degraded().empty() == degraded &&
           std::chrono::steady_clock::now() < deadline)
      turn();
    return store_->why_degraded();
  }
  base::Time now() { return told ? *told : clock.now(); }
  RedisStore& store() { return *store_; }
  store::CompletionQueue& port() { return port_; }
  // The last lines of its log.
  std::string log() {
    std::string all;
    for (const std::string& line : log_->last_formatted()) all += line;
    return all;
  }

  request::Spaces spaces;
  base::Clock clock;
  std::optional<base::Time> told;  // the time, in place of the clock's

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
