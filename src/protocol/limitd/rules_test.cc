// limitd's configuration in detail: which limits its buckets and overrides give, which keys they
// match, and what is refused.
#include "protocol/limitd/rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "protocol/limitd/value.h"
#include "tests/support/dice.h"
#include "tests/support/patience.h"

namespace sluice::limitd {
namespace {

using limit::Algorithm;
using limit::Limit;

constexpr int64_t second = 1'000'000;

struct Read {
  using Texts = std::vector<std::pair<std::string, std::string>>;

  explicit Read(const std::string& buckets)
      : Read(Texts{{"limitd.yaml", "db: /db\nbuckets:\n" + buckets}}, {}) {}
  Read(const Texts& files, const Texts& environment, LimitdConfig flags = {})
      : config(std::move(flags)) {
    std::vector<NamedText> texts, variables;
    for (const auto& [name, text] : files) texts.push_back({name, text});
    for (const auto& [name, text] : environment) variables.push_back({name, text});
    read_limitd(texts, variables, spaces, rules, config, diagnostics);
    for (const auto& d : diagnostics) said += to_string(d) + "\n";
  }

  bool accepted() const { return !has_errors(diagnostics); }
  bool says(std::string_view text) const { return said.find(text) != std::string::npos; }
  const policy::Rule* met(std::string_view type, std::string_view key, int64_t now_us = 0) const {
    const request::Entry request[] = {{"type", type}, {"key", key}};
    policy::Plan plan;
    rules.match(&dialect, {.descriptor = request, .now = {now_us}}, plan);
    const auto steps = plan.steps(plan.parts()[0]);
    return steps.empty() ? nullptr : steps[0].rule;
  }
  Limit limit(std::string_view type, std::string_view key, int64_t now_us = 0) const {
    const policy::Rule* rule = met(type, key, now_us);
    return rule == nullptr ? Limit{} : rule->limits.at(0);
  }

