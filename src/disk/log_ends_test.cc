// The ends of logs after a power cut, a kill or a full disk: bytes that were never synced are cut
// off and reported; if bytes that were synced are missing, the store is damaged.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "disk/folder_test.h"
#include "disk/layout.h"
#include "disk/log_marks.h"
#include "disk/log_scan.h"
#include "disk/rocks_journal.h"
#include "disk/tools.h"
#include "tests/support/dice.h"

namespace sluice::disk::log_ends_test {
namespace {

namespace fs = std::filesystem;
using limit::State;

constexpr int64_t now_us = 1'700'000'000'000'000;

std::string bytes_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}
void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class LogEnds : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Journal> open(const std::string& path) {
    spaces = std::make_unique<request::Spaces>();
    space = spaces->intern("ends:", "");
    limits_id = spaces->intern_limits(
        std::vector<limit::Limit>{{limit::Algorithm::fixed_window, 10, base::seconds(1), 0}});
    JournalOptions options;
    options.path = path;
    options.sync = GetParam();
    options.now = [] { return base::Time{now_us}; };
    options.tell = [this](const std::string& line) { told.push_back(line); };
    auto journal = std::make_unique<RocksJournal>(std::move(options), *spaces);
    problem.clear();
    told.clear();
    if (!succeeds(journal->open(), problem)) return nullptr;
    return journal;
  }
  // Commits `count` counters, one for each commit, with keys of these sizes, and notes where the
  // log ended after each.
  void fill(size_t count, const std::function<size_t()>& key_bytes) {
    auto journal = open(data);
    ASSERT_TRUE(journal && succeeds(journal->read_blocks(), problem)) << problem;
    log = log_of(data);
    for (size_t i = 0; i < count; ++i) {
      const State cell{now_us, 1};
      const std::string key = std::to_string(i) + "/" + std::string(key_bytes(), 'k');
      journal->add({space, limits_id, key, {&cell, 1}, INT64_MAX});
      ASSERT_TRUE(succeeds(journal->commit(), problem)) << problem;
      ends.push_back(fs::file_size(log));
    }
    // The first commit also writes its limits, so it is synced with any durability.
    synced = GetParam() ? ends.back() : ends.front();
    journal.reset();
    whole = bytes_of(log);
    ASSERT_EQ(whole.size(), ends.back());
  }
  static std::string log_of(const std::string& path) {
    std::string found;
    for (const auto& at : fs::directory_iterator(blocks_of(path)))
      if (at.path().extension() == ".log" && at.file_size() > 0)
        found = std::max(found, at.path().string());
    return found;
  }
  // The number of whole commits in a log of which the first `same` bytes are unchanged.
  size_t whole_commits(size_t same) const {
    size_t count = 0;
    while (count < ends.size() && ends[count] <= same) ++count;
    return count;
  }
  static size_t same_bytes(const std::string& a, const std::string& b) {
    return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                               a.begin());
  }
  size_t ends_at(const std::string& bytes) {
    write(log, bytes);
    LogScan scan;
    EXPECT_EQ(scan_log(log, scan), 0);
    EXPECT_EQ(scan.bytes, bytes.size());
    return scan.whole_bytes;
  }
  // A start on a log with these bytes is refused if synced bytes are missing; else it serves the
  // whole commits.
  void start_on(const std::string& bytes) {
    const std::string copy = folder / "copy";
    fs::remove_all(copy);
    fs::copy(data, copy, fs::copy_options::recursive);
    write(log_of(copy), bytes);
    const size_t same = same_bytes(bytes, whole), commits = whole_commits(same);
    if (same < synced) {
      EXPECT_FALSE(open(copy));
      const char* const how = bytes.empty() ? "a log (.log) is missing" : "was synced up to byte";
      for (const char* const words : {"is damaged", how, "store repair DIR"})
        EXPECT_NE(problem.find(words), std::string::npos) << problem;
      CheckReport report;
      ASSERT_TRUE(succeeds(check(copy), report, problem)) << problem;
      EXPECT_FALSE(report.damages.empty());
      return;
    }
    // The tool that checks a store sees the same, and changes nothing.
    CheckReport report;
    ASSERT_TRUE(succeeds(check(copy), report, problem)) << problem;
    EXPECT_TRUE(report.damages.empty()) << report.damages.front();
    EXPECT_EQ(report.blocks, commits);
    EXPECT_EQ(bytes_of(log_of(copy)), bytes);
    const bool torn = !report.torn.empty();
    {
      auto journal = open(copy);
      ASSERT_TRUE(journal) << problem;
      EXPECT_EQ(!told.empty(), torn);
      KeptByKey all;
      ASSERT_TRUE(succeeds(read_all(*journal, all), problem)) << problem;
      EXPECT_EQ(all.size(), commits);
      if (torn) {
        EXPECT_EQ(told.size(), 1u);
        EXPECT_NE(told[0].find("never written to its end nor synced"), std::string::npos);
        EXPECT_LE(fs::file_size(log_path(copy)), same);
      }
      const State cell{now_us, 1};
      journal->add({space, limits_id, "later", {&cell, 1}, INT64_MAX});
      ASSERT_TRUE(succeeds(journal->commit(), problem)) << problem;
    }
    // The torn end is reported once; the next start reports nothing, and all commits are there.
    auto journal = open(copy);
    ASSERT_TRUE(journal) << problem;
    EXPECT_TRUE(told.empty());
    KeptByKey all;
    ASSERT_TRUE(succeeds(read_all(*journal, all), problem)) << problem;
    EXPECT_EQ(all.size(), commits + 1);
  }
  std::string log_path(const std::string& path) const {
    return blocks_of(path) + "/" + fs::path(log).filename().string();
  }

  Folder folder;
  const std::string data = folder / "data";
  std::unique_ptr<request::Spaces> spaces;
  const request::Space* space = nullptr;
  uint32_t limits_id = 0;
  std::string problem, log, whole;
  std::vector<std::string> told;
  std::vector<size_t> ends;
  size_t synced = 0;
};

