// What overrides cost a request: a million of them cost what ten do. Requests go from entries to
// verdicts, through rules and store, without a socket, each for a random one of a million actors.
// So the counter is never in the processor's caches. Rounds with no override and with ten
// alternate, rounds with a million follow; the best of each kind counts.
#include "policy/overrides.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "policy/read/native.h"
#include "request/space.h"
#include "store/embedded_store.h"
#include "tests/support/dice.h"
#include "tests/support/patience.h"
#include "tests/timed/allocations.h"

namespace sluice::tests {
namespace {

constexpr size_t actors = 1'000'000, few = 10, batch = 64;
constexpr int64_t override_quota = 2'000'000;

// Counts verdicts, and writes no reply.
struct Silent final : request::Session {
  request::Received receive(std::string_view, bool, request::Requests&, base::Buffer&) override {
    return {};
  }
  bool reply(const request::Request&, const request::Verdict& verdict, base::Time,
             base::Buffer&) override {
    allowed += verdict.allowed;
    overridden += verdict.tightest != nullptr && verdict.tightest->limit == override_quota;
    return true;
  }
  request::Fault fault() const override { return {}; }
  void end(request::Ending, std::string_view, base::Buffer&) override {}
  size_t allowed = 0, overridden = 0;
};

// Of this thread alone.
double processor_ns() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// A name of ten digits.
std::string user(size_t i) {
  const std::string digits = std::to_string(i * 2'654'435'761u % 1'000'000'007u);
  return std::string(10 - digits.size(), '0') + digits;
}

class World {
 public:
  World() {
    auto rules = std::make_shared<policy::RuleSet>();
    base::Diagnostics diagnostics;
    policy::read_native(
        "rules:\n- { name: api, match: { user: '*' }, actor: user, limit: { quota: 1000000, "
        "window: 1h } }\n",
        "test.yaml", spaces_, *rules, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    rule_ = rules->native_rules().front().id;
    live_ = std::make_unique<live::Live>(live::LivePolicy{std::move(rules)});
    for (size_t i = 0; i < actors; ++i) users_.push_back(user(i));
  }

  // An engine with overrides of the first `count` actors, or of as many patterns, each of which
  // matches one actor or a few.
  std::unique_ptr<engine::Engine> engine(policy::Overrides* overrides, size_t count,
                                         bool patterns) {
    const limit::Limit limit{limit::Algorithm::token_bucket, override_quota, base::seconds(3600),
                             override_quota};
    policy::Override one;
    one.rule = rule_;
    one.terms.limits_id = spaces_.intern_limits({&limit, 1});
    one.terms.limits = spaces_.limits(one.terms.limits_id);
    for (size_t i = 0; i < count; ++i) {
      // Two lengths of patterns, whether there are ten patterns or a million: a lookup takes a
      // probe for each length.
      one.actor = {patterns ? users_[i].substr(0, 9 + i % 2) + "*" : users_[i]};
      one.terms.id = i + 1;
      EXPECT_TRUE(overrides->set(one));
    }
    return std::make_unique<engine::Engine>(
        engine::Engine::Deps{
            .store = store_, .clock = clock_, .live = *live_, .overrides = overrides},
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
  }

  // Nanoseconds of processor time for each request.
  double round(engine::Engine& engine, size_t per_batch, size_t requests) {
    Silent session;
    base::Buffer out;
    order_.clear();
    for (size_t i = 0; i < requests; ++i) order_.push_back(static_cast<uint32_t>(dice_(actors)));
    const double began = processor_ns();
    for (size_t at = 0; at < requests; at += per_batch) {
      engine::Batch& next = engine.next_batch();
      request::Requests& asked = next.requests;
      for (size_t i = 0; i < per_batch; ++i) {
        asked.open();
        asked.add(request::Entry{"user", users_[order_[at + i]]});
        asked.commit({.tag = {}});
      }
      engine.serve(next, protocol::find("divvy").value(), session, out);
    }
    const double took = processor_ns() - began;
    EXPECT_EQ(session.allowed, requests);
    overridden_ = session.overridden;
    return took / static_cast<double>(requests);
  }
  // Of the last round's requests, how many had an override.
  size_t overridden() const { return overridden_; }

  // One request for each actor: afterwards all counters exist, under the limits that this engine
  // gives them.
  void warm(engine::Engine& engine) {
    Silent session;
    base::Buffer out;
    for (const std::string& one : users_) {
      engine::Batch& next = engine.next_batch();
      request::Requests& asked = next.requests;
      asked.open();
      asked.add(request::Entry{"user", one});
      asked.commit({.tag = {}});
      engine.serve(next, protocol::find("divvy").value(), session, out);
    }
  }

 private:
  request::Spaces spaces_;
  store::EmbeddedStore store_{size_t{256} << 20, base::Hash(1), spaces_};
  base::Clock clock_;
  std::unique_ptr<live::Live> live_;
  uint64_t rule_ = 0;
  std::vector<std::string> users_;
  std::vector<uint32_t> order_;
  Dice dice_{1};
  size_t overridden_ = 0;
};

void compare(bool patterns) {
  World world;
  policy::Overrides none, ten, million;
  const auto by_none = world.engine(&none, 0, false), by_ten = world.engine(&ten, few, patterns),
             by_million = world.engine(&million, actors, patterns);
  for (const size_t per_batch : {size_t{1}, batch}) {
    double without = 1e9, with_few = 1e9, with_many = 1e9;
    for (int i = 0; i < 12; ++i) {
      // Rounds with a million do not alternate with these, because a counter whose limits change is
      // written again.
      if (i == 0) world.warm(*by_ten);
      without = std::min(without, world.round(*by_none, per_batch, 64 * 1024));
      with_few = std::min(with_few, world.round(*by_ten, per_batch, 64 * 1024));
    }
    world.warm(*by_million);
    for (int i = 0; i < 12; ++i)
      with_many = std::min(with_many, world.round(*by_million, per_batch, 64 * 1024));
    std::printf("%s, %zu a batch: none %.0f ns, ten %.0f ns, a million %.0f ns a request\n",
                patterns ? "patterns" : "exact", per_batch, without, with_few, with_many);
    EXPECT_LT(with_many, with_few * 1.5 + 50);
  }
}

TEST(OverridesTimed, AMillionExactOnesCostWhatTenDo) {
  SLUICE_HOLDS_TIMES();
  compare(false);
}

TEST(OverridesTimed, AMillionPatternsCostWhatTenDo) {
  SLUICE_HOLDS_TIMES();
  compare(true);
}

TEST(OverridesTimed, NothingIsAllocatedForThem) {
  World world;
  policy::Overrides overrides;
  const auto engine = world.engine(&overrides, actors / 5, true);
  world.warm(*engine);
  world.round(*engine, batch, 64 * 1024);  // buffers grow to the size of a batch
  const Allocations allocations;
  world.round(*engine, batch, 64 * 1024);
  EXPECT_EQ(allocations.count(), 0u);
  EXPECT_GT(world.overridden(), 10'000u);
}

}  // namespace
}  // namespace sluice::tests
