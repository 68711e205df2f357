// Units that are put back, for every algorithm: every sequence of takes and puts of one length
// against a model that stores all grants; random sequences with a clock that steps back and numbers
// of any size for the statements that always hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "limit/decide.h"
#include "testing/bounds_check.h"
#include "tests/support/dice.h"

namespace sluice::limit::put_test {
namespace {

using bounds_check::text;

struct Subject {
  Limit numbers;
  int64_t cost_max;
  explicit Subject(const Limit& limit) : numbers(limit), cost_max(units_max(limit)) {}
  Cells zero() const { return Cells(cells(numbers)); }
  Decision ask(const Cells& state, int64_t cost, int64_t now, Cells& next) const {
    return decide(state.data(), numbers, cost, {now}, next.data());
  }
};

// Every grant that still counts; a put removes the latest ones, or the oldest places. Only for a
// clock that does not step back.
struct Naive {
  Limit limit;
  struct Grant {
    Wide at, units;
  };
  std::vector<Grant> grants = {};
  Wide missing = 0, at = 0;  // of a bucket: units missing, in fractions of 1/window

  Wide window() const { return std::max<Wide>(limit.window.us, 1); }
  Wide most() const { return units_max(limit); }
  Wide window_of(Wide t) const { return t / window(); }  // counted from the epoch

  void see(Wide now) {
    if (limit.algorithm == Algorithm::token_bucket)
      missing = std::max<Wide>(0, missing - (now - at) * limit.quota);
    at = now;
    if (limit.algorithm == Algorithm::fixed_window) {
      if (!grants.empty() && now >= grants[0].at + window()) grants.clear();
    }
    std::erase_if(grants, [&](const Grant& g) {
      switch (limit.algorithm) {
        case Algorithm::aligned_window:
          return window_of(g.at) < window_of(now);
        case Algorithm::sliding_window:
          return window_of(g.at) + 1 < window_of(now);
        case Algorithm::sliding_log:
        case Algorithm::concurrency:
          return g.at + window() <= now;
        default:
          return false;
      }
    });
  }
  bool is_bucket() const { return limit::is_bucket(limit); }
  Wide room() const {
    if (is_bucket()) return (most() * window() - missing) / window();
    Wide used = 0, weighted = 0;
    for (const Grant& g : grants) {
      const bool older =
          limit.algorithm == Algorithm::sliding_window && window_of(g.at) != window_of(at);
      (older ? weighted : used) += g.units;
    }
    weighted *= (window_of(at) + 1) * window() - at;
    return most() - used - (weighted / window() + (weighted % window() != 0));
  }
  bool take(Wide units) {
    if (units > room()) return false;
    if (is_bucket()) missing += units * window();
    if (!is_bucket() && units > 0) grants.push_back({at, units});
    return true;
  }
  void put(Wide units) {
    missing = std::max<Wide>(0, missing - units * window());
    const bool oldest = limit.algorithm == Algorithm::concurrency;
    while (units > 0 && !grants.empty()) {
      const auto grant = oldest ? grants.begin() : grants.end() - 1;
      const Wide part = std::min(units, grant->units);
      units -= part;
      if ((grant->units -= part) == 0) grants.erase(grant);
    }
  }
};

std::string name(const Limit& limit) {
  return std::string(name_of(limit.algorithm)) + " " + std::to_string(limit.quota) + " per " +
         std::to_string(limit.window.us) + " burst " + std::to_string(limit.burst);
}

// The statements that bounds_check.h checks. No time resets a fixed_bucket: its statements are
// checked in fixed_bucket_test.cc.
std::string broken(const Subject& subject, const Cells& state, int64_t cost, int64_t now) {
  if (subject.numbers.algorithm == Algorithm::fixed_bucket) return "";
  return bounds_check::broken(subject, state, cost, now);
}

struct Sequence {
  Subject subject;
  size_t done = 0;
  std::string wrong = "";

