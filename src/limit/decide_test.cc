// Calls by the name of the algorithm (limit/decide.h): each reaches its own algorithm, and peeks
// and refusals are the same for all of them.
#include "limit/decide.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/support/dice.h"

namespace sluice::limit::decide_test {
namespace {

bool same(const Decision& a, const Decision& b) {
  return a.allowed == b.allowed && a.limit == b.limit && a.remaining == b.remaining &&
         a.reset_after == b.reset_after && a.retry_after == b.retry_after;
}

TEST(Decide, LimitsWithoutACounterHaveNoCells) {
  const Limit unlimited{Algorithm::unlimited, 7, {}}, deny{Algorithm::deny, 7, {}};
  EXPECT_EQ(cells(unlimited), 0u);
  EXPECT_EQ(cells(deny), 0u);
  EXPECT_TRUE(same(decide(nullptr, unlimited, INT64_MAX, {}, nullptr), {true, 7, 7, {}, {}}));
  EXPECT_TRUE(same(decide(nullptr, deny, 0, {}, nullptr), {false, 0, 0, base::never, base::never}));
}

// The decision is also the same if the new state replaces the old one in the same memory.
TEST(Decide, EachAlgorithmDecidesInItsCells) {
  const Duration window{1'000};
  const Limit all[] = {
      {Algorithm::fixed_window, 5, window},      {Algorithm::aligned_window, 5, window},
      {Algorithm::token_bucket, 5, window, 3},   {Algorithm::sliding_window, 5, window},
      {Algorithm::sliding_log, 5, window},       {Algorithm::fixed_bucket, 5, {}, 5},
      {Algorithm::concurrency, 5, window, 1'000}};
  tests::Dice dice(3);
  for (const Limit& limit : all) {
    const size_t count = cells(limit);
    std::vector<State> state(count), direct(count);
    Time now{10'000};
    for (int step = 0; step < 2'000; ++step) {
      now.us += dice(int64_t{400});
      const int64_t cost = dice(int64_t{7});
      Decision expected;
      switch (limit.algorithm) {
        case Algorithm::sliding_window:
          expected = sliding_counters::decide(direct, limit, cost, now, direct);
          break;
        case Algorithm::sliding_log:
          expected = sliding_log::decide(direct, limit, cost, now, direct);
          break;
        case Algorithm::concurrency:
          expected = concurrency::decide(direct, limit, cost, now, direct);
          break;
        default: {
          const Outcome outcome =
              limit.algorithm == Algorithm::fixed_window
                  ? fixed_window::decide(direct[0], limit, cost, now)
              : limit.algorithm == Algorithm::aligned_window
                  ? aligned_window::decide(direct[0], limit, cost, now)
              : limit.algorithm == Algorithm::fixed_bucket
                  ? fixed_bucket::decide(direct[0], limit, cost, now)
                  : token_bucket::decide(direct[0], limit, cost, now, limit.burst);
          expected = outcome.decision;
          direct[0] = outcome.next;
        }
      }
      ASSERT_TRUE(same(decide(state.data(), limit, cost, now, state.data()), expected));
      ASSERT_EQ(state, direct);
    }
  }
}

// The store relies on it: a refusal leaves the same state as a take of cost 0.
TEST(Decide, ARefusalLeavesTheStateThatAPeekLeaves) {
  const Limit all[] = {{Algorithm::fixed_window, 3, {50}},    {Algorithm::aligned_window, 3, {50}},
                       {Algorithm::token_bucket, 3, {50}, 4}, {Algorithm::sliding_window, 3, {50}},
                       {Algorithm::sliding_log, 3, {50}},     {Algorithm::fixed_bucket, 40, {}, 40},
                       {Algorithm::concurrency, 3, {50}, 50}};
  tests::Dice dice(4);
  for (const Limit& limit : all) {
    std::vector<State> state(cells(limit));
    Time now{10'000};
    int refusals = 0;
    for (int step = 0; step < 5'000; ++step) {
      now.us += dice(int64_t{30}) - 3;
      std::vector<State> taken = state, looked = state;
      const Decision take = decide(taken.data(), limit, dice(int64_t{6}), now, taken.data());
      const Decision look = decide(looked.data(), limit, 0, now, looked.data());
      if (!take.allowed) {
        ++refusals;
        ASSERT_EQ(taken, looked);
        ASSERT_EQ(take.remaining, look.remaining);
        ASSERT_EQ(take.reset_after, look.reset_after);
      }
      state = taken;
    }
    EXPECT_GT(refusals, 500);
  }
}

TEST(Peek, IsADecisionOfCost0ThatIsAllowedEvenInDebt) {
  const Limit all[] = {{Algorithm::fixed_window, 3, {50}},    {Algorithm::aligned_window, 3, {50}},
                       {Algorithm::token_bucket, 3, {50}, 4}, {Algorithm::sliding_window, 3, {50}},
                       {Algorithm::sliding_log, 40, {50}},    {Algorithm::fixed_bucket, 3, {}, 3},
                       {Algorithm::concurrency, 3, {50}, 50}};
  tests::Dice dice(5);
  int debts = 0;
  for (const Limit& limit : all) {
    std::vector<State> state(cells(limit));
    Time now{10'000};
    for (int step = 0; step < 5'000; ++step) {
      now.us += dice(int64_t{30}) - 10;
      std::vector<State> next = state;
      Decision expected = decide(state.data(), limit, 0, now, next.data());
      debts += !expected.allowed;
      EXPECT_EQ(expected.allowed, expected.remaining >= 0);
      expected.allowed = true;
      expected.retry_after = {};
      ASSERT_TRUE(same(peek(state.data(), limit, now), expected));
      decide(state.data(), limit, dice(int64_t{6}), now, state.data());
    }
  }
  EXPECT_GT(debts, 0);
}

TEST(Peek, ReportsAlgorithmsWithoutACounter) {
  const Limit unlimited{Algorithm::unlimited, 7, {}}, windowed{Algorithm::unlimited, 7, {50}};
  EXPECT_TRUE(same(peek(nullptr, unlimited, {}), {true, 7, 7, base::never, {}}));
  EXPECT_TRUE(same(peek(nullptr, windowed, {}), {true, 7, 7, {}, {}}));
  EXPECT_TRUE(same(always(unlimited), {true, 7, 7, {}, {}}));
  EXPECT_TRUE(same(peek(nullptr, {Algorithm::deny, 7, {}}, {}), refusal()));
}

}  // namespace
}  // namespace sluice::limit::decide_test
