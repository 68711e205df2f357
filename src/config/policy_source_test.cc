// Where reloads get their rules (config/policy_source.h): the bound on known limits, and rules that
// a cluster cannot settle.
#include "config/policy_source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace sluice::config {
namespace {

class PolicySourceTest : public testing::Test {
 protected:
  ~PolicySourceTest() override { std::remove(path_.c_str()); }

  // Writes a rule with limits that no earlier generation had, and returns its configuration.
  Config next() {
    std::ofstream(path_) << "[default]\ncreditLimit = " << ++units_ << "\nresetSeconds = 60\n";
    Config config;
    const protocol::Protocol protocol = with_policy_files().front();
    config.policy.push_back(
        {protocol, base::Cloned(describe(protocol).policy->configured({path_}))});
    return config;
  }

 private:
  const std::string path_ =
      testing::TempDir() + "sluice_policy_source_" + std::to_string(::getpid()) + ".ini";
  int units_ = 0;
};

// Known limits are bounded: past the bound a reload is refused with a message, and the live policy
// stays.
TEST_F(PolicySourceTest, RefusesReloadsWithNewLimitsAtTheBound) {
  constexpr size_t known_max = 100;
  request::Spaces spaces;
  PolicySource source(
      next(), [this](base::Diagnostics&) { return next(); }, spaces, known_max);
  live::Loaded loaded = source.first();
  ASSERT_TRUE(loaded.rules);
  const size_t known_first = spaces.known();
  size_t live = 0, refused = 0;
  for (int generation = 0; generation < 1'000; ++generation) {
    next();
    loaded = source.again(loaded.hash.value_or(0));
    if (loaded.rules) {
      ++live;
      continue;
    }
    ++refused;
    ASSERT_TRUE(base::has_errors(loaded.diagnostics));
    EXPECT_NE(base::to_string(loaded.diagnostics.back()).find("or restart the server"),
              std::string::npos);
  }
  EXPECT_EQ(live, known_max - known_first);
  EXPECT_EQ(refused, 1'000 - live);
  EXPECT_EQ(spaces.known(), known_max);
  // After a round has forgotten the limits that nothing names, reloads succeed again.
  EXPECT_TRUE(spaces.wants_round());
  EXPECT_GT(spaces.end_round(spaces.begin_round()), 0u);
  next();
  EXPECT_TRUE(source.again(0).rules);
}

// A policy that is live already, or that brings no new limits, is not refused at the bound.
TEST_F(PolicySourceTest, TheBoundCountsOnlyNewLimits) {
  request::Spaces spaces;
  const Config config = next();
  PolicySource source(
      config, [&config](base::Diagnostics&) { return config; }, spaces, 1);
  const live::Loaded first = source.first();
  ASSERT_TRUE(first.rules);
  const live::Loaded same = source.again(*first.hash);
  EXPECT_FALSE(same.rules);
  EXPECT_FALSE(base::has_errors(same.diagnostics));
  EXPECT_EQ(same.hash, first.hash);
}

// Rules that a cluster cannot settle in one slot are refused at the start, and by a reload, after
// which the old rules stay. The setting of the start counts: a reload does not change the store.
TEST(PolicySource, RulesOfSeveralSlotsAreRefused) {
  const std::string one =
      "rules:\n  - { name: u, match: { user: \"*\" }, actor: user, limit: { quota: 5, window: 1m "
      "}, "
      "then: continue }\n";
  const std::string two =
      one +
      "  - { name: t, match: { tenant: \"*\" }, actor: tenant, limit: { quota: 5, window: 1m } "
      "}\n";
  const auto config_of = [](const std::string& rules, const std::string& more) {
    Config config;
    base::Diagnostics diagnostics;
    read_config(rules + "store: { redis: { nodes: [\"a:1\"], cluster: true" + more + " } }\n", "f",
                config, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    config.file.clear();  // the text was not a file
    return config;
  };
  request::Spaces spaces;  // must outlive the rules
  constexpr const char* restart = "write `across_slots: settle` and restart the server";
  const auto is_loaded_again = [&](const std::string& at_start, const std::string& now) {
    PolicySource source(
        config_of(one, at_start), [&](base::Diagnostics&) { return config_of(two, now); }, spaces);
    EXPECT_TRUE(source.first().rules);
    const live::Loaded again = source.again(1);
    EXPECT_TRUE(again.rules ||
                base::to_string(again.diagnostics.back()).find(restart) != std::string::npos);
    return again.rules != nullptr;
  };
  const auto read = [&](base::Diagnostics&) { return config_of(two, ""); };
  const live::Loaded first = PolicySource(config_of(two, ""), read, spaces).first();
  EXPECT_FALSE(first.rules);
  ASSERT_TRUE(base::has_errors(first.diagnostics));
  EXPECT_NE(base::to_string(first.diagnostics.back()).find("f:3: error: rule t: settles together"),
            std::string::npos);
  EXPECT_EQ(base::to_string(first.diagnostics.back()).find(restart), std::string::npos);
  EXPECT_TRUE(PolicySource(config_of(two, ", across_slots: settle"), read, spaces).first().rules);
  EXPECT_FALSE(is_loaded_again("", ""));
  EXPECT_FALSE(is_loaded_again("", ", across_slots: settle"));
  EXPECT_TRUE(is_loaded_again(", across_slots: settle", ""));
}

}  // namespace
}  // namespace sluice::config
