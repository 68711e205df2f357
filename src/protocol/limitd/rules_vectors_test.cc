// Configurations recorded with limitd 7.0.1 (tests/conformance/limitd.json): which it refused or
// accepted, and which limits the accepted ones gave. Cases in which sluice differs are listed with
// the reason, and must differ.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "protocol/limitd/rules.h"
#include "tests/support/paths.h"

namespace sluice::limitd {
namespace {

using nlohmann::json;

const json& vectors() {
  static const json all = [] {
    std::ifstream file(tests::source_path("tests/conformance/limitd.json"));
    return json::parse(file);
  }();
  return all;
}

// Configurations that sluice accepts and limitd refuses, then the opposite. docs/compat/limitd.md
// explains the decisions.
const std::map<std::string, std::string> accepted_here = {
    {"per_day on a validated name", "per_day is a rate like the others"},
    {"per_interval on a validated name",
     "per_interval with its interval is a rate like the others"},
    {"env: BUCKET_1_PER_DAY", "PER_DAY is a rate like the others"},
    {"HOSTNAME in the environment beats the file", "a HOSTNAME that is not an address is ignored"},
};
const std::map<std::string, std::string> refused_here = {
    {"override with two rates", "which one counts was an accident"},
    {"underscore name is not validated", "every name is validated"},
    {"override key with dots is not validated", "every name is validated"},
    {"env: bucket without name", "limitd names such a bucket `undefined`"},
};
// Cases about flags, which are tested with the commands.
const std::set<std::string> about_flags = {"-h is --hostname, not help", "--version",
                                           "unknown flag"};

// A text that sluice's message must contain to give the same reason as limitd's message.
std::string reason_of(const std::string& theirs) {
  const std::pair<const char*, const char*> words[] = {
      {"Error parsing configuration", "is not YAML"},
      {"Invalid property \"", "is not a level of the log"},
      {"Use only one of", "rate"},
      {"Additional properties not allowed: ", "is not a known key"},
      {"Expected type boolean", "true or false"},
      {"is less than minimum", "is less than"},
      {"but found type string' on property buckets.", "must be a number"},
      {"but found type number' on property buckets.", "must be a whole number"},
      {"found type not-a-number", "is not a whole number"},
      {"found type null", "has no value"},
      {"found type array", "must be a map"},
      {"on property db", "must be a path"},
      {"Missing required property: buckets", "buckets: is missing"},
      {"path is required", "path is required"},
      {"Unsupported Configurator", "is not known"},
      {"path required", "has no path"},
      {"missing database path", "missing database path"},
  };
  for (const auto& [them, us] : words)
    if (theirs.find(them) != std::string::npos) return us;
  return "";
}

struct Loaded {
  request::Spaces spaces;
  policy::RuleSet rules;
  LimitdConfig config;
  base::Diagnostics diagnostics;
  std::string said;

