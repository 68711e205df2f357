// Logs that are missing as a whole are noticed: by the marks in the logs and by the files LOGS and
// SYNCED (disk/log_marks.h).
#include "disk/log_marks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/bounds.h"
#include "disk/folder_test.h"
#include "disk/layout.h"
#include "disk/offline.h"
#include "disk/rocks_journal.h"
#include "disk/tools.h"

namespace sluice::disk::log_marks_test {
namespace {

namespace fs = std::filesystem;
using limit::State;

constexpr int64_t now_us = 1'700'000'000'000'000;
// `never` folds no block; `at_once` folds each block and begins a log each time.
constexpr Folding never{}, at_once{1, 1, 1 << 20, 2 << 20, 1};

class LogMarksTest : public testing::Test {
 protected:
  std::unique_ptr<Journal> open(const std::string& path, Folding folding = never) {
    spaces = std::make_unique<request::Spaces>();
    space = spaces->intern("marks:", "");
    limits_id = spaces->intern_limits(
        std::vector<limit::Limit>{{limit::Algorithm::fixed_window, 10, base::seconds(1), 0}});
    JournalOptions options;
    options.path = path;
    options.now = [] { return base::Time{now_us}; };
    auto journal = std::make_unique<RocksJournal>(std::move(options), *spaces, folding);
    problem.clear();
    if (!succeeds(journal->open(), problem)) return nullptr;
    return journal;
  }
  // Opens the store, adds a counter of this name, and closes the store.
  void add(const std::string& key, Folding folding = never) {
    auto journal = open(data, folding);
    ASSERT_TRUE(journal) << problem;
    ASSERT_TRUE(succeeds(journal->read_blocks(), problem)) << problem;
    journal->start_folding();
    commit(*journal, key);
    for (int i = 0; folding.bytes == 1 && i < 20'000; ++i) {
      if (journal->stats().unfolded_bytes == 0) break;
      ::usleep(1000);
    }
  }
  void commit(Journal& journal, const std::string& key) {
    const State cell{now_us, 1};
    journal.add({space, limits_id, key, {&cell, 1}, INT64_MAX});
    ASSERT_TRUE(succeeds(journal.commit(), problem)) << problem;
  }
  std::vector<std::string> keys(const std::string& path) {
    auto journal = open(path);
    KeptByKey all;
    EXPECT_TRUE(journal && succeeds(read_all(*journal, all), problem)) << problem;
    std::vector<std::string> names;
    for (const auto& [key, unused] : all) names.push_back(key.second);
    return names;
  }
  static std::vector<std::string> logs(const std::string& path) {
    std::vector<std::string> names;
    for (const auto& at : fs::directory_iterator(blocks_of(path)))
      if (at.path().extension() == ".log" && at.file_size() > 0)
        names.push_back(at.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  static std::string text_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  std::string logs_file() const { return store_of(data) + "/LOGS"; }
  size_t marks() {
    request::Spaces unused;
    Offline store(data, unused);
    EXPECT_TRUE(succeeds(store.open(false), problem)) << problem;
    size_t count = 0;
    store.blocks.use([&](rocksdb::DB& db) {
      const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator({}));
      for (at->Seek("m"); at->Valid() && at->key().starts_with("m"); at->Next()) ++count;
      return at->status();
    });
    return count;
  }
  // Marks a log when its memory table is full, so that the mark itself begins another log, `after`.
  // `flushed_at_once`: how many full memory tables RocksDB flushes together.
  void mark_when_full(int flushed_at_once, uint64_t& after) {
    auto options = blocks_options();
    options.write_buffer_size = size_t{64} << 10;
    options.min_write_buffer_number_to_merge = flushed_at_once;
    Rocks blocks(blocks_of(data), options);
    ASSERT_TRUE(blocks.open(false).ok());
    LogMarks marks(data);
    const auto log = [&] {
      std::unique_ptr<rocksdb::LogFile> current;
      EXPECT_TRUE(blocks.use([&](rocksdb::DB& db) { return db.GetCurrentWalFile(&current); }).ok());
      return current->LogNumber();
    };
    const auto mark = [&] {
      ASSERT_TRUE(blocks.use([&](rocksdb::DB& db) { return marks.mark(db); }).ok());
    };
    std::string wrong;
    ASSERT_TRUE(blocks.use([&](rocksdb::DB& db) { return marks.read(db, wrong); }).ok());
    ASSERT_EQ(wrong, "");
    mark();
    size_t puts = 0;
    const auto put = [&] {
      const std::string key = "z" + std::to_string(100'000 + ++puts);
      ASSERT_TRUE(
          blocks.use([&](rocksdb::DB& db) { return db.Put({}, key, std::string(1'000, '.')); })
              .ok());
    };
    // Puts until a new log begins; returns how many puts that took.
    const auto fill = [&] {
      const uint64_t before = log();
      const size_t from = puts;
      while (log() == before && puts - from < 1'000) put();
      return puts - from;
    };
    fill();
    const size_t full = fill();
    // Waits for the flush: a memory table that is still there might be flushed together with the
    // next.
    const auto unflushed = [&] {
      uint64_t count = 0;
      EXPECT_TRUE(blocks
                      .use([&](rocksdb::DB& db) {
                        return db.GetIntProperty("rocksdb.num-immutable-mem-table", &count)
                                   ? rocksdb::Status::OK()
                                   : rocksdb::Status::NotFound();
                      })
                      .ok());
      return count;
    };
    for (int i = 0; unflushed() > 0 && i < 20'000; ++i) ::usleep(1000);
    ASSERT_GT(full, 10u);
    // The put that began this log is in it already.
    for (size_t i = 1; i < full; ++i) put();
    const uint64_t before = log();
    mark();
    after = log();
    ASSERT_NE(before, after);
    ASSERT_TRUE(blocks
                    .use([&](rocksdb::DB& db) {
                      return db.DeleteRange({}, db.DefaultColumnFamily(), "z", "zz");
                    })
                    .ok());
  }
  void is_damaged(const std::string& path, const std::string& what) {
    EXPECT_FALSE(open(path));
    for (const std::string& words :
         {std::string("is damaged: "), what, std::string("sluice store repair DIR")})
      EXPECT_NE(problem.find(words), std::string::npos) << problem;
    CheckReport report;
    ASSERT_TRUE(succeeds(check(path), report, problem)) << problem;
    ASSERT_FALSE(report.damages.empty());
    EXPECT_NE(report.damages[0].find(what), std::string::npos) << report.damages[0];
    StoreStats unused;
    EXPECT_FALSE(succeeds(stats(path), unused, problem));
  }

  Folder folder;
  const std::string data = folder / "data";
  std::unique_ptr<request::Spaces> spaces;
  const request::Space* space = nullptr;
  uint32_t limits_id = 0;
  std::string problem;
};

// Each opening leaves a log. Any log that is removed is reported; after a repair the store has the
// counters of the others, and keeps what is committed later.
TEST_F(LogMarksTest, ReportsAnyLogThatIsRemoved) {
  const std::vector<std::string> all{"a", "b", "c", "d"};
  for (const auto& key : all) add(key);
  const auto names = logs(data);
  ASSERT_GE(names.size(), 4u);
  size_t kept = 0;
  for (const auto& name : names) {
    SCOPED_TRACE(name);
    const std::string copy = folder / "copy";
    fs::remove_all(copy);
    fs::copy(data, copy, fs::copy_options::recursive);
    fs::remove(blocks_of(copy) + "/" + name);
    is_damaged(copy, "a log (.log) is missing");

    RepairReport report;
    ASSERT_TRUE(succeeds(repair(copy), report, problem)) << problem;
    ASSERT_FALSE(report.damages.empty());
    CheckReport sound;
    ASSERT_TRUE(succeeds(check(copy), sound, problem)) << problem;
    EXPECT_TRUE(sound.damages.empty()) << sound.damages[0];
    kept += report.counters;
    {
      auto journal = open(copy);
      ASSERT_TRUE(journal) << problem;
      ASSERT_TRUE(succeeds(journal->read_blocks(), problem)) << problem;
      commit(*journal, "later");
    }
    const auto found = keys(copy);
    EXPECT_EQ(found.size(), report.counters + 1);
    EXPECT_NE(std::find(found.begin(), found.end(), "later"), found.end());
  }
  EXPECT_GT(kept, 0u);
  EXPECT_EQ(keys(data), all);
}

// LOGS is removed as well: the marks in the logs still show that a log between two others is
// missing.
TEST_F(LogMarksTest, ReportsAMissingLogBetweenOthersWithoutTheMarksFile) {
  for (const char* const key : {"a", "b", "c"}) add(key);
  const auto names = logs(data);
  ASSERT_GE(names.size(), 3u);
  fs::remove(logs_file());
  fs::remove(blocks_of(data) + "/" + names[names.size() - 2]);
  is_damaged(data, "a log (.log) is missing");
}

// A running server begins a log with each flush and removes the earlier ones: these are not
// missing.
TEST_F(LogMarksTest, DoesNotReportLogsThatAFlushDropped) {
  for (int i = 0; i < 3; ++i) {
    auto journal = open(data, at_once);
    ASSERT_TRUE(journal) << problem;
    ASSERT_TRUE(succeeds(journal->read_blocks(), problem)) << problem;
    journal->start_folding();
    for (uint64_t n = 1; n <= 30; ++n) {
      commit(*journal, std::to_string(n));
      ASSERT_TRUE(wait_for_folds(*journal, n));
    }
  }
  EXPECT_EQ(keys(data).size(), 30u);
  // Their marks are removed as well.
  EXPECT_LT(marks(), 12u);
  const auto names = logs(data);
  ASSERT_FALSE(names.empty());
  fs::remove(blocks_of(data) + "/" + names.back());
  is_damaged(data, "a log (.log) is missing");
}

// The process was killed after it began a log and before it wrote LOGS; and a store without LOGS.
TEST_F(LogMarksTest, AcceptsALogThatTheMarksFileDoesNotNameYet) {
  add("a");
  const std::string before = text_of(logs_file());
  EXPECT_TRUE(before.starts_with("logs 1 to ")) << before;
  add("b");
  const std::string after = text_of(logs_file());
  EXPECT_NE(after, before);
  std::ofstream(logs_file(), std::ios::binary) << before;
  EXPECT_EQ(keys(data), (std::vector<std::string>{"a", "b"}));
  fs::remove(logs_file());
  EXPECT_EQ(keys(data), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(fs::exists(logs_file()));
  // The new LOGS works like the old one.
  fs::remove(blocks_of(data) + "/" + logs(data).front());
  is_damaged(data, "a log (.log) is missing");
}

TEST_F(LogMarksTest, ReportsAnInvalidMarksFileAsDamage) {
  add("a");
  for (const char* const text : {"", "logs", "logs 0 to 1\n", "logs 2 to 1\n", "logs 1 to 1",
                                 "logs 1 to 1\n\n", "logs 1 to 4294967297\n"}) {
    std::ofstream(logs_file(), std::ios::binary) << text;
    is_damaged(data, "its file LOGS does not say");
  }
  RepairReport report;
  ASSERT_TRUE(succeeds(repair(data), report, problem)) << problem;
  EXPECT_FALSE(report.damages.empty());
  EXPECT_EQ(keys(data), std::vector<std::string>{"a"});
}

// A start turns many logs into one table, but keeps the logs of a damaged store.
TEST_F(LogMarksTest, AStartOfADamagedStoreKeepsItsLogs) {
  std::vector<std::string> all{"a"};
  add("a");
  while (logs(data).size() < base::bounds::block_logs_max) {
    all.push_back(std::string(1, static_cast<char>('a' + all.size())));
    add(all.back());
    ASSERT_LT(all.size(), 20u);
  }
  const auto before = logs(data);
  const std::string file = text_of(logs_file());
  std::ofstream(logs_file(), std::ios::binary) << "logs 0 to 1\n";
  is_damaged(data, "its file LOGS does not say");
  EXPECT_EQ(logs(data), before);
  std::ofstream(logs_file(), std::ios::binary) << file;
  EXPECT_EQ(keys(data), all);
  EXPECT_EQ(logs(data).size(), 1u);
  // The logs that became the table are not reported as missing.
  EXPECT_EQ(keys(data), all);
}

// A write may end the log that is about to be marked: then the mark is in the next log, which is
// marked as well.
TEST_F(LogMarksTest, MarksTheNewLogIfAMarkStartsOne) {
  add("a");
  uint64_t after = 0;
  mark_when_full(1, after);
  const std::string last = logs(data).back();
  EXPECT_NE(last.find(std::to_string(after)), std::string::npos) << last;
  EXPECT_NE(text_of(store_of(data) + "/SYNCED").find(std::to_string(after)), std::string::npos);
  EXPECT_EQ(keys(data), std::vector<std::string>{"a"});
  fs::remove(blocks_of(data) + "/" + last);
  is_damaged(data, "a log (.log) is missing");
}

// There the mark is not in the log that it is for; still any log that is removed is missed.
TEST_F(LogMarksTest, ReportsAnyLogThatIsRemovedWhereAMarkStartedALog) {
  add("a");
  uint64_t after = 0;
  // With 2 RocksDB does not flush a single full memory table, so the logs stay.
  mark_when_full(2, after);
  for (const auto& name : logs(data)) {
    SCOPED_TRACE(name);
    const std::string copy = folder / "copy";
    fs::remove_all(copy);
    fs::copy(data, copy, fs::copy_options::recursive);
    fs::remove(blocks_of(copy) + "/" + name);
    is_damaged(copy, "a log (.log) is missing");
  }
  EXPECT_EQ(keys(data), std::vector<std::string>{"a"});
}

// The part of a record that is written so far is not noted as synced: the rest may never be
// written.
TEST_F(LogMarksTest, APartlyWrittenRecordIsNotMarkedAsSynced) {
  add("a");
  std::string wrong, log, part;
  {
    Rocks blocks(blocks_of(data), blocks_options());
    ASSERT_TRUE(blocks.open(false).ok());
    const auto mark = [&] {
      LogMarks marks(data);
      ASSERT_TRUE(blocks.use([&](rocksdb::DB& db) { return marks.read(db, wrong); }).ok());
      ASSERT_EQ(wrong, "");
      ASSERT_TRUE(blocks.use([&](rocksdb::DB& db) { return marks.mark(db); }).ok());
    };
    mark();
    log = blocks_of(data) + "/" + logs(data).back();
    part = text_of(log);
    ASSERT_GT(part.size(), 16u);
    part.resize(part.size() / 2);
    std::ofstream(log, std::ios::binary | std::ios::app) << part;
    mark();
  }
  // Appends the part as a kill would leave it: closing a database cuts its log after the last whole
  // write.
  std::ofstream(log, std::ios::binary | std::ios::app) << part;
  LogMarks marks(data);
  std::vector<TornLog> torn;
  ASSERT_EQ(marks.look_at_ends(torn, wrong), 0);
  EXPECT_EQ(wrong, "");
  EXPECT_EQ(torn.size(), 1u);
  EXPECT_EQ(keys(data), std::vector<std::string>{"a"});
}

TEST_F(LogMarksTest, ABackupReportsItsOwnMissingLogs) {
  add("a");
  add("b");
  {
    auto journal = open(data);
    ASSERT_TRUE(journal && succeeds(journal->read_blocks(), problem)) << problem;
    commit(*journal, "c");
    ASSERT_TRUE(succeeds(journal->backup(folder / "copy"), problem)) << problem;
  }
  const auto names = logs(folder / "copy");
  ASSERT_GE(names.size(), 3u);
  for (const auto& name : names) {
    fs::remove_all(folder / "again");
    fs::copy(folder / "copy", folder / "again", fs::copy_options::recursive);
    fs::remove(blocks_of(folder / "again") + "/" + name);
    is_damaged(folder / "again", "a log (.log) is missing");
  }
  EXPECT_EQ(keys(folder / "copy"), (std::vector<std::string>{"a", "b", "c"}));
}

// After a repair without the blocks, new blocks get higher numbers than the folded ones.
TEST_F(LogMarksTest, NewBlocksAreNumberedAboveFoldedOnes) {
  for (const char* const key : {"a", "b", "c"}) add(key, at_once);
  fs::remove_all(blocks_of(data));
  RepairReport report;
  ASSERT_TRUE(succeeds(repair(data), report, problem)) << problem;
  // The repair also loses the counters, as the blocks' database holds what their numbers mean.
  EXPECT_EQ(report.counters, 0u);
  add("d");
  add("e");
  EXPECT_EQ(keys(data), (std::vector<std::string>{"d", "e"}));
}

}  // namespace
}  // namespace sluice::disk::log_marks_test
