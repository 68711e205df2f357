// What a server keeps of a day's refusals (admin/denials.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "admin/denials.h"
#include "base/bounds.h"
#include "base/hash.h"

namespace sluice::admin::denial_history_test {
namespace {

constexpr int64_t hour_us = int64_t{3600} * 1'000'000;
constexpr base::Time noon{int64_t{500'000} * hour_us};
constexpr size_t kept_max = base::bounds::denials_kept_max;

base::Time at(int64_t minutes) {
  return {noon.us + minutes * 60'000'000};
}

engine::Refusal refusal_of(std::string_view actor, uint16_t rule = 1) {
  static const base::Hash hash(1);
  return {.hash = hash(rule, actor), .family = nullptr, .key = actor, .rule = rule, .limit = {}};
}

class History {
 public:
  void refuse(const std::string& actor, base::Time at, uint16_t rule = 1, int times = 1) {
    const engine::Refusal refusal = refusal_of(actor, rule);
    for (int i = 0; i < times; ++i)
      table_.add(refusal.tag(), refusal.rule, at, [&] { return refusal; });
  }
  void collect() {
    history.add(table_, [this](const engine::Denial&) {
      ++asked;
      return std::make_shared<const DenialHistory::Owner>();
    });
    table_.clear();
  }
  // "ACTOR COUNT", in order.
  std::vector<std::string> since(base::Time since) const {
    std::vector<std::string> all;
    for (const auto& one : history.since(since))
      all.push_back(one.key + " " + std::to_string(one.count));
    std::sort(all.begin(), all.end());
    return all;
  }

  DenialHistory history;
  int asked = 0;

 private:
  engine::DenialTable table_;
};

using Lines = std::vector<std::string>;

TEST(DenialHistory, SumsWhatWasRefusedSinceAMoment) {
  History h;
  h.refuse("acme", at(0), 1, 3);
  h.collect();
  h.refuse("acme", at(1), 1, 2);
  h.collect();
  h.refuse("acme", at(70), 1, 4);
  h.refuse("bolt", at(70));
  h.collect();
  EXPECT_EQ(h.since(at(0)), (Lines{"acme 9", "bolt 1"}));
  EXPECT_EQ(h.since(at(60)), (Lines{"acme 4", "bolt 1"}));
  EXPECT_EQ(h.since(at(71)), Lines());
  const auto all = h.history.since(at(0));
  const auto acme =
      std::find_if(all.begin(), all.end(), [](const auto& one) { return one.key == "acme"; });
  EXPECT_EQ(acme->first, at(0));
  EXPECT_EQ(acme->last, at(70));
  EXPECT_EQ(h.asked, 3) << "once for each new record";
  EXPECT_EQ(h.history.dropped(at(0)), 0u);
}

TEST(DenialHistory, ForgetsAfterADay) {
  History h;
  h.refuse("acme", at(0));
  h.collect();
  h.refuse("bolt", at(30));
  h.collect();
  h.history.forget(at(24 * 60));
  EXPECT_EQ(h.since({0}), (Lines{"acme 1", "bolt 1"}));
  h.history.forget(at(24 * 60 + 11));
  EXPECT_EQ(h.since({0}), Lines{"bolt 1"});
  h.history.forget(at(48 * 60));
  EXPECT_EQ(h.since({0}), Lines());
}

TEST(DenialHistory, AFloodOfOneRuleLeavesOtherRulesAndTheMostRefused) {
  History h;
  h.refuse("before", at(0));
  h.collect();
  uint64_t refused = 0;
  for (int round = 0; round < 5; ++round) {
    h.refuse("acme", at(20 + round), 1, 2);
    h.refuse("bolt", at(20 + round), 2);
    for (int i = 0; i < 700; ++i)
      h.refuse(std::to_string(round) + "." + std::to_string(i), at(20 + round));
    refused += 703;
    h.collect();
  }
  uint64_t listed = 0;
  const auto all = h.history.since(at(20));
  for (const auto& one : all) listed += one.count;
  EXPECT_EQ(all.size(), kept_max);
  EXPECT_EQ(listed + h.history.dropped(at(20)), refused);
  const Lines lines = h.since(at(0));
  for (const char* line : {"acme 10", "bolt 5", "before 1"})
    EXPECT_TRUE(std::find(lines.begin(), lines.end(), line) != lines.end()) << line;
}

TEST(DenialHistory, RulesHaveEqualSharesOfASpan) {
  History h;
  for (uint16_t rule = 1; rule <= 3; ++rule) {
    const int actors = rule == 3 ? 10 : 450;
    for (int i = 0; i < actors; ++i) h.refuse(std::to_string(i), at(0), rule);
    h.collect();
  }
  std::array<size_t, 4> counts{};
  for (const auto& one : h.history.since(at(0))) ++counts[one.rule];
  EXPECT_EQ(counts[3], 10u);
  EXPECT_EQ(counts[1], (kept_max - 10) / 2);
  EXPECT_EQ(counts[2], (kept_max - 10) / 2);
}

// A step of the clock: what it was far ahead for stays, and nothing grows without end.
TEST(DenialHistory, BoundsItsSpansWhateverTheClockDoes) {
  History h;
  h.refuse("acme", at(0));
  h.refuse("ahead", at(26 * 60));
  h.collect();
  h.history.forget(at(1));
  h.refuse("acme", at(1));
  h.collect();
  EXPECT_EQ(h.since(at(0)), (Lines{"acme 2", "ahead 1"}));
  for (int64_t minutes = 0; minutes < 5'000; minutes += 10) {
    h.refuse(std::to_string(minutes), at(minutes));
    h.collect();
  }
  EXPECT_LE(h.history.since({0}).size(), 150u);
  for (int64_t minutes = 5'000; minutes > 0; minutes -= 10) {
    h.refuse(std::to_string(minutes), at(minutes));
    h.collect();
  }
  EXPECT_LE(h.history.since({0}).size(), 160u);
}

}  // namespace
}  // namespace sluice::admin::denial_history_test
