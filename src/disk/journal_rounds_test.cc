// Rounds of the dictionary in a real journal, while it commits: numbers that no record names are
// used again, and each counter is found under the space and the limits that it was written under,
// whether its record is folded, only in a block, or committed during the round.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "disk/folder_test.h"
#include "disk/rocks_journal.h"
#include "disk/tools.h"

namespace sluice::disk {
namespace {

using std::chrono::steady_clock;

constexpr int lives = 2, cycles = 5, generations = 40, numbers_min = 32;

class JournalRounds : public testing::Test {
 protected:
  // These sizes are never reached: blocks are folded only for a round of the dictionary.
  static constexpr Folding only_for_rounds{size_t{64} << 20,  1 << 20,  size_t{96} << 20,
                                           size_t{128} << 20, 64 << 10, numbers_min};

  std::unique_ptr<RocksJournal> open() {
    spaces = std::make_unique<request::Spaces>();
    JournalOptions options;
    options.path = data;
    options.now = [] { return base::Time{1'700'000'000'000'000}; };
    auto journal = std::make_unique<RocksJournal>(std::move(options), *spaces, only_for_rounds);
    EXPECT_TRUE(succeeds(journal->open(), problem)) << problem;
    found.clear();
    EXPECT_TRUE(succeeds(read_all(*journal, found), problem)) << problem;
    return journal;
  }
  using Name = std::pair<std::string, std::string>;  // a counter's space and key

  // Writes a counter under limits that are recognized by their quota.
  void write(Journal& journal, const Name& name, int64_t quota) {
    const uint32_t limits_id = spaces->intern_limits(
        std::vector<limit::Limit>{{limit::Algorithm::fixed_window, quota, base::seconds(1), 0}});
    const limit::State cell{1, quota};
    journal.add({spaces->intern(name.first, ""), limits_id, name.second, {&cell, 1}, INT64_MAX});
    ASSERT_TRUE(succeeds(journal.commit(), problem)) << problem;
    model[name] = quota;
  }
  void forget(Journal& journal, const Name& name) {
    journal.add({spaces->intern(name.first, ""), 0, name.second, {}, INT64_MAX});
    ASSERT_TRUE(succeeds(journal.commit(), problem)) << problem;
    model.erase(name);
  }
  // New limits each time, and a new space every other time; of as many counters as a cycle has, one
  // stays.
  void write_generation(Journal& journal) {
    ++generation;
    const Name name{"space " + std::to_string(generation / 2) + ":", "k"};
    ASSERT_NO_FATAL_FAILURE(write(journal, name, generation));
    if (generation % generations != 7) {
      ASSERT_NO_FATAL_FAILURE(forget(journal, name));
    }
    // Limits that were used before, and that no counter may have named since.
    const Name again{"again:", std::to_string(generation % (2 * generations))};
    ASSERT_NO_FATAL_FAILURE(write(journal, again, std::max<int64_t>(1, generation - 20)));
  }
  // Compares the counters with the model: each as it was written last, and no others.
  void expect_all() {
    std::map<Name, int64_t> read;
    for (const auto& [at, kept] : found) {
      const int64_t quota = spaces->limits(kept.limits_id).front().quota;
      EXPECT_EQ(kept.cells.front().units, quota);
      read.emplace(Name(at.first->prefix, at.second), quota);
    }
    ASSERT_EQ(read, model);
  }

  const Folder folder;
  const std::string data = folder / "data";
  std::unique_ptr<request::Spaces> spaces;
  KeptByKey found;
  std::map<Name, int64_t> model;  // the quota that each counter was written under last
  std::string problem;
  int64_t generation = 0;
};

TEST_F(JournalRounds, FreeOnlyNumbersThatNoRecordNames) {
  for (int life = 0; life < lives; ++life) {
    SCOPED_TRACE(life);
    auto journal = open();
    ASSERT_NO_FATAL_FAILURE(expect_all());
    journal->all_is_loaded();
    journal->start_folding();
    for (uint64_t cycle = 1; cycle <= cycles; ++cycle) {
      for (int i = 0; i < generations; ++i) ASSERT_NO_FATAL_FAILURE(write_generation(*journal));
      // A commit, even an empty one, begins a round if the last round has ended. What was written
      // before that end counts as used, so on a slow machine more must be written.
      const auto deadline = steady_clock::now() + std::chrono::seconds(60);
      for (int commits = 1; journal->stats().folds < cycle && steady_clock::now() < deadline;
           ++commits) {
        if (commits % 100 == 0) {
          ASSERT_NO_FATAL_FAILURE(write_generation(*journal));
        }
        ASSERT_TRUE(succeeds(journal->commit(), problem)) << problem;
        ::usleep(500);
      }
      ASSERT_GE(journal->stats().folds, cycle) << "no round began";
    }
  }
  open();
  ASSERT_NO_FATAL_FAILURE(expect_all());
  // Of 400 lists and 200 spaces there are those that counters name, and as many as may be unused
  // before two rounds begin.
  StoreStats its;
  ASSERT_TRUE(succeeds(stats(data), its, problem)) << problem;
  EXPECT_LE(its.limits, model.size() + 4 * generations);
  EXPECT_LE(its.spaces, lives * cycles + 3 * generations);
}

}  // namespace
}  // namespace sluice::disk
