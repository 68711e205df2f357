#include "disk/journal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/bounds.h"
#include "disk/folder_test.h"
#include "tests/support/dice.h"

namespace sluice::disk {
namespace {

using limit::Algorithm;
using limit::Limit;
using limit::State;

class JournalTest : public testing::Test {
 protected:
  std::unique_ptr<Journal> open() {
    JournalOptions options;
    options.path = folder.path();
    options.now = [this] { return base::Time{now_us}; };
    auto journal = Journal::open(std::move(options), *spaces, problem);
    EXPECT_TRUE(journal) << problem;
    return journal;
  }
  // Another process: nothing of this one's numbers is left.
  void forget_numbers() {
    spaces = std::make_unique<limit::Spaces>();
    spaces->intern_limits(std::vector<Limit>{{Algorithm::fixed_window, 999, {5}, 0}});
    spaces->intern("another", "");
    name_all();
  }
  void name_all() {
    ip = spaces->intern("ip:", "");
    limits_id = spaces->intern_limits(
        std::vector<Limit>{{Algorithm::token_bucket, 10, base::seconds(1), 20}});
  }
  void add(Journal& journal, const std::string& key, int64_t units,
           int64_t forget_us = INT64_MAX - 1) {
    const State cell{now_us + 5, units};
    journal.add({ip, limits_id, key, {&cell, 1}, forget_us});
  }
  void SetUp() override { name_all(); }

  Folder folder;
  std::atomic<int64_t> now_us{1'700'000'000'000'000};
  std::unique_ptr<limit::Spaces> spaces = std::make_unique<limit::Spaces>();
  const limit::Space* ip = nullptr;
  uint32_t limits_id = 0;
  std::string problem;
};

TEST_F(JournalTest, WhatIsCommittedIsThereAgain) {
  {
    auto journal = open();
    KeptByKey all;
    ASSERT_TRUE(read_all(*journal, all, problem)) << problem;
    EXPECT_TRUE(all.empty());
    add(*journal, "a", 1);
    add(*journal, "b", 2);
    add(*journal, "a", 3);
    EXPECT_EQ(journal->pending(), 3u);
    ASSERT_TRUE(journal->commit(problem)) << problem;
    EXPECT_EQ(journal->pending(), 0u);
    add(*journal, "c", 4);  // never committed
  }
  forget_numbers();
  auto journal = open();
  KeptByKey all;
  ASSERT_TRUE(read_all(*journal, all, problem)) << problem;
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ((all[{ip, "a"}]), (Kept{{{now_us + 5, 3}}, limits_id, INT64_MAX - 1}));
  EXPECT_EQ((all[{ip, "b"}]), (Kept{{{now_us + 5, 2}}, limits_id, INT64_MAX - 1}));
}

}  // namespace
}  // namespace sluice::disk
