// A copy of a verdict (request/kept_verdict.h) shows what the verdict shows, after its batch is
// gone.
#include "request/kept_verdict.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace sluice::request::kept_verdict_test {
namespace {

using limit::Algorithm;

// A verdict with two charges, and all that it points to.
struct Decided {
  Space by_tenant{.prefix = "native:tokens:", .suffix = ":tenant"},
      by_user{.prefix = "native:u:", .suffix = ""};
  RuleWords tokens{.name = "tokens", .unit = "tokens"};
  std::vector<limit::Limit> limits = {{Algorithm::fixed_window, 100, base::seconds(60), 0},
                                      {Algorithm::token_bucket, 5, base::seconds(1), 9},
                                      {Algorithm::sliding_log, 7, base::seconds(2), 0}};
  std::vector<limit::Decision> decisions;
  std::vector<Charge> charges;
  Verdict verdict;

  Decided() {
    for (int64_t i = 0; i < 3; ++i)
      decisions.push_back({true, 100 + i, 7 - 10 * i, {1000 + i}, {2000 + i}});
    Charge one;
    one.space = &by_tenant;
    one.key = "acme";
    one.cost = 25;
    one.limits = std::span(limits).first(2);
    one.rule = &tokens;
    one.counted = true;
    charges.push_back(one);
    Charge two;
    two.space = &by_user;
    two.key = "ann";
    two.limits = std::span(limits).subspan(2);
    two.decision_first = 2;
    charges.push_back(two);
    verdict.allowed = verdict.matched = true;
    verdict.tightest = &decisions[1];
    verdict.limit = &limits[1];
    verdict.rule = tokens.name;
    verdict.generation = 3;
    verdict.charged.over = true;
    verdict.charged.units = 24;
    verdict.charges = ChargeList(charges.data(), charges.size());
    verdict.decisions = decisions.data();
  }
};

// All that a reply can show of a verdict.
std::string shown(const Verdict& verdict) {
  std::string text =
      std::string(verdict.rule) + " generation " + std::to_string(verdict.generation) +
      (verdict.allowed ? " allowed" : "") + (verdict.matched ? " matched" : "") +
      (verdict.is_counted() ? " counted" : "") + (verdict.inline_limit ? " inline" : "") +
      (verdict.charged.over ? " over" : "") +
      (verdict.charged.units ? " charged " + std::to_string(*verdict.charged.units) : "");
  for (const Charge& charge : verdict.charges) {
    text += "\n" + charge.space->prefix + std::string(charge.key) + charge.space->suffix + " " +
            (charge.rule == nullptr ? "-" : charge.rule->name + "/" + charge.rule->unit) + " " +
            std::to_string(charge.cost) + (charge.counted ? " counted" : "");
    for (size_t i = 0; i < charge.limits.size(); ++i) {
      const limit::Decision& decision = verdict.decisions[charge.decision_first + i];
      const limit::Limit& limit = charge.limits[i];
      text += "\n  " + std::string(limit::name_of(limit.algorithm)) + " " +
              std::to_string(limit.quota) + " " + std::to_string(limit.window.us) + ": " +
              std::to_string(decision.remaining) + " " + std::to_string(decision.reset_after.us) +
              " " + std::to_string(decision.retry_after.us);
      if (&decision == verdict.tightest) text += " tightest";
      if (&limit == verdict.limit) text += " shown";
    }
  }
  if (verdict.tightest != nullptr) text += "\n" + std::to_string(verdict.tightest->limit);
  return text;
}

TEST(KeptVerdict, ShowsWhatTheVerdictShowsAfterItsBatch) {
  auto decided = std::make_unique<Decided>();
  const std::string before = shown(decided->verdict);
  std::string bytes;
  append_kept(decided->verdict, {77}, bytes);
  decided.reset();
  std::string_view rest = bytes;
  const KeptVerdict kept(rest);
  EXPECT_EQ(rest, "");
  EXPECT_EQ(kept.now().us, 77);
  EXPECT_EQ(shown(kept.verdict()), before);
  EXPECT_NE(before.find("shown"), before.npos);
}

TEST(KeptVerdict, SeveralFollowEachOther) {
  Decided first, second;
  second.verdict.rule = "other";
  second.verdict.tightest = &second.decisions[2];
  second.verdict.limit = &second.limits[2];
  std::string bytes;
  append_kept(first.verdict, {1}, bytes);
  append_kept(second.verdict, {2}, bytes);
  std::string_view rest = bytes;
  const KeptVerdict one(rest), two(rest);
  EXPECT_EQ(shown(one.verdict()), shown(first.verdict));
  EXPECT_EQ(shown(two.verdict()), shown(second.verdict));
}

TEST(KeptVerdict, KeepsADecisionThatBelongsToNoCharge) {
  const limit::Limit never{Algorithm::deny, 0, {}, 0};
  const limit::Decision denied{false, 0, 0, {}, base::never};
  Verdict verdict;
  verdict.tightest = &denied;
  verdict.limit = &never;
  std::string bytes;
  append_kept(verdict, {}, bytes);
  std::string_view rest = bytes;
  const KeptVerdict kept(rest);
  ASSERT_NE(kept.verdict().tightest, nullptr);
  EXPECT_EQ(kept.verdict().tightest->retry_after, base::never);
  EXPECT_EQ(kept.verdict().limit->algorithm, Algorithm::deny);
  EXPECT_FALSE(kept.verdict().is_counted());
  EXPECT_EQ(kept.verdict().rule, "");
}

TEST(KeptVerdict, KeepsThatNoRuleApplies) {
  std::string bytes;
  append_kept(Verdict(), {}, bytes);
  std::string_view rest = bytes;
  const KeptVerdict kept(rest);
  EXPECT_EQ(kept.verdict().tightest, nullptr);
  EXPECT_EQ(kept.verdict().limit, nullptr);
  EXPECT_TRUE(kept.verdict().charges.empty());
}

}  // namespace
}  // namespace sluice::request::kept_verdict_test
