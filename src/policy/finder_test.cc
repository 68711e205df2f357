// A dialect whose rule is found by a structure of its own protocol (policy::Finder), beside native
// rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bounds.h"
#include "policy/dialect.h"
#include "policy/rule_set.h"
#include "request/space.h"
#include "testing/dialects.h"

namespace sluice::policy::finder_test {
namespace {

using request::Entry;
using request::Verb;

// Finds the rule whose name is the value of `want`, with one counter for each value of `who`. Of a
// request with siblings it finds none if a sibling wants `silence`.
struct ByName final : Finder {
  explicit ByName(std::vector<std::string> its_names) : names(std::move(its_names)) {}

  std::optional<Found> find(const Asked& asked, MatchSteps& steps,
                            base::Arena& keys) const override {
    std::string_view want, who;
    for (const Entry& entry : asked.descriptor) {
      if (entry.key == "want") want = entry.value;
      if (entry.key == "who") who = entry.value;
    }
    for (const auto sibling : asked.siblings)
      for (const Entry& entry : sibling)
        if (entry.value == "silence") return std::nullopt;
    if (want == "costly") steps.spend(UINT64_MAX);
    const auto at = std::find(names.begin(), names.end(), want);
    if (at == names.end()) return std::nullopt;
    char* const key = keys.allocate(who.size() + 1);
    key[0] = '@';
    std::copy(who.begin(), who.end(), key + 1);
    return Found{static_cast<uint32_t>(at - names.begin()), {key, who.size() + 1}, who};
  }
  std::string why_none(const Asked&) const override { return "no rule has that name"; }
  std::optional<Found> owner(const request::Space&, std::string_view key,
                             base::Arena&) const override {
    return Found{0, key, key.substr(1)};
  }
  std::vector<std::string> names;
};

struct Data final : request::RuleData {};

Rule rule_of(request::Spaces& spaces, const std::string& name) {
  Rule rule;
  rule.name = name;
  rule.limits = {{limit::Algorithm::aligned_window, 3, base::seconds(60)}};
  rule.intern(spaces, spaces.hold(name + ":", "", request::Space()));
  return rule;
}

struct World {
  World() {
    Rule stops = rule_of(spaces, "native");
    stops.conditions = {{"path", Pattern::loose("/stop")}};
    rules.add(native_dialect, std::move(stops));
    Rule counts = rule_of(spaces, "b");
    counts.counts = 1;
    counts.data = &data;
    rules.add(first_dialect, rule_of(spaces, "a"));
    rules.add(first_dialect, std::move(counts));
    rules.set_finder(first_dialect, std::make_unique<ByName>(std::vector<std::string>{"a", "b"}));
    rules.add(second_dialect, rule_of(spaces, "other"));
  }
  const Plan::RequestPlan& match(const std::vector<Entry>& entries, Verb verb = Verb::take) {
    plan.clear();
    rules.match(&first_dialect, {.descriptor = entries, .verb = verb}, plan);
    return plan.parts()[0];
  }
  std::vector<std::string> names(const Plan::RequestPlan& part) {
    std::vector<std::string> all;
    for (const auto& step : plan.steps(part)) all.push_back(step.rule->name);
    return all;
  }

  const Data data;
  request::Spaces spaces;
  RuleSet rules;
  Plan plan;
};

TEST(Finder, FindsTheRuleAndItsKey) {
  World world;
  const auto& part = world.match({{"who", "x"}, {"want", "b"}});
  ASSERT_EQ(world.names(part), std::vector<std::string>{"b"});
  const request::Charge& charge = world.plan.charge(world.plan.steps(part)[0]);
  EXPECT_EQ(charge.key, "@x");
  EXPECT_EQ(charge.verb, Verb::count);
  EXPECT_EQ(world.plan.steps(part)[0].rule->data, &world.data);
  EXPECT_EQ(world.plan.charge(world.plan.steps(world.match({{"want", "a"}}))[0]).verb, Verb::take);
  for (const Verb verb : {Verb::peek, Verb::put, Verb::would_take})
    EXPECT_EQ(world.plan.charge(world.plan.steps(world.match({{"want", "b"}}, verb))[0]).verb,
              verb);
  EXPECT_TRUE(world.plan.steps(world.match({{"want", "c"}})).empty());
}

// Both rules settle in one group. A native rule that stops does not keep the found rule from
// applying.
TEST(Finder, AppliesTogetherWithNativeRules) {
  World world;
  const auto& part = world.match({{"path", "/stop"}, {"want", "b"}});
  EXPECT_EQ(world.names(part), (std::vector<std::string>{"native", "b"}));
  EXPECT_EQ(part.groups_end, 1u);
  EXPECT_EQ(world.plan.batch().groups[0].charge_count, 2u);
  EXPECT_EQ(world.names(world.match({{"path", "/stop"}})), std::vector<std::string>{"native"});
  // For a dialect without a finder a native rule that stops hides the dialect's rules, as before.
  const std::vector<Entry> stopped = {{"path", "/stop"}};
  world.plan.clear();
  world.rules.match(&second_dialect, {.descriptor = stopped}, world.plan);
  EXPECT_EQ(world.names(world.plan.parts()[0]), std::vector<std::string>{"native"});
}

TEST(Finder, ReceivesTheSiblings) {
  World world;
  const std::vector<Entry> one = {{"want", "a"}}, other = {{"k", "silence"}};
  const std::vector<std::span<const Entry>> siblings = {one, other};
  world.plan.clear();
  world.rules.match(&first_dialect, {.descriptor = one, .siblings = siblings}, world.plan);
  EXPECT_TRUE(world.plan.steps(world.plan.parts()[0]).empty());
  const std::vector<Asked> together = {{.descriptor = one, .siblings = siblings},
                                       {.descriptor = other, .siblings = siblings}};
  world.plan.clear();
  world.rules.match_together(&first_dialect, together, world.plan);
  EXPECT_TRUE(world.plan.batch().charges.empty());
}

TEST(Finder, ATooCostlySearchIsAnError) {
  World world;
  const auto& part = world.match({{"path", "/stop"}, {"want", "costly"}});
  EXPECT_EQ(part.error, too_many_steps);
  EXPECT_TRUE(world.plan.batch().charges.empty());
  EXPECT_EQ(world.rules.too_costly(), 1u);
}

}  // namespace
}  // namespace sluice::policy::finder_test
