// What all commands have in common: exit statuses, the beginning of messages, and what is generated
// from their definitions.
#include "cli/definitions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "cli/command_test.h"
#include "cli/completion.h"
#include "cli/manual.h"

namespace sluice::cli {
namespace {

using AllCommands = CommandTest;

// Commands in place of other programs have the exit statuses of these.
bool ends_as_another(const std::string& name) {
  return name == "limitd" || name == "limitdctl";
}

Words words_of(const DefinedCommand& command) {
  Words words;
  std::istringstream name(command.name);
  for (std::string word; name >> word;) words.push_back(word);
  return words;
}

bool asks(const DefinedCommand& command) {
  return command.definition.footer.find("\n  3  ") != std::string::npos;
}

TEST_F(AllCommands, AreDefinedAndDocumentTheirExitStatus) {
  const auto all = defined_commands();
  EXPECT_GT(all.size(), 25u);
  for (const DefinedCommand& command : all) {
    Words words = words_of(command);
    words.emplace_back("--help");
    EXPECT_EQ(this->command(words), 0) << command.name << err;
    EXPECT_TRUE(said(out, "Usage: sluice " + command.name)) << command.name << out;
    EXPECT_FALSE(command.definition.options.empty()) << command.name;
    EXPECT_TRUE(said(out, "Exit status:")) << command.name;
    if (ends_as_another(command.name)) continue;
    for (const char* line : {"\n  0  ", "\n  1  ", "\n  2  wrong usage"})
      EXPECT_TRUE(said(out, line)) << command.name << line << out;
  }
}

// One prefix, the usage, and exit status 2.
TEST_F(AllCommands, ReportWrongUsageInTheSameForm) {
  for (const DefinedCommand& command : defined_commands()) {
    Words words = words_of(command);
    words.emplace_back("--no-such-option");
    EXPECT_EQ(this->command(words), ends_as_another(command.name) ? 1 : 2) << command.name;
    EXPECT_EQ(err.find("error: there is no option --no-such-option"), 0u) << command.name << err;
    EXPECT_TRUE(said(err, "\nUsage: sluice " + command.name)) << err;
    EXPECT_TRUE(err.ends_with("More with --help.\n")) << err;
    EXPECT_EQ(out, "") << command.name;
  }
}

// A command whose server is not there exits with 3 and prints one line.
TEST_F(AllCommands, ExitWith3WithoutAServer) {
  const std::map<std::string, Words> more = {{"reset", {"key"}},
                                             {"override", {"list"}},
                                             {"release", {"id"}},
                                             {"renew", {"id"}},
                                             {"ask divvy", {"k=v"}},
                                             {"ask limitd", {"ping"}},
                                             {"ask droplet", {"query", "jar"}},
                                             {"ask resp", {"ping"}},
                                             {"ask envoy", {"d", "k=v"}},
                                             {"ask http", {"take", "k=v"}}};
  size_t asked = 0;
  for (const DefinedCommand& command : defined_commands()) {
    if (!asks(command) || command.name == "ask") continue;
    Words words = words_of(command);
    words.insert(words.end(), {command.is_part() ? "--server" : "--admin", "127.0.0.1:1"});
    if (const auto at = more.find(command.name); at != more.end())
      words.insert(words.end(), at->second.begin(), at->second.end());
    EXPECT_EQ(this->command(words), 3) << command.name << err;
    EXPECT_EQ(err.find("error: "), 0u) << command.name << err;
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << command.name << err;
    ++asked;
  }
  EXPECT_GE(asked, 16u);
}

TEST_F(AllCommands, NameTheOptionOrWordThatWasMeant) {
  EXPECT_EQ(command({"status", "--ovr", "1s"}), 2);
  EXPECT_TRUE(said(err, "there is no option --ovr; did you mean `--over`?")) << err;
  EXPECT_EQ(command({"serve", "--confg=x"}), 2);
  EXPECT_TRUE(said(err, "--confg=x; did you mean `--config`?")) << err;
  EXPECT_EQ(command({"ask", "dvvy", "k=v"}), 2);
  EXPECT_TRUE(said(err, "there is no protocol `dvvy`; did you mean `divvy`?")) << err;
  EXPECT_EQ(command({"override", "sett"}), 2);
  EXPECT_TRUE(said(err, "there is no `override sett`; did you mean `set`?")) << err;
  EXPECT_EQ(command({"store", "dmp", "x"}), 2);
  EXPECT_TRUE(said(err, "there is no tool `dmp`; did you mean `dump`?")) << err;
  EXPECT_EQ(command({"completion", "bsh"}), 2);
  EXPECT_TRUE(said(err, "did you mean `bash`?")) << err;
}

TEST_F(AllCommands, HaveAPageOfTheManual) {
  const std::string folder = folder_ + "/man1";
  EXPECT_EQ(command({"man", "--to", folder}), 0) << err;
  for (const DefinedCommand& one : defined_commands()) {
    std::ifstream file(folder + "/" + page_name(one) + ".1");
    std::stringstream text;
    text << file.rdbuf();
    const std::string page = text.str();
    EXPECT_EQ(page.find(".TH SLUICE"), 0u) << one.name;
    EXPECT_TRUE(said(page, ".SH \"EXIT STATUS\"") || ends_as_another(one.name)) << page;
    for (std::string name : one.definition.long_names()) {
      for (size_t at = 0; (at = name.find('-', at)) != name.npos; at += 2) name.insert(at, "\\");
      EXPECT_TRUE(said(page, name)) << one.name << " " << name << page;
    }
    EXPECT_EQ(command({"man", one.name.substr(0, one.name.find(' '))}), 0);
  }
  EXPECT_EQ(command({"man"}), 0);
  EXPECT_TRUE(said(out, "sluice\\-override (1)")) << out;
  EXPECT_EQ(command({"man", "ask", "divvy"}), 0);
  EXPECT_EQ(command({"man", "store"}), 0);
  EXPECT_TRUE(said(out, "Of import\\-limitd: limitd's configuration")) << out;
  EXPECT_EQ(command({"man", "chekc"}), 2);
  EXPECT_TRUE(said(err, "did you mean `check`?")) << err;
}

TEST_F(AllCommands, AreInTheCompletionOfEachShell) {
  for (const std::string_view shell : shells) {
    EXPECT_EQ(command({"completion", std::string(shell)}), 0) << err;
    for (const DefinedCommand& one : defined_commands()) {
      EXPECT_TRUE(said(out, one.name)) << shell << one.name;
      for (const std::string& name : one.definition.long_names())
        EXPECT_TRUE(said(out, shell == "fish" ? " -l " + name.substr(2) : name)) << shell << name;
    }
  }
  EXPECT_EQ(command({"completion"}), 2);
}

// What a real bash offers after it has read the completion. tests/clients/shells types at real
// shells.
std::string offered_by_bash(const std::string& completion, const std::string& words) {
  std::istringstream in(words);
  size_t count = 0;
  for (std::string word; in >> word;) ++count;
  const bool begins_anew = words.ends_with(' ');
  const std::string script = "source '" + completion + "'; COMP_WORDS=(" + words +
                             (begins_anew ? " ''" : "") +
                             "); COMP_CWORD=" + std::to_string(begins_anew ? count : count - 1) +
                             "; _sluice; echo \"${COMPREPLY[*]}\"";
  const std::string line = "bash -c '" + [&] {
    std::string quoted;
    for (const char c : script) quoted += c == '\'' ? "'\\''" : std::string(1, c);
    return quoted;
  }() + "'";
  std::FILE* const pipe = ::popen(line.c_str(), "r");
  std::string text;
  char bytes[4096];
  while (const size_t n = std::fread(bytes, 1, sizeof bytes, pipe)) text.append(bytes, n);
  EXPECT_EQ(::pclose(pipe), 0) << line;
  return text;
}

TEST_F(AllCommands, AreCompletedByBash) {
  ASSERT_EQ(command({"completion", "bash"}), 0);
  const std::string path = file("sluice.bash", out);
  EXPECT_EQ(offered_by_bash(path, "sluice cou"), "counters\n");
  EXPECT_EQ(offered_by_bash(path, "sluice status --ov"), "--over\n");
  EXPECT_EQ(offered_by_bash(path, "sluice ask dr"), "droplet\n");
  EXPECT_EQ(offered_by_bash(path, "sluice ask droplet --l"), "--ls --lm --lh --ld --lw --lo\n");
  EXPECT_EQ(offered_by_bash(path, "sluice override re"), "remove\n");
  EXPECT_EQ(offered_by_bash(path, "sluice store re"), "repair\n");
  EXPECT_EQ(offered_by_bash(path, "sluice serve --durability al"), "always\n");
  EXPECT_EQ(offered_by_bash(path, "sluice explain --protocol "),
            "divvy limitd droplet resp envoy http\n");
  EXPECT_EQ(offered_by_bash(path, "sluice ask --server localhost di"), "divvy\n");
  EXPECT_EQ(offered_by_bash(path, "sluice store import-re"), "import-redis-cell\n");
  EXPECT_EQ(offered_by_bash(path, "sluice status --over "), "\n");
  EXPECT_EQ(offered_by_bash(path, "sluice help res"), "resp reset\n");
}

}  // namespace
}  // namespace sluice::cli
