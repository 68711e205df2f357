// The token bucket: every short sequence and random ones against a model, each statement of
// limit/token_bucket.h by itself, numbers at the ends of their ranges, and changes of the limit.
#include "limit/token_bucket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "limit/carry_over.h"
#include "testing/bounds_check.h"
#include "tests/support/dice.h"

namespace sluice::limit::token_bucket_test {
namespace {

using bounds_check::text;

constexpr int64_t max64 = INT64_MAX, min64 = INT64_MIN;
constexpr int64_t century = int64_t{100} * 366 * 86'400 * 1'000'000;
constexpr int64_t quota_max = (int64_t{1} << 53) - 1;

struct Subject {
  int64_t quota, window, burst, cost_max = burst;
  Limit limit() const { return {Algorithm::fixed_window, quota, {window}}; }
  Cells zero() const { return Cells(1); }
  Decision ask(const Cells& cells, int64_t cost, int64_t now, Cells& next) const {
    const Outcome out = token_bucket::decide(cells[0], limit(), cost, {now}, burst);
    next[0] = out.next;
    return out.decision;
  }
};

// limit::carry_over of buckets with CarryOver::used; here the bursts are arguments of their own.
State carry_used(const State& state, Limit from, Limit to, Time now, int64_t from_burst,
                 int64_t to_burst) {
  from.algorithm = to.algorithm = Algorithm::token_bucket;
  from.burst = from_burst;
  to.burst = to_burst;
  State next;
  carry_over({&state, 1}, from, to, CarryOver::used, now, {&next, 1});
  return next;
}

// The model: the missing fractions of 1/window unit, as they were at the last call.
struct Naive {
  Wide quota, window, cost_max;
  Wide patience = (cost_max * window - 1) / quota + 1;
  Wide missing = 0, at = 0;

