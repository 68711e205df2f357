// The tools for a store that no server has open (disk/tools.h): check, stats, dump, repair and
// backup, against a model of the counters.
#include "disk/tools.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "disk/folder_test.h"
#include "disk/layout.h"
#include "disk/rocks_journal.h"
#include "limit/decide.h"
#include "tests/support/dice.h"

namespace sluice::disk::tools_test {
namespace {

using limit::Algorithm;
using limit::Limit;
using limit::State;

constexpr int64_t now_us = 1'700'000'000'000'000;

class ToolsTest : public testing::Test {
 protected:
  ToolsTest() {
    space = spaces.intern("ip:", ":x");
    limits_id =
        spaces.intern_limits(std::vector<Limit>{{Algorithm::fixed_window, 9, {60'000'000}, 0}});
  }
  std::unique_ptr<Journal> open(size_t fold_bytes) {
    JournalOptions options;
    options.path = folder.path();
    options.now = [] { return base::Time{now_us}; };
    auto journal = std::make_unique<RocksJournal>(
        std::move(options), spaces, Folding{fold_bytes, 1'000'000, 1 << 20, 2 << 20, 64 << 10});
    EXPECT_TRUE(succeeds(journal->open(), problem)) << problem;
    EXPECT_TRUE(succeeds(journal->read_blocks(), problem)) << problem;
    journal->start_folding();
    return journal;
  }
  void add(Journal& journal, const std::string& key, int64_t units) {
    const State cell{now_us, units};
    journal.add({space, limits_id, key, {&cell, units == 0 ? 0u : 1u}, INT64_MAX});
    if (units == 0)
      model.erase({space, key});
    else
      model[{space, key}] = {{cell}, limits_id, INT64_MAX};
  }
  // Folds the same counters many times, then leaves some blocks unfolded.
  void fill() {
    tests::Dice dice(5);
    {
      auto journal = open(1);
      for (int round = 1; round <= 30; ++round) {
        for (int i = 0; i < 300; ++i)
          add(*journal, std::to_string(dice(1000)), dice(9) == 0 ? 0 : round);
        ASSERT_TRUE(succeeds(journal->commit(), problem)) << problem;
        for (int i = 0; i < 5000 && journal->stats().unfolded_bytes > 0; ++i) ::usleep(1000);
      }
    }
    auto journal = open(1 << 20);
    for (int round = 31; round <= 35; ++round) {
      for (int i = 0; i < 100; ++i)
        add(*journal, std::to_string(dice(1200)), dice(9) == 0 ? 0 : round);
      ASSERT_TRUE(succeeds(journal->commit(), problem)) << problem;
    }
  }
  KeptByKey dumped() {
    KeptByKey all;
    const auto add = [&](const Record& record) {
      EXPECT_FALSE(record.cells.empty());
      EXPECT_TRUE(
          all.emplace(std::pair(record.space, std::string(record.key)), kept_of(record)).second);
    };
    EXPECT_TRUE(succeeds(dump(folder.path(), spaces, add), problem)) << problem;
    return all;
  }

