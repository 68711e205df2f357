// The journal in RocksDB (disk/rocks_journal.h): what was committed is found again by another
// process, against a map; folds, bounds, formats, damage and copies.
#include "disk/journal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "base/bounds.h"
#include "disk/folder_test.h"
#include "disk/rocks_journal.h"
#include "limit/left_out.h"
#include "tests/support/dice.h"

namespace sluice::disk::journal_test {
namespace {

using limit::Algorithm;
using limit::Limit;
using limit::State;

// Each block is folded as soon as it is committed, and flushes are frequent.
constexpr Folding at_once{1, 1, 1 << 20, 2 << 20, 64 << 10};

class JournalTest : public testing::Test {
 protected:
  JournalTest() { name_all(); }

  std::unique_ptr<Journal> open(Folding folding = {}) {
    auto journal = std::make_unique<RocksJournal>(options(), *spaces, folding);
    problem.clear();
    if (!succeeds(journal->open(), problem)) return nullptr;
    return journal;
  }
  JournalOptions options() {
    JournalOptions options;
    options.path = folder / "data";
    options.now = [this] { return base::Time{now_us}; };
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
  static void settle(Journal& journal) {
    for (int i = 0; i < 20'000 && journal.stats().unfolded_bytes > 0; ++i) ::usleep(1000);
    ASSERT_EQ(journal.stats().unfolded_bytes, 0u);
  }
  std::string file(const std::string& name) { return folder / ("data/" + name); }
  // The only file below `part` whose name ends with `end`; of several the largest.
  std::string file_like(const std::string& part, const std::string& end) {
    std::string found;
    uintmax_t most = 0;
    for (const auto& at : std::filesystem::directory_iterator(file("sluice/" + part))) {
      if (!at.path().string().ends_with(end) || at.file_size() < most) continue;
      found = at.path();
      most = at.file_size();
    }
    EXPECT_FALSE(found.empty()) << part << " " << end;
    return found;
  }
  static void turn_bit(const std::string& path, long from_end) {
    std::fstream f(path, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(-from_end, std::ios::end);
    const int byte = f.get();
    f.seekp(-from_end, std::ios::end);
    f.put(static_cast<char>(byte ^ 4));
    EXPECT_TRUE(f.good());
  }

  Folder folder;
  std::atomic<int64_t> now_us{1'700'000'000'000'000};
  std::unique_ptr<request::Spaces> spaces = std::make_unique<request::Spaces>();
  const request::Space *ip = nullptr, *pairs = nullptr;
  uint32_t one = 0, two = 0;
  std::string problem;
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
    EXPECT_EQ(journal->stats().blocks, 1u);
    add(*journal, "c", 4);  // never committed
  }
  forget_numbers();
  auto journal = open();
  ASSERT_TRUE(journal) << problem;
  EXPECT_EQ(all_of(*journal), (KeptByKey{{{ip, "a"}, kept(3)}, {{ip, "b"}, kept(2)}}));
}

TEST_F(JournalTest, FoldedCountersAreFound) {
  auto journal = open(at_once);
  all_of(*journal);
  journal->start_folding();
  add(*journal, "a", 1);
  add(*journal, "b", 2, now_us + 10);
  const std::vector<State> three{{1, 2}, {3, 4}, {5, 6}};
  journal->add({pairs, two, std::string("\0\xff", 2), three, 77'000'000'000'000'000});
  commit(*journal);
  settle(*journal);

  KeptByKey found;
  EXPECT_EQ(journal->find(*ip, "a", collect(found)), Journal::Found::yes);
  EXPECT_EQ(journal->find(*ip, "b", collect(found)), Journal::Found::yes);
  EXPECT_EQ(journal->find(*pairs, std::string("\0\xff", 2), collect(found)), Journal::Found::yes);
  EXPECT_EQ(journal->find(*pairs, "a", collect(found)), Journal::Found::no);
  EXPECT_EQ(journal->find(*spaces->intern("new", ""), "a", collect(found)), Journal::Found::no);
  EXPECT_EQ(found,
            (KeptByKey{{{ip, "a"}, kept(1)},
                       {{ip, "b"}, kept(2, now_us + 10)},
                       {{pairs, std::string("\0\xff", 2)}, {three, two, 77'000'000'000'000'000}}}));

  // A counter past its time is not found, nor is one that was erased.
  now_us += 10;
  EXPECT_EQ(journal->find(*ip, "b", collect(found)), Journal::Found::no);
  journal->add({ip, one, "a", {}, INT64_MAX});
  commit(*journal);
  settle(*journal);
  EXPECT_EQ(journal->find(*ip, "a", collect(found)), Journal::Found::no);
  std::string position;
  found.clear();
  EXPECT_TRUE(journal->scan(position, 100, collect(found)));
  EXPECT_EQ(found.size(), 1u);
  EXPECT_EQ(position, "");
}

TEST_F(JournalTest, AScanContinuesAtItsPosition) {
  auto journal = open(at_once);
  all_of(*journal);
  journal->start_folding();
  KeptByKey all, model;
  for (int i = 0; i < 1000; ++i) {
    add(*journal, std::to_string(i), i);
    const std::string key = std::to_string(i);
    model[{ip, key}] = kept(i);
  }
  commit(*journal);
  settle(*journal);
  std::string position;
  size_t calls = 0, visited = 0;
  do {
    ++calls;
    ASSERT_TRUE(journal->scan(position, 7, [&](const Record& record) {
      ++visited;
      collect(all)(record);
    }));
  } while (!position.empty());
  EXPECT_EQ(all, model);
  EXPECT_EQ(visited, 1000u);
  EXPECT_EQ(calls, 143u);
}

// Random adds, commits, folds, steps of time and reopenings, against a map.
TEST_F(JournalTest, RandomOperationsMatchAMap) {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    Folder another;
    std::filesystem::rename(another.path(), folder / "data");
    tests::Dice dice(seed);
    KeptByKey model, open_block;
    std::unique_ptr<Journal> journal;
    for (int step = 0; step < 600; ++step) {
      if (!journal) {
        const Folding sometimes{size_t{1} << dice(14), 50, size_t{1} << dice(16), 1 << 17, 4096};
        journal = open(dice(2) == 0 ? at_once : sometimes);
        ASSERT_TRUE(journal) << problem;
        ASSERT_NO_FATAL_FAILURE(expect_like(model, all_of(*journal)));
        journal->start_folding();
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
          open_block[{space, key}] = kept_of(record);
        }
      } else if (what < 90) {
        commit(*journal);
        for (const auto& [key, its] : open_block) model[key] = its;
        std::erase_if(model, [](const auto& at) { return at.second.cells.empty(); });
        open_block.clear();
      } else if (what < 96) {
        now_us += dice(100);
      } else if (what < 98) {
        if (journal->stats().unfolded_bytes == 0) {
          KeptByKey all;
          for (const auto& [key, its] : model) journal->find(*key.first, key.second, collect(all));
          ASSERT_NO_FATAL_FAILURE(expect_like(model, all));
        }
      } else {
        journal.reset();
        open_block.clear();
      }
    }
    journal.reset();
    std::filesystem::remove_all(folder / "data");
  }
}

TEST_F(JournalTest, UnfoldedBlocksStayBelowTheBound) {
  constexpr Folding small{8 << 10, 1000, 12 << 10, 16 << 10, 16 << 10};
  auto journal = open(small);
  all_of(*journal);
  journal->start_folding();
  KeptByKey model, all;
  for (int i = 0; i < 600; ++i) {
    for (int n = 0; n < 200; ++n) {
      const std::string key = std::to_string(i % 7 * 200 + n);
      add(*journal, key, i);
      model[{ip, key}] = kept(i);
    }
    commit(*journal);
    ASSERT_LE(journal->stats().unfolded_bytes, 16u << 10);
  }
  EXPECT_GT(journal->stats().folds, 50u);
  journal.reset();
  journal = open();
  EXPECT_EQ(all_of(*journal), model);
}

// A commit that grows too large is written in parts; the last part has each counter's last state.
TEST_F(JournalTest, ACommitOfAnySize) {
  auto journal = open();
  all_of(*journal);
  journal->start_folding();
  for (int64_t i = 0; i < 3'000'000; ++i) {
    const State cell{now_us + 5, i};
    char key[16];
    const int bytes = std::snprintf(key, sizeof key, "%ld", static_cast<long>(i % 1'000'000));
    journal->add({ip, one, {key, static_cast<size_t>(bytes)}, {&cell, 1}, INT64_MAX});
  }
  EXPECT_EQ(journal->pending(), 3'000'000u);
  commit(*journal);
  EXPECT_LE(journal->stats().unfolded_bytes, base::bounds::unfolded_bytes_max);
  EXPECT_EQ(journal->stats().counters, 3'000'000u);
  journal.reset();
  journal = open();
  const KeptByKey all = all_of(*journal);
  ASSERT_EQ(all.size(), 1'000'000u);
  for (const auto& [key, its] : all)
    ASSERT_EQ(its.cells[0].units, 2'000'000 + std::stol(key.second));
}

TEST_F(JournalTest, TheDirectoryIsMadeWithItsParents) {
  auto deep = options();
  deep.path = folder / "a/b/c";
  std::unique_ptr<Journal> opened;
  EXPECT_TRUE(succeeds(Journal::open(deep, *spaces), opened, problem)) << problem;
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b/c/sluice/counters"));
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
  auto journal = open(at_once);
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
  std::filesystem::remove(folder / "data");
  std::filesystem::create_directory(folder / "data");
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

TEST_F(JournalTest, RefusesAnEarlierFormatAndSaysHowToBegin) {
  ASSERT_TRUE(open()) << problem;
  for (const char* number : {"1", "2"}) {
    const std::string line =
        std::string("sluice store ") + number + ", read by sluice 0.1.0 and later\n";
    std::ofstream(file("sluice/FORMAT")) << line;
    EXPECT_FALSE(open());
    for (const std::string& part :
         {std::string("has format ") + number + ", which no release has",
          std::string("this program reads format 3"), "move `" + file("sluice") + "` away"})
      EXPECT_NE(problem.find(part), std::string::npos) << problem;
    std::ifstream format(file("sluice/FORMAT"));
    std::string kept;
    std::getline(format, kept);
    EXPECT_EQ(kept + "\n", line);
  }
}

TEST_F(JournalTest, RefusesANewerFormatNamingItsReader) {
  ASSERT_TRUE(open());
  std::ofstream(file("sluice/FORMAT")) << "sluice store 9, read by sluice 3.14.0 and later\n";
  EXPECT_FALSE(open());
  EXPECT_NE(problem.find("has format 9, which sluice 3.14.0 or later reads"), std::string::npos)
      << problem;
  std::ofstream(file("sluice/FORMAT")) << "?";
  EXPECT_FALSE(open());
  EXPECT_NE(problem.find("is damaged: its file FORMAT"), std::string::npos) << problem;
}

// Every missing or changed file is reported as damage, and no store is started empty in its place.
TEST_F(JournalTest, ReportsDamageAndNeverStartsEmpty) {
  {
    auto journal = open(at_once);
    all_of(*journal);
    journal->start_folding();
    for (int i = 0; i < 5000; ++i) add(*journal, std::to_string(i), i);
    commit(*journal);
    settle(*journal);
  }
  {
    auto journal = open();
    all_of(*journal);
    for (int i = 0; i < 5000; ++i) add(*journal, std::to_string(i), i);
    commit(*journal);
    for (int i = 0; i < 5000; ++i) add(*journal, std::to_string(i), i);
    commit(*journal);
  }
  std::filesystem::copy(folder / "data", folder / "sound",
                        std::filesystem::copy_options::recursive);
  const auto again = [&] {
    std::filesystem::remove_all(folder / "data");
    std::filesystem::copy(folder / "sound", folder / "data",
                          std::filesystem::copy_options::recursive);
  };
  const auto is_told = [&](const std::string& what) {
    auto journal = open();
    bool told = journal == nullptr;
    if (journal) {
      KeptByKey all;
      told = !succeeds(read_all(*journal, all), problem);
    }
    EXPECT_TRUE(told) << what;
    if (problem != "scan failed") {
      EXPECT_NE(problem.find("is damaged: "), std::string::npos) << what << ": " << problem;
      EXPECT_NE(problem.find("sluice store repair DIR"), std::string::npos) << what << problem;
    }
    again();
  };
  std::filesystem::remove_all(file("sluice/blocks"));
  is_told("no blocks");
  std::filesystem::remove(file("sluice/counters/CURRENT"));
  is_told("no CURRENT");
  std::filesystem::remove(file("sluice/FORMAT"));
  is_told("no FORMAT");
  std::filesystem::remove(file_like("counters", ".sst"));
  is_told("no table");
  turn_bit(file_like("counters", ".sst"), 100'000);
  is_told("a bit in a table");
  turn_bit(file_like("blocks", ".log"), 90'000);
  is_told("a bit in the log");
  EXPECT_TRUE(open()) << problem;
}

TEST_F(JournalTest, ABackupIsAStore) {
  auto journal = open(at_once);
  all_of(*journal);
  journal->start_folding();
  KeptByKey model;
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
  EXPECT_EQ(all_of(*copy), model);
}

TEST_F(JournalTest, RefusesASpaceWhoseWindowsChanged) {
  const auto space = [&](std::vector<limit::Duration> windows) {
    request::Space like;
    like.windows = std::move(windows);
    return spaces->intern("droplet:", "", std::move(like));
  };
  {
    auto journal = open();
    all_of(*journal);
    const std::vector<State> cells{{now_us, 1}, {now_us, 9}, {7, 0}};
    journal->add({space({{5}, {9}}), 0, "k", cells, INT64_MAX});
    commit(*journal);
  }
  {
    auto journal = open();
    EXPECT_EQ(all_of(*journal).size(), 1u);
  }
  forget_numbers();
  space({{5}, {10}});
  EXPECT_FALSE(open());
  EXPECT_NE(problem.find("`droplet:` have other windows"), std::string::npos) << problem;
}

}  // namespace
}  // namespace sluice::disk::journal_test
