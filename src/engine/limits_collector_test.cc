// Limits and spaces that no rule, override or counter names are forgotten: the same random script
// on a server that forgets and on one that does not (engine/limits_trial_test.h), over several
// stores.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "durable/durable_life_test.h"
#include "engine/limits_trial_test.h"
#include "live/live_policy.h"
#include "store/log/folder_test.h"
#include "store/log/log_journal.h"

namespace sluice::engine::limits_collector_test {
namespace {

using durable::Durability;
using tests::now_us;
using tests::Side;
using tests::Trial;
using tests::World;

// A durable store over that journal. Returns it when everything is loaded.
std::unique_ptr<durable::DurableStore> open_durable(Durability durability, request::Spaces& spaces,
                                                    std::unique_ptr<disk::Journal> journal) {
  auto opened = std::make_unique<durable::DurableStore>(
      durable::DurableOptions{
          .path = "DIR", .durability = durability, .interval = base::milliseconds(1)},
      std::make_unique<store::EmbeddedStore>(0, base::Hash(1), spaces), std::move(journal), spaces,
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
  std::string problem;
  EXPECT_TRUE(succeeds(opened->start(), problem)) << problem;
  durable::tests::eventually([&] { return !opened->stats().loading; });
  return opened;
}

// What a counter of a live rule has used of one of its limits.
struct Used {
  std::string rule, actor;
  limit::Limit limit;
  int64_t units;
};
std::vector<Used> used_of(World& world) {
  std::vector<Used> all;
  for (const policy::Rule& rule : world.live.current()->rules->native_rules())
    for (const std::string& actor : tests::actors)
      for (const limit::Limit& limit : rule.limits)
        all.push_back({rule.name, actor, limit, world.used(rule.name, actor, limit)});
  return all;
}

TEST(LimitsCollector, ForgettingDoesNotChangeDecisionsInMemory) {
  Trial trial(1, {});
  trial.run(10'000);
  if (HasFailure()) return;
  trial.end();
  EXPECT_LE(trial.most, 1'000u);
  EXPECT_GT(trial.late, 1'000u);
  EXPECT_GT(trial.forgets.collector->rounds(), 100u);
  EXPECT_GT(trial.remembers.world.spaces.known(), 5'000u);
}

// A durable store for each server, on two disks in memory that fail and recover together.
struct TwoDisks {
  explicit TwoDisks(Durability its_durability) : durability(its_durability) {}
  std::unique_ptr<store::Store> open(request::Spaces& spaces) {
    return open_durable(
        durability, spaces,
        std::make_unique<store::tests::MemoryJournal>(
            disks[made++], spaces, store::tests::MemoryJournal::Like{}, base::Time{now_us}));
  }
  World::Make make() {
    return [this](request::Spaces& spaces) { return open(spaces); };
  }

  const Durability durability;
  std::array<store::tests::Disk, 2> disks;
  size_t made = 0;
};

TEST(LimitsCollector, ForgettingDoesNotChangeDecisionsOnDisk) {
  TwoDisks disks(Durability::interval);
  Trial trial(2, disks.make());
  trial.run(2'000);
  if (HasFailure()) return;
  trial.end();
  EXPECT_GT(trial.late, 100u);
  EXPECT_GT(trial.forgets.collector->rounds(), 20u);
}

// A disk that fails from time to time: `fail` and `repair` it. After a repair the trial mostly
// waits until the store has noticed; else the disk may fail again before.
class FailingTrial : public Trial {
 public:
  using Trial::Trial;

  void after_step(bool) override {
    if (++steps_ % 64 != 0) return;
    const bool failing = forgets.world.made->catalog().stats().failing;
    if (!is_failing_) {
      if (disk_dice_() % 8 != 0) return;
      fail(disk_dice_() % 20'000);
      is_failing_ = true;
      left_ = disk_dice_() % 20;
    } else if (failing && left_-- == 0) {  // the store has noticed the failure
      ++failures;
      recover(disk_dice_() % 4 != 0);
    }
  }
  void before_end() override { recover(true); }

  size_t failures = 0;

 protected:
  virtual void fail(size_t bytes) = 0;  // fails after so many more bytes if it counts them
  virtual void repair() = 0;

 private:
  void recover(bool awaits) {
    repair();
    is_failing_ = false;
    for (Side* side : sides)
      if (awaits)
        durable::tests::eventually([&] { return !side->world.made->catalog().stats().failing; });
  }

  // Apart from the script's dice: when a failure is noticed depends on other threads.
  std::minstd_rand disk_dice_;
  size_t steps_ = 0, left_ = 0;
  bool is_failing_ = false;
};

class FailingDisks final : public FailingTrial {
 public:
  FailingDisks(uint32_t seed, TwoDisks& disks) : FailingTrial(seed, disks.make()), disks_(disks) {}

 private:
  void fail(size_t) override { set(true); }
  void repair() override { set(false); }
  void set(bool fails) {
    for (store::tests::Disk& disk : disks_.disks) disk.set(&store::tests::Disk::fails, fails);
  }
  TwoDisks& disks_;
};

TEST(LimitsCollector, ForgettingDoesNotChangeDecisionsOnAFailingDisk) {
  for (const Durability durability : {Durability::interval, Durability::always}) {
    TwoDisks disks(durability);
    FailingDisks trial(3, disks);
    trial.run(1'500);
    if (HasFailure()) return;
    trial.end();
    EXPECT_GT(trial.failures, 3u);
    EXPECT_GT(trial.forgets.collector->rounds(), 20u);
  }
}

// One store in files, which writes many snapshots.
class FullDisk final : public FailingTrial {
 public:
  explicit FullDisk(uint32_t seed, const World::Make& make) : FailingTrial(seed, make, {}) {}
  ~FullDisk() override { disk::limit_files(RLIM_INFINITY); }

 private:
  void fail(size_t bytes) override { disk::limit_files(bytes); }
  void repair() override { disk::limit_files(RLIM_INFINITY); }
};

TEST(LimitsCollector, ForgettingDoesNotChangeDecisionsOnAFullDisk) {
  constexpr uint64_t log_bytes = 30'000;
  const disk::Folder folder;
  const int64_t its_now_us = now_us;
  disk::LogJournal* journal = nullptr;
  const auto make = [&](request::Spaces& spaces) {
    disk::JournalOptions options;
    options.path = folder.path();
    // The journal's clock stands still, so no stored counter expires there.
    options.now = [&] { return base::Time{its_now_us}; };
    auto made = std::make_unique<disk::LogJournal>(
        std::move(options), spaces, disk::LogSizes{.log_bytes = log_bytes, .logs = 4});
    std::string problem;
    EXPECT_TRUE(succeeds(made->open(), problem)) << problem;
    journal = made.get();
    return open_durable(Durability::interval, spaces, std::move(made));
  };
  std::vector<Used> expected;
  std::string rules;
  {
    FullDisk trial(4, make);
    size_t generations = 1'500;
    trial.run(generations);
    // The threads that write to the disk may get no processor for a while: then the trial goes on,
    // and waits for them.
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(4);
    const auto stats = [&] { return trial.forgets.world.made->catalog().stats(); };
    while (!HasFailure() && std::chrono::steady_clock::now() < end &&
           (trial.failures <= 2 || journal->stats().snapshots <= 5)) {
      const uint64_t commits = stats().commits;
      trial.run(generations += 100);
      durable::tests::eventually([&] {
        const store::Stats now = stats();
        return now.failing || (now.commits > commits && now.log_bytes < 2 * log_bytes);
      });
    }
    if (HasFailure()) return;
    trial.before_end();
    EXPECT_GT(trial.failures, 2u);
    EXPECT_GT(trial.forgets.collector->rounds(), 20u);
    trial.ask_some_more();
    trial.forget_clients();
    expected = used_of(trial.remembers.world);
    rules = trial.rules_text;
    EXPECT_GT(journal->stats().snapshots, 5u);
  }
  // Counters are read back under the limits that they were written under.
  World again(1, make);
  if (HasFailure()) return;
  again.reload(rules);
  size_t used = 0;
  for (const Used& one : expected) {
    EXPECT_EQ(again.used(one.rule, one.actor, one.limit), one.units)
        << one.rule << " of " << one.actor;
    used += one.units > 0 ? 1 : 0;
  }
  EXPECT_GT(used, 0u);
}
// A thread that holds a policy from before the round may still write a counter under its limits.
TEST(LimitsCollector, WaitsUntilNoPolicyFromBeforeIsHeld) {
  Side side(true, {});
  side.reload(
      "rules:\n- { name: r, match: { k: '*' }, actor: k, limit: { quota: 3, window: 1h } }\n");
  auto held = side.world.live.current();
  side.end_rules();
  side.settle();
  const auto force_step = [&] {
    side.collector->force_step();
    if (!side.renewed) return;
    side.world.live.renew();
    side.match_again();
    std::exchange(side.renewed, nullptr)();
  };
  for (int i = 0; i < 20; ++i) force_step();
  EXPECT_EQ(side.collector->rounds(), 0u);
  EXPECT_EQ(side.world.spaces.known(), 1u);
  held.reset();
  for (int i = 0; i < 20; ++i) force_step();
  EXPECT_GE(side.collector->rounds(), 1u);
  EXPECT_EQ(side.world.spaces.known(), 0u);
}

}  // namespace
}  // namespace sluice::engine::limits_collector_test
