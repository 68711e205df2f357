// Limits left out (limit/left_out.h) of stored counters whose cells no counter could have left: a
// block with them is damaged, folded counters with them fail, and other counters are kept.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/bounds.h"
#include "disk/folder_test.h"
#include "disk/journal.h"
#include "disk/rocks_journal.h"
#include "disk/tools.h"
#include "limit/left_out.h"

namespace sluice::disk::left_out_cells_test {
namespace {

using limit::Algorithm;
using limit::Limit;
using limit::State;

constexpr int64_t now_us = 1'700'000'000'000'000;

using CellsByName = std::map<std::string, std::vector<State>>;

class LeftOutCells : public testing::Test {
 protected:
  LeftOutCells() {
    ip = spaces.intern("ip:", "");
    one = spaces.intern_limits(
        std::vector<Limit>{{Algorithm::token_bucket, 10, base::seconds(1), 20}});
  }
  std::unique_ptr<Journal> open(Folding folding = {}) {
    JournalOptions options;
    options.path = folder / "data";
    options.now = [] { return base::Time{now_us}; };
    auto journal = std::make_unique<RocksJournal>(std::move(options), spaces, folding);
    EXPECT_TRUE(succeeds(journal->open(), problem)) << problem;
    return journal;
  }
  void add(Journal& journal, const std::string& key, const std::vector<State>& cells) const {
    journal.add({ip, one, key, cells, INT64_MAX});
  }
  // A new store, of a block with the counters `a`, then `bad`, then `z`.
  void write(const CellsByName& bad) {
    std::filesystem::remove_all(folder / "data");
    const auto journal = open();
    add(*journal, "a", sound());
    for (const auto& [name, cells] : bad) add(*journal, name, cells);
    add(*journal, "z", sound());
    ASSERT_TRUE(succeeds(journal->commit(), problem)) << problem;
  }
  // A cell of the limit in force, and a token bucket that is left out: its head, its burst, its
  // state.
  static std::vector<State> sound() {
    std::vector<State> cells(limit::cells_max);
    cells[0] = {now_us + 5, 7};
    const State state{now_us + 9, 3};
    const Limit bucket{Algorithm::token_bucket, 50, base::seconds(9), 70};
    cells.resize(limit::left_out::append({bucket, {&state, 1}}, cells.data(), 1));
    EXPECT_EQ(cells.size(), 4u);
    return cells;
  }
  // What is kept of the counters with those keys, all of which are sound.
  KeptByKey kept(const std::vector<std::string>& keys) const {
    KeptByKey all;
    for (const std::string& key : keys) all[{ip, key}] = {sound(), one, INT64_MAX};
    return all;
  }

  static CellsByName invalid();

  Folder folder;
  request::Spaces spaces;
  const request::Space* ip = nullptr;
  uint32_t one = 0;
  std::string problem;
};

CellsByName LeftOutCells::invalid() {
  CellsByName all;
  // The head's mark: 3 bits of algorithm, 1 of a second cell, 6 of a number of cells, the window.
  constexpr int64_t fixed_window = 0, token_bucket = 2, fixed_bucket = 5, none = 6;
  constexpr int64_t second_cell = 1 << 3, one_cell = 1 << 4, window = 1 << 10;
  const auto with = [&](const std::string& name, size_t cell, int64_t turned, int64_t units) {
    auto& cells = all[name] = sound();
    cells[cell] = {cells[cell].fresh_at_us ^ turned, units};
  };
  with("an algorithm that is none", 1, token_bucket ^ none, 50);
  with("another algorithm, which has no burst", 1, token_bucket ^ fixed_window, 50);
  with("a fixed bucket with a window", 1, token_bucket ^ fixed_bucket, 50);
  with("no window", 1, base::seconds(9).us * window, 50);
  with("a window that is too long", 1, INT64_MIN, 50);
  with("a quota of 0", 1, 0, 0);
  with("a quota that is too large", 1, 0, base::bounds::quota_max + 1);
  with("a second cell that is not announced", 1, second_cell, 50);
  with("no cells of state", 1, one_cell, 50);
  with("three cells of state", 1, 2 * one_cell, 50);
  with("a burst of 0", 2, 0, 0);
  with("a burst that is the quota", 2, 0, 50);
  with("a second cell with a time", 2, 1, 70);
  (all["no state"] = sound()).pop_back();
  (all["a head alone"] = sound()).resize(2);
  (all["a cell behind the last limit"] = sound()).push_back({now_us, 1});
  return all;
}

TEST_F(LeftOutCells, ABlockWithInvalidOnesIsDamaged) {
  for (const auto& bad : invalid()) {
    write({bad});
    const auto journal = open();
    KeptByKey all;
    problem.clear();
    EXPECT_FALSE(succeeds(read_all(*journal, all), problem)) << bad.first;
    EXPECT_NE(problem.find("names what the store does not know"), std::string::npos) << problem;
    EXPECT_NE(problem.find("sluice store repair DIR"), std::string::npos) << problem;
  }
}

TEST_F(LeftOutCells, ARepairDropsCountersOfABlockWithInvalidOnesAndKeepsTheOthers) {
  const CellsByName bad = invalid();
  write(bad);
  CheckReport found;
  ASSERT_TRUE(succeeds(check(folder / "data"), found, problem)) << problem;
  EXPECT_EQ(found.unreadable, bad.size());
  RepairReport report;
  ASSERT_TRUE(succeeds(repair(folder / "data"), report, problem)) << problem;
  EXPECT_EQ(report.counters, 2u);
  EXPECT_FALSE(report.damages.empty());
  const auto journal = open();
  KeptByKey all;
  EXPECT_TRUE(succeeds(read_all(*journal, all), problem)) << problem;
  EXPECT_EQ(all, kept({"a", "z"}));
}

TEST_F(LeftOutCells, FoldedCountersWithInvalidOnesFailAndOthersAreFound) {
  const CellsByName bad = invalid();
  write(bad);
  {
    const auto journal = open({1, 1, 1 << 20, 2 << 20, 64 << 10});  // folds at once
    EXPECT_TRUE(succeeds(journal->read_blocks(), problem)) << problem;
    journal->start_folding();
    ASSERT_TRUE(wait_for_folds(*journal, 1));
    KeptByKey found;
    for (const auto& [name, cells] : bad)
      EXPECT_EQ(journal->find(*ip, name, collect(found)), Journal::Found::failed) << name;
    for (const std::string key : {"a", "z"})
      EXPECT_EQ(journal->find(*ip, key, collect(found)), Journal::Found::yes);
    EXPECT_EQ(found, kept({"a", "z"}));
    std::string position;
    EXPECT_FALSE(journal->scan(position, 1'000, collect(found)));
  }
  RepairReport report;
  ASSERT_TRUE(succeeds(repair(folder / "data"), report, problem)) << problem;
  EXPECT_EQ(report.counters, 2u);
  const auto journal = open();
  KeptByKey all;
  EXPECT_TRUE(succeeds(read_all(*journal, all), problem)) << problem;
  EXPECT_EQ(all, kept({"a", "z"}));
}

}  // namespace
}  // namespace sluice::disk::left_out_cells_test
