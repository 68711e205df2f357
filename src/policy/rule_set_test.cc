// Rule sets (policy/rule_set.h): which rules a request meets and what it is charged, against a
// model that scans the rules.
#include "policy/rule_set.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "request/space.h"
#include "testing/dialects.h"

namespace sluice::policy {
namespace {

using request::Entry;

Rule rule_of(std::vector<std::pair<std::string, std::string>> conditions,
             Mode mode = Mode::enforce) {
  Rule rule;
  for (auto& [key, text] : conditions) rule.conditions.push_back({key, Pattern::loose(text)});
  rule.mode = mode;
  rule.limits = {{limit::Algorithm::fixed_window, 3, base::seconds(60)}};
  return rule;
}

TEST(RuleSet, ChargesShadowsThenTheFirstEnforcedRule) {
  request::Spaces spaces;
  RuleSet rules;
  Rule shadow = rule_of({{"path", "/a/*"}}, Mode::shadow);
  shadow.space = spaces.intern("s:", "");
  shadow.actor = {"ip"};
  Rule decides = rule_of({{"path", "*"}, {"method", "GET"}});
  decides.space = spaces.intern("d:", "");
  decides.limits[0].algorithm = limit::Algorithm::deny;
  rules.add(first_dialect, shadow);
  rules.add(first_dialect, rule_of({{"path", "/b"}}));
  rules.add(first_dialect, decides);
  rules.add(first_dialect, rule_of({}));

  const std::vector<Entry> request = {
      {"ip", "0"}, {"path", "/a/1"}, {"method", "GET"}, {"ip", "9"}};
  Plan plan;
  rules.match(&first_dialect, {.descriptor = request, .request = {.cost = 2, .tag = {}}}, plan);
  rules.match(&first_dialect, {}, plan);

  ASSERT_EQ(plan.parts().size(), 2u);
  EXPECT_EQ(plan.parts()[0].error, "");
  const auto steps = plan.steps(plan.parts()[0]);
  ASSERT_EQ(steps.size(), 2u);
  const std::span<const Rule> all = rules.rules(&first_dialect);
  EXPECT_EQ(steps[0].rule, &all[0]);
  EXPECT_EQ(steps[1].rule, &all[2]);
  EXPECT_TRUE(steps[0].rule->counted_as_shadow);
  EXPECT_FALSE(steps[1].rule->counted_as_shadow);
  ASSERT_EQ(plan.steps(plan.parts()[1]).size(), 1u);
  EXPECT_EQ(plan.steps(plan.parts()[1])[0].rule, &all[3]);

  request::Batch batch = plan.batch();
  ASSERT_EQ(batch.groups.size(), 3u);
  ASSERT_EQ(batch.charges.size(), 3u);
  ASSERT_EQ(batch.decisions.size(), 3u);
  EXPECT_EQ(batch.charges[0].space, shadow.space);
  EXPECT_EQ(batch.charges[0].key, "9");  // the last of two entries with one key counts
  EXPECT_EQ(batch.charges[0].key.data(), request[3].value.data());
  EXPECT_EQ(batch.charges[1].key, "");
  EXPECT_EQ(batch.charges[1].cost, 2);
  EXPECT_EQ(batch.charges[1].limits.data(), all[2].limits.data());
  EXPECT_EQ(batch.charges[2].cost, 1);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(batch.groups[i].charge_first, i);
    EXPECT_EQ(batch.groups[i].charge_count, 1u);
    EXPECT_EQ(batch.charges[i].decision_first, i);
  }
  batch.decisions[1].remaining = 41;
  batch.groups[1].allowed = true;
  EXPECT_EQ(plan.decisions(steps[1])[0].remaining, 41);
  EXPECT_TRUE(plan.group(steps[1]).allowed);

