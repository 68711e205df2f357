// Which files of a folder are read as files of limits.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "protocol/envoy/limits_file.h"

namespace sluice::envoy {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class EnvoyFolder : public testing::Test {
 protected:
  EnvoyFolder() {
    std::string name = (fs::temp_directory_path() / "sluice_envoy_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~EnvoyFolder() override {
    std::error_code unknown;
    fs::remove_all(folder_, unknown);
  }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(folder_ + "/" + name).parent_path());
    std::ofstream(folder_ + "/" + name) << text;
  }
  // Reads the folder; returns the paths of the files, relative to the folder.
  Names read(bool ignore_dot_files = false) {
    diagnostics.clear();
    last = read_limits_folder(folder_, ignore_dot_files, diagnostics);
    Names names;
    for (const auto& [name, text] : last.files) {
      EXPECT_TRUE(name.starts_with(folder_ + "/"));
      names.push_back(name.substr(folder_.size() + 1));
    }
    return names;
  }

  std::string folder_;
  base::Diagnostics diagnostics;
  LimitsFolder last;
};

TEST_F(EnvoyFolder, EveryFileInTheOrderOfBytesOfItsPath) {
  for (const char* name : {"b.yaml", "a/z", "a.yaml", "B", "a-b/x.yml", ".hidden", ".dots/y"})
    write(name, name);
  EXPECT_EQ(read(), (Names{".dots/y", ".hidden", "B", "a-b/x.yml", "a.yaml", "a/z", "b.yaml"}));
  EXPECT_EQ(read(true), (Names{"B", "a-b/x.yml", "a.yaml", "a/z", "b.yaml"}));
  EXPECT_TRUE(last.complete);
  EXPECT_EQ(last.files[0].second, "B");
  EXPECT_EQ(diagnostics.size(), 0u);
}

TEST_F(EnvoyFolder, AnEmptyFolderHasNoFiles) {
  EXPECT_EQ(read(), Names{});
  EXPECT_TRUE(last.complete);
  EXPECT_EQ(last.paths, Names{folder_ + "/"});
}

TEST_F(EnvoyFolder, ReadsASingleFile) {
  write("one", "text");
  const LimitsFolder one = read_limits_folder(folder_ + "/one", true, diagnostics);
  ASSERT_EQ(one.files.size(), 1u);
  EXPECT_EQ(one.files[0].second, "text");
  EXPECT_EQ(one.paths, Names{folder_ + "/one"});
}

TEST_F(EnvoyFolder, ReportsAMissingFolder) {
  const LimitsFolder absent = read_limits_folder(folder_ + "/none", true, diagnostics);
  EXPECT_FALSE(absent.complete);
  EXPECT_EQ(absent.missing, Names{folder_ + "/none"});
  EXPECT_TRUE(base::has_errors(diagnostics));
}

// A volume of Kubernetes: the link `..data` leads to a folder with the files, and a link beside it
// leads to each file.
TEST_F(EnvoyFolder, LinksToFilesAreFollowedAndLinksToFoldersAreNot) {
  write("..1/a.yaml", "domain: d");
  fs::create_symlink("..1", folder_ + "/..data");
  fs::create_symlink("..data/a.yaml", folder_ + "/a.yaml");
  EXPECT_EQ(read(true), Names{"a.yaml"});
  EXPECT_EQ(last.files[0].second, "domain: d");
  EXPECT_EQ(diagnostics.size(), 0u);
  EXPECT_EQ(read(), (Names{"..1/a.yaml", "a.yaml"}));
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_FALSE(base::has_errors(diagnostics));
  fs::create_symlink("nowhere", folder_ + "/b.yaml");
  read(true);
  EXPECT_FALSE(last.complete);
  EXPECT_EQ(last.missing, Names{folder_ + "/b.yaml"});
}

// To read a pipe would wait for its writer.
TEST_F(EnvoyFolder, RejectsAPipe) {
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(read(), Names{});
  EXPECT_FALSE(last.complete);
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_EQ(diagnostics[0].message, "is not a regular file");
}

TEST_F(EnvoyFolder, DigestsDifferAfterEveryChange) {
  write("a/x", "1");
  read();
  const auto before = last.digests;
  EXPECT_EQ(last.paths, (Names{folder_ + "/", folder_ + "/a/", folder_ + "/a/x"}));
  read();
  EXPECT_EQ(last.digests, before);
  write("a/x", "2");
  read();
  EXPECT_NE(last.digests, before);
  write("a/x", "1");
  write("a/.y", "");
  read();
  EXPECT_NE(last.digests, before);
  fs::remove(folder_ + "/a/.y");
  fs::create_directory(folder_ + "/b");
  read();
  EXPECT_NE(last.digests, before);
}

TEST_F(EnvoyFolder, BoundsTheNumberOfFiles) {
  for (const char* name : {"a", "b/c", "b/d"}) write(name, "");
  EXPECT_TRUE(read_limits_folder(folder_, true, diagnostics, 3).complete);
  EXPECT_FALSE(read_limits_folder(folder_, true, diagnostics, 2).complete);
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_EQ(diagnostics[0].message, "there are more than 2 files");
}

}  // namespace
}  // namespace sluice::envoy
