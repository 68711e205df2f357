// The commands over the admin port, with the real binary at both ends: what they print, as text and
// as JSON, the examples of their help.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/paths.h"

namespace sluice::tests::terminal_test {
namespace {

using Json = nlohmann::ordered_json;

const std::string cookies = "method=GET path=/pantry/cookies ip=*";
const std::string cookie_jar = "divvy:ip=* method=GET path=/pantry/cookies:10.0.0.7:3:3600";
const std::string policy = "[" + cookies +
                           "]\ncreditLimit = 3\nresetSeconds = 3600\nactorField = ip\n\n"
                           "[default]\ncreditLimit = 0\nresetSeconds = 0\n";

class TerminalCommands : public testing::Test {
 protected:
  TerminalCommands() { serve({}); }

  void serve(std::map<std::string, std::string> environment) {
    folder.write("rules.ini", policy);
    const auto yaml = folder.write(
        "sluice.yaml",
        "listen:\n  - { protocol: divvy, address: \"127.0.0.1:0\" }\n"
        "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
        "policy: [{ divvy: rules.ini }]\n"
        "rules:\n"
        "  - { name: user, match: { user: '*' }, actor: user, limit: { quota: 10, window: 1h } }\n"
        "  - { name: api, match: { tenant: '*', api: '*' }, actor: [tenant, api],\n"
        "      limit: { quota: 10, window: 1h } }\n");
    server = std::make_unique<Process>(Process::Options{.arguments = {"serve", "--config", yaml},
                                                        .environment = std::move(environment)});
    divvy = await_listening(*server);
    admin = "127.0.0.1:" + std::to_string(await_listening(*server, "admin"));
  }
  std::string hit(const std::string& descriptor) const {
    auto client = TcpClient::connect(divvy);
    return client ? client->ask("HIT " + descriptor) : "refused";
  }
  // Four takes of a quota of three, and one of a quota of ten.
  void make_traffic() const {
    for (int i = 0; i < 4; ++i) hit("method=GET path=/pantry/cookies ip=10.0.0.7");
    hit("user=alice");
  }

  int ask(std::vector<std::string> words, std::map<std::string, std::string> environment = {}) {
    environment.try_emplace("SLUICE_ADMIN_SERVER", admin);
    words.insert(words.end(), {"--timeout", "20000"});
    const auto finished = run({.arguments = std::move(words), .environment = environment});
    out = finished.out;
    err = finished.err;
    return finished.status;
  }
  Json result() const { return Json::parse(out, nullptr, false); }
  bool says(std::string_view part) const { return out.find(part) != std::string::npos; }

  // Runs a line in a shell, with `sluice` in its PATH.
  Finished shell(const std::string& line) const {
    const std::string bin = folder.path() + "/bin";
    std::error_code ignored;
    std::filesystem::create_directory(bin, ignored);
    std::filesystem::create_symlink(tests::binary_path(), bin + "/sluice", ignored);
    Process process(
        {.arguments = {"-c", line},
         .environment = {{"PATH", bin + ":/usr/bin:/bin"}, {"SLUICE_ADMIN_SERVER", admin}},
         .folder = folder.path()},
        "/bin/sh");
    const auto status = process.wait();
    if (!status) throw std::runtime_error("does not end: " + line);
    return {*status, process.out(), process.err()};
  }

