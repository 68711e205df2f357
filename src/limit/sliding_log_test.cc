// The sliding log: every short sequence and random ones against a model that stores all grants,
// each statement of limit/sliding_log.h by itself, how runs are merged, and numbers at the ends of
// their ranges.
#include "limit/sliding_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "testing/bounds_check.h"
#include "tests/support/dice.h"

namespace sluice::limit::sliding_log_test {
namespace {

using bounds_check::text;

constexpr int64_t max64 = INT64_MAX, min64 = INT64_MIN;
constexpr int64_t century = int64_t{100} * 366 * 86'400 * 1'000'000;

struct Subject {
  int64_t quota, window, cost_max = quota;
  Limit limit() const { return {Algorithm::fixed_window, quota, {window}}; }
  Cells zero() const { return Cells(sliding_log::cells(limit())); }
  Decision ask(const Cells& cells, int64_t cost, int64_t now, Cells& next) const {
    return sliding_log::decide(cells, limit(), cost, {now}, next);
  }
};

// Every grant with the time from which it no longer counts.
struct Naive {
  Wide cost_max, window, patience = window;
  struct Grant {
    Wide end, units;
  };
  std::vector<Grant> grants = {};

  Wide end_of(Wide now) const { return std::min<Wide>(now + window, max64); }
  void see(Wide now) {
    std::erase_if(grants, [&](const Grant& g) { return g.end <= now; });
    for (Grant& g : grants) g.end = std::min(g.end, end_of(now));
  }
  Wide room(Wide t) const {
    Wide left = cost_max;
    for (const Grant& g : grants) left -= g.end > t ? g.units : 0;
    return left;
  }
  bool full(Wide t) const { return room(t) == cost_max; }
  void take(Wide units, Wide now) { grants.push_back({end_of(now), units}); }
};

int64_t bound(int64_t q, int64_t w, int64_t t) {
  return q * ((t - 1) / w + 1);
}

void every_sequence(size_t length, const std::vector<int64_t>& steps,
                    const std::vector<int64_t>& costs) {
  for (const int64_t quota : {1, 3}) {
    for (const int64_t window : {1, 2, 3, 4}) {
      // Starts below time 0, so that runs end below, at and above 0.
      const Subject subject{quota, window};
      bounds_check::Sequences<Subject, Naive> all(subject, quota, steps, costs);
      all.run(length, subject.zero(), {quota, window}, -2);
      ASSERT_EQ(all.wrong, "") << "quota " << quota << " window " << window;
      EXPECT_GT(all.decisions, 500u);
    }
  }
}

TEST(SlidingLog, EverySequenceOfThree) {
  every_sequence(3, {-3, -1, 0, 1, 2}, {0, 1, 2, 4});
}

TEST(SlidingLog, EverySequenceOfFive) {
  every_sequence(5, {-1, 0, 1}, {1, 2});
}

TEST(SlidingLog, EveryForwardSequenceOfEight) {
  every_sequence(8, {0, 1}, {1});
  every_sequence(8, {1, 3}, {2});
}

TEST(SlidingLog, TheBoundIsTheMost) {
  for (const int64_t quota : {1, 2, 3, 4}) {
    for (const int64_t window : {1, 2, 3, 4}) {
      bounds_check::MostAdmitted most(Subject{quota, window}, window + 2);
      for (int64_t t = 1; t <= 2 * window + 2; ++t)
        EXPECT_EQ(most.in(t), bound(quota, window, t)) << quota << " " << window << " " << t;
    }
  }
}

// The example of docs/algorithms.md.
TEST(SlidingLog, AWorkedExample) {
  constexpr int64_t second = 1'000'000, now = 1'800'000'000 * second;
  const Subject subject{5, 60 * second};
  Cells cells = subject.zero();
  subject.ask(cells, 2, now, cells);
  subject.ask(cells, 1, now + 10 * second, cells);
  Decision d = subject.ask(cells, 2, now + 50 * second, cells);
  EXPECT_EQ(text(d), text({true, 5, 0, {60 * second}, {}}));
  EXPECT_EQ(
      cells,
      (Cells{{now + 110 * second, 2}, {now + 70 * second, 1}, {now + 60 * second, 2}, {}, {}}));
  d = subject.ask(cells, 3, now + 55 * second, cells);
  EXPECT_EQ(text(d), text({false, 5, 0, {55 * second}, {15 * second}}));
  d = subject.ask(cells, 3, now + 70 * second, cells);
  EXPECT_EQ(text(d), text({true, 5, 0, {60 * second}, {}}));
  EXPECT_EQ(bound(100, 60 * second, 60 * second), 100);
  EXPECT_EQ(bound(100, 60 * second, 120 * second), 200);
}

// Takes at 32 different times at most, so that no runs are merged and the log is exact.
TEST(SlidingLog, RandomSequencesMatchTheModel) {
  tests::Dice dice(20261128);
  const auto one_of = [&](const std::vector<int64_t>& values) {
    return values[dice(values.size())];
  };
  size_t granted = 0, refused = 0;
  for (int round = 0; round < 1'200; ++round) {
    const int64_t quota = one_of({1, 2, 3, 10, 31, 32, 33, 1000, (int64_t{1} << 53) - 1});
    const int64_t window = one_of({1, 2, 3, 1000, 1'000'000, 3'600'000'000, century - 1, century});
    const Subject subject{quota, window};
    int64_t now = one_of({0, -1, -window, 1'795'000'000'000'000, min64, min64 + window,
                          max64 - 3 * window, max64 - window, max64});
    Cells state = subject.zero();
    Naive model{quota, window};
    for (int i = 0; i < 32; ++i) {
      const int64_t cost =
          one_of({0, 1, 1, 1, 2, quota / 30, quota / 3, quota - 1, quota, quota + 1, max64});
      Cells next = subject.zero();
      const Decision d = subject.ask(state, cost, now, next);
      const Decision expected = bounds_check::ask(model, quota, cost, now);
      // At max64 every run has ended: no wait is left, so `d` may differ from the model.
      ASSERT_TRUE(bounds_check::same(d, expected) || now == max64)
          << text(d) << "\n"
          << text(expected) << "\nat " << now << " " << quota << " per " << window;
      if (now < max64 - window) {
        ASSERT_EQ(bounds_check::broken(subject, state, cost, now), "")
            << text(d) << " cost " << cost;
      }
      (d.allowed ? granted : refused) += 1;
      state = next;
      const Wide step = one_of({0, 0, 0, 1, 1, -1, window - 1, window, window + 1, -window,
                                window / 2, window / 30, -window / 3, dice(window)});
      now = static_cast<int64_t>(std::clamp<Wide>(Wide{now} + step, min64, max64));
    }
  }
  EXPECT_GT(granted, 10'000u);
  EXPECT_GT(refused, 10'000u);
}

int64_t in_use(const Naive& model, Wide now) {
  return static_cast<int64_t>(model.cost_max - model.room(now));
}

// Takes at more times than there are cells: a unit never stops counting before its window is over,
// and counts for less than a slot longer. The other statements hold as before.
TEST(SlidingLog, MergedRunsCountLongerByLessThanASlotsTime) {
  tests::Dice dice(20261129);
  const auto one_of = [&](const std::vector<int64_t>& values) {
    return values[dice(values.size())];
  };
  size_t longer = 0, granted = 0;
  for (int round = 0; round < 150; ++round) {
    const int64_t quota = one_of({33, 50, 1000, 1'000'000'000, (int64_t{1} << 53) - 1});
    const int64_t window = one_of({33, 100, 1000, 1'000'003, 3'600'000'000, century});
    const Subject subject{quota, window};
    // Runs end below and above 0 as well.
    int64_t now = one_of({0, -3 * window, 1'795'000'000'000'000, min64});
    Cells state = subject.zero();
    Naive exact{quota, window}, longest{quota, window + sliding_log::slot_us(window) - 1};
    const int64_t pace = one_of({window / 33, window / 100 + 1, window / 1000 + 1, 1});
    for (int i = 0; i < 150; ++i) {
      const int64_t cost = one_of({1, 1, 1, 2, dice(quota / 30 + 1), dice(quota / 10 + 1)});
      Cells next = subject.zero();
      const Decision d = subject.ask(state, cost, now, next);
      exact.see(now);
      longest.see(now);
      if (d.allowed && cost > 0) {
        exact.take(cost, now);
        longest.take(cost, now);
        ++granted;
      }
      const int64_t used = quota - d.remaining;
      ASSERT_GE(used, in_use(exact, now));
      ASSERT_LE(used, in_use(longest, now));
      ASSERT_LE(in_use(exact, now), quota);
      ASSERT_EQ(bounds_check::broken(subject, state, cost, now), "");
      ASSERT_GE(d.reset_after.us, d.allowed && cost > 0 ? window : 0);
      longer += used > in_use(exact, now);
      for (size_t c = 1; c < next.size() && next[c].units > 0; ++c)
        ASSERT_LT(next[c].fresh_at_us, next[c - 1].fresh_at_us);
      state = next;
      now += dice(2 * pace) + (dice(50) == 0 ? dice(window) : 0);
    }
  }
  EXPECT_GT(longer, 200u);
  EXPECT_GT(granted, 10'000u);
}

// A client keeps the cells full and always makes the newest pair merge, so a unit might be moved on
// with it for ever: it must stay in its slot.
TEST(SlidingLog, MergingDoesNotExtendTheLifeOfAUnit) {
  for (const int64_t heavy : {1, 10, 1'000'000}) {
    const Subject subject{int64_t{1} << 40, 31'000};
    Cells state = subject.zero();
    int64_t now = 0;
    for (int i = 0; i < 31; ++i) subject.ask(state, heavy, now += 10, state);
    // From here on a unit each microsecond: merging the newest pair loses least.
    subject.ask(state, 1, now += 10, state);
    const int64_t first = now;
    for (int i = 0; i < 40'000; ++i) {
      const Decision d = subject.ask(state, 1, ++now, state);
      ASSERT_LE((int64_t{1} << 40) - d.remaining, std::min<int64_t>(now - first + 1, 31'000 + 999) +
                                                      (now < 310 + 31'000 + 999 ? 31 * heavy : 0));
    }
  }
}

TEST(SlidingLog, TheThirtyThirdTimeMergesThePairThatLosesLeast) {
  const Subject subject{1000, 31'000};  // slots of 1000 us
  const auto fill = [&](int64_t light_at) {
    Cells state = subject.zero();
    for (int64_t i = 0; i < 32; ++i) {
      // Two runs in each slot, the second 100 us later.
      subject.ask(state, i == light_at ? 1 : 10, i / 2 * 1000 + i % 2 * 100, state);
    }
    return state;
  };
  Cells state = fill(99), next = subject.zero();
  EXPECT_EQ(subject.ask(state, 5, 16'000, next).remaining, 1000 - 320 - 5);
  EXPECT_EQ(next[0], (State{47'000, 5}));
  EXPECT_EQ(next[30], (State{32'000, 10}));
  EXPECT_EQ(next[31], (State{31'100, 20})) << "the oldest of equals";
  // A light run that is older than the other run of its slot.
  state = fill(6);
  subject.ask(state, 5, 16'000, next);
  EXPECT_EQ(next[31], (State{31'000, 10}));
  EXPECT_EQ(std::count(next.begin(), next.end(), State{34'100, 11}), 1);
  // A light run that is newer: the merge would move the older, heavy run, so this pair loses as
  // much as any other.
  state = fill(7);
  subject.ask(state, 5, 16'000, next);
  EXPECT_EQ(next[31], (State{31'100, 20}));
  // A take in the same microsecond needs no new run, and expired runs make room.
  state = fill(99);
  subject.ask(state, 5, 15'100, next);
  EXPECT_EQ(next[0], (State{46'100, 15}));
  EXPECT_EQ(next[31], (State{31'000, 10}));
  subject.ask(state, 5, 31'000, next);
  EXPECT_EQ(next[31], (State{31'100, 10}));
}

TEST(SlidingLog, NoSlotSpansZero) {
  Cells runs{{1'500, 9}, {1'400, 9}, {10, 1}, {-10, 1}, {-1'001, 1}};
  sliding_log::merge_pair(runs, 31'000);
  EXPECT_EQ(runs[0], (State{1'500, 18})) << text(runs);
  // The pair in the slot that ends at 0 loses less.
  runs = {{1'500, 999}, {1'400, 999}, {-10, 1}, {-999, 1}};
  sliding_log::merge_pair(runs, 31'000);
  EXPECT_EQ(runs[2], (State{-10, 2}));
}

TEST(SlidingLog, Cells) {
  EXPECT_EQ(sliding_log::cells(Subject{1, 1}.limit()), 1u);
  EXPECT_EQ(sliding_log::cells(Subject{31, 1}.limit()), 31u);
  EXPECT_EQ(sliding_log::cells(Subject{32, 1}.limit()), 32u);
  EXPECT_EQ(sliding_log::cells(Subject{33, 1}.limit()), 32u);
  EXPECT_EQ(sliding_log::cells(Subject{max64, 1}.limit()), 32u);
  // 32 slots cover any window, and no slot is longer than needed.
  for (int64_t window = 1; window < 5'000; ++window) {
    const int64_t slot = sliding_log::slot_us(window);
    EXPECT_GE(slot * 31, window);
    EXPECT_LT((slot - 1) * 31, window);
  }
  EXPECT_GT(sliding_log::slot_us(max64), max64 / 31);
}

auto sliding_log_extremes() {
  constexpr int64_t big = int64_t{1} << 53;
  const struct {
    const char* what;
    Cells state;
    int64_t quota, window, cost, now;
    Decision decision;
    Cells next;
  } table[] = {
      {"the first unit", {}, 3, 100, 1, 1000, {true, 3, 2, {100}, {}}, {{1100, 1}}},
      {"cost 0 takes nothing", {}, 3, 100, 0, 1000, {true, 3, 3, {}, {}}, {}},
      {"more than the quota", {}, 3, 100, 4, 1000, {false, 3, 3, {}, base::never}, {}},
      {"in the same microsecond",
       {{1100, 1}},
       3,
       100,
       2,
       1000,
       {true, 3, 0, {100}, {}},
       {{1100, 3}}},
      {"newest first",
       {{1100, 1}},
       3,
       100,
       1,
       1001,
       {true, 3, 1, {100}, {}},
       {{1101, 1}, {1100, 1}}},
      {"used up",
       {{1150, 2}, {1100, 1}},
       3,
       100,
       1,
       1099,
       {false, 3, 0, {51}, {1}},
       {{1150, 2}, {1100, 1}}},
      {"used up, for all",
       {{1150, 2}, {1100, 1}},
       3,
       100,
       2,
       1099,
       {false, 3, 0, {51}, {51}},
       {{1150, 2}, {1100, 1}}},
      {"one has ended",
       {{1150, 2}, {1100, 1}},
       3,
       100,
       1,
       1100,
       {true, 3, 0, {100}, {}},
       {{1200, 1}, {1150, 2}}},
      {"all have ended", {{1150, 2}, {1100, 1}}, 3, 100, 0, 1150, {true, 3, 3, {}, {}}, {}},
      {"an end at 0", {{0, 2}}, 3, 100, 2, -1, {false, 3, 1, {1}, {1}}, {{0, 2}}},
      {"the clock stepped back: both are of now",
       {{1150, 1}, {1120, 1}},
       3,
       100,
       1,
       1000,
       {true, 3, 0, {100}, {}},
       {{1100, 3}}},
      {"the clock stepped back, refused",
       {{1150, 1}, {1120, 1}, {1090, 1}},
       3,
       100,
       2,
       1000,
       {false, 3, 0, {100}, {100}},
       {{1100, 2}, {1090, 1}}},
      {"the largest of all",
       {},
       max64,
       max64,
       max64,
       0,
       {true, max64, 0, base::never, {}},
       {{max64, max64}}},
      {"the largest cost", {}, big, 1, max64, 0, {false, big, big, {}, base::never}, {}},
      {"the earliest time", {}, 3, 100, 1, min64, {true, 3, 2, {100}, {}}, {{min64 + 100, 1}}},
      {"ends beyond time are one",
       {{max64, 1}, {max64 - 1, 1}},
       3,
       100,
       1,
       max64 - 50,
       {true, 3, 0, {50}, {}},
       {{max64, 2}, {max64 - 1, 1}}},
      {"the end of time", {{max64, 3}}, 3, 100, 1, max64, {true, 3, 2, {}, {}}, {{max64, 1}}},
      {"in debt, after the quota fell",
       {{1100, 5}, {1050, 4}},
       3,
       100,
       1,
       1000,
       {false, 3, -6, {100}, {100}},
       {{1100, 5}, {1050, 4}}},
  };
  return std::vector(table, std::end(table));
}

TEST(SlidingLog, Extremes) {
  for (const auto& row : sliding_log_extremes()) {
    const Subject subject{row.quota, row.window};
    Cells state = row.state, next = subject.zero(), expected = row.next;
    state.resize(next.size());
    expected.resize(next.size());
    const Decision d = subject.ask(state, row.cost, row.now, next);
    EXPECT_EQ(text(d), text(row.decision)) << row.what;
    EXPECT_EQ(next, expected) << row.what << " " << text(next);
    subject.ask(state, row.cost, row.now, state);
    EXPECT_EQ(state, expected) << row.what << ", in place";
  }
}

// The longest window possible, at both ends of time, with all cells in use.
TEST(SlidingLog, MergesAtTheEndsOfTime) {
  for (const int64_t window : {int64_t{1'000}, century, max64}) {
    for (const int64_t start : {min64, int64_t{-500}, max64 - 900}) {
      const Subject subject{max64, window};
      Cells state = subject.zero();
      for (int64_t i = 0; i < 200; ++i) {
        const Decision d = subject.ask(state, max64 / 300, start + i * 4, state);
        ASSERT_TRUE(d.allowed);
        ASSERT_EQ(d.remaining, max64 - (i + 1) * (max64 / 300));
      }
    }
  }
}

TEST(SlidingLogDeathTest, PreconditionsAreChecked) {
  Cells one(1), two(2);
  EXPECT_DEATH((Subject{1, 1}.ask(one, -1, 0, one)), "cost");
  EXPECT_DEATH((Subject{0, 1}.ask(one, 1, 0, one)), "quota");
  EXPECT_DEATH((Subject{1, 0}.ask(one, 1, 0, one)), "window");
  EXPECT_DEATH((Subject{1, 1}.ask(two, 1, 0, one)), "size");
  EXPECT_DEATH((Subject{1, 1}.ask(one, 1, 0, two)), "size");
}

}  // namespace
}  // namespace sluice::limit::sliding_log_test
