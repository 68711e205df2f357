// `sluice init`: its file can be served as it is, and no existing file is overwritten.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/command_test.h"
#include "tests/support/paths.h"

namespace sluice::cli {
namespace {

using Init = CommandTest;

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_F(Init, WritesAFileWithoutWarnings) {
  const std::string path = folder_ + "/sluice.yaml";
  ASSERT_EQ(command({"init", path}), 0) << err;
  EXPECT_TRUE(said(out, path + ": written")) << out;
  EXPECT_EQ(command({"check", "--strict", path}), 0) << err;
  EXPECT_EQ(err, "");
  EXPECT_TRUE(said(out, ": ok, 1 rule\n")) << out;
  EXPECT_EQ(command({"explain", "--policy", path, "method=POST", "path=/login", "ip=10.0.0.7"}), 0)
      << err;
  EXPECT_TRUE(said(out, "applies and decides")) << out;
  // Its other rules, which are commented out, are right as well.
  std::istringstream lines(content_of(path));
  std::string text;
  for (std::string line; std::getline(lines, line); text += line + "\n")
    if (line.starts_with("  #   ") || line.starts_with("  # - ")) line.erase(2, 2);
  const std::string all = file("all.yaml", text);
  EXPECT_EQ(command({"check", "--strict", all}), 0) << err << text;
  EXPECT_TRUE(said(out, ": ok, 3 rules\n")) << out << text;
}

TEST_F(Init, OverwritesAFileOnlyWithForce) {
  const std::string path = file("mine.yaml", "mine");
  EXPECT_EQ(command({"init", path}), 1);
  EXPECT_EQ(err, "error: " + path +
                     " is there already; name another file, or write over it with --force\n");
  EXPECT_EQ(content_of(path), "mine");
  EXPECT_EQ(command({"init", "--force", path}), 0) << err;
  EXPECT_NE(content_of(path), "mine");
  EXPECT_EQ(command({"init", folder_ + "/none/sluice.yaml"}), 1);
  EXPECT_TRUE(said(err, "cannot be written: No such file or directory")) << err;
  EXPECT_EQ(command({"init", "-"}), 0);
  EXPECT_TRUE(said(out, "\nrules:\n")) << out;
  EXPECT_EQ(command({"init", "a", "b"}), 2);
}

TEST_F(Init, ConvertsAnOldPolicy) {
  const std::string ini = tests::source_path("examples/example-config.ini");
  const std::string path = folder_ + "/divvy.yaml";
  ASSERT_EQ(command({"init", "--divvy", ini, path}), 0) << err;
  EXPECT_EQ(command({"check", path}), 0) << err;
  const std::string text = content_of(path);
  for (const char* part : {"protocol: divvy, address: \"[::]:8321\"", "path: /pantry/cookies }",
                           "limit: { quota: 3, window: 1h, algorithm: fixed_window }", "actor: ip"})
    EXPECT_TRUE(said(text, part)) << part << text;

  const std::string yaml = tests::source_path("examples/limitd.yaml");
  ASSERT_EQ(command({"init", "--limitd", yaml, "-"}), 0) << err;
  const std::string limitd = file("limitd-native.yaml", out);
  EXPECT_EQ(command({"check", limitd}), 0) << err << out;
  EXPECT_TRUE(said(content_of(limitd), "type: user")) << content_of(limitd);

  EXPECT_EQ(command({"init", "--divvy", ini, "--limitd", yaml, "-"}), 2);
  EXPECT_EQ(command({"init", "--divvy", folder_ + "/none.ini", "-"}), 1);
  EXPECT_TRUE(said(err, "none.ini: error: cannot be read")) << err;
  const std::string impossible = file("bad.ini",
                                      "[j=1 k=a**]\ncreditLimit = 1\nresetSeconds = 60\n"
                                      "[default]\ncreditLimit = 0\nresetSeconds = 0\n");
  EXPECT_EQ(command({"init", "--divvy", impossible, "-"}), 1);
  EXPECT_EQ(out, "");
  EXPECT_TRUE(said(err, "cannot be written as a native rule; keep the file")) << err;
}

}  // namespace
}  // namespace sluice::cli