  void read(const std::vector<std::pair<std::string, std::string>>& files,
            const std::map<std::string, std::string>& environment) {
    std::vector<NamedText> texts, variables;
    for (const auto& [name, text] : files) texts.push_back({name, text});
    for (const auto& [name, text] : environment) variables.push_back({name, text});
    read_limitd(texts, variables, spaces, rules, config, diagnostics);
    for (const base::Diagnostic& d : diagnostics) said += to_string(d) + '\n';
  }
  const policy::Rule* decider(std::string_view type, std::string_view key) const {
    const request::Entry request[] = {{"type", type}, {"key", key}};
    std::string_view error;
    return rules.decider(&dialect, request, error);
  }
};

std::string with_path(std::string text) {
  for (const char* place : {"@DB@", "@DIR@"})
    for (size_t at; (at = text.find(place)) != std::string::npos;)
      text.replace(at, std::string(place).size(), "/tmp/db");
  return text;
}

TEST(LimitdVectors, VerdictsOnConfigurations) {
  size_t differing = 0, flags = 0;
  for (const json& vector : vectors().at("config_errors")) {
    const std::string name = vector.at("name");
    SCOPED_TRACE(name);
    if (about_flags.contains(name)) {
      ++flags;
      continue;
    }
    Loaded loaded;
    std::vector<std::pair<std::string, std::string>> files;
    if (vector.contains("yaml")) files.emplace_back("config.yml", with_path(vector.at("yaml")));
    std::map<std::string, std::string> environment;
    if (vector.contains("env")) vector.at("env").get_to(environment);
    if (const auto args = vector.value("args", std::vector<std::string>());
        args.size() == 2 && args[0] == "--db")
      loaded.config.db = {{args[1], false}, "--db", 0};
    loaded.read(files, environment);

    const bool accepted = !has_errors(loaded.diagnostics);
    const bool by_limitd = vector.value("starts", false);
    const bool differs = accepted_here.contains(name) || refused_here.contains(name);
    differing += differs;
    EXPECT_EQ(accepted, by_limitd != differs) << loaded.said;
    for (const base::Diagnostic& d : loaded.diagnostics) {
      const bool is_error = d.severity == base::Diagnostic::Severity::error;
      EXPECT_TRUE(!is_error || !d.remedy.empty()) << to_string(d);
    }
    if (accepted || differs) continue;
    // The command reports a file that does not exist. This test reads no file then, and expects
    // what is missing to be reported.
    const std::string reason =
        name == "file not found" ? "missing database path" : reason_of(vector.at("message"));
    ASSERT_NE(reason, "");
    EXPECT_NE(loaded.said.find(reason), std::string::npos) << loaded.said;
  }
  EXPECT_EQ(differing, accepted_here.size() + refused_here.size());
  EXPECT_EQ(flags, about_flags.size());
  EXPECT_EQ(vectors().at("config_errors").size(), 50u);
}

// The limit in each recorded reply is the limit of the rule that matches the request here.
TEST(LimitdVectors, LimitsOfRecordedRequests) {
  // The limits of cases in which sluice differs: a quoted date is a date, an override with neither
  // size nor rate has those of its type, `match` as a plain string is an expression, and flag g is
  // ignored.
  const std::map<std::string, int64_t> otherwise = {
      {"override: quoted until disables the rule", 88},
      {"override: neither size nor rate kills the server", 10},
      {"override: match written as a plain string kills the server", 2},
      {"override: regex flag g alternates", 2},
  };
  const int64_t now_us = int64_t{1'780'000'000} * 1'000'000;  // in 2026
  size_t compared = 0;
  std::map<std::string, Loaded> by_config;
  for (const auto& [name, text] : vectors().at("configs").items()) {
    std::vector<std::pair<std::string, std::string>> files = {{"config.yml", with_path(text)}};
    if (vectors().at("extra_files").contains(name)) {
      std::map<std::string, std::string> sorted;
      vectors().at("extra_files").at(name).get_to(sorted);
      for (const auto& file : sorted) files.push_back(file);
    }
    Loaded& loaded = by_config[name];
    loaded.read(files, {});
    ASSERT_FALSE(has_errors(loaded.diagnostics)) << loaded.said;
  }
  for (const json& vector : vectors().at("cases")) {
    const std::string name = vector.at("name"), config = vector.at("config");
    if (config == "reload") continue;
    SCOPED_TRACE(name);
    for (const json& step : vector.at("steps")) {
      const json request = step.value("request", json());
      const json response = step.value("response", json());
      if (!request.is_object() || !response.is_object() || !request.contains("type")) continue;
      json body;
      for (const char* kind : {"take", "put", "get"})
        if (response.contains(kind)) body = response.at(kind);
      const bool unknown = response.contains("error");
      if (!body.is_object() && !unknown) continue;
      const request::Entry descriptor[] = {
          {"type", request.at("type").get_ref<const std::string&>()},
          {"key", request.at("key").get_ref<const std::string&>()}};
      policy::Plan plan;
      const Loaded& loaded = by_config.at(config);
      loaded.rules.match(&dialect, {.descriptor = descriptor, .now = {now_us}}, plan);
      const auto steps = plan.steps(plan.parts()[0]);
      ASSERT_EQ(steps.empty(), unknown);
      ++compared;
      if (unknown) continue;
      const limit::Limit& limit = steps[0].rule->limits.at(0);
      const int64_t most = limit.burst > 0 ? limit.burst : limit.quota;
      const auto differs = otherwise.find(name);
      EXPECT_EQ(most,
                differs == otherwise.end() ? body.at("limit").get<int64_t>() : differs->second);
      EXPECT_EQ(steps[0].rule->space->prefix,
                "limitd:" + request.at("type").get<std::string>() + ":");
    }
  }
  EXPECT_GT(compared, 150u);
}

TEST(LimitdVectors, EnvironmentProbes) {
  size_t probes = 0;
  for (const json& vector : vectors().at("config_errors")) {
    if (!vector.contains("probe")) continue;
    SCOPED_TRACE(vector.at("name").get<std::string>());
    Loaded loaded;
    std::vector<std::pair<std::string, std::string>> files;
    if (vector.contains("yaml")) files.emplace_back("config.yml", with_path(vector.at("yaml")));
    loaded.read(files, vector.at("env").get<std::map<std::string, std::string>>());
    for (const json& probe : vector.at("probe")) {
      const policy::Rule* rule =
          loaded.decider(probe.at("take")[0].get_ref<const std::string&>(), "k");
      ++probes;
      EXPECT_EQ(rule == nullptr, probe.at("reply").contains("error"));
      if (rule == nullptr) continue;
      const limit::Limit& limit = rule->limits.at(0);
      EXPECT_EQ(std::max(limit.burst, limit.quota), probe.at("reply").at("limit"));
      // limitd reads BUCKET_3_UNLIMITED=false as true, and answers that 9 of 9 are left.
      EXPECT_NE(limit.algorithm, limit::Algorithm::unlimited);
    }
  }
  EXPECT_EQ(probes, 5u);
}

}  // namespace
}  // namespace sluice::limitd
