// Every command's help, which must fit a terminal, and output that cannot be written.
#include <gtest/gtest.h>

#include <sstream>

#include "cli/commands.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

const Words commands[] = {
    {},          {"serve"},   {"divvy"},        {"limitd"},        {"droplet"},        {"check"},
    {"explain"}, {"ask"},     {"ask", "divvy"}, {"ask", "limitd"}, {"ask", "droplet"}, {"status"},
    {"top"},     {"denials"}, {"rules"},        {"counters"},      {"reset"},          {"override"},
    {"reload"},  {"store"},   {"limitdctl"},    {"resp"},          {"ask", "resp"}};

int command(const Words& words, std::ostream& out, std::ostream& err) {
  config::CommandIo io{out, err, false, false, [](const char*) { return std::nullopt; }};
  return run(words, io);
}

std::string help_of(Words words) {
  std::ostringstream out, err;
  words.emplace_back("--help");
  EXPECT_EQ(command(words, out, err), 0) << err.str();
  return out.str();
}

// Except examples, which must be on one line to be copied.
TEST(Help, FitsInto100Columns) {
  for (const Words& words : commands) {
    std::istringstream lines(help_of(words));
    for (std::string line; std::getline(lines, line);)
      EXPECT_TRUE(config::columns_of(line) <= 100 || line.starts_with("  sluice ")) << line;
  }
}

TEST(Help, AskNamesThePortsOfAllProtocols) {
  const std::string help = help_of({"ask"});
  for (const char* part :
       {"\n  8321  sluice ask divvy", "\n  9231  sluice ask limitd", "\n  3000  sluice ask droplet",
        "\n  6380  sluice ask resp", "default localhost, on the protocol's"})
    EXPECT_NE(help.find(part), help.npos) << part << "\n" << help;
  EXPECT_NE(help_of({"ask", "limitd"}).find("default localhost:9231"), std::string::npos);
}

TEST(Help, HelpAndACommandPrintsTheCommandsHelp) {
  std::ostringstream out, err;
  EXPECT_EQ(command({"help", "rules"}, out, err), 0);
  EXPECT_EQ(out.str(), help_of({"rules"}));
  EXPECT_EQ(command({"help", "ruels"}, out, err), 2);
  EXPECT_NE(err.str().find("did you mean `rules`?"), std::string::npos) << err.str();
}

// As on a full disk, or a pipe whose reader has gone.
TEST(Output, AWriteErrorExitsWith1) {
  for (const Words& words : {Words{"--version"}, Words{"rules", "--help"}}) {
    std::ostringstream out, err;
    out.setstate(std::ios::badbit);
    EXPECT_EQ(command(words, out, err), 1);
    EXPECT_EQ(err.str(), "error: cannot write to standard output\n");
  }
}

}  // namespace
}  // namespace sluice::cli
