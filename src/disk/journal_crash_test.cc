// A journal over kills and on full disks, against a model of what was committed. The process that
// is killed is this program, started again.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "disk/folder_test.h"
#include "disk/rocks_journal.h"
#include "tests/support/dice.h"
#include "tests/support/environment.h"

namespace sluice::disk::journal_crash_test {
namespace {

using limit::State;

constexpr int64_t now_us = 1'700'000'000'000'000;
constexpr const char* folder_variable = "SLUICE_CRASH_FOLDER";
constexpr const char* round_variable = "SLUICE_CRASH_ROUND";

struct World {
  request::Spaces spaces;
  const request::Space* space = nullptr;
  uint32_t limits_id = 0;
  std::string problem;
  std::unique_ptr<RocksJournal> journal;

  bool open(const std::string& path, Folding folding) {
    space = spaces.intern("crash:", "");
    limits_id = spaces.intern_limits(
        std::vector<limit::Limit>{{limit::Algorithm::fixed_window, 10, base::seconds(1), 0}});
    JournalOptions options;
    options.path = path;
    options.now = [] { return base::Time{now_us}; };
    journal = std::make_unique<RocksJournal>(std::move(options), spaces, folding);
    return succeeds(journal->open(), problem);
  }
  void add(const std::string& key, int64_t units) const {
    const State cell{now_us, units};
    journal->add({space, limits_id, key, {&cell, units == 0 ? 0u : 1u}, INT64_MAX});
  }
};

// What round `n` writes: counters with the number `n`, or 0, which erases the counter.
template <class Add>
void round_of(int64_t n, Add&& add) {
  tests::Dice dice(static_cast<uint32_t>(n));
  for (int i = dice(300) + 50; i > 0; --i) {
    const int number = dice(dice(2) == 0 ? 50 : 5000);
    add("k" + std::to_string(number), dice(10) == 0 ? 0 : n);
  }
  // Every round also writes its number, so that the test can tell which round was committed last.
  add("round", n);
}

// Each block is folded at once; flushes and compactions run all the time.
constexpr Folding busy{1, 1, 256 << 10, 512 << 10, 32 << 10};

// Not a test: the child process that the next test starts and kills. It writes one line for each
// committed round.
TEST(JournalCrash, DISABLED_Child) {
  const char* const folder = std::getenv(folder_variable);
  const char* const first = std::getenv(round_variable);
  if (folder == nullptr || first == nullptr) GTEST_SKIP();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  World world;
  ASSERT_TRUE(world.open(folder, busy)) << world.problem;
  ASSERT_TRUE(succeeds(world.journal->read_blocks(), world.problem)) << world.problem;
  world.journal->start_folding();
  for (int64_t n = std::atoll(first);; ++n) {
    round_of(n, [&](const std::string& key, int64_t units) { world.add(key, units); });
    ASSERT_TRUE(succeeds(world.journal->commit(), world.problem)) << world.problem;
    const std::string line = "committed " + std::to_string(n) + "\n";
    if (::write(3, line.data(), line.size()) < 0) return;
  }
}

// Starts the child and kills it `after_ms` after its first commit. Returns the last round that the
// child reported, or 0.
int64_t run_and_kill(const std::string& folder, int64_t first, int after_ms) {
  int pipe[2];
  if (::pipe(pipe) != 0) return 0;
  ::setenv(folder_variable, folder.c_str(), 1);
  ::setenv(round_variable, std::to_string(first).c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe[1], 3);
    if (pipe[0] != 3) ::close(pipe[0]);
    ::execl("/proc/self/exe", "disk_test", "--gtest_filter=JournalCrash.DISABLED_Child",
            "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
    ::_exit(127);
  }
  ::close(pipe[1]);
  std::string said;
  char bytes[4096];
  bool killed = false;
  std::thread killer;
  for (ssize_t n; (n = ::read(pipe[0], bytes, sizeof bytes)) > 0;) {
    said.append(bytes, static_cast<size_t>(n));
    if (killed) continue;
    // The time counts from the first commit, as opening the store takes a while.
    killed = true;
    killer = std::thread([child, after_ms] {
      std::this_thread::sleep_for(std::chrono::microseconds(after_ms * 1000 + 137));
      ::kill(child, SIGKILL);
    });
  }
  if (killer.joinable()) killer.join();
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(pipe[0]);
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  const size_t end = said.rfind('\n');
  const size_t at = said.rfind("committed ", end);
  if (end == std::string::npos || at == std::string::npos) return 0;
  return std::atoll(said.c_str() + at + 10);
}

TEST(JournalCrash, AKillLosesNothingCommittedAndRepeatsNothing) {
  const Folder folder;
  tests::Dice dice(11);
  std::map<std::string, int64_t> model;
  int64_t done = 0;
  const auto apply = [&](int64_t n) {
    round_of(n, [&](const std::string& key, int64_t units) { model[key] = units; });
    done = n;
  };
  const int crashes = tests::number_from_environment("SLUICE_CRASHES", 12);
  for (int crash = 0; crash < crashes; ++crash) {
    const int64_t told = run_and_kill(folder / "data", done + 1, dice(dice(2) == 0 ? 20 : 400));
    ASSERT_GT(told, done);
    while (done < told) apply(done + 1);

    World world;
    ASSERT_TRUE(world.open(folder / "data", {})) << world.problem;
    KeptByKey all;
    ASSERT_TRUE(succeeds(read_all(*world.journal, all), world.problem)) << world.problem;
    // The child may have committed one more round than it could report.
    const auto round = all.find({world.space, "round"});
    ASSERT_NE(round, all.end());
    const int64_t reached = round->second.cells[0].units;
    ASSERT_TRUE(reached == told || reached == told + 1) << reached << " " << told;
    if (reached > told) apply(reached);
    size_t kept = 0;
    for (const auto& [key, units] : model) {
      const auto at = all.find({world.space, key});
      ASSERT_EQ(at != all.end(), units != 0) << key << " crash " << crash;
      if (units == 0) continue;
      ++kept;
      ASSERT_EQ(at->second.cells[0].units, units) << key << " crash " << crash;
    }
    ASSERT_EQ(all.size(), kept);
  }
}

class FullDisk : public testing::Test {
 protected:
  FullDisk() {
    EXPECT_TRUE(world.open(folder / "data", folding)) << world.problem;
    EXPECT_TRUE(succeeds(world.journal->read_blocks(), world.problem));
    world.journal->start_folding();
  }
  ~FullDisk() override { limit_files(RLIM_INFINITY); }

