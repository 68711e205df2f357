// Policies recorded with Divvy 1.7.1 (tests/conformance/divvy.json): which files it refused or
// accepted, and which counters requests changed. Cases in which sluice differs are listed with the
// reason, and must differ.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "protocol/divvy/rules.h"
#include "tests/support/paths.h"

namespace sluice::divvy::rules_vectors_test {
namespace {

using nlohmann::json;

const json& vectors() {
  static const json all = [] {
    std::ifstream file(tests::source_path("tests/conformance/divvy.json"));
    return json::parse(file);
  }();
  return all;
}

struct Loaded {
  request::Spaces spaces;
  policy::RuleSet rules;
  base::Diagnostics diagnostics;

  void read(const std::string& text, const std::string& file) {
    const auto format = divvy_format(file);
    ASSERT_TRUE(format) << file;
    read_divvy(text, *format, DivvyMatching::code, file, spaces, rules, diagnostics);
  }
  bool accepted() const { return !has_errors(diagnostics); }
};

// Files that Divvy refused and sluice accepts, with the reason.
const std::map<std::string, std::string> accepted_here = {
    {"ini-reset-zero-always-allow", "a positive creditLimit with resetSeconds 0 always allows"},
    {"ini-default-always-allow", "a positive creditLimit with resetSeconds 0 always allows"},
    {"json-reset-zero-always-allow", "a positive creditLimit with resetSeconds 0 always allows"},
    {"ini-unreachable-undefined-glob", "an absent key matches no glob"},
    {"ini-dot-in-section", "dots in section names are dots"},
    {"ini-dot-in-ip", "dots in section names are dots"},
    {"ini-escaped-dot", "dots in section names are dots, escaped or not"},
    {"ini-dot-in-quoted-section", "dots in section names are dots"},
    {"ini-section-trailing-comment", "a comment may follow a section header"},
    {"ini-section-indented", "blanks may surround a section header"},
    {"json-overrides-missing", "missing overrides are an empty list"},
};

// A text that sluice's message must contain to give the same reason as Divvy's `error`.
std::string reason_of(const std::string& error) {
  const std::pair<const char*, const char*> words[] = {
      {"Unreachable rule", "unreachable"},
      {"Invalid creditLimit", "creditLimit"},
      {"Invalid resetSeconds", "resetSeconds"},
      {"Invalid rule label", "label"},
      {"already exists", "is already the label of"},
      {"Invalid matchPolicy", "matchPolicy"},
      {"define a default rule", "does not define a default rule"},
      {"define any rules", "does not define any rules"},
      {"Nothing to repeat", "Nothing to repeat"},
      {"Expected object", "operation"},
      {"reading 'constructor'", "operation"},
      {"overrides.push", "overrides"},
      {"is not valid JSON", "not JSON"},
  };
  for (const auto& [theirs, ours] : words) {
    if (error.find(theirs) != std::string::npos) return ours;
  }
  return "";
}

TEST(DivvyVectors, FilesThatDivvyRefused) {
  size_t differing = 0;
  for (const json& vector : vectors().at("config_errors")) {
    const std::string name = vector.at("name");
    SCOPED_TRACE(name);
    if (name.starts_with("ext-")) {
      const char* file = name == "ext-unknown" ? "rules.conf" : "rules.INI";
      EXPECT_FALSE(divvy_format(file));
      continue;
    }
    Loaded loaded;
    loaded.read(vector.at("text"), "rules." + vector.at("format").get<std::string>());
    const bool differs = accepted_here.contains(name);
    differing += differs;
    EXPECT_EQ(loaded.accepted(), differs);
    if (differs) continue;
    // Divvy reads keys before the first section as rules, and reports what is wrong with those.
    const bool global_key = name.starts_with("ini-global");
    const std::string reason =
        global_key ? "in front of the first section" : reason_of(vector.at("error"));
    EXPECT_TRUE(!reason.empty() || name == "json-default-null");
    std::string all;
    for (const base::Diagnostic& d : loaded.diagnostics) {
      if (d.severity == base::Diagnostic::Severity::error) all += to_string(d) + '\n';
    }
    EXPECT_NE(all.find(reason), std::string::npos) << all;
    for (const base::Diagnostic& d : loaded.diagnostics)
      EXPECT_FALSE(d.remedy.empty()) << to_string(d);
  }
  EXPECT_EQ(differing, accepted_here.size());
  EXPECT_EQ(vectors().at("config_errors").size(), 63u);
}

TEST(DivvyVectors, FilesThatDivvyAccepted) {
  for (const json& vector : vectors().at("config_ok")) {
    Loaded loaded;
    loaded.read(vector.at("text"), "rules." + vector.at("format").get<std::string>());
    EXPECT_TRUE(loaded.accepted()) << vector.at("name");
    const size_t rules = loaded.rules.rules(&dialect).size();
    // Divvy loses a section with a dot in its name; sluice reads it as any other rule.
    EXPECT_TRUE(vector.at("name") != "ini-ok-dotted-sibling" || rules == 3) << rules;
  }
  EXPECT_EQ(vectors().at("config_ok").size(), 17u);
}

TEST(DivvyVectors, FilesThatItsCasesUse) {
  for (const auto& [file, text] : vectors().at("config files").items()) {
    Loaded loaded;
    loaded.read(text, file);
    EXPECT_EQ(loaded.accepted(), file != "quirks.json")
        << file;  // quirks.json has numbers that are not integers
  }
}

// The entries of a plain `HIT key=value ...` line; nothing if the line needs the protocol's parser.
std::optional<std::vector<request::Entry>> plain_request(std::string_view line) {
  if (!line.starts_with("HIT") || line.find_first_of("\"\t\r") != std::string_view::npos)
    return std::nullopt;
  line.remove_prefix(3);
  std::vector<request::Entry> entries;
  while (!line.empty()) {
    if (line[0] != ' ') return std::nullopt;
    line.remove_prefix(1);
    const std::string_view word = line.substr(0, line.find(' '));
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos || word.find('=', equals + 1) != std::string_view::npos)
      return std::nullopt;
    entries.push_back({word.substr(0, equals), word.substr(equals + 1)});
    line.remove_prefix(word.size());
  }
  return entries;
}

// Cases that change other counters in sluice than in Divvy, with the reason.
const std::map<std::string, std::string> counted_elsewhere = {
    {"glob-missing-key-undefined", "an absent key matches no glob"},
    {"ini-dotted-section-vanishes", "dots in section names are dots"},
    {"ini-integer-section-first", "sections keep the file's order"},
    {"json-actor-constructor",
     "an actor that has the name of a part of JavaScript is absent like any other"},
};

// The file without the rules that sluice refuses; the recorded cases use it.
std::string without_refused_rules(const std::string& file, const std::string& text) {
  if (file != "quirks.json") return text;
  auto policy = nlohmann::ordered_json::parse(text);
  auto& rules = policy.at("overrides");
  for (size_t i = rules.size(); i-- > 0;) {
    const std::string name = rules[i].at("operation").dump();
    for (const char* refused : {"limit-float", "reset-float", "\"big\""}) {
      if (name.find(refused) != std::string::npos) {
        rules.erase(i);
        break;
      }
    }
  }
  return policy.dump();
}

TEST(DivvyVectors, CountersThatItsCasesMove) {
  size_t compared = 0, differing = 0;
  for (const json& vector : vectors().at("cases")) {
    const std::string name = vector.at("name"), file = vector.at("config");
    if (vector.contains("redis_setup") || !vector.contains("redis_after")) continue;
    Loaded loaded;
    loaded.read(without_refused_rules(file, vectors().at("config files").at(file)), file);
    ASSERT_TRUE(loaded.accepted()) << file;
    std::map<std::string, int64_t>
        counters;  // the units left of each, as Divvy keeps them in Redis
    bool plain = true;
    for (const json& step : vector.at("steps")) {
      if (!step.contains("send") || step.contains("sleep_ms")) {
        plain = false;
        break;
      }
      const std::string text = step.at("send");
      for (size_t at = 0; at < text.size() && plain;) {
        const size_t end = std::min(text.find('\n', at), text.size());
        const auto request = plain_request(std::string_view(text).substr(at, end - at));
        at = end + 1;
        plain = request.has_value();
        if (!plain) break;
        policy::Plan plan;
        loaded.rules.match(&dialect, {*request}, plan);
        for (const request::Charge& charge : plan.batch().charges) {
          if (!limit::has_counter(charge.limits[0].algorithm)) continue;
          const std::string counter =
              charge.space->prefix + std::string(charge.key) + charge.space->suffix;
          int64_t& left = counters.try_emplace(counter, charge.limits[0].quota).first->second;
          left = std::max<int64_t>(left - 1, 0);
        }
      }
    }
    const bool of_refused_rule =
        name == "json-limit-float" || name == "json-reset-float" || name == "json-big-limit";
    if (!plain || of_refused_rule) continue;
    std::map<std::string, int64_t> recorded;
    for (const auto& [key, state] : vector.at("redis_after").items()) {
      recorded[key] = std::stoll(state.at("value").get<std::string>());
    }
    const bool differs = counted_elsewhere.contains(name);
    differing += differs;
    EXPECT_EQ(counters != recorded, differs) << name;
    ++compared;
  }
  EXPECT_EQ(differing, counted_elsewhere.size());
  EXPECT_GT(compared, 50u);
}

}  // namespace
}  // namespace sluice::divvy::rules_vectors_test
