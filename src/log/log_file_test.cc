// The log in a file: appending, and opening it again after it was moved.
#include <gtest/gtest.h>
#include <spdlog/pattern_formatter.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "log/log.h"

namespace sluice::log {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void say(LogFile& file, const char* text) {
  file.log(spdlog::details::log_msg("", spdlog::level::info, text));
}

TEST(LogFiles, AreAppendedToAndOpenedAgain) {
  std::string folder = testing::TempDir() + "sluice_log_XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/log";
  std::ofstream(path) << "before\n";
  const auto opened = LogFile::open(path);
  ASSERT_TRUE(opened) << opened.problem().text;
  const std::shared_ptr<LogFile>& file = *opened;
  file->set_formatter(std::make_unique<spdlog::pattern_formatter>("%l %v"));
  say(*file, "one");
  fs::rename(path, path + ".1");
  say(*file, "two");
  file->reopen();
  say(*file, "three");
  EXPECT_EQ(text_of(path + ".1"), "before\ninfo one\ninfo two\n");
  EXPECT_EQ(text_of(path), "info three\n");

  // If the path cannot be opened again, lines still go to the old file.
  fs::remove(path);
  fs::create_directory(path);
  fs::rename(folder, folder + ".moved");
  file->reopen();
  say(*file, "four");
  EXPECT_FALSE(fs::exists(path));
  const auto refused = LogFile::open(path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.problem().text, "No such file or directory");
  fs::remove_all(folder + ".moved");
}

}  // namespace
}  // namespace sluice::log
