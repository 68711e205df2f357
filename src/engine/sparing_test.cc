// Requests that settle together and spare counters whose quota they fit, and requests whose time to
// be answered has passed: what their sessions receive.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "request/space.h"
#include "store/embedded_store.h"

namespace sluice::engine::sparing_test {
namespace {

using limit::Algorithm;
using request::Error;

constexpr int64_t now_us = 1'800'000'000'000'000;

struct Ear final : request::Session {
  request::Received receive(std::string_view, bool, request::Requests&, base::Buffer&) override {
    return {};
  }
  bool reply(const request::Request&, const request::Verdict& verdict, base::Time,
             base::Buffer&) override {
    told += told.empty() ? "" : ", ";
    if (verdict.cause != Error::none)
      told += name_of(verdict.cause);
    else if (verdict.planned == nullptr)
      told += "no rule";
    else
      told += (verdict.tightest->allowed ? "yes " : "no ") +
              std::to_string(verdict.decisions[verdict.planned->decision_first].remaining);
    return true;
  }
  request::Fault fault() const override { return {}; }
  void end(request::Ending, std::string_view, base::Buffer&) override {}

  std::string told;
};

struct World {
  World() {
    auto rules = std::make_shared<policy::RuleSet>();
    for (const auto& [name, quota] : {std::pair("min", 2), std::pair("hour", 5)}) {
      policy::Rule rule;
      rule.name = name;
      rule.conditions = {{name, policy::Pattern::wildcard("*")}};
      rule.actor = {name};
      rule.counts = 1;
      rule.is_planned = true;
      rule.limits = {{Algorithm::aligned_window, quota, base::seconds(60), 0}};
      rule.intern(spaces, spaces.hold(std::string(name) + ":", ""));
      rules->add(policy::native_dialect, std::move(rule));
    }
    live = std::make_unique<live::Live>(live::LivePolicy{std::move(rules)});
    engine = std::make_unique<Engine>(
        Engine::Deps{.store = store, .clock = clock, .live = *live},
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
  }

  // Serves the requests of one message, one for each rule's name. Returns all verdicts.
  std::string take(const std::vector<std::string>& names, const request::Message& like,
                   int64_t cost = 1) {
    Batch& batch = engine->next_batch();
    const request::Message* const message = batch.requests.hold(like);
    for (size_t i = 0; i < names.size(); ++i) {
      batch.requests.open();
      batch.requests.add(request::Entry{names[i], "x"});
      batch.requests.commit({.message = message, .cost = cost, .tag = {}});
    }
    Ear ear;
    base::Buffer out;
    EXPECT_EQ(engine->serve(batch, protocol::Protocol{}, ear, out), Served::all);
    return ear.told;
  }

  request::Spaces spaces;
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  store::EmbeddedStore store{0, base::Hash(1), spaces};
  std::unique_ptr<live::Live> live;
  std::unique_ptr<Engine> engine;
};

TEST(Sparing, ChargesOnlyTheCountersThatRefuse) {
  World world;
  const request::Message sparing{.together = true, .refused = request::Refused::spares};
  EXPECT_EQ(world.take({"min", "hour"}, sparing), "yes 1, yes 4");
  EXPECT_EQ(world.take({"min"}, sparing), "yes 0");
  EXPECT_EQ(world.take({"min", "none", "hour"}, sparing), "no -1, no rule, yes 4");
  EXPECT_EQ(world.take({"hour", "min"}, sparing), "yes 4, no -2");
  EXPECT_EQ(world.take({"hour"}, {}), "yes 3");
}

// Each charge is decided on the counter's state before the group, and they count one after the
// other.
TEST(Sparing, MayChargeACounterSeveralTimes) {
  World world;
  const request::Message sparing{.together = true, .refused = request::Refused::spares};
  EXPECT_EQ(world.take({"min", "min"}, sparing), "yes 1, yes 0");
  EXPECT_EQ(world.take({"min", "hour", "min"}, sparing), "no -1, yes 5, no -2");
  EXPECT_EQ(world.take({"hour", "hour", "hour"}, sparing), "yes 4, yes 3, yes 2");
  EXPECT_EQ(world.take({"hour"}, {}, 2), "yes 0");
}

TEST(TooLate, NothingIsCharged) {
  World world;
  for (const bool joins : {false, true}) {
    EXPECT_EQ(world.take({"min", "hour"}, {.together = joins, .answer_by = {now_us}}),
              "deadline, deadline");
  }
  EXPECT_EQ(world.take({"min"}, {.answer_by = {now_us + 1}}), "yes 1");
  EXPECT_EQ(world.store.stats().counters, 1u);
}

}  // namespace
}  // namespace sluice::engine::sparing_test