  void run(size_t length, const Cells& state, const Naive& model, int64_t now,
           const std::string& path) {
    if (length == 0 || !wrong.empty()) return;
    for (const int64_t step : {0, 1, 3}) {
      for (const int64_t units : {1, 3, -1, -2, -9}) {
        const int64_t then = now + step;
        Naive next_model = model;
        next_model.see(then);
        Cells next = subject.zero();
        Decision d;
        bool allowed = true;
        if (units < 0) {
          d = put(state.data(), subject.numbers, -units, false, {then}, next.data());
          next_model.put(-units);
        } else {
          d = subject.ask(state, units, then, next);
          allowed = next_model.take(units);
        }
        ++done;
        const std::string here = path + std::to_string(units) + "@" + std::to_string(then) + " ";
        if (d.allowed != allowed || d.remaining != next_model.room())
          wrong = here + text(d) + ", expected " +
                  std::to_string(static_cast<int64_t>(next_model.room()));
        if (units < 0 && d.retry_after.us != 0) wrong = here + "a put is to wait";
        if (wrong.empty()) {
          const std::string what = broken(subject, next, 1, then);
          if (!what.empty()) wrong = here + what;
        }
        if (!wrong.empty()) return;
        run(length - 1, next, next_model, then, here);
      }
    }
  }
};

TEST(Put, EverySequenceOfFour) {
  size_t done = 0;
  for (const int64_t quota : {1, 4}) {
    for (const int64_t window : {2, 5}) {
      for (const Limit& limit : {Limit{Algorithm::fixed_window, quota, {window}},
                                 Limit{Algorithm::aligned_window, quota, {window}},
                                 Limit{Algorithm::token_bucket, quota, {window}, 3},
                                 Limit{Algorithm::sliding_window, quota, {window}},
                                 Limit{Algorithm::sliding_log, quota, {window}},
                                 Limit{Algorithm::fixed_bucket, quota, {}, quota},
                                 Limit{Algorithm::concurrency, quota, {window}, window}}) {
        Sequence all{Subject(limit)};
        all.run(4, all.subject.zero(), {limit}, 10, "");
        ASSERT_EQ(all.wrong, "") << name(limit);
        done += all.done;
      }
    }
  }
  EXPECT_GT(done, 500'000u);
}

struct AnyLimit {
  tests::Dice dice;
  int64_t one_of(const std::vector<int64_t>& values) { return values[dice(values.size())]; }
  int64_t units() {
    return one_of({1, 1, 2, 3, 7, 31, 32, 33, 100, 1000, 999'983, (int64_t{1} << 53) - 1});
  }
  Limit operator()() {
    Limit limit{static_cast<Algorithm>(2 + dice(7)), units(), {}};
    if (limit.algorithm == Algorithm::token_bucket) limit.burst = units();
    if (limit.algorithm == Algorithm::fixed_bucket) limit.burst = limit.quota;
    if (limit.algorithm != Algorithm::fixed_bucket)
      limit.window.us = one_of({1, 2, 3, 1000, 999'983, 1'000'000, 3'600'000'000});
    if (limit.algorithm == Algorithm::concurrency) limit.burst = limit.window.us;
    return limit;
  }
};

TEST(Put, KeepsItsBoundsAfterRandomRequests) {
  AnyLimit any{tests::Dice(20261205)};
  size_t puts = 0, partly = 0, debts = 0;
  for (int round = 0; round < 4'000; ++round) {
    const Subject subject(any());
    const Limit& limit = subject.numbers;
    const int64_t most = subject.cost_max, window = std::max<int64_t>(limit.window.us, 1);
    // A bucket that would take longer to fill than time lasts holds less (token_bucket.h).
    if (Wide{most} * window / limit.quota > INT64_MAX / 4) continue;
    int64_t now = any.one_of({0, -5 * window, 1'795'000'000'000'000});
    Cells state = subject.zero();
    for (int i = 0; i < 40; ++i) {
      const int64_t units = any.one_of({0, 1, 1, 2, most / 5, most / 2, most, INT64_MAX});
      if (any.dice(3) != 0) {
        subject.ask(state, units, now, state);
      } else {
        Cells looked = subject.zero(), next = subject.zero();
        const Decision before = subject.ask(state, 0, now, looked);
        const Decision d = put(state.data(), limit, units, false, {now}, next.data());
        ASSERT_TRUE(d.allowed);
        ASSERT_EQ(d.retry_after.us, 0);
        ASSERT_EQ(d.limit, most);
        ASSERT_GE(d.remaining, before.remaining) << name(limit);
        const Wide sum = std::min<Wide>(most, Wide{before.remaining} + units);
        if (limit.algorithm == Algorithm::sliding_window) {
          ASSERT_LE(d.remaining, sum);
        } else {
          ASSERT_EQ(d.remaining, sum) << name(limit) << " " << units << " " << text(before);
        }
        if (units == 0) {
          ASSERT_EQ(next, looked);
        }
        if (units == INT64_MAX) {
          ASSERT_EQ(next, subject.zero());
        }
        if (d.remaining >= 0) {
          ASSERT_TRUE(bounds_check::allows(subject, next, std::min(units, d.remaining), now));
        }
        ASSERT_EQ(broken(subject, next, any.one_of({0, 1, most / 2, most}), now), "")
            << name(limit) << " " << text(next);

        Cells same = state;
        put(same.data(), limit, units, false, {now}, same.data());
        ASSERT_EQ(same, next);
        const Decision all = put(state.data(), limit, units, true, {now}, same.data());
        ASSERT_EQ(same, subject.zero());
        ASSERT_TRUE(all.allowed);
        ASSERT_EQ(all.remaining, most);
        ++puts;
        partly += next != looked && next != subject.zero();
        debts += d.remaining < 0;
        state = next;
      }
      now += any.one_of(
          {0, 0, 1, -1, window / 3, -window / 3, window, -window, 2 * window, any.dice(window)});
    }
  }
  EXPECT_GT(puts, 40'000u);
  EXPECT_GT(partly, 3'000u);
  EXPECT_GT(debts, 0u);
}

// Nothing overflows up to the last microseconds of time, and a put never lowers what is left.
TEST(Put, KeepsItsBoundsAtTheEndsOfTime) {
  AnyLimit any{tests::Dice(20261206)};
  const std::vector<int64_t> moments = {INT64_MIN, INT64_MIN + 1, -1,       0,
                                        1,         INT64_MAX - 1, INT64_MAX};
  for (int round = 0; round < 20'000; ++round) {
    const Subject subject(any());
    Cells state = subject.zero();
    for (int i = 0; i < 6; ++i) {
      const int64_t now = any.one_of(moments), units = any.one_of({0, 1, subject.cost_max});
      const int64_t before = bounds_check::remaining(subject, state, now);
      Cells next = subject.zero();
      const Decision d = put(state.data(), subject.numbers, units, false, {now}, next.data());
      ASSERT_GE(d.remaining, before);
      ASSERT_EQ(d.remaining, bounds_check::remaining(subject, next, now));
      subject.ask(state, units, now, state);
    }
  }
}

TEST(Put, WithoutACounter) {
  const Limit unlimited{Algorithm::unlimited, 7, {}}, deny{Algorithm::deny, 7, {}};
  for (const bool all : {false, true}) {
    EXPECT_EQ(text(put(nullptr, unlimited, 3, all, {}, nullptr)), text(always(unlimited)));
    EXPECT_EQ(text(put(nullptr, deny, 3, all, {}, nullptr)), text(refusal()));
  }
}

// A put is taken from the newer of the two windows first: here 84 units a minute ago and 10 now, of
// 100.
TEST(Put, ReturnsUnitsToTheNewerWindowFirst) {
  const Limit limit{Algorithm::sliding_window, 100, {60}};
  Cells state(2), next(2);
  decide(state.data(), limit, 84, {0}, state.data());
  decide(state.data(), limit, 10, {75}, state.data());  // 84 * 45 / 60 = 63 of them count
  EXPECT_EQ(put(state.data(), limit, 4, false, {75}, next.data()).remaining, 31);
  EXPECT_EQ(put(state.data(), limit, 10, false, {75}, next.data()).remaining, 37);
  // 80 units of the older window are left, of which 60 count.
  EXPECT_EQ(put(state.data(), limit, 14, false, {75}, next.data()).remaining, 40);
  EXPECT_EQ(next, (Cells{{120, 80}, {60, 0}}));
  EXPECT_EQ(put(state.data(), limit, 93, false, {75}, next.data()).remaining, 99);
  EXPECT_EQ(put(state.data(), limit, 94, false, {75}, next.data()).remaining, 100);
  EXPECT_EQ(next, Cells(2));
}

TEST(PutDeathTest, PreconditionsAreChecked) {
  for (int i = 2; i < 9; ++i) {
    const Limit limit{static_cast<Algorithm>(i), 1, {1}, 1};
    std::vector<State> cell(2);
    EXPECT_DEATH(put(cell.data(), limit, -1, false, {}, cell.data()), "units");
  }
}

}  // namespace
}  // namespace sluice::limit::put_test
