// The aligned window: every short sequence and random ones against a model that stores all grants,
// each statement of limit/aligned_window.h by itself, and numbers at the ends of their ranges.
#include "limit/aligned_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "testing/bounds_check.h"
#include "tests/support/dice.h"

namespace sluice::limit::aligned_window_test {
namespace {

using bounds_check::text;

constexpr int64_t max64 = INT64_MAX, min64 = INT64_MIN;
constexpr int64_t century = int64_t{100} * 366 * 86'400 * 1'000'000;

struct Subject {
  int64_t quota, window, cost_max = quota;
  Limit limit() const { return {Algorithm::fixed_window, quota, {window}}; }
  Cells zero() const { return Cells(1); }
  Decision ask(const Cells& cells, int64_t cost, int64_t now, Cells& next) const {
    const Outcome out = aligned_window::decide(cells[0], limit(), cost, {now});
    next[0] = out.next;
    return out.decision;
  }
};

// Every grant with the number of its window.
struct Naive {
  Wide cost_max, window, patience = window;
  struct Grant {
    Wide k, units;
  };
  std::vector<Grant> grants = {};

  Wide window_of(Wide t) const { return t / window - (t % window < 0); }
  void see(Wide now) {
    if (now == max64) grants.clear();
    std::erase_if(grants, [&](const Grant& g) { return g.k < window_of(now); });
    for (Grant& g : grants) g.k = std::min(g.k, window_of(now));
  }
  Wide room(Wide t) const {
    Wide left = cost_max;
    if (t >= max64) return left;
    for (const Grant& g : grants) left -= g.k == window_of(t) ? g.units : 0;
    return left;
  }
  bool full(Wide t) const { return room(t) == cost_max; }
  void take(Wide units, Wide now) { grants.push_back({window_of(now), units}); }
};

int64_t bound(int64_t q, int64_t w, int64_t t) {
  return q * ((t + w - 2) / w + 1);
}

void every_sequence(size_t length, const std::vector<int64_t>& steps,
                    const std::vector<int64_t>& costs) {
  for (const int64_t quota : {1, 3}) {
    for (const int64_t window : {1, 2, 3, 4}) {
      // Starts below time 0, so that windows end below, at and above 0.
      bounds_check::Sequences<Subject, Naive> all({quota, window}, quota, steps, costs);
      all.run(length, Cells(1), {quota, window}, -2);
      ASSERT_EQ(all.wrong, "") << "quota " << quota << " window " << window;
      EXPECT_GT(all.decisions, 5'000u);
    }
  }
}

TEST(AlignedWindow, EverySequenceOfThree) {
  every_sequence(3, {-3, -1, 0, 1, 2}, {0, 1, 2, 4});
}

TEST(AlignedWindow, EverySequenceOfFive) {
  every_sequence(5, {-1, 0, 1}, {1, 3});
}

TEST(AlignedWindow, TheBoundIsTheMost) {
  for (const int64_t quota : {1, 2, 3}) {
    for (const int64_t window : {1, 2, 3, 5}) {
      bounds_check::MostAdmitted most(Subject{quota, window}, 2 * window + 1);
      for (int64_t t = 1; t <= 3 * window + 1; ++t)
        EXPECT_EQ(most.in(t), bound(quota, window, t)) << quota << " " << window << " " << t;
    }
  }
}

// The example of docs/algorithms.md.
TEST(AlignedWindow, AWorkedExample) {
  constexpr int64_t second = 1'000'000, noon = 1'800'014'400 * second;
  const Subject subject{100, 60 * second};
  Cells cells(1);
  EXPECT_EQ(text(subject.ask(cells, 70, noon + 45 * second, cells)),
            text({true, 100, 30, {15 * second}, {}}));
  EXPECT_EQ(cells[0], (State{noon + 60 * second, 70}));
  EXPECT_EQ(text(subject.ask(cells, 31, noon + 50 * second, cells)),
            text({false, 100, 30, {10 * second}, {10 * second}}));
  EXPECT_EQ(text(subject.ask(cells, 31, noon + 60 * second, cells)),
            text({true, 100, 69, {60 * second}, {}}));
  EXPECT_EQ(bound(100, 60 * second, 60 * second), 200);
  EXPECT_EQ(bound(100, 60 * second, 120 * second), 300);
}

TEST(AlignedWindow, RandomSequencesMatchTheModel) {
  tests::Dice dice(20261121);
  const auto one_of = [&](const std::vector<int64_t>& values) {
    return values[dice(values.size())];
  };
  size_t granted = 0, refused = 0;
  for (int round = 0; round < 2'000; ++round) {
    const int64_t quota = one_of({1, 2, 3, 10, 1000, (int64_t{1} << 53) - 1, int64_t{1} << 53});
    const int64_t window = one_of({1, 2, 1000, 1'000'000, 3'600'000'000, century - 1, century});
    const Subject subject{quota, window};
    int64_t now = one_of({0, -1, -window, 1'795'000'000'000'000, min64, min64 + window,
                          max64 - 3 * window, max64 - window, max64});
    Cells state(1);
    Naive model{quota, window};
    for (int i = 0; i < 40; ++i) {
      const int64_t cost =
          one_of({0, 1, 1, 1, 2, quota / 3, quota / 2, quota - 1, quota, quota + 1, max64});
      Cells next(1);
      const Decision d = subject.ask(state, cost, now, next);
      const Decision expected = bounds_check::ask(model, quota, cost, now);
      // At max64 every window is over: no wait is left, so `d` may differ from the model.
      ASSERT_TRUE(bounds_check::same(d, expected) || now == max64)
          << text(d) << "\n"
          << text(expected) << "\nat " << now << " window " << window;
      if (now < max64 - window) {
        ASSERT_EQ(bounds_check::broken(subject, state, cost, now), "")
            << text(d) << " cost " << cost;
      }
      (d.allowed ? granted : refused) += 1;
      state = next;
      const Wide step = one_of({0, 0, 0, 1, -1, window - 1, window, window + 1, -window, window / 2,
                                -window / 3, dice(window)});
      now = static_cast<int64_t>(std::clamp<Wide>(Wide{now} + step, min64, max64));
    }
  }
  EXPECT_GT(granted, 10'000u);
  EXPECT_GT(refused, 10'000u);
}

TEST(AlignedWindow, Extremes) {
  constexpr int64_t big = int64_t{1} << 53;
  const struct {
    const char* what;
    State state;
    int64_t quota, window, cost, now;
    Decision decision;
    State next;
  } table[] = {
      {"the first unit", {}, 3, 100, 1, 1030, {true, 3, 2, {70}, {}}, {1100, 1}},
      {"cost 0 takes nothing", {}, 3, 100, 0, 1030, {true, 3, 3, {}, {}}, {}},
      {"more than the quota", {}, 3, 100, 4, 1030, {false, 3, 3, {}, base::never}, {}},
      {"the last unit", {1100, 2}, 3, 100, 1, 1099, {true, 3, 0, {1}, {}}, {1100, 3}},
      {"used up", {1100, 3}, 3, 100, 1, 1099, {false, 3, 0, {1}, {1}}, {1100, 3}},
      {"cost 0 when used up", {1100, 3}, 3, 100, 0, 1099, {true, 3, 0, {1}, {}}, {1100, 3}},
      {"over at its end", {1100, 3}, 3, 100, 3, 1100, {true, 3, 0, {100}, {}}, {1200, 3}},
      {"before the epoch", {}, 3, 100, 1, -1, {true, 3, 2, {1}, {}}, {0, 1}},
      {"a start before the epoch", {}, 3, 100, 1, -100, {true, 3, 2, {100}, {}}, {0, 1}},
      {"a window that ends at 0", {0, 2}, 3, 100, 2, -1, {false, 3, 1, {1}, {1}}, {0, 2}},
      {"a later window's", {1300, 2}, 3, 100, 1, 1030, {true, 3, 0, {70}, {}}, {1100, 3}},
      {"a later window's, refused",
       {1300, 2},
       3,
       100,
       2,
       1030,
       {false, 3, 1, {70}, {70}},
       {1100, 2}},
      {"all of the largest quota", {}, big, 1, big, 0, {true, big, 0, {1}, {}}, {1, big}},
      {"the largest cost", {}, big, 1, max64, 0, {false, big, big, {}, base::never}, {}},
      {"the largest of all",
       {},
       max64,
       max64,
       max64,
       0,
       {true, max64, 0, base::never, {}},
       {max64, max64}},
      {"the earliest time", {}, 3, 100, 1, min64, {true, 3, 2, {8}, {}}, {min64 + 8, 1}},
      {"an end beyond time", {}, 3, 100, 1, max64 - 6, {true, 3, 2, {6}, {}}, {max64, 1}},
      {"the end of time", {max64, 3}, 3, 100, 1, max64, {true, 3, 2, {}, {}}, {max64, 1}},
      {"in debt, after the quota fell",
       {1100, 9},
       3,
       100,
       1,
       1000,
       {false, 3, -6, {100}, {100}},
       {1100, 9}},
  };
  for (const auto& row : table) {
    const Outcome out = aligned_window::decide(row.state, Subject{row.quota, row.window}.limit(),
                                               row.cost, {row.now});
    EXPECT_EQ(text(out.decision), text(row.decision)) << row.what;
    EXPECT_EQ(out.next, row.next) << row.what << " " << text({out.next});
  }
}

TEST(AlignedWindowDeathTest, PreconditionsAreChecked) {
  EXPECT_DEATH(aligned_window::decide({}, Subject{1, 1}.limit(), -1, {}), "cost");
  EXPECT_DEATH(aligned_window::decide({}, Subject{-1, 1}.limit(), 1, {}), "quota");
  EXPECT_DEATH(aligned_window::decide({}, Subject{1, 0}.limit(), 1, {}), "window");
}

}  // namespace
}  // namespace sluice::limit::aligned_window_test
