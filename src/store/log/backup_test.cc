// Copies of a store: rights of the files, unfinished copies, refused places.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "store/log/folder.h"
#include "store/log/folder_test.h"
#include "store/log/log_journal.h"
#include "store/log/tools.h"

namespace sluice::disk {
namespace {

namespace fs = std::filesystem;

class BackupTest : public testing::Test {
 protected:
  std::unique_ptr<LogJournal> open() {
    spaces = std::make_unique<request::Spaces>();
    space = spaces->intern("copied:", "");
    JournalOptions options;
    options.path = data;
    options.now = [] { return base::Time{now_us}; };
    auto journal = std::make_unique<LogJournal>(std::move(options), *spaces);
    EXPECT_TRUE(succeeds(journal->open(), problem)) << problem;
    EXPECT_TRUE(succeeds(read_all(*journal, found), problem)) << problem;
    return journal;
  }
  void commit(Journal& journal, const std::string& key, int64_t quota = 10) {
    const limit::State cell{now_us, 1};
    const uint32_t limits_id = spaces->intern_limits(
        std::vector<limit::Limit>{{limit::Algorithm::fixed_window, quota, base::seconds(1), 0}});
    journal.add({space, limits_id, key, {&cell, 1}, INT64_MAX});
    ASSERT_TRUE(succeeds(journal.commit(), problem)) << problem;
  }
  static mode_t mode_of(const fs::path& path) {
    struct stat its {};
    EXPECT_EQ(::lstat(path.c_str(), &its), 0) << path;
    return its.st_mode & 07777;
  }

  static constexpr int64_t now_us = 1'700'000'000'000'000;
  Folder folder;
  const std::string data = folder / "data";
  std::unique_ptr<request::Spaces> spaces;
  const request::Space* space = nullptr;
  KeptByKey found;
  std::string problem;
};

TEST_F(BackupTest, IsReadableByItsOwnerOnly) {
  auto journal = open();
  for (int i = 0; i < 20; ++i) commit(*journal, std::to_string(i));
  ASSERT_TRUE(succeeds(journal->backup(folder / "deep/copy"), problem)) << problem;
  EXPECT_EQ(mode_of(folder / "deep/copy"), 0700u);
  size_t files = 0;
  for (const auto& at : fs::recursive_directory_iterator(folder / "deep/copy")) {
    EXPECT_EQ(mode_of(at.path()), at.is_directory() ? 0700u : 0600u) << at.path();
    ++files;
  }
  EXPECT_GT(files, 3u);
  EXPECT_FALSE(fs::exists(folder / "deep/copy.new"));
  EXPECT_FALSE(fs::exists(folder / "deep/copy/UNFINISHED"));
  // The store itself has the same rights.
  EXPECT_EQ(mode_of(store_of(data)), 0700u);
  EXPECT_EQ(mode_of(data + "/sluice.lock"), 0600u);
}

TEST_F(BackupTest, RemovesOnlyLeftoversOfAnEarlierBackup) {
  auto journal = open();
  commit(*journal, "a");
  const std::string copy = folder / "copy", fresh = folder / "copy.new";
  const auto refuses = [&] {
    EXPECT_FALSE(succeeds(journal->backup(copy), problem));
    EXPECT_NE(problem.find("copy.new` is there already"), std::string::npos) << problem;
    EXPECT_FALSE(fs::exists(copy));
  };
  std::ofstream(fresh) << "ten bytes.";
  refuses();
  EXPECT_EQ(fs::file_size(fresh), 10u);
  fs::remove(fresh);
  fs::create_directory(fresh);
  std::ofstream(fresh + "/letters") << "ten bytes.";
  refuses();
  EXPECT_TRUE(fs::exists(fresh + "/letters"));
  fs::rename(fresh, folder / "else");
  fs::create_directory_symlink(folder / "else", fresh);
  refuses();
  EXPECT_TRUE(fs::exists(folder / "else/letters"));
  fs::remove(fresh);
  // A copy that was unfinished when its process was killed.
  fs::create_directories(fresh + "/sluice");
  std::ofstream(fresh + "/UNFINISHED") << "";
  EXPECT_TRUE(succeeds(journal->backup(copy), problem)) << problem;
  EXPECT_FALSE(fs::exists(fresh));
  EXPECT_FALSE(succeeds(journal->backup(copy), problem));
  EXPECT_NE(problem.find("copy` is there already"), std::string::npos) << problem;
}

TEST_F(BackupTest, RefusesATargetInsideTheStore) {
  auto journal = open();
  commit(*journal, "a");
  fs::create_directory(folder / "other");
  fs::create_directory_symlink(data, folder / "other/link");
  const auto refuses = [&](const std::string& target) {
    EXPECT_FALSE(succeeds(journal->backup(target), problem)) << target;
    EXPECT_NE(problem.find("of which it must be a copy"), std::string::npos) << problem;
  };
  for (const char* const in : {"/in", "/in/", "/sluice/in", "/new/deep/in", "/../data/in"})
    refuses(data + in);
  refuses(folder / "other/link/in");
  EXPECT_FALSE(fs::exists(data + "/new"));
  EXPECT_TRUE(succeeds(journal->backup(folder / "data2"), problem)) << problem;
  EXPECT_TRUE(succeeds(journal->backup(data + "/../beside"), problem)) << problem;
  journal.reset();
  EXPECT_FALSE(succeeds(backup(data, data + "/in"), problem));
  EXPECT_NE(problem.find("of which it must be a copy"), std::string::npos) << problem;
}

}  // namespace
}  // namespace sluice::disk
