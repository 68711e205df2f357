// The fixed bucket: every short sequence of takes and puts against a model with one flag for each
// unit, each statement of limit/fixed_bucket.h by itself, and numbers at the ends of their ranges.
#include "limit/fixed_bucket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "testing/bounds_check.h"
#include "tests/support/dice.h"

namespace sluice::limit::fixed_bucket_test {
namespace {

using bounds_check::text;

constexpr int64_t max64 = INT64_MAX, min64 = INT64_MIN;

Limit bucket_of(int64_t burst) {
  return {Algorithm::fixed_bucket, burst, {}, burst};
}

// One flag for each unit, true while it is in the bucket: nothing is computed.
struct Naive {
  std::vector<bool> here;
  explicit Naive(int64_t burst) : here(static_cast<size_t>(burst), true) {}
  int64_t left() const { return std::count(here.begin(), here.end(), true); }
  bool take(int64_t units) {
    if (units > left()) return false;
    move(units, true);
    return true;
  }
  void put(int64_t units) { move(units, false); }
  void move(int64_t units, bool away) {
    for (size_t i = 0; i < here.size() && units > 0; ++i) {
      if (here[i] != away) continue;
      here[i] = !away;
      --units;
    }
  }
};

// Every sequence of takes (0 or more units) and puts (below 0) against the model, and each
// statement of the header.
void every_sequence(size_t length, const Limit& limit, const State& state, const Naive& model,
                    int64_t now, size_t& decisions) {
  if (length == 0) return;
  for (const int64_t units : {-3, -1, 0, 1, 2, 4}) {
    for (const int64_t step : {-5, 0, 1'000'000}) {
      Naive next_model = model;
      const Time then{now + step};
      const bool put = units < 0;
      bool allowed = true;
      if (put)
        next_model.put(-units);
      else
        allowed = next_model.take(units);
      const Outcome out = put ? fixed_bucket::put(state, limit, -units, then)
                              : fixed_bucket::decide(state, limit, units, then);
      ++decisions;
      const Decision expected{allowed, limit.burst, next_model.left(), base::never,
                              allowed ? Duration{} : base::never};
      ASSERT_EQ(text(out.decision), text(expected));
      ASSERT_EQ(fixed_bucket::fresh(out.next, limit, then), expected.remaining == limit.burst);
      ASSERT_EQ(out.next == State{}, expected.remaining == limit.burst);
      ASSERT_TRUE(fixed_bucket::decide(out.next, limit, expected.remaining, then).decision.allowed);
      ASSERT_FALSE(
          fixed_bucket::decide(out.next, limit, expected.remaining + 1, then).decision.allowed);
      if (!allowed) {
        ASSERT_EQ(out.next, state);
        ASSERT_FALSE(fixed_bucket::decide(out.next, limit, units, {max64 - 1}).decision.allowed);
      }
      every_sequence(length - 1, limit, out.next, next_model, then.us, decisions);
    }
  }
}

TEST(FixedBucket, EverySequenceOfThree) {
  size_t decisions = 0;
  for (const int64_t burst : {1, 2, 3, 5})
    every_sequence(3, bucket_of(burst), {}, Naive(burst), 0, decisions);
  EXPECT_GT(decisions, 20'000u);
}

TEST(FixedBucket, NeverGrantsMoreThanItHolds) {
  tests::Dice dice(20261201);
  for (int round = 0; round < 2'000; ++round) {
    const int64_t burst = 1 + dice(int64_t{50});
    State state;
    int64_t taken = 0, returned = 0, refused = 0;
    for (int i = 0; i < 50; ++i) {
      const Time now{dice(int64_t{1'000'000'000}) - 500'000'000};
      const int64_t units = dice(burst + 2);
      if (dice(3) == 0 && units <= taken - returned) {
        state = fixed_bucket::put(state, bucket_of(burst), units, now).next;
        returned += units;
      } else {
        const Outcome out = fixed_bucket::decide(state, bucket_of(burst), units, now);
        (out.decision.allowed ? taken : refused) += units;
        state = out.next;
      }
      ASSERT_LE(taken - returned, burst);
      ASSERT_EQ(fixed_bucket::missing(state, bucket_of(burst), now), taken - returned);
    }
    ASSERT_GT(refused, 0);
  }
}

TEST(FixedBucket, Extremes) {
  const State all{max64, max64}, one{max64, 1};
  const struct {
    const char* what;
    State state;
    int64_t burst, cost, now;
    Decision decision;
    State next;
  } table[] = {
      {"the first unit", {}, 5, 1, 0, {true, 5, 4, base::never, {}}, {max64, 1}},
      {"a look at a full one", {}, 5, 0, 0, {true, 5, 5, base::never, {}}, {}},
      {"all", {}, 5, 5, min64, {true, 5, 0, base::never, {}}, {max64, 5}},
      {"too much of a full one", {}, 5, 6, 0, {false, 5, 5, base::never, base::never}, {}},
      {"everything of the largest", {}, max64, max64, 0, {true, max64, 0, base::never, {}}, all},
      {"one of the largest, empty",
       all,
       max64,
       1,
       0,
       {false, max64, 0, base::never, base::never},
       all},
      {"a look at an empty one that shrank",
       all,
       3,
       0,
       0,
       {false, 3, 3 - max64, base::never, base::never},
       all},
      {"one of an empty one that shrank",
       all,
       3,
       1,
       0,
       {false, 3, 3 - max64, base::never, base::never},
       all},
      {"the moment before the last",
       one,
       3,
       2,
       max64 - 1,
       {true, 3, 0, base::never, {}},
       {max64, 3}},
      {"the last moment", one, 3, 3, max64, {true, 3, 0, base::never, {}}, {max64, 3}},
  };
  for (const auto& row : table) {
    const Outcome out = fixed_bucket::decide(row.state, bucket_of(row.burst), row.cost, {row.now});
    EXPECT_EQ(text(out.decision), text(row.decision)) << row.what;
    EXPECT_EQ(out.next, row.next) << row.what;
  }
  EXPECT_EQ(fixed_bucket::put(all, bucket_of(max64), max64, {}).next, State{});
  EXPECT_EQ(fixed_bucket::put(all, bucket_of(max64), max64 - 1, {}).next, one);
  EXPECT_EQ(fixed_bucket::put(all, bucket_of(7), 5, {}).next, (State{max64, max64 - 5}));
  EXPECT_EQ(fixed_bucket::put({max64, 9}, bucket_of(7), 5, {}).decision.remaining, 3);
  EXPECT_EQ(fixed_bucket::put({}, bucket_of(7), max64, {}).next, State{});
}

TEST(FixedBucketDeathTest, PreconditionsAreChecked) {
  EXPECT_DEATH(fixed_bucket::decide({}, bucket_of(1), -1, {}), "cost");
  EXPECT_DEATH(fixed_bucket::decide({}, bucket_of(0), 1, {}), "burst");
  EXPECT_DEATH(fixed_bucket::put({}, bucket_of(1), -1, {}), "units");
}

}  // namespace
}  // namespace sluice::limit::fixed_bucket_test
