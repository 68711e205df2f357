// Matching against a scan of all rules one by one: native rules first, then the rules of the
// request's own dialect and of no other.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bounds.h"
#include "policy/read/native.h"
#include "policy/rule_set.h"
#include "testing/dialects.h"
#include "tests/support/dice.h"
#include "tests/support/named_rules.h"

namespace sluice::policy::rule_set_scan_test {
namespace {

using request::Entry;
using tests::Dice;

// Does the whole value match, with a star as any run of characters? By trying everything.
bool fits(std::string_view pattern, std::string_view value) {
  if (pattern.empty()) return value.empty();
  if (pattern[0] != '*') {
    return !value.empty() && value[0] == pattern[0] && fits(pattern.substr(1), value.substr(1));
  }
  for (size_t taken = 0; taken <= value.size(); ++taken)
    if (fits(pattern.substr(1), value.substr(taken))) return true;
  return false;
}

// A rule of the scan. Divvy's conditions are matched by Pattern, which has its own tests.
struct Plain {
  std::vector<std::pair<std::string, std::string>> conditions;
  bool divvy = false;
  Mode mode = Mode::enforce;
  Then then = Then::stop;
  int64_t until_us = INT64_MAX;
};

bool applies(const Plain& rule, std::span<const Entry> request) {
  for (const auto& [key, text] : rule.conditions) {
    std::optional<std::string_view> value;
    for (const Entry& entry : request)
      if (entry.key == key) value = entry.value;
    const bool fit =
        rule.divvy ? Pattern::loose(text).matches(value) : value.has_value() && fits(text, *value);
    if (!fit) return false;
  }
  return true;
}

Rule compiled(const Plain& plain) {
  Rule rule;
  for (const auto& [key, text] : plain.conditions)
    rule.conditions.push_back({key, plain.divvy ? Pattern::loose(text) : Pattern::wildcard(text)});
  rule.mode = plain.mode;
  rule.then = plain.then;
  rule.until = {plain.until_us};
  rule.limits = {{limit::Algorithm::fixed_window, 3, base::seconds(60)}};
  return rule;
}

struct Lists {
  std::vector<Plain> native;
  std::array<std::vector<Plain>, test_dialects.size()> own;

