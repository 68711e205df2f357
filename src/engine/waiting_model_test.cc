// Random requests of many clients over a store that may answer `later` at any time. Meanwhile
// policies are reloaded, overrides are set, expire and are removed, clients leave, time passes, and
// the clock is set ahead and back. A model accounts for each unit: what the store charged was
// granted to one request, once; a request waits only if it has to; a list has what was true at a
// time between its request and its reply; at the end no state is left.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/result_test.h"
#include "durable/durable_store.h"
#include "engine/waiting_trial_test.h"
#include "testing/memory_journal_test.h"

namespace sluice::engine::waiting_model_test {
namespace {

using namespace tests;
using namespace waiting_trial;

TEST(WaitingModel, AccountsForEveryUnit) {
  Counts all;
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Trial trial(seed, 1 + seed % 3);
    trial.run(600);
    if (HasFailure()) return;
    all.add(trial.counts);
  }
  EXPECT_GT(all.granted, 5'000u);
  EXPECT_GT(all.late, 5'000u);
  EXPECT_GT(all.refused, 5'000u);
  EXPECT_GT(all.suspended, 3'000u);
  EXPECT_GT(all.lost, 0u);
  EXPECT_GT(all.stopped, 50u);
  std::printf(
      "%zu granted, %zu late, %zu refused, %zu batches put off, %zu grants to clients that "
      "had gone\n",
      all.granted, all.late, all.refused, all.suspended, all.lost);
}

// With lists in the same batches, more than a connection may have; in one of eight trials with more
// clients than may have a list read at once; in most with a clock that is set ahead and back.
TEST(WaitingModel, AccountsForEveryUnitWithListsAndClockSteps) {
  Counts all;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const bool crowded = seed % 8 == 0;
    Trial trial(
        seed, crowded ? 1 : 1 + seed % 3,
        {.clients = size_t{crowded ? 100u : 6u}, .lists = true, .clock_steps = seed % 4 > 0});
    trial.run(600);
    if (HasFailure()) return;
    all.add(trial.counts);
  }
  EXPECT_GT(all.late, 400u);
  EXPECT_GT(all.suspended, 400u);
  EXPECT_GT(all.lists, 5'000u);
  EXPECT_GT(all.listed, 10'000u);
  EXPECT_GT(all.held_back, 20u);
  EXPECT_GT(all.beside_lists, 1'000u);
  EXPECT_GT(all.left_lists, 50u);
  EXPECT_GT(all.set_back, 100u);
  std::printf("%zu lists of %zu counters, %zu batches held back, %zu lists left\n", all.lists,
              all.listed, all.held_back, all.left_lists);
}

// Some requests wait for a limited time, are cancelled by another client, or are refused at once
// because they ask for more than the limit.
TEST(WaitingModel, AccountsForEveryUnitWithDeadlinesAndCancels) {
  Counts all;
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Trial trial(seed, 1 + seed % 3, {.clock_steps = seed % 3 == 0, .patience = true});
    trial.run(600);
    if (HasFailure()) return;
    all.add(trial.counts);
  }
  EXPECT_GT(all.late, 1'000u);
  EXPECT_GT(all.expired, 1'000u);
  EXPECT_GT(all.interrupted, 1'000u);
  EXPECT_GT(all.did_not_fit, 10u);
  EXPECT_GT(all.suspended, 1'000u);
  std::printf("%zu late, %zu expired, %zu interrupted, %zu did not fit\n", all.late, all.expired,
              all.interrupted, all.did_not_fit);
}

// Rules with `fair_by` and without take each other's place while requests wait, some of which are
// without the entry.
TEST(WaitingModel, AccountsForEveryUnitInTurnByAKey) {
  Counts all;
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Trial trial(seed, 1 + seed % 3,
                {.clock_steps = seed % 3 == 0, .patience = seed % 2 == 0, .fair = true});
    trial.run(600);
    if (HasFailure()) return;
    all.add(trial.counts);
  }
  EXPECT_GT(all.late, 1'000u);
  EXPECT_GT(all.expired, 300u);
  EXPECT_GT(all.interrupted, 300u);
  EXPECT_GT(all.suspended, 1'000u);
  std::printf("%zu late, %zu expired, %zu interrupted\n", all.late, all.expired, all.interrupted);
}

// The same over a durable store that is loading all the time: each counter is on disk and is
// fetched alone.
TEST(WaitingModel, AccountsForEveryUnitOverALoadingDurableStore) {
  namespace durable = store::tests;
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    durable::Disk disk;
    const auto log =
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
    disk.holds_scans = true;
    constexpr int64_t used_before = 2;
    World names(0);
    names.reload(
        "rules:\n- { name: pool, match: { k: '*' }, actor: k, limit: { quota: 3, window: 1h, "
        "algorithm: fixed_window } }\n");
    const request::Space& space = *names.rule("pool").space;
    for (const char* key : {"a", "b", "c"})
      disk.folded[{space.prefix, space.suffix, key}] = {
          {window(10)}, {{now_us + base::seconds(30'000'000).us, used_before}}, INT64_MAX};
    {
      const auto make = [&](request::Spaces& spaces) {
        auto opened = std::make_unique<sluice::durable::DurableStore>(
            sluice::durable::DurableOptions{.path = "DIR",
                                            .durability = sluice::durable::Durability::interval,
                                            .interval = base::milliseconds(1)},
            std::make_unique<store::EmbeddedStore>(0, base::Hash(1), spaces),
            std::make_unique<store::tests::MemoryJournal>(
                disk, spaces, store::tests::MemoryJournal::Like{}, base::Time{now_us}),
            spaces, log);
        std::string problem;
        EXPECT_TRUE(succeeds(opened->start(), problem)) << problem;
        return opened;
      };
      Trial trial(seed, 1 + seed % 2, {.fair = seed % 2 == 0}, make, used_before);
      trial.run(200);
      EXPECT_TRUE(trial.world.store.stats().loading);
      disk.set(&durable::Disk::holds_scans, false);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace sluice::engine::waiting_model_test
