// A disk that fills while the real server runs: for some time its files may not grow beyond a size,
// and writes fail as on a full disk. The answers that clients received are compared with the
// counters after a kill.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "tests/e2e/file_limit.h"
#include "tests/e2e/recorded_load.h"

namespace sluice::tests::disk_full_test {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

const std::map<Spoken, uint32_t> counters{
    {Spoken::divvy, 2'000}, {Spoken::limitd, 1'000}, {Spoken::droplet, 500}};

bool eventually(const std::function<bool()>& holds) {
  for (const Deadline deadline = soon(); !holds(); std::this_thread::sleep_for(1ms))
    if (steady_clock::now() > deadline) return false;
  return true;
}

class DiskFull : public testing::TestWithParam<bool> {
 protected:
  const uint32_t seed_ = std::random_device()();
  Dice dice_{seed_};
  Folder folder_;
  Record record_{counters};
};

// The server is killed while the disk is full, or after it has recovered.
TEST_P(DiskFull, NeverForgetsAnAnsweredGrantWithDurabilityAlways) {
  const bool recovers = GetParam();
  for (int round = 0; round < 4 && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", seed " + std::to_string(seed_));
    RecordedServer server(folder_, "durability: always");
    std::string told;
    ASSERT_EQ(record_.compare(server, told), 0u) << told;
    Load load(server, {.counters = counters, .again = true}, dice_(1u << 30));
    std::this_thread::sleep_for(std::chrono::milliseconds(100 + dice_(200)));

    // From now on limitd's and droplet's grants may be forgotten: their rules are served without
    // commits.
    const Instant full = steady_clock::now();
    limit_files(server.process(), 4096);
    ASSERT_TRUE(server.process().says("rules are served by their on_store_error"))
        << server.process().err();
    EXPECT_TRUE(server.process().says("File too large"));
    const Instant told_full = steady_clock::now();
    const uint64_t limitds = load.granted_so_far(Spoken::limitd),
                   droplets = load.granted_so_far(Spoken::droplet);
    std::this_thread::sleep_for(300ms);
    EXPECT_TRUE(eventually([&] {
      return load.granted_so_far(Spoken::limitd) > limitds &&
             load.granted_so_far(Spoken::droplet) > droplets &&
             load.failed_so_far(Spoken::divvy) > 0;
    }));
    const Instant still_full = steady_clock::now();
    Instant recovered = Instant::max();
    if (recovers) {
      limit_files(server.process(), RLIM_INFINITY);
      ASSERT_TRUE(server.process().says("can be written again")) << server.process().err();
      recovered = steady_clock::now();
      // Each of the two connections may count one answer that it read before.
      const uint64_t divvys = load.granted_so_far(Spoken::divvy) + 2;
      std::this_thread::sleep_for(200ms);
      EXPECT_TRUE(eventually([&] { return load.granted_so_far(Spoken::divvy) > divvys; }));
    }
    const Instant end = steady_clock::now();
    EXPECT_EQ(server.kill(), 128 + SIGKILL);
    load.stop();

    // After the message, answers to requests that were sent before may still be granted.
    EXPECT_GT(load.answers(Spoken::divvy, Answer::failed, full, still_full), 0u);
    EXPECT_EQ(load.answers(Spoken::divvy, Answer::granted, told_full, still_full, told_full), 0u);
    EXPECT_GT(load.answers(Spoken::limitd, Answer::granted, told_full, still_full), 0u);
    EXPECT_GT(load.answers(Spoken::droplet, Answer::granted, told_full, still_full), 0u);
    EXPECT_EQ(load.answers(Spoken::limitd, Answer::failed), 0u);
    if (recovers) {
      EXPECT_GT(load.answers(Spoken::divvy, Answer::granted, recovered, end), 0u);
      record_.add(load, {}, end);  // nothing may be forgotten after the recovery
    } else {
      record_.add(load, {{Spoken::limitd, full}, {Spoken::droplet, full}}, end);
    }
  }
  if (HasFailure()) return;
  RecordedServer server(folder_, "durability: always");
  std::string told;
  EXPECT_EQ(record_.compare(server, told), 0u) << told;
  std::printf("disk full: %llu answers, %llu forgotten of limitd's and droplet's\n",
              static_cast<unsigned long long>(record_.answered),
              static_cast<unsigned long long>(record_.forgotten));
}

INSTANTIATE_TEST_SUITE_P(Killed, DiskFull, testing::Bool(), [](const auto& recovers) {
  return recovers.param ? "afterwards" : "meanwhile";
});

