// Counters under windows of the calendar in a durable store that is stopped, killed and started
// while the time goes on, with limits that change and a disk that fails: every decision is that of
// a list of grants (testing/calendar_model.h), of which a kill loses those that were not committed.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "durable/durable_life_test.h"
#include "testing/calendar_model.h"
#include "tests/support/dice.h"

namespace sluice::durable {
namespace {

using namespace store::tests;
using namespace tests;
using base::Time;
using sluice::tests::CalendarCounter;
using sluice::tests::Dice;
using sluice::tests::ModelKinds;
using sluice::tests::ModelLimit;

using List = std::vector<ModelLimit>;
using Counters = std::map<std::string, CalendarCounter>;

class CalendarTrial {
 public:
  CalendarTrial(uint32_t seed, const ModelKinds& kinds) : dice_(seed), kinds_(kinds) {
    for (const char* key : {"a", "b", "c"}) counters_.emplace(key, CalendarCounter(kinds));
    for (int i = 0; i < 3; ++i) lists_.push_back(random_model_limits(dice_, kinds));
    kept_ = counters_;
    start_life();
  }

  void run(int steps) {
    for (int step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE(step);
      switch (dice_(24)) {
        case 0:
          stop();
          break;
        case 1:
          kill();
          break;
        case 2:
          set_fails(dice_(2) == 0);
          break;
        case 3:
          if (!holds_) disk_->fold();
          break;
        case 4:
          for (int n = 0; n < 3; ++n) life_->store->housekeep({now_});
          break;
        case 5:
        case 6:
        case 7:
        case 8:
          pass();
          break;
        default:
          ask();
      }
    }
    set_fails(false);
    hold(false);
  }

  size_t granted = 0, refused = 0, lost = 0, stopped = 0, failed = 0;

 private:
  void start_life() { life_.emplace(*disk_, Durability::always, Time{now_}); }
  void pass() {
    now_ = sluice::tests::random_later(dice_, kinds_, lists_[dice_(lists_.size())], now_);
  }
  void hold(bool holds) {
    holds_ = holds;
    disk_->set(&Disk::holds_commits, holds);
  }
  void set_fails(bool fails) {
    disk_->set(&Disk::fails, fails);
    failed += fails;
  }
  // All that was decided is on the disk, and the next decisions are not until hold() ends.
  void commit() {
    hold(false);
    set_fails(false);
    life_->until_committed();
    eventually([this] { return !life_->store->stats().failing; });
    life_->until_committed();
    kept_ = counters_;
  }
  void stop() {
    commit();
    life_.reset();
    pass();
    start_life();
    ++stopped;
  }
  void kill() {
    commit();
    hold(true);
    for (int i = dice_(6); i > 0; --i) ask();
    if (dice_(2) == 0) pass();
    auto left = std::make_unique<Disk>();
    {
      const std::lock_guard lock(disk_->mutex);
      left->blocks = disk_->blocks;
      left->folded = disk_->folded;
    }
    hold(false);
    life_.reset();
    disk_ = std::move(left);
    counters_ = kept_;
    if (dice_(2) == 0) pass();
    start_life();
    ++lost;
  }

  void ask() {
    const std::string key(1, static_cast<char>('a' + dice_(3)));
    const List& list = lists_[dice_(3) == 0 ? dice_(lists_.size()) : 0];
    CalendarCounter& counter = counters_.at(key);
    const int64_t n = dice_(int64_t{8});
    const Part part{key, n, sluice::tests::limits_of(list)};
    const int what = dice_(10);
    const auto verb = what == 0   ? Verb::put
                      : what == 1 ? Verb::peek
                      : what < 4  ? Verb::charge
                                  : Verb::take;
    SCOPED_TRACE(key + " " + std::string(name_of(verb)) + " " + std::to_string(n) + " " +
                 list.front().kind + " at " + std::to_string(now_));
    Asked asked = life_->world.prepare({part}, verb);
    asked.group.on_error = request::OnError::local;
    life_->settle(asked, {now_});
    if (verb == Verb::put) return counter.put(list, n, now_);
    if (verb == Verb::charge) counter.charge(list, n, now_);
    if (verb == Verb::take) {
      const bool allowed = counter.take(list, n, now_);
      ASSERT_EQ(asked.allowed(), allowed);
      ++(allowed ? granted : refused);
    }
    for (size_t i = 0; i < list.size(); ++i) {
      const int64_t used = counter.used(list[i].kind, now_);
      ASSERT_EQ(asked[i].remaining, list[i].quota - used) << i;
      ASSERT_EQ(asked[i].reset_after.us, used > 0 ? kinds_.at(list[i].kind).of(now_).end - now_ : 0)
          << i;
    }
  }

  Dice dice_;
  const ModelKinds& kinds_;
  std::vector<List> lists_;
  Counters counters_, kept_;
  int64_t now_ = 1'795'334'123 * second;
  std::unique_ptr<Disk> disk_ = std::make_unique<Disk>();
  bool holds_ = false;
  std::optional<Life> life_;
};

TEST(DurableCalendars, EveryDecisionIsThatOfAListOfGrants) {
  const ModelKinds kinds = sluice::tests::recorded_kinds();
  size_t granted = 0, refused = 0, lost = 0, stopped = 0, failed = 0;
  for (uint32_t seed = 1; seed <= 30 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    CalendarTrial trial(seed, kinds);
    trial.run(120);
    granted += trial.granted, refused += trial.refused, lost += trial.lost;
    stopped += trial.stopped, failed += trial.failed;
  }
  EXPECT_GT(granted, 300u);
  EXPECT_GT(refused, 100u);
  EXPECT_GT(lost, 100u);
  EXPECT_GT(stopped, 100u);
  EXPECT_GT(failed, 50u);
}

}  // namespace
}  // namespace sluice::durable
