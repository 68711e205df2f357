// The journal as a log and a snapshot (store/log/log_journal.h): what was committed is found again
// by another process, against a map; snapshots, formats, damage and copies.
#include "store/log/log_journal.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <thread>

#include "limit/left_out.h"
#include "store/log/folder_test.h"
#include "store/log/tools.h"
#include "tests/support/dice.h"

namespace sluice::disk::journal_test {
namespace {

namespace fs = std::filesystem;
using limit::Algorithm;
using limit::Limit;
using limit::State;

// A snapshot is due after nearly each commit, and logs are short.
constexpr LogSizes small{.log_bytes = 200, .logs = 3};

class JournalTest : public testing::Test {
 protected:
  JournalTest() { name_all(); }

  std::unique_ptr<LogJournal> open(const LogSizes& sizes = {}, bool sync = false) {
    auto journal = std::make_unique<LogJournal>(options(sync), *spaces, sizes);
    problem.clear();
    if (!succeeds(journal->open(), problem)) return nullptr;
    return journal;
  }
  JournalOptions options(bool sync = false) {
    JournalOptions options;
    options.path = folder / "data";
    options.sync = sync;
    options.offline = offline;
    options.now = [this] { return base::Time{now_us}; };
    options.tell = [this](const std::string& line) { told.push_back(line); };
    return options;
  }
  KeptByKey all_of(Journal& journal) {
    KeptByKey all;
    EXPECT_TRUE(succeeds(read_all(journal, all), problem)) << problem;
    return all;
  }
  // As in another process, where spaces and limits have other numbers.
  void forget_numbers() {
    spaces = std::make_unique<request::Spaces>();
    spaces->intern_limits(std::vector<Limit>{{Algorithm::fixed_window, 999, {5}, 0}});
    spaces->intern("another", "");
    name_all();
  }
  void name_all() {
    ip = spaces->intern("ip:", "");
    pairs = spaces->intern("", ":pairs");
    one = spaces->intern_limits(
        std::vector<Limit>{{Algorithm::token_bucket, 10, base::seconds(1), 20}});
    two = spaces->intern_limits(
        std::vector<Limit>{{Algorithm::fixed_window, 10, base::seconds(1), 0},
                           {Algorithm::sliding_window, 5, base::seconds(9), 0}});
  }
  void add(Journal& journal, const std::string& key, int64_t units, int64_t forget_us = INT64_MAX) {
    const State cell{now_us + 5, units};
    journal.add({ip, one, key, {&cell, 1}, forget_us});
  }
  Kept kept(int64_t units, int64_t forget_us = INT64_MAX) const {
    return {{{now_us + 5, units}}, one, forget_us};
  }
  void commit(Journal& journal) { ASSERT_TRUE(succeeds(journal.commit(), problem)) << problem; }
  // Writes a snapshot of `all`, and closes the journal.
  void snapshot(const KeptByKey& all) {
    auto journal = open(small);
    ASSERT_TRUE(journal) << problem;
    journal->all_is_loaded(table_of(all));
    for (int i = 0; i < 8; ++i) {
      add(*journal, std::string(100, 'f'), i, now_us);
      commit(*journal);
    }
    ASSERT_TRUE(wait_for_snapshots(*journal, 1));
  }
  // Compares what a journal holds with `model`. Counters past their time may be missing.
  void expect_like(const KeptByKey& model, const KeptByKey& all) const {
    for (const auto& [key, its] : all) {
      if (its.forget_us <= now_us) continue;
      ASSERT_TRUE(model.contains(key)) << key.second;
      ASSERT_EQ(model.at(key), its) << key.second;
    }
    for (const auto& [key, its] : model) {
      ASSERT_TRUE(its.forget_us <= now_us || all.contains(key)) << key.second;
    }
  }
  std::string file(const std::string& name) { return folder / ("data/" + name); }
  std::string last_log() {
    return log_of(folder / "data", numbers_of(folder / "data", log_kind)->back());
  }

