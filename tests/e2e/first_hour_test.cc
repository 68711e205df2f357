// The first hour with the real binary, as docs/commands.md shows it, and messages that new users
// meet.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <tuple>

#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"

namespace sluice::tests::first_hour_test {
namespace {

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no `" << part << "` in:\n" << text;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Replaces the ports by 0, for free ones.
std::string with_free_ports(std::string text) {
  const std::string address = "address: \"127.0.0.1:";
  for (size_t at = 0; (at = text.find(address, at)) != text.npos;) {
    at += address.size();
    text.replace(at, text.find('"', at) - at, "0");
  }
  return text;
}

TEST(FirstHour, TheFileOfInitIsServedAndAnswersEveryCommand) {
  const Folder folder;
  const auto init = run({.arguments = {"init"}, .folder = folder.path()});
  ASSERT_EQ(init.status, 0) << init.err;
  const auto checked =
      run({.arguments = {"check", "--strict", "sluice.yaml"}, .folder = folder.path()});
  EXPECT_EQ(checked.status, 0) << checked.err;
  folder.write("sluice.yaml", with_free_ports(content_of(folder.path() + "/sluice.yaml")));
  Process server({.arguments = {"serve", "--config", "sluice.yaml"}, .folder = folder.path()});
  const std::string http = "127.0.0.1:" + std::to_string(await_listening(server, "http"));
  const std::string admin = "127.0.0.1:" + std::to_string(await_listening(server, "admin"));
  EXPECT_EQ(server.err(), "");
  const auto take = [&](const std::string& ip) {
    return run({.arguments = {"ask", "http", "--timeout", "20000", "--server", http, "take",
                              "method=POST", "path=/login", "ip=" + ip}});
  };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(take("10.0.0.7").status, 0);
  EXPECT_EQ(take("10.0.0.7").status, 1);
  EXPECT_EQ(take("10.0.0.8").status, 0);

  const auto look = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--admin", admin, "--timeout", "20000"});
    const auto done = run({.arguments = std::move(words)});
    EXPECT_EQ(done.status, 0) << done.err;
    return done.out;
  };
  expect_in(look({"rules", "log-in"}), "5 per 1m");
  const std::string config = look({"config"});
  expect_in(config, "# policy: generation 1");
  expect_in(config, "protocol: http");
  expect_in(look({"log"}), "level    info\n");
  expect_in(look({"log", "debug", "--module", "policy=warn", "--denials", "10"}),
            "level    debug\nformat   text\ndenials  one of 10\nmodule   policy: warn\n");
  expect_in(look({"log", "--json"}), "\"level\": \"debug\"");
  EXPECT_EQ(run({.arguments = {"log", "loud", "--admin", admin}}).status, 1);
}

TEST(FirstHour, TheBuiltInExampleListensOnLoopbackOnly) {
  const auto printed = run({.arguments = {"serve", "--print-config"}});
  EXPECT_EQ(printed.status, 0);
  EXPECT_EQ(printed.out.find("[::]"), printed.out.npos) << printed.out;
  expect_in(printed.out, "protocol: divvy, address: \"127.0.0.1:8321\"");
  const auto open = run({.arguments = {"serve", "--print-config", "--listen", "divvy=[::]:1"}});
  expect_in(open.out, "[::]:1");
}

// As information: whoever serves a cluster means it.
TEST(FirstHour, NamesListenersThatOthersCanReach) {
  const Folder folder;
  folder.write("sluice.yaml",
               "listen:\n  - { protocol: divvy, address: \"[::]:0\" }\n"
               "  - { protocol: http, address: \"0.0.0.0:0\" }\n"
               "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
               "rules: [{ name: a, deny: true }]\n");
  EXPECT_EQ(
      run({.arguments = {"check", "--strict", "sluice.yaml"}, .folder = folder.path()}).status, 0);
  Process server({.arguments = {"serve", "--config", "sluice.yaml"}, .folder = folder.path()});
  const uint16_t admin = await_listening(server, "admin");
  const auto status =
      run({.arguments = {"status", "--json", "--admin", "127.0.0.1:" + std::to_string(admin)}});
  EXPECT_EQ(status.status, 0) << status.out;
  expect_in(status.out, "\"open\": true");
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
  expect_in(server.out(),
            "sluice: other machines reach without TLS and without a token: divvy, http\n");
  EXPECT_EQ(server.err().find("warning"), std::string::npos) << server.err();
}

TEST(FirstHour, ReportsTwoListenersOnOneAddress) {
  const std::tuple<const char*, const char*, bool> cases[] = {
      {"127.0.0.1:7001", "127.0.0.1:7001", true},  {"[::]:7001", "127.0.0.1:7001", true},
      {"0.0.0.0:7001", "127.0.0.1:7001", true},    {"0.0.0.0:7001", "[::1]:7001", false},
      {"127.0.0.1:7001", "127.0.0.2:7001", false}, {"127.0.0.1:0", "127.0.0.1:0", false},
      {"127.0.0.1:7001", "127.0.0.1:7002", false}};
  for (const auto& [first, second, told] : cases) {
    const Folder folder;
    folder.write("sluice.yaml", std::string("listen:\n  - { protocol: divvy, address: \"") + first +
                                    "\" }\n  - { protocol: limitd, address: \"" + second +
                                    "\" }\nrules: [{ name: a, deny: true }]\n");
    const auto checked = run({.arguments = {"check", "sluice.yaml"}, .folder = folder.path()});
    EXPECT_EQ(checked.status, told ? 1 : 0) << first << " " << second << checked.err;
    if (!told) continue;
    expect_in(checked.err, "error: listen: sluice.yaml:3 has limitd on " + std::string(second) +
                               ", where sluice.yaml:2 has divvy already");
    const auto served =
        run({.arguments = {"serve", "--config", "sluice.yaml"}, .folder = folder.path()});
    EXPECT_EQ(served.status, 1);
    expect_in(served.err, "where sluice.yaml:2 has divvy already");
  }
}

TEST(FirstHour, FoldersBinariesAndMissingFilesAreNamed) {
  const Folder folder;
  folder.write("binary.ini", std::string_view("[a\0b", 4));
  folder.write("binary", std::string_view("\x7f\x45LF\0\1", 6));
  folder.write("folder/x.txt", "x");
  const std::pair<const char*, const char*> cases[] = {
      {"binary.ini", "binary.ini: error: is not a text file: byte 3 is 0; name a text file"},
      {"binary", "binary: error: is not a text file: byte 5 is 0"},
      {"folder.ini", "cannot be read: No such file"}};
  for (const auto& [name, wanted] : cases) {
    const auto checked = run({.arguments = {"check", name}, .folder = folder.path()});
    EXPECT_EQ(checked.status, 1);
    expect_in(checked.err, wanted);
    EXPECT_EQ(std::count(checked.err.begin(), checked.err.end(), '\n'), 1) << checked.err;
  }
  const auto listed = run({.arguments = {"check", "folder"}, .folder = folder.path()});
  EXPECT_EQ(listed.status, 1) << listed.out;
  EXPECT_EQ(listed.err, "folder: error: is a folder without a policy in it; name a file\n");

  const auto limitd = run({.arguments = {"limitd", "-c", "nosuch.yaml"}, .folder = folder.path()});
  EXPECT_EQ(limitd.status, 1);
  expect_in(limitd.err, "nosuch.yaml: error: cannot be read: No such file or directory");
  EXPECT_EQ(std::count(limitd.err.begin(), limitd.err.end(), '\n'), 1) << limitd.err;
}

TEST(FirstHour, AnErrorForAnUnknownBucketTypeListsTheKnownOnes) {
  const Folder folder;
  folder.write("limitd.yaml", "buckets:\n  ip:\n    size: 3\n  user:\n    size: 5\n");
  folder.write("sluice.yaml",
               "listen:\n  - { protocol: limitd, address: \"127.0.0.1:0\" }\n"
               "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
               "policy: [{ limitd: limitd.yaml }]\n");
  Process server({.arguments = {"serve", "--config", "sluice.yaml"}, .folder = folder.path()});
  const std::string limitd = "127.0.0.1:" + std::to_string(await_listening(server, "limitd"));
  const std::string admin = "127.0.0.1:" + std::to_string(await_listening(server, "admin"));
  const auto ask = [&](const std::string& admin_port) {
    return run({.arguments = {"ask", "limitd", "--timeout", "20000", "--server", limitd, "take",
                              "nosuch", "x"},
                .environment = {{"SLUICE_ADMIN_SERVER", admin_port}}});
  };
  const auto known = ask(admin);
  EXPECT_EQ(known.status, 3);
  EXPECT_EQ(known.err, "error: there is no bucket type `nosuch`; there are `ip`, `user`\n");
  EXPECT_EQ(ask("127.0.0.1:1").err,
            "error: there is no bucket type `nosuch`; `sluice rules` lists those that there are\n");
}

TEST(FirstHour, APortThatSpeaksSomethingElseIsRecognized) {
  const Folder folder;
  folder.write("sluice.yaml",
               "listen:\n  - { protocol: http, address: \"127.0.0.1:0\" }\n"
               "  - { protocol: divvy, address: \"127.0.0.1:0\" }\n"
               "  - { protocol: resp, address: \"127.0.0.1:0\" }\n"
               "rules: [{ name: a, deny: true }]\n");
  Process server({.arguments = {"serve", "--config", "sluice.yaml"}, .folder = folder.path()});
  const auto at = [&](const char* protocol) {
    return "127.0.0.1:" + std::to_string(await_listening(server, protocol));
  };
  const std::string http = at("http"), divvy = at("divvy"), resp = at("resp");
  const auto ask = [](std::vector<std::string> words, const std::string& address) {
    words.insert(words.begin(), "ask");
    words.insert(words.begin() + 2, {"--timeout", "20000", "--server", address});
    const auto done = run({.arguments = std::move(words)});
    EXPECT_EQ(done.status, 3);
    return done.err;
  };
  expect_in(ask({"divvy", "k=v"}, http), "it answers as an HTTP server does");
  expect_in(ask({"divvy", "k=v"}, resp), "it answers as a Redis server does");
  expect_in(ask({"http", "take", "k=v"}, divvy), "it answers as a server of a line protocol does");
}

}  // namespace
}  // namespace sluice::tests::first_hour_test
