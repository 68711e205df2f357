// A dialect whose sessions plan their charges (policy::Planning, OwnRules), beside native rules.
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

namespace sluice::policy::planning_test {
namespace {

using request::Entry;
using request::Verb;

// Finds the rule whose name is the value of `want`, with one counter for each value of `who`.
struct ByName final : OwnRules {
  explicit ByName(std::vector<std::string> its_names) : names(std::move(its_names)) {}

  std::optional<Found> find(std::span<const Entry> entries, MatchSteps& steps,
                            base::Arena& keys) const override {
    std::string_view want, who;
    for (const Entry& entry : entries) {
      if (entry.key == "want") want = entry.value;
      if (entry.key == "who") who = entry.value;
    }
    if (want == "costly") steps.spend(UINT64_MAX);
    const auto at = std::find(names.begin(), names.end(), want);
    if (at == names.end()) return std::nullopt;
    char* const key = keys.allocate(who.size() + 1);
    key[0] = '@';
    std::copy(who.begin(), who.end(), key + 1);
    return Found{static_cast<uint32_t>(at - names.begin()), {key, who.size() + 1}, who};
  }
  std::string why_none(std::span<const Entry>) const override { return "no rule has that name"; }
  std::optional<Found> owner(const request::Space&, std::string_view key,
                             base::Arena&) const override {
    return Found{0, key, key.substr(1)};
  }
  std::optional<std::string_view> actor_in(uint32_t, std::string_view key,
                                           base::Arena&) const override {
    return key.substr(1);
  }
  std::optional<std::string_view> key_of(uint32_t, std::string_view, base::Arena&) const override {
    return std::nullopt;
  }
  std::vector<std::string> names;
};

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
    rules.add(first_dialect, rule_of(spaces, "a"));
    rules.add(first_dialect, std::move(counts));
    rules.set_own_rules(first_dialect,
                        std::make_unique<ByName>(std::vector<std::string>{"a", "b"}));
    rules.add(second_dialect, rule_of(spaces, "other"));
  }
  const Plan::RequestPlan& match(const std::vector<Entry>& entries, Verb verb = Verb::take) {
    plan.clear();
    Planning planning{.rules = rules.rules(&first_dialect),
                      .own = *rules.own_rules(&first_dialect),
                      .texts = plan.texts()};
    // As a session would.
    if (const auto found = planning.own.find(entries, planning.steps, planning.texts))
      planning.charge = {&planning.rules[found->rule], found->key, found->actor};
    rules.match(
        &first_dialect,
        {.descriptor = entries, .request = {.verb = verb, .tag = {}}, .planning = &planning}, plan);
    return plan.parts()[0];
  }
  std::vector<std::string> names(const Plan::RequestPlan& part) {
    std::vector<std::string> all;
    for (const auto& step : plan.steps(part)) all.push_back(step.rule->name);
    return all;
  }

  request::Spaces spaces;
  RuleSet rules;
  Plan plan;
};

TEST(Planning, ChargesTheRuleAndKeyOfTheSession) {
  World world;
  const auto& part = world.match({{"who", "x"}, {"want", "b"}});
  ASSERT_EQ(world.names(part), std::vector<std::string>{"b"});
  const request::Charge& charge = world.plan.charge(world.plan.steps(part)[0]);
  EXPECT_EQ(charge.key, "@x");
  EXPECT_EQ(charge.verb, Verb::count);
  EXPECT_TRUE(world.plan.steps(part)[0].rule->is_planned);
  EXPECT_EQ(world.plan.charge(world.plan.steps(world.match({{"want", "a"}}))[0]).verb, Verb::take);
  for (const Verb verb : {Verb::peek, Verb::put, Verb::would_take})
    EXPECT_EQ(world.plan.charge(world.plan.steps(world.match({{"want", "b"}}, verb))[0]).verb,
              verb);
  EXPECT_TRUE(world.plan.steps(world.match({{"want", "c"}})).empty());
}

// Both rules settle in one group. A native rule that stops does not keep the found rule from
// applying.
TEST(Planning, AppliesTogetherWithNativeRules) {
  World world;
  const auto& part = world.match({{"path", "/stop"}, {"want", "b"}});
  EXPECT_EQ(world.names(part), (std::vector<std::string>{"native", "b"}));
  EXPECT_EQ(part.groups_end, 1u);
  EXPECT_EQ(world.plan.batch().groups[0].charge_count, 2u);
  EXPECT_EQ(world.names(world.match({{"path", "/stop"}})), std::vector<std::string>{"native"});
  // For a dialect whose rules are searched a native rule that stops hides the dialect's rules, as
  // before.
  const std::vector<Entry> stopped = {{"path", "/stop"}};
  world.plan.clear();
  world.rules.match(&second_dialect, {.descriptor = stopped}, world.plan);
  EXPECT_EQ(world.names(world.plan.parts()[0]), std::vector<std::string>{"native"});
}

TEST(Planning, ATooCostlySearchIsAnError) {
  World world;
  const auto& part = world.match({{"path", "/stop"}, {"want", "costly"}});
  EXPECT_EQ(part.error, too_many_steps);
  EXPECT_TRUE(world.plan.batch().charges.empty());
  EXPECT_EQ(world.rules.too_costly(), 1u);
}

}  // namespace
}  // namespace sluice::policy::planning_test
