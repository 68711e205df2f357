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

Decision done(State* whole, const Limit& limit, const Step& step, int64_t now) {
  int64_t charged = 0;
  switch (step.act) {
    case Act::take:
      return debt::decide(whole, limit, step.units, {now});
    case Act::look:
      return debt::peek(whole, limit, {now});
    case Act::charge: {
      const Decision d = debt::charge(whole, limit, step.units, {now}, charged);
      EXPECT_EQ(charged, step.units);
      return d;
    }
    case Act::count:
      return debt::count(whole, limit, step.units, {now});
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
  size_t in_debt = 0, refused_looks = 0;
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
        const Decision d = done(next.data(), limit, step, then);
        const Decision e = expected(its, limit, step, then);
        ASSERT_EQ(text(d), text(e)) << name_of(limit.algorithm) << " " << limit.quota << "/"
                                    << limit.window.us << "/" << limit.burst << path;
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

TEST(Debt, LongRandomSequencesMatchTheModels) {
  tests::Dice dice(20261128);
  size_t in_debt = 0, paid = 0;
  for (int round = 0; round < 3'000; ++round) {
    const auto algorithm =
        static_cast<Algorithm>(static_cast<int>(Algorithm::fixed_window) + dice(6));
    const bool bucket =
        algorithm == Algorithm::token_bucket || algorithm == Algorithm::fixed_bucket;
    const int64_t quota = 1 + dice(int64_t{20}), window = 1 + dice(int64_t{28});
    const Limit limit = algorithm == Algorithm::fixed_bucket
                            ? Limit{algorithm, quota, {}, quota}
                            : Limit{algorithm, quota, {window}, bucket ? 1 + dice(int64_t{20}) : 0};
    auto model = model_of(limit);
    Whole whole{};
    int64_t now = dice(int64_t{100});
    bool was_in_debt = false;
    for (int i = 0; i < 60; ++i) {
      now += dice(8) == 0 ? -dice(int64_t{10}) : dice(int64_t{5});
      Step step{static_cast<Act>(dice(12) == 0 ? 5 : dice(5)), dice(int64_t{7})};
      if (step.act == Act::charge && dice(3) == 0) step.units += dice(int64_t{30});
      const Decision d = done(whole.data(), limit, step, now);
      const Decision e = expected(model, limit, step, now);
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
}

}  // namespace
}  // namespace sluice::limit::debt_test
