// Compares the lists of differences (vectors.h) with the recordings: an entry that is missing,
// superfluous or no longer true fails here.
#include "tests/conformance/vectors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/diagnostic.h"
#include "protocol/divvy/rules.h"

namespace sluice::tests {
namespace {

const Case* find(const std::string& name) {
  const auto at =
      std::find_if(cases().begin(), cases().end(), [&](const Case& c) { return c.name == name; });
  return at == cases().end() ? nullptr : &*at;
}

bool same_step(const Step& a, const Step& b) {
  return a.closes == b.closes && a.replies.size() == b.replies.size() &&
         std::equal(a.replies.begin(), a.replies.end(), b.replies.begin(), same_reply);
}

TEST(DivvyVectors, AreComplete) {
  EXPECT_EQ(recording()["cases"].size(), 146u);
  EXPECT_EQ(cases().size(), 147u);  // with the requests of the metrics recording
  std::set<std::string> names;
  for (const Case& c : cases()) EXPECT_TRUE(names.insert(c.name).second) << c.name;
}

TEST(DivvyVectors, ThoseThatNeedRedisAreListed) {
  std::set<std::string> needing;
  for (const Case& c : cases())
    if (c.needs_redis) needing.insert(c.name);
  EXPECT_EQ(needing, std::set(needing_redis().begin(), needing_redis().end()));
  EXPECT_EQ(needing.size(), 11u);
}

TEST(DivvyVectors, EveryListedDifferenceDiffersFromTheRecording) {
  std::set<std::string> names;
  for (const Difference& d : differences()) {
    const auto recorded = recorded_steps(d.name);
    const Case* const ours = find(d.name);
    ASSERT_TRUE(ours != nullptr && d.step < recorded.size()) << d.name;
    EXPECT_FALSE(same_step(recorded[d.step], ours->steps[d.step])) << d.name << " " << d.step;
    names.insert(d.name);
  }
  EXPECT_EQ(names.size(), 12u);
  for (const auto& [name, decision] : counter_differences())
    EXPECT_TRUE(find(name) != nullptr && (find(name)->counters_known || find(name)->needs_redis))
        << name;
}

// The recording marks every case with an internal error, because the text of such an error differs
// from sluice's.
TEST(DivvyVectors, InternalErrorsAreComparedByTheirPrefix) {
  for (const auto& recorded : recording()["cases"]) {
    const bool foreign = recorded.contains("redis_text") || recorded.contains("regex_text");
    bool internal = false;
    for (const auto& step : recorded["steps"])
      for (const auto& reply : step.value("expect", nlohmann::json::array()))
        internal |= reply.get<std::string>().starts_with("ERR Internal Error: ");
    EXPECT_EQ(foreign, internal) << recorded["name"];
  }
}

TEST(DivvyVectors, RepliesAreComparedAsTheRecordingAllows) {
  EXPECT_TRUE(same_reply("OK true 2 600", "OK true 2 600"));
  EXPECT_TRUE(same_reply("OK true 2 600", "OK true 2 599"));
  EXPECT_TRUE(same_reply("OK true 2 600", "OK true 2 601"));
  EXPECT_FALSE(same_reply("OK true 2 600", "OK true 2 598"));
  EXPECT_FALSE(same_reply("OK true 2 600", "OK true 1 600"));
  EXPECT_FALSE(same_reply("OK true 2 600", "OK false 2 600"));
  EXPECT_FALSE(same_reply("OK true 2 600", "OK  true 2 600"));
  EXPECT_FALSE(same_reply("OK true 2 600", "OK true 2 600 "));
  EXPECT_FALSE(same_reply("OK true 2 600", "OK true 2 600x"));
  EXPECT_FALSE(same_reply("OK false 0 -1", "OK false 0 0"));
  EXPECT_FALSE(same_reply("OK true 0 0", "OK true 0 -1"));
  EXPECT_TRUE(same_reply("ERR Internal Error: a", "ERR Internal Error: b"));
  EXPECT_FALSE(same_reply("ERR Internal Error: a", "ERR Internal Error: "));
  EXPECT_FALSE(same_reply("ERR unknown \"a\"", "ERR unknown \"b\""));
  EXPECT_TRUE(same_key("divvy:a::1:1", "divvy:a::1:1"));
  EXPECT_FALSE(same_key("divvy:a::1:1", "divvy:a::1:2"));
  const std::string key = "divvy:" + std::string(400, 'x');
  EXPECT_TRUE(same_key("divvy:xxx...(406 bytes, sha256 0)", key));
  EXPECT_FALSE(same_key("divvy:xxx...(407 bytes, sha256 0)", key));
  EXPECT_FALSE(same_key("divvy:y...(406 bytes, sha256 0)", key));
}

// Sluice refuses the file because of numbers that are too large or not integers. Cases about its
// other rules run without those that have them.
TEST(DivvyVectors, TheFileWithOddNumbersIsRefusedNamingEachRule) {
  request::Spaces spaces;
  policy::RuleSet rules;
  base::Diagnostics diagnostics;
  const std::string text = recording()["config files"][refused_file];
  divvy::read_divvy(text, divvy::DivvyFormat::json, divvy::DivvyMatching::code, refused_file,
                    spaces, rules, diagnostics);
  std::vector<std::string> errors;
  for (const auto& d : diagnostics)
    if (d.severity == base::Diagnostic::Severity::error) errors.push_back(base::to_string(d));
  EXPECT_EQ(errors.size(), refusals().size()) << testing::PrintToString(errors);
  for (const Refusal& refusal : refusals()) {
    EXPECT_NE(find(refusal.name), nullptr) << refusal.name;
    const auto names_it = [&](const std::string& error) {
      return error.starts_with("quirks.json:") &&
             error.find("rule " + std::string(refusal.rule)) != std::string::npos;
    };
    EXPECT_TRUE(std::any_of(errors.begin(), errors.end(), names_it)) << refusal.rule;
  }
}

}  // namespace
}  // namespace sluice::tests