  RuleSet compile() const {
    RuleSet rules;
    // In another order than they apply in: the lists decide, not the order of adding.
    for (size_t d = 0; d < test_dialects.size(); ++d)
      for (const Plain& rule : own[d]) rules.add(*test_dialects[d], compiled(rule));
    for (const Plain& rule : native) rules.add(native_dialect, compiled(rule));
    return rules;
  }
};

struct Met {
  std::vector<std::string> rules;  // "native 3", shadow rules first
  bool error = false;
};

Met scan(const Lists& lists, size_t d, std::span<const Entry> request, int64_t now_us) {
  Met met;
  std::vector<std::string> enforced;
  bool over = false;
  const auto go = [&](const std::vector<Plain>& rules, const std::string& name) {
    for (size_t i = 0; i < rules.size() && !over; ++i) {
      const Plain& rule = rules[i];
      if (rule.mode == Mode::off || now_us >= rule.until_us || !applies(rule, request)) continue;
      if (rule.mode == Mode::shadow) {
        met.rules.push_back(name + " " + std::to_string(i));
        continue;
      }
      met.error = enforced.size() == base::bounds::group_charges_max;
      if (!met.error) enforced.push_back(name + " " + std::to_string(i));
      over = met.error || rule.then == Then::stop;
    }
  };
  go(lists.native, "native");
  go(lists.own[d], std::to_string(d));
  if (!met.error) met.rules.insert(met.rules.end(), enforced.begin(), enforced.end());
  return met;
}

Met match(const RuleSet& rules, const Dialect* dialect, std::span<const Entry> request,
          int64_t now_us, Plan& plan) {
  plan.clear();
  rules.match(dialect, {.descriptor = request, .now = {now_us}}, plan);
  Met met;
  met.error = !plan.parts()[0].error.empty();
  const auto name_of = [&](const Rule* rule) {
    const auto within = [&](std::span<const Rule> all) {
      return rule >= all.data() && rule < all.data() + all.size();
    };
    if (within(rules.native_rules()))
      return "native " + std::to_string(rule - rules.native_rules().data());
    for (size_t d = 0; d < test_dialects.size(); ++d) {
      const auto all = rules.rules(test_dialects[d]);
      if (within(all)) return std::to_string(d) + " " + std::to_string(rule - all.data());
    }
    return std::string("nowhere");
  };
  for (const Plan::RuleMatch& step : plan.steps(plan.parts()[0]))
    met.rules.push_back(name_of(step.rule));
  return met;
}

void expect_equal(const Lists& lists, const RuleSet& rules, std::span<const Entry> request,
                  int64_t now_us, Plan& plan) {
  for (size_t d = 0; d < test_dialects.size(); ++d) {
    const Met expected = scan(lists, d, request, now_us);
    const Met met = match(rules, test_dialects[d], request, now_us, plan);
    std::string text;
    for (const Entry& entry : request)
      text += std::string(entry.key) + "=" + std::string(entry.value) + " ";
    ASSERT_EQ(met.rules, expected.rules) << text;
    ASSERT_EQ(met.error, expected.error) << text;
  }
}

std::vector<Entry> entries(const tests::Pairs& pairs) {
  std::vector<Entry> all;
  for (const auto& [key, value] : pairs) all.push_back({key, value});
  return all;
}

Plain random_rule(Dice& dice, bool divvy) {
  static const std::vector<std::string> keys = {"a", "b", "c", "type", "key"};
  static const std::vector<std::string> texts = {
      "",   "1",    "2",     "12",   "*",      "1*",      "12*",   "*2",   "1*2",   "1*1*2",
      "x*", "*12*", "1234*", "1234", "12345*", "123456*", "*3456", "12*6", "*1*2*", "1**"};
  Plain rule;
  rule.divvy = divvy;
  for (const std::string& key : keys) {
    if (dice(3) != 0) continue;
    std::string text = texts[dice(texts.size())];
    if (divvy && text == "1**") text = "3";  // Divvy could not read it
    rule.conditions.emplace_back(key, text);
  }
  const size_t mode = dice(size_t{8});
  rule.mode = mode == 0 ? Mode::off : mode <= 2 ? Mode::shadow : Mode::enforce;
  rule.then = dice(2) == 0 ? Then::continue_ : Then::stop;
  if (dice(8) == 0) rule.until_us = 1'000 + dice(int64_t{3});
  return rule;
}

std::vector<Plain> random_rules(Dice& dice, size_t count, bool divvy) {
  std::vector<Plain> rules;
  for (size_t i = 0; i < count; ++i) rules.push_back(random_rule(dice, divvy));
  return rules;
}

// Short lists of rules are scanned, long ones use the index: both, also side by side.
TEST(RuleSetScan, EveryDialectMatchesNativeRulesAndItsOwn) {
  const std::vector<std::string> values = {"",      "1",      "2", "12",  "112",       "1234",
                                           "12345", "123456", "x", "1x2", "undefined", "12 6"};
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    Lists lists;
    const auto size = [&] { return dice(dice(2) == 0 ? size_t{8} : size_t{150}); };
    lists.native = random_rules(dice, dice(3) == 0 ? 0 : size(), false);
    for (size_t d = 0; d < test_dialects.size(); ++d)
      lists.own[d] = random_rules(dice, dice(5) == 0 ? 0 : size(), d == 0);
    const RuleSet rules = lists.compile();
    Plan plan;
    for (int i = 0; i < 60; ++i) {
      std::vector<Entry> request;
      for (const char* key : {"a", "b", "c", "type", "key", "other", "a"})
        if (dice(2) == 0) request.push_back({key, values[dice(values.size())]});
      expect_equal(lists, rules, request, 999 + dice(int64_t{5}), plan);
      if (HasFatalFailure()) return;
    }
  }
}

// One enforced rule more than a group may have, at every place of the two lists.
TEST(RuleSetScan, TooManyRulesAreAnErrorInEitherList) {
  for (size_t native = 60; native <= 66; ++native) {
    for (size_t own = 0; own <= 6; ++own) {
      Lists lists;
      lists.native.assign(native, {.conditions = {{"a", "*"}}, .then = Then::continue_});
      lists.own[1].assign(own, {.conditions = {{"a", "1*"}}, .then = Then::continue_});
      lists.own[1].push_back({.conditions = {{"a", "*"}}, .mode = Mode::shadow});
      const RuleSet rules = lists.compile();
      Plan plan;
      expect_equal(lists, rules, std::vector<Entry>{{"a", "12"}}, 0, plan);
    }
  }
}

// The rule sets of the benchmarks with any mode, and requests that meet their rules.
TEST(RuleSetScan, NamedRuleSets) {
  for (const auto& set : tests::named_rules) {
    for (const size_t count : {size_t{10}, size_t{300}}) {
      SCOPED_TRACE(set.name + std::to_string(count));
      request::Spaces spaces;
      RuleSet read;
      base::Diagnostics diagnostics;
      read_native(text_of(set, count), "f", spaces, read, diagnostics);
      ASSERT_TRUE(diagnostics.empty());
      ASSERT_EQ(read.native_rules().size(), count);
      for (uint32_t seed = 0; seed < 20; ++seed) {
        Dice dice(seed);
        Lists lists;
        for (const Rule& rule : read.native_rules()) {
          Plain plain;
          for (const Condition& condition : rule.conditions)
            plain.conditions.emplace_back(condition.key, condition.pattern.text());
          // Unchanged in the first round.
          if (seed > 0 && dice(4) == 0) plain.mode = Mode::shadow;
          if (seed > 0 && dice(3) == 0) plain.then = Then::continue_;
          lists.native.push_back(plain);
        }
        lists.own[dice(test_dialects.size())] = random_rules(dice, 20, false);
        const RuleSet rules = lists.compile();
        Plan plan;
        const auto last = set.last(count);
        const std::vector<Entry> of_last = entries(last);
        expect_equal(lists, rules, of_last, 0, plan);
        if (seed == 0) {
          ASSERT_EQ(match(rules, &first_dialect, of_last, 0, plan).rules,
                    std::vector<std::string>{"native " + std::to_string(count - 1)});
        }
        for (int i = 0; i < 60; ++i) {
          auto pairs = set.last(1 + dice(count));
          for (auto& [key, value] : pairs) {
            switch (dice(8)) {
              case 0:
                value += "1";
                break;
              case 1:
                value.pop_back();
                break;
              case 2:
                value = "POST";
                break;
              case 3:
                key = "other";
                break;
              default:
                break;
            }
          }
          expect_equal(lists, rules, entries(pairs), 0, plan);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::policy::rule_set_scan_test
