// The sliding window of two counters: every short sequence and random ones against a model that
// stores all grants, each statement of limit/sliding_counters.h by itself, and numbers at the ends
// of their ranges.
#include "limit/sliding_counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "testing/bounds_check.h"
#include "tests/support/dice.h"

namespace sluice::limit::sliding_counters_test {
namespace {

using bounds_check::text;

constexpr int64_t max64 = INT64_MAX, min64 = INT64_MIN;
constexpr int64_t century = int64_t{100} * 366 * 86'400 * 1'000'000;

struct Subject {
  int64_t quota, window, cost_max = quota;
  Limit limit() const { return {Algorithm::fixed_window, quota, {window}}; }
  Cells zero() const { return Cells(2); }
  Decision ask(const Cells& cells, int64_t cost, int64_t now, Cells& next) const {
    return sliding_counters::decide(cells, limit(), cost, {now}, next);
  }
};

// Every grant with the number of its window.
struct Naive {
  Wide cost_max, window, patience = 2 * window;
  struct Grant {
    Wide k, units;
  };
  std::vector<Grant> grants = {};

  Wide window_of(Wide t) const { return t / window - (t % window < 0); }
  Wide taken_in(Wide k) const {
    Wide sum = 0;
    for (const Grant& g : grants) sum += g.k == k ? g.units : 0;
    return sum;
  }
  void see(Wide now) {
    const Wide k = window_of(now);
    Wide last = k - 2;
    for (const Grant& g : grants) last = std::max(last, g.k);
    if (last == k - 2) grants.clear();  // no grant counts any longer
    for (Grant& g : grants) g.k -= std::max<Wide>(last - k, 0);
  }
  Wide room(Wide t) const {
    const Wide k = window_of(t), to_come = (k + 1) * window - t;
    const Wide weighted = taken_in(k - 1) * to_come;
    return cost_max - taken_in(k) - (weighted / window + (weighted % window != 0));
  }
  bool full(Wide t) const { return taken_in(window_of(t)) == 0 && taken_in(window_of(t) - 1) == 0; }
  void take(Wide units, Wide now) { grants.push_back({window_of(now), units}); }
};

// The sum of the header's bound.
int64_t bound(int64_t q, int64_t w, int64_t t) {
  int64_t sum = q, x = q;
  for (int64_t i = 0; i < (t - 1) / w; ++i) {
    x = q - ((x - 1 + w) / w);
    sum += x;
  }
  const int64_t r = (t - 1) % w;
  return r == 0 ? sum : sum + q - (x * (w - r + 1) + w - 1) / w;
}

void every_sequence(size_t length, const std::vector<int64_t>& steps,
                    const std::vector<int64_t>& costs) {
  for (const int64_t quota : {1, 3}) {
    for (const int64_t window : {1, 2, 3, 4}) {
      // Starts below time 0, so that windows end below, at and above 0.
      bounds_check::Sequences<Subject, Naive> all({quota, window}, quota, steps, costs);
      all.run(length, Cells(2), {quota, window}, -2);
      ASSERT_EQ(all.wrong, "") << "quota " << quota << " window " << window;
      EXPECT_GT(all.decisions, 500u);
    }
  }
}

TEST(SlidingCounters, EverySequenceOfThree) {
  every_sequence(3, {-5, -1, 0, 1, 2}, {0, 1, 2, 4});
}

TEST(SlidingCounters, EverySequenceOfFive) {
  every_sequence(5, {-1, 0, 1}, {1, 2});
}

TEST(SlidingCounters, EveryForwardSequenceOfEight) {
  every_sequence(8, {1, 2}, {1});
  every_sequence(8, {1, 3}, {2});
}

TEST(SlidingCounters, TheBoundIsTheMost) {
  for (const int64_t quota : {1, 2, 3, 4}) {
    for (const int64_t window : {1, 2, 3, 4}) {
      bounds_check::MostAdmitted most(Subject{quota, window}, 2 * window + 1);
      for (int64_t t = 1; t <= 3 * window + 1; ++t) {
        EXPECT_EQ(most.in(t), bound(quota, window, t)) << quota << " " << window << " " << t;
        EXPECT_LE(bound(quota, window, t), quota * (window + t - 1) / window);
      }
    }
  }
}

// The bound that docs/algorithms.md states.
TEST(SlidingCounters, TheBoundOfOneWindow) {
  for (const int64_t quota : {1, 2, 3, 10, 100}) {
    for (const int64_t window : {2, 3, 10, 1000, 60'000'000})
      EXPECT_EQ(bound(quota, window, window), 2 * quota - (2 * quota + window - 1) / window);
  }
  EXPECT_EQ(bound(100, 60'000'000, 60'000'000), 199);
  EXPECT_EQ(bound(100, 60'000'000, 120'000'000), 298);
  EXPECT_EQ(bound(1'000'000, 1'000, 1'000), 1'998'000);
}

// The example of docs/algorithms.md.
TEST(SlidingCounters, AWorkedExample) {
  constexpr int64_t minute = 60'000'000, start = 30'000'000 * minute;
  const Subject subject{100, minute};
  Cells cells(2);
  // 84 units in one minute; 15 s into the next three quarters of them still count.
  subject.ask(cells, 84, start + 1, cells);
  Decision d = subject.ask(cells, 36, start + minute + 15'000'000, cells);
  EXPECT_EQ(text(d), text({true, 100, 1, {105'000'000}, {}}));
  EXPECT_EQ(cells, (Cells{{start + 3 * minute, 36}, {start + 2 * minute, 84}}));
  d = subject.ask(cells, 8, start + minute + 15'000'000, cells);
  EXPECT_EQ(text(d), text({false, 100, 1, {105'000'000}, {5'000'000}}));
  d = subject.ask(cells, 8, start + minute + 20'000'000, cells);
  EXPECT_EQ(text(d), text({true, 100, 0, {100'000'000}, {}}));

  // 199 units within a minute: 100 in the last microsecond of a window, 99 in the last but one of
  // the next.
  cells = Cells(2);
  EXPECT_TRUE(subject.ask(cells, 100, start - 1, cells).allowed);
  EXPECT_EQ(subject.ask(cells, 100, start + minute - 2, cells).remaining, 99);
  EXPECT_TRUE(subject.ask(cells, 99, start + minute - 2, cells).allowed);
}

TEST(SlidingCounters, RandomSequencesMatchTheModel) {
  tests::Dice dice(20261126);
  const auto one_of = [&](const std::vector<int64_t>& values) {
    return values[dice(values.size())];
  };
  size_t granted = 0, refused = 0;
  for (int round = 0; round < 1'200; ++round) {
    const int64_t quota = one_of({1, 2, 3, 10, 1000, 999'983, (int64_t{1} << 53) - 1});
    const int64_t window =
        one_of({1, 2, 3, 1000, 999'983, 1'000'000, 3'600'000'000, century - 1, century});
    const Subject subject{quota, window};
    int64_t now = one_of(
        {0, -1, -window, 1'795'000'000'000'000, min64, min64 + 3 * window, max64 - 20 * window});
    Cells state(2);
    Naive model{quota, window};
    for (int i = 0; i < 40; ++i) {
      // The last windows of time are tested in Extremes.
      if (now > max64 - 3 * window) break;
      const int64_t cost =
          one_of({0, 1, 1, 1, 2, quota / 3, quota / 2, quota - 1, quota, quota + 1, max64});
      Cells next(2);
      const Decision d = subject.ask(state, cost, now, next);
      const Decision expected = bounds_check::ask(model, quota, cost, now);
      ASSERT_TRUE(bounds_check::same(d, expected))
          << text(d) << "\n"
          << text(expected) << "\nat " << now << " " << quota << " per " << window;
      ASSERT_EQ(bounds_check::broken(subject, state, cost, now), "") << text(d) << " cost " << cost;
      (d.allowed ? granted : refused) += 1;
      state = next;
      const Wide step = one_of({0, 0, 0, 1, -1, window - 1, window, window + 1, -window, window / 2,
                                -window / 3, dice(window), dice(window)});
      now = static_cast<int64_t>(std::clamp<Wide>(Wide{now} + step, min64, max64));
    }
  }
  EXPECT_GT(granted, 10'000u);
  EXPECT_GT(refused, 10'000u);
}

auto sliding_counters_extremes() {
  constexpr int64_t big = int64_t{1} << 53;
  const Cells zero(2);
  const struct {
    const char* what;
    Cells state;
    int64_t quota, window, cost, now;
    Decision decision;
    Cells next;
  } table[] = {
      {"the first unit", zero, 3, 100, 1, 1030, {true, 3, 2, {170}, {}}, {{1200, 1}, {1100, 0}}},
      {"cost 0 takes nothing", zero, 3, 100, 0, 1030, {true, 3, 3, {}, {}}, zero},
      {"more than the quota", zero, 3, 100, 4, 1030, {false, 3, 3, {}, base::never}, zero},
      {"used up: one is free in the next window, when a third of the weight is gone",
       {{1200, 3}, {1100, 0}},
       3,
       100,
       1,
       1030,
       {false, 3, 0, {170}, {104}},
       {{1200, 3}, {1100, 0}}},
      {"a microsecond before that",
       {{1200, 3}, {1100, 0}},
       3,
       100,
       1,
       1133,
       {false, 3, 0, {67}, {1}},
       {{1200, 3}, {1100, 0}}},
      {"and then",
       {{1200, 3}, {1100, 0}},
       3,
       100,
       1,
       1134,
       {true, 3, 0, {166}, {}},
       {{1300, 1}, {1200, 3}}},
      {"all of it needs both windows to pass",
       {{1200, 3}, {1100, 0}},
       3,
       100,
       3,
       1030,
       {false, 3, 0, {170}, {170}},
       {{1200, 3}, {1100, 0}}},
      {"fresh at its mark", {{1200, 3}, {1100, 3}}, 3, 100, 0, 1200, {true, 3, 3, {}, {}}, zero},
      {"the earlier window fades: the wait ends in this one",
       {{1300, 1}, {1200, 3}},
       3,
       100,
       1,
       1134,
       {false, 3, 0, {166}, {33}},
       {{1300, 1}, {1200, 3}}},
      {"before the epoch", zero, 3, 100, 1, -1, {true, 3, 2, {101}, {}}, {{100, 1}, {0, 0}}},
      {"a later window's",
       {{1400, 1}, {1300, 2}},
       3,
       100,
       1,
       1050,
       {true, 3, 0, {150}, {}},
       {{1200, 2}, {1100, 2}}},
      {"a later window's, refused",
       {{1400, 1}, {1300, 2}},
       3,
       100,
       2,
       1050,
       {false, 3, 1, {150}, {50}},
       {{1200, 1}, {1100, 2}}},
      {"in debt, after the clock stepped back in a window",
       {{1300, 2}, {1200, 3}},
       3,
       100,
       0,
       1110,
       {false, 3, -2, {190}, {57}},
       {{1300, 2}, {1200, 3}}},
      {"all of the largest quota",
       zero,
       big,
       century,
       big,
       0,
       {true, big, 0, {2 * century}, {}},
       {{2 * century, big}, {century, 0}}},
      {"the largest of both, in the middle",
       {{2 * century, big}, {century, 0}},
       big,
       century,
       big,
       century + century / 2,
       {false, big, big / 2, {century / 2}, {century / 2}},
       {{2 * century, big}, {century, 0}}},
      {"the largest cost", zero, big, 1, max64, 0, {false, big, big, {}, base::never}, zero},
      {"the earliest time",
       zero,
       3,
       100,
       1,
       min64,
       {true, 3, 2, {108}, {}},
       {{min64 + 108, 1}, {min64 + 8, 0}}},
      {"an end beyond time",
       zero,
       3,
       100,
       1,
       max64 - 50,
       {true, 3, 2, {50}, {}},
       {{max64, 1}, {max64 - 7, 0}}},
      {"both ends beyond time",
       {{max64, 3}, {max64, 3}},
       3,
       100,
       1,
       max64 - 5,
       {false, 3, -3, {5}, {5}},
       {{max64, 3}, {max64, 3}}},
      {"the end of time",
       {{max64, 3}, {max64, 3}},
       3,
       100,
       1,
       max64,
       {true, 3, 2, {}, {}},
       {{max64, 1}, {max64, 0}}},
  };
  return std::vector(table, std::end(table));
}

TEST(SlidingCounters, Extremes) {
  for (const auto& row : sliding_counters_extremes()) {
    Cells next(2);
    const Decision d = Subject{row.quota, row.window}.ask(row.state, row.cost, row.now, next);
    EXPECT_EQ(text(d), text(row.decision)) << row.what;
    EXPECT_EQ(next, row.next) << row.what << " " << text(next);
  }
}

// Any state, also one of another limit, is decided in a defined way.
TEST(SlidingCounters, AnyNumbersAtAnyTime) {
  tests::Dice dice(20261127);
  const auto one_of = [&](const std::vector<int64_t>& values) {
    return values[dice(values.size())];
  };
  const std::vector<int64_t> moments = {
      min64,   min64 + 1, -century,        -1,        0,         1,
      century, max64 / 2, max64 - century, max64 - 2, max64 - 1, max64};
  constexpr int64_t most = (int64_t{1} << 53) - 1;
  Cells state(2);
  for (int round = 0; round < 100'000; ++round) {
    const Subject subject{one_of({1, 2, 1000, most}), one_of({1, 2, 1000, century})};
    const int64_t now = one_of(moments), cost = one_of({0, 1, 2, 1000, most, max64});
    const Decision d = subject.ask(state, cost, now, state);
    ASSERT_GE(d.reset_after.us, 0);
    ASSERT_LE(d.reset_after.us, 2 * subject.window);
    ASSERT_GE(d.retry_after.us, 0);
    ASSERT_TRUE(d.retry_after == base::never || d.retry_after.us <= 2 * subject.window);
    ASSERT_EQ(d.retry_after == base::never, cost > subject.quota);
  }
}

TEST(SlidingCountersDeathTest, PreconditionsAreChecked) {
  Cells two(2), one(1);
  EXPECT_DEATH((Subject{1, 1}.ask(two, -1, 0, two)), "cost");
  EXPECT_DEATH((Subject{0, 1}.ask(two, 1, 0, two)), "quota");
  EXPECT_DEATH((Subject{1, 0}.ask(two, 1, 0, two)), "window");
  EXPECT_DEATH((Subject{1, century + 1}.ask(two, 1, 0, two)), "window");
  EXPECT_DEATH((Subject{1, 1}.ask(one, 1, 0, two)), "size");
  EXPECT_DEATH((Subject{1, 1}.ask(two, 1, 0, one)), "size");
}

}  // namespace
}  // namespace sluice::limit::sliding_counters_test