// Scans the log cut or zeroed at every byte; starts on it where a commit ends, and around there.
TEST_P(LogEnds, ALogCutOrZeroedAtAnyByteIsTrimmedOrReported) {
  fill(4, [] { return size_t{9}; });
  for (size_t at = 0; at <= whole.size() && !HasFailure(); ++at) {
    SCOPED_TRACE(at);
    const std::string cut = whole.substr(0, at);
    const std::string zeroed = cut + std::string(whole.size() - at, '\0');
    for (const std::string& bytes : {cut, zeroed}) {
      const size_t commits = whole_commits(same_bytes(bytes, whole)), found = ends_at(bytes);
      EXPECT_GE(found, commits == 0 ? 0 : ends[commits - 1]);
      EXPECT_LT(found, commits == ends.size() ? whole.size() + 1 : ends[commits]);
      write(log, whole);
      bool near_end = at % 64 == 0;
      for (const size_t end : ends) near_end |= at + 1 == end || at == end || at == end + 8;
      if (near_end) start_on(bytes);
    }
  }
}

// Blocks that a file system lost: zeros at the end of the log, or in the middle of it.
TEST_P(LogEnds, HandlesUnwrittenBlocksOfALog) {
  tests::Dice dice(17);
  fill(60, [&] { return size_t{1} + static_cast<size_t>(dice(9000)); });
  ASSERT_GT(whole.size(), size_t{128} << 10);
  const auto zero = [&](size_t from, size_t bytes) {
    std::string with = whole;
    for (size_t i = from; i < std::min(from + bytes, with.size()); ++i) with[i] = 0;
    start_on(with);
  };
  for (const size_t bytes : {size_t{30}, size_t{4096}, size_t{65536}})
    zero(whole.size() - bytes, bytes);
  zero(whole.size() / 4096 * 4096, 4096);
  for (int i = 0; i < 25 && !HasFailure(); ++i) {
    const size_t unit = dice(2) == 0 ? 512 : 4096;
    SCOPED_TRACE(i);
    zero(static_cast<size_t>(dice(static_cast<int64_t>(whole.size() / unit))) * unit,
         unit * static_cast<size_t>(1 + dice(6)));
  }
}

