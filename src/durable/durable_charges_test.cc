// Debt, and the ids of charges, are there after a stop of the durable store.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
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
        Limit{Algorithm::sliding_log, 3, {ten_minutes_us}}, fixed(3),
        Limit{Algorithm::concurrency, 3, {ten_minutes_us}, ten_minutes_us}}) {
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

// Asks with an id; `groups` of them one behind the other, the first ones as rules in shadow.
struct WithId {
  explicit WithId(Life& its_life) : life(its_life) {}

  // Charges `part` in each group. Returns the groups.
  std::vector<request::Group> charge(const request::ChargeId& id, const std::vector<Part>& parts,
                                     base::Time now, size_t groups = 1) {
    asked = life.world.prepare(parts, Verb::charge);
    std::vector<request::Group> all;
    for (size_t i = 0; i < groups; ++i)
      all.push_back({.charge_first = static_cast<uint32_t>(i * parts.size() / groups),
                     .charge_count = static_cast<uint32_t>(parts.size() / groups),
                     .may_fail = i + 1 < groups,
                     .id = &id});
    size_t settled = 0;
    while (settled < all.size()) {
      const store::Applied applied =
          life.store->apply({std::span(all).subspan(settled), asked.charges, asked.decisions}, now,
                            &life.completions, {}, {0, 0});
      settled += applied.settled;
      if (applied.later) eventually([&] { return life.named({0, 0}); });
    }
    return all;
  }
  int64_t left(const Part& part, base::Time now) {
    return life.ask({{part.key, 0, part.limits}}, now, Verb::peek)[0].remaining;
  }

  Life& life;
  Asked asked;
};

const Part five{"k", 5, {window(100, ten_minutes_us)}};
const Part seven{"other", 7, {window(100, ten_minutes_us), bucket(50, 50, ten_minutes_us)}};

TEST(DurableCharges, AnIdIsKnownAfterAStopAndChargedOnce) {
  for (const Durability durability : {Durability::always, Durability::interval}) {
    Disk disk;
    std::optional<Life> life;
    for (int64_t run = 0; run < 3; ++run) {
      const base::Time now{start.us + run * tests::second};
      life.emplace(disk, durability, now);
      WithId with(*life);
      const auto known = run == 0 ? request::Known::no : request::Known::yes;
      const request::Group group = with.charge({"ann:id", 77}, {five, seven}, now).front();
      EXPECT_EQ(group.known, known);
      EXPECT_EQ(group.error, request::Error::none);
      EXPECT_TRUE(group.allowed);
      EXPECT_EQ(with.asked[0].remaining, 95);
      EXPECT_EQ(with.asked[1].remaining, run == 0 ? 93 : 86);
      EXPECT_EQ(with.asked[2].remaining, run == 0 ? 43 : 36);
      // The id is known within one run too. Another user has other ids.
      EXPECT_EQ(with.charge({"ann:id", 77}, {five, seven}, now).front().known, request::Known::yes);
      EXPECT_EQ(with.charge({"bob:id", 77}, {seven}, now).front().known, known);
      EXPECT_EQ(with.left(five, now), 95);
      EXPECT_EQ(with.left(seven, now), 86);
      // Nothing is charged under another content.
      const auto other = with.charge({"ann:id", 78}, {five}, now).front();
      EXPECT_EQ(other.known, request::Known::other_content);
      EXPECT_EQ(with.left(five, now), 95);
      life->until_committed();
      life.reset();
      if (run == 0) disk.fold();  // once from the log, once from the snapshot
    }
  }
}

TEST(DurableCharges, AnIdIsForgottenAfterTenMinutes) {
  Disk disk;
  std::optional<Life> life;
  life.emplace(disk, Durability::always);
  EXPECT_EQ(WithId(*life).charge({"id", 1}, {five}, start).front().known, request::Known::no);
  life->until_committed();
  life.reset();
  const base::Time before{start.us + ten_minutes_us - 1}, after{start.us + ten_minutes_us};
  life.emplace(disk, Durability::always, before);
  WithId with(*life);
  EXPECT_EQ(with.charge({"id", 1}, {five}, before).front().known, request::Known::yes);
  EXPECT_EQ(with.charge({"id", 1}, {five}, after).front().known, request::Known::no);
  EXPECT_EQ(with.left(five, after), 95);
}

TEST(DurableCharges, EachGroupOfAMessageKnowsTheId) {
  Disk disk;
  std::optional<Life> life;
  for (int run = 0; run < 2; ++run) {
    life.emplace(disk, Durability::always);
    WithId with(*life);
    // Two rules in shadow that charge one counter, and an enforced one.
    const auto groups = with.charge({"id", 1}, {five, five, seven}, start, 3);
    for (const request::Group& group : groups)
      EXPECT_EQ(group.known, run == 0 ? request::Known::no : request::Known::yes);
    EXPECT_EQ(with.left(five, start), 90);
    EXPECT_EQ(with.left(seven, start), 93);
    life->until_committed();
    life.reset();
  }
}

TEST(DurableCharges, AnIdIsNotKeptWithoutItsCharge) {
  Disk disk;
  std::optional<Life> life;
  life.emplace(disk, Durability::always);
  disk.set(&Disk::fails, true);
  life->ask({{"before", 1, one.limits}});
  eventually([&] { return life->store->stats().failing; });
  WithId with(*life);
  EXPECT_EQ(with.charge({"id", 1}, {five}, start).front().error, request::Error::store);
  disk.set(&Disk::fails, false);
  eventually([&] { return !life->store->stats().failing; });
  EXPECT_EQ(with.charge({"id", 1}, {five}, start).front().known, request::Known::no);
  EXPECT_EQ(with.left(five, start), 95);
  // While its counters are loaded it is looked for on the disk.
  life->until_committed();
  life.reset();
  disk.fold();
  disk.set(&Disk::holds_scans, true);
  life.emplace(disk, Durability::always);
  EXPECT_EQ(WithId(*life).charge({"id", 1}, {five}, start).front().known, request::Known::yes);
  disk.set(&Disk::holds_scans, false);
}

}  // namespace
}  // namespace sluice::durable::durable_charges_test
