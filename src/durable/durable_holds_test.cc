// Reservations on disk: each is there again after a kill, with its counters and never without them,
// whatever was committed last. Against a naive model: a list of what each came to.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "durable/durable_life_test.h"
#include "store/holds.h"
#include "tests/support/dice.h"

namespace sluice::durable::durable_holds_test {
namespace {

using namespace tests;
using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::HoldTerms;
using request::Verb;
using store::Holds;

constexpr int64_t quota = 1000;
const std::array<std::string, 3> keys = {"a", "b", "c"};

// A life with its holds. `limit`: of all counters.
struct HoldLife : Life {
  HoldLife(Disk& disk, base::Time at, Durability durability = Durability::always,
           const limit::Limit& its_limit = fixed(quota), const HoldTerms& its_terms = {})
      : Life(disk, durability, at),
        now(at),
        limit(its_limit),
        terms(its_terms),
        holds(*store, world.spaces, {.remember = base::seconds(100)}) {
    const auto unreadable = holds.restore(now);
    EXPECT_TRUE(unreadable && *unreadable == 0);
  }
  // Takes `units` of each key, for one subject.
  HoldCall reserve(std::string_view id, const std::set<std::string>& its_keys, int64_t units,
                   base::Duration ttl = base::seconds(10)) {
    std::vector<Part> parts;
    for (const std::string& key : its_keys) parts.push_back({key, units, {limit}});
    Asked asked = world.prepare(parts, Verb::reserve);
    asked.group.on_error = request::OnError::error;
    std::vector<Holds::Share> shares(parts.size(), {1, "rule"});
    HoldCall call{.id = id, .ttl = ttl, .holder = "somebody"};
    answer([&] {
      return holds.reserve(call, terms, {{&asked.group, 1}, asked.charges, asked.decisions}, shares,
                           {&units, 1}, now, {&completions, {0, 0}});
    });
    return call;
  }
  HoldCall ask(HoldAsk what, std::string_view id, std::vector<int64_t> units = {},
               base::Duration ttl = {}) {
    HoldCall call{.ask = what, .id = id, .ttl = ttl, .units = std::move(units)};
    answer([&] { return holds.settle(call, now, {&completions, {0, 0}}); });
    return call;
  }
  template <class Try>
  void answer(Try&& try_it) {
    while (!try_it()) eventually([&] { return named({0, 0}); });
  }
  int64_t used(const std::string& key) {
    holds.end_due(now);
    return quota - Life::ask({{key, 0, {limit}}}, now, Verb::peek)[0].remaining;
  }
  std::array<int64_t, 3> used() { return {used(keys[0]), used(keys[1]), used(keys[2])}; }
  // The ids that are held, with their units.
  std::map<std::string, int64_t> held() {
    std::map<std::string, int64_t> all;
    holds.each(now,
               [&](const Holds::Listed& one) { return all.emplace(one.id, one.units).second; });
    return all;
  }

