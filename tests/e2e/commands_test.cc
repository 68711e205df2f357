// The real binary's commands that do not serve: check, explain and ask, with their exit codes.
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/policies.h"
#include "tests/support/divvy_server.h"

namespace sluice::tests::commands_test {
namespace {

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no `" << part << "` in:\n" << text;
}

TEST(Commands, HelpNamesThemAll) {
  const auto help = run({.arguments = {"--help"}});
  EXPECT_EQ(help.status, 0);
  for (const char* command : {"serve", "divvy", "droplet", "check", "explain", "ask", "status",
                              "top", "denials", "rules", "counters", "reset", "override", "reload"})
    expect_in(help.out, std::string("\n  ") + command + " ");
  EXPECT_EQ(run({.arguments = {}}).status, 2);
  EXPECT_EQ(run({.arguments = {"sevre"}}).status, 2);
}

TEST(Commands, CheckAcceptsValidFilesAndRejectsOthers) {
  const Folder folder;
  const auto sound = folder.write("sound.ini",
                                  "[a=1]\ncreditLimit = 1\nresetSeconds = 60\n"
                                  "[default]\ncreditLimit = 0\n");
  const auto broken = folder.write("broken.ini", "[a=1]\nresetSeconds = 60\n");
  const auto good = run({.arguments = {"check", sound}});
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_EQ(good.out, sound + ": ok, 2 rules\n");
  EXPECT_EQ(good.err, "");
  const auto bad = run({.arguments = {"check", sound, broken}});
  EXPECT_EQ(bad.status, 1);
  expect_in(bad.err, broken + ":1:");
  expect_in(bad.err, "creditLimit is missing");
  EXPECT_EQ(run({.arguments = {"check"}}).status, 2);
}

TEST(Commands, ExplainNamesTheRuleThatDecides) {
  const Folder folder;
  const auto policy = folder.write("rules.ini", hundred_policy);
  const auto explained = run({.arguments = {"explain", "--policy", policy, "k=v", "who=me"}});
  EXPECT_EQ(explained.status, 0) << explained.err;
  expect_in(explained.out, "[k=v]");
  expect_in(explained.out, "divvy:k=v:me:100:600");
  EXPECT_EQ(run({.arguments = {"explain", "--policy", "/nowhere.ini", "k=v"}}).status, 1);
  EXPECT_EQ(run({.arguments = {"explain", "k=v"}}).status, 2);
}

TEST(Commands, AskSaysTheDecisionByItsExitStatus) {
  uint16_t port = 0;
  {
    const DivvyServer server("rules.ini",
                             "[k=v]\ncreditLimit = 1\nresetSeconds = 600\n"
                             "[default]\ncreditLimit = 0\n");
    port = server.port();
    const std::string address = "localhost:" + std::to_string(port);
    const auto ask = [&](const std::string& pair) {
      return run({.arguments = {"ask", "divvy", "--timeout", "20000", "--server", address, pair}});
    };
    const auto first = ask("k=v"), second = ask("k=v"), third = ask("x=y z");
    EXPECT_EQ(first.status, 0) << first.err;
    expect_in(first.out, "allowed: 0 left");
    EXPECT_EQ(second.status, 1) << second.err;
    expect_in(second.out, "denied");
    EXPECT_EQ(third.status, 1) << third.err;
  }
  const auto nobody =
      run({.arguments = {"ask", "divvy", "--server", "127.0.0.1:" + std::to_string(port), "k=v"}});
  EXPECT_EQ(nobody.status, 3);
  EXPECT_EQ(nobody.out, "");
  expect_in(nobody.err, "cannot connect to 127.0.0.1");
  expect_in(nobody.err, std::to_string(port));
  EXPECT_EQ(run({.arguments = {"ask", "divvy", "kv"}}).status, 2);
}

}  // namespace
}  // namespace sluice::tests::commands_test
