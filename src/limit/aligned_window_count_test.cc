// aligned_window::count, which charges refused requests too: against an exact model that stores
// every cost with the number of its window. Short sequences are tried exhaustively, large numbers
// at random.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "limit/aligned_window.h"
#include "limit/carry_over.h"
#include "limit/debt.h"
#include "limit/decide.h"
#include "limit/wide.h"
#include "testing/bounds_check.h"
#include "tests/support/dice.h"

namespace sluice::limit::aligned_window_count_test {
namespace {

using bounds_check::text;

constexpr int64_t counted_max = aligned_window::counted_max;
constexpr int64_t century = int64_t{100} * 366 * 86'400 * 1'000'000;

Limit limit_of(int64_t quota, int64_t window) {
  return {Algorithm::aligned_window, quota, {window}};
}

Decision counted(State& state, const Limit& limit, int64_t cost, Time now) {
  int64_t unused = 0;
  return debt::count(&state, limit, cost, now, Overdrafts::none, unused);
}

struct Model {
  Wide quota, window;
  struct Cost {
    Wide k, units;
  };
  std::vector<Cost> costs = {};

  Wide window_of(Wide t) const { return t / window - (t % window < 0); }
  // Forgets the windows that are over. After the clock stepped back, a window that has not begun
  // becomes the present one.
  Wide used(Wide now) {
    std::erase_if(costs, [&](const Cost& c) { return c.k < window_of(now); });
    Wide sum = 0;
    for (Cost& c : costs) {
      c.k = std::min(c.k, window_of(now));
      sum += c.units;
    }
    return std::min<Wide>(sum, counted_max);
  }
  Decision count(Wide cost, Wide now) {
    const Wide before = used(now);
    if (cost > 0) costs.push_back({window_of(now), std::min<Wide>(cost, counted_max - before)});
    const Wide all = before + cost;
    const Wide kept = std::min<Wide>(all, counted_max);
    const auto to_end = static_cast<int64_t>((window_of(now) + 1) * window - now);
    Decision d;
    d.allowed = all <= quota;
    d.limit = static_cast<int64_t>(quota);
    d.remaining = static_cast<int64_t>(quota - kept);
    d.reset_after = {kept > 0 ? to_end : 0};
    if (!d.allowed) d.retry_after = cost > quota ? base::never : Duration{to_end};
    return d;
  }
  Decision put(Wide units, Wide now) {
    Wide left = std::max<Wide>(0, used(now) - units);
    costs.clear();
    if (left > 0) costs.push_back({window_of(now), left});
    Decision d = count(0, now);
    d.allowed = true;
    d.retry_after = {};
    return d;
  }
  Decision peek(Wide now) const { return Model(*this).put(0, now); }
};

TEST(CountingPastTheLimit, EverySequenceOfFourMatchesTheModel) {
  const std::vector<int64_t> steps = {-3, 0, 1, 2}, costs = {0, 1, 2, 5};
  size_t over = 0, within = 0;
  for (const int64_t quota : {0, 1, 3}) {
    for (const int64_t window : {1, 2, 3}) {
      const Limit limit = limit_of(quota, window);
      const size_t choices = steps.size() * costs.size();
      for (size_t sequence = 0; sequence < choices * choices * choices * choices; ++sequence) {
        Model model{quota, window};
        State state;
        int64_t now = -2;
        std::string path;
        for (size_t rest = sequence, i = 0; i < 4; ++i, rest /= choices) {
          now += steps[rest % choices / costs.size()];
          const int64_t cost = costs[rest % costs.size()];
          path += std::to_string(cost) + "@" + std::to_string(now) + " ";
          const Decision d = counted(state, limit, cost, {now});
          ASSERT_EQ(text(d), text(model.count(cost, now)))
              << path << "quota " << quota << " window " << window;
          ASSERT_EQ(text(peek(&state, limit, {now})), text(model.peek(now))) << path;
          ++(d.allowed ? within : over);
        }
      }
    }
  }
  EXPECT_GT(over, 100'000u);
  EXPECT_GT(within, 100'000u);
}

TEST(CountingPastTheLimit, RandomCostsPutsAndPeeksMatchTheModel) {
  tests::Dice dice(20261123);
  const auto one_of = [&](const std::vector<int64_t>& values) {
    return values[dice(values.size())];
  };
  size_t over = 0, within = 0, full = 0;
  for (int round = 0; round < 4'000; ++round) {
    const int64_t quota = one_of({0, 1, 2, 10, 1000, UINT32_MAX, counted_max});
    const int64_t window = one_of({1, 2, 1'000'000, 3'600'000'000, century});
    const Limit limit = limit_of(quota, window);
    int64_t now = one_of({0, -1, 1'795'000'000'000'000, -50 * century, -window});
    Model model{quota, window};
    State state;
    for (int i = 0; i < 40; ++i) {
      const int64_t units = one_of(
          {0, 1, 1, 2, quota / 2, quota, quota + 1, counted_max, counted_max - quota, INT64_MAX});
      Decision d, expected;
      const size_t verb = dice(size_t{8});
      if (verb == 0) {
        d = put(&state, limit, units, false, {now}, &state);
        expected = model.put(units, now);
      } else if (verb == 1) {
        d = peek(&state, limit, {now});
        expected = model.peek(now);
      } else {
        d = counted(state, limit, units, {now});
        expected = model.count(units, now);
        ++(d.allowed ? within : over);
      }
      ASSERT_EQ(text(d), text(expected)) << "verb " << verb << " units " << units << " now " << now;
      ASSERT_LE(state.units, counted_max);
      full += state.units == counted_max ? 1 : 0;
      now += one_of({0, 0, 0, 1, -1, window - 1, window, window + 1, -window, window / 2});
    }
  }
  EXPECT_GT(over, 10'000u);
  EXPECT_GT(within, 10'000u);
  EXPECT_GT(full, 1'000u);
}

// The header's bound: what is allowed in any interval. Refused costs are charged as well.
TEST(CountingPastTheLimit, AllowsWithinAnIntervalNoMoreThanTakingDoes) {
  tests::Dice dice(7);
  for (int round = 0; round < 20'000; ++round) {
    const int64_t quota = dice(int64_t{4}), window = 1 + dice(int64_t{4});
    const Limit limit = limit_of(quota, window);
    State state;
    std::vector<std::pair<int64_t, int64_t>> allowed;  // at which time, how many units
    int64_t now = dice(int64_t{5});
    for (int i = 0; i < 12; ++i) {
      now += dice(int64_t{3});
      const int64_t cost = dice(int64_t{3});
      if (counted(state, limit, cost, {now}).allowed) allowed.emplace_back(now, cost);
    }
    for (int64_t from = 0; from <= now; ++from) {
      for (int64_t length = 1; length <= 3 * window; ++length) {
        int64_t sum = 0;
        for (const auto& [when, units] : allowed)
          sum += when >= from && when < from + length ? units : 0;
        ASSERT_LE(sum, quota * ((length + window - 2) / window + 1));
      }
    }
  }
}

// A reload, an override or a request's own limit may change the quota; the count stays.
TEST(CountingPastTheLimit, AnotherQuotaOfTheWindowKeepsTheCount) {
  const Limit five = limit_of(5, 60), hundred = limit_of(100, 60), other = limit_of(5, 30);
  State state;
  for (int i = 0; i < 8; ++i) counted(state, five, 1, {7});
  EXPECT_EQ(peek(&state, five, {7}).remaining, -3);
  carry_over({&state, 1}, five, hundred, CarryOver::used, {7}, {&state, 1});
  EXPECT_EQ(counted(state, hundred, 1, {8}).remaining, 91);
  carry_over({&state, 1}, hundred, five, CarryOver::used, {9}, {&state, 1});
  EXPECT_EQ(peek(&state, five, {9}).remaining, -4);
  EXPECT_FALSE(counted(state, five, 0, {9}).allowed);
  carry_over({&state, 1}, five, other, CarryOver::used, {9}, {&state, 1});
  EXPECT_EQ(peek(&state, other, {9}).remaining, 5);
}

// A request that fits is refused after one that was too large, as the refused one was charged.
TEST(CountingPastTheLimit, ARefusalIsChargedAndAPeekIsNot) {
  const Limit limit = limit_of(5, 60);
  State state;
  EXPECT_EQ(counted(state, limit, 3, {0}).remaining, 2);
  EXPECT_FALSE(counted(state, limit, 3, {0}).allowed);
  EXPECT_EQ(state.units, 6);
  EXPECT_FALSE(counted(state, limit, 1, {0}).allowed);
  EXPECT_TRUE(peek(&state, limit, {0}).allowed);
  EXPECT_EQ(state.units, 7);
  EXPECT_EQ(put(&state, limit, 3, false, {0}, &state).remaining, 1);
  EXPECT_TRUE(counted(state, limit, 1, {0}).allowed);
}

}  // namespace
}  // namespace sluice::limit::aligned_window_count_test
