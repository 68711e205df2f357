// The search for the limit of a descriptor, against the model in limits_model.h; the names of
// counters and metrics; patterns; limits that replace others.
#include "protocol/envoy/limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "protocol/envoy/limits_file.h"
#include "protocol/envoy/limits_model.h"
#include "tests/support/dice.h"

namespace sluice::envoy {
namespace {

bool fits(std::string_view pattern, std::string_view key, std::string_view value) {
  policy::MatchSteps steps;
  return envoy::fits(pattern, key, value, steps);
}

LimitSet read(std::string_view text) {
  const LimitsText file{"limits.yaml", text};
  base::Diagnostics diagnostics;
  auto set = read_limits({&file, 1}, {}, diagnostics);
  for (const auto& d : diagnostics)
    if (d.severity == base::Diagnostic::Severity::error) ADD_FAILURE() << to_string(d);
  return set ? *std::move(set) : LimitSet();
}

using Pairs = std::vector<request::Entry>;

// What a descriptor meets: the path of the limit's node, the counter's key and the path of the
// metrics.
std::string met(const LimitSet& set, std::string_view domain, const Pairs& entries) {
  const uint32_t number = set.domain(domain);
  if (number == absent) return "no domain";
  policy::MatchSteps steps;
  const Walk walk = set.find(number, entries, steps);
  std::string text = walk.limit == absent ? "none" : set.path(set.limits()[walk.limit].node);
  base::Arena arena;
  (text += ' ') += set.key(number, entries, walk, arena);
  if (walk.limit != absent) set.append_metric_path(number, entries, walk, text += ' ');
  return text;
}

TEST(EnvoyLimits, FindsADomainByItsWholeName) {
  const LimitSet set = read("domain: d\ndescriptors: [{key: k, rate_limit: {unit: day}}]");
  EXPECT_EQ(met(set, "d", {{"k", "x"}}), "d.k d_k_x d.k");
  EXPECT_EQ(met(set, "D", {{"k", "x"}}), "no domain");
  EXPECT_EQ(met(set, "", {{"k", "x"}}), "no domain");
  EXPECT_EQ(met(set, "d.k", {{"k", "x"}}), "no domain");
  EXPECT_EQ(LimitSet().domain("d"), absent);
}

TEST(EnvoyLimits, TheDepthMustBeEqual) {
  const LimitSet set = read(R"(
domain: d
descriptors:
  - key: a
    rate_limit: {unit: day}
    descriptors:
      - {key: b, rate_limit: {unit: day}}
      - key: c
        descriptors: [{key: e, rate_limit: {unit: day}}]
)");
  EXPECT_EQ(met(set, "d", {{"a", "1"}}), "d.a d_a_1 d.a");
  EXPECT_EQ(met(set, "d", {{"a", "1"}, {"b", "2"}}), "d.a.b d_a_1_b_2 d.a.b");
  EXPECT_EQ(met(set, "d", {{"a", "1"}, {"b", "2"}, {"c", "3"}}), "none d_a_1_b_2_c_3");
  EXPECT_EQ(met(set, "d", {{"a", "1"}, {"c", "2"}}), "none d_a_1_c_2");
  EXPECT_EQ(met(set, "d", {{"b", "2"}}), "none d_b_2");
  EXPECT_EQ(met(set, "d", {}), "none d");
}

TEST(EnvoyLimits, DoesNotBacktrackToAnotherDescriptor) {
  const LimitSet set = read(R"(
domain: d
descriptors:
  - {key: a, value: x, descriptors: [{key: b, rate_limit: {unit: day}}]}
  - {key: a, value: x*, descriptors: [{key: c, rate_limit: {unit: day}}]}
  - {key: a, descriptors: [{key: e, rate_limit: {unit: day}}]}
)");
  EXPECT_EQ(met(set, "d", {{"a", "x"}, {"b", ""}}), "d.a_x.b d_a_x_b_ d.a_x.b");
  EXPECT_EQ(met(set, "d", {{"a", "x"}, {"c", ""}}), "none d_a_x_c_");
  EXPECT_EQ(met(set, "d", {{"a", "x1"}, {"c", ""}}), "d.a_x*.c d_a_x1_c_ d.a_x*.c");
  EXPECT_EQ(met(set, "d", {{"a", "x1"}, {"e", ""}}), "none d_a_x1_e_");
  EXPECT_EQ(met(set, "d", {{"a", "y"}, {"e", "z"}}), "d.a.e d_a_y_e_z d.a.e");
}

TEST(EnvoyLimits, CompositeKeysAreTexts) {
  const LimitSet set = read(R"(
domain: d
descriptors:
  - {key: a, value: b_c, rate_limit: {unit: day}}
  - {key: e_, rate_limit: {unit: day}}
)");
  EXPECT_EQ(met(set, "d", {{"a", "b_c"}}), "d.a_b_c d_a_b_c d.a_b_c");
  EXPECT_EQ(met(set, "d", {{"a_b", "c"}}), "d.a_b_c d_a_b_c d.a_b_c");
  EXPECT_EQ(met(set, "d", {{"a_b_c", "x"}}), "d.a_b_c d_a_b_c_x d.a_b_c");
  // An entry with an empty value: the name of its metrics has only the key.
  EXPECT_EQ(met(set, "d", {{"e", ""}}), "d.e_ d_e_ d.e");
  EXPECT_EQ(met(set, "d", {{"", "a_b_c"}}), "none d__a_b_c");
}

TEST(EnvoyLimits, SharedCountersHaveThePatternInTheirKeys) {
  const LimitSet set = read(R"(
domain: d
descriptors:
  - {key: f, value: f/*, share_threshold: true, rate_limit: {unit: day}}
  - {key: joi*, share_threshold: true, rate_limit: {unit: day}}
  - key: r
    value: api/*
    share_threshold: true
    descriptors: [{key: m, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 1}}]
)");
  EXPECT_EQ(met(set, "d", {{"f", "f/x"}}), "d.f_f/* d_f_f/* d.f_f/*");
  EXPECT_EQ(met(set, "d", {{"joi", "x"}}), "d.joi* d_joi_joi* d.joi_joi*");
  EXPECT_EQ(met(set, "d", {{"join", "x"}}), "d.joi* d_join_joi* d.join_joi*");
  EXPECT_EQ(met(set, "d", {{"r", "api/1"}, {"m", "GET"}}),
            "d.r_api/*.m d_r_api/*_m_GET d.r_api/*.m_GET");
  EXPECT_EQ(met(set, "d", {{"joi*", ""}}), "d.joi* d_joi*_joi* d.joi*_joi*");
}

TEST(EnvoyLimits, PatternsWithManyStars) {
  EXPECT_TRUE(fits("k_ab*ba", "k", "abba"));
  EXPECT_FALSE(fits("k_ab*ba", "k", "aba"));
  EXPECT_TRUE(fits("k_a**b", "k", "ab"));
  EXPECT_TRUE(fits("*", "", ""));
  EXPECT_TRUE(fits("**", "k", "v"));
  EXPECT_TRUE(fits("*_*", "", ""));
  EXPECT_FALSE(fits("*__*", "a", "b"));
  EXPECT_TRUE(fits("*a_b*", "xa", "bx"));
  EXPECT_FALSE(fits("k", "k", ""));
  EXPECT_TRUE(fits("k_", "k", ""));
  // Each part of a pattern matches after the part before it.
  EXPECT_TRUE(fits("*ab*ab*", "x", "abab"));
  EXPECT_FALSE(fits("*aba*aba*", "x", "ababa"));
}

TEST(EnvoyLimits, PatternsMatchLikeTheModel) {
  tests::Dice dice(1);
  size_t fitting = 0;
  for (int trial = 0; trial < 60'000; ++trial) {
    const auto text = [&](std::string_view letters, size_t most) {
      std::string made;
      for (size_t n = dice(most + 1); n > 0; --n) made += letters[dice(letters.size())];
      return made;
    };
    const std::string key = text("ab_", 5), value = text("ab_*", 6), pattern = text("ab_*", 9);
    const bool model = fits_model(pattern, key + "_" + value);
    ASSERT_EQ(fits(pattern, key, value), model) << pattern << " " << key << " " << value;
    fitting += model;
  }
  EXPECT_GT(fitting, 3000u);
}

TEST(EnvoyLimits, DoesNotMatchPatternsAgainstATooLongValue) {
  const LimitSet set = read(
      "domain: d\ndescriptors: [{key: k, value: '*a*b*', rate_limit: {unit: day}}, "
      "{key: k, rate_limit: {unit: day}}]");
  const std::string value(2000, 'x');
  const request::Entry entry{"k", value};
  policy::MatchSteps few(1000);
  const Walk walk = set.find(set.domain("d"), {&entry, 1}, few);
  EXPECT_TRUE(few.over());
  EXPECT_EQ(walk.limit, absent);
  policy::MatchSteps enough(3000);
  EXPECT_NE(set.find(set.domain("d"), {&entry, 1}, enough).limit, absent);
}

// Random trees and requests. The texts have few letters, so that different pairs of key and value
// give the same composite key, and patterns overlap.
class RandomTree {
 public:
  explicit RandomTree(uint32_t seed) : dice_(seed) {
    for (const char* domain : {"d", "d_a", ""}) {
      builder_.add_domain(domain, 0, 0);
      model.rules.push_back({absent, domain});
    }
    const size_t rules = 1 + dice_(size_t{30});
    for (size_t i = 0; i < rules; ++i) {
      // The model has its rules in the order of the builder's nodes, so numbers are the same in
      // both.
      const auto parent = static_cast<uint32_t>(dice_(model.rules.size()));
      if (builder_.node(parent).level == 4) continue;
      add(parent);
    }
    set = builder_.take();
  }

  std::string text(std::string_view letters, size_t most) {
    std::string made;
    for (size_t n = dice_(most + 1); n > 0; --n) made += letters[dice_(letters.size())];
    return made;
  }
  std::vector<std::pair<std::string, std::string>> request() {
    std::vector<std::pair<std::string, std::string>> entries;
    // Most entries follow a path of the tree, so that deep rules are met.
    auto node = static_cast<uint32_t>(dice_(model.rules.size()));
    for (; model.rules[node].parent != absent; node = model.rules[node].parent) {
      const std::string joined = model.rules[node].composite;
      const size_t cut = joined.find('_');
      if (dice_(5) == 0)
        entries.emplace_back(text("ab_*", 2), text("ab_*", 3));
      else if (cut == std::string::npos)
        entries.emplace_back(joined, text("ab_", 3));
      else
        entries.emplace_back(joined.substr(0, cut),
                             joined.substr(cut + 1) + (dice_(3) == 0 ? text("ab", 2) : ""));
    }
    std::reverse(entries.begin(), entries.end());
    if (dice_(6) == 0) entries.emplace_back(text("ab_*", 2), text("ab_*", 3));
    return entries;
  }

  LimitSet set;
  LimitsModel model;

 private:
  void add(uint32_t parent) {
    std::string key = text("ab_*", 2), value = text("ab_*", 3);
    if (key.empty()) key = "a";
    const std::string composite = value.empty() ? key : key + "_" + value;
    for (const auto& rule : model.rules)
      if (rule.parent == parent && rule.composite == composite) return;
    const uint32_t node = builder_.add(parent, key, value, 0, 0);
    ASSERT_EQ(node, model.rules.size());
    model.rules.push_back({parent, composite});
    builder_.node(node).share_threshold = model.rules.back().share_threshold = dice_(2) == 0;
    if (dice_(3) > 0) model.rules.back().limit = builder_.add_limit(node, {});
  }

  tests::Dice dice_;
  LimitSetBuilder builder_;
};

TEST(EnvoyLimits, RandomTreesFindTheLimitsOfTheModel) {
  size_t found_limits = 0, by[3] = {}, deep = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    RandomTree tree(seed);
    for (int request = 0; request < 60; ++request) {
      const auto texts = tree.request();
      Pairs entries;
      for (const auto& [key, value] : texts) entries.push_back({key, value});
      for (const uint32_t domain : tree.set.domains()) {
        policy::MatchSteps steps;
        const Walk walk = tree.set.find(domain, entries, steps);
        const auto model = tree.model.find(domain, entries);
        ASSERT_EQ(walk.limit, model.limit) << "seed " << seed;
        ASSERT_EQ(walk.steps().size(), model.steps.size());
        for (size_t i = 0; i < model.steps.size(); ++i) {
          ASSERT_EQ(walk.steps()[i].node, model.steps[i].first);
          ASSERT_EQ(walk.steps()[i].by, model.steps[i].second);
          ++by[static_cast<size_t>(model.steps[i].second)];
        }
        base::Arena arena;
        ASSERT_EQ(tree.set.key(domain, entries, walk, arena, "-end"),
                  tree.model.key(domain, entries, model) + "-end");
        found_limits += walk.limit != absent;
        deep += walk.steps().size() > 2;
      }
    }
  }
  EXPECT_GT(found_limits, 3000u);
  EXPECT_GT(deep, 100u);
  for (const size_t count : by) EXPECT_GT(count, 1000u);
}

TEST(EnvoyLimits, MetricsHaveNoLettersThatNamesCannotHave) {
  const auto sanitized = [](std::string_view text) {
    std::string to = ":|1.2.3.4 ";
    append_sanitized(text, to);
    EXPECT_TRUE(to.starts_with(":|1.2.3.4 "));  // the text before stays as it is
    return to.substr(10);
  };
  EXPECT_EQ(sanitized("a:b|c 10.1.2.3 x.y"), "a_b_c 10_1_2_3 x.y");
  EXPECT_EQ(sanitized("1.2.3.4.5.6.7.8.9"), "1_2_3_4.5_6_7_8.9");
  EXPECT_EQ(sanitized("1234.1.1.1"), "1234_1_1_1");
  EXPECT_EQ(sanitized("1.2345.1.1"), "1.2345.1.1");
  EXPECT_EQ(sanitized("1.1.1.12345"), "1_1_1_12345");
  EXPECT_EQ(sanitized("1.1.1."), "1.1.1.");
  EXPECT_EQ(sanitized("1.1.1.x 1.1..1 .1.1.1"), "1.1.1.x 1.1..1 .1.1.1");
  EXPECT_EQ(sanitized(""), "");
}

TEST(EnvoyLimits, FindsAnIpAddressThatStartsInTheDomain) {
  const LimitSet set = read("domain: '10.0'\ndescriptors: [{key: '1.2', rate_limit: {unit: day}}]");
  EXPECT_EQ(met(set, "10.0", {{"1.2", "x"}}), "10.0.1.2 10.0_1.2_x 10_0_1_2");
}

TEST(EnvoyLimits, OverridesAreNamedByTheRequest) {
  const LimitSet set = read("domain: d\n");
  const auto path = [&](const Pairs& entries) {
    std::string text;
    set.append_override_metric_path(set.domain("d"), entries, text);
    return text;
  };
  EXPECT_EQ(path({{"a", "b"}, {"c", ""}, {"e", "1.2.3.4"}}), "d.a_b.c.e_1_2_3_4");
  EXPECT_EQ(path({{"", ""}, {"c", "x"}}), "d.c_x");
  EXPECT_EQ(path({}), "d.");
}

TEST(EnvoyLimits, ReplacedLimitsAreDropped) {
  const LimitSet set = read(R"(
domain: d
descriptors:
  - {key: read, rate_limit: {name: read, unit: hour}}
  - {key: big, rate_limit: {name: big, unit: hour, replaces: [{name: read}]}}
  - {key: vip, rate_limit: {unlimited: true, replaces: [{name: read}, {name: big}]}}
  - {key: free, rate_limit: {unlimited: true, name: read}}
  - {key: nameless, rate_limit: {unit: hour}}
  - {key: other, rate_limit: {unit: hour, replaces: [{name: absent}]}}
)");
  using List = std::vector<uint32_t>;
  const auto left = [&](const List& limits) {
    List all = limits;
    for (uint32_t& limit : all)
      for (const uint32_t by : limits)
        if (limit != absent && by != absent && set.replaces(by, limit)) limit = absent;
    return all;
  };
  EXPECT_EQ(left({0, 4}), (List{0, 4}));
  EXPECT_EQ(left({0, 1}), (List{absent, 1}));
  EXPECT_EQ(left({1, 0, 0}), (List{1, absent, absent}));
  EXPECT_EQ(left({0}), (List{0}));  // limits of other requests replace nothing
  EXPECT_EQ(left({0, 1, 2}), (List{absent, absent, 2}));
  EXPECT_EQ(left({3, 1}), (List{3, 1}));
  EXPECT_EQ(left({absent, 5, 0, absent}), (List{absent, 5, 0, absent}));
  EXPECT_EQ(left({}), List{});
}

TEST(EnvoyLimits, LinesOfRlconfig) {
  const LimitSet set = read(R"(
domain: d:1
descriptors:
  - key: to
    value: svc
    rate_limit: {unit: week, requests_per_unit: 9}
    quota_mode: true
    descriptors: [{key: from, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 5}}]
  - {key: free, rate_limit: {unlimited: true}}
)");
  EXPECT_EQ(
      set.rlconfig(),
      "d:1.to_svc: unit=WEEK requests_per_unit=9, shadow_mode: false, quota_mode: true\n"
      "d:1.to_svc.from: unit=MINUTE requests_per_unit=5, shadow_mode: true, quota_mode: false\n"
      "d:1.free: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false\n");
}

TEST(EnvoyLimits, UnitsAndTheirLengths) {
  EXPECT_EQ(unit_named("MiNuTe"), Unit::minute);
  EXPECT_EQ(unit_named("unknown"), std::nullopt);
  EXPECT_EQ(unit_named("minutes"), std::nullopt);
  EXPECT_EQ(unit_named(""), std::nullopt);
  EXPECT_EQ(length_of(Unit::month), base::seconds(2'592'000));
  EXPECT_EQ(length_of(Unit::year), base::seconds(31'536'000));
  EXPECT_EQ(length_of(Unit::week), base::seconds(604'800));
  EXPECT_EQ(static_cast<int>(Unit::week), 7);
  EXPECT_EQ(unit_of(base::seconds(3600)), Unit::hour);
  EXPECT_EQ(unit_of(base::seconds(604'800)), Unit::unknown);
}

}  // namespace
}  // namespace sluice::envoy
