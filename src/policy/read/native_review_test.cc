// Warnings about rules without an effect (policy/read/native_review.h).
#include "policy/read/native_review.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "limit/decide.h"
#include "policy/read/native.h"
#include "protocol/divvy/rules.h"
#include "protocol/droplet/rules.h"

namespace sluice::policy {
namespace {

using limit::Algorithm;
using limit::Limit;

std::string told(const std::string& rules_text, const std::string& divvy = "") {
  request::Spaces spaces;
  RuleSet rules;
  base::Diagnostics reading, diagnostics;
  droplet::add_droplet_rule(spaces, rules);  // every server has this rule
  read_native("rules:\n" + rules_text, "f", spaces, rules, reading);
  if (!divvy.empty())
    divvy::read_divvy(divvy, divvy::DivvyFormat::ini, divvy::DivvyMatching::code, "d.ini", spaces,
                      rules, reading);
  EXPECT_FALSE(has_errors(reading)) << to_string(reading.front());
  review(rules, diagnostics);
  std::string text;
  for (const auto& d : diagnostics) text += to_string(d) + "\n";
  return text;
}

struct Case {
  const char *rules, *expected;  // the beginning of the warnings; "": none
};

void check(const std::vector<Case>& cases) {
  for (const auto& [rules, expected] : cases) {
    const std::string said = told(rules);
    if (*expected == '\0')
      EXPECT_EQ(said, "") << rules;
    else
      EXPECT_EQ(said.find(expected), 0u) << rules << "says: " << said;
  }
}

TEST(Review, ReportsUnreachableRules) {
  check({
      {"- { name: a, deny: true }\n- { name: b, match: { x: y }, unlimited: true }\n",
       "f:3: warning: rule b: is unreachable: rule a (line 2) applies to everything that it could "
       "apply to, and stops; move it in front"},
      {"- { match: { p: \"/a/*\" }, deny: true }\n- { match: { p: /a/b, q: r }, deny: true }\n",
       "f:3: warning: rule [p=/a/b q=r]: is unreachable: rule [p=/a/*] (line 2)"},
      {"- { match: { p: \"/a/*\" }, deny: true }\n- { match: { p: \"/a/b*c\" }, deny: true }\n",
       "f:3: warning: rule [p=/a/b*c]: is unreachable"},
      {"- { match: { p: \"*a*\" }, deny: true }\n- { match: { p: \"*a*\", q: r }, deny: true }\n",
       "f:3: warning: rule [p=*a* q=r]: is unreachable"},
      {"- { match: { p: \"regex(/a/i)\" }, deny: true }\n"
       "- { name: x, match: { p: \"regex(/a/i)\" }, deny: true }\n",
       "f:3: warning: rule x: is unreachable"},
      {"- { match: { p: [\"*a\", b] }, deny: true }\n"
       "- { name: x, match: { p: [b, \"*a\"] }, deny: true }\n",
       "f:3: warning: rule x: is unreachable"},
      {"- { match: { p: \"*\" }, deny: true }\n- { match: { p: \"\" }, mode: shadow, deny: true "
       "}\n",
       "f:3: warning: rule [p=]: is unreachable"},
      // What needs a search through texts with stars, or an expression, is not decided.
      {"- { match: { p: \"*a*\" }, deny: true }\n- { match: { p: \"b*ac\" }, deny: true }\n", ""},
      {"- { match: { p: \"*a*\" }, deny: true }\n- { match: { p: bac }, deny: true }\n", ""},
      {"- { match: { p: \"regex(/a/)\" }, deny: true }\n- { match: { p: a }, deny: true }\n", ""},
      {"- { match: { p: \"*a\" }, deny: true }\n- { match: { p: exact(*a) }, deny: true }\n", ""},
      {"- { match: { p: exact(*a) }, deny: true }\n- { match: { p: \"*a\" }, deny: true }\n", ""},
      // Rules that are reached by other requests, in other modes, or not covered at all.
      {"- { match: { p: \"a*\" }, deny: true }\n- { match: { p: \"*\" }, deny: true }\n", ""},
      {"- { match: { p: \"*a\" }, deny: true }\n- { match: { p: \"a*\" }, deny: true }\n", ""},
      {"- { match: { p: \"*\" }, deny: true }\n- { match: { q: \"*\" }, deny: true }\n", ""},
      {"- { match: { p: a, q: b }, deny: true }\n- { match: { p: a }, deny: true }\n", ""},
      {"- { name: a, deny: true, mode: shadow }\n- { name: b, deny: true }\n", ""},
      {"- { name: a, deny: true, mode: off }\n- { name: b, deny: true }\n", ""},
      {"- { name: a, deny: true }\n- { name: b, deny: true, mode: off }\n", ""},
      {"- { name: b, match: { x: y }, unlimited: true }\n- { name: a, deny: true }\n", ""},
  });
}

TEST(Review, ReportsPointlessRules) {
  check({
      {"- { name: a, unlimited: true, then: continue }\n",
       "f:2: warning: rule a: has no effect: it allows everything, and later rules are asked"},
      {"- { name: a, limit: { quota: 5, window: 1s }, then: continue }\n"
       "- { name: b, limit: { quota: 6, window: 1s }, then: continue }\n",
       "f:3: warning: rule b: has no effect: rule a (line 2) applies as well and refuses"},
      {"- { name: a, limit: { quota: 6, window: 1s }, then: continue }\n"
       "- { name: b, limit: { quota: 5, window: 1s } }\n",
       "f:2: warning: rule a: has no effect: rule b (line 3)"},
      // Of two equal rules the second one is reported.
      {"- { name: a, limit: { quota: 5, window: 1s }, then: continue }\n"
       "- { name: b, limit: { quota: 5, window: 1s }, then: continue }\n",
       "f:3: warning: rule b: has no effect: rule a"},
      {"- { name: a, match: { x: \"*\" }, deny: true, then: continue }\n"
       "- { name: b, match: { x: y }, actor: x, limit: { quota: 5, window: 1s }, then: continue "
       "}\n",
       "f:3: warning: rule b: has no effect: rule a"},
      {"- { name: a, match: { x: \"*\", y: \"*\" }, actor: [x, y],\n"
       "    limit: { quota: 5, window: 1s }, then: continue }\n"
       "- { name: b, match: { x: a, y: \"*\" }, actor: [y, x],\n"
       "    limit: { quota: 6, window: 1s }, then: continue }\n",
       "f:4: warning: rule b: has no effect: rule a"},
      // Another actor, another pattern, a shadow rule, and a rule that stops and so has an effect.
      {"- { name: a, match: { x: \"*\" }, limit: { quota: 5, window: 1s }, then: continue }\n"
       "- { name: b, match: { x: \"*\" }, actor: x, limit: { quota: 6, window: 1s }, then: "
       "continue "
       "}\n",
       ""},
      {"- { name: a, match: { x: a }, limit: { quota: 5, window: 1s }, then: continue }\n"
       "- { name: b, limit: { quota: 6, window: 1s }, then: continue }\n",
       ""},
      {"- { name: a, mode: shadow, limit: { quota: 5, window: 1s }, then: continue }\n"
       "- { name: b, limit: { quota: 6, window: 1s }, then: continue }\n",
       ""},
      {"- { name: a, limit: { quota: 5, window: 1s }, then: continue }\n"
       "- { name: b, limit: { quota: 6, window: 1s } }\n",
       ""},
      // A rule between them may stop.
      {"- { name: a, limit: { quota: 6, window: 1s }, then: continue }\n"
       "- { name: s, match: { x: y }, unlimited: true }\n"
       "- { name: b, limit: { quota: 5, window: 1s } }\n",
       ""},
      // A fixed window that counts more requests opens at other times.
      {"- { name: a, limit: { quota: 5, window: 1s, algorithm: fixed_window }, then: continue }\n"
       "- { name: b, match: { x: y }, limit: { quota: 6, window: 1s, algorithm: fixed_window },\n"
       "    then: continue }\n",
       ""},
  });
}

TEST(Review, ReportsLimitsThatNeverRefuse) {
  check({
      {"- limits:\n  - { quota: 5, window: 1m, algorithm: sliding_log }\n"
       "  - { quota: 5, window: 1s, algorithm: sliding_log }\n",
       "f:2: warning: rule [any]: limit 2 (5 per 1s, sliding_log) never refuses: limit 1 (5 per "
       "1m, sliding_log) is stricter; take it out, or change one of them"},
      {"- limits:\n  - { quota: 100, window: 1s }\n  - { quota: 10, window: 1s, burst: 50 }\n",
       "f:2: warning: rule [any]: limit 1 (100 per 1s, token_bucket, burst 100) never refuses"},
      {"- limits:\n  - { quota: 5, window: 1s }\n  - { quota: 5, window: 1s }\n",
       "f:2: warning: rule [any]: limit 2 "},
      {"- limits:\n  - { quota: 5, window: 1s }\n  - { quota: 50, window: 1m }\n", ""},
      {"- limits:\n  - { quota: 5, window: 1m, algorithm: fixed_window }\n"
       "  - { quota: 5, window: 1s, algorithm: fixed_window }\n",
       ""},
  });
}

TEST(Review, ANativeRuleThatStopsAllHidesAPolicy) {
  const std::string divvy = "[default]\ncreditLimit = 0\nresetSeconds = 0\n";
  EXPECT_EQ(told("- { name: all, unlimited: true }\n", divvy),
            "f:2: warning: rule all: no request reaches the rules of `policy`, because it applies "
            "to all and stops; give it a match, or `then: continue`, or take out the policy\n");
  EXPECT_EQ(told("- { name: all, limit: { quota: 1, window: 1s }, then: continue }\n", divvy), "");
  EXPECT_EQ(told("- { name: all, limit: { quota: 1, window: 1s } }\n"), "");
}

TEST(Review, ReportsMoreRulesThanCanSettleTogether) {
  std::string rules;
  for (int i = 0; i < 65; ++i) {
    const std::string n = std::to_string(i);
    rules += "- { name: r" + n + ", match: { x: \"*\" }, actor: k" + n +
             ", limit: { quota: 1, window: 1s }, then: continue }\n";
  }
  const std::string said = told(rules);
  EXPECT_EQ(said.find("f:2: warning: rule r0: more than 64 rules apply to each of its requests"),
            0u)
      << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
}

TEST(Review, ReviewsManyRulesQuickly) {
  std::string rules;
  for (int i = 0; i < 5'000; ++i)
    rules += "- { name: r" + std::to_string(i) + ", deny: true, then: continue }\n";
  EXPECT_NE(told(rules), "");
}

// Whatever never_refuses() says, compared with the algorithms' decisions.
TEST(NeverRefuses, IsTrueOnlyIfTheAlgorithmNeverRefuses) {
  std::mt19937_64 random(7);
  const auto any = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  };
  // A sliding log is exact for up to 32 times; some windows have more.
  bool large = false;
  const auto any_limit = [&] {
    Limit limit;
    limit.algorithm = static_cast<Algorithm>(large && any(0, 1) == 0 ? 6 : any(2, 6));
    limit.quota = large ? any(30, 40) : any(0, 9) == 0 ? any(20, 80) : any(1, 8);
    limit.window.us = large ? any(60, 90) : any(1, 12);
    if (limit.algorithm == Algorithm::token_bucket) limit.burst = any(1, 8);
    return limit;
  };
  int said = 0, refusals = 0;
  for (int round = 0; round < 60'000; ++round) {
    large = round % 4 == 0;
    const Limit loose = any_limit(), strict = any_limit();
    const bool same_requests = any(0, 1) == 0;
    if (!never_refuses(loose, strict, same_requests)) continue;
    ++said;
    std::vector<limit::State> a(limit::cells(loose)), b(limit::cells(strict));
    auto next_a = a, next_b = b;
    base::Time now{any(0, 100)};
    for (int step = 0; step < (large ? 250 : 60); ++step) {
      now.us += any(0, 2) == 0 ? any(0, 14) : any(0, 1);
      const int64_t cost = any(0, 3) == 0 ? any(0, 5) : 1;
      const bool only_strict = !same_requests && any(0, 2) == 0;
      const auto by_strict = limit::decide(b.data(), strict, cost, now, next_b.data());
      const auto by_loose = limit::decide(a.data(), loose, cost, now, next_a.data());
      refusals += by_strict.allowed ? 0 : 1;
      if (!by_strict.allowed) continue;
      if (!only_strict) {
        ASSERT_TRUE(by_loose.allowed)
            << name_of(loose.algorithm) << " " << loose.quota << "/" << loose.window.us << "/"
            << loose.burst << " beside " << name_of(strict.algorithm) << " " << strict.quota << "/"
            << strict.window.us << "/" << strict.burst << " same " << same_requests;
      }
      // Another rule may refuse the request; then it takes nothing.
      if (any(0, 4) == 0) continue;
      b = next_b;
      if (!only_strict) a = next_a;
    }
  }
  EXPECT_GT(said, 5'000);
  EXPECT_GT(refusals, 50'000);
}

// Rules that are alike only in their stars are not compared with each other, and each of them is
// found by its equals.
TEST(Review, FindsEqualPatternsAmongManyThatAreAlike) {
  for (const auto& [before, behind] :
       {std::pair("*/v", ""), std::pair("/api/*/v", "/*"), std::pair("/a", "/*")}) {
    std::string text;
    for (size_t i = 0; i < 5'000; ++i)
      text += std::string("- { match: { p: \"") + before + std::to_string(i) + behind +
              "\" }, deny: true }\n";
    EXPECT_EQ(told(text), "");
    const std::string first = std::string(before) + "0" + behind;
    text += "- { name: last, match: { p: \"" + first + "\", q: r }, deny: true }\n";
    EXPECT_EQ(told(text).find("f:5002: warning: rule last: is unreachable: rule [p=" + first +
                              "] (line 2)"),
              0u)
        << told(text);
  }
}

}  // namespace
}  // namespace sluice::policy
