// Sessions that plan charges under rules of their own protocol: each request is planned before it
// is settled, and its verdict has the charge.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "policy/dialect.h"
#include "protocol/protocol.h"
#include "request/space.h"
#include "store/embedded_store.h"

namespace sluice::engine::planning_test {
namespace {

using request::Entry;

// People may not ask for these rules.
struct Unnamed final : policy::OwnRules {
  std::optional<Found> find(std::span<const Entry>, policy::MatchSteps&,
                            base::Arena&) const override {
    return std::nullopt;
  }
  std::string why_none(std::span<const Entry>) const override { return {}; }
  std::optional<Found> owner(const request::Space&, std::string_view, base::Arena&) const override {
    return std::nullopt;
  }
  std::optional<std::string_view> actor_in(uint32_t, std::string_view,
                                           base::Arena&) const override {
    return std::nullopt;
  }
  std::optional<std::string_view> key_of(uint32_t, std::string_view, base::Arena&) const override {
    return std::nullopt;
  }
};

// Charges the counter of the request's number; an odd one is planned under no rule.
struct Planner final : request::Session {
  request::Received receive(std::string_view, bool, request::Requests&, base::Buffer&) override {
    return {};
  }
  void plan(const request::Request& request, policy::Planning& planning) override {
    ++planned;
    if (request.note % 2 != 0) return;
    const std::string text = "n" + std::to_string(request.note);
    char* const key = planning.texts.allocate(text.size());
    text.copy(key, text.size());
    planning.charge = {&planning.rules.front(), {key, text.size()}, {}};
  }
  bool reply(const request::Request&, const request::Verdict& verdict, base::Time,
             base::Buffer&) override {
    told.push_back(
        verdict.planned == nullptr
            ? "none"
            : std::string(verdict.planned->key) + ":" +
                  std::to_string(verdict.decisions_of(*verdict.planned).front().remaining));
    return true;
  }
  request::Fault fault() const override { return {}; }
  void end(request::Ending, std::string_view, base::Buffer&) override {}

  size_t planned = 0;
  std::vector<std::string> told;
};

struct World {
  World() {
    auto rules = std::make_shared<policy::RuleSet>();
    policy::Rule rule;
    rule.name = "all";
    rule.limits = {{limit::Algorithm::aligned_window, 10, base::seconds(60)}};
    rule.intern(spaces, spaces.hold("all:", "", request::Space()));
    rules->add(*protocol::dialect_of(protocol::Protocol{}), std::move(rule));
    rules->set_own_rules(*protocol::dialect_of(protocol::Protocol{}), std::make_unique<Unnamed>());
    live = std::make_unique<live::Live>(live::LivePolicy{std::move(rules)});
    engine = std::make_unique<Engine>(
        Engine::Deps{.store = store, .clock = clock, .live = *live},
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
  }
  // Serves requests with these notes; `joins`: they settle together.
  std::vector<std::string> ask(const std::vector<uint32_t>& notes, bool joins = false) {
    Batch& batch = engine->next_batch();
    const request::Message* const message =
        batch.requests.hold(request::Message{.together = joins});
    for (const uint32_t note : notes) {
      batch.requests.open();
      batch.requests.commit({.message = message, .note = note, .tag = {}});
    }
    Planner session;
    base::Buffer out;
    EXPECT_EQ(engine->serve(batch, protocol::Protocol{}, session, out), Served::all);
    EXPECT_EQ(session.planned, notes.size());
    return session.told;
  }

  request::Spaces spaces;
  base::Clock clock{
      {[] { return int64_t{1'000'000'000'000}; }, [] { return int64_t{1'000'000'000'000}; }}};
  store::EmbeddedStore store{0, base::Hash(1), spaces};
  std::unique_ptr<live::Live> live;
  std::unique_ptr<Engine> engine;
};

TEST(Planning, EachRequestHasTheChargeThatItsSessionPlanned) {
  World world;
  EXPECT_EQ(world.ask({2}), std::vector<std::string>{"n2:9"});
  EXPECT_EQ(world.ask({2, 3, 4, 2}), (std::vector<std::string>{"n2:8", "none", "n4:9", "n2:7"}));
}

TEST(Planning, RequestsThatSettleTogetherShareTheChargeOfACounter) {
  World world;
  EXPECT_EQ(world.ask({2, 3, 4}, true), (std::vector<std::string>{"n2:9", "none", "n4:9"}));
}

}  // namespace
}  // namespace sluice::engine::planning_test
