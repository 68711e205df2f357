// Requests per second in /v1/status (admin/server_stats.h), against a model.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "admin/server_stats.h"
#include "tests/support/dice.h"

namespace sluice::admin {
namespace {

using Clock = RequestRates::Clock;
using std::chrono::milliseconds;

ProtocolTotals totals_of(uint64_t allowed, uint64_t denied) {
  ProtocolTotals totals{};
  totals[0][0] = allowed;
  totals[1][1] = denied;
  return totals;
}

TEST(RequestRates, AreSinceTheStartBeforeAWindowHasPassed) {
  const Clock::time_point start{};
  RequestRates rates(start);
  const auto found = rates.rates(totals_of(6, 3), start + milliseconds(1500));
  EXPECT_DOUBLE_EQ(found.over_seconds, 1.5);
  EXPECT_DOUBLE_EQ(found.per_second[0][0], 4);
  EXPECT_DOUBLE_EQ(found.per_second[1][1], 2);
  EXPECT_DOUBLE_EQ(found.per_second[0][1], 0);
}

TEST(RequestRates, AreZeroWhenATotalDecreases) {
  const Clock::time_point start{};
  RequestRates rates(start);
  rates.add(totals_of(10, 0), start + milliseconds(1000));
  const auto found = rates.rates(totals_of(0, 0), start + milliseconds(20'000));
  EXPECT_EQ(found.per_second[0][0], 0);
  EXPECT_DOUBLE_EQ(found.over_seconds, 19);
}

TEST(RequestRates, AreFiniteAtTheStart) {
  const Clock::time_point start{};
  const RequestRates rates(start);
  EXPECT_EQ(rates.rates({}, start).per_second[0][0], 0);
  EXPECT_GT(rates.rates({}, start).over_seconds, 0);
}

// The model stores all samples, and compares with the latest one that is at least a window old,
// else with the first.
TEST(RequestRates, MatchAModelThatKeepsEverySample) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    tests::Dice dice(seed);
    Clock::time_point now{};
    RequestRates rates(now);
    std::vector<std::pair<Clock::time_point, uint64_t>> kept{{now, 0}};
    uint64_t total = 0;
    for (int step = 0; step < 200; ++step) {
      const int most = dice(10) == 0 ? 30'000 : 2'500;
      now += milliseconds(dice(most));
      total += static_cast<uint64_t>(dice(1000));
      if (dice(3) > 0) {
        rates.add(totals_of(total, 0), now);
        if (now - kept.back().first >= RequestRates::period) kept.emplace_back(now, total);
      }
      auto since = kept.front();
      for (const auto& one : kept)
        if (now - one.first >= RequestRates::window) since = one;
      const double seconds =
          std::max(std::chrono::duration<double>(now - since.first).count(), 1e-3);
      const auto found = rates.rates(totals_of(total, 0), now);
      ASSERT_DOUBLE_EQ(found.over_seconds, seconds) << seed << " " << step;
      ASSERT_DOUBLE_EQ(found.per_second[0][0], static_cast<double>(total - since.second) / seconds)
          << seed << " " << step;
    }
  }
}

}  // namespace
}  // namespace sluice::admin