  base::Time now;
  const limit::Limit limit;
  const HoldTerms terms;
  Holds holds;
};

std::string id_of(int number) {
  return "reservation-" + std::to_string(1000 + number);
}

TEST(DurableHolds, AReservationIsThereAfterAKill) {
  Disk disk, after;
  {
    HoldLife life(disk, start);
    EXPECT_EQ(life.reserve(id_of(1), {"a", "b"}, 40).outcome, HoldOutcome::done);
    EXPECT_EQ(life.ask(HoldAsk::extend, id_of(1), {5}, base::seconds(20)).outcome,
              HoldOutcome::done);
    life.until_committed();
    disk.copy_to(after, disk.block_count());
  }
  HoldLife life(after, {start.us + tests::second});
  EXPECT_EQ(life.used(), (std::array<int64_t, 3>{45, 45, 0}));
  EXPECT_EQ(life.held(), (std::map<std::string, int64_t>{{id_of(1), 45}}));
  EXPECT_EQ(life.holds.figures().holds, 1u);
  EXPECT_EQ(life.ask(HoldAsk::renew, id_of(1)).ends_in, base::seconds(20));
  const HoldCall done = life.ask(HoldAsk::commit, id_of(1), {12});
  EXPECT_EQ(done.outcome, HoldOutcome::done);
  EXPECT_EQ(done.returned, 33);
  EXPECT_EQ(done.rule, "rule");
  EXPECT_EQ(life.used(), (std::array<int64_t, 3>{12, 12, 0}));
}

TEST(DurableHolds, WhatWasSettledIsRememberedAfterAKill) {
  Disk disk, after;
  {
    HoldLife life(disk, start);
    life.reserve(id_of(1), {"a"}, 40);
    life.reserve(id_of(2), {"a"}, 40);
    EXPECT_EQ(life.ask(HoldAsk::commit, id_of(1), {12}).outcome, HoldOutcome::done);
    EXPECT_EQ(life.ask(HoldAsk::release, id_of(2)).outcome, HoldOutcome::done);
    life.until_committed();
    disk.copy_to(after, disk.block_count());
  }
  HoldLife life(after, {start.us + tests::second});
  EXPECT_EQ(life.holds.figures().remembered, 2u);
  const HoldCall again = life.ask(HoldAsk::commit, id_of(1), {12});
  EXPECT_TRUE(again.repeated);
  EXPECT_EQ(again.returned, 28);
  EXPECT_EQ(life.ask(HoldAsk::commit, id_of(1), {13}).outcome, HoldOutcome::settled);
  EXPECT_EQ(life.reserve(id_of(2), {"a"}, 1).outcome, HoldOutcome::ended);
  EXPECT_EQ(life.used("a"), 12);
  // Forgotten in its time, also on disk.
  life.now.us += 200 * tests::second;
  EXPECT_EQ(life.ask(HoldAsk::commit, id_of(1), {12}).outcome, HoldOutcome::unknown);
  life.until_committed();
  Disk last;
  after.copy_to(last, after.block_count());
  HoldLife third(last, life.now);
  EXPECT_EQ(third.holds.figures().remembered, 0u);
}

TEST(DurableHolds, WhatEndedMeanwhileIsEndedBeforeTheFirstAnswer) {
  for (const bool keeps : {false, true}) {
    for (const bool folded : {false, true}) {
      Disk disk, after;
      {
        HoldLife life(disk, start, Durability::always, fixed(quota), {.keeps = keeps});
        life.reserve(id_of(1), {"a", "c"}, 40);
        life.reserve(id_of(2), {"a"}, 2, base::seconds(1000));
        life.until_committed();
        disk.copy_to(after, disk.block_count());
      }
      if (folded) after.fold();  // so that the counters have to be loaded first
      HoldLife life(after, {start.us + 11 * tests::second}, Durability::always, fixed(quota),
                    {.keeps = keeps});
      EXPECT_EQ(life.holds.figures().holds, 1u);
      EXPECT_EQ(life.Life::ask({{"a", 0, {life.limit}}}, life.now, Verb::peek)[0].remaining,
                keeps ? quota - 42 : quota - 2);
      // A commit of the one that ended corrects it, or charges.
      EXPECT_TRUE(life.ask(HoldAsk::commit, id_of(1), {7}).late);
      EXPECT_EQ(life.used(), (std::array<int64_t, 3>{9, 0, 7}));
    }
  }
}

// What clients put back after a reserve is known after a kill, so that no hold gives back too much.
TEST(DurableHolds, PutsOfOthersCountAfterAKill) {
  const limit::Limit hourly = window(quota, 3600 * tests::second);
  for (const limit::Limit& limit :
       {hourly, bucket(quota, quota, 3600 * tests::second), fixed(quota)}) {
    Disk disk, after;
    int64_t expected = 0;
    {
      HoldLife life(disk, start, Durability::always, limit);
      life.reserve(id_of(1), {"a"}, 40, base::seconds(60));
      life.Life::ask({{"a", 30, {limit}}}, life.now, Verb::put);
      life.until_committed();
      disk.copy_to(after, disk.block_count());
      life.ask(HoldAsk::release, id_of(1));
      expected = life.used("a");
    }
    HoldLife life(after, start, Durability::always, limit);
    life.ask(HoldAsk::release, id_of(1));
    EXPECT_EQ(life.used("a"), expected) << name_of(limit.algorithm);
  }
}

// A reset makes a hold give nothing back, also after a kill.
TEST(DurableHolds, AResetCountsAfterAKill) {
  Disk disk, after;
  {
    HoldLife life(disk, start);
    life.reserve(id_of(1), {"a"}, 40);
    life.put_all({"a", 0, {life.limit}});
    life.Life::ask({{"a", 25, {life.limit}}}, life.now);
    life.until_committed();
    disk.copy_to(after, disk.block_count());
  }
  HoldLife life(after, start);
  EXPECT_EQ(life.used("a"), 25);
  EXPECT_EQ(life.ask(HoldAsk::commit, id_of(1), {10}).returned, 0);
  EXPECT_EQ(life.used("a"), 25);
}

TEST(DurableHolds, ADiskThatFailsRefusesAndLosesNothing) {
  Disk disk;
  HoldLife life(disk, start);
  life.until_loaded();
  life.reserve(id_of(1), {"a"}, 40);
  life.until_committed();
  disk.set(&Disk::fails, true);
  // The first change finds out.
  life.Life::ask({{"b", 1, {life.limit}}}, life.now);
  eventually([&] { return !life.store->why_degraded().empty(); });
  EXPECT_EQ(life.reserve(id_of(2), {"a"}, 1).outcome, HoldOutcome::failed);
  for (const HoldAsk what : {HoldAsk::renew, HoldAsk::release})
    EXPECT_EQ(life.ask(what, id_of(1)).outcome, HoldOutcome::failed);
  EXPECT_EQ(life.ask(HoldAsk::extend, id_of(1), {1}).outcome, HoldOutcome::failed);
  EXPECT_EQ(life.ask(HoldAsk::commit, id_of(1), {10}).outcome, HoldOutcome::failed);
  disk.set(&Disk::fails, false);
  eventually([&] { return life.store->why_degraded().empty(); });
  EXPECT_EQ(life.ask(HoldAsk::commit, id_of(1), {10}).outcome, HoldOutcome::done);
  EXPECT_EQ(life.used("a"), 10);
  EXPECT_EQ(life.holds.figures().holds, 0u);
}

// A reserve that waits, on a disk that fails when the units come: it is not granted meanwhile, and
// once the disk is back it is, and is there after a kill.
TEST(DurableHolds, AReserveThatWaitsOutlastsADiskThatFails) {
  Disk disk, after;
  base::Time at;
  {
    HoldLife life(disk, start, Durability::always, fixed(quota));
    life.until_loaded();
    EXPECT_EQ(life.reserve(id_of(1), {"a"}, quota).outcome, HoldOutcome::done);
    Asked asked = life.world.prepare({{"a", 5, {life.limit}}}, Verb::reserve);
    asked.group.on_error = request::OnError::error;
    asked.group.may_wait = true;
    asked.group.ticket = {7, 0};
    const std::vector<Holds::Share> shares(1, {1, "rule"});
    const int64_t units = 5;
    const std::string id = id_of(2);
    HoldCall call{.id = id, .ttl = base::seconds(60), .waits = true};
    std::unique_ptr<Holds::Wait> wait;
    ASSERT_TRUE(life.holds.reserve_or_wait(
        call, life.terms, {{&asked.group, 1}, asked.charges, asked.decisions}, shares, {&units, 1},
        life.now, {&life.completions, {0, 0}}, wait));
    ASSERT_EQ(call.outcome, HoldOutcome::waiting);
    ASSERT_NE(wait, nullptr);
    life.until_committed();
    const auto granted = [&]() -> std::optional<base::Time> {
      life.holds.end_due(life.now);
      life.store->advance(life.completions, life.now);
      std::vector<store::Settled> settled;
      life.completions.drain(settled);
      if (settled.empty()) return std::nullopt;
      EXPECT_EQ(settled.size(), 1u);
      EXPECT_EQ(settled[0].ticket.slot, 7u);
      return settled[0].at;
    };
    disk.set(&Disk::fails, true);
    life.Life::ask({{"b", 1, {life.limit}}}, life.now);  // the first change finds out
    eventually([&] { return !life.store->why_degraded().empty(); });
    for (int i = 0; i < 20; ++i) {
      life.now.us += tests::second;
      EXPECT_FALSE(granted()) << i;
    }
    disk.set(&Disk::fails, false);
    eventually([&] { return life.store->why_degraded().empty(); });
    std::optional<base::Time> its;
    eventually([&] {
      life.now.us += tests::second / 10;  // the end is tried again a moment later
      return (its = granted()).has_value();
    });
    life.holds.grant(call, *wait, *its);
    EXPECT_EQ(call.outcome, HoldOutcome::done);
    EXPECT_EQ(life.used("a"), 5);
    life.until_committed();
    disk.copy_to(after, disk.block_count());
    at = life.now;
  }
  HoldLife life(after, at);
  EXPECT_EQ(life.held(), (std::map<std::string, int64_t>{{id_of(2), 5}}));
  EXPECT_EQ(life.used("a"), 5);
  EXPECT_EQ(life.ask(HoldAsk::commit, id_of(2), {2}).returned, 3);
  EXPECT_EQ(life.used("a"), 2);
}

// The counters and the holds that a life has.
struct State {
  std::array<int64_t, 3> used;
  std::map<std::string, int64_t> held;
  friend bool operator==(const State&, const State&) = default;
};

// Random requests; after each, a kill after every commit that it made: what is there is what was
// there before the request or after it, counters and holds together.
class Trial {
 public:
  explicit Trial(uint32_t seed) : dice_(seed), disk_(std::make_unique<Disk>()) { live(); }