  request::Spaces spaces;
  policy::RuleSet rules;
  LimitdConfig config;
  base::Diagnostics diagnostics;
  std::string said;
};

Limit refilling(int64_t rate, int64_t window_us, int64_t size) {
  return {Algorithm::token_bucket, rate, {window_us}, size};
}
Limit fixed(int64_t size) {
  return {Algorithm::fixed_bucket, size, {}, size};
}

TEST(Limitd, TypesBecomeLimits) {
  const Read read(R"(
  full: { size: 10, per_second: 5 }
  rate: { per_minute: 7 }
  hour: { size: 1, per_hour: 2 }
  day: { size: 3, per_day: 4 }
  interval: { size: 10, per_interval: 10, interval: 500 }
  fixed: { size: 3, purpose: for a test }
  zero: { size: 0 }
  zero rate: { size: 0, per_second: 1 }
  free: { size: 100, unlimited: true }
  free rate: { per_hour: 9, unlimited: true }
  "a:b\\c": { size: 0x10 }
  constructor: { size: 1_000 }
  __proto__: { size: 1e3 }
  whole: { size: 10.0 }
)");
  ASSERT_EQ(read.said, "");
  EXPECT_EQ(read.config.types, 14u);
  EXPECT_EQ(read.limit("full", "k"), refilling(5, second, 10));
  EXPECT_EQ(read.limit("rate", "k"), refilling(7, 60 * second, 7));
  EXPECT_EQ(read.limit("hour", "k"), refilling(2, 3600 * second, 1));
  EXPECT_EQ(read.limit("day", "k"), refilling(4, 86'400 * second, 3));
  EXPECT_EQ(read.limit("interval", "k"), refilling(10, second / 2, 10));
  EXPECT_EQ(read.limit("fixed", "k"), fixed(3));
  EXPECT_EQ(read.limit("zero", "k"), (Limit{Algorithm::deny, 0, {}, 0}));
  EXPECT_EQ(read.limit("zero rate", "k"), (Limit{Algorithm::deny, 0, {}, 0}));
  EXPECT_EQ(read.limit("free", "k"), (Limit{Algorithm::unlimited, 100, {}, 0}));
  EXPECT_EQ(read.limit("free rate", "k"), (Limit{Algorithm::unlimited, 9, {3600 * second}, 0}));
  EXPECT_EQ(read.limit("a:b\\c", "k"), fixed(16));
  EXPECT_EQ(read.limit("constructor", "k"), fixed(1000));
  EXPECT_EQ(read.limit("__proto__", "k"), fixed(1000));
  EXPECT_EQ(read.limit("whole", ""), fixed(10));
  EXPECT_EQ(read.met("Full", "k"), nullptr);
  EXPECT_EQ(read.met("", "k"), nullptr);

  const policy::Rule& rule = *read.met("fixed", "k");
  EXPECT_EQ(rule.name, "fixed");
  EXPECT_EQ(rule.comment, "for a test");
  EXPECT_EQ(rule.pattern, "type=fixed");
  EXPECT_EQ(rule.file, "limitd.yaml");
  EXPECT_EQ(rule.line, 9u);
  EXPECT_EQ(rule.actor, std::vector<std::string>{"key"});
  EXPECT_EQ(rule.limits_id, 6u);
  EXPECT_EQ(rule.space->prefix, "limitd:fixed:");
  EXPECT_EQ(rule.space->suffix, "");
  EXPECT_EQ(rule.space->carry, limit::CarryOver::left);
  EXPECT_EQ(rule.space->keep_fresh_for, base::seconds(120));
  EXPECT_EQ(read.met("a:b\\c", "k")->space->prefix, "limitd:a\\:b\\\\c:");
}

TEST(Limitd, OnStoreErrorIsLocalByDefault) {
  const Read read("a: { size: 3, overrides: { x: { size: 4 } } }");
  for (const policy::Rule& rule : read.rules.rules(&dialect))
    EXPECT_EQ(rule.on_store_error, request::OnError::local);
}

TEST(Limitd, OverridesAreTriedInOrder) {
  const Read read(R"(
  ip:
    size: 10
    per_second: 5
    override:
      0.0.0.0: { size: 100, unlimited: true }
      rx: { match: !!js/regexp /^4/i, size: 7 }
      "42": { size: 8 }
      7: { size: 9 }
      rate: { per_day: 4 }
      nothing: { until: 2099-01-01 }
      lifted: { unlimited: true }
      plain: { match: "^a+b", size: 11 }
      slashes: { match: "/^C/i", size: 12 }
      path: { match: "/x/y", size: 13 }
      "*": { size: 14 }
      aab: { size: 15 }
  open:
    size: 9
    unlimited: true
    override:
      capped: { size: 1 }
      closed: { unlimited: false }
)");
  ASSERT_EQ(read.said, "");
  EXPECT_EQ(read.limit("ip", "0.0.0.0").algorithm, Algorithm::unlimited);
  EXPECT_EQ(read.limit("ip", "42"), fixed(8));
  EXPECT_EQ(read.limit("ip", "7"), fixed(9));
  EXPECT_EQ(read.limit("ip", "43"), fixed(7));
  EXPECT_EQ(read.limit("ip", "rx"), refilling(5, second, 10));
  EXPECT_EQ(read.limit("ip", "rate"), refilling(4, 86'400 * second, 4));
  EXPECT_EQ(read.limit("ip", "nothing"), refilling(5, second, 10));
  EXPECT_NE(read.met("ip", "nothing"), read.met("ip", "other"));
  EXPECT_EQ(read.limit("ip", "lifted"), (Limit{Algorithm::unlimited, 10, {second}, 0}));
  EXPECT_EQ(read.limit("ip", "aab"), fixed(11));
  EXPECT_EQ(read.limit("ip", "cd"), fixed(12));
  EXPECT_EQ(read.limit("ip", "w/x/yz"), fixed(13));
  EXPECT_EQ(read.limit("ip", "*"), fixed(14));
  EXPECT_EQ(read.limit("ip", "*x"), refilling(5, second, 10));
  EXPECT_EQ(read.limit("open", "capped"), fixed(1));
  EXPECT_EQ(read.limit("open", "closed"), fixed(9));
  EXPECT_EQ(read.limit("open", "k").algorithm, Algorithm::unlimited);

  const std::span<const policy::Rule> all = read.rules.rules(&dialect);
  ASSERT_EQ(all.size(), 16u);
  EXPECT_EQ(all[0].pattern, "type=ip key=7");
  EXPECT_EQ(all[1].pattern, "type=ip key=42");
  EXPECT_EQ(all[2].pattern, "type=ip key=0.0.0.0");
  EXPECT_EQ(all[3].pattern, "type=ip key=/^4/i");
  EXPECT_EQ(all[3].comment, "rx");
  EXPECT_EQ(all[3].line, 9u);
  for (size_t i = 0; i < 13; ++i) EXPECT_EQ(all[i].space, all[0].space);
  EXPECT_NE(all[13].space, all[0].space);
}

TEST(Limitd, UntilIsCheckedAtUse) {
  const Read read(R"(
  ip:
    size: 1
    override:
      a: { size: 2, until: 2030-01-01 }
      b: { size: 3, until: "2030-01-01T00:00:01Z" }
      c: { size: 4, until: !!timestamp 2010-11-18 }
)");
  ASSERT_EQ(read.said, "");
  const int64_t end = int64_t{1'893'456'000} * second;
  EXPECT_EQ(read.limit("ip", "a", end - 1), fixed(2));
  EXPECT_EQ(read.limit("ip", "a", end), fixed(1));
  EXPECT_EQ(read.limit("ip", "b", end), fixed(3));
  EXPECT_EQ(read.limit("ip", "b", end + second), fixed(1));
  EXPECT_EQ(read.limit("ip", "c", end), fixed(1));
}

TEST(Limitd, Times) {
  const std::pair<const char*, int64_t> times[] = {
      {"1970-01-01", 0},
      {"1969-12-31", -86'400 * second},
      {"2001-12-14T21:59:43.10-05:00", 1'008'385'183'100'000},
      {"2001-12-14 21:59:43.10 -5", 1'008'385'183'100'000},
      {"2001-12-15T02:59:43.1Z", 1'008'385'183'100'000},
      {"2001-12-15t2:59:43.1000009", 1'008'385'183'100'000},
      {"2024-02-29", 1'709'164'800 * second},
      {"2001-12-15 2:59:43 +05:30", 1'008'365'383 * second},
  };
  for (const auto& [text, us] : times) {
    const auto time = limitd_time(text);
    ASSERT_TRUE(time) << text;
    EXPECT_EQ(time->us, us) << text;
  }
  for (const char* text :
       {"", "2001", "2001-13-01", "2023-02-29", "2001-1-32", "tomorrow", "2001-01-01T",
        "2001-01-01 ", "2001-01-01T24:00:00", "2001-01-01T1:60:00", "2001-01-01T1:00",
        "2001-01-01x", "20010101", "2001-01-01T10:00:00Zx", "2001-01-01T10:00:00+",
        "2001-01-01T10:00:00+5:99"})
    EXPECT_FALSE(limitd_time(text)) << text;
}

struct Refused {
  const char* buckets;
  const char* words;  // the text of the only error, from its place in the file on
};

TEST(Limitd, ReportsErrorsWithTheirPlace) {
  const Refused all[] = {
      {"  ip: { size: a }",
       "limitd.yaml:3:15: error: bucket ip: size: must be a number, and `a` is text; write a "
       "whole number, 0 to 9007199254740991, without quotes"},
      {"  ip: { size: \"3\" }", "bucket ip: size: must be a number, and `3` is text"},
      {"  ip: { size: 1.5 }", "bucket ip: size: must be a whole number, and `1.5` is a number"},
      {"  ip: { size: }", "bucket ip: size: must be a number, and this is nothing"},
      {"  ip: { size: [1] }", "bucket ip: size: must be a number, and this is something else"},
      {"  ip: { size: -2 }", "bucket ip: size: `-2` is less than 0"},
      {"  ip: { size: 9007199254740992 }",
       "bucket ip: size: `9007199254740992` is more than is counted to"},
      {"  ip: { size: 99999999999999999999999 }", "is more than is counted to"},
      {"  ip: { per_second: 0 }", "bucket ip: per_second: `0` is less than 1"},
      {"  my_ip: { size: 1, foo: 1 }", "bucket my_ip: foo: is not a known key"},
      {"  ip: { size: 1, overrides: {} }",
       "bucket ip: overrides: is not a known key; did you mean `override`?"},
      {"  ip: { per_second: 1, per_day: 2 }",
       "bucket ip: per_day: is a second rate beside per_second (line 3)"},
      {"  ip: { per_interval: 1 }", "bucket ip: per_interval: has no interval beside it"},
      {"  ip: { size: 1, interval: 1 }", "bucket ip: interval: has no per_interval beside it"},
      {"  ip: { per_interval: 1, interval: 0 }", "bucket ip: interval: `0` is less than 1"},
      {"  ip: { unlimited: true }",
       "limitd.yaml:3:7: error: bucket ip: has neither a size nor a rate"},
      {"  ip: { size: 1, unlimited: yes }",
       "bucket ip: unlimited: must be true or false, and `yes` is text"},
      {"  ip:", "limitd.yaml:3:3: error: bucket ip: has no value"},
      {"  ip: 3", "bucket ip: must be a map"},
      {"  ip: { size: 1, override: [] }", "bucket ip: override: must be a map"},
      {"  ip:\n    size: 1\n    override:\n      10.0.0.1: { chamame: true }",
       "limitd.yaml:6:19: error: bucket ip: override 10.0.0.1: chamame: is not a known key"},
      {"  ip: { size: 1, override: { a: } }", "bucket ip: override a: must be a map"},
      {"  ip: { size: 1, override: { a: { per_day: 1, per_hour: 1 } } }",
       "bucket ip: override a: per_hour: is a second rate"},
      {"  ip: { size: 1, override: { a: { until: soon } } }",
       "bucket ip: override a: until: `soon` is not a date; write `2030-12-31`"},
      {"  ip: { size: 1, override: { a: { until: 2030-13-01 } } }",
       "until: `2030-13-01` is not a date"},
      {"  ip: { size: 1, override: { a: { match: !!js/regexp /(/ } } }",
       "bucket ip: override a: match: `/(/` is not a regular expression: a `(` is not closed"},
      {"  ip: { size: 1, override: { a: { match: !!js/regexp /a/s } } }",
       "the flag `s` is not one of g, i and m"},
      {"  ip: { size: 1, override: { a: { match: !!js/regexp /a } } }",
       "begins with `/` and has no `/` at its end"},
      {"  ip: { size: 1, override: { a: { match: \"\" } } }", "override a: match: has no value"},
      {"  ip: { size: 1 }\n  ip: { size: 2 }", "ip"},
      {"  ip: { size: 1, size: 2 }", "size"},
  };
  for (const auto& [buckets, words] : all) {
    const Read read(buckets);
    EXPECT_FALSE(read.accepted()) << buckets;
    EXPECT_EQ(read.diagnostics.size(), 1u) << read.said;
    EXPECT_TRUE(read.says(words)) << read.said;
    EXPECT_TRUE(read.rules.rules(&dialect).empty());
  }
}

TEST(Limitd, WarnsOfSettingsWithoutEffect) {
  const Read read(R"(
  ip: { size: 010, match: x, override: { 0x10: { size: 1 }, 2001-01-01: { size: 2 } } }
)");
  EXPECT_TRUE(read.accepted());
  EXPECT_TRUE(read.says("bucket ip: size: `010` is not decimal: it is 8")) << read.said;
  EXPECT_TRUE(read.says("bucket ip: match: has no effect on a type")) << read.said;
  EXPECT_TRUE(read.says("override 0x10: limitd takes this name for a number")) << read.said;
  EXPECT_TRUE(read.says("override 2001-01-01: limitd takes this name for a date")) << read.said;
  EXPECT_EQ(read.diagnostics.size(), 4u);
  EXPECT_EQ(read.limit("ip", "0x10"), fixed(1));
  EXPECT_EQ(read.limit("ip", "k"), fixed(8));

  const Read top(
      {{"c.yml",
        "db: /db\nfoo: 1\nports: 1\nnode_env: production\nlog_to_kinesis: x\nbuckets: {}\n"}},
      {});
  EXPECT_TRUE(top.accepted());
  EXPECT_TRUE(top.says("c.yml:2:1: warning: foo: is not a key of limitd's")) << top.said;
  EXPECT_TRUE(top.says("did you mean `port`?")) << top.said;
  EXPECT_TRUE(top.says("node_env: has no effect here")) << top.said;
  EXPECT_TRUE(top.says("log_to_kinesis: has no effect here")) << top.said;
  EXPECT_TRUE(top.says("there is no bucket type")) << top.said;
}

TEST(Limitd, Settings) {
  const Read read(
      {{"c.yml",
        "port: \"9001\"\nhostname: 127.0.0.1\ndb: { path: /db, cache: 7 }\nlog_level: debug\n"
        "log_file: /log\nconfigurator: { type: file, path: /more.yml, interval: 300 }\n"
        "buckets: { ip: { size: 1 } }\n"}},
      {});
  EXPECT_TRUE(read.accepted());
  EXPECT_TRUE(read.says("c.yml:3:18: warning: db: `cache` has no effect here")) << read.said;
  EXPECT_EQ(read.config.port->value, 9001);
  EXPECT_EQ(read.config.port->file, "c.yml");
  EXPECT_EQ(read.config.port->line, 1u);
  EXPECT_EQ(read.config.hostname->value, "127.0.0.1");
  EXPECT_EQ(read.config.db->value.path, "/db");
  EXPECT_FALSE(read.config.db->value.in_memory);
  EXPECT_EQ(read.config.log_level->value, "debug");
  EXPECT_EQ(read.config.log_file->value, "/log");
  EXPECT_EQ(read.config.configurator->value.path, "/more.yml");
  EXPECT_EQ(read.config.configurator->value.interval, base::milliseconds(300));
  EXPECT_EQ(read.config.configurator->line, 6u);

  const Read memory({{"c.yml", "db: { inMemory: true }\nbuckets: {}\n"}}, {});
  EXPECT_TRUE(memory.accepted());
  EXPECT_TRUE(memory.config.db->value.in_memory);

  const Refused all[] = {
      {"port: x", "c.yml:1:7: error: port: `x` is not a port"},
      {"port: 65536", "port: `65536` is not a port"},
      {"port:", "port: has no value"},
      {"log_level: lero", "log_level: `lero` is not a level of the log"},
      {"db: [x]", "db: must be a path or a map"},
      {"db: { path: 7 }", "db: path must be text"},
      {"db: { inMemory: 7 }", "db: inMemory must be true or false"},
      {"db: { inMemory: false }", "db: path is required"},
      {"configurator: file", "configurator: must be a map"},
      {"configurator: {}", "configurator: has no type"},
      {"configurator: { type: etcd, path: /x }", "type `etcd` is not known"},
      {"configurator: { type: file }", "has no path"},
      {"configurator: { type: file, path: /x, interval: 0 }", "interval must be a number"},
  };
  for (const auto& [line, words] : all) {
    const bool of_db = std::string_view(line).starts_with("db");
    const Read one(
        {{"c.yml", std::string(line) + "\nbuckets: {a: {size: 1}}\n" + (of_db ? "" : "db: /db\n")}},
        {});
    EXPECT_FALSE(one.accepted()) << line;
    EXPECT_EQ(one.diagnostics.size(), 1u) << one.said;
    EXPECT_TRUE(one.says(words)) << one.said;
  }
}

TEST(Limitd, LaterFilesReplace) {
  const Read read(
      {{"c.yml",
        "db: /db\nlog_level: info\nbuckets:\n  ip: { size: 10, per_second: 5 }\n"
        "  keep: { size: 3 }\n  broken: { size: x }\n"},
       {"c.yml.d/10", "log_level: debug\nbuckets: { ip: { per_minute: 20 } }\n"},
       {"c.yml.d/15", ""},
       {"c.yml.d/20", "buckets: { ip: { size: 7 }, more: { size: 1 }, broken: { size: 2 } }\n"}},
      {});
  ASSERT_EQ(read.said, "");
  EXPECT_EQ(read.config.log_level->value, "debug");
  EXPECT_EQ(read.config.log_level->file, "c.yml.d/10");
  EXPECT_EQ(read.limit("ip", "k"), fixed(7));
  EXPECT_EQ(read.met("ip", "k")->file, "c.yml.d/20");
  EXPECT_EQ(read.limit("keep", "k"), fixed(3));
  EXPECT_EQ(read.limit("more", "k"), fixed(1));
  EXPECT_EQ(read.limit("broken", "k"), fixed(2));

  const Read wrong({{"c.yml", "db: /db\nbuckets: { ip: { size: 1 } }\n"},
                    {"c.yml.d/1", "buckets: [\n"},
                    {"c.yml.d/2", "- x\n"},
                    {"c.yml.d/3", "buckets: [ip]\n"}},
                   {});
  EXPECT_TRUE(wrong.says("c.yml.d/1:")) << wrong.said;
  EXPECT_TRUE(wrong.says("c.yml.d/2:1:1: error: the file: must be a map")) << wrong.said;
  EXPECT_TRUE(wrong.says("c.yml.d/3:1:10: error: buckets: must be a map of bucket types"));
}

TEST(Limitd, EnvironmentVariablesReplaceSettingsOfFiles) {
  const Read::Texts file = {{"c.yml", "db: /db\nport: 1\nbuckets: { ip: { size: x } }\n"}};
  const Read read(file, {{"PATH", "/bin"},
                         {"PORT", "9001"},
                         {"DB", "/other"},
                         {"HOSTNAME", "web-7"},
                         {"LOG_LEVEL", "warn"},
                         {"LOG_FILE", ""},
                         {"NODE_ENV", "production"},
                         {"BUCKET_x_SIZE", "3"},
                         {"BUCKET_x_NAME", "first:one"},
                         {"BUCKET_x_PURPOSE", "why"},
                         {"BUCKET_2_NAME", "second"},
                         {"BUCKET_2_PER_DAY", "4"},
                         {"BUCKET_2_UNLIMITED", "false"},
                         {"BUCKET_3_NAME", "third"},
                         {"BUCKET_3_PER_INTERVAL", "4"},
                         {"BUCKET_3_INTERVAL", "250"},
                         {"BUCKET_3_UNLIMITED", "true"},
                         {"BUCKET_NAME", "pictures"}});
  EXPECT_TRUE(read.accepted()) << read.said;
  EXPECT_EQ(read.diagnostics.size(), 2u) << read.said;
  EXPECT_TRUE(read.says("BUCKET_NAME: is not of the form BUCKET_<n>_SIZE")) << read.said;
  EXPECT_TRUE(read.says("all bucket types of files are replaced")) << read.said;
  EXPECT_EQ(read.config.port->value, 9001);
  EXPECT_EQ(read.config.port->file, "PORT");
  EXPECT_EQ(read.config.db->value.path, "/other");
  EXPECT_EQ(read.config.hostname->value, "web-7");
  EXPECT_EQ(read.config.log_level->value, "warn");
  EXPECT_FALSE(read.config.log_file);
  EXPECT_EQ(read.limit("first:one", "k"), fixed(3));
  EXPECT_EQ(read.met("first:one", "k")->comment, "why");
  EXPECT_EQ(read.met("first:one", "k")->file, "environment");
  EXPECT_EQ(read.limit("second", "k"), refilling(4, 86'400 * second, 4));
  EXPECT_EQ(read.limit("third", "k"), (Limit{Algorithm::unlimited, 4, {second / 4}, 0}));
  EXPECT_EQ(read.met("ip", "k"), nullptr);
}

TEST(Limitd, FlagsReplaceEnvironmentVariables) {
  LimitdConfig flags;
  flags.port = {7, "--port", 0};
  flags.db = {{"/flag", false}, "--db", 0};
  const Read flagged({{"c.yml", "db: /db\nport: 1\nbuckets: { ip: { size: 1 } }\n"}},
                     {{"PORT", "9001"}, {"DB", "/other"}}, flags);
  EXPECT_EQ(flagged.config.port->value, 7);
  EXPECT_EQ(flagged.config.db->value.path, "/flag");
}

TEST(Limitd, WrongVariablesOfTheEnvironmentAreErrors) {
  struct Wrong {
    Read::Texts variables;
    const char* words;
  };
  const Wrong all[] = {
      {{{"BUCKET_1_SIZE", "3"}},
       "environment: error: BUCKET_1_SIZE: belongs to a bucket type without a name; set "
       "BUCKET_1_NAME"},
      {{{"BUCKET_1_NAME", "x"}}, "BUCKET_1_NAME: bucket x has neither a size nor a rate"},
      {{{"BUCKET_1_NAME", "x"}, {"BUCKET_1_SIZE", "abc"}},
       "BUCKET_1_SIZE: `abc` is not a whole number"},
      {{{"BUCKET_1_NAME", "x"}, {"BUCKET_1_SIZE", "-1"}}, "BUCKET_1_SIZE: `-1` is less than 0"},
      {{{"BUCKET_1_NAME", "x"}, {"BUCKET_1_PER_HOUR", "0"}},
       "BUCKET_1_PER_HOUR: `0` is less than 1"},
      {{{"BUCKET_1_NAME", "x"}, {"BUCKET_1_SIZ", "3"}}, "did you mean `SIZE`?"},
      {{{"BUCKET_1_NAME", "x"}, {"BUCKET_1_PER_HOUR", "3"}, {"BUCKET_1_PER_DAY", "3"}},
       "BUCKET_1_PER_DAY: is a second rate beside BUCKET_1_PER_HOUR"},
      {{{"BUCKET_1_NAME", "x"}, {"BUCKET_1_PER_INTERVAL", "3"}},
       "BUCKET_1_PER_INTERVAL: has no BUCKET_1_INTERVAL beside it"},
      {{{"BUCKET_1_NAME", "x"}, {"BUCKET_1_SIZE", "3"}, {"BUCKET_1_UNLIMITED", "maybe"}},
       "`maybe` is neither true nor false"},
      {{{"BUCKET_1_NAME", "x"},
        {"BUCKET_1_SIZE", "3"},
        {"BUCKET_2_NAME", "x"},
        {"BUCKET_2_SIZE", "3"}},
       "BUCKET_2_NAME: bucket x is already that of BUCKET_1_NAME"},
      {{{"BUCKET_1_NAME", "\xff"}, {"BUCKET_1_SIZE", "3"}}, "BUCKET_1_NAME: is not UTF-8"},
      {{{"PORT", "x"}, {"BUCKET_1_NAME", "x"}, {"BUCKET_1_SIZE", "3"}}, "PORT: `x` is not a port"},
      {{{"LOG_LEVEL", "warning"}, {"BUCKET_1_NAME", "x"}, {"BUCKET_1_SIZE", "3"}},
       "LOG_LEVEL: `warning` is not a level of the log"},
  };
  for (const auto& [variables, words] : all) {
    Read::Texts with_db = variables;
    with_db.emplace_back("DB", "/db");
    const Read one({}, with_db);
    EXPECT_FALSE(one.accepted()) << words;
    EXPECT_TRUE(one.says(words)) << one.said;
  }
  EXPECT_TRUE(Read({}, {}).says("db: missing database path"));
}

std::string many_overrides(size_t count) {
  std::string text = "  ip:\n    size: 1\n    override:\n";
  for (size_t i = 0; i < count; ++i) {
    if (i % (count / 4) == 3) {
      text += "      rx" + std::to_string(i) + ": { match: \"^k" + std::to_string(i % 10) +
              ".*5$\", size: " + std::to_string(i + 2) + " }\n";
    } else {
      text += "      k" + std::to_string(i) + ": { size: " + std::to_string(i + 2) + " }\n";
    }
  }
  return text;
}

// The first rule that matches, by a search through all rules.
const policy::Rule* scan(const policy::RuleSet& rules, std::string_view type,
                         std::string_view key) {
  const request::Entry request[] = {{"type", type}, {"key", key}};
  std::string_view error;
  for (const policy::Rule& rule : rules.rules(&dialect))
    if (!policy::mismatch(rule, request, error)) return &rule;
  return nullptr;
}

TEST(Limitd, AnIndexFindsWhatAScanFinds) {
  const Read read(
      many_overrides(1000) +
      "  other:\n    size: 5\n    override: { k5: { size: 6 }, rx: { match: k7, size: 8 } }\n");
  ASSERT_EQ(read.said, "");
  tests::Dice dice(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = "k" + std::to_string(dice(1200));
    const char* type = dice(4) == 0 ? "other" : dice(20) == 0 ? "none" : "ip";
    ASSERT_EQ(read.met(type, key), scan(read.rules, type, key)) << type << " " << key;
  }
}

double seconds_of(auto&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// 100,000 overrides must load in less than 2 s on an idle machine, where 0.6 s were measured.
TEST(Limitd, HoldsManyOverrides) {
  std::string text = "  ip:\n    size: 1\n    override:\n";
  for (int i = 0; i < 100'000; ++i)
    text += "      10.0." + std::to_string(i / 256) + "." + std::to_string(i % 256) +
            ":\n        size: 2\n";
  std::optional<Read> many;
  const double load = seconds_of([&] { many.emplace(text); });
  ASSERT_EQ(many->said, "");
  EXPECT_EQ(many->rules.rules(&dialect).size(), 100'001u);
  EXPECT_LT(load, std::chrono::duration<double>(tests::promised(std::chrono::seconds(2))).count());
  EXPECT_EQ(many->limit("ip", "10.0.390.200"), fixed(1));
  EXPECT_EQ(many->limit("ip", "10.0.390.1"), fixed(2));
}

}  // namespace
}  // namespace sluice::limitd