  void add_round(int64_t n) {
    round_of(n, [&](const std::string& key, int64_t units) {
      world.add(key, units);
      model[key] = units;
    });
  }
  bool commit() { return succeeds(world.journal->commit(), world.problem); }
  bool commits_within(int seconds) {
    for (int i = 0; i < seconds * 100; ++i) {
      if (commit()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  // Opens the store again, as another process would, and compares all counters with the model.
  void expect_model() {
    world.journal.reset();
    World again;
    ASSERT_TRUE(again.open(folder / "data", {})) << again.problem;
    KeptByKey all;
    ASSERT_TRUE(succeeds(read_all(*again.journal, all), again.problem)) << again.problem;
    for (const auto& [key, units] : model) {
      const auto at = all.find({again.space, key});
      ASSERT_EQ(at != all.end(), units != 0) << key;
      if (units == 0) continue;
      ASSERT_EQ(at->second.cells[0].units, units) << key;
    }
  }

  static constexpr Folding folding{16 << 10, 1000, 256 << 10, 512 << 10, 64 << 10};
  Folder folder;
  World world;
  std::map<std::string, int64_t> model;
};

TEST_F(FullDisk, AFailedCommitIsKeptAndSucceedsLater) {
  int64_t n = 0;
  for (; n < 20; ++n) {
    add_round(n + 1);
    ASSERT_TRUE(commit()) << world.problem;
  }
  for (int trouble = 0; trouble < 3; ++trouble) {
    limit_files(4096);
    for (int i = 0; i < 30; ++i) {
      add_round(++n);
      ASSERT_FALSE(commit() && i > 9) << trouble << " " << i << " " << world.problem;
    }
    EXPECT_NE(world.problem.find("File too large"), std::string::npos) << world.problem;
    EXPECT_NE(world.problem.find(folder / "data"), std::string::npos) << world.problem;
    EXPECT_GT(world.journal->pending(), 0u);
    EXPECT_GT(world.journal->stats().failures, 0u);
    // Folded counters can be read meanwhile.
    EXPECT_NE(world.journal->find(*world.space, "round", [](const Record&) {}),
              Journal::Found::failed)
        << trouble << " " << world.problem;
    limit_files(RLIM_INFINITY);
    ASSERT_TRUE(commits_within(10)) << world.problem;
    EXPECT_EQ(world.journal->pending(), 0u);
    add_round(++n);
    ASSERT_TRUE(commit()) << world.problem;
  }
  expect_model();
}

// After a kill or a stop while the disk is full, a start serves what was committed, and commits
// succeed again once there is room.
TEST_F(FullDisk, StartsWithoutRoom) {
  int64_t n = 0;
  for (int round = 0; round < 4; ++round) {
    SCOPED_TRACE(round);
    for (int i = 0; i < 20; ++i) {
      add_round(++n);
      ASSERT_TRUE(commit()) << world.problem;
    }
    const auto kept = model;
    limit_files(4096);
    // These commits fail; the first failed one leaves the beginning of its write in the log.
    for (int i = 0; i < 3 + round; ++i) {
      round_of(n + 1000, [&](const std::string& key, int64_t units) { world.add(key, units); });
      EXPECT_FALSE(commit());
    }
    world.journal.reset();
    limit_files(0);
    ASSERT_TRUE(world.open(folder / "data", folding)) << world.problem;
    std::string why;
    EXPECT_FALSE(succeeds(world.journal->try_to_write(), why));
    EXPECT_NE(why.find("File too large"), std::string::npos) << why;
    KeptByKey all;
    ASSERT_TRUE(succeeds(read_all(*world.journal, all), world.problem)) << world.problem;
    for (const auto& [key, units] : kept) {
      const auto at = all.find({world.space, key});
      ASSERT_EQ(at != all.end(), units != 0) << key;
      if (units != 0) {
        ASSERT_EQ(at->second.cells[0].units, units) << key;
      }
    }
    world.journal->start_folding();
    add_round(++n);
    EXPECT_FALSE(commit());
    EXPECT_FALSE(succeeds(world.journal->try_to_write(), why));
    EXPECT_TRUE(world.journal->metadata()->read([](std::string_view, std::string_view) {}));
    EXPECT_FALSE(world.journal->metadata()->write({}));
    limit_files(RLIM_INFINITY);
    ASSERT_TRUE(commits_within(10)) << world.problem;
    EXPECT_TRUE(succeeds(world.journal->try_to_write(), why)) << why;
    const auto written = world.journal->metadata()->write({});
    EXPECT_TRUE(written) << written.problem.text;
  }
  expect_model();
}

TEST_F(FullDisk, BoundsTheUncommittedStates) {
  limit_files(4096);
  // 100 MiB: 4,000,000 states of 300,000 counters.
  for (int64_t i = 0; i < 4'000'000; ++i) {
    const std::string key = "some key of a counter " + std::to_string(i % 300'000);
    world.add(key, i + 1);
    model[key] = i + 1;
    if (i % 100'000 == 0) commit();
  }
  EXPECT_LT(world.journal->pending(), 2'500'000u);
  limit_files(RLIM_INFINITY);
  ASSERT_TRUE(commits_within(20)) << world.problem;
  expect_model();
}

TEST_F(FullDisk, AFailedFoldIsCountedAndSucceedsLater) {
  // Commits are small and fit; the table that a fold writes does not.
  for (int64_t i = 0; i < 30'000; ++i) {
    world.add("key " + std::to_string(i), i + 1);
    model["key " + std::to_string(i)] = i + 1;
    if (i == 10) limit_files(200 << 10);
    if (i % 1000 == 0) commit();
  }
  for (int i = 0; i < 500 && world.journal->stats().failures == 0; ++i) {
    commit();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GT(world.journal->stats().failures, 0u);
  limit_files(RLIM_INFINITY);
  ASSERT_TRUE(commits_within(20)) << world.problem;
  for (int i = 0; i < 1000 && world.journal->stats().unfolded_bytes >= folding.bytes; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LT(world.journal->stats().unfolded_bytes, folding.bytes);
  KeptByKey found;
  EXPECT_EQ(world.journal->find(*world.space, "key 5", collect(found)), Journal::Found::yes);
  expect_model();
}

// The same on a file system that is full, where the test may mount one.
class SmallDisk : public FullDisk {
 protected:
  SmallDisk() {
    world.journal.reset();
    std::filesystem::remove_all(folder / "data");
    std::filesystem::create_directory(folder / "data");
    mounted = ::mount("none", (folder / "data").c_str(), "tmpfs", 0, "size=4m") == 0;
    if (!mounted) return;
    EXPECT_TRUE(world.open(folder / "data", folding)) << world.problem;
    EXPECT_TRUE(succeeds(world.journal->read_blocks(), world.problem));
    world.journal->start_folding();
  }
  ~SmallDisk() override {
    world.journal.reset();
    if (mounted) ::umount((folder / "data").c_str());
  }
  bool mounted = false;
};

TEST_F(SmallDisk, FailsAndRecovers) {
  if (!mounted) GTEST_SKIP() << "no right to mount a tmpfs";
  int64_t n = 0;
  for (int trouble = 0; trouble < 2; ++trouble) {
    {
      std::ofstream ballast(folder / "data/ballast", std::ios::binary);
      const std::string block(4096, 'x');
      while (ballast.write(block.data(), 4096).flush().good()) {
      }
    }
    int failures = 0;
    for (int i = 0; i < 200; ++i) {
      add_round(++n);
      if (!commit()) ++failures;
    }
    EXPECT_GT(failures, 0);
    EXPECT_NE(world.problem.find("No space left on device"), std::string::npos) << world.problem;
    std::filesystem::remove(folder / "data/ballast");
    ASSERT_TRUE(commits_within(10)) << world.problem;
  }
  expect_model();
}

TEST_F(SmallDisk, StartsWithoutRoom) {
  if (!mounted) GTEST_SKIP() << "no right to mount a tmpfs";
  int64_t n = 0;
  for (int round = 0; round < 16; ++round) {
    SCOPED_TRACE(round);
    add_round(++n);
    ASSERT_TRUE(commit()) << world.problem;
    {
      std::ofstream ballast(folder / "data/ballast", std::ios::binary);
      const std::string block(1000 + 37 * static_cast<size_t>(round), 'x');
      while (ballast.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
      }
    }
    // Commits until the file system is full; the last write is left incomplete.
    while (commit()) add_round(++n);
    world.journal.reset();
    ASSERT_TRUE(world.open(folder / "data", folding)) << world.problem;
    KeptByKey all;
    ASSERT_TRUE(succeeds(read_all(*world.journal, all), world.problem)) << world.problem;
    EXPECT_EQ(all.at({world.space, "round"}).cells[0].units, n - 1);
    world.journal->start_folding();
    round_of(n, [&](const std::string& key, int64_t units) { world.add(key, units); });
    std::filesystem::remove(folder / "data/ballast");
    ASSERT_TRUE(commits_within(10)) << world.problem;
  }
  expect_model();
}

}  // namespace
}  // namespace sluice::disk::journal_crash_test
