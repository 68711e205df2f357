// Counters under windows of the calendar by the scripts in a real Redis, under limits that change,
// at the edges of windows, and with clocks that step back: every decision is that of a list of
// grants (testing/calendar_model.h), and that of the table in memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "testing/calendar_model.h"
#include "tests/redis/both_stores.h"
#include "tests/support/dice.h"

namespace sluice::redis {
namespace {

using sluice::tests::CalendarCounter;
using sluice::tests::Dice;
using sluice::tests::ModelKinds;
using sluice::tests::ModelLimit;

using List = std::vector<ModelLimit>;

struct Tally {
  size_t granted = 0, refused = 0, indebted = 0, steps_back = 0;
};

class CalendarTrial {
 public:
  // What a sweep has forgotten stays forgotten where the clock steps back, but Redis has it: so a
  // trial has sweeps and several lists, or steps back and one.
  CalendarTrial(uint32_t seed, const ModelKinds& kinds, Weight least, Tally& tally)
      : dice_(seed), kinds_(kinds), least_(least), tally_(tally), steps_back_(dice_(3) == 0) {
    both_.sweeps = !steps_back_;
    for (const char* key : {"a", "b", "c"}) counters_.emplace(key, CalendarCounter(kinds));
    for (int i = steps_back_ ? 1 : 3; i > 0; --i)
      lists_.push_back(random_model_limits(dice_, kinds));
  }

  void run(int steps) {
    for (int step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      if (dice_(3) == 0)
        now_ = sluice::tests::random_later(dice_, kinds_, lists_[dice_(lists_.size())], now_);
      if (steps_back_ && dice_(12) == 0) step_forward_and_back();
      ask_one();
    }
  }

 private:
  // Each counter is charged while the clock is ahead, and again when it is back.
  void step_forward_and_back() {
    const int64_t before = now_;
    now_ = sluice::tests::random_later(dice_, kinds_, lists_[0], now_);
    for (const auto& [key, counter] : counters_) ask(key, lists_[0], Verb::charge, 1 + dice_(3));
    now_ = before;
    for (const auto& [key, counter] : counters_) ask(key, lists_[0], Verb::charge, 1);
    ++tally_.steps_back;
  }
  void ask_one() {
    const std::string key(1, static_cast<char>('a' + dice_(3)));
    const int what = dice_(10);
    ask(key, lists_[dice_(3) == 0 ? dice_(lists_.size()) : 0],
        what == 0   ? Verb::put
        : what == 1 ? Verb::peek
        : what < 4  ? Verb::charge
                    : Verb::take,
        dice_(int64_t{8}));
  }
  void ask(const std::string& key, const List& list, Verb verb, int64_t n) {
    SCOPED_TRACE(key + " " + std::string(name_of(verb)) + " " + std::to_string(n) + " " +
                 list.front().kind + " at " + std::to_string(now_));
    Question question;
    question.add(space_, key, sluice::tests::limits_of(list), both_.spaces, verb, n);
    ASSERT_EQ(both_.ask(question, {now_}, least_), "");
    CalendarCounter& counter = counters_.at(key);
    if (verb == Verb::put) return counter.put(list, n, now_);
    const bool allowed = counter.allows(list, n, now_);
    if (verb == Verb::charge || (verb == Verb::take && allowed)) counter.charge(list, n, now_);
    if (verb == Verb::take) ++(allowed ? tally_.granted : tally_.refused);
    for (size_t i = 0; i < list.size(); ++i) {
      const int64_t used = counter.used(list[i].kind, now_);
      const Decision& its = question.decisions[i];
      ASSERT_EQ(its.remaining, list[i].quota - used) << i;
      ASSERT_EQ(its.reset_after.us, used > 0 ? kinds_.at(list[i].kind).of(now_).end - now_ : 0)
          << i;
      tally_.indebted += its.remaining < 0;
    }
  }

  Dice dice_;
  const ModelKinds& kinds_;
  const Weight least_;
  Tally& tally_;
  const bool steps_back_;
  std::vector<List> lists_;
  std::map<std::string, CalendarCounter> counters_;
  int64_t now_ = 1'795'334'123'000'000;
  Both both_;
  const request::Space& space_ = *both_.spaces.intern("u/", "/x");
};

TEST(RedisCalendars, EveryDecisionIsThatOfAListOfGrants) {
  const ModelKinds kinds = sluice::tests::recorded_kinds();
  Tally tally;
  for (uint32_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    constexpr Weight weights[] = {Weight::light, Weight::full, Weight::wide};
    CalendarTrial(seed, kinds, weights[seed % 3], tally).run(80);
  }
  EXPECT_GT(tally.granted, 500u);
  EXPECT_GT(tally.refused, 300u);
  EXPECT_GT(tally.indebted, 100u);
  EXPECT_GT(tally.steps_back, 50u);
}

}  // namespace
}  // namespace sluice::redis
