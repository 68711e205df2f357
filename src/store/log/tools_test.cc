// The tools for a store that no server has open (store/log/tools.h): check, stats, dump, repair and
// backup, against a model of the counters.
#include "store/log/tools.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "limit/decide.h"
#include "store/log/folder.h"
#include "store/log/folder_test.h"
#include "store/log/log_journal.h"
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
  std::unique_ptr<Journal> open(const LogSizes& sizes = {}) {
    JournalOptions options;
    options.path = folder.path();
    options.offline = true;
    options.now = [] { return base::Time{now_us}; };
    auto journal = std::make_unique<LogJournal>(std::move(options), spaces, sizes);
    EXPECT_TRUE(succeeds(journal->open(), problem)) << problem;
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
  // Leaves a snapshot, and more in the log.
  void fill() {
    tests::Dice dice(5);
    {
      auto journal = open({.log_bytes = 1000, .logs = 100});
      for (int round = 1; round <= 30; ++round) {
        for (int i = 0; i < 300; ++i)
          add(*journal, std::to_string(dice(1000)), dice(9) == 0 ? 0 : round);
        ASSERT_TRUE(succeeds(journal->commit(), problem)) << problem;
      }
      journal->all_is_loaded(table_of(model));
      ASSERT_TRUE(wait_for_snapshots(*journal, 1));
    }
    auto journal = open();
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
  EXPECT_EQ(numbers.format, format_number);
  EXPECT_GT(numbers.snapshot_counters, 500u);
  EXPECT_EQ(numbers.log_counters, 500u);
  EXPECT_GT(numbers.bytes, numbers.snapshot_bytes + 500);

  CheckReport report;
  ASSERT_TRUE(succeeds(check(folder.path()), report, problem)) << problem;
  EXPECT_TRUE(report.damages.empty()) << report.damages.front();
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
  const auto journal = open();
  all_say("is in use by process " + std::to_string(::getpid()));
}

class RepairTest : public ToolsTest {
 protected:
  std::vector<std::string> damages;  // as the last repair reported them
  std::string newest(std::string_view kind) {
    const uint64_t number = numbers_of(folder.path(), kind)->back();
    return kind == log_kind ? log_of(folder.path(), number) : snapshot_of(folder.path(), number);
  }
  // Of the logs the one that has the most.
  std::string largest_log() {
    std::string found;
    const auto numbers = numbers_of(folder.path(), log_kind);
    for (const uint64_t number : *numbers) {
      const std::string path = log_of(folder.path(), number);
      if (found.empty() || std::filesystem::file_size(path) > std::filesystem::file_size(found))
        found = path;
    }
    return found;
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
    EXPECT_EQ(after.block_counters, 0u);
    // What was there stays aside.
    EXPECT_TRUE(std::filesystem::exists(folder / "sluice.damaged"));
    std::filesystem::remove_all(folder / "sluice.damaged");
    open();
    return all;
  }
};

TEST_F(RepairTest, DoesNotChangeTheCountersOfAnUndamagedStore) {
  fill();
  RepairReport repaired;
  ASSERT_TRUE(succeeds(repair(folder.path()), repaired, problem)) << problem;
  EXPECT_TRUE(repaired.damages.empty()) << repaired.damages.front();
  EXPECT_EQ(repaired.counters, model.size());
  EXPECT_EQ(dumped(), model);
  EXPECT_FALSE(std::filesystem::exists(folder / "sluice.damaged"));
}

// A large store is read in many passes, whatever parts its snapshot has.
TEST_F(RepairTest, ReadsAStoreInManyPasses) {
  fill();
  const uint64_t before = std::exchange(pass_bytes, 700);
  for (const uint64_t bytes : {uint64_t{700}, uint64_t{40}}) {
    pass_bytes = bytes;
    EXPECT_EQ(dumped(), model);
    RepairReport repaired;
    ASSERT_TRUE(succeeds(repair(folder.path()), repaired, problem)) << problem;
    EXPECT_EQ(repaired.counters, model.size());
    EXPECT_EQ(dumped(), model);
  }
  pass_bytes = before;
}

// Small files that can be made again.
TEST_F(RepairTest, LosesNothingWithCurrentAndSynced) {
  fill();
  std::filesystem::remove(folder / "sluice/CURRENT");
  EXPECT_EQ(after_repair(), model);
  std::ofstream(folder / "sluice/SYNCED") << "?";
  EXPECT_EQ(after_repair(), model);
}

TEST_F(RepairTest, KeepsTheBlocksOfASnapshotThatCheck) {
  fill();
  turn_bit(newest(snapshot_kind), 3000);
  const KeptByKey all = after_repair();
  EXPECT_GT(all.size(), model.size() / 2);
  size_t lost = 0;
  for (const auto& [key, its] : model) lost += all.contains(key) ? 0u : 1u;
  EXPECT_GT(lost, 0u);
  EXPECT_LT(lost, model.size() / 2);
  EXPECT_NE(damages[1].find("bytes are not as they were written, and are lost"), std::string::npos)
      << damages[1];
}

TEST_F(RepairTest, KeepsTheBlocksOfALogBeforeAndBehindTheDamage) {
  fill();
  const std::string log = largest_log();
  turn_bit(log, std::filesystem::file_size(log) / 2);
  const KeptByKey all = after_repair();
  EXPECT_NE(all, model);
  for (const auto& [key, its] : all) EXPECT_TRUE(model.contains(key) || its.cells[0].units < 35);
  const auto of_last_round = [](const KeptByKey& its) {
    return std::count_if(its.begin(), its.end(),
                         [](const auto& at) { return at.second.cells[0].units == 35; });
  };
  EXPECT_EQ(of_last_round(all), of_last_round(model));
}

// A client may choose a key as it likes, but does not know the store's id.
TEST_F(RepairTest, TakesNoKeyForABlock) {
  open();
  const uint64_t next = numbers_of(folder.path(), log_kind)->back() + 1;
  std::string key;
  for (uint64_t number = 0; number <= next + 1; ++number) {
    CountersWriter writer(spaces);
    const State cell{now_us, 1};
    writer.add({space, limits_id, "forged", {&cell, 1}, INT64_MAX});
    WrittenBlock block = writer.take();
    block.seal(number, 0);
    key += block.body + block.rest;
  }
  {
    auto journal = open();
    add(*journal, "before", 3);
    ASSERT_TRUE(succeeds(journal->commit(), problem)) << problem;
    add(*journal, key, 3);
    ASSERT_TRUE(succeeds(journal->commit(), problem)) << problem;
  }
  std::fstream file(log_of(folder.path(), next), std::ios::in | std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const size_t at = bytes.find(key);
  ASSERT_NE(at, std::string::npos);
  turn_bit(log_of(folder.path(), next), at - 1);
  const KeptByKey all = after_repair();
  EXPECT_EQ(all.size(), 1u);
  EXPECT_TRUE(all.contains({space, "before"}));
}

TEST_F(RepairTest, KeepsTheLogOfAStoreWithoutItsSnapshot) {
  fill();
  std::filesystem::remove(newest(snapshot_kind));
  const KeptByKey all = after_repair();
  EXPECT_GT(all.size(), 100u);
  for (const auto& [key, its] : all) EXPECT_EQ(model.at(key), its);
  EXPECT_NE(damages[1].find("is missing: the counters that it had are lost"), std::string::npos)
      << damages[1];
}

TEST_F(RepairTest, ImportedCountersStandBesideThoseThatAreThere) {
  fill();
  const State other{now_us + 77, 5};
  auto importer = Importer::open(folder.path(), base::Time{now_us}, spaces);
  ASSERT_TRUE(importer) << importer.problem().text;
  size_t added = 0;
  for (int i = 0; i < 1500; ++i) {
    const std::string key = std::to_string(i);
    const auto done = (*importer)->add(*space, limits_id, key, other);
    ASSERT_TRUE(done) << done.problem().text;
    const bool is_there = model.contains({space, key});
    ASSERT_EQ(*done == Importer::Added::there, is_there) << key;
    if (!is_there) model[{space, key}] = {{other}, limits_id, other.fresh_at_us};
    added += is_there ? 0u : 1u;
  }
  EXPECT_GT(added, 300u);
  ASSERT_TRUE(succeeds((*importer)->finish(), problem)) << problem;
  importer->reset();
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
    EXPECT_GT(count, 3u);
  };
  std::filesystem::remove(folder / "sluice.lock");
  CheckReport report;
  ASSERT_TRUE(succeeds(check(folder.path()), report, problem)) << problem;
  all_are_the_owners(folder.path());
  ASSERT_TRUE(succeeds(backup(folder.path(), elsewhere / "copy"), problem)) << problem;
  all_are_the_owners(folder.path());
  all_are_the_owners(elsewhere / "copy");
  std::filesystem::remove(folder / "sluice/CURRENT");
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
  std::ofstream(folder / "sluice/CURRENT") << "sluice store 7, read by sluice 9.0.0 and later\n";
  RepairReport repaired;
  EXPECT_FALSE(succeeds(repair(folder.path()), repaired, problem));
  EXPECT_NE(problem.find("sluice 9.0.0 or later"), std::string::npos) << problem;
  std::filesystem::remove(folder / "sluice/CURRENT");
  std::ofstream(folder / "sluice/FORMAT") << "sluice store 3, read by sluice 0.1.0 and later\n";
  EXPECT_FALSE(succeeds(repair(folder.path()), repaired, problem));
  EXPECT_NE(problem.find("which no release has"), std::string::npos) << problem;
}

}  // namespace
}  // namespace sluice::disk::tools_test
