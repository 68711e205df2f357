// Debt against naive models, which keep what was taken and count it again at each look, microsecond
// by microsecond: every short sequence of small limits, and long random ones. Takes, looks,
// charges, takes that count, puts, resets, and a clock that steps back.
#include "limit/debt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "limit/opened.h"
#include "testing/usage_model.h"
#include "tests/support/dice.h"

namespace sluice::limit::debt_test {
namespace {

using namespace usage_model;

Decision done(State* whole, const Limit& limit, const Step& step, int64_t now, int64_t most_debt,
              int64_t& charged) {
  int64_t counted = 0;
  switch (step.act) {
    case Act::take:
      return debt::decide(whole, limit, step.units, {now});
    case Act::look:
      return debt::peek(whole, limit, {now});
    case Act::charge:
      return debt::charge(whole, limit, step.units, {now}, most_debt, charged);
    case Act::count:
      return debt::count(whole, limit, step.units, {now}, most_debt, counted);
    default:
      return debt::put(whole, limit, step.units, step.act == Act::reset, {now});
  }
}

std::string text(const Decision& d) {
  return std::string(d.allowed ? "allowed" : "refused") + " of " + std::to_string(d.limit) +
         " left " + std::to_string(d.remaining) + " reset " + std::to_string(d.reset_after.us) +
         " retry " + std::to_string(d.retry_after.us);
}

using Whole = std::array<State, limit_cells_max>;

// As a store keeps it: closed and opened again. Without debt it has no cell more.
void keep(Whole& whole, const Limit& limit, bool in_debt) {
  Opened counter({&limit, 1});
  std::copy_n(whole.begin(), debt::whole_cells(limit), counter.whole(0));
  State cells[counter_cells_max];
  const CellCount count = counter.close(cells);
  ASSERT_TRUE(left_out::fits({&limit, 1}, {cells, count.all}));
  if (!in_debt) {
    ASSERT_EQ(count.all, limit::cells(limit));
  }
  Opened again({cells, count.all}, {&limit, 1});
  ASSERT_TRUE(again.left_out().empty());
  ASSERT_TRUE(std::equal(whole.begin(),
                         whole.begin() + static_cast<ptrdiff_t>(debt::whole_cells(limit)),
                         again.whole(0)));
}

struct Sequences {
  const Limit limit;
  const std::vector<Step> steps;
  const std::vector<int64_t> moves;  // of the clock
  size_t length;
  int64_t most_debt = Overdrafts::none;
  size_t in_debt = 0, refused_looks = 0, dropped = 0;
  int64_t worst = 0;  // debt
  std::string path{};

