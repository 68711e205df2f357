// Divvy's recorded configurations: which files it refused and accepted, and the names of the
// counters that requests moved. What differs here is listed with its reason, and must differ.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "protocol/divvy/dialect.h"
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

// Refused by Divvy 1.7.1, accepted here.
const std::map<std::string, std::string> accepted_here = {
    {"ini-reset-zero-always-allow",
     "a positive creditLimit with resetSeconds 0 allows always (4.4)"},
    {"ini-default-always-allow", "a positive creditLimit with resetSeconds 0 allows always (4.4)"},
    {"json-reset-zero-always-allow",
     "a positive creditLimit with resetSeconds 0 allows always (4.4)"},
    {"ini-unreachable-undefined-glob", "an absent key fits no glob (5)"},
    {"ini-dot-in-section", "dots in section names are dots (4.2)"},
    {"ini-dot-in-ip", "dots in section names are dots (4.2)"},
    {"ini-escaped-dot", "dots in section names are dots, escaped or not (4.2)"},
    {"ini-dot-in-quoted-section", "dots in section names are dots (4.2)"},
    {"ini-section-trailing-comment", "a comment may follow a section header (4.2)"},
    {"ini-section-indented", "blanks may stand around a section header (4.2)"},
    {"json-overrides-missing", "missing overrides are an empty list (4.3)"},
};

// The word of our message that shows that the reason is the same.
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
    // Keys in front of the first section were rules of a kind to Divvy, and failed as such.
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
    // Divvy loses a section with a dot; here it is a rule like any other.
    EXPECT_TRUE(vector.at("name") != "ini-ok-dotted-sibling" || rules == 3) << rules;
  }
  EXPECT_EQ(vectors().at("config_ok").size(), 17u);
}

TEST(DivvyVectors, FilesThatItsCasesUse) {
  for (const auto& [file, text] : vectors().at("config files").items()) {
    Loaded loaded;
    loaded.read(text, file);
    EXPECT_EQ(loaded.accepted(), file != "quirks.json")
        << file;  // numbers that are not whole (4.3)
  }
}

// The entries of a plain `HIT key=value ...` line; nothing where reading it is the protocol's
// business.
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

// Cases that move other counters here, each for a decision.
const std::map<std::string, std::string> counted_elsewhere = {
    {"glob-missing-key-undefined", "an absent key fits no glob (5)"},
    {"ini-dotted-section-vanishes", "dots in section names are dots (4.2)"},
    {"ini-integer-section-first", "sections keep the file's order (4.2)"},
    {"json-actor-constructor",
     "an actor that names a part of JavaScript is absent all the same (5)"},
};

// The file as its cases need it: without the rules that are refused.
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
    std::map<std::string, int64_t> counters;  // with what is left, as Redis shows it
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
