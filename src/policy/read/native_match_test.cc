// Conditions of native rules: networks, lists of values, expressions, and the messages about
// conditions that cannot be meant.
#include <gtest/gtest.h>

#include <string>

#include "policy/read/native.h"
#include "policy/read/native_review.h"

namespace sluice::policy::native_match_test {
namespace {

struct ReadMatch {
  explicit ReadMatch(const std::string& match)
      : ReadMatch({}, "- match: " + match + "\n  deny: true\n") {}
  ReadMatch(int, const std::string& list) {
    read_native("rules:\n" + list, "f", spaces, rules, diagnostics);
    review(rules, diagnostics);
    for (const auto& d : diagnostics) said += to_string(d) + "\n";
  }
  request::Spaces spaces;
  RuleSet rules;
  base::Diagnostics diagnostics;
  std::string said;
};

TEST(NativeMatch, TakesNetworksAndLists) {
  const ReadMatch read(
      "{ method: [GET, 'HEAD'], ip: cidr(10.0.0.0/8), from: [cidr(2001:db8::/32), \"cidr(::1)\", "
      "unix, 'a*'] }");
  ASSERT_EQ(read.said, "");
  const Rule& rule = read.rules.native_rules()[0];
  EXPECT_EQ(
      rule.pattern,
      "method=[GET, HEAD] ip=cidr(10.0.0.0/8) from=[cidr(2001:db8::/32), cidr(::1), unix, a*]");
  EXPECT_TRUE(rule.conditions[0].pattern.matches("HEAD"));
  EXPECT_FALSE(rule.conditions[0].pattern.matches("POST"));
  EXPECT_TRUE(rule.conditions[1].pattern.matches("10.9.8.7"));
  EXPECT_TRUE(rule.conditions[2].pattern.matches("2001:db8::7"));
  EXPECT_TRUE(rule.conditions[2].pattern.matches("0:0::1"));
  EXPECT_TRUE(rule.conditions[2].pattern.matches("abc"));
  EXPECT_FALSE(rule.conditions[2].pattern.matches("::2"));
}

TEST(NativeMatch, ReadsBlockStyleAndNormalizesNetworks) {
  const ReadMatch read(
      0,
      "- match:\n    ip: cidr(2001:0DB8:0:0::/32)\n    method:\n    - GET\n    - PUT\n"
      "  deny: true\n");
  ASSERT_EQ(read.said, "");
  EXPECT_EQ(read.rules.native_rules()[0].pattern, "ip=cidr(2001:db8::/32) method=[GET, PUT]");
}

TEST(NativeMatch, ReportsErrorsWithTheTextToWrite) {
  const std::pair<const char*, const char*> cases[] = {
      {"{ ip: 10.0.0.0/8 }",
       "f:2:16: warning: rule 1: match: ip: `10.0.0.0/8` is compared as a text, not as a network; "
       "write `cidr(10.0.0.0/8)`"},
      {"{ ip: [\"2001:db8::/32\"] }",
       "f:2:17: warning: rule 1: match: ip: `2001:db8::/32` is compared"},
      {"{ ip: cidr(10.0.0.0/33) }",
       "f:2:16: error: rule 1: match: ip: `10.0.0.0/33` is not a network; write an address of IPv4 "
       "or IPv6"},
      {"{ ip: cidr(10.0.0/8) }", "f:2:16: error: rule 1: match: ip: `10.0.0/8` is not a network"},
      {"{ ip: cidr() }", "f:2:16: error: rule 1: match: ip: `` is not a network"},
      {"{ ip: cidr(::ffff:0:0/95) }", "f:2:16: error: rule 1: match: ip: `::ffff:0:0/95` is not"},
      {"{ ip: cidr(10.1.2.3/8) }",
       "f:2:16: error: rule 1: match: ip: `10.1.2.3/8` has address bits beyond the first 8; write "
       "`cidr(10.0.0.0/8)`"},
      {"{ ip: cidr(10.0.0.0/8 }", "f:2:16: error: rule 1: match: ip: `cidr(10.0.0.0/8` has no `)`"},
      {"{ m: [] }", "f:2:15: error: rule 1: match: m: is an empty list, which no request fits"},
      {"{ m: [[GET]] }",
       "f:2:16: error: rule 1: match: m: must be a value or pattern, or a list of them"},
      {"{ m: { a: b } }", "f:2:15: error: rule 1: match: m: must be a value or pattern"},
      {"{ m: [GET, ] }", ""},
      {"{ m: [GET, null] }", "f:2:21: error: rule 1: match: m: has no value"},
      {"{ m: [GET, GET] }",
       "f:2:21: warning: rule 1: match: m: `GET` is named twice; name it once"},
  };
  for (const auto& [match, expected] : cases) {
    const ReadMatch read(match);
    EXPECT_TRUE(read.said.starts_with(expected)) << match << "\n" << read.said;
    EXPECT_EQ(read.said.empty(), *expected == '\0') << match << "\n" << read.said;
  }
}

TEST(NativeMatch, TakesExpressions) {
  const ReadMatch read("{ path: \"regex(/^\\\\/v[0-9]+\\\\/x$/i)\", m: GET }");
  ASSERT_EQ(read.said, "");
  const Pattern& path = read.rules.native_rules()[0].conditions[0].pattern;
  EXPECT_TRUE(path.matches("/V12/x"));
  EXPECT_FALSE(path.matches("/v/x"));
  EXPECT_FALSE(path.matches(std::nullopt));
  for (const auto& [match, wanted] :
       {std::pair("{ p: \"regex(/(/)\" }", "`regex(/(/)` is not an expression"),
        {"{ p: \"regex(/a/x)\" }", "`regex(/a/x)` is not an expression"},
        {"{ p: \"regex(/a/\" }", "is not an expression: has no `/` and `)` at its end"},
        {"{ p: [b, \"regex(/a/)\"] }", "is an expression in a list"}})
    EXPECT_NE(ReadMatch(match).said.find(wanted), std::string::npos) << ReadMatch(match).said;
}

TEST(NativeMatch, ReportsUnknownUnitsOfWindows) {
  const std::pair<const char*, const char*> cases[] = {
      {"1M",
       "window: `M` in `1M` is not a unit of time; write `1m` if minutes are meant, `month` for a "
       "month of the calendar"},
      {"5k", "window: `k` in `5k` is not a unit of time; units are us, ms, s, m, h, d"},
      {"60", "window: `60` has no unit; write `60s`"}};
  for (const auto& [window, wanted] : cases) {
    const ReadMatch read(0, std::string("- limit: { quota: 1, window: ") + window + " }\n");
    EXPECT_NE(read.said.find(wanted), std::string::npos) << read.said;
  }
}

TEST(NativeMatch, AListHasABound) {
  std::string list = "[v0";
  for (size_t i = 1; i < size_t{256}; ++i) list += ", v" + std::to_string(i);
  EXPECT_EQ(ReadMatch("{ m: " + list + "] }").said, "");
  EXPECT_NE(
      ReadMatch("{ m: " + list + ", more] }").said.find("has 257 values; a list has at most 256"),
      std::string::npos);
}

// The counters of a rule without a name are stored under its match: a list differs from a text that
// looks like it, and the order of its values does not matter.
TEST(NativeMatch, AListHasItsOwnCountersInAnyOrder) {
  const auto prefix = [](const std::string& match) {
    return ReadMatch(match).rules.native_rules()[0].space->prefix;
  };
  EXPECT_EQ(prefix("{ m: [GET, PUT] }"), prefix("{ m: [PUT, GET] }"));
  EXPECT_NE(prefix("{ m: [GET, PUT] }"), prefix("{ m: '[GET, PUT]' }"));
  EXPECT_NE(prefix("{ m: ['GET, PUT'] }"), prefix("{ m: [GET, PUT] }"));
  EXPECT_NE(prefix("{ m: ['GET,PUT'] }"), prefix("{ m: [GET, PUT] }"));
}

TEST(NativeMatch, ReviewComparesNetworksAndLists) {
  const std::pair<const char*, const char*> cases[] = {
      {"- { match: { ip: cidr(10.0.0.0/8) }, deny: true }\n"
       "- { match: { ip: cidr(10.1.0.0/16) }, deny: true }\n",
       "f:3: warning: rule [ip=cidr(10.1.0.0/16)]: is unreachable: rule [ip=cidr(10.0.0.0/8)]"},
      {"- { match: { m: [GET, PUT] }, deny: true }\n- { match: { m: PUT }, deny: true }\n",
       "f:3: warning: rule [m=PUT]: is unreachable"},
      {"- { match: { m: [GET, PUT] }, deny: true }\n- { match: { m: [PUT, POST] }, deny: true }\n",
       ""},
      {"- { match: { ip: c* }, deny: true }\n- { match: { ip: cidr(10.0.0.0/8) }, deny: true }\n",
       ""},
      {"- { match: { ip: cidr(10.1.0.0/16) }, deny: true }\n"
       "- { match: { ip: cidr(10.0.0.0/8) }, deny: true }\n",
       ""},
      {"- { match: { ip: '*' }, deny: true }\n- { match: { ip: cidr(10.0.0.0/8) }, deny: true }\n",
       "f:3: warning: rule [ip=cidr(10.0.0.0/8)]: is unreachable"},
  };
  for (const auto& [list, expected] : cases) {
    const ReadMatch read(0, list);
    EXPECT_TRUE(read.said.starts_with(expected)) << list << read.said;
    EXPECT_EQ(read.said.empty(), *expected == '\0') << list << read.said;
  }
}

}  // namespace
}  // namespace sluice::policy::native_match_test