  Folder folder;
  std::unique_ptr<Process> server;
  uint16_t divvy = 0;
  std::string admin, out, err;
};

TEST_F(TerminalCommands, StatusAndRulesSayWhatHappens) {
  make_traffic();
  EXPECT_EQ(ask({"status"}), 0) << err;
  EXPECT_TRUE(says(" at " + admin + ": ready\n")) << out;
  EXPECT_TRUE(says("generation 1, live since ")) << out;
  EXPECT_TRUE(says("store        memory alone")) << out;
  EXPECT_EQ(ask({"status", "--json", "--over", "0s"}), 0) << err;
  EXPECT_EQ(result()["requests"]["total"]["allowed"], 4);
  EXPECT_EQ(result()["requests"]["total"]["denied"], 1);
  EXPECT_EQ(result()["policy"]["rules"], 4);
  EXPECT_EQ(result()["policy"]["stale"], false);
  EXPECT_GE(result()["counters"]["count"], 2);
  EXPECT_GE(result()["up_seconds"], 0);

  EXPECT_EQ(ask({"rules", "--over", "10ms"}), 0) << err;
  EXPECT_TRUE(says(cookies)) << out;
  EXPECT_TRUE(says("3 per 1h")) << out;
  EXPECT_EQ(ask({"rules", "cookies", "--json", "--over", "0s"}), 0) << err;
  ASSERT_EQ(result()["rules"].size(), 1u);
  EXPECT_EQ(result()["rules"][0]["decisions"]["allowed"], 3);
  EXPECT_EQ(result()["rules"][0]["decisions"]["denied"], 1);
}

TEST_F(TerminalCommands, StatusKnowsAStoreOnDisk) {
  serve({{"SLUICE_DATA", folder.path() + "/data"}, {"SLUICE_DURABILITY", "always"}});
  make_traffic();
  EXPECT_EQ(ask({"status", "--over", "0s"}), 0) << err;
  EXPECT_TRUE(says("store        disk, durability always, ")) << out;
  EXPECT_EQ(ask({"status", "--over", "0s", "--json"}), 0) << err;
  EXPECT_EQ(result()["store"]["kind"], "disk");
  EXPECT_GE(result()["store"]["commits"], 1);
  EXPECT_EQ(result()["store"]["failing"], false);
}

TEST_F(TerminalCommands, ReloadPrintsItsOutcome) {
  EXPECT_EQ(ask({"reload"}), 0) << err;
  EXPECT_TRUE(out.starts_with("unchanged: generation 1, hash ")) << out;
  folder.write("rules.ini", "[a=1]\nresetSeconds = 60\n");
  EXPECT_EQ(ask({"reload"}), 1);
  EXPECT_NE(err.find("rules.ini:1:"), std::string::npos) << err;
  EXPECT_NE(err.find("creditLimit is missing"), std::string::npos) << err;
  EXPECT_NE(err.find("live stays generation 1"), std::string::npos) << err;
  EXPECT_EQ(ask({"reload", "--json"}), 1);
  EXPECT_EQ(result()["outcome"], "refused");
  EXPECT_EQ(ask({"status", "--over", "0s"}), 1);
  EXPECT_TRUE(says("a newer one was refused")) << out;
  folder.write("rules.ini", "[a=1]\ncreditLimit = 1\nresetSeconds = 60\n\n" + policy);
  EXPECT_EQ(ask({"reload"}), 0) << err;
  EXPECT_TRUE(says(": generation 2, hash ")) << out;
  EXPECT_EQ(ask({"status", "--over", "0s"}), 0) << out;
  // Warnings about the live policy are shown at every reload.
  folder.write("rules.ini",
               "[a=1]\ncreditLimit = 1\nresetSeconds = 60\nactorField = b\n\n" + policy);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ask({"reload"}), 0) << err;
    EXPECT_NE(err.find("rules.ini:4: warning: rule [a=1]: actorField `b`"), std::string::npos)
        << err;
  }
  EXPECT_TRUE(out.starts_with("unchanged: generation 3, ")) << out;
  EXPECT_EQ(ask({"reload", "--json"}), 0);
  EXPECT_EQ(result()["diagnostics"].size(), 1u) << out;
}

TEST_F(TerminalCommands, ATokenIsShownAndNeverPrinted) {
  const std::string token = "0123456789-token";
  serve({{"SLUICE_ADMIN_TOKEN", token}});
  EXPECT_EQ(ask({"reload"}), 3);
  EXPECT_NE(err.find("--token-file"), std::string::npos) << err;
  EXPECT_EQ(ask({"status", "--over", "0s"}, {{"SLUICE_ADMIN_TOKEN", token}}), 0) << err;
  const auto file = folder.write("token", token + "\n");
  EXPECT_EQ(ask({"reload", "--token-file", file}), 0) << err;
  EXPECT_EQ(ask({"reload"}, {{"SLUICE_ADMIN_TOKEN", token + "x"}}), 3);
  EXPECT_EQ(err.find(token), std::string::npos) << err;
}

TEST_F(TerminalCommands, TopNamesTheLimitedActors) {
  make_traffic();
  hit("user=evil\x1b[2Jname");
  EXPECT_EQ(ask({"top", "--over", "0s"}), 0) << err;
  EXPECT_TRUE(says("most denied of the last ")) << out;
  EXPECT_TRUE(says("\n10.0.0.7")) << out;
  EXPECT_EQ(ask({"top", "--by", "active", "--over", "10ms"}), 0) << err;
  EXPECT_TRUE(says("\nalice ")) << out;
  EXPECT_TRUE(says("\nevil\\x1b[2Jname ")) << out;
  EXPECT_EQ(ask({"top", "--json", "--limit", "1", "--over", "0s"}), 0) << err;
  ASSERT_EQ(result()["items"].size(), 1u);
  EXPECT_EQ(result()["items"][0]["actor"], "10.0.0.7");
  EXPECT_EQ(result()["items"][0]["denied"], 1);
}