  plan.clear();
  EXPECT_TRUE(plan.parts().empty());
  EXPECT_TRUE(plan.batch().decisions.empty());
}

TEST(RuleSet, ListsDialectsInTheirOrderAndNewOnesLast) {
  RuleSet rules(std::vector<const Dialect*>{&second_dialect, &first_dialect});
  rules.add(third_dialect, rule_of({}));
  rules.add(first_dialect, rule_of({}));
  rules.add(native_dialect, rule_of({}));
  rules.add(second_dialect, rule_of({}));
  rules.add(second_dialect, rule_of({}));

  std::vector<std::pair<std::string_view, size_t>> listed;
  for (const RuleSet::DialectRules& list : rules.lists())
    listed.emplace_back(list.dialect().name, list.rules().size());
  const decltype(listed) expected{{"native", 1}, {"second", 2}, {"first", 1}, {"third", 1}};
  EXPECT_EQ(listed, expected);
  EXPECT_EQ(rules.size(), 5u);
  EXPECT_EQ(rules.written(), 4u);
  EXPECT_EQ(rules.rules(&native_dialect).size(), 1u);
  EXPECT_NE(rules.rules(&first_dialect)[0].id, rules.rules(&second_dialect)[0].id);
}

// What a client says of its certificate by itself is not seen by native rules, whatever its
// protocol; the rules of a protocol see its entries as they came.
TEST(RuleSet, TheNameInTheCertificateIsTheConnectionsOwn) {
  request::Spaces spaces;
  RuleSet rules;
  Rule shop = rule_of({{"tls.name", "shop"}});
  shop.space = spaces.intern("s:", "");
  shop.actor = {"tls.name"};
  shop.then = Then::continue_;
  Rule none = rule_of({{"tls.name", ""}});
  none.space = spaces.intern("n:", "");
  none.then = Then::continue_;
  Rule own = rule_of({{"tls.name", "said"}});
  own.space = spaces.intern("o:", "");
  rules.add(native_dialect, shop);
  rules.add(native_dialect, none);
  rules.add(first_dialect, own);
  EXPECT_TRUE(rules.asks_certificate());
  const auto met = [&](std::vector<Entry> entries, std::optional<std::string_view> certificate) {
    Plan plan;
    rules.match(&first_dialect, {.descriptor = entries, .certificate = certificate}, plan);
    std::string text;
    for (const Plan::RuleMatch& step : plan.steps(plan.parts()[0]))
      text += step.rule->conditions[0].pattern.text() + "(" + std::string(step.actor) + ") ";
    return text;
  };
  EXPECT_EQ(met({}, "shop"), "shop(shop) ");
  EXPECT_EQ(met({{"tls.name", "said"}}, "shop"), "shop(shop) said() ");
  EXPECT_EQ(met({{"tls.name", "shop"}}, ""), "() ");
  EXPECT_EQ(met({{"tls.name", "shop"}}, "other"), "");
  EXPECT_EQ(met({{"tls.name", "shop"}}, std::nullopt), "shop(shop) ");
  std::vector<Entry> many(base::bounds::descriptor_entries_max, Entry{"tls.name", "shop"});
  EXPECT_EQ(met(many, ""), "() ");
  RuleSet others;
  others.add(native_dialect, rule_of({{"path", "*"}}));
  EXPECT_FALSE(others.asks_certificate());
}

TEST(RuleSet, ChargesTellTheValueByWhichWhoWaitsIsServed) {
  request::Spaces spaces;
  RuleSet rules;
  const auto named = [&](const std::string& name) {
    Rule rule = rule_of({});
    rule.space = spaces.intern(name, "");
    rule.then = Then::continue_;
    return rule;
  };
  Rule fair = named("fair");
  fair.fair_by = "tenant";
  Rule by_name = named("by_name");
  by_name.fair_by = certificate_entry;
  rules.add(native_dialect, std::move(fair));
  rules.add(native_dialect, std::move(by_name));
  rules.add(native_dialect, named("plain"));
  EXPECT_TRUE(rules.asks_certificate());
  Plan plan;
  const auto values = [&](std::vector<Entry> entries, std::string_view name) {
    plan.clear();
    rules.match(nullptr, {.descriptor = entries, .certificate = name}, plan);
    std::vector<uint64_t> all;
    for (const request::Charge& charge : plan.batch().charges) all.push_back(charge.fair_value);
    return all;
  };
  const auto a = values({{"tenant", "a"}}, "x");
  ASSERT_EQ(a.size(), 3u);
  EXPECT_NE(a[0], 0u);
  EXPECT_NE(a[1], 0u);
  EXPECT_EQ(a[2], 0u);
  EXPECT_EQ(values({{"tenant", "b"}, {"tenant", "a"}}, "x"), a);
  // What a client sends under the name of its certificate does not count.
  EXPECT_EQ(values({{"tls.name", "y"}, {"tenant", "a"}}, "x"), a);
  EXPECT_NE(values({{"tenant", "b"}}, "x")[0], a[0]);
  EXPECT_NE(values({{"tenant", "a"}}, "y")[1], a[1]);
  EXPECT_NE(values({}, "x")[0], 0u);
}

TEST(RuleSet, RequestsOfNoDialectMatchOnlyNativeRules) {
  RuleSet rules;
  Rule first = rule_of({});
  first.then = Then::continue_;
  rules.add(native_dialect, first);
  rules.add(first_dialect, rule_of({}));
  Plan plan;
  rules.match(nullptr, {}, plan);
  rules.match(&second_dialect, {}, plan);  // a dialect without rules
  rules.match(&first_dialect, {}, plan);
  std::vector<size_t> met;
  for (const Plan::RequestPlan& part : plan.parts()) met.push_back(plan.steps(part).size());
  EXPECT_EQ(met, (std::vector<size_t>{1, 1, 2}));
  EXPECT_EQ(plan.steps(plan.parts()[0])[0].rule, rules.native_rules().data());
  EXPECT_TRUE(rules.rules(nullptr).empty());
  std::string_view error;
  EXPECT_EQ(rules.decider(nullptr, {}, error), nullptr);
  EXPECT_EQ(rules.decider(&second_dialect, {}, error), nullptr);
  EXPECT_EQ(rules.decider(&first_dialect, {}, error), rules.rules(&first_dialect).data());
}

TEST(RuleSet, ARequestMatchesTheRulesOfItsScope) {
  using request::RuleScope;
  RuleSet rules;
  Rule goes_on = rule_of({});
  goes_on.then = Then::continue_;
  rules.add(native_dialect, goes_on);
  rules.add(native_dialect, rule_of({{"path", "/stops"}}));
  rules.add(first_dialect, rule_of({}));
  const std::vector<Entry> request = {{"path", "/stops"}};
  const auto met = [&](std::span<const Entry> descriptor, RuleScope scope, bool together) {
    Plan plan;
    const request::Request one{.scope = scope, .tag = {}};
    const Matching asked{.descriptor = descriptor, .request = one};
    if (together)
      rules.match_together(&first_dialect, {&asked, 1}, plan);
    else
      rules.match(&first_dialect, asked, plan);
    std::vector<uint32_t> numbers;
    for (const Plan::RuleMatch& step : plan.steps(plan.parts()[0]))
      numbers.push_back(step.rule->number);
    return numbers;
  };
  using Numbers = std::vector<uint32_t>;
  for (const bool together : {false, true}) {
    EXPECT_EQ(met({}, RuleScope::all, together), (Numbers{0, 2}));
    EXPECT_EQ(met(request, RuleScope::all, together), (Numbers{0, 1}));
    EXPECT_EQ(met({}, RuleScope::native, together), (Numbers{0}));
    EXPECT_EQ(met(request, RuleScope::native, together), (Numbers{0, 1}));
    EXPECT_EQ(met({}, RuleScope::dialect, together), (Numbers{2}));
    EXPECT_EQ(met(request, RuleScope::dialect, together), (Numbers{2}));
  }
}

TEST(RuleSet, ARequestThatRequiresTheStoreIgnoresOnStoreError) {
  using request::OnError;
  RuleSet rules;
  Rule rule = rule_of({});
  rule.on_store_error = OnError::allow;
  rules.add(native_dialect, std::move(rule));
  Plan plan;
  const request::Message needs_store{.needs_store = true};
  rules.match(nullptr, {}, plan);
  rules.match(nullptr, {.request = {.message = &needs_store, .tag = {}}}, plan);
  const request::Batch batch = plan.batch();
  ASSERT_EQ(batch.groups.size(), 2u);
  EXPECT_EQ(batch.groups[0].on_error, OnError::allow);
  EXPECT_EQ(batch.groups[1].on_error, OnError::error);
}

TEST(RuleSet, TheStrictestOnStoreErrorOfAGroupApplies) {
  using request::OnError;
  request::Spaces spaces;
  RuleSet rules;
  const auto add = [&](OnError wanted, Mode mode, Then then) {
    Rule rule = rule_of({}, mode);
    rule.then = then;
    rule.on_store_error = wanted;
    rule.space = spaces.intern(std::string(name_of(wanted)), "");
    rules.add(native_dialect, std::move(rule));
  };
  add(OnError::error, Mode::shadow, Then::stop);
  add(OnError::allow, Mode::shadow, Then::stop);
  add(OnError::allow, Mode::enforce, Then::continue_);
  add(OnError::deny, Mode::enforce, Then::continue_);
  add(OnError::local, Mode::enforce, Then::stop);
  Plan plan;
  rules.match(&first_dialect, {}, plan);
  const request::Batch batch = plan.batch();
  ASSERT_EQ(batch.groups.size(), 3u);
  EXPECT_EQ(batch.groups[0].on_error, OnError::error);
  EXPECT_EQ(batch.groups[1].on_error, OnError::allow);
  EXPECT_EQ(batch.groups[2].on_error, OnError::deny);
}

TEST(RuleSet, AnImpossiblePatternIsAnErrorWhenItIsReached) {
  RuleSet rules;
  rules.add(first_dialect, rule_of({{"m", "GET"}}, Mode::shadow));
  rules.add(first_dialect, rule_of({{"m", "GET"}, {"p", "**"}}));
  rules.add(first_dialect, rule_of({}));
  Plan plan;
  rules.match(&first_dialect, {std::vector<Entry>{{"m", "GET"}}}, plan);  // even without `p`
  rules.match(&first_dialect, {std::vector<Entry>{{"m", "PUT"}, {"p", "x"}}}, plan);
  EXPECT_EQ(plan.parts()[0].error, "Invalid regular expression: /^.**/: Nothing to repeat");
  EXPECT_EQ(plan.parts()[0].step_count, 1u);
  EXPECT_EQ(plan.parts()[1].error, "");
  EXPECT_EQ(plan.parts()[1].step_count, 1u);

  std::string_view error;
  EXPECT_EQ(rules.decider(&first_dialect, std::vector<Entry>{{"m", "GET"}}, error), nullptr);
  EXPECT_EQ(error, plan.parts()[0].error);
  EXPECT_EQ(rules.decider(&first_dialect, {}, error), &rules.rules(&first_dialect)[2]);
  EXPECT_EQ(error, "");
}

TEST(RuleSet, NamesTheFailedCondition) {
  const Rule rule = rule_of({{"a", "1"}, {"b", "x*"}, {"c", "**"}});
  std::string_view error;
  const std::vector<Entry> lacks = {{"a", "1"}};
  auto found = mismatch(rule, lacks, error);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->condition->key, "b");
  EXPECT_FALSE(found->value);
  const std::vector<Entry> differs = {{"a", "1"}, {"b", "x"}, {"b", "y"}};
  found = mismatch(rule, differs, error);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->value, "y");
  EXPECT_EQ(error, "");
  const std::vector<Entry> reaches = {{"a", "1"}, {"b", "x"}};
  found = mismatch(rule, reaches, error);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->condition->key, "c");
  EXPECT_NE(error, "");
  EXPECT_FALSE(mismatch(rule_of({{"z", "*"}}), lacks, error));
}