  void go_on(const Whole& whole, const Model& model, int64_t now, size_t depth) {
    if (depth == length || testing::Test::HasFatalFailure()) return;
    for (const int64_t move : moves) {
      for (const Step& step : steps) {
        const int64_t then = now + move;
        const size_t before = path.size();
        path += " " + std::to_string(static_cast<int>(step.act)) + ":" +
                std::to_string(step.units) + "@" + std::to_string(then);
        Whole next = whole;
        auto its = model.copy();
        int64_t charged = 0, its_charged = 0;
        const Decision d = done(next.data(), limit, step, then, most_debt, charged);
        const Decision e = expected(its, limit, step, then, most_debt, its_charged);
        ASSERT_EQ(text(d), text(e)) << name_of(limit.algorithm) << " " << limit.quota << "/"
                                    << limit.window.us << "/" << limit.burst << path;
        ASSERT_EQ(charged, its_charged) << path;
        dropped += step.act == Act::charge && charged < step.units ? 1 : 0;
        worst = std::max(worst, -d.remaining);
        ASSERT_NO_FATAL_FAILURE(keep(next, limit, step.act == Act::look || d.remaining < 0))
            << path;
        in_debt += d.remaining < 0 ? 1 : 0;
        refused_looks += step.act == Act::take && step.units == 0 && !d.allowed ? 1 : 0;
        go_on(next, *its, then, depth + 1);
        if (testing::Test::HasFatalFailure()) return;
        path.resize(before);
      }
    }
  }
};

std::vector<Limit> small_limits() {
  std::vector<Limit> limits;
  for (const int64_t window : {1, 2, 5}) {
    for (const int64_t quota : {1, 3}) {
      limits.push_back({Algorithm::fixed_window, quota, {window}});
      limits.push_back({Algorithm::aligned_window, quota, {window}});
      limits.push_back({Algorithm::sliding_window, quota, {window}});
      limits.push_back({Algorithm::sliding_log, quota, {window}});
      limits.push_back({Algorithm::concurrency, quota, {window}, window});
      limits.push_back({Algorithm::token_bucket, quota, {window}, 2});
    }
  }
  limits.push_back({Algorithm::aligned_window, 0, {3}});
  limits.push_back({Algorithm::fixed_bucket, 2, {}, 2});
  return limits;
}

TEST(Debt, EverySequenceOfThreeMatchesTheModels) {
  size_t in_debt = 0, refused_looks = 0;
  for (const Limit& limit : small_limits()) {
    Sequences all{limit,
                  {{Act::take, 0},
                   {Act::take, 1},
                   {Act::take, 2},
                   {Act::look},
                   {Act::charge, 0},
                   {Act::charge, 1},
                   {Act::charge, 4},
                   {Act::count, 2},
                   {Act::put, 1},
                   {Act::reset}},
                  {-2, 0, 1, 3},
                  3};
    ASSERT_NO_FATAL_FAILURE(all.go_on(Whole{}, *model_of(limit), 0, 0));
    in_debt += all.in_debt;
    refused_looks += all.refused_looks;
  }
  EXPECT_GT(in_debt, 100'000u);
  EXPECT_GT(refused_looks, 10'000u);
}

TEST(Debt, EverySequenceOfFiveActsMatchesTheModels) {
  for (const Limit& limit : small_limits()) {
    Sequences all{
        limit, {{Act::take, 1}, {Act::charge, 3}, {Act::count, 2}, {Act::put, 2}}, {-1, 1, 2}, 5};
    if (limit.window.us == 1) continue;
    ASSERT_NO_FATAL_FAILURE(all.go_on(Whole{}, *model_of(limit), 4, 0));
  }
}

// Without a step back of the clock, which makes units of the past weigh more, no debt is larger.
TEST(Debt, EveryShortSequenceKeepsTheOverdraft) {
  size_t dropped = 0;
  for (const Limit& limit : small_limits()) {
    for (const int64_t most_debt : {0, 1, 3}) {
      Sequences all{limit,
                    {{Act::take, 1}, {Act::charge, 5}, {Act::count, 2}, {Act::put, 2}},
                    {0, 1, 2},
                    4,
                    most_debt};
      ASSERT_NO_FATAL_FAILURE(all.go_on(Whole{}, *model_of(limit), 4, 0));
      EXPECT_LE(all.worst, most_debt) << name_of(limit.algorithm);
      Sequences back{limit,
                     {{Act::take, 0}, {Act::charge, 1}, {Act::charge, 4}, {Act::count, 2}},
                     {-2, 0, 1, 3},
                     3,
                     most_debt};
      ASSERT_NO_FATAL_FAILURE(back.go_on(Whole{}, *model_of(limit), 4, 0));
      dropped += all.dropped + back.dropped;
    }
  }
  EXPECT_GT(dropped, 100'000u);
}

// 0: a charge takes what is left. A bucket keeps the part of a unit that has come back.
TEST(Debt, AnOverdraftOf0TakesWhatIsLeft) {
  const Limit limit{Algorithm::token_bucket, 1, {10}, 3};
  Whole whole{};
  int64_t charged = 0;
  debt::decide(whole.data(), limit, 2, {0});
  const Decision d = debt::charge(whole.data(), limit, 5, {15}, 0, charged);
  EXPECT_EQ(charged, 2);
  EXPECT_EQ(d.remaining, 0);
  EXPECT_EQ(d.retry_after.us, 5);
  EXPECT_TRUE(debt::decide(whole.data(), limit, 0, {15}).allowed);
  EXPECT_EQ(debt::charge(whole.data(), limit, 5, {15}, 0, charged).remaining, 0);
  EXPECT_EQ(charged, 0);
}

// A debt that is larger than a new overdraft stays, and grows no more.
TEST(Debt, ALargerDebtStaysAndIsNotAddedTo) {
  for (const Limit& limit :
       {Limit{Algorithm::fixed_window, 10, {60}}, Limit{Algorithm::aligned_window, 10, {60}},
        Limit{Algorithm::token_bucket, 10, {60}, 10}, Limit{Algorithm::sliding_window, 10, {60}},
        Limit{Algorithm::sliding_log, 10, {60}}, Limit{Algorithm::fixed_bucket, 10, {}, 10},
        Limit{Algorithm::concurrency, 10, {60}, 60}}) {
    Whole whole{};
    int64_t charged = 0;
    debt::charge(whole.data(), limit, 30, {0}, Overdrafts::none, charged);
    EXPECT_EQ(debt::charge(whole.data(), limit, 1, {0}, 5, charged).remaining, -20);
    EXPECT_EQ(charged, 0) << name_of(limit.algorithm);
    debt::count(whole.data(), limit, 7, {0}, 5, charged);
    EXPECT_EQ(charged, 0);
    EXPECT_EQ(debt::put(whole.data(), limit, 16, false, {0}).remaining, -4);
    EXPECT_EQ(debt::charge(whole.data(), limit, 3, {0}, 5, charged).remaining, -5);
    EXPECT_EQ(charged, 1);
  }
}

TEST(Overdrafts, StandForTheLimitOfTheSameKind) {
  const Limit minute{Algorithm::fixed_window, 5, {60}}, hour{Algorithm::fixed_window, 9, {3'600}},
      bucket{Algorithm::token_bucket, 7, {60}, 7};
  Overdrafts all;
  all.add(minute, 3);
  all.add(hour, Overdrafts::none);
  all.add(bucket, 8);
  const auto of = [&](const std::vector<Limit>& list, size_t i) { return all.of(list, i); };
  EXPECT_EQ(of({minute, hour, bucket}, 0), 3);
  EXPECT_EQ(of({minute, hour, bucket}, 1), Overdrafts::none);
  EXPECT_EQ(of({bucket, hour}, 0), 8);
  EXPECT_EQ(of({Limit{Algorithm::fixed_window, 50, {60}}}, 0), 3);
  EXPECT_EQ(of({Limit{Algorithm::sliding_log, 50, {60}}}, 0), 8);  // the larger of its window's
  EXPECT_EQ(of({Limit{Algorithm::sliding_log, 50, {7}}}, 0), Overdrafts::none);
  Overdrafts one;
  one.add(minute, 0);
  EXPECT_EQ(one.of({{{Algorithm::sliding_log, 50, {7}}}}, 0), 0);
  EXPECT_TRUE(one.has_any());
}

// The overdraft changes meanwhile, as by reloads and overrides.
TEST(Debt, LongRandomSequencesMatchTheModels) {
  tests::Dice dice(20261128);
  size_t in_debt = 0, paid = 0, dropped = 0;
  for (int round = 0; round < 3'000; ++round) {
    const auto algorithm =
        static_cast<Algorithm>(static_cast<int>(Algorithm::fixed_window) + dice(7));
    const bool bucket =
        algorithm == Algorithm::token_bucket || algorithm == Algorithm::fixed_bucket;
    const int64_t quota = 1 + dice(int64_t{20}), window = 1 + dice(int64_t{28});
    const Limit limit = algorithm == Algorithm::fixed_bucket ? Limit{algorithm, quota, {}, quota}
                        : algorithm == Algorithm::concurrency
                            ? Limit{algorithm, quota, {window}, window}
                            : Limit{algorithm, quota, {window}, bucket ? 1 + dice(int64_t{20}) : 0};
    auto model = model_of(limit);
    Whole whole{};
    int64_t now = dice(int64_t{100});
    bool was_in_debt = false;
    int64_t most_debt = Overdrafts::none;
    for (int i = 0; i < 60; ++i) {
      if (dice(10) == 0) most_debt = dice(3) == 0 ? Overdrafts::none : dice(int64_t{20});
      now += dice(8) == 0 ? -dice(int64_t{10}) : dice(int64_t{5});
      Step step{static_cast<Act>(dice(12) == 0 ? 5 : dice(5)), dice(int64_t{7})};
      if (step.act == Act::charge && dice(3) == 0) step.units += dice(int64_t{30});
      int64_t charged = 0, its_charged = 0;
      const Decision d = done(whole.data(), limit, step, now, most_debt, charged);
      const Decision e = expected(model, limit, step, now, most_debt, its_charged);
      ASSERT_EQ(charged, its_charged);
      dropped += step.act == Act::charge && charged < step.units ? 1 : 0;
      ASSERT_EQ(text(d), text(e)) << name_of(limit.algorithm) << " " << limit.quota << "/"
                                  << limit.window.us << "/" << limit.burst << " round " << round
                                  << " step " << i << " act " << static_cast<int>(step.act) << ":"
                                  << step.units << "@" << now;
      ASSERT_NO_FATAL_FAILURE(keep(whole, limit, step.act == Act::look || d.remaining < 0));
      in_debt += d.remaining < 0 ? 1 : 0;
      paid += was_in_debt && d.remaining >= 0 ? 1 : 0;
      was_in_debt = d.remaining < 0;
    }
  }
  EXPECT_GT(in_debt, 30'000u);
  EXPECT_GT(paid, 5'000u);
  EXPECT_GT(dropped, 2'000u);
}

}  // namespace
}  // namespace sluice::limit::debt_test