  Folder folder;
  std::atomic<int64_t> now_us{1'700'000'000'000'000};
  std::unique_ptr<request::Spaces> spaces = std::make_unique<request::Spaces>();
  const request::Space *ip = nullptr, *pairs = nullptr;
  uint32_t one = 0, two = 0;
  bool offline = false;
  std::string problem;
  std::vector<std::string> told;
};

TEST_F(JournalTest, CommittedStatesAreReadAgainAfterARestart) {
  {
    auto journal = open();
    ASSERT_TRUE(journal) << problem;
    EXPECT_TRUE(all_of(*journal).empty());
    add(*journal, "a", 1);
    add(*journal, "b", 2);
    add(*journal, "a", 3);
    EXPECT_EQ(journal->pending(), 3u);
    commit(*journal);
    EXPECT_EQ(journal->pending(), 0u);
    commit(*journal);  // an empty commit
    EXPECT_EQ(journal->stats().commits, 1u);
    add(*journal, "c", 4);  // never committed
  }
  forget_numbers();
  auto journal = open();
  ASSERT_TRUE(journal) << problem;
  EXPECT_EQ(all_of(*journal), (KeptByKey{{{ip, "a"}, kept(3)}, {{ip, "b"}, kept(2)}}));
  EXPECT_TRUE(told.empty()) << told.front();
}

TEST_F(JournalTest, CountersOfTheSnapshotAreFound) {
  const std::vector<State> three{{1, 2}, {3, 4}, {5, 6}};
  const std::string odd("\0\xff", 2);
  snapshot({{{ip, "a"}, kept(1)},
            {{ip, "b"}, kept(2, now_us + 10)},
            {{pairs, odd}, {three, two, 77'000'000'000'000'000}}});
  forget_numbers();
  auto journal = open();
  ASSERT_TRUE(journal) << problem;
  KeptByKey found;
  EXPECT_EQ(journal->find(*ip, "a", collect(found)), Journal::Found::yes);
  EXPECT_EQ(journal->find(*ip, "b", collect(found)), Journal::Found::yes);
  EXPECT_EQ(journal->find(*pairs, odd, collect(found)), Journal::Found::yes);
  EXPECT_EQ(journal->find(*pairs, "a", collect(found)), Journal::Found::no);
  EXPECT_EQ(journal->find(*spaces->intern("new", ""), "a", collect(found)), Journal::Found::no);
  EXPECT_EQ(found, (KeptByKey{{{ip, "a"}, kept(1)},
                              {{ip, "b"}, kept(2, now_us + 10)},
                              {{pairs, odd}, {three, two, 77'000'000'000'000'000}}}));
  // A counter past its time is not found.
  now_us += 10;
  EXPECT_EQ(journal->find(*ip, "b", collect(found)), Journal::Found::no);
  uint64_t position = 0;
  found.clear();
  do {
    ASSERT_TRUE(journal->scan(position, collect(found)));
  } while (position != 0);
  EXPECT_EQ(found.size(), 2u);
}

TEST_F(JournalTest, EachOfManyCountersIsFoundAlone) {
  KeptByKey model;
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = "user-" + std::to_string(i);
    model[{i % 3 == 0 ? pairs : ip, key}] = kept(i);
  }
  snapshot(model);
  auto journal = open();
  ASSERT_TRUE(journal) << problem;
  for (const auto& [key, its] : model) {
    KeptByKey found;
    ASSERT_EQ(journal->find(*key.first, key.second, collect(found)), Journal::Found::yes);
    ASSERT_EQ(found.at(key), its);
    ASSERT_EQ(journal->find(key.first == ip ? *pairs : *ip, key.second, collect(found)),
              Journal::Found::no);
  }
  KeptByKey all = all_of(*journal);
  std::erase_if(all, [&](const auto& at) { return at.first.second == std::string(100, 'f'); });
  EXPECT_EQ(all, model);
}

// Random adds, commits, snapshots, steps of time and reopenings, with and without sync, against a
// map.
TEST_F(JournalTest, RandomOperationsMatchAMap) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    fs::remove_all(folder / "data");
    tests::Dice dice(seed);
    KeptByKey model, open_commit;
    std::unique_ptr<LogJournal> journal;
    // The snapshot's thread reads it, as it would the table.
    std::mutex mutex;
    for (int step = 0; step < 600; ++step) {
      if (!journal) {
        journal = open({.log_bytes = uint64_t{1} << (8 + dice(8)), .logs = size_t(2 + dice(4))},
                       dice(2) == 0);
        ASSERT_TRUE(journal) << problem;
        ASSERT_NO_FATAL_FAILURE(expect_like(model, all_of(*journal)));
        for (const auto& [key, its] : model) {
          KeptByKey unused;
          ASSERT_NE(journal->find(*key.first, key.second, collect(unused)), Journal::Found::failed);
        }
        journal->all_is_loaded({.counters = [n = model.size()] { return uint64_t{n}; },
                                .walk =
                                    [&](const auto& visit) {
                                      const std::lock_guard lock(mutex);
                                      return table_of(model).walk(visit);
                                    }});
      }
      const int what = dice(100);
      if (what < 60) {
        for (int n = dice(30); n > 0; --n) {
          const std::string key(dice(20u) == 0 ? 5000 : 1, static_cast<char>('a' + dice(26)));
          const request::Space* const space = dice(3) == 0 ? pairs : ip;
          std::vector<State> cells(space == ip ? 1 : 3);
          for (State& cell : cells) cell = {now_us + dice(int64_t{1000}), dice(int64_t{100})};
          if (dice(8) == 0) cells.clear();
          const uint32_t limits = space == ip ? one : two;
          const int64_t forget_us = dice(3) == 0 ? INT64_MAX : now_us + dice(int64_t{200});
          const Record record{space, limits, key, cells, cells.empty() ? INT64_MAX : forget_us};
          journal->add(record);
          open_commit[{space, key}] = kept_of(record);
        }
      } else if (what < 92) {
        const std::lock_guard lock(mutex);
        commit(*journal);
        for (const auto& [key, its] : open_commit) model[key] = its;
        std::erase_if(model, [](const auto& at) { return at.second.cells.empty(); });
        open_commit.clear();
      } else if (what < 96) {
        now_us += dice(100);
      } else if (what < 97) {
        ::usleep(2000);
      } else {
        journal.reset();
        open_commit.clear();
      }
    }
    journal.reset();
  }
}

TEST_F(JournalTest, TheLogStaysBelowItsBound) {
  auto journal = open({.log_bytes = 16 << 10, .logs = 8});
  ASSERT_TRUE(journal) << problem;
  KeptByKey model;
  std::mutex mutex;
  journal->all_is_loaded({.counters = [] { return uint64_t{10}; },
                          .walk =
                              [&](const auto& visit) {
                                const std::lock_guard lock(mutex);
                                return table_of(model).walk(visit);
                              }});
  for (int i = 0; i < 600; ++i) {
    const std::lock_guard lock(mutex);
    for (int n = 0; n < 200; ++n) {
      const std::string key = std::to_string(i % 7 * 200 + n);
      add(*journal, key, i);
      model[{ip, key}] = kept(i);
    }
    commit(*journal);
    if (i % 20 == 19) ::usleep(1000);
  }
  for (int i = 0; i < 20'000 && journal->stats().log_bytes > 64 << 10; ++i) ::usleep(1000);
  EXPECT_LE(journal->stats().log_bytes, 64u << 10);
  EXPECT_GT(journal->stats().snapshots, 0u);
  journal.reset();
  EXPECT_EQ(numbers_of(folder / "data", snapshot_kind)->size(), 1u);
  EXPECT_LE(numbers_of(folder / "data", log_kind)->size(), 9u);
  journal = open();
  EXPECT_EQ(all_of(*journal), model);
}

// If none can be written for long, the store says so instead of filling the disk.
TEST_F(JournalTest, CommitsFailWhereTheLogGrowsWithoutASnapshot) {
  auto journal = open({.log_bytes = 1 << 10, .logs = 100});
  ASSERT_TRUE(journal) << problem;
  bool goes = false;
  std::atomic<bool> may{false};
  journal->all_is_loaded(
      {.counters = [] { return uint64_t{10}; }, .walk = [&](const auto&) { return may.load(); }});
  for (int i = 0; i < 20'000; ++i) {
    add(*journal, std::to_string(i), i);
    goes = succeeds(journal->commit(), problem);
    if (!goes) break;
    if (i > 100) ::usleep(1000);
  }
  ASSERT_FALSE(goes);
  EXPECT_NE(problem.find("no snapshot could be written: what it would have could not be committed"),
            std::string::npos)
      << problem;
  EXPECT_GT(journal->stats().failures, 0u);
}

// As where a server is killed again and again before it has loaded all.
TEST_F(JournalTest, ALogThatIsTooLongIsLateUntilThereIsASnapshot) {
  const LogSizes sizes{.log_bytes = 1 << 12, .logs = 100};
  KeptByKey all;
  bool late = false;
  for (int life = 0; life < 100 && !late; ++life) {
    auto journal = open(sizes);
    ASSERT_TRUE(journal) << problem;
    const std::string key = std::to_string(life) + std::string(150, 'k');
    add(*journal, key, life);
    all[{ip, key}] = kept(life);
    commit(*journal);
    late = journal->is_late();
    EXPECT_EQ(late, journal->stats().log_bytes > 2 * sizes.log_bytes);
  }
  ASSERT_TRUE(late);
  auto journal = open(sizes);
  ASSERT_TRUE(journal) << problem;
  EXPECT_TRUE(journal->is_late());
  journal->all_is_loaded(table_of(all));
  ASSERT_TRUE(wait_for_snapshots(*journal, 1));
  EXPECT_FALSE(journal->is_late());
}

// A start needs a place in the table for each counter of the log.
TEST_F(JournalTest, ASnapshotIsDueByCountersToo) {
  auto its_options = options();
  its_options.log_counters = 50;
  LogJournal journal(std::move(its_options), *spaces);
  ASSERT_TRUE(succeeds(journal.open(), problem)) << problem;
  journal.all_is_loaded(table_of({}));
  for (int i = 0; i < 50; ++i) add(journal, std::to_string(i), i);
  commit(journal);
  ::usleep(20'000);
  EXPECT_EQ(journal.stats().snapshots, 0u);
  add(journal, "one more", 1);
  commit(journal);
  EXPECT_TRUE(wait_for_snapshots(journal, 1));
}

TEST_F(JournalTest, ShortRunsLeaveFewLogs) {
  for (int i = 0; i < 30; ++i) {
    auto journal = open();
    ASSERT_TRUE(journal) << problem;
    KeptByKey all = all_of(*journal);
    EXPECT_EQ(all.size(), static_cast<size_t>(i));
    all[{ip, std::to_string(i)}] = kept(i);
    add(*journal, std::to_string(i), i);
    commit(*journal);
    journal->all_is_loaded(table_of(all));
    if (i % 10 == 9) {
      ASSERT_TRUE(wait_for_snapshots(*journal, 1));
    }
    journal.reset();
    EXPECT_LE(numbers_of(folder / "data", log_kind)->size(), 12u) << i;
  }
}

// A commit that grows large is in many blocks; the last record of a counter counts.
TEST_F(JournalTest, ACommitOfAnySize) {
  auto journal = open();
  for (int64_t i = 0; i < 600'000; ++i) {
    const State cell{now_us + 5, i};
    char key[16];
    const int bytes = std::snprintf(key, sizeof key, "%ld", static_cast<long>(i % 200'000));
    journal->add({ip, one, {key, static_cast<size_t>(bytes)}, {&cell, 1}, INT64_MAX});
  }
  EXPECT_EQ(journal->pending(), 600'000u);
  commit(*journal);
  EXPECT_EQ(journal->stats().counters, 600'000u);
  journal.reset();
  const auto is_all = [&] {
    journal = open();
    const KeptByKey all = all_of(*journal);
    journal.reset();
    if (all.size() != 200'000u) return false;
    return std::all_of(all.begin(), all.end(), [](const auto& at) {
      return at.second.cells[0].units == 400'000 + std::stol(at.first.second);
    });
  };
  EXPECT_TRUE(is_all());
  // If its last block is torn, none of it counts.
  const auto logs = numbers_of(folder / "data", log_kind);
  for (const uint64_t number : *logs) {
    const std::string path = log_of(folder / "data", number);
    if (fs::file_size(path) < 1000) continue;
    fs::resize_file(path, fs::file_size(path) - 1000);
  }
  for (const uint64_t number : *logs)
    if (fs::file_size(log_of(folder / "data", number)) < 1000 && number > logs->front())
      fs::remove(log_of(folder / "data", number));
  fs::remove(file("sluice/SYNCED"));
  journal = open();
  ASSERT_TRUE(journal) << problem;
  EXPECT_EQ(all_of(*journal).size(), 0u);
}

TEST_F(JournalTest, TheDirectoryIsMadeWithItsParents) {
  auto deep = options();
  deep.path = folder / "a/b/c";
  std::unique_ptr<Journal> opened;
  EXPECT_TRUE(succeeds(Journal::open(deep, *spaces), opened, problem)) << problem;
  EXPECT_TRUE(fs::exists(folder / "a/b/c/sluice/CURRENT"));
}

// The cells after those of a counter's limits are the states of limits that are left out.
TEST_F(JournalTest, LimitsThatAreLeftOutAreKept) {
  State cells[limit::cells_max];
  cells[0] = {now_us + 5, 7};
  const State other{now_us + 9, 3};
  size_t count = limit::left_out::append(
      {{Algorithm::token_bucket, 50, base::seconds(9), 70}, {&other, 1}}, cells, 1);
  const size_t rest =
      limit::left_out::append({{Algorithm::fixed_bucket, 4, {}, 4}, {&other, 1}}, cells, count);
  ASSERT_EQ(rest, 6u);
  {
    auto journal = open();
    ASSERT_TRUE(journal) << problem;
    journal->add({ip, one, "k", {cells, rest}, INT64_MAX});
    commit(*journal);
  }
  forget_numbers();
  auto journal = open();
  ASSERT_TRUE(journal) << problem;
  KeptByKey all;
  all[{ip, "k"}] = {{cells, cells + rest}, one, INT64_MAX};
  EXPECT_EQ(all_of(*journal), all);
}

TEST_F(JournalTest, RejectsAPathThatIsNotAnUsableDirectory) {
  std::ofstream(folder / "data") << "text";
  EXPECT_FALSE(open());
  EXPECT_NE(problem.find("is not a directory"), std::string::npos) << problem;
  auto below = options();
  below.path = folder / "data/below";
  std::unique_ptr<Journal> none;
  EXPECT_FALSE(succeeds(Journal::open(below, *spaces), none, problem));
  EXPECT_NE(problem.find("cannot be made: Not a directory"), std::string::npos) << problem;
  fs::remove(folder / "data");
  fs::create_directory(folder / "data");
  if (::geteuid() != 0) {
    ::chmod((folder / "data").c_str(), 0500);
    EXPECT_FALSE(open());
    EXPECT_NE(problem.find("cannot be written to: Permission denied"), std::string::npos)
        << problem;
  }
  auto proc = options();
  proc.path = "/proc/sluice";
  EXPECT_FALSE(succeeds(Journal::open(proc, *spaces), none, problem));
  EXPECT_NE(problem.find("the directory `/proc/sluice` cannot be made"), std::string::npos)
      << problem;
}

TEST_F(JournalTest, ASecondOpenReportsTheProcessInUse) {
  auto journal = open();
  ASSERT_TRUE(journal);
  EXPECT_FALSE(open());
  EXPECT_NE(problem.find("is in use by process " + std::to_string(::getpid()) + ";"),
            std::string::npos)
      << problem;
  journal.reset();
  EXPECT_TRUE(open()) << problem;
}

TEST_F(JournalTest, RefusesOtherFormats) {
  ASSERT_TRUE(open()) << problem;
  const auto is_refused = [&](const std::string& words) {
    EXPECT_FALSE(open());
    EXPECT_NE(problem.find(words), std::string::npos) << problem;
  };
  std::ofstream(file("sluice/CURRENT"))
      << "sluice store 9, read by sluice 3.14.0 and later\nid 5\n";
  is_refused("has format 9, which sluice 3.14.0 or later reads; this program reads format 5");
  std::ofstream(file("sluice/CURRENT")) << "?";
  is_refused("is damaged: its file CURRENT");
  fs::remove(file("sluice/CURRENT"));
  is_refused("is damaged: its file CURRENT");
  // The format of before has this file, and no CURRENT.
  std::ofstream(file("sluice/FORMAT")) << "sluice store 3, read by sluice 0.1.0 and later\n";
  is_refused("has format 3, which no release has");
  EXPECT_NE(problem.find("move `" + file("sluice") + "` away"), std::string::npos) << problem;
}

// A record of a type that this version does not know is not skipped.
TEST_F(JournalTest, RefusesRecordsOfALaterVersion) {
  ASSERT_TRUE(open()) << problem;
  WrittenBlock later(static_cast<BlockType>(17));
  const uint64_t number = numbers_of(folder / "data", log_kind)->back();
  later.seal(mark_of(look(folder / "data").current.store, number), 0);
  std::ofstream(last_log(), std::ios::app | std::ios::binary) << later.body;
  EXPECT_FALSE(open());
  EXPECT_NE(problem.find("records of type 17, which this version does not know; sluice 0.2.0 or "
                         "later"),
            std::string::npos)
      << problem;
}

// Every missing or changed file is reported as damage, and no store is started empty in its place.
TEST_F(JournalTest, ReportsDamageAndNeverStartsEmpty) {
  KeptByKey many;
  for (int i = 0; i < 5000; ++i) {
    const std::string key = std::to_string(i);
    many[{ip, key}] = kept(i);
  }
  snapshot(many);
  {
    auto journal = open({}, true);
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 5000; ++i) add(*journal, std::to_string(i), i);
      commit(*journal);
    }
  }
  const uint64_t log = numbers_of(folder / "data", log_kind)->back();
  ASSERT_TRUE(open({}, true)) << problem;
  fs::copy(folder / "data", folder / "sound", fs::copy_options::recursive);
  const auto is_told = [&](const std::string& what) {
    auto journal = open();
    bool told_of = journal == nullptr;
    if (journal) {
      KeptByKey all;
      told_of = !succeeds(read_all(*journal, all), problem);
    }
    EXPECT_TRUE(told_of) << what;
    if (problem != "scan failed") {
      EXPECT_NE(problem.find("is damaged: "), std::string::npos) << what << ": " << problem;
      EXPECT_NE(problem.find("sluice store repair DIR"), std::string::npos) << what << problem;
    }
    journal.reset();
    CheckReport report;
    EXPECT_TRUE(succeeds(check(folder / "data"), report, problem)) << problem;
    EXPECT_FALSE(report.damages.empty()) << what;
    fs::remove_all(folder / "data");
    fs::copy(folder / "sound", folder / "data", fs::copy_options::recursive);
  };
  const std::string data = folder / "data";
  const uint64_t number = numbers_of(data, snapshot_kind)->back();
  const std::string its_snapshot = snapshot_of(data, number);
  fs::remove(its_snapshot);
  is_told("no snapshot");
  fs::remove(log_of(data, log));
  is_told("no log in the middle");
  fs::remove(last_log());
  is_told("no last log");
  fs::remove(file("sluice/CURRENT"));
  is_told("no CURRENT");
  turn_bit(file("sluice/CURRENT"), 60);
  is_told("a bit in CURRENT");
  turn_bit(file("sluice/SYNCED"), 20);
  turn_bit(file("sluice/SYNCED"), 512 + 20);
  is_told("a bit in both sectors of SYNCED");
  turn_bit(its_snapshot, 30'000);
  is_told("a bit in the snapshot");
  fs::resize_file(its_snapshot, fs::file_size(its_snapshot) - 1);
  is_told("a snapshot that is cut");
  turn_bit(log_of(data, log), 90'000);
  is_told("a bit in the log");
  fs::resize_file(log_of(data, log), 90'000);
  is_told("a synced log that is cut");
  fs::copy_file(log_of(data, log), last_log(), fs::copy_options::overwrite_existing);
  is_told("another log in the place of one");
  EXPECT_TRUE(open()) << problem;
}

// The log of another store, and the snapshot of an earlier time, are not taken for its own.
TEST_F(JournalTest, FilesOfAnotherStoreOrTimeAreDamage) {
  snapshot({{{ip, "a"}, kept(1)}});
  const std::string data = folder / "data";
  fs::copy(data, folder / "before", fs::copy_options::recursive);
  snapshot({{{ip, "a"}, kept(2)}});
  const uint64_t now = numbers_of(data, snapshot_kind)->back();
  const uint64_t before = numbers_of(folder / "before", snapshot_kind)->back();
  fs::copy_file(snapshot_of(folder / "before", before), snapshot_of(data, now),
                fs::copy_options::overwrite_existing);
  EXPECT_FALSE(open());
  EXPECT_NE(problem.find("is damaged"), std::string::npos) << problem;
  fs::remove_all(data);
  fs::rename(folder / "before", data);
  const std::string log = last_log();
  const uint64_t number = numbers_of(data, log_kind)->back();
  fs::rename(log, folder / "its");
  WrittenBlock begin(BlockType::begin);
  begin.body += text_of(FileBegin{.store = 1, .previous = number - 1, .position = 0});
  begin.seal(mark_of(1, number), 0);
  std::ofstream(log, std::ios::binary) << begin.body;
  EXPECT_FALSE(open());
  EXPECT_NE(problem.find("is of another store"), std::string::npos) << problem;
  fs::rename(folder / "its", log);
  EXPECT_TRUE(open()) << problem;
}

TEST_F(JournalTest, ABackupIsAStore) {
  KeptByKey model;
  for (int i = 0; i < 300; ++i) {
    const std::string key = "s" + std::to_string(i);
    model[{ip, key}] = kept(i);
  }
  snapshot(model);
  offline = true;
  auto journal = open({.log_bytes = 4096, .logs = 100});
  for (int i = 0; i < 3000; ++i) {
    const std::string key = std::to_string(i % 500);
    add(*journal, key, i);
    model[{ip, key}] = kept(i);
    if (i % 10 == 9) commit(*journal);
  }
  ASSERT_TRUE(succeeds(journal->backup(folder / "copy"), problem)) << problem;
  EXPECT_FALSE(succeeds(journal->backup(folder / "copy"), problem));
  EXPECT_NE(problem.find("is there already"), std::string::npos);
  EXPECT_FALSE(succeeds(journal->backup("/proc/copy"), problem));
  add(*journal, "later", 1);
  commit(*journal);

  auto copied = options();
  copied.path = folder / "copy";
  std::unique_ptr<Journal> copy;
  ASSERT_TRUE(succeeds(Journal::open(copied, *spaces), copy, problem)) << problem;
  KeptByKey all = all_of(*copy);
  std::erase_if(all, [&](const auto& at) { return at.first.second == std::string(100, 'f'); });
  EXPECT_EQ(all, model);
}

TEST_F(JournalTest, RefusesASpaceWhoseWindowsChanged) {
  const auto space = [&](std::vector<limit::Duration> windows) {
    request::Space like;
    like.windows = std::move(windows);
    return spaces->intern("droplet:", "", std::move(like));
  };
  const std::vector<State> cells{{now_us, 1}, {now_us, 9}, {7, 0}};
  for (const bool in_snapshot : {false, true}) {
    fs::remove_all(folder / "data");
    forget_numbers();
    const request::Space* const kept_space = space({{5}, {9}});
    if (in_snapshot) {
      snapshot({{{kept_space, "k"}, {cells, 0, INT64_MAX}}});
    } else {
      auto journal = open();
      journal->add({kept_space, 0, "k", cells, INT64_MAX});
      commit(*journal);
    }
    {
      auto journal = open();
      EXPECT_TRUE(all_of(*journal).contains({kept_space, "k"}));
    }
    forget_numbers();
    space({{5}, {10}});
    EXPECT_FALSE(open());
    EXPECT_NE(problem.find("`droplet:` have other windows"), std::string::npos) << problem;
  }
}

}  // namespace
}  // namespace sluice::disk::journal_test