TEST_F(TerminalCommands, CountersAreListedAndReset) {
  make_traffic();
  EXPECT_EQ(ask({"counters", "divvy:"}), 0) << err;
  EXPECT_TRUE(says("\n" + cookie_jar + "  0 left of 3 per 1h, more in ")) << out;
  EXPECT_FALSE(says("native:")) << out;
  EXPECT_EQ(hit("method=GET path=/pantry/cookies ip=10.0.0.7").substr(0, 8), "OK false");
  EXPECT_EQ(ask({"reset", cookie_jar}), 0) << err;
  EXPECT_EQ(out, cookie_jar + ": 3 left of 3 per 1h\n");
  EXPECT_EQ(hit("method=GET path=/pantry/cookies ip=10.0.0.7").substr(0, 9), "OK true 2");
  EXPECT_EQ(ask({"counters", "--json", "--limit", "1"}), 0) << err;
  ASSERT_EQ(result()["counters"].size(), 1u);
  const std::string path = result()["counters"][0]["path"];
  EXPECT_EQ(ask({"reset", "--encoded", path, "--json"}), 0) << err;
  EXPECT_EQ(result()["counter"], cookie_jar);
  EXPECT_EQ(ask({"reset", "absent:knows"}), 1);
  EXPECT_NE(err.find("error: "), std::string::npos);
}

TEST_F(TerminalCommands, OverridesAreSetListedAndRemoved) {
  EXPECT_EQ(ask({"override", "set", "--rule", "user", "--actor", "alice", "--quota", "100",
                 "--window", "1h", "--for", "3d", "--comment", "ticket 4711", "--json"}),
            0)
      << out << err;
  const std::string id = result()["id"];
  EXPECT_EQ(ask({"override", "set", "--rule", cookies, "--actor", "10.0.0.7", "--deny"}), 0) << err;
  EXPECT_TRUE(says("limits    always denied\n")) << out;
  EXPECT_EQ(hit("user=alice").substr(0, 10), "OK true 99");
  EXPECT_EQ(hit("user=bob").substr(0, 9), "OK true 9");
  EXPECT_EQ(hit("method=GET path=/pantry/cookies ip=10.0.0.7").substr(0, 8), "OK false");
  EXPECT_EQ(ask({"override", "list"}), 0) << err;
  EXPECT_TRUE(says("ticket 4711")) << out;
  EXPECT_TRUE(says(cookies)) << out;
  EXPECT_EQ(ask({"override", "list", "--rule", "user", "--json"}), 0) << err;
  ASSERT_EQ(result()["overrides"].size(), 1u);
  EXPECT_EQ(result()["overrides"][0]["id"], id);
  EXPECT_EQ(ask({"override", "show", id}), 0) << err;
  EXPECT_TRUE(says("actor     alice\n")) << out;
  EXPECT_EQ(ask({"override", "remove", id}), 0) << err;
  EXPECT_EQ(hit("user=alice").substr(0, 9), "OK true 8");  // units that were taken stay used
  EXPECT_EQ(ask({"override", "show", id}), 1);
  EXPECT_EQ(ask({"override", "list", "--rule", "user"}), 0);
  EXPECT_EQ(err, "note: no override matches --rule 'user'\n");
  EXPECT_EQ(ask({"override", "set", "--rule", "absent", "--actor", "a", "--deny"}), 1);
  EXPECT_EQ(err,
            "error: rule: there is no rule `absent`; `sluice rules` or GET /v1/rules says which "
            "there are\n");
  // The rule has one counter for all, so no actor is needed.
  EXPECT_EQ(ask({"override", "set", "--rule", "default", "--deny"}), 0) << err;
  EXPECT_EQ(ask({"override", "set", "--rule", "user", "--deny"}), 1);
  EXPECT_EQ(err, "error: actor: is missing; the rule's actor is `user`\n");
}

TEST_F(TerminalCommands, RemovesOtherOverridesThoughOneDoesNotExist) {
  std::vector<std::string> ids;
  for (const char* actor : {"alice", "bob"}) {
    EXPECT_EQ(ask({"override", "set", "--rule", "user", "--actor", actor, "--deny", "--json"}), 0);
    ids.push_back(result()["id"]);
  }
  EXPECT_EQ(ask({"override", "remove", ids[0], "o-fff", ids[1]}), 1);
  EXPECT_EQ(out, ids[0] + ": removed\n" + ids[1] + ": removed\n");
  EXPECT_EQ(err, "error: o-fff: no override has that id\n");
  EXPECT_EQ(hit("user=bob").substr(0, 7), "OK true");
}

