// Changes of watched files, folders and links are noticed (live/reloader.h).
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "live/reloader.h"

namespace sluice::live {
namespace {

namespace fs = std::filesystem;

class FileWatches : public testing::Test {
 protected:
  FileWatches() {
    std::string path = (fs::temp_directory_path() / "sluice-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = fs::canonical(path);
  }
  ~FileWatches() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  fs::path write(const std::string& name, const std::string& text = "x") const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  void open() { ASSERT_EQ(watch_.open(), std::nullopt); }
  // Watches a name in the folder. True: something changed since the last call.
  bool watch(const std::string& name) {
    std::optional<std::string> problem;
    const bool changed = watch_.watch({folder_ / name}, problem);
    EXPECT_EQ(problem, std::nullopt);
    return changed;
  }
  // inotify reports a change before the system call that makes it returns.
  bool news() { return watch_.read_news(); }

  fs::path folder_;
  FileWatch watch_;
};

TEST_F(FileWatches, WatchesTheNamesOfFilesAndOfLinksOnTheWay) {
  fs::create_directories(folder_ / "real/deep");
  write("real/deep/rules.ini");
  fs::create_directory_symlink("real", folder_ / "link");
  fs::create_symlink("../link/./deep/../deep/rules.ini", folder_ / "real/alias.ini");
  const std::string in = folder_.string();
  const std::map<std::string, std::set<std::string>> straight{{in + "/real/deep", {"rules.ini"}}};
  EXPECT_EQ(names_on_the_way({in + "/real/deep/rules.ini"}), straight);
  const std::map<std::string, std::set<std::string>> winding{
      {in, {"link"}}, {in + "/real", {"alias.ini"}}, {in + "/real/deep", {"rules.ini"}}};
  EXPECT_EQ(names_on_the_way({in + "/link/alias.ini"}), winding);
  const std::map<std::string, std::set<std::string>> nowhere{{in + "/real", {"gone"}}};
  EXPECT_EQ(names_on_the_way({in + "/real/gone/further/rules.ini"}), nowhere);
}

TEST_F(FileWatches, LinksInACircleEnd) {
  fs::create_symlink("b", folder_ / "a");
  fs::create_symlink("a", folder_ / "b");
  const std::map<std::string, std::set<std::string>> both{{folder_, {"a", "b"}}};
  EXPECT_EQ(names_on_the_way({folder_ / "a"}), both);
}

TEST_F(FileWatches, AnyChangeInAFolderIsReported) {
  open();
  EXPECT_TRUE(watch("all.d/"));
  write("other");
  EXPECT_FALSE(news());
  fs::create_directory(folder_ / "all.d");
  EXPECT_TRUE(news());
  EXPECT_TRUE(watch("all.d/"));
  EXPECT_FALSE(watch("all.d/"));
  write("all.d/10.yml");
  EXPECT_TRUE(news());
  fs::remove(folder_ / "all.d/10.yml");
  EXPECT_TRUE(news());
  write("other");
  EXPECT_FALSE(news());
  fs::remove(folder_ / "all.d");
  EXPECT_TRUE(news());
}

TEST_F(FileWatches, ReportsOnlyTheWatchedNames) {
  open();
  write("a");
  EXPECT_TRUE(watch("a"));
  EXPECT_FALSE(watch("a"));
  EXPECT_FALSE(news());
  write("b");
  fs::rename(folder_ / "b", folder_ / "c");
  EXPECT_FALSE(news());
  write("a", "y");
  EXPECT_TRUE(news());
  EXPECT_FALSE(news());
  EXPECT_TRUE(watch("c"));
  write("a", "z");
  EXPECT_FALSE(news());
  fs::remove(folder_ / "c");
  EXPECT_TRUE(news());
}

TEST_F(FileWatches, DetectsAFileThatIsBeingWritten) {
  open();
  write("a");
  watch("a");
  std::ofstream file(folder_ / "a", std::ios::app);
  EXPECT_FALSE(watch_.is_being_written());
  file << "more" << std::flush;
  EXPECT_TRUE(news());
  EXPECT_TRUE(watch_.is_being_written());
  file.close();
  EXPECT_TRUE(news());
  EXPECT_FALSE(watch_.is_being_written());
}

TEST_F(FileWatches, ASwappedLinkIsReportedAndItsNewTargetWatched) {
  open();
  for (const char* version : {"1", "2"}) fs::create_directory(folder_ / version);
  write("1/rules.ini");
  write("2/rules.ini");
  fs::create_directory_symlink("1", folder_ / "..data");
  fs::create_symlink("..data/rules.ini", folder_ / "rules.ini");
  watch("rules.ini");
  fs::create_directory_symlink("2", folder_ / "next");
  EXPECT_FALSE(news());
  fs::rename(folder_ / "next", folder_ / "..data");
  EXPECT_TRUE(news());
  EXPECT_TRUE(watch("rules.ini"));
  write("1/rules.ini", "old");
  EXPECT_FALSE(news());
  write("2/rules.ini", "new");
  EXPECT_TRUE(news());
}

TEST_F(FileWatches, AFolderThatDisappearsAndReturnsIsReportedEachTime) {
  open();
  fs::create_directory(folder_ / "etc");
  write("etc/rules.ini");
  watch("etc/rules.ini");
  fs::remove_all(folder_ / "etc");
  EXPECT_TRUE(news());
  EXPECT_TRUE(watch("etc/rules.ini"));
  EXPECT_FALSE(news());
  fs::create_directory(folder_ / "etc");
  EXPECT_TRUE(news());
  EXPECT_TRUE(watch("etc/rules.ini"));
  write("etc/rules.ini");
  EXPECT_TRUE(news());
}

TEST_F(FileWatches, ReportsWhyItCannotWatch) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  FileWatch& watch = watch_;  // a sanitizer needs a descriptor to check `this`
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto problem = watch.open();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_NE(problem, std::nullopt);
  EXPECT_NE(problem->find("max_user_instances"), std::string::npos) << *problem;
}

}  // namespace
}  // namespace sluice::live