// The model: the numbers of the rules that a request meets; -1: an impossible pattern.
std::vector<int> model(std::span<const Rule> rules, std::span<const Entry> request) {
  std::vector<int> met;
  for (size_t i = 0; i < rules.size(); ++i) {
    bool all = true;
    for (const Condition& condition : rules[i].conditions) {
      std::optional<std::string_view> value;
      for (const Entry& entry : request) {
        if (entry.key == condition.key) value = entry.value;
      }
      if (!condition.pattern.error().empty()) {
        met.push_back(-1);
        return met;
      }
      all = condition.pattern.matches(value);
      if (!all) break;
    }
    if (!all) continue;
    met.push_back(static_cast<int>(i));
    if (rules[i].mode == Mode::enforce) return met;
  }
  return met;
}

void compare_with_model(uint32_t seed, size_t rules_max, bool documented) {
  std::mt19937 random(seed);
  const auto pick = [&](auto... choices) {
    const std::string all[] = {choices...};
    return all[random() % (sizeof...(choices))];
  };
  RuleSet rules;
  const size_t count = random() % rules_max + 1;
  for (size_t i = 0; i < count; ++i) {
    Rule rule;
    rule.limits = {{limit::Algorithm::deny}};
    rule.mode = random() % 3 == 0 ? Mode::shadow : Mode::enforce;
    std::set<std::string> keys;
    for (size_t c = random() % 4; c > 0; --c) keys.insert(pick("a", "b", "c", "key", ""));
    for (const std::string& key : keys) {
      std::string text =
          pick("", "1", "2", "12", "*", "1*", "12*", "*2", "1*2", "1*1*2", "123456*", "**", "1234");
      if (text == "**" && random() % 8 != 0) text = "3";
      rule.conditions.push_back({key, documented ? Pattern::wildcard(text) : Pattern::loose(text)});
    }
    rules.add(first_dialect, std::move(rule));
  }
  for (int i = 0; i < 50; ++i) {
    std::vector<std::string> texts;
    for (size_t n = random() % 6 * 2; n > 0; --n) {
      texts.push_back(
          n % 2 == 0 ? pick("a", "b", "c", "key", "", "other")
                     : pick("", "1", "2", "12", "112", "1234567", "3", "x", "undefined", "1\n2"));
    }
    std::vector<Entry> request;
    for (size_t n = 0; n < texts.size(); n += 2) request.push_back({texts[n], texts[n + 1]});
    Plan plan;
    rules.match(&first_dialect, {request}, plan);
    const Plan::RequestPlan& part = plan.parts()[0];
    std::vector<int> met;
    for (const Plan::RuleMatch& step : plan.steps(part)) {
      met.push_back(static_cast<int>(step.rule - rules.rules(&first_dialect).data()));
    }
    if (!part.error.empty()) met.push_back(-1);
    const std::vector<int> expected = model(rules.rules(&first_dialect), request);
    ASSERT_EQ(met, expected) << "seed " << seed;
    std::string_view error;
    const Rule* decider = rules.decider(&first_dialect, request, error);
    const bool decided =
        !expected.empty() && expected.back() >= 0 &&
        rules.rules(&first_dialect)[static_cast<size_t>(expected.back())].mode == Mode::enforce;
    ASSERT_EQ(decider != nullptr, decided);
    if (decided) {
      ASSERT_EQ(decider - rules.rules(&first_dialect).data(), expected.back());
    }
    ASSERT_EQ(error, part.error);
  }
}

TEST(RuleSet, MatchesItsModel) {
  for (uint32_t seed = 0; seed < 2'000; ++seed) compare_with_model(seed, 6, seed % 2 == 0);
}

TEST(RuleSet, MatchesItsModelByIndex) {
  for (uint32_t seed = 0; seed < 1'000; ++seed) compare_with_model(seed, 200, seed % 2 == 0);
}

// More lists of candidates than can be merged: then every rule is a candidate.
TEST(RuleSet, FindsAllRulesWhenARequestMatchesManyIndexLists) {
  RuleSet rules;
  std::vector<std::string> keys;
  for (int i = 0; i < 200; ++i) keys.push_back("k" + std::to_string(i));
  for (const std::string& key : keys) rules.add(first_dialect, rule_of({{key, "v"}}, Mode::shadow));
  std::vector<Entry> request;
  for (const std::string& key : keys) request.push_back({key, "v"});
  Plan plan;
  rules.match(&first_dialect, {request}, plan);
  ASSERT_EQ(plan.parts()[0].step_count, 200u);
  for (size_t i = 0; i < 200; ++i)
    EXPECT_EQ(plan.steps(plan.parts()[0])[i].rule->conditions[0].key, keys[i]);
}

}  // namespace
}  // namespace sluice::policy