  Folder folder;
  request::Spaces spaces;
  const request::Space* space = nullptr;
  uint32_t limits_id = 0;
  KeptByKey model;
  std::string problem;
};

TEST_F(ToolsTest, ReadDumpAndStatsOfAStore) {
  fill();
  EXPECT_EQ(dumped(), model);

  StoreStats numbers;
  ASSERT_TRUE(succeeds(stats(folder.path()), numbers, problem)) << problem;
  EXPECT_EQ(numbers.format, 3u);
  EXPECT_EQ(numbers.spaces, 1u);
  EXPECT_EQ(numbers.limits, 1u);
  EXPECT_EQ(numbers.blocks, 5u);
  EXPECT_EQ(numbers.block_counters, 500u);
  EXPECT_GT(numbers.folded, 0u);
  EXPECT_GT(numbers.bytes, numbers.block_bytes);

  CheckReport report;
  ASSERT_TRUE(succeeds(check(folder.path()), report, problem)) << problem;
  EXPECT_TRUE(report.damages.empty()) << report.damages.front();
  EXPECT_EQ(report.blocks, 5u);
  EXPECT_EQ(report.block_counters, 500u);
  EXPECT_GT(report.counters, 500u);

  const Folder elsewhere;
  ASSERT_TRUE(succeeds(backup(folder.path(), elsewhere / "copy"), problem)) << problem;
  const KeptByKey before = model;
  const auto take = [&](const Record& record) {
    EXPECT_EQ(model.erase({record.space, std::string(record.key)}), 1u);
  };
  EXPECT_TRUE(succeeds(dump(elsewhere / "copy", spaces, take), problem)) << problem;
  EXPECT_TRUE(model.empty());
}

TEST_F(ToolsTest, ReportAMissingStoreAndTheProcessThatUsesAStore) {
  CheckReport report;
  RepairReport repaired;
  StoreStats numbers;
  const auto all_say = [&](const std::string& words) {
    const auto says = [&](bool done) {
      EXPECT_FALSE(done);
      EXPECT_NE(problem.find(words), std::string::npos) << problem;
    };
    says(succeeds(check(folder.path()), report, problem));
    says(succeeds(repair(folder.path()), repaired, problem));
    says(succeeds(stats(folder.path()), numbers, problem));
    says(succeeds(dump(folder.path(), spaces, [](const Record&) {}), problem));
    says(succeeds(backup(folder.path(), folder / "copy"), problem));
  };
  all_say("there is no store in");
  const auto journal = open(1);
  all_say("is in use by process " + std::to_string(::getpid()));
}

class RepairTest : public ToolsTest {
 protected:
  std::vector<std::string> damages;  // as the last repair reported them
  std::string file_like(const std::string& part, const std::string& end) {
    std::string found;  // of several the newest
    for (const auto& at : std::filesystem::directory_iterator(folder / ("sluice/" + part))) {
      if (at.path().string().ends_with(end)) found = std::max(found, at.path().string());
    }
    EXPECT_FALSE(found.empty());
    return found;
  }
  void turn_bit(const std::string& path, std::streamoff at) {
    std::fstream f(path, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(at);
    const int byte = f.get();
    f.seekp(at);
    f.put(static_cast<char>(byte ^ 4));
    EXPECT_TRUE(f.good());
  }
  // The store is reported as damaged, is repaired, and is sound then. Returns its counters.
  KeptByKey after_repair() {
    CheckReport report;
    EXPECT_TRUE(succeeds(check(folder.path()), report, problem)) << problem;
    EXPECT_FALSE(report.damages.empty());
    RepairReport repaired;
    EXPECT_TRUE(succeeds(repair(folder.path()), repaired, problem)) << problem;
    EXPECT_FALSE(repaired.damages.empty());
    damages = repaired.damages;
    CheckReport after;
    EXPECT_TRUE(succeeds(check(folder.path()), after, problem)) << problem;
    EXPECT_TRUE(after.damages.empty()) << after.damages.front();
    const KeptByKey all = dumped();
    EXPECT_EQ(all.size(), repaired.counters);
    EXPECT_EQ(after.blocks, 0u);
    open(1);
    return all;
  }
};

// Only two index files are missing: both databases are made again from their tables, and the latest
// states win.
TEST_F(RepairTest, RebuildsBothDatabasesWithoutLoss) {
  fill();
  std::filesystem::remove(folder / "sluice/counters/CURRENT");
  std::filesystem::remove(folder / "sluice/blocks/CURRENT");
  EXPECT_EQ(after_repair(), model);
  for (const std::string& damage : damages)
    EXPECT_EQ(damage.find("lost what"), damage.npos) << damage;
  // The next repair does not report again what the last one put aside.
  std::filesystem::remove(folder / "sluice/blocks/CURRENT");
  EXPECT_EQ(after_repair(), model);
  for (const std::string& damage : damages)
    EXPECT_EQ(damage.find("lost what"), damage.npos) << damage;
}

TEST_F(RepairTest, DoesNotChangeAnUndamagedStore) {
  fill();
  RepairReport repaired;
  ASSERT_TRUE(succeeds(repair(folder.path()), repaired, problem)) << problem;
  EXPECT_TRUE(repaired.damages.empty()) << repaired.damages.front();
  EXPECT_EQ(dumped(), model);
}

TEST_F(RepairTest, KeepsTheUndamagedParts) {
  fill();
  std::filesystem::remove(folder / "sluice/FORMAT");
  EXPECT_EQ(after_repair(), model);

  turn_bit(file_like("counters", ".sst"), 300);
  EXPECT_NE(after_repair(), model);
}

TEST_F(RepairTest, KeepsTheRecordsOfALogBeforeTheDamage) {
  fill();
  const std::string log = file_like("blocks", ".log");
  turn_bit(log, static_cast<std::streamoff>(std::filesystem::file_size(log) / 2));
  const KeptByKey all = after_repair();
  EXPECT_GT(all.size(), model.size() / 2);
  EXPECT_NE(all, model);
}

TEST_F(RepairTest, KeepsTheBlocksOfAStoreWithoutCounters) {
  fill();
  std::filesystem::remove_all(folder / "sluice/counters");
  const KeptByKey all = after_repair();
  EXPECT_GT(all.size(), 100u);
  for (const auto& [key, its] : all) EXPECT_EQ(model.at(key), its);
}

// A repair that was killed between its two renames is continued by the next one.
TEST_F(RepairTest, ContinuesARepairThatWasKilled) {
  fill();
  const std::string counters = folder / "sluice/counters";
  std::filesystem::remove(counters + "/CURRENT");
  EXPECT_EQ(after_repair(), model);
  ASSERT_TRUE(std::filesystem::exists(counters + ".lost"));
  std::filesystem::rename(counters, counters + ".new");
  EXPECT_EQ(after_repair(), model);
  EXPECT_TRUE(std::filesystem::exists(counters + ".lost"));

  // The database that the repair made is damaged too: the old one stays where it is.
  std::filesystem::rename(counters, counters + ".new");
  std::filesystem::remove(counters + ".new/CURRENT");
  RepairReport repaired;
  EXPECT_FALSE(succeeds(repair(folder.path()), repaired, problem));
  EXPECT_NE(problem.find("counters.lost"), std::string::npos) << problem;
  EXPECT_TRUE(std::filesystem::exists(counters + ".lost"));
}

TEST_F(RepairTest, ReportsWhereSetAsideCountersAre) {
  fill();
  const std::string counters = folder / "sluice/counters";
  for (const char* aside : {".new", ".lost"}) {
    std::filesystem::rename(counters, counters + aside);
    RepairReport repaired;
    EXPECT_FALSE(succeeds(repair(folder.path()), repaired, problem));
    EXPECT_NE(problem.find(counters + "` is gone, and `" + counters + aside), std::string::npos)
        << problem;
    std::filesystem::rename(counters + aside, counters);
  }
  EXPECT_EQ(dumped(), model);
}

// Files that a tool makes as root belong to the store's owner.
TEST_F(RepairTest, FilesMadeByRootBelongToTheStoresOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  constexpr uid_t user = 12345;
  constexpr gid_t group = 12346;
  fill();
  for (const auto& at : std::filesystem::recursive_directory_iterator(folder.path()))
    ASSERT_EQ(::lchown(at.path().c_str(), user, group), 0);
  ASSERT_EQ(::chown(folder.path().c_str(), user, group), 0);
  const Folder elsewhere;
  std::filesystem::create_symlink(elsewhere.path(), folder / "sluice/link");
  const auto all_are_the_owners = [&](const std::string& path) {
    size_t count = 0;
    for (const auto& at : std::filesystem::recursive_directory_iterator(path)) {
      if (at.is_symlink()) continue;
      struct stat its;
      ASSERT_EQ(::lstat(at.path().c_str(), &its), 0);
      EXPECT_EQ(its.st_uid, user) << at.path();
      EXPECT_EQ(its.st_gid, group) << at.path();
      ++count;
    }
    EXPECT_GT(count, 10u);
  };
  std::filesystem::remove(folder / "sluice.lock");
  CheckReport report;
  ASSERT_TRUE(succeeds(check(folder.path()), report, problem)) << problem;
  all_are_the_owners(folder.path());
  ASSERT_TRUE(succeeds(backup(folder.path(), elsewhere / "copy"), problem)) << problem;
  all_are_the_owners(folder.path());
  all_are_the_owners(elsewhere / "copy");
  std::filesystem::remove(folder / "sluice/counters/CURRENT");
  after_repair();  // which opens the store as root
  RepairReport repaired;
  ASSERT_TRUE(succeeds(repair(folder.path()), repaired, problem)) << problem;
  all_are_the_owners(folder.path());
  struct stat its;
  ASSERT_EQ(::stat(elsewhere.path().c_str(), &its), 0);
  EXPECT_EQ(its.st_uid, 0u);
}

TEST_F(RepairTest, RefusesAnotherFormat) {
  fill();
  std::ofstream(folder / "sluice/FORMAT") << "sluice store 7, read by sluice 9.0.0 and later\n";
  RepairReport repaired;
  EXPECT_FALSE(succeeds(repair(folder.path()), repaired, problem));
  EXPECT_NE(problem.find("sluice 9.0.0 or later"), std::string::npos) << problem;
  std::ofstream(folder / "sluice/FORMAT") << "sluice store 2, read by sluice 0.1.0 and later\n";
  EXPECT_FALSE(succeeds(repair(folder.path()), repaired, problem));
  EXPECT_NE(problem.find("has format 2, which no release has"), std::string::npos) << problem;
}

}  // namespace
}  // namespace sluice::disk::tools_test
