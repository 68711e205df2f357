// The databases under a journal (disk/rocks.h): recovery on a full disk, the counters that a
// compaction drops, and the priorities of RocksDB's threads.
#include "disk/rocks.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "disk/folder_test.h"
#include "disk/keys.h"
#include "disk/record.h"
#include "disk/rocks_journal.h"

namespace sluice::disk {
namespace {

rocksdb::Status put(Rocks& rocks, const std::string& key, const std::string& value) {
  return rocks.use([&](rocksdb::DB& db) { return db.Put({}, key, value); });
}
rocksdb::Status get(Rocks& rocks, const std::string& key, std::string& value) {
  return rocks.use([&](rocksdb::DB& db) { return db.Get({}, key, &value); });
}

// A database that cannot be opened again for lack of room is still read meanwhile, and recovers
// once there is room.
TEST(Rocks, StaysReadableWhenReopeningFails) {
  const Folder folder;
  rocksdb::Options options = blocks_options();
  options.avoid_flush_during_recovery = false;  // opening writes one file with all of it
  Rocks rocks(folder / "blocks", options);
  ASSERT_TRUE(rocks.open(true).ok());
  const std::string large(size_t{3} << 20, 'x');
  ASSERT_TRUE(put(rocks, "a", large).ok());
  limit_files(rlim_t{2} << 20);
  EXPECT_FALSE(put(rocks, "b", "2").ok());
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(rocks.recover().ok());
    std::string value;
    EXPECT_TRUE(get(rocks, "a", value).ok());
    EXPECT_EQ(value, large);
    const auto why = put(rocks, "b", "2");
    EXPECT_NE(text_of(why).find("File too large"), std::string::npos) << text_of(why);
  }
  limit_files(RLIM_INFINITY);
  const auto recovered = rocks.recover();
  ASSERT_TRUE(recovered.ok()) << text_of(recovered);
  EXPECT_TRUE(put(rocks, "b", "2").ok());
  std::string value;
  EXPECT_TRUE(get(rocks, "b", value).ok());
  EXPECT_TRUE(get(rocks, "a", value).ok());
}

using Values = std::map<std::string, std::string>;

std::string counter(int64_t units, int64_t forget_us) {
  BlockWriter writer;
  const limit::State cell{1'700'000'000'000'000, units};
  writer.add(1, 1, "k", {&cell, 1}, forget_us);
  const std::string block = writer.take();
  BlockReader reader(block);
  PackedCounter packed;
  EXPECT_TRUE(reader.next(packed));
  std::string value;
  append_value(value, reader.base_us(), packed.state);
  EXPECT_EQ(forget_us_of(value), forget_us);
  return value;
}

// Compares all keys and values, byte by byte, before and after a compaction.
class Forgetting : public testing::Test {
 protected:
  Forgetting() {
    open([this] { return base::Time{now_us}; });
  }
  void open(std::function<base::Time()> clock) {
    rocksdb::Options options = counters_options(std::move(clock));
    options.disable_auto_compactions = true;
    rocks.reset();
    rocks = std::make_unique<Rocks>(folder / "counters", options);
    const auto status = rocks->open(!made);
    ASSERT_TRUE(status.ok()) << text_of(status);
    made = true;
  }
  void add_table(const Values& values) {
    const auto status = rocks->use([&](rocksdb::DB& db) {
      for (const auto& [key, value] : values) EXPECT_TRUE(db.Put({}, key, value).ok());
      return db.Flush({});
    });
    ASSERT_TRUE(status.ok()) << text_of(status);
  }
  void compact_all() {
    rocksdb::CompactRangeOptions options;
    options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    const auto status =
        rocks->use([&](rocksdb::DB& db) { return db.CompactRange(options, nullptr, nullptr); });
    ASSERT_TRUE(status.ok()) << text_of(status);
  }
  // Compacts all tables but the oldest.
  void compact_newer() {
    const auto status = rocks->use([&](rocksdb::DB& db) {
      std::vector<rocksdb::LiveFileMetaData> files;
      db.GetLiveFilesMetaData(&files);
      EXPECT_EQ(files.size(), 3u);
      const auto oldest = std::min_element(
          files.begin(), files.end(),
          [](const auto& a, const auto& b) { return a.largest_seqno < b.largest_seqno; });
      std::vector<std::string> names;
      for (const auto& file : files)
        if (file.name != oldest->name) names.push_back(file.name);
      return db.CompactFiles({}, names, 0);
    });
    ASSERT_TRUE(status.ok()) << text_of(status);
  }
  Values all() {
    Values found;
    rocks->use([&](rocksdb::DB& db) {
      const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator({}));
      for (at->SeekToFirst(); at->Valid(); at->Next())
        found[at->key().ToString()] = at->value().ToString();
      return at->status();
    });
    return found;
  }

  const Folder folder;
  std::atomic<int64_t> now_us{1'700'000'000'000'000};
  bool made = false;
  std::unique_ptr<Rocks> rocks;
};

TEST_F(Forgetting, ACompactionDropsExpiredCounters) {
  const Values values{{std::string(folded_key), folded_value(7)},
                      {"\1always", counter(1, INT64_MAX)},
                      {"\1at", counter(2, now_us + 10)},
                      {"\1after", counter(3, now_us + 11)},
                      {"\1gone", std::string(forgotten_value)}};
  ASSERT_NO_FATAL_FAILURE(add_table(values));
  ASSERT_NO_FATAL_FAILURE(compact_all());
  Values left = values;
  left.erase("\1gone");
  EXPECT_EQ(all(), left);

  now_us += 10;
  EXPECT_EQ(all(), left);
  // The tools open a store without a clock: then no counter is past its time.
  ASSERT_NO_FATAL_FAILURE(open(nullptr));
  ASSERT_NO_FATAL_FAILURE(compact_all());
  EXPECT_EQ(all(), left);
  ASSERT_NO_FATAL_FAILURE(open([this] { return base::Time{now_us}; }));
  ASSERT_NO_FATAL_FAILURE(compact_all());
  left.erase("\1at");
  EXPECT_EQ(all(), left);
}

// A compaction of newer tables must keep hiding the states of the same counters in an older one.
TEST_F(Forgetting, APartialCompactionDoesNotRevealOlderTables) {
  ASSERT_NO_FATAL_FAILURE(add_table({{"\1a", counter(1, INT64_MAX)}, {"\1z", counter(1, 5)}}));
  ASSERT_NO_FATAL_FAILURE(
      add_table({{"\1a", counter(2, now_us + 1)}, {"\1b", counter(2, now_us)}}));
  ASSERT_NO_FATAL_FAILURE(add_table({{"\1c", counter(3, INT64_MAX)}}));
  now_us += 1;
  ASSERT_NO_FATAL_FAILURE(compact_newer());
  const std::string hidden(forgotten_value);
  EXPECT_EQ(all(), (Values{{"\1a", hidden},
                           {"\1b", hidden},
                           {"\1c", counter(3, INT64_MAX)},
                           {"\1z", counter(1, 5)}}));
  ASSERT_NO_FATAL_FAILURE(compact_all());
  EXPECT_EQ(all(), (Values{{"\1c", counter(3, INT64_MAX)}}));
}

// A thread of this process: its name, its niceness, the clock ticks that it ran for, and its
// scheduling policy.
struct Thread {
  std::string name;
  long nice = 0, ticks = 0, policy = 0;
};
std::vector<Thread> threads() {
  std::vector<Thread> all;
  for (const auto& at : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ostringstream text;
    text << std::ifstream(at.path() / "stat").rdbuf();
    const std::string stat = text.str();
    const size_t begin = stat.find('('), end = stat.rfind(')');
    if (begin == std::string::npos || end == std::string::npos) continue;  // the thread has ended
    Thread thread{stat.substr(begin + 1, end - begin - 1)};
    std::istringstream rest(stat.substr(end + 1));
    std::string word;
    for (int field = 3; field <= 41 && rest >> word; ++field) {
      if (field == 14 || field == 15) thread.ticks += std::stol(word);
      if (field == 19) thread.nice = std::stol(word);
      if (field == 41) thread.policy = std::stol(word);
    }
    all.push_back(thread);
  }
  return all;
}

TEST(Priorities, BackgroundThreadsRunAtTheLowestPriority) {
  const Folder folder;
  request::Spaces spaces;
  const auto* const space = spaces.intern("nice:", "");
  const uint32_t limits_id = spaces.intern_limits(
      std::vector<limit::Limit>{{limit::Algorithm::fixed_window, 10, base::seconds(1), 0}});
  JournalOptions options;
  options.path = folder / "data";
  options.now = [] { return base::Time{0}; };
  RocksJournal journal(std::move(options), spaces, {1, 1, 1 << 20, 2 << 20, 1});
  std::string problem;
  ASSERT_TRUE(succeeds(journal.open(), problem)) << problem;
  ASSERT_TRUE(succeeds(journal.read_blocks(), problem)) << problem;
  journal.start_folding();
  // Commits until a fold, a flush and a compaction have run.
  bool fold = false, flush = false, compaction = false;
  for (uint64_t n = 1; n < 2000 && !(fold && flush && compaction); ++n) {
    const limit::State cell{1, 1};
    for (int i = 0; i < 100; ++i)
      journal.add({space,
                   limits_id,
                   std::to_string(n * 37 + static_cast<uint64_t>(i)),
                   {&cell, 1},
                   INT64_MAX});
    ASSERT_TRUE(succeeds(journal.commit(), problem)) << problem;
    ASSERT_TRUE(wait_for_folds(journal, n));
    for (const Thread& thread : threads()) {
      if (thread.nice != 19) continue;
      fold |= thread.name == "sluice-fold" && thread.policy == SCHED_IDLE;
      flush |= thread.name == "rocksdb:high";
      compaction |= thread.name == "rocksdb:low";
    }
  }
  EXPECT_TRUE(fold);
  EXPECT_TRUE(flush);
  EXPECT_TRUE(compaction);
  // A thread that has not run yet still has the niceness that it was created with.
  for (const Thread& thread : threads()) {
    if (!thread.name.starts_with("rocksdb:") || thread.ticks == 0) continue;
    EXPECT_EQ(thread.nice, 19) << thread.name;
  }
}

}  // namespace
}  // namespace sluice::disk
