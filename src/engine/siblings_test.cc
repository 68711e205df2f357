// Requests of one message (siblings): the rule finder of a protocol sees all of them, also those
// that were decided before, and the verdict has what the protocol keeps with its rule.
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

namespace sluice::engine::siblings_test {
namespace {

using request::Entry;

// The finder of one rule. Its key has the values of all siblings.
struct AllValues final : policy::Finder {
  std::optional<Found> find(const policy::Asked& asked, policy::MatchSteps&,
                            base::Arena& keys) const override {
    std::string all;
    for (const auto descriptor : asked.siblings) all += std::string(descriptor[0].value) + " ";
    if (asked.siblings.empty()) all = "alone";
    char* const key = keys.allocate(all.size());
    all.copy(key, all.size());
    return Found{0, {key, all.size()}, {}};
  }
  std::string why_none(const policy::Asked&) const override { return {}; }
  std::optional<Found> owner(const request::Space&, std::string_view, base::Arena&) const override {
    return std::nullopt;
  }
};

struct Data final : request::RuleData {
} const data;

struct Heard final : request::Session {
  request::Received receive(std::string_view, bool, request::Requests&, base::Buffer&) override {
    return {};
  }
  bool reply(const request::Request&, const request::Verdict& verdict, base::Time,
             base::Buffer&) override {
    EXPECT_EQ(verdict.own, &data);
    told.push_back(
        verdict.own_charge == nullptr
            ? "?"
            : std::string(verdict.own_charge->key) +
                  std::to_string(verdict.decisions[verdict.own_charge->decision_first].remaining));
    return true;
  }
  request::Fault fault() const override { return {}; }
  void end(request::Ending, std::string_view, base::Buffer&) override {}

  std::vector<std::string> told;
};

struct World {
  World() {
    auto rules = std::make_shared<policy::RuleSet>();
    policy::Rule rule;
    rule.name = "all";
    rule.limits = {{limit::Algorithm::aligned_window, 10, base::seconds(60)}};
    rule.intern(spaces, spaces.hold("all:", "", request::Space()));
    rule.data = &data;
    rules->add(*protocol::dialect_of(protocol::Protocol{}), std::move(rule));
    rules->set_finder(*protocol::dialect_of(protocol::Protocol{}), std::make_unique<AllValues>());
    live = std::make_unique<live::Live>(live::LivePolicy{std::move(rules)});
    engine = std::make_unique<Engine>(
        Engine::Deps{.store = store, .clock = clock, .live = *live},
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
  }
  struct Asked {
    std::string value;
    bool sibling, joins = false;
  };
  std::vector<std::string> ask(const std::vector<Asked>& all) {
    Batch& batch = engine->next_batch();
    for (const Asked& one : all) {
      batch.requests.open();
      batch.requests.add(Entry{"k", one.value});
      batch.requests.commit({.joins = one.joins, .sibling = one.sibling, .prefix = {}, .tag = {}});
    }
    Heard heard;
    base::Buffer out;
    EXPECT_EQ(engine->serve(batch, protocol::Protocol{}, heard, out), Served::all);
    return heard.told;
  }

  request::Spaces spaces;
  base::Clock clock{
      {[] { return int64_t{1'000'000'000'000}; }, [] { return int64_t{1'000'000'000'000}; }}};
  store::EmbeddedStore store{0, base::Hash(1), spaces};
  std::unique_ptr<live::Live> live;
  std::unique_ptr<Engine> engine;
};

TEST(Siblings, SeeEachOther) {
  World world;
  EXPECT_EQ(world.ask({{"a", false}}), std::vector<std::string>{"alone9"});
  EXPECT_EQ(
      world.ask({{"a", false}, {"b", true}, {"c", true}, {"d", false}, {"e", false}, {"f", true}}),
      (std::vector<std::string>{"a b c 9", "a b c 8", "a b c 7", "alone8", "e f 9", "e f 8"}));
}

TEST(Siblings, MaySettleTogether) {
  World world;
  EXPECT_EQ(world.ask({{"a", false}, {"b", true, true}, {"c", false}}),
            (std::vector<std::string>{"a b 8", "a b 8", "alone9"}));
}

}  // namespace
}  // namespace sluice::engine::siblings_test
