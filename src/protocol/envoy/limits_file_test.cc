// Files of limits for Envoy's rate limit service ("the original"): what they are read as, and what
// is reported of them.
#include "protocol/envoy/limits_file.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace sluice::envoy {
namespace {

struct Read {
  base::Diagnostics diagnostics;
  std::optional<LimitSet> set;

  explicit Read(const std::vector<LimitsText>& files, const LimitsReading& reading = {})
      : set(read_limits(files, reading, diagnostics)) {}
  explicit Read(std::string_view text, const LimitsReading& reading = {})
      : Read(std::vector<LimitsText>{{"f.yaml", text}}, reading) {}

  // All diagnostics, a line each.
  std::string said() const {
    std::string text;
    for (const auto& d : diagnostics) text += to_string(d) + '\n';
    return text;
  }
};

// The diagnostics for `descriptors`, which are put under `domain: d` and `descriptors:`, from line
// 3 on.
std::string said_of(std::string_view descriptors, const LimitsReading& reading = {}) {
  return Read("domain: d\ndescriptors:\n" + std::string(descriptors), reading).said();
}

// The limit of a file that has one limit.
const Limit& only(const Read& read) {
  static const Limit nothing;
  EXPECT_TRUE(read.set) << read.said();
  if (!read.set || read.set->limits().size() != 1) {
    ADD_FAILURE() << read.said();
    return nothing;
  }
  return read.set->limits()[0];
}

TEST(EnvoyFile, ReadsEveryFieldOfALimit) {
  const Read read(R"(
domain: d
descriptors:
  - key: a
    value: b
    descriptors:
      - key: c
        shadow_mode: on
        quota_mode: y
        detailed_metric: true
        rate_limit:
          unit: WEEK
          requests_per_unit: 0x10
          name: n
          replaces: [{name: x}, {name: y}, {name: x}]
)");
  const Limit& limit = only(read);
  EXPECT_EQ(limit.requests_per_unit, 16u);
  EXPECT_EQ(limit.unit, Unit::week);
  EXPECT_EQ(limit.window, base::seconds(604'800));
  EXPECT_EQ(limit.algorithm, limit::Algorithm::aligned_window);
  EXPECT_FALSE(limit.extended);
  EXPECT_TRUE(limit.shadow_mode && limit.quota_mode && limit.detailed_metric);
  EXPECT_EQ(read.set->name(limit.name), "n");
  ASSERT_EQ(limit.replaces.size(), 2u);
  EXPECT_EQ(limit.line, 7u);
  EXPECT_EQ(read.set->file(limit.file), "f.yaml");
  EXPECT_EQ(read.set->path(limit.node), "d.a_b.c");
  EXPECT_EQ(read.diagnostics.size(), 0u) << read.said();
}

TEST(EnvoyFile, ExtensionsOfALimit) {
  struct Case {
    const char* text;
    limit::Limit numbers;
    Unit unit;
  };
  using limit::Algorithm;
  const Case cases[] = {
      {"{window: 30s, requests_per_unit: 5}",
       {Algorithm::aligned_window, 5, base::seconds(30)},
       Unit::unknown},
      {"{window: 60s, requests_per_unit: 5}",
       {Algorithm::aligned_window, 5, base::seconds(60)},
       Unit::minute},
      {"{unit: hour, requests_per_unit: 5, algorithm: sliding_log}",
       {Algorithm::sliding_log, 5, base::seconds(3600)},
       Unit::hour},
      {"{window: 90m, requests_per_unit: 5, algorithm: token_bucket, burst: 20}",
       {Algorithm::token_bucket, 5, base::seconds(5400), 20},
       Unit::unknown},
      {"{unit: day, requests_per_unit: 5, algorithm: token_bucket}",
       {Algorithm::token_bucket, 5, base::seconds(86'400), 5},
       Unit::day},
      {"{unit: day, algorithm: aligned_window}",
       {Algorithm::aligned_window, 0, base::seconds(86'400)},
       Unit::day},
  };
  for (const Case& each : cases) {
    const Read read("domain: d\ndescriptors: [{key: k, rate_limit: " + std::string(each.text) +
                    "}]");
    const Limit& limit = only(read);
    EXPECT_EQ(numbers_of(limit), each.numbers) << each.text;
    EXPECT_EQ(limit.unit, each.unit) << each.text;
    EXPECT_TRUE(limit.extended);
  }
  const Read read("domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true}}]");
  EXPECT_EQ(numbers_of(only(read)).algorithm, limit::Algorithm::unlimited);
}

// Limits by `unit` count what they refuse, as in the original; those that only sluice has may.
TEST(EnvoyFile, OverSaysWhetherARefusedRequestIsCharged) {
  const auto counts = [](std::string_view limit) {
    return only(Read("domain: d\ndescriptors: [{key: k, rate_limit: " + std::string(limit) + "}]"))
        .counts;
  };
  EXPECT_TRUE(counts("{unit: day, requests_per_unit: 5}"));
  EXPECT_TRUE(counts("{unit: day, requests_per_unit: 5, over: count}"));
  EXPECT_FALSE(counts("{window: 1d, requests_per_unit: 5}"));
  EXPECT_FALSE(counts("{window: 1d, requests_per_unit: 5, over: refuse}"));
  EXPECT_TRUE(counts("{window: 1d, requests_per_unit: 5, over: count}"));
  EXPECT_TRUE(counts("{unit: day, requests_per_unit: 5, algorithm: token_bucket, over: count}"));
  EXPECT_FALSE(counts("{unlimited: true}"));
  const std::string refuse =
      said_of("  - key: k\n    rate_limit: {unit: day, requests_per_unit: 5, over: refuse}\n");
  EXPECT_NE(refuse.find("error: d.k: over: is not possible for a limit by `unit`"), refuse.npos)
      << refuse;
  EXPECT_NE(refuse.find("write `window: 1d` in place of the unit"), refuse.npos) << refuse;
  const std::string word =
      said_of("  - key: k\n    rate_limit: {window: 5s, requests_per_unit: 5, over: conut}\n");
  EXPECT_NE(word.find("did you mean `count`?"), word.npos) << word;
  const std::string unlimited =
      said_of("  - key: k\n    rate_limit: {unlimited: true, over: count}\n");
  EXPECT_NE(unlimited.find("over: contradicts `unlimited: true`"), unlimited.npos) << unlimited;
}

TEST(EnvoyFile, OverdraftSaysWhatALimitMayOwe) {
  const auto overdraft = [](std::string_view limit) {
    return only(Read("domain: d\ndescriptors: [{key: k, rate_limit: " + std::string(limit) + "}]"))
        .overdraft;
  };
  EXPECT_EQ(overdraft("{window: 1d, requests_per_unit: 5, over: count, overdraft: 0}"), 0);
  EXPECT_EQ(overdraft("{unit: day, requests_per_unit: 5, algorithm: token_bucket, over: count, "
                      "overdraft: 70}"),
            70);
  EXPECT_EQ(overdraft("{window: 1d, requests_per_unit: 5, over: count}"), limit::Overdrafts::none);
  for (const auto& [limit, why] :
       {std::pair("{unit: day, requests_per_unit: 5, overdraft: 5}",
                  "overdraft: is not possible for a limit by `unit`"),
        std::pair("{window: 5s, requests_per_unit: 5, overdraft: 5}",
                  "overdraft: has no effect: without `over: count` nothing is owed"),
        std::pair("{unlimited: true, overdraft: 5}", "overdraft: contradicts `unlimited: true`"),
        std::pair("{window: 5s, requests_per_unit: 5, over: count, overdraft: -1}",
                  "overdraft: `-1` is out of range"),
        std::pair("{window: 5s, requests_per_unit: 5, over: count, overdraft: x}",
                  "is not a whole number")}) {
    const std::string said = said_of("  - key: k\n    rate_limit: " + std::string(limit) + "\n");
    EXPECT_NE(said.find(why), said.npos) << said;
  }
}

auto envoy_file_mistakes() {
  const std::pair<const char*, const char*> cases[] = {
      {"  - key: k\n    rate_limit: {unit: minute, requests_per_unit: many}\n",
       "f.yaml:4:51: error: d.k: requests_per_unit: `many` is not a whole number; write a whole "
       "number, 0 to 4294967295\n"},
      {"  - key: k\n    rate_limit: {unit: minute, requests_per_unit: \"5\"}\n",
       "f.yaml:4:51: error: d.k: requests_per_unit: `5` is a text to YAML; take the quotes away\n"},
      {"  - key: k\n    rate_limit: {unit: minute, requests_per_unit: -1}\n",
       "f.yaml:4:51: error: d.k: requests_per_unit: `-1` is out of range; write a whole number, 0 "
       "to 4294967295\n"},
      {"  - key: k\n    value: 1.5\n",
       "f.yaml:4:12: error: value: `1.5` is a number with a fraction or an exponent, or is above "
       "64 bits, as YAML reads it; put it in quotes: `\"1.5\"`\n"},
      {"  - key: k\n    rate_limit: {unit: minutes}\n",
       "f.yaml:4:24: error: d.k: unit: `minutes` is not a unit; did you mean `minute`?\n"},
      {"  - key: k\n    rate_limit: {requests_per_unit: 5}\n",
       "f.yaml:4:17: error: d.k: unit: is missing; write `unit: second`, or minute, hour, day, "
       "week, month or year\n"},
      {"  - key: k\n    rate_limit: {unlimited: true, unit: day}\n",
       "f.yaml:4:41: error: d.k: unit: contradicts `unlimited: true`; take one of them out\n"},
      {"  - key: k\n    ratelimit: {}\n",
       "f.yaml:4:5: error: ratelimit: is not a key of Envoy's limits; did you mean "
       "`rate_limit`?\n"},
      {"  - key: k\n    rate_limit: {unit: minute, unit_multiplier: 5}\n",
       "f.yaml:4:32: error: unit_multiplier: is not a key of Envoy's limits; write `window: 5m` in "
       "place of the unit\n"},
      {"  - key: k\n    rate_limit: {unit: month, calendar: true}\n",
       "f.yaml:4:31: error: calendar: is not a key of Envoy's limits; write `window: month` in "
       "place of the unit; a unit of month has 30 days, one of year 365\n"},
      {"  - value: v\n",
       "f.yaml:3:5: error: d: key: is missing, which each descriptor has; write `key: NAME`, as "
       "an entry of a request has it\n"},
      {"  - {key: a, value: b}\n  - key: a_b\n",
       "f.yaml:4:5: error: d.a_b: has the composite key of the descriptor of line 3; put them "
       "together, or take one out\n"},
      {"  - {key: k, share_threshold: true}\n",
       "f.yaml:3:31: error: d.k: share_threshold: means nothing without a `*` in the key or the "
       "value; write a pattern as the value, as in `value: files/*`, or take it out\n"},
      {"  - {key: k, rate_limit: {unit: day, name: n, replaces: [{name: n}]}}\n",
       "f.yaml:3:58: error: d.k: replaces: names `n`, the limit itself; name another limit, or "
       "take it out\n"},
      {"  - {key: k, rate_limit: {unit: day, replaces: [{name: }]}}\n",
       "f.yaml:3:49: error: d.k: replaces: has an item without a name; write `- name: ...`\n"},
      {"  - {key: k, rate_limit: {unit: day, replaces: n}}\n",
       "f.yaml:3:48: error: d.k: replaces: must be a list, and is `n`; write `replaces: [{name: "
       "...}]`\n"},
      {"  - {key: k, rate_limit: 5}\n",
       "f.yaml:3:26: error: d: rate_limit: must be a map, and is `5`; write `rate_limit: "
       "{unit: minute, requests_per_unit: 5}`\n"},
      {"  - {key: k, metadata: [a]}\n",
       "f.yaml:3:24: error: d: metadata: must be a map, and is a list; write `metadata: {key: "
       "value}`\n"},
      {"  - {key: {value: x}}\n",
       "f.yaml:3:11: error: d: key: must be a single value, and is a map; write one word\n"},
      {"  - {key: k, shadow_mode: 1}\n",
       "f.yaml:3:27: error: d.k: shadow_mode: `1` is neither true nor false; write `true` or "
       "`false`\n"},
      {"  - {key: k, shadow_mode: 'yes'}\n",
       "f.yaml:3:27: error: d.k: shadow_mode: `yes` is neither true nor false; write `true` or "
       "`false`, without quotes\n"},
      {"  - key: k\n    value: !!int x\n",
       "f.yaml:4:12: error: value: `x` is not what its tag says, or is binary; take the tag out\n"},
      {"  - key: k\n    rate_limit: {unit: day, window: 5s}\n",
       "f.yaml:4:37: error: d.k: window: stands beside a unit, which it is in place of; keep "
       "one of them\n"},
      {"  - key: k\n    rate_limit: {window: 30}\n",
       "f.yaml:4:26: error: d.k: window: `30` is not a length of a window; write a whole number "
       "and "
       "us, ms, s, m, h or d, as in `30s`, up to 36600d, or a window of the calendar: `hour`, "
       "`day`, `week`, `month` or `year`\n"},
      {"  - key: k\n    rate_limit: {window: 0s}\n",
       "f.yaml:4:26: error: d.k: window: `0s` is not a length of a window; write a whole number "
       "and "
       "us, ms, s, m, h or d, as in `30s`, up to 36600d, or a window of the calendar: `hour`, "
       "`day`, `week`, `month` or `year`\n"},
      {"  - key: k\n    rate_limit: {unit: day, burst: 5}\n",
       "f.yaml:4:36: error: d.k: burst: is a token bucket's, and the algorithm is aligned_window; "
       "take it "
       "out, or write `algorithm: token_bucket`\n"},
      {"  - key: k\n    rate_limit: {unit: day, algorithm: token_buket}\n",
       "f.yaml:4:40: error: d.k: algorithm: `token_buket` is not an algorithm; did you mean "
       "`token_bucket`?\n"},
      {"  - key: k\n    rate_limit: {unit: day, requests_per_unit: 5, algorithm: concurrency}\n",
       "f.yaml:4:61: error: d.k: algorithm: `concurrency` is for native rules alone, as it has no "
       "window; write it as one of the `rules` of sluice.yaml, with `domain` and the entries in "
       "its "
       "`match`\n"},
      {"  - key: k\n    rate_limit: {unit: day, requests_per_unit: 5, algorithm: fixed_bucket}\n",
       "f.yaml:4:61: error: d.k: algorithm: `fixed_bucket` is for native rules alone, as it has no "
       "window; write it as one of the `rules` of sluice.yaml, with `domain` and the entries in "
       "its "
       "`match`\n"},
      {"  - key: k\n    rate_limit: {unit: day, algorithm: token_bucket}\n",
       "f.yaml:4:17: error: d.k: requests_per_unit: is 0, and a token bucket needs 1 or more; take "
       "`algorithm` out to deny all, or write 1 or more\n"},
      {"  - key: k\n    rate_limit: {window: 5s, algorithm: sliding_log, requests_per_unit: 0}\n",
       "f.yaml:4:17: error: d.k: requests_per_unit: is 0, and a sliding_log needs 1 or more; take "
       "`algorithm` out to deny all, or write 1 or more\n"},
      {"  - key: k\n    rate_limit: {unlimited: true, window: 5s}\n",
       "f.yaml:4:43: error: d.k: window: contradicts `unlimited: true`; take one of them out\n"},
      {"  - key: k\n    rate_limit: {unlimited: true, algorithm: sliding_log}\n",
       "f.yaml:4:46: error: d.k: algorithm: contradicts `unlimited: true`; take one of them out\n"},
      {"  - {key: k, window: 5s}\n",
       "f.yaml:3:14: error: d: window: means nothing in a descriptor; move it into a rate_limit, "
       "or take it out\n"},
      {"  - {key: k, <<: 5}\n",
       "f.yaml:3:18: error: d: <<: merges something that is not a map; name maps only, as in `<<: "
       "*defaults` or `<<: [*a, *b]`\n"},
      {"  - {key: k, metadata: {a: {[b]: c}}}\n",
       "f.yaml:3:29: error: d.k: metadata: has a key that is not a single value; write a word\n"},
      {"  - {key: k, metadata: {a: !!binary aGk=}}\n",
       "f.yaml:3:28: error: d.k: metadata: has a value that is not what its tag says, or is "
       "binary; take the tag out\n"},
  };
  return std::vector(cases, std::end(cases));
}

TEST(EnvoyFile, ReportsErrorsWithPlaceAndRemedy) {
  for (const auto& [descriptors, said] : envoy_file_mistakes())
    EXPECT_EQ(said_of(descriptors), said);
}

TEST(EnvoyFile, ReportsErrorsOfAllFilesInTheirOrder) {
  const Read read(std::vector<LimitsText>{
      {"a.yaml",
       "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: x}}\n  - {value: v}\n"
       "nosuch: 1\n"},
      {"b.yaml", "domain: e\n"},
      {"c.yaml", "domain: e\ndescriptors: [{key: k, rate_limit: {unit: y}}]\n"},
      {"d.yaml", "descriptors: [{key: k, quota_mode: 7}]"},
      {"e.yaml", "domain: ["}});
  EXPECT_FALSE(read.set);
  std::vector<std::string> places;
  for (const auto& d : read.diagnostics)
    places.push_back(d.file + ":" + std::to_string(d.line) + " " + d.subject);
  EXPECT_EQ(places,
            (std::vector<std::string>{"a.yaml:3 d.k: unit", "a.yaml:4 d: key", "a.yaml:5 nosuch",
                                      "c.yaml:1 domain", "c.yaml:2 e.k: unit", "d.yaml:1 domain",
                                      "d.yaml:1 .k: quota_mode", "e.yaml:1 "}));
}

TEST(EnvoyFile, WarnsOfWhatTheOriginalIgnores) {
  struct Case {
    const char* text;
    const char* said;
  };
  const Case cases[] = {
      {"domain: e\ndomain: d\n",
       "f.yaml:2:1: SEVERITY: domain: occurs twice, first on line 1; the last one counts; keep "
       "one of them\n"},
      {"domain: d\n---\nnosuch: [\n",
       "f.yaml:2: SEVERITY: here the first document has ended, and what follows is skipped; "
       "put it into a file of its own, or take it out\n"},
      {"domain: d\nunit: minute\n",
       "f.yaml:2:1: SEVERITY: unit: means nothing in the file; move it into a rate_limit, or take "
       "it out\n"},
      {"domain: d\ndescriptors:\n  - {key: k, name: n, rate_limit: {unit: day, key: x}}\n",
       "f.yaml:3:14: SEVERITY: d: name: means nothing in a descriptor; move it into a rate_limit, "
       "or take it out\n"
       "f.yaml:3:47: SEVERITY: d: key: means nothing in a rate_limit; move it into a descriptor, "
       "or take it out\n"},
      {"domain: d\ndescriptors:\n  - &a {key: k, value: x}\n  - {value: y, <<: *a, key: l}\n",
       "f.yaml:4:16: SEVERITY: d: <<: replaces `value` of line 4, as it stands behind it; put it "
       "in front of the entries that count instead of merged ones\n"},
  };
  for (const Case& each : cases) {
    const auto with = [&](std::string_view severity) {
      std::string text = each.said;
      for (size_t at; (at = text.find("SEVERITY")) != std::string::npos;)
        text.replace(at, 8, severity);
      return text;
    };
    const Read read(each.text), strict(each.text, {.strict = true});
    EXPECT_TRUE(read.set) << read.said();
    EXPECT_EQ(read.said(), with("warning"));
    EXPECT_FALSE(strict.set);
    EXPECT_EQ(strict.said(), with("error"));
  }
}

TEST(EnvoyFile, TheLastOfADuplicateCounts) {
  const Read read("domain: d\ndomain: e\ndescriptors: [{key: a}]\ndescriptors: [{key: b}]\n");
  ASSERT_TRUE(read.set) << read.said();
  EXPECT_EQ(read.set->domain("d"), absent);
  ASSERT_EQ(read.set->nodes().size(), 2u);
  EXPECT_EQ(read.set->nodes()[1].composite, "b");
}

// The original decodes a second `rate_limit` of a map, merged or not, into the value of the first:
// the fields that the second one has replace those of the first, and the others stay.
TEST(EnvoyFile, RateLimitsOfOneDescriptorArePutTogether) {
  const Read read(R"(
domain: d
descriptors:
  - &base
    key: a
    rate_limit: {unit: hour, requests_per_unit: 5, name: n}
    metadata: {x: 1, y: {z: 2}}
  - <<: *base
    key: b
    rate_limit: {requests_per_unit: 6}
    metadata: {y: 3}
  - <<: *base
    key: c
    rate_limit:
)");
  ASSERT_TRUE(read.set) << read.said();
  EXPECT_EQ(read.diagnostics.size(), 0u) << read.said();
  const auto limits = read.set->limits();
  ASSERT_EQ(limits.size(), 2u);
  EXPECT_EQ(limits[1].requests_per_unit, 6u);
  EXPECT_EQ(limits[1].unit, Unit::hour);
  EXPECT_EQ(read.set->name(limits[1].name), "n");
  ASSERT_TRUE(limits[1].metadata);
  EXPECT_EQ(*limits[1].metadata, (MetadataMap{{"x", 1.0}, {"y", 3.0}}));
  EXPECT_EQ(*find_member(*limits[0].metadata, "y"), MetadataValue(MetadataMap{{"z", 2.0}}));
}

TEST(EnvoyFile, KeysOfMetadataAreTexts) {
  const Read read(
      "domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: day}\n"
      "    metadata: {yes: 1, 0x10: 2, ~: 3, in: {yes: 1, 0x10: 2, ~: 3, 1.50: 4, 2020-01-01: 5, "
      "true: 6}}\n");
  ASSERT_TRUE(only(read).metadata);
  // In the inner map `yes` and `true` are the same key.
  const MetadataMap inner{
      {"true", 6.0}, {"16", 2.0}, {"<nil>", 3.0}, {"1.5", 4.0}, {"2020-01-01", 5.0}};
  EXPECT_EQ(*only(read).metadata,
            (MetadataMap{{"yes", 1.0}, {"0x10", 2.0}, {"", 3.0}, {"in", inner}}));
}

TEST(EnvoyFile, FilesOfOneDomainAreMergedInTheirOrder) {
  const std::vector<LimitsText> files = {
      {"b.yaml", "domain: d\ndescriptors: [{key: k, value: 'x*', rate_limit: {unit: day}}]"},
      {"c.yaml", "domain: d\ndescriptors: [{key: k, value: '*', rate_limit: {unit: hour}}]"}};
  const Read refused(files), merged(files, {.merge_domains = true});
  EXPECT_EQ(refused.said(),
            "c.yaml:1:9: error: domain: `d` is the domain of b.yaml already; put the descriptors "
            "into one file, or have domains merged (MERGE_DOMAIN_CONFIG=true)\n");
  ASSERT_TRUE(merged.set) << merged.said();
  const request::Entry entry{"k", "xy"};
  policy::MatchSteps steps;
  const Walk walk = merged.set->find(merged.set->domain("d"), {&entry, 1}, steps);
  EXPECT_EQ(walk.limit, 0u);
  EXPECT_EQ(merged.set->file(merged.set->limits()[1].file), "c.yaml");

  const std::vector<LimitsText> twice = {files[0], {"e.yaml", files[0].text}};
  EXPECT_EQ(Read(twice, {.merge_domains = true}).said(),
            "e.yaml:2:15: error: d.k_x*: has the composite key of the descriptor of b.yaml, line "
            "2; put them together, or take one out\n");
}

TEST(EnvoyFile, WarnsOfAKeyThatStartsWithAnotherKey) {
  EXPECT_EQ(said_of("  - {key: a}\n  - {key: a_b, value: x}\n  - {key: a_b}\n  - {key: ab}\n"
                    "  - {key: c, descriptors: [{key: a_b}]}\n"),
            "f.yaml:4: warning: d.a_b: key `a_b` begins with the key `a` of the same level and "
            "`_`, so that an entry of one may meet a rule of the other; rename one of them, here "
            "and in Envoy, if that is not meant\n");
}

TEST(EnvoyFile, SkipsNotesAndBackupFiles) {
  const std::vector<LimitsText> files = {{"README.md", "# Limits\n\n- one: [\n"},
                                         {"a.yaml~", ""},
                                         {".a.yaml.swp", "b0VIM\x01\xff"},
                                         {"notes.txt", "domain: d\n"},
                                         {"a.yaml", "domain: e\n"}};
  const Read read(files);
  ASSERT_TRUE(read.set) << read.said();
  EXPECT_EQ(read.set->domains().size(), 2u);
  ASSERT_EQ(read.diagnostics.size(), 3u) << read.said();
  EXPECT_EQ(to_string(read.diagnostics[0]),
            "README.md: warning: is skipped: by its name it is a note or a backup, and it "
            "holds no map; move it out of the folder of limits");
  EXPECT_FALSE(Read(std::vector<LimitsText>{{"README", "hello"}}).set);
}

TEST(EnvoyFile, HasNoLimitsWithoutFiles) {
  const Read read(std::vector<LimitsText>{});
  ASSERT_TRUE(read.set);
  EXPECT_EQ(read.set->domain(""), absent);
  EXPECT_EQ(read.set->rlconfig(), "");
}

TEST(EnvoyFile, TextsOfOtherWritersOfYaml) {
  // A byte order mark, line breaks of Windows, a line break of YAML 1.1, a private tag.
  const Read read(
      "\xEF\xBB\xBF"
      "domain: d\r\n# \xE2\x80\xA8 \r\ndescriptors:\r\n  - {key: !own k, value: !!str "
      "5, rate_limit: {unit: day}}\r\n...\r\n");
  ASSERT_TRUE(read.set) << read.said();
  EXPECT_EQ(read.set->path(only(read).node), "d.k_5");
  EXPECT_EQ(read.diagnostics.size(), 0u) << read.said();
}

// A file with a chain of `levels` descriptors. Each repeats a part of the one before, `times` times
// by aliases: its metadata (as values, or by merging) or the descriptor itself.
std::string chain(size_t levels, size_t times, std::string_view what) {
  std::string text = "domain: d\ndescriptors:\n  - &a0 {key: k, metadata: &m0 {x: 1}}\n";
  for (size_t i = 1; i < levels; ++i) {
    const std::string number = std::to_string(i), before = std::to_string(i - 1);
    text += "  - &a" + number + " {key: k" + number + ", metadata: &m" + number + " {";
    text += what == "merge" ? "<<: [{}" : "l: [x";
    for (size_t n = 0; n < times && what != "descriptors"; ++n) text += ", *m" + before;
    text += "]}";
    if (what == "descriptors") {
      text += ", descriptors: [";
      for (size_t n = 0; n < times; ++n)
        text += "{key: x" + std::to_string(n) + ", descriptors: [*a" + before + "]}, ";
      text += "]";
    }
    text += "}\n";
  }
  return text;
}

TEST(EnvoyFile, BoundsTheExpansionOfAliases) {
  const LimitsReading few{.descriptors_max = 1000, .metadata_values_max = 1000};
  EXPECT_TRUE(Read(chain(3, 3, "metadata"), few).set);
  EXPECT_TRUE(Read(chain(3, 3, "descriptors"), few).set);
  EXPECT_EQ(Read(chain(8, 10, "metadata"), few).said(),
            "f.yaml:3:36: error: d.k3: metadata: there are 1000 values of metadata, the most; "
            "repeat less by alias\n");
  EXPECT_EQ(Read(chain(8, 10, "descriptors"), few).said(),
            "f.yaml:5:181: error: d.k3.x3.k2: descriptors: there are more than 1,000 "
            "descriptors; use patterns with `*`, or several servers\n");
  // The merged maps have few keys at the end, but many while they are merged.
  const Read merged(chain(8, 10, "merge"), {.metadata_values_max = SIZE_MAX});
  EXPECT_FALSE(merged.set);
  EXPECT_EQ(merged.diagnostics.size(), 1u) << merged.said();
  EXPECT_NE(merged.said().find("d.k6: expands to far more than the file contains, by aliases"),
            std::string::npos)
      << merged.said();
}

TEST(EnvoyFile, BoundsTheDepthOfDescriptors) {
  const auto nested = [](size_t levels) {
    return "domain: d\n" + [&] {
      std::string text = "descriptors:\n  - &a1 {key: k, rate_limit: {unit: day}}\n";
      for (size_t i = 2; i <= levels; ++i)
        text += "  - &a" + std::to_string(i) + " {key: k" + std::to_string(i) +
                ", descriptors: [*a" + std::to_string(i - 1) + "]}\n";
      return text;
    }();
  };
  const Read deepest(nested(levels_max));
  ASSERT_TRUE(deepest.set) << deepest.said();
  std::vector<std::string> keys;
  for (size_t i = levels_max; i > 1; --i) keys.push_back("k" + std::to_string(i));
  keys.push_back("k");
  std::vector<request::Entry> entries;
  for (const std::string& key : keys) entries.push_back({key, "v"});
  policy::MatchSteps steps;
  const uint32_t domain = deepest.set->domain("d");
  Walk walk = deepest.set->find(domain, entries, steps);
  EXPECT_NE(walk.limit, absent);
  EXPECT_EQ(walk.size, levels_max);
  entries.push_back({"k", "v"});
  walk = deepest.set->find(domain, entries, steps);
  EXPECT_EQ(walk.limit, absent);
  EXPECT_EQ(walk.size, levels_max);
  EXPECT_NE(
      Read(nested(levels_max + 1)).said().find("descriptors: is nested deeper than 32 levels"),
      std::string::npos);
}

TEST(EnvoyFile, FilesOfLimitsAreKnownByTheirKeys) {
  EXPECT_TRUE(is_limits_file("domain: d\n"));
  EXPECT_TRUE(is_limits_file("{descriptors: [], domain: 5}"));
  EXPECT_FALSE(is_limits_file("descriptors: []\n"));
  EXPECT_FALSE(is_limits_file("domain: d\nrules: []\n"));
  EXPECT_FALSE(is_limits_file("- domain: d\n"));
  EXPECT_FALSE(is_limits_file("domain: ["));
}

}  // namespace
}  // namespace sluice::envoy
