// The start of the real `sluice divvy`: what it prints and where, and what keeps it from starting.
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "tests/e2e/policies.h"
#include "tests/support/divvy_server.h"

namespace sluice::tests {
namespace {

Finished start(const std::string& file, const std::string& policy,
               std::map<std::string, std::string> environment = {{"PORT", "0"}}) {
  const Folder folder;
  folder.write(file, policy);
  return run({.arguments = {"divvy", file},
              .environment = std::move(environment),
              .folder = folder.path()});
}

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no `" << part << "` in:\n" << text;
}

TEST(Start, PrintsWhereItListensAsDivvyAndAsSluice) {
  const Folder folder;
  Process process({.arguments = {"divvy", folder.write("rules.ini", hundred_policy)},
                   .environment = {{"PORT", "0"}, {"XDG_RUNTIME_DIR", folder.path()}}});
  const auto first = process.read_line();
  const auto second = process.read_line();
  ASSERT_TRUE(first && second);
  const std::string start = "Listening on port TCP port ", end = ", embedded store";
  ASSERT_TRUE(first->starts_with(start) && first->ends_with(end)) << *first;
  const std::string port = first->substr(start.size(), first->size() - start.size() - end.size());
  EXPECT_NE(port, "0");
  EXPECT_EQ(*second, "sluice: divvy listening on [::]:" + port);
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0);
  EXPECT_EQ(process.out(),
            "sluice: admin listening on " + folder.path() + "/sluice-" +
                std::to_string(process.pid()) +
                ".sock\nsluice: counters in memory, forgotten at exit, not shared\n"
                "sluice: other machines reach without TLS and without a token: divvy\n");
}

TEST(Start, TakesThePortOfTheEnvironmentAndNoOther) {
  uint16_t port = 0;
  {
    const DivvyServer server("rules.ini", hundred_policy);
    port = server.port();
  }
  DivvyServer server("rules.ini", hundred_policy,
                     {.environment = {{"PORT", std::to_string(port)}}});
  EXPECT_EQ(server.port(), port);
  EXPECT_EQ(server.client().ask("HIT k=v"), "OK true 99 600");

  const std::string text = std::to_string(port);
  const auto second = start("rules.ini", hundred_policy, {{"PORT", text}});
  EXPECT_EQ(second.status, 1);
  EXPECT_EQ(second.out, "");
  expect_in(second.err, "EADDRINUSE");
  expect_in(second.err, "[::]:" + text);
}

TEST(Start, RefusesAPolicyNamingPlaceRuleReasonAndRemedy) {
  const auto finished =
      start("rules.ini", "# comment\n\n[a=1]\nresetSeconds = 60\n\n[default]\ncreditLimit = 0\n");
  EXPECT_EQ(finished.status, 1);
  EXPECT_EQ(finished.out, "");
  expect_in(finished.err, "rules.ini:3:");
  expect_in(finished.err, "error: rule [a=1]: creditLimit is missing; ");
  expect_in(finished.err, "creditLimit = ");
}

TEST(Start, RefusesUnreachableRulesNamingBoth) {
  const std::string policy = R"({"overrides": [
{"operation": {"a": "1"}, "creditLimit": 1, "resetSeconds": 1},
{"operation": {"a": "1", "b": "2"}, "creditLimit": 1, "resetSeconds": 1}],
"default": {"operation": {}, "creditLimit": 0}})";
  const auto finished = start("rules.json", policy);
  EXPECT_EQ(finished.status, 1);
  expect_in(finished.err, "rules.json:3:");
  expect_in(finished.err, "rule [a=1 b=2]: it is unreachable: rule [a=1] (line 2)");
}

TEST(Start, RefusesOtherFilesAndNone) {
  const auto extension = start("rules.conf", hundred_policy);
  EXPECT_EQ(extension.status, 1);
  expect_in(extension.err, "Unrecognized format for config file: rules.conf");

  const auto missing = run({.arguments = {"divvy", "/nowhere/rules.ini"}});
  EXPECT_EQ(missing.status, 1);
  expect_in(missing.err, "/nowhere/rules.ini");

  const auto none = run({.arguments = {"divvy"}});
  EXPECT_EQ(none.status, 1);
  EXPECT_EQ(none.out, "Error: must provide config file as an argument.\n");
  EXPECT_EQ(none.err, "");
}

TEST(Start, RejectsAnInvalidPort) {
  for (const char* port : {"", "65536", "-1", "http", "80 80", "8321x"}) {
    const auto finished = start("rules.ini", hundred_policy, {{"PORT", port}});
    EXPECT_EQ(finished.status, 1) << port;
    EXPECT_EQ(finished.out, "") << port;
    expect_in(finished.err, "PORT");
  }
}

TEST(Start, DebugShowsDecisionsWithTheirRulesComments) {
  DivvyServer server("rules.ini",
                     "[k=v]\ncreditLimit = 1\nresetSeconds = 600\ncomment = 'one for all'\n"
                     "[default]\ncreditLimit = 0\ncomment = 'nothing else'\n",
                     {.environment = {{"DEBUG", "divvy"}}});
  auto client = server.client();
  EXPECT_EQ(client.ask("HIT k=v"), "OK true 0 600");
  EXPECT_EQ(client.ask("HIT k=v"), "OK false 0 600");
  EXPECT_EQ(client.ask("HIT x=y"), "OK false 0 -1");
  Process& process = server.process();
  EXPECT_TRUE(process.says("k=v | rule [k=v]"));
  EXPECT_TRUE(process.says("# one for all | decides allowed, 0 of 1 left"));
  EXPECT_TRUE(process.says("# one for all | decides denied, 0 of 1 left"));
  EXPECT_TRUE(process.says("x=y | rule [default]"));
  EXPECT_TRUE(process.says("# nothing else | decides denied"));
}

TEST(Start, DebugShowsTheRulesEachOnOneLine) {
  DivvyServer server("rules.json",
                     R"({"overrides": [], "default": {"operation": {}, "creditLimit": 1,
"resetSeconds": 9, "comment": "one\n2026-01-01T00:00:00.000Z error two"}})",
                     {.environment = {{"DEBUG", "divvy"}}});
  Process& process = server.process();
  EXPECT_TRUE(process.says("rule [default] one\\n2026-01-01T00:00:00.000Z error two\n"))
      << process.err();
  EXPECT_EQ(process.err().find("\n2026-01-01"), std::string::npos) << process.err();
}

TEST(Start, ServesIpv6AndIpv4WithTheSameCounters) {
  const DivvyServer server("rules.ini", hundred_policy);
  EXPECT_EQ(server.client("127.0.0.1").ask("HIT k=v"), "OK true 99 600");
  EXPECT_EQ(server.client("localhost").ask("HIT k=v"), "OK true 98 600");
  const auto over_ipv6 = TcpClient::connect(server.port(), "::1");
  if (!over_ipv6) GTEST_SKIP() << "this machine has no IPv6";
  EXPECT_EQ(server.client("::1").ask("HIT k=v"), "OK true 97 600");
}

TEST(Start, ListensOnOneAddressOnly) {
  const DivvyServer server("rules.ini", hundred_policy, {.arguments = {"--host", "127.0.0.1"}});
  EXPECT_EQ(server.client("127.0.0.1").ask("HIT k=v"), "OK true 99 600");
  EXPECT_FALSE(TcpClient::connect(server.port(), "127.0.0.2"));
}

}  // namespace
}  // namespace sluice::tests