// The server is killed while the disk is full, and started before there is room: it serves what was
// committed, says that it cannot write, and recovers.
TEST(DiskFullAtAStart, ServesAndReportsErrorsUntilThereIsRoom) {
  const Folder folder;
  Record record(counters);
  const uint32_t seed = std::random_device()();
  Dice dice(seed);
  for (int round = 0; round < 6 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", seed " + std::to_string(seed));
    const std::string durability = round % 2 == 0 ? "durability: always" : "durability: interval";
    {
      RecordedServer server(folder, durability);
      Load load(server, {.counters = counters, .again = true}, dice(1u << 30));
      ASSERT_TRUE(eventually([&] { return load.answered_so_far() > 500; }));
      const Instant full = steady_clock::now();
      limit_files(server.process(), static_cast<rlim_t>(dice(2) == 0 ? 0 : 4096));
      ASSERT_TRUE(server.process().says("until it can be written")) << server.process().err();
      EXPECT_EQ(server.kill(), 128 + SIGKILL);
      load.stop();
      // With `interval` any of the answers may be forgotten.
      std::map<Spoken, Instant> forgets{{Spoken::limitd, full}, {Spoken::droplet, full}};
      if (round % 2 != 0)
        for (const Spoken spoken : all_spoken) forgets[spoken] = Instant{} + 1ns;
      record.add(load, forgets, steady_clock::now());
    }
    RecordedServer server(folder, durability, {.file_bytes = 0});
    ASSERT_TRUE(server.process().says("until it can be written")) << server.process().err();
    limit_files(server.process(), RLIM_INFINITY);
    ASSERT_TRUE(server.process().says("can be written again")) << server.process().err();
    std::string told;
    EXPECT_EQ(record.compare(server, told), 0u) << told;
    EXPECT_EQ(server.stop(), 0);
  }
}

TEST(DiskFullAtIntervals, ServiceContinuesAndNothingIsForgottenOnceThereIsRoom) {
  const Folder folder;
  Record record(counters);
  {
    RecordedServer server(folder, "durability: interval");
    Load load(server, {.counters = counters}, 7);
    ASSERT_TRUE(eventually([&] { return load.answered_so_far() > 1000; }));
    limit_files(server.process(), 4096);
    ASSERT_TRUE(server.process().says("counters are kept in memory only"))
        << server.process().err();
    const uint64_t before = load.answered_so_far();
    ASSERT_TRUE(eventually([&] { return load.answered_so_far() > before + 1000; }));
    limit_files(server.process(), RLIM_INFINITY);
    ASSERT_TRUE(server.process().says("can be written again")) << server.process().err();
    EXPECT_EQ(server.stop(), 0);
    load.stop();
    for (const Spoken spoken : all_spoken) EXPECT_EQ(load.answers(spoken, Answer::failed), 0u);
    record.add(load, {}, steady_clock::now());
  }
  RecordedServer server(folder, "durability: interval");
  std::string told;
  EXPECT_EQ(record.compare(server, told), 0u) << told;
}

// A copy without what was answered before would be taken for one with it.
class BackupOnAFullDisk : public testing::TestWithParam<const char*> {};

TEST_P(BackupOnAFullDisk, FailsAndLeavesNoCopyAndTheServerGoesOn) {
  const std::string durability = std::string("durability: ") + GetParam();
  const Folder folder;
  const std::string target = folder.path() + "/copy";
  const auto backup = [&] {
    return run({.arguments = {"store", "backup", folder.path() + "/data", target}});
  };
  {
    RecordedServer server(folder, durability);
    // limitd's rules are served from memory while the disk is full, with `always` as well.
    const auto talker = Talker::connect(Spoken::limitd, server.port(Spoken::limitd));
    const auto used = [&](uint32_t counter) {
      EXPECT_TRUE(talker->send(talker->request(counter, false)));
      const auto told = talker->read(counter);
      return told && told->answer == Answer::granted ? told->used : -1;
    };
    EXPECT_EQ(used(1), 1);
    limit_files(server.process(), 0);
    ASSERT_TRUE(eventually([&] {
      EXPECT_GT(used(3), 0);
      return server.err().find("until it can be written") != std::string::npos;
    }));
    EXPECT_EQ(used(5), 1);
    const Finished failed = backup();
    EXPECT_EQ(failed.status, 1) << failed.out;
    EXPECT_NE(failed.err.find("the disk cannot be written at the moment"), std::string::npos)
        << failed.err;
    for (const std::string& left : {target, target + ".new"})
      EXPECT_NE(run({.arguments = {"store", "check", left}}).status, 0) << left;
    EXPECT_EQ(used(5), 2);
    limit_files(server.process(), RLIM_INFINITY);
    ASSERT_TRUE(server.process().says("can be written again")) << server.err();
    const Finished made = backup();
    EXPECT_EQ(made.status, 0) << made.err;
    EXPECT_EQ(server.stop(), 0);
  }
  std::filesystem::remove_all(folder.path() + "/data");
  std::filesystem::rename(target, folder.path() + "/data");
  RecordedServer server(folder, durability);
  const auto talker = Talker::connect(Spoken::limitd, server.port(Spoken::limitd));
  EXPECT_TRUE(talker->send(talker->request(5, false)));
  EXPECT_EQ(talker->read(5)->used, 3);
}

INSTANTIATE_TEST_SUITE_P(Durabilities, BackupOnAFullDisk, testing::Values("interval", "always"),
                         [](const auto& its) { return std::string(its.param); });

}  // namespace
}  // namespace sluice::tests::disk_full_test