  void run(int steps) {
    for (int step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
      life_->now.us += dice_(int64_t{4}) * tests::second;
      for (auto& [id, one] : known_)
        if (one.is_held && one.end_us <= life_->now.us) {
          one.is_held = false;
          one.units = 0;
        }
      const State before = state();  // what is due ends
      life_->until_committed();
      const size_t commits = disk_->block_count();
      act();
      life_->until_committed();
      const State after = state();
      EXPECT_EQ(after.used, expected()) << step;
      for (size_t n = commits; n <= disk_->block_count(); ++n) {
        Disk killed;
        disk_->copy_to(killed, n);
        HoldLife life(killed, life_->now);
        const State found{life.used(), life.held()};
        EXPECT_TRUE(n == disk_->block_count() ? found == after : found == before || found == after)
            << step << " after " << n << " of " << disk_->block_count();
      }
      if (dice_(5) == 0) restart();
    }
  }

 private:
  struct Known {
    std::set<std::string> keys;
    int64_t units = 0;
    int64_t end_us = 0;
    bool is_held = true;
  };

  void live() { life_ = std::make_unique<HoldLife>(*disk_, now_); }
  void restart() {
    auto next = std::make_unique<Disk>();
    disk_->copy_to(*next, disk_->block_count());
    if (dice_(2) == 0) next->fold();
    now_ = life_->now;
    life_.reset();
    disk_ = std::move(next);
    live();
    life_->until_loaded();  // an end that comes before is tried again a moment later
  }
  State state() { return {life_->used(), life_->held()}; }

