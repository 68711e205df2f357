// A server whose counters are in a real Redis forgets the spaces and limits that nothing names any
// more. It must answer as another server does that never forgets, with keys of its own in the same
// Redis.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/limits_trial_test.h"
#include "redis/loop_test.h"
#include "redis/redis_store.h"
#include "tests/support/patience.h"
#include "tests/support/redis_server.h"

namespace sluice::tests {
namespace {

using engine::tests::Client;
using engine::tests::Seat;
using engine::tests::seats_count;
using engine::tests::Side;
using engine::tests::Trial;
using engine::tests::World;

// A store with keys of its own in that Redis. Its time stands still, so no answer is late.
World::Make store_in(const RedisServer& redis, const std::string& key_prefix) {
  return [&redis, key_prefix](request::Spaces& spaces) {
    redis::Options options;
    options.nodes = {{"127.0.0.1", redis.port()}};
    options.key_prefix = key_prefix;
    options.local_bytes = size_t{16} << 20;
    auto store = redis::RedisStore::open(
        std::move(options), spaces,
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
    EXPECT_TRUE(store) << store.problem().text;
    return *std::move(store);
  };
}

class RedisTrial final : public Trial {
 public:
  RedisTrial(uint32_t seed, const RedisServer& redis)
      : Trial(seed, store_in(redis, "forgets:"), store_in(redis, "remembers:"), false,
              Windows::endless) {
    for (Side* side : sides)
      for (auto& seat : side->world.seats) {
        Line& line = *lines_.emplace_back(std::make_unique<Line>(*side, *seat));
        side->world.store.attach(seat->engine.completions(), &line.loop);
      }
  }
  ~RedisTrial() override {
    forget_clients();
    for (auto& line : lines_) {
      line->seat.engine.forget(line->probe);
      line->side.world.store.attach(line->seat.engine.completions(), nullptr);
    }
  }

  // Waits until all workers are connected, or none is.
  bool come_to(bool connected) {
    const auto deadline = soon();
    for (Side* side : sides)
      while (connections(*side) != (connected ? seats_count : 0)) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        turn(*side);
      }
    return true;
  }

  void after_step(bool may_have_asked) override {
    if (!may_have_asked) return;
    both([this](Side& side) { settle(side); });
  }

  // Waits until nothing is under way. An answer to one worker may make another worker ask for a
  // waiting request, and that call may have to be repeated with another script. So the side is
  // quiet only when four probes of all its workers in a row have changed nothing.
  void settle(Side& side) override {
    for (int quiet = 0; quiet < 4 && !testing::Test::HasFailure();) {
      const auto before = state_of(side);
      probe(side);
      quiet = before == state_of(side) ? quiet + 1 : 0;
    }
  }

 private:
  // A worker's connection, and a client whose request is answered after all that the worker sent
  // before.
  struct Line {
    Line(Side& its_side, Seat& its_seat) : side(its_side), seat(its_seat) {}
    Side& side;
    Seat& seat;
    redis::FakeLoop loop;
    Client probe;
  };

  static std::pair<size_t, size_t> state_of(const Side& side) {
    size_t replies = 0, suspended = 0;
    for (const auto& client : side.clients) {
      replies += client->replies.size();
      suspended += client->suspended ? 1u : 0u;
    }
    return {replies, suspended};
  }
  static size_t connections(const Side& side) {
    metrics::Page page;
    dynamic_cast<const redis::RedisStore&>(*side.world.made).collect(page);
    const std::string text = page.text(), up = "state=\"up\"} ";
    return std::stoul(text.substr(text.find(up) + up.size()));
  }
  void turn(Side& side) {
    for (auto& line : lines_) {
      if (&line->side != &side) continue;
      line->loop.turn();
      line->seat.engine.advance();
    }
    side.settle();
  }
  // Returns when all is answered that the workers of this side have sent.
  void probe(Side& side) {
    const auto deadline = soon();
    size_t left = 0;
    for (auto& line : lines_) {
      if (&line->side != &side) continue;
      line->seat.ask(line->probe,
                     {{std::to_string(++probes_), "k0", "probe", request::Verb::peek}});
      left += line->probe.suspended ? 1u : 0u;
    }
    while (left > 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      turn(side);
      for (auto& line : lines_) {
        if (&line->side != &side || !line->probe.named) continue;
        line->seat.resume(line->probe);
        left -= line->probe.suspended ? 0u : 1u;
      }
    }
    for (auto& line : lines_) line->probe.replies.clear();
  }

  std::vector<std::unique_ptr<Line>> lines_;
  uint64_t probes_ = 0;
};

TEST(RedisLimitsCollector, DecidesAsIfNothingWereForgottenWithRedisAndWithout) {
  RedisServer redis;
  RedisTrial trial(5, redis);
  ASSERT_TRUE(trial.come_to(true));
  trial.run(80);
  if (HasFailure()) return;
  EXPECT_GT(redis.client()({"DBSIZE"}).number, 10);
  // From here on each server's own table decides.
  redis.stop();
  ASSERT_TRUE(trial.come_to(false));
  trial.run(200);
  if (HasFailure()) return;
  trial.end();
  EXPECT_GT(trial.late, 10u);
  EXPECT_GT(trial.forgets.collector->rounds(), 20u);
}

}  // namespace
}  // namespace sluice::tests