  explicit Naive(const Subject& s) : quota(s.quota), window(s.window), cost_max(s.burst) {}
  Wide capacity() const { return cost_max * window; }
  Wide missing_at(Wide t) const {
    return missing == 0 ? 0 : std::clamp<Wide>(missing - (t - at) * quota, 0, capacity());
  }
  void see(Wide now) {
    missing = missing_at(now);
    at = now;
  }
  Wide room(Wide t) const { return (capacity() - missing_at(t)) / window; }
  bool full(Wide t) const { return missing_at(t) == 0; }
  void take(Wide units, Wide) { missing += units * window; }
  void put(Wide units) { missing = std::max<Wide>(0, missing - units * window); }
};

int64_t bound(const Subject& s, int64_t t) {
  return std::min(s.burst + (t - 1) * s.quota / s.window, s.burst * t);
}

void every_sequence(size_t length, const std::vector<int64_t>& steps,
                    const std::vector<int64_t>& costs) {
  for (const int64_t quota : {1, 2, 5}) {
    for (const int64_t window : {1, 3, 4}) {
      for (const int64_t burst : {1, 3}) {
        const Subject subject{quota, window, burst};
        // Starts below time 0, so that buckets are full again below, at and above 0.
        bounds_check::Sequences<Subject, Naive> all(subject, burst, steps, costs);
        all.run(length, Cells(1), Naive(subject), -2);
        ASSERT_EQ(all.wrong, "") << quota << " per " << window << " burst " << burst;
        EXPECT_GT(all.decisions, 1'000u);
      }
    }
  }
}

TEST(TokenBucket, EverySequenceOfThree) {
  every_sequence(3, {-3, -1, 0, 1, 2}, {0, 1, 2, 4});
}

TEST(TokenBucket, EverySequenceOfFive) {
  every_sequence(5, {-1, 1}, {1, 3});
}

TEST(TokenBucket, TheBoundHoldsAndIsReached) {
  size_t reached = 0;
  for (const int64_t quota : {1, 2, 3, 5}) {
    for (const int64_t window : {1, 2, 3, 5}) {
      for (const int64_t burst : {1, 2, 3}) {
        const Subject subject{quota, window, burst};
        bounds_check::MostAdmitted most(subject, window + 1);
        const bool tight = quota <= (burst - 1) * window + 1 || quota >= burst * window;
        for (int64_t t = 1; t <= 2 * window + 2; ++t) {
          const int64_t found = most.in(t);
          EXPECT_LE(found, bound(subject, t)) << quota << " " << window << " " << burst << " " << t;
          if (!tight) continue;
          EXPECT_EQ(found, bound(subject, t)) << quota << " " << window << " " << burst << " " << t;
          ++reached;
        }
        if (burst == 1 && quota <= window) {
          const int64_t unit_us = (window - 1) / quota + 1;
          EXPECT_EQ(most.in(2 * window), 1 + (2 * window - 1) / unit_us);
        }
      }
    }
  }
  EXPECT_GT(reached, 200u);
}

// The example of docs/algorithms.md.
TEST(TokenBucket, AWorkedExample) {
  // 100 a minute, burst 20: one unit comes back every 0.6 s.
  const Subject subject{100, 60'000'000, 20};
  constexpr int64_t now = 1'800'000'000'000'000;
  Cells cells(1);
  EXPECT_EQ(text(subject.ask(cells, 20, now, cells)), text({true, 20, 0, {12'000'000}, {}}));
  EXPECT_EQ(cells[0], (State{now + 12'000'000, 100}));
  EXPECT_EQ(text(subject.ask(cells, 1, now, cells)), text({false, 20, 0, {12'000'000}, {600'000}}));
  EXPECT_EQ(text(subject.ask(cells, 1, now + 599'999, cells)),
            text({false, 20, 0, {11'400'001}, {1}}));
  EXPECT_EQ(text(subject.ask(cells, 1, now + 600'000, cells)),
            text({true, 20, 0, {12'000'000}, {}}));
  EXPECT_EQ(bound(subject, 60'000'000), 119);
  EXPECT_EQ(bound({100, 60'000'000, 100}, 60'000'000), 199);
  EXPECT_EQ(bound({100, 60'000'000, 100}, 120'000'000), 299);
}

struct Numbers {
  tests::Dice dice;
  int64_t one_of(const std::vector<int64_t>& values) { return values[dice(values.size())]; }
  int64_t units() { return one_of({1, 1, 2, 3, 7, 10, 1000, 999'983, quota_max - 1, quota_max}); }
  int64_t window() {
    return one_of({1, 2, 3, 1000, 999'983, 1'000'000, 3'600'000'000, century - 1, century});
  }
};

TEST(TokenBucket, RandomSequencesMatchTheModel) {
  Numbers random{tests::Dice(20261122)};
  size_t granted = 0, refused = 0, wide = 0;
  for (int round = 0; round < 1'500; ++round) {
    const Subject subject{random.units(), random.window(), random.units()};
    Naive model(subject);
    // A bucket that would take longer to fill than time lasts is tested in AnyNumbersAtAnyTime.
    if (model.patience > (Wide{1} << 61)) continue;
    const int64_t refill = static_cast<int64_t>(model.patience);
    int64_t now =
        random.one_of({0, -1, -refill, 1'795'000'000'000'000, min64, min64 + refill,
                       (int64_t{1} << 61) - 2, max64 - 9 * (refill / 4), max64 - 2 * refill});
    wide += model.capacity() >> 61 != 0;
    Cells state(1);
    for (int i = 0; i < 40; ++i) {
      const int64_t b = subject.burst;
      const int64_t cost = random.one_of({0, 1, 1, 2, b / 3, b / 2, b - 1, b, b + 1, max64});
      if (now > max64 - 2 * refill) break;
      Cells next(1);
      if (random.dice(8) == 0) {
        const Outcome out = token_bucket::put(state[0], subject.limit(), cost, {now}, b);
        model.see(now);
        model.put(cost);
        const Decision expected = bounds_check::ask(model, b, 0, now);
        ASSERT_TRUE(bounds_check::same(out.decision, expected)) << text(out.decision) << "\n"
                                                                << text(expected);
        next[0] = out.next;
      } else {
        const Decision d = subject.ask(state, cost, now, next);
        const Decision expected = bounds_check::ask(model, b, cost, now);
        ASSERT_TRUE(bounds_check::same(d, expected))
            << text(d) << "\n"
            << text(expected) << "\nat " << now << " cost " << cost << " of " << subject.quota
            << " per " << subject.window << " burst " << b;
        ASSERT_EQ(bounds_check::broken(subject, state, cost, now), "")
            << text(d) << " cost " << cost;
        (d.allowed ? granted : refused) += 1;
      }
      ASSERT_LE(next[0].units, subject.quota);
      state = next;
      const Wide step =
          random.one_of({0, 0, 0, 1, -1, refill / 2, refill, refill + 1, -refill, -refill / 3,
                         subject.window, subject.window / subject.quota, random.dice(refill)});
      now = static_cast<int64_t>(std::clamp<Wide>(Wide{now} + step, min64, max64));
    }
  }
  EXPECT_GT(granted, 10'000u);
  EXPECT_GT(refused, 5'000u);
  EXPECT_GT(wide, 50u);
}

// The fast arithmetic (64 bits) and the wide one (128 bits) give the same results.
TEST(TokenBucket, FastAndWideArithmeticAgree) {
  Numbers random{tests::Dice(20261123)};
  for (int round = 0; round < 100'000; ++round) {
    const int64_t quota = 1 + random.dice(random.units());
    const int64_t window = random.window();
    const int64_t burst = 1 + random.dice(random.units());
    const Limit limit{Algorithm::fixed_window, quota, {window}};
    const int64_t now = random.one_of({0, 1'795'000'000'000'000, (int64_t{1} << 61) - 1});
    State state;
    const int64_t ahead = random.one_of({0, 1, window, random.dice(window), max64 - now});
    if (ahead > 0) state = {now + std::min(ahead, max64 - now), 1 + random.dice(quota)};
    const int64_t cost = random.one_of({0, 1, burst / 2, burst, burst + 1, max64});
    const Outcome out = token_bucket::decide(state, limit, cost, {now}, burst);
    const Outcome wide = token_bucket::wide::decide(state, limit, cost, {now}, burst);
    ASSERT_TRUE(bounds_check::same(out.decision, wide.decision)) << text(out.decision) << "\n"
                                                                 << text(wide.decision);
    ASSERT_EQ(out.next, wide.next);
  }
}

// For any numbers at any time, up to the last microsecond, the header's statements hold.
TEST(TokenBucket, AnyNumbersAtAnyTime) {
  Numbers random{tests::Dice(20261124)};
  const std::vector<int64_t> any = {1, 2, 1000, century, quota_max, max64 / 2, max64 - 1, max64};
  const std::vector<int64_t> moments = {
      min64,   min64 + 1, -century,        -1,        0,         1,
      century, max64 / 2, max64 - century, max64 - 2, max64 - 1, max64};
  size_t taken = 0;
  for (int round = 0; round < 10'000; ++round) {
    const Subject subject{random.one_of(any), random.one_of(any), random.one_of(any)};
    Cells state(1);
    for (int i = 0; i < 8; ++i) {
      const int64_t now = random.one_of(moments);
      const int64_t b = subject.burst;
      Cells next(1);
      const int64_t cost = random.one_of({0, 1, b / 2, b, max64});
      const Decision d = subject.ask(state, cost, now, next);
      ASSERT_GE(d.remaining, 0);
      ASSERT_LE(d.remaining, b);
      ASSERT_GE(d.reset_after.us, 0);
      ASSERT_LT(d.reset_after, base::never);
      ASSERT_TRUE(bounds_check::allows(subject, next, d.remaining, now));
      if (d.remaining < max64) {
        ASSERT_FALSE(bounds_check::allows(subject, next, d.remaining + 1, now));
      }
      if (!d.allowed && d.retry_after != base::never) {
        const Wide then = Wide{now} + d.retry_after.us;
        ASSERT_LE(then, max64);
        ASSERT_TRUE(bounds_check::allows(subject, next, cost, then))
            << text(d) << " " << text(next) << "at " << now << " cost " << cost << " of "
            << subject.quota << " per " << subject.window << " burst " << b;
        ASSERT_FALSE(bounds_check::allows(subject, next, cost, then - 1));
      }
      if (d.allowed && cost > 0) {
        ASSERT_GE(next[0].units, 1);
        ASSERT_GT(next[0].fresh_at_us, now);
        ++taken;
      }
      const Outcome put = token_bucket::put(next[0], subject.limit(), cost, {now}, b);
      ASSERT_GE(put.decision.remaining, d.remaining);
      const Subject other{random.one_of(any), random.one_of(any), random.one_of(any)};
      state[0] = carry_used(next[0], subject.limit(), other.limit(), {now}, b, other.burst);
      ASSERT_LE(state[0].units, other.quota);
      state = next;
    }
  }
  EXPECT_GT(taken, 10'000u);
}

auto token_bucket_extremes() {
  const struct {
    const char* what;
    State state;
    Subject subject;
    int64_t cost, now;
    Decision decision;
    State next;
  } table[] = {
      {"the first unit", {}, {3, 100, 5}, 1, 1000, {true, 5, 4, {34}, {}}, {1034, 1}},
      {"cost 0 of a full one", {}, {3, 100, 5}, 0, 1000, {true, 5, 5, {}, {}}, {}},
      {"more than it holds", {}, {3, 100, 5}, 6, 1000, {false, 5, 5, {}, base::never}, {}},
      {"all", {}, {3, 100, 5}, 5, 1000, {true, 5, 0, {167}, {}}, {1167, 2}},
      {"nothing left", {1167, 2}, {3, 100, 5}, 1, 1000, {false, 5, 0, {167}, {34}}, {1167, 2}},
      {"a microsecond too soon",
       {1167, 2},
       {3, 100, 5},
       1,
       1033,
       {false, 5, 0, {134}, {1}},
       {1167, 2}},
      {"in time", {1167, 2}, {3, 100, 5}, 1, 1034, {true, 5, 0, {166}, {}}, {1200, 3}},
      {"cost 0 of an empty one",
       {1167, 2},
       {3, 100, 5},
       0,
       1000,
       {true, 5, 0, {167}, {}},
       {1167, 2}},
      {"all but full", {1167, 2}, {3, 100, 5}, 5, 1166, {false, 5, 4, {1}, {1}}, {1167, 2}},
      {"full", {1167, 2}, {3, 100, 5}, 5, 1167, {true, 5, 0, {167}, {}}, {1334, 2}},
      {"the clock stepped back a little",
       {1034, 1},
       {3, 100, 5},
       0,
       900,
       {true, 5, 1, {134}, {}},
       {1034, 1}},
      {"the clock stepped back far",
       {1034, 1},
       {3, 100, 5},
       1,
       0,
       {false, 5, 0, {167}, {34}},
       {167, 2}},
      {"full at the epoch", {}, {3, 100, 5}, 1, -34, {true, 5, 4, {34}, {}}, {0, 1}},
      {"fresh before the epoch", {}, {3, 100, 5}, 5, -34, {true, 5, 0, {167}, {}}, {133, 2}},
      {"back in a microsecond", {}, {900, 100, 5}, 5, 1000, {true, 5, 0, {1}, {}}, {1001, 500}},
      {"the largest quota over a century",
       {},
       {quota_max, century, quota_max},
       quota_max,
       0,
       {true, quota_max, 0, {century}, {}},
       {century, quota_max}},
      {"the largest cost", {}, {1, 1, 1}, max64, 0, {false, 1, 1, {}, base::never}, {}},
      {"the earliest time", {}, {3, 100, 5}, 5, min64, {true, 5, 0, {167}, {}}, {min64 + 167, 2}},
      {"the clock stepped back through all of time",
       {max64, 3},
       {3, 100, 5},
       1,
       min64,
       {false, 5, 0, {167}, {34}},
       {min64 + 167, 2}},
      // 2^53 - 1 units of which one comes back in a century: 2,915 centuries are left of time.
      {"more than comes back in all of time",
       {},
       {1, century, quota_max},
       2'916,
       max64 - 2'915 * century - 1,
       {false, quota_max, 2'915, {}, base::never},
       {}},
      {"what comes back in all of time",
       {},
       {1, century, quota_max},
       2'915,
       max64 - 2'915 * century - 1,
       {true, quota_max, 0, {2'915 * century}, {}},
       {max64 - 1, 1}},
      {"the last moment", {}, {3, 100, 5}, 1, max64, {false, 5, 0, {}, base::never}, {}},
      {"the last moment, cost 0", {}, {3, 100, 5}, 0, max64, {true, 5, 0, {}, {}}, {}},
  };
  return std::vector(table, std::end(table));
}

TEST(TokenBucket, Extremes) {
  for (const auto& row : token_bucket_extremes()) {
    const Subject& s = row.subject;
    const Outcome out = token_bucket::decide(row.state, s.limit(), row.cost, {row.now}, s.burst);
    EXPECT_EQ(text(out.decision), text(row.decision)) << row.what;
    EXPECT_EQ(out.next, row.next) << row.what << " " << text({out.next});
  }
}

TEST(TokenBucket, APutReturnsUnitsUpToFull) {
  const Limit limit{Algorithm::fixed_window, 3, {100}};
  const State empty{1167, 2};
  const auto put = [&](int64_t units) { return token_bucket::put(empty, limit, units, {1000}, 5); };
  EXPECT_EQ(put(0).next, empty);
  EXPECT_EQ(text(put(2).decision), text({true, 5, 2, {100}, {}}));
  EXPECT_EQ(put(2).next, (State{1100, 3}));
  EXPECT_EQ(text(put(5).decision), text({true, 5, 5, {}, {}}));
  EXPECT_EQ(put(5).next, State{});
  EXPECT_EQ(put(max64).next, State{});
  EXPECT_EQ(token_bucket::put({}, limit, 7, {1000}, 5).next, State{});
}

TEST(TokenBucket, CarryOverKeepsTheUsedUnits) {
  const Limit from{Algorithm::fixed_window, 3, {100}};
  const auto left = [](const State& state, const Limit& limit, int64_t burst, int64_t now) {
    return token_bucket::decide(state, limit, 0, {now}, burst).decision.remaining;
  };
  const State three = token_bucket::decide({}, from, 3, {1000}, 5).next;  // 3 of 5 used
  const auto carried = [&](const Limit& to, int64_t burst) {
    return carry_used(three, from, to, {1000}, 5, burst);
  };
  EXPECT_EQ(carried(from, 5), three);
  const Limit faster{Algorithm::fixed_window, 50, {70}}, slower{Algorithm::fixed_window, 1, {999}};
  EXPECT_EQ(left(carried(faster, 5), faster, 5, 1000), 2);
  EXPECT_EQ(left(carried(slower, 5), slower, 5, 1000), 2);
  EXPECT_EQ(left(carried(faster, 50), faster, 50, 1000), 47);
  EXPECT_EQ(left(carried(faster, 4), faster, 4, 1000), 1);
  EXPECT_EQ(left(carried(faster, 2), faster, 2, 1000), 0);
  EXPECT_EQ(carried(faster, 2), token_bucket::decide({}, faster, 2, {1000}, 2).next);
  EXPECT_EQ(carry_used(three, from, faster, {1100}, 5, 5), State{});
  EXPECT_EQ(carry_used({}, from, faster, {1000}, 5, 5), State{});
  // A third of a unit is missing: 34 of 100 parts become 1 of 2, rounded up.
  const State third = token_bucket::put(three, from, 2, {1022}, 5).next;
  EXPECT_EQ(third, (State{1034, 1}));
  EXPECT_EQ(carry_used(third, from, {Algorithm::fixed_window, 1, {2}}, {1022}, 5, 5),
            (State{1023, 1}));
}

// For any numbers a change gives or takes less than one part of a unit.
TEST(TokenBucket, CarryOverIsExactToTheRoundingOfOnePart) {
  Numbers random{tests::Dice(20261125)};
  for (int round = 0; round < 20'000; ++round) {
    const Subject from{random.units(), random.window(), random.units()};
    const Subject to{random.units(), random.window(), random.units()};
    if (Naive(from).patience > (Wide{1} << 61) || Naive(to).patience > (Wide{1} << 61)) continue;
    const int64_t now = random.one_of({-5, 0, 1'795'000'000'000'000});
    const State state = token_bucket::decide({}, from.limit(), 1 + random.dice(from.burst),
                                             {now - random.dice(1000)}, from.burst)
                            .next;
    const State next = carry_used(state, from.limit(), to.limit(), {now}, from.burst, to.burst);
    const Wide missed = token_bucket::wide::missing(state, from.limit(), from.burst, {now});
    const Wide misses = token_bucket::wide::missing(next, to.limit(), to.burst, {now});
    if (misses == Wide{to.burst} * to.window) {
      ASSERT_GE(missed / from.window + (missed % from.window != 0), to.burst);
      continue;
    }
    // misses = ceil(missed * to.window / from.window), checked without a product beyond 128 bits.
    ASSERT_EQ(misses / to.window - missed / from.window,
              misses % to.window == 0 && missed % from.window != 0 ? 1 : 0);
    if (misses % to.window != 0 || missed % from.window == 0) {
      const Wide exact = missed % from.window * to.window, found = misses % to.window * from.window;
      ASSERT_GE(found, exact);
      ASSERT_LT(found - exact, from.window);
    }
    ASSERT_EQ(carry_used(state, from.limit(), from.limit(), {now}, from.burst, from.burst),
              missed == 0 ? State{} : state);
  }
}

TEST(TokenBucketDeathTest, PreconditionsAreChecked) {
  const auto ask = [](int64_t quota, int64_t window, int64_t burst, int64_t cost) {
    token_bucket::decide({}, Subject{quota, window, burst}.limit(), cost, {}, burst);
  };
  EXPECT_DEATH(ask(1, 1, 1, -1), "cost");
  EXPECT_DEATH(ask(0, 1, 1, 1), "quota");
  EXPECT_DEATH(ask(1, 0, 1, 1), "window");
  EXPECT_DEATH(ask(1, 1, 0, 1), "burst");
  EXPECT_DEATH(token_bucket::put({}, Subject{1, 1, 1}.limit(), -1, {}, 1), "units");
}

}  // namespace
}  // namespace sluice::limit::token_bucket_test