// OverridesApi.* tests what is shown between an override's end and the round that forgets it.
TEST_F(TerminalCommands, ExpiredOverridesAreForgotten) {
  EXPECT_EQ(ask({"override", "set", "--rule", "user", "--actor", "alice", "--deny", "--for", "1s",
                 "--json"}),
            0)
      << err;
  const std::string id = result()["id"];
  while (ask({"override", "show", id}) == 0) EXPECT_TRUE(says("until     ")) << out;
  EXPECT_EQ(err, "error: no override has that id\n");
  EXPECT_EQ(hit("user=alice").substr(0, 7), "OK true");
}

// droplet's port answers any HTTP path, for users of a browser. Commands must not mistake it for an
// admin port.
TEST_F(TerminalCommands, DoNotMistakeDropletsPortForAnAdminPort) {
  const auto yaml =
      folder.write("droplet.yaml", "listen: [{ protocol: droplet, address: \"127.0.0.1:0\" }]\n");
  Process other({.arguments = {"serve", "--config", yaml}});
  const auto port = "127.0.0.1:" + std::to_string(await_listening(other, "droplet"));
  for (std::vector<std::string> words :
       {std::vector<std::string>{"status"},
        {"rules"},
        {"override", "set", "--rule", "user", "--actor", "mallory", "--deny"}}) {
    words.insert(words.end(), {"--admin", port});
    EXPECT_EQ(ask(words), 3) << words[0];
    EXPECT_EQ(out, "");
    EXPECT_NE(err.find("; check the address (--admin)\n"), std::string::npos) << err;
  }
}

// Output to a full disk, and to a closed descriptor.
TEST_F(TerminalCommands, OutputThatCannotBeWrittenIsAFailure) {
  for (const char* redirection : {">/dev/full", ">&-"}) {
    const auto finished = shell(std::string("sluice rules --over 0s ") + redirection);
    EXPECT_EQ(finished.status, 1) << redirection;
    EXPECT_NE(finished.err.find("cannot write to standard output\n"), std::string::npos)
        << finished.err;
  }
}

// Runs every line of the examples in each command's help in a shell.
TEST_F(TerminalCommands, TheExamplesOfTheirHelpWork) {
  make_traffic();
  folder.write("admin.token", "0123456789-token\n");
  int examples = 0;
  for (const char* command :
       {"status", "top", "rules", "counters", "reset", "override", "reload"}) {
    const auto help = run({.arguments = {command, "--help"}});
    ASSERT_EQ(help.status, 0);
    std::istringstream lines(help.out.substr(help.out.find("\nExamples:\n") + 11));
    for (std::string line; std::getline(lines, line) && line.starts_with("  ");) {
      const std::string elsewhere = "10.0.0.5:8380";
      if (const size_t at = line.find(elsewhere); at != line.npos)
        line.replace(at, elsewhere.size(), admin);
      const std::string removes = "remove o-94be2314d8f67cef";
      if (const size_t at = line.find(removes); at != line.npos) {
        EXPECT_EQ(ask({"override", "list", "--rule", "api", "--json"}), 0);
        line.replace(at, removes.size(),
                     "remove " + result()["overrides"][0]["id"].get<std::string>());
      }
      const auto finished = shell(line);
      EXPECT_EQ(finished.status, 0) << line << "\n" << finished.err;
      const bool prints = line.find('>') == line.npos;  // otherwise into a file
      EXPECT_EQ(finished.out.empty(), !prints) << line;
      ++examples;
    }
  }
  EXPECT_GE(examples, 20);
}

TEST_F(TerminalCommands, TheBuiltInExampleWarnsOfNothing) {
  std::vector<std::string> arguments{"serve"};
  for (const char* protocol : {"divvy", "limitd", "droplet", "admin"})
    arguments.insert(arguments.end(), {"--listen", std::string(protocol) + "=127.0.0.1:0"});
  server = std::make_unique<Process>(Process::Options{.arguments = arguments});
  admin = "127.0.0.1:" + std::to_string(await_listening(*server, "admin"));
  EXPECT_EQ(ask({"rules", "--json", "--over", "0s"}), 0) << err;
  EXPECT_EQ(result()["rules"].front()["file"], "built-in example (divvy)");
  EXPECT_TRUE(says("\"built-in example (limitd)\"")) << out;
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait(), 0);
  EXPECT_EQ(server->err().find("warning"), std::string::npos) << server->err();
}

}  // namespace
}  // namespace sluice::tests::terminal_test