  void act() {
    const auto pick = [&]() -> std::pair<const std::string, Known>* {
      if (known_.empty()) return nullptr;
      auto at = known_.begin();
      std::advance(at, dice_(static_cast<int64_t>(known_.size())));
      return &*at;
    };
    const int64_t what = dice_(int64_t{6});
    auto* const its = pick();
    if (what <= 1 || its == nullptr) {
      const std::string id = id_of(next_++);
      Known one;
      for (const std::string& key : keys)
        if (dice_(2) == 0) one.keys.insert(key);
      if (one.keys.empty()) one.keys.insert("b");
      one.units = 1 + dice_(int64_t{9});
      one.end_us = life_->now.us + 8 * tests::second;
      EXPECT_EQ(life_->reserve(id, one.keys, one.units, base::seconds(8)).outcome,
                HoldOutcome::done);
      known_.emplace(id, one);
      return;
    }
    auto& [id, one] = *its;
    const int64_t units = dice_(int64_t{12});
    switch (what) {
      case 2:
        if (life_->ask(HoldAsk::extend, id, {units}).outcome == HoldOutcome::done) {
          EXPECT_TRUE(one.is_held);
          one.units += units;
          one.end_us = life_->now.us + 8 * tests::second;
        }
        break;
      case 3:
        if (life_->ask(HoldAsk::renew, id).outcome == HoldOutcome::done)
          one.end_us = life_->now.us + 8 * tests::second;
        break;
      case 4: {
        const HoldCall done = life_->ask(HoldAsk::commit, id, {units});
        if (done.outcome == HoldOutcome::done && !done.repeated) {
          one.is_held = false;
          one.units = units;
        }
        break;
      }
      default:
        if (life_->ask(HoldAsk::release, id).outcome == HoldOutcome::done) {
          one.is_held = false;
          one.units = 0;
        }
    }
  }

  std::array<int64_t, 3> expected() const {
    std::array<int64_t, 3> sums{};
    for (const auto& [id, one] : known_)
      for (size_t i = 0; i < keys.size(); ++i)
        if (one.keys.contains(keys[i])) sums[i] += one.units;
    return sums;
  }

  sluice::tests::Dice dice_;
  std::unique_ptr<Disk> disk_;
  base::Time now_ = start;
  std::unique_ptr<HoldLife> life_;
  std::map<std::string, Known> known_;
  int next_ = 0;
};

TEST(DurableHolds, AKillAfterAnyCommitLeavesHoldsAndCountersTogether) {
  for (uint32_t seed = 1; seed <= 8; ++seed) Trial(seed).run(40);
}

}  // namespace
}  // namespace sluice::durable::durable_holds_test
