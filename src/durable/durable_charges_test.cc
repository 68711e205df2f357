// Debt in the durable store is there after a stop.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "durable/durable_life_test.h"

namespace sluice::durable::durable_charges_test {
namespace {

using namespace tests;
using limit::Algorithm;
using limit::Limit;
using request::Verb;

constexpr int64_t ten_minutes_us = 600'000'000;

TEST(DurableCharges, DebtIsThereAfterAStop) {
  for (const Limit& limit :
       {window(3, ten_minutes_us), Limit{Algorithm::aligned_window, 3, {ten_minutes_us}},
        bucket(3, 3, ten_minutes_us), Limit{Algorithm::sliding_window, 3, {ten_minutes_us}},
        Limit{Algorithm::sliding_log, 3, {ten_minutes_us}}, fixed(3)}) {
    Disk disk;
    std::optional<Life> life;
    life.emplace(disk, Durability::always);
    // Six times of a log with three cells, and a second cell of a bucket.
    for (int64_t i = 0; i < 6; ++i) life->ask({{"k", 2, {limit}}}, {start.us + i}, Verb::charge);
    EXPECT_FALSE(life->ask({{"r", 9, {limit}}}, start, Verb::count).allowed());
    const Asked before = life->ask({{"k", 0, {limit}}}, {start.us + 9}, Verb::peek);
    EXPECT_EQ(before[0].remaining, -9) << name_of(limit.algorithm);
    life->until_committed();
    life.reset();
    life.emplace(disk, Durability::always, base::Time{start.us + 9});
    const Asked after = life->ask({{"k", 0, {limit}}}, {start.us + 9}, Verb::peek);
    EXPECT_EQ(after[0].remaining, -9) << name_of(limit.algorithm);
    EXPECT_EQ(after[0].reset_after, before[0].reset_after);
    EXPECT_FALSE(life->ask({{"k", 0, {limit}}}, {start.us + 9}).allowed());
    EXPECT_EQ(life->ask({{"r", 0, {limit}}}, {start.us + 9}, Verb::peek)[0].remaining, -6);
  }
}

}  // namespace
}  // namespace sluice::durable::durable_charges_test
