// Rules that settle together but count by different actors (policy/read/native.h), whose counters
// may be in different slots of a Redis Cluster.

#include <gtest/gtest.h>

#include <string>

#include "policy/read/native.h"

namespace sluice::policy::native_apart_test {
namespace {

// The names of the rules that were found, "a, b; a, c".
std::string apart(const std::string& rules_text) {
  request::Spaces spaces;
  RuleSet rules;
  base::Diagnostics reading;
  read_native("rules:\n" + rules_text, "f", spaces, rules, reading);
  EXPECT_FALSE(has_errors(reading)) << to_string(reading.front());
  std::string text;
  for (const RulesApart& group : rules_apart(rules)) {
    text += text.empty() ? "" : "; ";
    for (const Rule* rule : group) text += (rule == group.front() ? "" : ", ") + rule->name;
  }
  return text;
}

std::string rule(const std::string& name, const std::string& match, const std::string& actor,
                 const std::string& more = "then: continue") {
  return "- { name: " + name + ", " + (match.empty() ? "" : "match: { " + match + " }, ") +
         (actor.empty() ? "" : "actor: [" + actor + "], ") + "limit: { quota: 5, window: 1m }, " +
         more + " }\n";
}

TEST(RulesApart, ReportsRulesOfDifferentActorsThatOneRequestMatches) {
  EXPECT_EQ(apart(rule("a", "", "user") + rule("b", "", "tenant")), "a, b");
  EXPECT_EQ(apart(rule("a", "", "user") + rule("b", "", "tenant", "then: stop")), "a, b");
  EXPECT_EQ(apart(rule("a", "", "user") + rule("b", "", "")), "a, b");
  EXPECT_EQ(apart(rule("a", "", "user") + rule("b", "", "user, tenant")), "a, b");
  EXPECT_EQ(apart(rule("a", "", "user, tenant") + rule("b", "", "tenant, user")), "a, b");
  EXPECT_EQ(apart(rule("a", "user: \"*\"", "user") + rule("b", "tenant: \"*\"", "tenant")), "a, b");
  EXPECT_EQ(apart(rule("a", "", "user") + rule("b", "p: x", "tenant") + rule("c", "p: y", "ip")),
            "a, b; a, c");
  EXPECT_EQ(apart(rule("a", "", "user") + rule("b", "", "user") + rule("c", "", "ip")), "a, b, c");
}

TEST(RulesApart, ReportsPatternsThatMatchOneValue) {
  const auto two = [](const std::string& one, const std::string& other) {
    return apart(rule("a", "p: " + one, "user") + rule("b", "p: " + other, "tenant"));
  };
  EXPECT_EQ(two("x", "x"), "a, b");
  EXPECT_EQ(two("x", "\"*\""), "a, b");
  EXPECT_EQ(two("\"/a/*\"", "\"*/b\""), "a, b");
  EXPECT_EQ(two("\"a*b*c\"", "\"ab*bc\""), "a, b");
  EXPECT_EQ(two("\"*ab*\"", "\"*ba*\""), "a, b");
  EXPECT_EQ(two("[x, y]", "[z, y]"), "a, b");
  EXPECT_EQ(two("cidr(10.0.0.0/8)", "cidr(10.1.0.0/16)"), "a, b");
  EXPECT_EQ(two("cidr(10.0.0.0/8)", "10.1.2.3"), "a, b");
  EXPECT_EQ(two("\"regex(/^a/)\"", "abc"), "a, b");
  // No value matches both.
  EXPECT_EQ(two("x", "y"), "");
  EXPECT_EQ(two("x", "\"y*\""), "");
  EXPECT_EQ(two("\"/a/*\"", "\"/b/*\""), "");
  EXPECT_EQ(two("\"*a\"", "\"*b\""), "");
  EXPECT_EQ(two("\"ab*bc\"", "abc"), "");
  EXPECT_EQ(two("[x, y]", "[z, \"w*\"]"), "");
  EXPECT_EQ(two("cidr(10.0.0.0/8)", "cidr(11.0.0.0/8)"), "");
  EXPECT_EQ(two("\"regex(/^a/)\"", "bc"), "");
}

// Rules that no group holds together, or that have no counter.
TEST(RulesApart, AllowsRulesThatSettleSeparately) {
  EXPECT_EQ(apart(rule("a", "", "user, tenant") + rule("b", "", "user, tenant")), "");
  EXPECT_EQ(apart(rule("a", "", "user", "then: stop") + rule("b", "", "tenant")), "");
  EXPECT_EQ(apart(rule("a", "", "user", "mode: shadow") + rule("b", "", "tenant")), "");
  EXPECT_EQ(apart(rule("a", "", "user") + rule("b", "", "tenant", "mode: shadow")), "");
  EXPECT_EQ(apart(rule("a", "", "user") + rule("b", "", "tenant", "mode: \"off\"")), "");
  EXPECT_EQ(apart(rule("a", "", "user") + "- { name: b, deny: true }\n"), "");
  // A rule between them stops all requests that meet both, or those that meet one of them.
  EXPECT_EQ(apart(rule("a", "p: x", "user") + rule("s", "p: x", "user", "then: stop") +
                  rule("b", "", "tenant")),
            "");
  EXPECT_EQ(apart("- { name: s, match: { p: x }, deny: true }\n" + rule("a", "p: x", "user") +
                  rule("b", "", "tenant")),
            "");
  // Each actor has only one value, and both values are the same.
  EXPECT_EQ(apart(rule("a", "user: x", "user") + rule("b", "tenant: x", "tenant")), "");
  EXPECT_EQ(apart(rule("a", "user: x", "user") + rule("b", "tenant: y", "tenant")), "a, b");
}

TEST(RulesApart, TheErrorNamesTheRulesAndWhatToDo) {
  request::Spaces spaces;
  RuleSet rules;
  base::Diagnostics diagnostics;
  read_native("rules:\n" + rule("a", "", "user") + rule("b", "", "tenant"), "f", spaces, rules,
              diagnostics);
  diagnostics.clear();  // warnings that an actor may be absent
  refuse_apart(rules_apart(rules), StoreIsRead::with_the_rules, diagnostics);
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_EQ(to_string(diagnostics[0]),
            "f:3: error: rule b: settles together with rule a (line 2) and does not count by the "
            "same actor: their counters are in different slots of the Redis Cluster, and "
            "`store.redis.across_slots` is `refuse`; write `across_slots: settle`, have them count "
            "by the same actor, or have no request meet them together");
  diagnostics.clear();
  refuse_apart(rules_apart(rules), StoreIsRead::at_start, diagnostics);
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_EQ(diagnostics[0].remedy,
            "write `across_slots: settle` and restart the server, which reads the settings of the "
            "store only at its start, have them count by the same actor, or have no request meet "
            "them together");
}

// The rules that are refused once they decide, each with those that it then settles together with.
std::string refused_later(const std::string& rules_text) {
  request::Spaces spaces;
  RuleSet rules;
  base::Diagnostics diagnostics;
  read_native("rules:\n" + rules_text, "f", spaces, rules, diagnostics);
  diagnostics.clear();
  warn_of_shadow_apart(rules, diagnostics);
  std::string text;
  for (const base::Diagnostic& one : diagnostics) {
    EXPECT_EQ(one.severity, base::Diagnostic::Severity::warning);
    constexpr std::string_view from = "together with ", to = " and does";
    const size_t at = one.message.find(from) + from.size();
    text += (text.empty() ? "" : "; ") + one.subject + ": " +
            one.message.substr(at, one.message.find(to) - at);
  }
  return text;
}

TEST(RulesApart, ShadowRulesAreWarnedOfBeforeTheyDecide) {
  const std::string shadow = "mode: shadow, then: continue", last = "mode: shadow, then: stop";
  EXPECT_EQ(refused_later(rule("a", "", "user") + rule("b", "", "tenant", last)),
            "rule b: rule a (line 2)");
  EXPECT_EQ(refused_later(rule("a", "", "user", shadow) + rule("b", "", "tenant")),
            "rule a: rule b (line 3)");
  EXPECT_EQ(refused_later(rule("a", "", "user", shadow) + rule("b", "", "tenant", shadow)),
            "rule a: rule b (line 3)");
  // They settle by themselves all the same: one stops before the other, they have one actor, no
  // request meets both, or one has no counter.
  EXPECT_EQ(refused_later(rule("a", "", "user", last) + rule("b", "", "tenant")), "");
  EXPECT_EQ(
      refused_later(rule("a", "", "user") + rule("s", "", "user", last) + rule("b", "", "tenant")),
      "");
  EXPECT_EQ(refused_later(rule("a", "", "user") + rule("b", "", "user", last)), "");
  EXPECT_EQ(refused_later(rule("a", "p: x", "user") + rule("b", "p: y", "tenant", last)), "");
  EXPECT_EQ(refused_later(rule("a", "", "user") + rule("b", "", "tenant", "mode: \"off\"")), "");
  // Rules that decide already are an error, not a warning.
  EXPECT_EQ(refused_later(rule("a", "", "user") + rule("b", "", "tenant")), "");
}

// If every rule of many meets every other, the time is bounded, and some of them are named.
TEST(RulesApart, ManyRulesTakeBoundedTime) {
  std::string text;
  for (int i = 0; i < 3'000; ++i)
    text += rule("r" + std::to_string(i), "p: x" + std::to_string(i), "user");
  EXPECT_EQ(apart(text), "");
  text += rule("last", "", "tenant");
  EXPECT_NE(apart(text), "");
}

}  // namespace
}  // namespace sluice::policy::native_apart_test
