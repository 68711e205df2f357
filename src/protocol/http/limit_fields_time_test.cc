// time_to_more against the algorithms: it must be the time after which they grant the next unit.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "base/time.h"
#include "limit/decide.h"
#include "limit/limit.h"
#include "protocol/http/limit_fields.h"
#include "tests/support/dice.h"

namespace sluice::http::limit_fields_time_test {
namespace {

using limit::Algorithm;
using limit::Decision;
using limit::Limit;

using Cells = std::array<limit::State, limit::limit_cells_max>;

// A counter under one limit.
struct Counter {
  Limit limit;
  Cells state{};
  base::Time now{};

  Decision take(int64_t cost) {
    return limit::decide(state.data(), limit, cost, now, state.data());
  }
  // Whether `units` would be granted after `wait`.
  Decision would_take(int64_t units, base::Duration wait = {}) const {
    Cells unused;
    return limit::decide(state.data(), limit, units, {now.us + wait.us}, unused.data());
  }
};

// How much later time_to_more may be than the exact time. A decision does not contain enough to
// compute that for all algorithms.
base::Duration late_max(const Counter& counter, const Decision& decision) {
  switch (counter.limit.algorithm) {
    case Algorithm::token_bucket:
      return {1};
    case Algorithm::sliding_window:
    case Algorithm::sliding_log:
      return decision.reset_after;
    default:
      return {};
  }
}

void check(const Counter& counter, const Decision& decision, int64_t cost) {
  const base::Duration t = time_to_more(counter.limit, decision);
  const int64_t more = std::max<int64_t>(decision.remaining, 0) + 1;
  const base::Duration exact = counter.would_take(more).retry_after;
  const std::string what =
      std::string(limit::name_of(counter.limit.algorithm)) + " " +
      std::to_string(counter.limit.quota) + "/" + std::to_string(counter.limit.window.us) + "us+" +
      std::to_string(counter.limit.burst) + ", remaining " + std::to_string(decision.remaining);
  ASSERT_EQ(t == base::never, exact == base::never) << what;
  if (t == base::never) return;
  ASSERT_GE(t, exact) << what;
  ASSERT_LE(t.us, exact.us + late_max(counter, decision).us) << what;
  ASSERT_LE(t, decision.reset_after) << what;
  ASSERT_TRUE(counter.would_take(more, t).allowed) << what;
  ASSERT_FALSE(counter.would_take(more, {exact.us - 1}).allowed) << what;
  if (!decision.allowed && cost == more) {
    ASSERT_EQ(t, exact) << what;
  }
}

Limit small_limit(tests::Dice& dice, Algorithm algorithm) {
  // A unit comes back after a fraction of a microsecond, or after up to a second.
  const int64_t quota = 1 + dice(int64_t{1} << dice(12));
  if (algorithm == Algorithm::fixed_bucket) return {algorithm, quota, {}, quota};
  const base::Duration window{1 + dice(int64_t{1} << dice(20))};
  const bool is_bucket = algorithm == Algorithm::token_bucket;
  return {algorithm, quota, window, is_bucket ? 1 + dice(2 * quota) : 0};
}

void check_sequence(Algorithm algorithm, uint32_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  tests::Dice dice(seed);
  Counter counter{small_limit(dice, algorithm)};
  counter.now.us = 1'700'000'000'000'000 + dice(int64_t{1'000'000});
  const int64_t most = limit::units_max(counter.limit);
  for (int step = 0; step < 20 && !testing::Test::HasFatalFailure(); ++step) {
    counter.now.us += dice(2) == 0 ? 0 : dice(2 + counter.limit.window.us / (1 + dice(20)));
    const int64_t cost = dice(3) == 0 ? 1 : dice(most + 1);
    check(counter, counter.take(cost), cost);
    if (dice(4) == 0) check(counter, counter.take(1), 1);
  }
}

TEST(TimeToMore, IsWhatTheAlgorithmsDo) {
  for (const Algorithm algorithm :
       {Algorithm::fixed_window, Algorithm::aligned_window, Algorithm::token_bucket,
        Algorithm::sliding_window, Algorithm::sliding_log, Algorithm::fixed_bucket}) {
    for (uint32_t seed = 1; seed <= 2'000 && !testing::Test::HasFatalFailure(); ++seed)
      check_sequence(algorithm, seed);
  }
}

// All units are used at the same time, so none is older than another.
TEST(TimeToMore, IsExactIfAllUnitsWereUsedAtOnce) {
  for (const Algorithm algorithm : {Algorithm::sliding_window, Algorithm::sliding_log}) {
    for (uint32_t seed = 1; seed <= 2'000; ++seed) {
      tests::Dice dice(seed);
      Counter counter{small_limit(dice, algorithm)};
      counter.now.us = dice(int64_t{1} << 50);
      const int64_t cost = 1 + dice(counter.limit.quota);
      const Decision decision = counter.take(cost);
      EXPECT_EQ(time_to_more(counter.limit, decision),
                counter.would_take(decision.remaining + 1).retry_after)
          << limit::name_of(algorithm) << ", seed " << seed;
    }
  }
}

// Parts of units come back all the time. A decision does not contain the last fraction of a
// microsecond, so the time is exact only if a unit takes whole microseconds.
TEST(TimeToMore, IsExactForBucketsWithWholeMicrosecondsPerUnit) {
  for (uint32_t seed = 1; seed <= 5'000; ++seed) {
    tests::Dice dice(seed);
    const int64_t quota = 1 + dice(int64_t{1000}), burst = 1 + dice(2 * quota);
    Counter counter{
        Limit{Algorithm::token_bucket, quota, {quota * (1 + dice(int64_t{1000}))}, burst}};
    for (int step = 0; step < 10; ++step) {
      counter.now.us += dice(counter.limit.window.us);
      const Decision decision = counter.take(dice(burst + 1));
      EXPECT_EQ(time_to_more(counter.limit, decision),
                counter.would_take(decision.remaining + 1).retry_after)
          << "seed " << seed;
    }
  }
}

struct Case {
  Limit limit;
  Decision decision;
  base::Duration time;
};

TEST(TimeToMore, IsBoundedForDecisionsThatAStoreHasChanged) {
  const Limit bucket{Algorithm::token_bucket, 100, base::seconds(60), 200};
  const Limit sliding{Algorithm::sliding_window, 100, base::seconds(60), 0};
  const Limit log{Algorithm::sliding_log, 100, base::seconds(60), 0};
  const std::vector<Case> cases = {
      // Two units are in the bucket, and waiting requests have a claim on them.
      {bucket, {true, 200, 0, base::seconds(119), {}}, base::seconds(119)},
      {bucket, {false, 200, 0, base::seconds(119), base::seconds(3)}, base::seconds(3)},
      // Waiting requests have a claim on more than the bucket can hold.
      {bucket, {true, 200, -7, base::seconds(130), {}}, {base::seconds(130).us - 119'400'000}},
      // The quota was lowered: 300 of 100 units are used.
      {sliding,
       {false, 100, -200, base::seconds(90), base::seconds(60)},
       {base::seconds(30).us + 60'000'000 - 19'800'000}},
      {log, {false, 100, -5, base::seconds(50), base::seconds(20)}, base::seconds(50)},
      {{Algorithm::deny}, {false, 0, 0, base::never, base::never}, base::never},
      {{Algorithm::unlimited, 5}, {true, 5, 5, {}, {}}, base::never},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(time_to_more(one.limit, one.decision).us, one.time.us)
        << limit::name_of(one.limit.algorithm) << " " << one.decision.remaining;
  }
}

}  // namespace
}  // namespace sluice::http::limit_fields_time_test