// Commits of many counters, whose records have many fragments.
TEST_P(LogEnds, LargeCommitsAreReadToTheirEnds) {
  tests::Dice dice(29);
  {
    auto journal = open(data);
    ASSERT_TRUE(journal && succeeds(journal->read_blocks(), problem)) << problem;
    for (int i = 0; i < 12; ++i) {
      for (int n = dice(40'000); n >= 0; --n) {
        const State cell{now_us, n};
        journal->add({space, limits_id, std::to_string(dice(100'000)), {&cell, 1}, INT64_MAX});
      }
      ASSERT_TRUE(succeeds(journal->commit(), problem)) << problem;
    }
  }
  log = log_of(data);
  whole = bytes_of(log);
  EXPECT_EQ(ends_at(whole), whole.size());
  LogScan scan;
  ASSERT_EQ(scan_log(log, scan), 0);
  EXPECT_EQ(scan.end, LogScan::End::whole);
  ASSERT_TRUE(open(data)) << problem;
  EXPECT_TRUE(told.empty());
}

// A flipped bit is always damage, also in bytes that were not synced.
TEST_P(LogEnds, ReportsAFlippedBitAsDamage) {
  fill(6, [] { return size_t{700}; });
  tests::Dice dice(3);
  for (int i = 0; i < 12; ++i) {
    // A byte of a record after the synced ones that is not the last record.
    const size_t at = ends[1] + 20 + static_cast<size_t>(dice(600));
    std::string with = whole;
    with[at] = static_cast<char>(with[at] ^ 1 << dice(8));
    const std::string copy = folder / "copy";
    fs::remove_all(copy);
    fs::copy(data, copy, fs::copy_options::recursive);
    write(log_of(copy), with);
    EXPECT_FALSE(open(copy));
    EXPECT_NE(problem.find("is damaged"), std::string::npos) << problem;
    EXPECT_EQ(bytes_of(log_of(copy)), with);
  }
}

// A log that is followed by another was synced to its end, with any durability.
TEST_P(LogEnds, ReportsATruncatedLogThatIsNotTheLast) {
  fill(3, [] { return size_t{50}; });
  ASSERT_TRUE(open(data)) << problem;
  write(log, whole.substr(0, whole.size() - 1));
  EXPECT_FALSE(open(data));
  EXPECT_NE(problem.find("was synced up to byte " + std::to_string(whole.size())),
            std::string::npos)
      << problem;
  write(log, whole);
  EXPECT_TRUE(open(data)) << problem;
}

TEST_P(LogEnds, ARepairReportsExactlyWhatIsLost) {
  fill(4, [] { return size_t{50}; });
  write(log, whole + std::string(100, '\0'));
  RepairReport report;
  ASSERT_TRUE(succeeds(repair(data), report, problem)) << problem;
  EXPECT_TRUE(report.damages.empty()) << report.damages.front();
  EXPECT_EQ(report.torn.size(), 1u);
  EXPECT_EQ(report.counters, 4u);
  // A repair of the blocks from their tables and logs loses nothing, either.
  fs::remove(blocks_of(data) + "/CURRENT");
  report = {};
  ASSERT_TRUE(succeeds(repair(data), report, problem)) << problem;
  EXPECT_EQ(report.counters, 4u);
  ASSERT_FALSE(report.damages.empty());
  for (const auto& damage : report.damages)
    EXPECT_EQ(damage.find("lost"), std::string::npos) << damage;
}

TEST_P(LogEnds, ARepairReportsTheLossOfSyncedBytes) {
  fill(4, [] { return size_t{50}; });
  write(log, whole.substr(0, synced - 1));
  RepairReport report;
  ASSERT_TRUE(succeeds(repair(data), report, problem)) << problem;
  ASSERT_FALSE(report.damages.empty());
  EXPECT_NE(report.damages[0].find("was synced up to byte"), std::string::npos);
  EXPECT_EQ(report.counters, whole_commits(synced - 1));
  auto journal = open(data);
  ASSERT_TRUE(journal) << problem;
  KeptByKey all;
  ASSERT_TRUE(succeeds(read_all(*journal, all), problem)) << problem;
  EXPECT_EQ(all.size(), whole_commits(synced - 1));
}

INSTANTIATE_TEST_SUITE_P(Durability, LogEnds, testing::Bool(),
                         [](const auto& synced) { return synced.param ? "synced" : "unsynced"; });

}  // namespace
}  // namespace sluice::disk::log_ends_test
