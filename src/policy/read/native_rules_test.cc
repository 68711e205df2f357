// Native rules as they are read from YAML (policy/read/native.h): all settings, and the messages
// about mistakes.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "base/bounds.h"
#include "policy/read/native.h"
#include "policy/read/native_text.h"

namespace sluice::policy {
namespace {

using limit::Algorithm;

struct Read {
  explicit Read(std::string_view text) {
    read_native(text, "f.yaml", spaces, rules, diagnostics);
    for (const auto& d : diagnostics) said += to_string(d) + "\n";
  }
  const Rule& rule(size_t i) const { return rules.native_rules()[i]; }

  request::Spaces spaces;
  RuleSet rules;
  base::Diagnostics diagnostics;
  std::string said;
};

constexpr int64_t second = 1'000'000;

// Every setting that a native rule can have.
constexpr const char* every_setting = R"(# the design's example
listen: whatever
rules:
  - name: cookies-by-ip
    comment: Three an hour
    match: { method: GET, path: "/pantry/cookies/*", ip: "*" }
    actor: ip
    limit: { quota: 3, window: 1h, algorithm: fixed_window }
  - name: api.per_tenant
    match: { tenant: "*", api: 7, beta: true }
    actor: [tenant, api]
    limits:
      - { quota: 100, window: 1s, burst: 200 }
      - { quota: 10_000, window: 1d, algorithm: sliding_window }
      - { quota: 5k, window: 250ms, algorithm: aligned_window }
      - { quota: "2M", window: "30d", algorithm: sliding_log }
    mode: shadow
    then: continue
  - match: { tenant: "" }
    unlimited: true
    mode: off
  - deny: true
)";

TEST(ReadNative, ReadsARuleOfOneLimit) {
  const Read read(every_setting);
  ASSERT_EQ(read.said, "");
  ASSERT_EQ(read.rules.native_rules().size(), 4u);

  const Rule& cookies = read.rule(0);
  EXPECT_EQ(cookies.name, "cookies-by-ip");
  EXPECT_EQ(cookies.comment, "Three an hour");
  EXPECT_EQ(cookies.pattern, "method=GET path=/pantry/cookies/* ip=*");
  EXPECT_EQ(cookies.file, "f.yaml");
  EXPECT_EQ(cookies.line, 4u);
  ASSERT_EQ(cookies.conditions.size(), 3u);
  EXPECT_TRUE(cookies.conditions[1].pattern.matches("/pantry/cookies/7"));
  EXPECT_FALSE(cookies.conditions[2].pattern.matches(std::nullopt));
  EXPECT_EQ(cookies.actor, std::vector<std::string>{"ip"});
  EXPECT_EQ(cookies.mode, Mode::enforce);
  EXPECT_EQ(cookies.then, Then::stop);
  ASSERT_EQ(cookies.limits.size(), 1u);
  EXPECT_EQ(cookies.limits[0], (limit::Limit{Algorithm::fixed_window, 3, {3600 * second}, 0}));
  EXPECT_EQ(cookies.space->prefix, "native:cookies-by-ip:");
  EXPECT_EQ(cookies.space->suffix, ":ip");
}

TEST(ReadNative, ReadsARuleOfSeveralLimits) {
  const Read read(every_setting);
  ASSERT_EQ(read.said, "");
  const Rule& api = read.rule(1);
  EXPECT_EQ(api.pattern, "tenant=* api=7 beta=true");
  EXPECT_EQ(api.actor, (std::vector<std::string>{"tenant", "api"}));
  EXPECT_EQ(api.mode, Mode::shadow);
  EXPECT_EQ(api.then, Then::continue_);
  ASSERT_EQ(api.limits.size(), 4u);
  EXPECT_EQ(api.limits[0], (limit::Limit{Algorithm::token_bucket, 100, {second}, 200}));
  EXPECT_EQ(api.limits[1], (limit::Limit{Algorithm::sliding_window, 10'000, {86'400 * second}, 0}));
  EXPECT_EQ(api.limits[2], (limit::Limit{Algorithm::aligned_window, 5'000, {250'000}, 0}));
  EXPECT_EQ(api.limits[3],
            (limit::Limit{Algorithm::sliding_log, 2'000'000, {30 * 86'400 * second}, 0}));
  EXPECT_EQ(api.space->suffix, ":tenant,api");
}

TEST(ReadNative, ReadsRulesThatAllowOrDenyAll) {
  const Read read(every_setting);
  ASSERT_EQ(read.said, "");
  EXPECT_EQ(read.rule(2).pattern, "tenant=");
  EXPECT_EQ(read.rule(2).mode, Mode::off);
  EXPECT_EQ(read.rule(2).limits[0],
            (limit::Limit{Algorithm::unlimited, base::bounds::quota_max, {}, 0}));
  EXPECT_EQ(read.rule(3).pattern, "any");
  EXPECT_EQ(read.rule(3).limits[0], (limit::Limit{Algorithm::deny, 0, {}, 0}));
  EXPECT_EQ(read.rule(3).space->prefix, "native:[]:");
}

TEST(ReadNative, BurstIsTheQuotaByDefault) {
  const Read read("rules: [{ limit: { quota: 7, window: 1us } }]");
  ASSERT_EQ(read.said, "");
  EXPECT_EQ(read.rule(0).limits[0], (limit::Limit{Algorithm::token_bucket, 7, {1}, 7}));
}

TEST(ReadNative, ReadsWhichLimitsCount) {
  const Read read(
      "rules: [{ name: a, limit: { quota: 7, window: 1m, over: count } },\n"
      "{ name: b, limit: { quota: 7, window: 1m, over: refuse } },\n"
      "{ name: c, limits: [{ quota: 7, window: 1m }, { quota: 70, window: 1h, over: count }] }]");
  ASSERT_EQ(read.said, "");
  EXPECT_EQ(read.rule(0).counts, 1);
  EXPECT_EQ(read.rule(1).counts, 0);
  EXPECT_EQ(read.rule(2).counts, 2);
  const std::string text = native_text(read.rules.native_rules());
  EXPECT_NE(text.find("quota: 7, window: 1m, over: count }"), text.npos) << text;
  EXPECT_NE(text.find("- { quota: 7, window: 1m }"), text.npos) << text;
  EXPECT_NE(text.find("- { quota: 70, window: 1h, over: count }"), text.npos) << text;
  const Read wrong("rules: [{ limit: { quota: 7, window: 1m, over: conut } }]");
  EXPECT_NE(wrong.said.find("over: `conut` is not a way to go on past the limit; did you mean "
                            "`count`?"),
            wrong.said.npos)
      << wrong.said;
}

TEST(ReadNative, ReadsWhatReservationsMayDo) {
  const Read read(
      "rules: [{ name: a, limit: { quota: 7, window: 1m } },\n"
      "{ name: b, limit: { quota: 7, window: 1m }, reserve: { max_ttl: 90s, max_fraction: 0.25,\n"
      "  on_expiry: keep, late_commit: ignore } },\n"
      "{ name: c, limit: { quota: 7, window: 1m }, reserve: { max_fraction: 1, max_ttl: 1d } },\n"
      "{ name: d, limit: { quota: 7, window: 1m }, reserve: { max_fraction: 0.000001 } }]");
  ASSERT_EQ(read.said, "");
  EXPECT_EQ(read.rule(0).reserve, request::HoldTerms());
  EXPECT_EQ(
      read.rule(1).reserve,
      (request::HoldTerms{
          .ttl_max = base::seconds(90), .fraction = 250'000, .keeps = true, .ignores_late = true}));
  EXPECT_EQ(read.rule(2).reserve, (request::HoldTerms{.ttl_max = base::seconds(86'400)}));
  EXPECT_EQ(read.rule(3).reserve.fraction, 1);
  EXPECT_EQ(read.rule(3).reserve.most_of(1'999'999), 1);
  EXPECT_EQ(read.rule(1).reserve.most_of(9'007'199'254'740'991), 2'251'799'813'685'247);
  const std::string text = native_text(read.rules.native_rules());
  EXPECT_NE(text.find("reserve: { max_ttl: 90s, max_fraction: 0.25, on_expiry: keep, "
                      "late_commit: ignore }"),
            text.npos)
      << text;
  const auto said = [](const std::string& reserve) {
    return Read("rules: [{ limit: { quota: 7, window: 1m }, reserve: " + reserve + " }]").said;
  };
  for (const char* wrong : {"0", "1.1", "0.0000001", "-0.5", "1e-1", ".5", "0.", "a half", "2"})
    EXPECT_NE(said("{ max_fraction: " + std::string(wrong) + " }")
                  .find("is not a part of a limit; write a number above 0 and at most 1"),
              std::string::npos)
        << wrong;
  for (const char* wrong : {"0s", "25h", "60", "soon"})
    EXPECT_NE(said("{ max_ttl: " + std::string(wrong) + " }")
                  .find("is not how long a reservation may be held; write a length of time"),
              std::string::npos)
        << wrong;
  EXPECT_NE(said("{ on_expiry: kepe }").find("`kepe` is unknown; did you mean `keep`?"),
            std::string::npos);
  EXPECT_NE(said("{ late_commit: charged }").find("`charged` is unknown; did you mean `charge`?"),
            std::string::npos);
  EXPECT_NE(said("{ max_tll: 1m }").find("max_tll"), std::string::npos);
  EXPECT_NE(said("keep").find("reserve"), std::string::npos);
}

TEST(ReadNative, ReadsWhoWaitsInTurn) {
  const auto rule = [](const std::string& more) {
    return "rules:\n- match: { tenant: '*', ip: '*' }\n  actor: ip\n"
           "  limit: { quota: 7, window: 1m }\n  fair_by: " +
           more + "\n";
  };
  const Read read(rule("tenant"));
  EXPECT_EQ(read.said, "");
  EXPECT_EQ(read.rule(0).fair_by, "tenant");
  EXPECT_NE(native_text(read.rules.native_rules()).find("\n    fair_by: tenant\n"),
            std::string::npos);
  const auto says = [&](const std::string& more, const std::string& what) {
    const std::string said = Read(rule(more)).said;
    EXPECT_NE(said.find(what), std::string::npos) << said;
  };
  says("tenat",
       "f.yaml:5:12: warning: rule [tenant=* ip=*]: fair_by: `tenat` is not a key of this rule's "
       "match; all requests without it share one turn; did you mean `tenant`?");
  says("region", "match it with `region: \"*\"`, or leave it if that is meant");
  says(
      "ip",
      "f.yaml:5:12: warning: rule [tenant=* ip=*]: fair_by: each counter has one value of `ip`, as "
      "it is in this rule's actor; waiting requests are served in order of arrival; name another "
      "key, or "
      "take `fair_by` out");
  says("''", "f.yaml:5:12: error: rule [tenant=* ip=*]: fair_by: has no value; write one value");
  says("[tenant]", "f.yaml:5:12: error: rule [tenant=* ip=*]: fair_by: must be a single value");
}

TEST(ReadNative, ReadsWhatLimitsMayOwe) {
  const Read read(
      "rules: [{ name: a, limit: { quota: 7, window: 1m, overdraft: 0 } },\n"
      "{ name: b, limit: { quota: 7, window: 1m, overdraft: 9007199254740991 } },\n"
      "{ name: c, limits: [{ quota: 7, window: 1m }, { quota: 70, window: 1h, over: count, "
      "overdraft: 2k }] }]");
  ASSERT_EQ(read.said, "");
  EXPECT_EQ(read.rule(0).overdraft_of(0), 0);
  EXPECT_EQ(read.rule(1).overdrafts, nullptr);
  EXPECT_EQ(read.rule(2).overdraft_of(0), std::nullopt);
  EXPECT_EQ(read.rule(2).overdraft_of(1), 2'000);
  EXPECT_EQ(read.rule(2).counts, 2);
  const std::string text = native_text(read.rules.native_rules());
  EXPECT_NE(text.find("quota: 7, window: 1m, overdraft: 0 }"), text.npos) << text;
  EXPECT_NE(text.find("- { quota: 70, window: 1h, over: count, overdraft: 2000 }"), text.npos)
      << text;
  // The limits are the same, and so are their counters.
  EXPECT_EQ(read.rule(0).limits_id, read.rule(1).limits_id);
  for (const auto& [word, why] :
       {std::pair("-1",
                  "overdraft: `-1` is not a whole number of units; write the most units that "
                  "may be owed, 0 to 9007199254740991, as in 0, 500 or 2M, or take it out "
                  "for no such bound"),
        std::pair("none", "overdraft: `none` is not a whole number"),
        std::pair("[1]", "overdraft: must be"),
        std::pair("9007199254740992",
                  "overdraft: `9007199254740992` is more than units are counted to")}) {
    const Read wrong("rules: [{ limit: { quota: 7, window: 1m, overdraft: " + std::string(word) +
                     " } }]");
    EXPECT_NE(wrong.said.find(why), wrong.said.npos) << wrong.said;
  }
  for (const char* rule : {"unlimited: true, overdraft: 5", "deny: true, overdraft: 5"}) {
    const Read wrong("rules: [{ " + std::string(rule) + " }]");
    EXPECT_NE(wrong.said.find("overdraft: is not a known key"), wrong.said.npos) << wrong.said;
  }
}

TEST(ReadNative, ReadsWhatLimitsCount) {
  const Read read(
      "rules: [{ name: a, limit: { quota: 7, window: month, unit: tokens } },\n"
      "{ name: b, limits: [{ quota: 7, window: 1m }, { quota: 70, window: 1h, unit: tokens },\n"
      "  { quota: 2, algorithm: concurrency, lease: 9s }] },\n"
      "{ name: c, limits: [{ quota: 7, window: 1m, unit: gb-s }, { quota: 70, window: 1h, unit: "
      "gb-s }] },\n"
      "{ name: d, limit: { quota: 7, window: 1m } }]");
  ASSERT_EQ(read.said, "");
  EXPECT_EQ(read.rule(0).unit_of(0), "tokens");
  EXPECT_EQ(read.rule(1).unit_of(0), "tokens") << "one cost counts for all";
  EXPECT_EQ(read.rule(1).unit_of(2), "") << "of places";
  EXPECT_EQ(read.rule(2).unit, "gb-s");
  EXPECT_EQ(read.rule(3).unit, "");
  const auto says = [](const std::string& limit, const std::string& why) {
    const Read wrong("rules: [{ limit: { " + limit + " } }]");
    EXPECT_NE(wrong.said.find("error: rule [any]: unit: " + why), wrong.said.npos) << wrong.said;
  };
  for (const auto& [word, window] : {std::pair("second", "1s"),
                                     {"minutes", "1m"},
                                     {"hour", "1h"},
                                     {"day", "1d"},
                                     {"week", "7d"},
                                     {"months", "month"},
                                     {"year", "year"}})
    says("quota: 7, window: 1m, unit: " + std::string(word),
         "`" + std::string(word) +
             "` is a length of time, and `unit` says what the quota counts; write `window: " +
             window + "`");
  says("quota: 7, unit: minute", "`minute` is a length of time");
  says("quota: 7, window: 1m, unit: 'a b'",
       "`a b` cannot name what the quota counts; use 1 to 64 letters");
  says("quota: 7, window: 1m, unit: " + std::string(65, 'a'), "`aaa");
  says("quota: 7, window: 1m, unit: ''", "has no value");
  says("quota: 7, window: 1m, unit: [a]", "must be a single value");
  says("quota: 7, algorithm: concurrency, lease: 1s, unit: streams",
       "has no meaning for concurrency");
  says("quota: 7, window: 1m, unit: concurrent-requests",
       "`concurrent-requests` is the unit of places; write `algorithm: concurrency`");
  const Read two(
      "rules: [{ limits: [{ quota: 7, window: 1m, unit: tokens }, { quota: 70, window: 1h, unit: "
      "bytes }] }]");
  EXPECT_NE(
      two.said.find("unit: `bytes` beside `tokens`: each cost counts for all limits of the rule "
                    "alike; write one unit, or put the limit into another rule"),
      two.said.npos)
      << two.said;
}

TEST(ReadNative, ReadsOnStoreError) {
  const Read read(
      "rules: [{ name: a, deny: true }, { name: b, deny: true, on_store_error: error },\n"
      "{ name: c, deny: true, on_store_error: deny },\n"
      "{ name: d, deny: true, on_store_error: local },\n"
      "{ name: e, deny: true, on_store_error: allow }]");
  ASSERT_EQ(read.said, "");
  using request::OnError;
  const OnError expected[] = {OnError::error, OnError::error, OnError::deny, OnError::local,
                              OnError::allow};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(read.rule(i).on_store_error, expected[i]) << i;
}

TEST(ReadNative, RefusesATextWithoutRules) {
  const std::string missing =
      "f.yaml: error: rules: is missing: no request would meet a rule; add `rules: [...]`\n";
  for (const char* text : {"", "# nothing", "workers: 4", "---\n---\n", "~", "{}"})
    EXPECT_EQ(Read(text).said, missing) << text;
  EXPECT_EQ(Read("rulse: [{ deny: true }]").said,
            "f.yaml:1:1: error: rulse: is not a known key; did you mean `rules`?\n" + missing);
  EXPECT_EQ(Read("rules: [{ name: a, deny: true }]\nrule: 3\n").said,
            "f.yaml:2:1: error: rule: is not a known key; did you mean `rules`?\n");
}

// Texts with one mistake each, and the message about it.
auto read_native_mistakes() {
  struct Case {
    std::string text, expected;
  };
  const auto limited = [](const std::string& limit) {
    return "rules:\n  - name: a\n    limit: { " + limit + " }\n";
  };
  const auto rule = [](const std::string& line) {
    return "rules:\n  - name: a\n    deny: true\n    " + line + "\n";
  };
  const Case cases[] = {
      {"- 1", "f.yaml:1:1: error: the file: must be a map of keys to values; native rules are"},
      {"rules:", "rules: must be a list with at least one rule"},
      {"rules: []", "f.yaml:1:8: error: rules: must be a list with at least one rule; write"},
      {"rules: { a: b }", "f.yaml:1:8: error: rules: must be a list"},
      {"rules: [a]", "f.yaml:1:9: error: rule 1: must be a map of keys to values; write"},
      {"a: 1\na: 2\n", "f.yaml:2:1: error: a: occurs twice, first on line 1; keep one of them"},
      {"rules: [", "f.yaml:1:8: error: is not YAML: what opens here is never closed; close it"},
      {"rules: [{ deny: true }]\n}\nb: c",
       "f.yaml:2:1: error: is not YAML: a key is expected here; indent"},
      {",--r: true }b", "f.yaml:1:1: error: is not YAML: a value is expected here; quote it"},
      {"a: 1\n--- {}", "f.yaml:2:5: error: ---: begins a second document, which would not be read"},
      {"a: \"\xff\"", "f.yaml:1:5: error: the file is not UTF-8 here; save the file as UTF-8"},
      {"a: b\nc: \x04\nd: e", "f.yaml:2:4: error: this control character"},
      {"a: &b [*b]", "f.yaml:1:8: error: is an alias within what it names"},
      {"a: *b", "f.yaml:1:4: error: names `b`, and no anchor before it has that name; write `&b`"},
      {"a: !mine b", "f.yaml:1:4: error: has the tag `!mine`, which says nothing here"},
      {rule("mtach: {}"),
       "f.yaml:4:5: error: rule a: mtach: is not a known key; did you "
       "mean `match`?"},
      {rule("xyzzy: {}"),
       "known here: name, comment, match, actor, limit, limits, unlimited, deny"},
      {rule("name: b"), "f.yaml:4:5: error: rule a: name: occurs twice, first on line 2; keep one"},
      {rule("<<: 3"), "f.yaml:4:9: error: rule a: <<: merges something that is not a map"},
      {rule("<<: [3]"), "f.yaml:4:10: error: rule a: <<: merges something that is not a map"},
      {rule("<<: {}\n    <<: {}"), "f.yaml:5:5: error: rule a: <<: occurs twice, first on line 4"},
      {rule("[a]: 3"), "f.yaml:4:5: error: rule a: has a key that is a list or a map"},
      {rule("comment: [a]"), "f.yaml:4:14: error: rule a: comment: must be a single value"},
      {rule("match: GET"), "f.yaml:4:12: error: rule a: match: must be a map of keys"},
      {rule("match: { ip: }"), "f.yaml:4:18: error: rule a: match: ip: has no value; write"},
      {rule("match: { ip: ~ }"), "f.yaml:4:18: error: rule a: match: ip: has no value; write"},
      {rule("match: { ip: { a: b } }"), "f.yaml:4:18: error: rule a: match: ip: must be a value"},
      {rule("match: { \"\": a }"), "f.yaml:4:14: error: rule a: match: has an empty key"},
      {rule("match: { a: b, a: c }"), "f.yaml:4:20: error: rule a: a: occurs twice, first on"},
      {rule("actor: []"), "f.yaml:4:12: error: rule a: actor: is an empty list; take it out"},
      {rule("actor: [ip, ip]"), "f.yaml:4:17: error: rule a: actor: `ip` is named twice"},
      {rule("actor: { a: b }"), "f.yaml:4:12: error: rule a: actor: must be a single value"},
      {rule("actor: [[a]]"), "f.yaml:4:13: error: rule a: actor: must be a single value"},
      {rule("mode: shadwo"),
       "f.yaml:4:11: error: rule a: mode: `shadwo` is unknown; did you mean "
       "`shadow`?"},
      {rule("on_store_error: alow"),
       "f.yaml:4:21: error: rule a: on_store_error: `alow` is unknown; did you mean `allow`?"},
      {rule("then: go"), "f.yaml:4:11: error: rule a: then: `go` is unknown; known here: stop, "},
      {rule("deny: true"), "f.yaml:4:5: error: rule a: deny: occurs twice, first on line 3"},
      {rule("unlimited: true"),
       "f.yaml:4:16: error: rule a: has `unlimited`, `deny` at once; write "
       "exactly one of"},
      {"rules: [{ name: a }]", "f.yaml:1:9: error: rule a: has no limit; write exactly one of"},
      {"rules: [{ deny: false }]", "f.yaml:1:17: error: rule [any]: deny: can only be `true`"},
      {"rules: [{ unlimited: yes }]", "error: rule [any]: unlimited: can only be `true`"},
      {"rules: [{ name: 'a b', deny: true }]",
       "f.yaml:1:17: error: rule 1: name: `a b` cannot name a rule; use 1 to 255 letters"},
      {"rules: [{ name: " + std::string(256, 'a') + ", deny: true }]", "cannot name a rule"},
      {"rules: [{ name: , deny: true }]", "rule 1: name: has no value"},
      {"rules:\n- { name: a, deny: true }\n- { name: a, deny: true }",
       "f.yaml:3:11: error: rule a: name: `a` is already the name of the rule on line 2"},
      {"rules:\n- { match: { a: b, c: d }, deny: true }\n- { match: { c: d, a: b }, deny: true }",
       "f.yaml:3:3: error: rule [c=d a=b]: the rule on line 2 has the same match, and "
       "neither has a name"},
      {"rules:\n- { deny: true, limits: [] }",
       "f.yaml:2:25: error: rule [any]: limits: must be a list of limits"},
      {"rules:\n- { limits: [1,2,3,4,5,6,7,8,9] }",
       "f.yaml:2:13: error: rule [any]: limits: has 9 limits; a rule has at most 8"},
      {"rules:\n- { limits: [3] }",
       "f.yaml:2:14: error: rule [any]: limit: must be a map of keys "
       "to values; its keys are `quota`, `window`, `burst`, `algor"},
      {"rules:\n- limits:\n  - &l { quota: 99, window: 1s, algorithm: sliding_log }\n  - *l\n  - "
       "*l",
       "f.yaml:3:3: error: rule [any]: limits: need more memory than one counter may have"},
      {limited("quota: 1"), "f.yaml:3:12: error: rule a: limit: has no window; add `window: 1s`"},
      {limited("window: 1s"), "f.yaml:3:12: error: rule a: limit: has no quota; add `quota: N`"},
      {limited("quota: 0, window: 1s"), "f.yaml:3:21: error: rule a: quota: 0 units would refuse"},
      {limited("quota: -1, window: 1s"),
       "f.yaml:3:21: error: rule a: quota: `-1` is not a whole num"},
      {limited("quota: 1.5, window: 1s"),
       "rule a: quota: `1.5` is not a whole number of units; write "
       "1 to 9007199254740991, as in 100, 10_000, 5k or 2M"},
      {limited("quota: 9_007_199_254_740_992, window: 1s"), "is more than units are counted to"},
      {limited("quota: [1], window: 1s"), "f.yaml:3:21: error: rule a: quota: must be a single"},
      {limited("quota: 1, window: 1s, algorithm: fixed_bucket"),
       "f.yaml:3:32: error: rule a: window: has no effect on a fixed_bucket: its units come back "
       "only by being put back; take it out, or write `algorithm: token_bucket`"},
      {limited("quota: 1, burst: 1, algorithm: fixed_bucket"),
       "f.yaml:3:31: error: rule a: burst: is a token bucket's, and this is a fixed_bucket; take"},
      {limited("algorithm: fixed_bucket"), "rule a: limit: has no quota; add `quota: N`"},
      {limited("quota: 1, algorithm: concurrency"),
       "f.yaml:3:12: error: rule a: limit: has no lease; add `lease: 30s`, the length of time "
       "after which a place comes back that nobody gives back"},
      {limited("quota: 1, window: 1s, algorithm: concurrency, lease: 1s"),
       "f.yaml:3:32: error: rule a: window: has no meaning for concurrency: a place is out until "
       "it is given back, or until the end of its lease; write `lease` in place of it"},
      {limited("quota: 1, burst: 1, algorithm: concurrency, lease: 1s"),
       "rule a: burst: is a token bucket's, and this is a concurrency; take"},
      {limited("quota: 1, time_zone: UTC, algorithm: concurrency, lease: 1s"),
       "rule a: time_zone: belongs to a window of the calendar; take it out"},
      {limited("quota: 1, algorithm: concurrency, lease: 30"),
       "rule a: lease: `30` has no unit; write `30s` if seconds are meant"},
      {limited("quota: 1, algorithm: concurrency, lease: 3M"),
       "rule a: lease: `M` in `3M` is not a unit of time; write `3m` if minutes are meant; units"},
      {limited("quota: 1, algorithm: concurrency, lease: month"),
       "rule a: lease: `month` is not a length of time; write a whole number and us, ms, s, m, h "
       "or d, as in `250ms` or `1h`"},
      {limited("quota: 1, algorithm: concurrency, lease: 0s"),
       "rule a: lease: must be longer than 0"},
      {limited("quota: 1, algorithm: concurrency, lease: 36601d"),
       "rule a: lease: `36601d` is beyond 36600d (100 years), the longest lease; shorten it"},
      {limited("quota: 1, algorithm: concurrency, lease: 30s, max_lease: 29s"),
       "rule a: max_lease: `29s` is shorter than the lease; write the longest lease that a holder "
       "may ask for, `30s` or more"},
      {limited("quota: 1, window: 1s, lease: 30s"),
       "f.yaml:3:43: error: rule a: lease: belongs to algorithm concurrency; take it out, or write "
       "`algorithm: concurrency` for places that come back"},
      {limited("quota: 1, window: 1s, max_lease: 30s"),
       "rule a: max_lease: belongs to algorithm concurrency"},
      {limited("quota: 1, window: 60"),
       "f.yaml:3:32: error: rule a: window: `60` has no unit; write "
       "`60s` if seconds are meant"},
      {limited("quota: 1, window: 5min"),
       "rule a: window: `5min` is not a length of time; write a "},
      {limited("quota: 1, window: 0s"), "rule a: window: must be longer than 0; write `1us` or"},
      {limited("quota: 1, window: 36601d"),
       "rule a: window: `36601d` is beyond 36600d (100 years)"},
      {limited("quota: 1, window: 1s, burst: 0"), "f.yaml:3:43: error: rule a: burst: 0 units"},
      {limited("quota: 1, window: 1s, burst: 5, algorithm: fixed_window"),
       "f.yaml:3:43: error: rule a: burst: is a token bucket's, and this is a fixed_window; take"},
      {limited("quota: 1, window: 1s, algorithm: fixed-window"),
       "f.yaml:3:47: error: rule a: algorithm: `fixed-window` is not an algorithm; did you mean "
       "`fixed_window`?"},
      {limited("quota: 1, window: 1s, algorithm: deny"),
       "`deny` is not an algorithm; known here: token"},
      {limited("quota: 1, window: 1s, algorithm: gcra"),
       "f.yaml:3:47: error: rule a: algorithm: `gcra` is not an algorithm of policies; write "
       "`token_bucket`, which makes the same promise in exact arithmetic"},
      {limited("quota: 1, window: 1s, algorithm: gcra_cell"),
       "`gcra_cell` is not an algorithm of policies; write `token_bucket`"},
      {limited("quota: 1, window: 1s, brust: 5"),
       "f.yaml:3:36: error: rule a: brust: is not a known key; "
       "did you mean `burst`?"},
  };
  return std::vector(cases, std::end(cases));
}

TEST(ReadNative, ReportsErrorsWithPlaceAndRemedy) {
  for (const auto& [text, expected] : read_native_mistakes()) {
    const Read read(text);
    EXPECT_NE(read.said.find(expected), std::string::npos)
        << text << "\nsays: " << read.said << "not:  " << expected;
    EXPECT_TRUE(has_errors(read.diagnostics)) << text;
  }
}

TEST(ReadNative, WarnsOfActorsThatARequestMayLack) {
  const Read read(
      "rules:\n  - match: { tenant: \"*\" }\n    actor: [tenant, tenat, ip]\n"
      "    limit: { quota: 1, window: 1s }\n  - { actor: ip, deny: true }\n");
  EXPECT_EQ(
      read.said,
      "f.yaml:3:12: warning: rule [tenant=*]: actor: `tenat` is not a key of this rule's match; "
      "all requests without it share one counter; did you mean `tenant`?\n"
      "f.yaml:3:12: warning: rule [tenant=*]: actor: `ip` is not a key of this rule's match; all "
      "requests without it share one counter; match it with `ip: \"*\"`, or leave it if that "
      "is meant\n");
}

TEST(ReadNative, ReportsAllErrorsInOneRun) {
  const Read read(
      "rules:\n  - { nmae: a }\n  - 7\n  - { name: b, limit: { quota: x, window: 3 } }\n");
  EXPECT_EQ(std::count(read.said.begin(), read.said.end(), '\n'), 5) << read.said;
}

TEST(ReadNative, StopsReportingAfterAThousandErrors) {
  std::string text = "rules: [";
  for (int i = 0; i < 5000; ++i) text += "a, ";
  const Read read(text + "a]");
  EXPECT_EQ(read.diagnostics.size(), 1001u);
}

TEST(ReadNative, MergeKeys) {
  const Read read(R"(
rules:
  - &base
    name: one
    match: &match { method: GET, path: "/a" }
    actor: method
    limit: &limit { quota: 10, window: 1s }
  - <<: *base
    name: two
    match: { path: "/b", <<: *match, ip: "*" }
  - { <<: [{ name: three, actor: ip }, *base], limit: { <<: *limit, burst: 20 } }
  - { "<<": x, name: four, deny: true }
)");
  EXPECT_NE(read.said.find("f.yaml:12:7: error: rule four: <<: is not a known key"),
            std::string::npos)
      << read.said;
  ASSERT_EQ(read.rules.native_rules().size(), 4u);
  EXPECT_EQ(read.rule(1).name, "two");
  EXPECT_EQ(read.rule(1).pattern, "path=/b ip=* method=GET");
  EXPECT_EQ(read.rule(1).limits, read.rule(0).limits);
  EXPECT_EQ(read.rule(1).actor, read.rule(0).actor);
  EXPECT_EQ(read.rule(2).name, "three");
  EXPECT_EQ(read.rule(2).actor, std::vector<std::string>{"ip"});
  EXPECT_EQ(read.rule(2).limits[0], (limit::Limit{Algorithm::token_bucket, 10, {second}, 20}));
}

TEST(ReadNative, AliasesThatMultiplyAreBounded) {
  std::string text = "a0: &a0 { x: 1 }\n";
  for (int i = 1; i < 40; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " { <<: [" + last + ", " + last +
            ", " + last + "] }\n";
  }
  const Read read(text + "rules: [{ match: *a39, deny: true }]");
  EXPECT_NE(read.said.find("aliases and merge keys expand to far more than the file contains"),
            std::string::npos)
      << read.said;
}

TEST(ReadNative, DifferentRulesHaveDifferentSpaces) {
  // Each rule is read alone, so the same pattern may occur twice.
  const auto space = [](const std::string& rule) {
    const Read read("rules: [{ " + rule + ", limit: { quota: 1, window: 1s } }]");
    EXPECT_FALSE(has_errors(read.diagnostics)) << read.said;
    return read.rule(0).space->prefix + "#" + read.rule(0).space->suffix;
  };
  const std::vector<std::string> rules = {
      "name: any",
      "name: a",
      "match: {}",
      "match: { a: b, c: d }",
      "match: { a: 'b c=d' }",
      "match: { a: 'b]:c' }",
      "match: { a: b }",
      "match: { a: b }, actor: a",
      "match: { a: b, c: d }, actor: [a, c]",
      "match: { a: b, 'a,c': d }, actor: 'a,c'",
  };
  for (size_t i = 0; i < rules.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(space(rules[i]), space(rules[j])) << rules[i];
  EXPECT_EQ(space("match: { c: d, a: b }"), space("match: { a: b, c: d }"));
  EXPECT_EQ(space("name: a, match: { c: d }"), space("name: a"));
}

TEST(ReadNative, AFixedBucketHasNoWindow) {
  const Read read("rules: [{ name: a, limit: { quota: 7, algorithm: fixed_bucket } }]");
  ASSERT_EQ(read.said, "");
  EXPECT_EQ(read.rule(0).limits[0], (limit::Limit{Algorithm::fixed_bucket, 7, {}, 7}));
}

TEST(ReadNative, PlacesHaveALease) {
  const Read read(
      "rules:\n- { name: a, limit: { quota: 7, algorithm: concurrency, lease: 30s } }\n"
      "- { name: b, limit: { quota: 7, algorithm: concurrency, lease: 30s, max_lease: 5m, over: "
      "count, overdraft: 3 } }");
  ASSERT_EQ(read.said, "");
  EXPECT_EQ(read.rule(0).limits[0],
            (limit::Limit{Algorithm::concurrency, 7, base::seconds(30), 30'000'000}));
  EXPECT_EQ(read.rule(1).limits[0],
            (limit::Limit{Algorithm::concurrency, 7, base::seconds(30), 300'000'000}));
}

TEST(ReadNative, ACounterOutlivesOtherLimits) {
  request::Spaces spaces;
  const auto space = [&](const std::string& limit) {
    RuleSet rules;
    base::Diagnostics diagnostics;
    read_native("rules: [{ name: a, limit: { " + limit + " } }]", "f", spaces, rules, diagnostics);
    EXPECT_TRUE(diagnostics.empty());
    return rules.native_rules()[0].space;
  };
  const auto* before = space("quota: 1, window: 1s");
  EXPECT_EQ(space("quota: 2, window: 1h, burst: 3"), before);
  EXPECT_EQ(space("quota: 1, window: 1s, algorithm: sliding_log"), before);
}

}  // namespace
}  // namespace sluice::policy
