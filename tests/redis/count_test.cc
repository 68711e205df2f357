// Charges that count past their limits, in a real Redis against the table in memory: counters of
// sluice's own and ones that are shared with other programs, in groups that spare counters or not,
// several charges of one counter, limits that change.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/redis/both_stores.h"
#include "tests/support/dice.h"

namespace sluice::redis::count_test {
namespace {

using limit::Algorithm;
using tests::Dice;

constexpr int64_t start_us = 1'800'000'000'000'000, minute_us = 60'000'000;

void play(uint32_t seed, Weight least, int rounds, int64_t scale, bool shared_too) {
  Both both;
  Dice dice(seed);
  request::Space like;
  like.encoding = request::KeyEncoding::window_text;
  const request::Space* const spaces[] = {both.spaces.intern("own/", ""),
                                          both.spaces.intern("shared/", "", like)};
  std::array<size_t, 4> seen{};
  for (int round = 0; round < rounds; ++round) {
    both.client()({"FLUSHALL"});
    const std::string prefix = std::to_string(round) + "-";
    const int64_t usual = dice(int64_t{8});
    int64_t now = start_us + dice(minute_us);
    std::string told;
    for (int step = 0; step < 20; ++step) {
      if (dice(3) > 0) now += dice(minute_us / 4);
      Question q;
      both.sparing = dice(3) > 0;
      std::set<std::string> names;
      told += std::to_string(step) + (both.sparing ? " sparing" : "");
      const int count = 1 + dice(4);
      for (int i = 0; i < count; ++i) {
        const request::Space& space = *spaces[shared_too ? dice(2) : 0];
        const std::string key = prefix + std::to_string(dice(3));
        const bool again = names.contains(space.prefix + key);
        const bool counts = again || dice(4) > 0;
        if (again && !both.sparing) continue;
        // The charges of one counter have the same window. A charge that takes has a key of its
        // own, so that all charges that share a counter count.
        const std::string name = counts ? key : key + "t";
        if (!counts && names.contains(space.prefix + name)) continue;
        std::vector<Limit> limits = {{Algorithm::aligned_window,
                                      scale * (dice(3) == 0 ? dice(int64_t{8}) : usual),
                                      {minute_us},
                                      0}};
        if (&space == spaces[0] && !counts && dice(3) == 0)
          limits.push_back({Algorithm::token_bucket, 1 + dice(int64_t{5}), {minute_us}, 4});
        if (&space == spaces[0] && counts && dice(6) == 0)
          limits.push_back({Algorithm::unlimited, 0, {}, 0});
        int64_t cost = scale * dice(int64_t{4});
        if (dice(60) == 0) cost = INT64_MAX - dice(int64_t{2});
        if (!counts) cost = std::min<int64_t>(cost, scale * 3);
        // A shared counter has room for larger numbers than one of sluice's own, so costs stay
        // small.
        if (&space != spaces[0]) cost = std::min<int64_t>(cost, scale * 3);
        told += " " + space.prefix + name + (counts ? " counts " : " takes ") +
                std::to_string(cost) + " of " + std::to_string(limits[0].quota) + "/" +
                std::to_string(limits[0].window.us) + (again ? " again" : "");
        q.add(space, name, limits, both.spaces, counts ? Verb::count : Verb::take, cost);
        q.charges.back().follows = again;
        names.insert(space.prefix + name);
      }
      told += "\n";
      if (q.charges.empty()) continue;
      if (q.charges.size() == 1 && dice(10) == 0) q.charges[0].reset_first = true;
      ASSERT_EQ(both.ask(q, {now}, least), "") << "round " << round << "\n" << told;
      bool all = true, twice = false;
      for (const Charge& charge : q.charges) twice |= charge.follows;
      for (const Decision& decision : q.decisions) all &= decision.allowed;
      ++seen[(twice ? 2u : 0u) + (all ? 1u : 0u)];
    }
  }
  for (const size_t times : seen) EXPECT_GT(times, 20u);
}

TEST(CountInRedis, AnswersAsTheTableDoes) {
  play(1, Weight::light, 150, 1, false);
  play(2, Weight::full, 100, 1, false);
}
TEST(CountInRedis, AnswersAsTheTableDoesInLimbs) {
  play(3, Weight::wide, 60, 1, false);
}
TEST(CountInRedis, AnswersAsTheTableDoesWhereItsCountersEnd) {
  play(4, Weight::light, 80, int64_t{1} << 51, false);
  play(5, Weight::wide, 40, int64_t{1} << 51, false);
}
TEST(CountInRedis, SettlesTogetherWithSharedCounters) {
  play(6, Weight::light, 150, 1, true);
  play(7, Weight::wide, 50, 1, true);
}

}  // namespace
}  // namespace sluice::redis::count_test
