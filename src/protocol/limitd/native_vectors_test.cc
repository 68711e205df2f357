// Recorded requests of limitd (tests/conformance/limitd.json), matched by limitd's configurations
// and by the native rules that `sluice init --limitd` makes of these: both must charge the same
// counters under the same limits.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "policy/read/native.h"
#include "policy/read/native_text.h"
#include "protocol/limitd/policy_files.h"
#include "protocol/limitd/rules.h"
#include "tests/support/paths.h"

namespace sluice::limitd::native_vectors_test {
namespace {

using nlohmann::json;

constexpr base::Time in_2026{int64_t{1'780'000'000} * 1'000'000};

const json& recorded() {
  static const json all =
      json::parse(std::ifstream(tests::source_path("tests/conformance/limitd.json")));
  return all;
}

std::string without_places(std::string text) {
  for (const char* place : {"@DB@", "@DIR@"})
    for (size_t at; (at = text.find(place)) != std::string::npos;)
      text.replace(at, std::string(place).size(), "/tmp/db");
  return text;
}

struct Both {
  request::Spaces spaces;
  policy::RuleSet own, native;
  base::Diagnostics diagnostics;
  std::string text;

  explicit Both(const std::string& config) {
    std::map<std::string, std::string> sorted;
    const json& extra = recorded().at("extra_files");
    if (extra.contains(config)) extra.at(config).get_to(sorted);
    const std::string main = without_places(recorded().at("configs").at(config));
    std::vector<NamedText> files{{"config.yml", main}};
    for (const auto& [name, content] : sorted) files.push_back({name, content});
    LimitdConfig settings;
    read_limitd(files, {}, spaces, own, settings, diagnostics);
    const auto rules = policy_format.to_native(own.rules(&dialect), in_2026, diagnostics);
    text = "rules:\n" + policy::native_text(rules);
    policy::read_native(text, "native", spaces, native, diagnostics);
  }
};

// The charges of the request as "key: limits", a line each; "" if no rule applies.
std::string charged(const policy::RuleSet& rules, std::span<const request::Entry> request) {
  policy::Plan plan;
  rules.match(&dialect, {.descriptor = request, .now = in_2026}, plan);
  std::string text;
  for (const policy::Plan::RuleMatch& step : plan.steps(plan.parts()[0])) {
    const request::Charge& charge = plan.charge(step);
    text += std::string(charge.key) + ":";
    for (const limit::Limit& limit : charge.limits) {
      text += " " + std::string(name_of(limit.algorithm));
      if (limit::has_counter(limit.algorithm))
        text += " " + std::to_string(limit.quota) + " " + std::to_string(limit.window.us) + " " +
                std::to_string(limit.burst);
    }
    text += "\n";
  }
  return text;
}

TEST(LimitdNative, RecordedRequestsMatchTheSameLimits) {
  size_t compared = 0;
  std::map<std::string, Both> all;
  for (const json& vector : recorded().at("cases")) {
    const std::string config = vector.at("config");
    const Both& both = all.try_emplace(config, config).first->second;
    // One recorded override ends in 2099, which a native rule cannot express: it is reported. It
    // gives the same limits as the rule until then.
    for (const auto& d : both.diagnostics) {
      if (d.severity != base::Diagnostic::Severity::error) continue;
      ASSERT_EQ(d.message, "has an `until`, which no native rule has") << to_string(d);
    }
    for (const json& step : vector.at("steps")) {
      const json request = step.value("request", json());
      if (!request.is_object() || !request.contains("type")) continue;
      const request::Entry descriptor[] = {
          {"type", request.at("type").get_ref<const std::string&>()},
          {"key", request.at("key").get_ref<const std::string&>()}};
      ++compared;
      EXPECT_EQ(charged(both.native, descriptor), charged(both.own, descriptor))
          << request.dump() << "\n"
          << both.text;
    }
  }
  EXPECT_GT(compared, 150u);
}

TEST(LimitdNative, ReportsAnUnexpiredOverrideWithAnEnd) {
  for (const auto& [until, has_error] : {std::pair("2099-01-01", true), {"2001-01-01", false}}) {
    request::Spaces spaces;
    policy::RuleSet rules;
    base::Diagnostics diagnostics;
    LimitdConfig settings;
    const std::string text =
        std::string("db: /tmp/db\nbuckets:\n  ip:\n    size: 3\n    per_second: 1\n") +
        "    override:\n      10.0.0.1: { size: 9, until: " + until + " }\n";
    const NamedText file{"c.yml", text};
    read_limitd(std::span(&file, 1), {}, spaces, rules, settings, diagnostics);
    ASSERT_FALSE(base::has_errors(diagnostics)) << to_string(diagnostics.front());
    const auto native = policy_format.to_native(rules.rules(&dialect), in_2026, diagnostics);
    EXPECT_EQ(base::has_errors(diagnostics), has_error);
    EXPECT_EQ(native.size(), 1u + has_error);
  }
}

}  // namespace
}  // namespace sluice::limitd::native_vectors_test
