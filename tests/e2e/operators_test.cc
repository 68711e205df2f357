// What operators learn from the real server: changes and who made them, actors that shadow rules
// would deny, requests to which no rule applies, one customer's counters over all rules; and the
// socket by which commands find a server.
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/described.h"
#include "tests/support/divvy_server.h"
#include "tests/support/limitd_client.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests::operators_test {
namespace {

struct Served {
  explicit Served(const std::string& rules, const std::string& more = {},
                  const std::string& listener = {}) {
    folder.write("limitd.yaml", "db: { inMemory: true }\nbuckets: { fixed: { size: 3 } }\n");
    file = folder.write("sluice.yaml",
                        "listen:\n- { protocol: divvy, address: \"127.0.0.1:0\"" + listener +
                            " }\n- { protocol: limitd, address: \"127.0.0.1:0\"" + listener +
                            " }\n- { protocol: admin, address: \"127.0.0.1:0\" }\nworkers: 2\n"
                            "policy: [{ limitd: limitd.yaml }]\n" +
                            more + "rules:\n" + rules);
    process.emplace(Process::Options{.arguments = {"serve", "--config", file}});
    divvy = await_listening(*process, "divvy");
    limitd = await_listening(*process, "limitd");
    admin = await_listening(*process, "admin");
  }

  std::string hit(const std::string& words) const {
    return TcpClient::connect(divvy)->ask("HIT " + words);
  }
  // Runs a command with the server's admin port.
  Finished command(std::vector<std::string> words) const {
    words.insert(words.end(), {"--admin", "127.0.0.1:" + std::to_string(admin)});
    return run({.arguments = std::move(words)});
  }
  Json changes(const std::string& query = "") const {
    return json_of(ask(admin, "GET", "/v1/changes" + query));
  }

  Folder folder;
  std::string file;
  std::optional<Process> process;
  uint16_t divvy = 0, limitd = 0, admin = 0;
};

const std::string api_rule =
    "- { name: api, match: { api: '*' }, actor: [api], limit: { quota: 2, window: 1h } }\n";

TEST(Changes, ListOverridesWithBeforeAndAfter) {
  Served served(api_rule);
  const std::string one = R"({"rule":"api","actor":"acme","limit":{"quota":9,"window":"1h"}})";
  ASSERT_EQ(ask(served.admin, "POST", "/v1/overrides", one).status, 201);
  const std::string more = R"({"rule":"api","actor":"acme","limit":{"quota":8,"window":"1h"}})";
  const Json set = json_of(ask(served.admin, "POST", "/v1/overrides", more));
  const std::string id = set["id"];
  ASSERT_EQ(http(served.admin, "DELETE", "/v1/overrides/" + id).status, 200);
  const Json told = served.changes();
  ASSERT_EQ(told["total"], 3) << told;
  const Json &first = told["changes"][0], &second = told["changes"][1], &third = told["changes"][2];
  EXPECT_EQ(first["what"], "override set");
  EXPECT_EQ(first["about"]["actor"], "acme");
  EXPECT_EQ(first["before"], nullptr);
  EXPECT_EQ(first["after"]["limits"][0]["quota"], 9);
  EXPECT_EQ(second["before"]["limits"][0]["quota"], 9);
  EXPECT_EQ(second["after"]["limits"][0]["quota"], 8);
  EXPECT_EQ(third["what"], "override removed");
  EXPECT_EQ(third["before"]["limits"][0]["quota"], 8);
  EXPECT_EQ(third["after"], nullptr);
  EXPECT_EQ(third["by"].get<std::string>().substr(0, 10), "127.0.0.1:");
  EXPECT_TRUE(served.process->says("change 3: override removed by 127.0.0.1:"));
  EXPECT_EQ(served.changes("?after=1&limit=1")["changes"][0]["number"], 2);
  EXPECT_EQ(served.changes("?after=3")["changes"], Json::array());
  EXPECT_EQ(ask(served.admin, "GET", "/v1/changes?limit=0").status, 400);
}

TEST(Changes, ListAnOverrideThatExpires) {
  Served served(api_rule);
  const Finished set = served.command({"override", "set", "--rule", "api", "--actor", "acme",
                                       "--quota", "9", "--window", "1h", "--for", "1s"});
  ASSERT_EQ(set.status, 0) << set.err;
  EXPECT_TRUE(served.process->says("override expired by its end"));
  EXPECT_EQ(served.changes("?limit=1")["changes"][0]["before"]["limits"][0]["quota"], 9);
}

TEST(Changes, ListCountersAndLogSettingsWithBeforeAndAfter) {
  const Served served(api_rule);
  EXPECT_TRUE(served.hit("api=acme").starts_with("OK true 1 "));
  const Finished reset = served.command({"reset", "native:api:acme:api"});
  ASSERT_EQ(reset.status, 0) << reset.err;
  ASSERT_EQ(ask(served.admin, "PUT", "/v1/log", R"({"modules":{"requests":"warn"}})").status, 200);
  const Json told = served.changes()["changes"];
  ASSERT_EQ(told.size(), 2u) << told;
  EXPECT_EQ(told[0]["what"], "counter reset");
  EXPECT_EQ(told[0]["about"]["actor"], "acme");
  EXPECT_EQ(told[0]["before"][0]["remaining"], 1);
  EXPECT_EQ(told[0]["after"][0]["remaining"], 2);
  EXPECT_EQ(told[1]["what"], "log changed");
  EXPECT_EQ(told[1]["before"]["modules"]["requests"], "info");
  EXPECT_EQ(told[1]["after"]["modules"]["requests"], "warn");
}

TEST(Changes, ListReloadsWithTheirOrigin) {
  Served served(api_rule);
  std::string text = "policy: [{ limitd: limitd.yaml }]\nrules:\n" + api_rule +
                     "- { name: more, match: { x: '1' }, limit: { quota: 1, window: 1h } }\n";
  const std::string listen =
      "listen:\n- { protocol: divvy, address: \"127.0.0.1:0\" }\n- { protocol: limitd, address: "
      "\"127.0.0.1:0\" }\n- { protocol: admin, address: \"127.0.0.1:0\" }\nworkers: 2\n";
  served.folder.write("sluice.yaml", listen + text);
  served.process->signal(SIGHUP);
  ASSERT_TRUE(served.process->says("policy reloaded by "));
  const Json loaded = served.changes("?limit=1")["changes"][0];
  EXPECT_EQ(loaded["before"]["rules"], 2);
  EXPECT_EQ(loaded["after"]["rules"], 3);
  EXPECT_NE(loaded["before"]["hash"], loaded["after"]["hash"]);
  served.folder.write("sluice.yaml", listen + text + "- { name: ill }\n");
  ASSERT_TRUE(served.process->says("reload refused by "));
  const Json refused = served.changes("?limit=1")["changes"][0];
  EXPECT_NE(refused["after"]["why"].get<std::string>().find("ill"), std::string::npos) << refused;
}

TEST(Changes, AListOfManyOverridesIsOneChangeAndTheLogIsBounded) {
  const Served served(api_rule);
  Json many = Json::array();
  for (int i = 0; i < 101; ++i)
    many.push_back({{"rule", "api"},
                    {"actor", "a" + std::to_string(i)},
                    {"limit", {{"quota", 9}, {"window", "1h"}}}});
  ASSERT_EQ(ask(served.admin, "POST", "/v1/overrides", many.dump()).status, 201);
  Json told = served.changes()["changes"];
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0]["what"], "overrides set");
  EXPECT_EQ(told[0]["about"]["count"], 101);
  many.erase(100);
  for (int round = 0; round < 11; ++round)
    ASSERT_LE(ask(served.admin, "POST", "/v1/overrides", many.dump()).status, 201);
  const Json all = served.changes("?limit=1000");
  EXPECT_EQ(all["total"], 1101);
  EXPECT_EQ(all["changes"].size(), 1000u);
  EXPECT_EQ(all["changes"].back()["number"], 1101);
  EXPECT_EQ(all["changes"].front()["number"], 102);
}

TEST(Changes, TheCommandListsThem) {
  const Served served(api_rule);
  Finished done = served.command({"changes"});
  EXPECT_EQ(done.status, 0);
  EXPECT_EQ(done.err, "nothing was changed since the server started\n");
  ASSERT_EQ(
      served.command({"override", "set", "--rule", "api", "--actor", "acme", "--deny"}).status, 0);
  done = served.command({"changes"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_NE(done.out.find("  override set by 127.0.0.1:"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("\n  rule=api actor=acme\n  before -\n"), std::string::npos) << done.out;
  EXPECT_EQ(Json::parse(served.command({"changes", "--json"}).out)["total"], 1);
}

const std::string shadow_rules =
    "- { name: tight, match: { api: '*' }, actor: [api], limit: { quota: 1, window: 1h }, mode: "
    "shadow }\n- { name: wide, match: { api: '*' }, actor: [api], limit: { quota: 3, window: 1h } "
    "}\n";

TEST(Shadow, TopShowsTheActorsThatItWouldDeny) {
  Served served(shadow_rules, "log: { denials: { every: 1 } }\n");
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(served.hit("api=acme").starts_with("OK true ")) << "it denies no request";
  EXPECT_TRUE(served.hit("api=other").starts_with("OK true "));
  const Json top = json_of(ask(served.admin, "GET", "/v1/top?by=shadow_denied"));
  EXPECT_EQ(top["by"], "shadow_denied");
  ASSERT_EQ(top["items"].size(), 1u) << top;
  EXPECT_EQ(top["items"][0]["rule"], "tight");
  EXPECT_EQ(top["items"][0]["actor"], "acme");
  EXPECT_EQ(top["items"][0]["denied"], 2);
  EXPECT_EQ(json_of(ask(served.admin, "GET", "/v1/top"))["items"].size(), 0u);
  EXPECT_TRUE(served.process->says(
      "would be denied, in shadow | divvy | rule [tight] | actor acme | retry_after "));
  const Finished shown = served.command({"top", "--shadow", "--over", "0s"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_NE(shown.out.find("most denied by shadow rules"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("acme"), std::string::npos) << shown.out;
  EXPECT_EQ(served.command({"top", "--by", "nothing"}).status, 2);
}

TEST(Unmatched, EachListenerPrintsItsAnswerWithoutARule) {
  struct Case {
    const char* said;
    const char* divvy;
    int limitd;  // 1: allowed, 0: denied
  };
  for (const Case& one : {Case{", unmatched: allow", "OK true 9007199254740991 0", 1},
                          Case{", unmatched: deny", "OK false 0 -1", 0},
                          Case{", unmatched: error", "ERR Internal Error: no rule applies", 0},
                          Case{"", "OK false 0 -1", -1}}) {
    const Served served(api_rule, "", one.said);
    EXPECT_TRUE(served.hit("other=1").starts_with(one.divvy)) << one.said << served.hit("other=1");
    EXPECT_TRUE(served.hit("api=1").starts_with("OK true 1 "));
    LimitdClient limitd(*TcpClient::connect(served.limitd));
    const auto taken = limitd.ask({LimitdMethod::take, "nosuch", "k"});
    EXPECT_EQ(taken.kind, one.limitd >= 0 ? "take" : "error") << one.said;
    if (one.limitd >= 0) {
      EXPECT_EQ(taken.conformant, one.limitd == 1) << one.said;
    }
    const std::string counted = sample(served.admin,
                                       "sluice_requests_total{protocol=\"divvy\",verb=\"take\","
                                       "outcome=\"unmatched\"}");
    EXPECT_NE(counted, "") << one.said;
    EXPECT_NE(counted, "0") << one.said;
  }
}

TEST(Explain, ARunningServerIsAskedToo) {
  const Served served(api_rule);
  ASSERT_TRUE(served.hit("api=acme").starts_with("OK true 1 "));
  Finished done = served.command({"explain", "api=acme"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_NE(done.out.find("rule api (native) "), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("applies and decides; allows: "), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("It would be allowed: 0 left behind it.\n"), std::string::npos)
      << done.out;
  EXPECT_TRUE(served.hit("api=acme").starts_with("OK true 0 ")) << "nothing was taken";
  done = served.command({"explain", "other=1"});
  EXPECT_NE(done.out.find("No rule decides it; what is answered depends on the protocol "),
            std::string::npos)
      << done.out;
  done = served.command({"explain", "--protocol", "divvy", "other=1"});
  EXPECT_NE(done.out.find("No rule decides it. Divvy's protocol answers `OK false 0 -1`."),
            std::string::npos)
      << done.out;
  EXPECT_TRUE(Json::parse(served.command({"explain", "--json", "api=a"}).out).contains("verdict"));
  EXPECT_EQ(served.command({"explain", "--policy", "x.ini", "a=b"}).status, 2);
}

TEST(Counters, FindsOneCustomerInAllRules) {
  const Served served(api_rule +
                      "- { name: day, match: { day: '*' }, actor: [day], limit: { quota: 5, "
                      "window: 1d } }\n- { name: rest, match: { rest: '*' }, actor: [rest], limit: "
                      "{ quota: 5, window: 1d } }\n");
  served.hit("api=acme");
  served.hit("day=acme");
  served.hit("day=other");
  LimitdClient limitd(*TcpClient::connect(served.limitd));
  ASSERT_EQ(limitd.take("fixed", "acme").remaining, 2);
  const Json found = json_of(ask(served.admin, "GET", "/v1/counters?actor=acme"));
  std::vector<std::string> rules;
  for (const Json& one : found["counters"]) rules.push_back(one["rule"]);
  std::sort(rules.begin(), rules.end());
  EXPECT_EQ(rules, (std::vector<std::string>{"api", "day", "fixed"})) << found;
  EXPECT_EQ(ask(served.admin, "GET", "/v1/counters?actor=a&prefix=b").status, 400);
  const Finished listed = served.command({"counters", "--actor", "acme"});
  EXPECT_EQ(listed.status, 0) << listed.err;
  EXPECT_EQ(std::count(listed.out.begin(), listed.out.end(), '\n'), 4) << listed.out;
  EXPECT_NE(served.command({"counters", "--actor", "nobody"}).err.find("no rule has a counter"),
            std::string::npos);
}

// What `list --json` prints is sent again as docs/tasks.md shows it.
TEST(Overrides, AListIsSentAgainAsTheManualShows) {
  const Served served(api_rule +
                      "- { name: two, match: { t: '*', u: '*' }, actor: [t, u], limits: [{ quota: "
                      "2, window: 1s }, { quota: 9, window: 1h }] }\n");
  const auto set = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"override", "set"});
    const Finished done = served.command(words);
    ASSERT_EQ(done.status, 0) << done.err;
  };
  set({"--rule", "api", "--actor", "acme", "--quota", "9", "--window", "1h", "--comment", "c 1"});
  set({"--rule", "api", "--actor", "never", "--deny", "--until", "2100-01-01"});
  set({"--rule", "api", "--actor", "always*", "--unlimited"});
  set({"--rule", "two", "--actor", "t=1", "--actor", "u=2", "--quota", "5", "--window", "1h"});
  const Finished before = served.command({"override", "list", "--json"});
  const Json listed = Json::parse(before.out);
  for (const Json& one : listed.at("overrides"))
    ASSERT_EQ(served.command({"override", "remove", one["id"]}).status, 0);

  std::ifstream page(source_path("docs/tasks.md"));
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  const size_t begin = text.find("jq '[.overrides[] ");
  ASSERT_NE(begin, std::string::npos);
  const std::string filter = text.substr(begin, text.find(" >overrides.json", begin) - begin);
  const std::string file = served.folder.write("listed.json", before.out);
  const std::string list = served.folder.path() + "/list.json";
  Process shell({.arguments = {"-c", filter + " " + file + " >" + list}}, "/bin/bash");
  const auto status = shell.wait();
  if (status == 127) GTEST_SKIP() << "there is no jq";
  ASSERT_EQ(status, 0) << shell.err();
  std::ifstream made(list);
  const std::string body{std::istreambuf_iterator<char>(made), {}};
  EXPECT_EQ(ask(served.admin, "POST", "/v1/overrides", body).status, 201) << body;
  const auto without_times = [](Json json) {
    for (Json& one : json["overrides"]) one.erase("created");
    return json;
  };
  EXPECT_EQ(without_times(Json::parse(served.command({"override", "list", "--json"}).out)),
            without_times(listed));
}

// The example of docs/operating.md, as written except for the port.
TEST(Overrides, TheManualsExampleWorksOnAnyDay) {
  std::ifstream page(source_path("docs/operating.md"));
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  const size_t begin = text.find("    curl -s localhost:8380/v1/overrides -d '{\n");
  ASSERT_NE(begin, std::string::npos);
  std::string command = text.substr(begin, text.find("}'\n", begin) + 3 - begin);
  ASSERT_NE(command.find("date "), std::string::npos);
  const Served served(
      "- { name: api, match: { tenant: '*' }, actor: [tenant], limit: { quota: 2, window: 1m } "
      "}\n");
  const std::string written = "localhost:8380";
  command.replace(command.find(written), written.size(),
                  "127.0.0.1:" + std::to_string(served.admin));
  Process shell({.arguments = {"-c", command}}, "/bin/bash");
  EXPECT_EQ(shell.wait(), 0);
  const Json set = json_of(ask(served.admin, "GET", "/v1/overrides"));
  ASSERT_EQ(set["total"], 1) << set << shell.out();
  EXPECT_EQ(set["overrides"][0]["limits"][0]["quota"], 5000);
  EXPECT_EQ(set["overrides"][0]["until"].get<std::string>().substr(10), "T18:00:00Z");
}

// A drop-in server without an admin port: commands find its socket by themselves.
class Socket : public testing::Test {
 protected:
  std::unique_ptr<DivvyServer> serve(const std::map<std::string, std::string>& environment,
                                     std::vector<std::string> arguments = {}) const {
    std::map<std::string, std::string> all{{"PORT", "0"}};
    all.insert(environment.begin(), environment.end());
    arguments.insert(arguments.begin(), {"divvy", folder_.path() + "/rules.ini"});
    return std::make_unique<DivvyServer>(
        Process::Options{.arguments = std::move(arguments), .environment = all});
  }
  std::string socket_of(const DivvyServer& server) const {
    return folder_.path() + "/sluice-" +
           std::to_string(const_cast<DivvyServer&>(server).process().pid()) + ".sock";
  }
  Finished status(const std::map<std::string, std::string>& environment) const {
    return run({.arguments = {"status", "--over", "0s", "--json"}, .environment = environment});
  }
  // Expects that the command finds that server and no other. A server may be at the default address
  // as well; then both are listed.
  void expect_found(const std::string& path) const {
    const Finished done = status(here_);
    if (done.status == 3) {
      EXPECT_NE(done.out.find("127.0.0.1:8380, " + path + "\""), std::string::npos) << done.out;
      return;
    }
    EXPECT_EQ(done.status, 0) << done.err << done.out;
    EXPECT_EQ(Json::parse(done.out)["server"], path);
  }

  Folder folder_;
  const std::string rules_ =
      folder_.write("rules.ini", "[default]\ncreditLimit = 5\nresetSeconds = 60\n");
  const std::map<std::string, std::string> here_{{"XDG_RUNTIME_DIR", folder_.path()}};
};

TEST_F(Socket, IsAccessibleToItsOwnerOnlyAndFound) {
  auto server = serve(here_);
  const std::string path = socket_of(*server);
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0) << path;
  EXPECT_TRUE(S_ISSOCK(found.st_mode));
  EXPECT_EQ(found.st_mode & 0777u, 0600u);
  expect_found(path);
  const Finished set = run({.arguments = {"override", "set", "--rule", "default", "--actor", "x",
                                          "--deny", "--admin", path}});
  EXPECT_NE(set.status, 3) << set.err;  // the server was reached
  server.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(Socket, ItsChangesNameTheUserAndTheProcess) {
  auto server = serve(here_);
  const std::map<std::string, std::string> there{{"SLUICE_ADMIN_SERVER", socket_of(*server)}};
  ASSERT_EQ(run({.arguments = {"reset", "divvy:::5:60"}, .environment = there}).status, 0);
  const Finished told = run({.arguments = {"changes", "--json"}, .environment = there});
  const std::string by = Json::parse(told.out)["changes"][0]["by"];
  const passwd* const me = ::getpwuid(::getuid());
  const std::string number = std::to_string(::getuid()),
                    user = me == nullptr ? number : std::string(me->pw_name) + " (" + number + ")";
  EXPECT_EQ(by.find("user " + user + ", process "), 0u) << by;
}

TEST_F(Socket, ListsTheSocketsOfSeveralServers) {
  auto first = serve(here_), second = serve(here_);
  const Finished done = status(here_);
  EXPECT_EQ(done.status, 3);
  EXPECT_NE(done.out.find("several servers run on this machine"), std::string::npos) << done.out;
  for (const auto& server : {&first, &second})
    EXPECT_NE(done.out.find(socket_of(**server)), std::string::npos) << done.out;
  first->process().signal(SIGKILL);
  first->process().wait();
  expect_found(socket_of(*second));  // the socket of a killed server is ignored
}

TEST_F(Socket, IsTurnedOffAndPlacedByAdmin) {
  auto off = serve(here_, {"--admin", "off"});
  EXPECT_FALSE(std::filesystem::exists(socket_of(*off)));
  const std::string path = folder_.path() + "/mine.sock";
  auto placed = serve(here_, {"--admin", path});
  EXPECT_FALSE(std::filesystem::exists(socket_of(*placed)));
  EXPECT_EQ(status({{"SLUICE_ADMIN_SERVER", path}}).status, 0);
  auto nowhere = serve({});
  EXPECT_FALSE(std::filesystem::exists(socket_of(*nowhere)));
}

// ---- Drop-ins ----

// What a drop-in says that cannot start, as there is no folder for what SLUICE_DURABILITY wants.
std::string told(std::vector<std::string> words, std::map<std::string, std::string> variables) {
  variables.insert({{"SLUICE_DURABILITY", "always"}, {"PORT", "0"}});
  const Finished finished =
      run({.arguments = std::move(words), .environment = std::move(variables)});
  EXPECT_EQ(finished.status, 1) << finished.out;
  return finished.err;
}

TEST(DropIns, RemediesNameTheVariablesOfTheOriginal) {
  const Folder folder;
  std::filesystem::create_directory(folder.path() + "/limits");
  folder.write("limits/a.yaml", "domain: a\ndescriptors: [{ key: k, unlimited: true }]\n");
  const std::string rules =
                        folder.write("rules.ini", "[default]\ncreditLimit = 1\nresetSeconds = 9\n"),
                    limitd = folder.write("limitd.yaml",
                                          "db: { inMemory: true }\nbuckets: { a: { size: 1 } }\n");
  struct Case {
    std::vector<std::string> words;
    std::map<std::string, std::string> variables;
    std::string line;
  };
  const std::string
      none = ": says how a Redis is reached, and no Redis is named, so it has no effect; ",
      folderless =
          "SLUICE_DURABILITY: durability is set, and there is no folder for the counters; ";
  const Case cases[] = {
      {{"divvy", rules}, {}, folderless + "name one: --data DIR or SLUICE_DATA"},
      {{"divvy", rules},
       {{"REDIS_TLS", "true"}},
       "REDIS_TLS" + none + "name it: --redis HOST:PORT or REDIS_HOST"},
      {{"divvy", rules},
       {{"REDIS_PASSWORD", "x"}},
       "REDIS_PASSWORD" + none + "name it: --redis HOST:PORT or REDIS_HOST"},
      {{"divvy", rules},
       {{"REDIS_TLS", "maybe"}},
       "REDIS_TLS: `maybe` is neither true nor false; write `true`"},
      {{"limitd", "--config-file", limitd}, {}, folderless + "name one: --data DIR or DB"},
      {{"envoy", folder.path() + "/limits"},
       {{"SLUICE_REDIS_TLS", "true"}},
       "SLUICE_REDIS_TLS" + none + "name it: --redis HOST:PORT or REDIS_URL"},
  };
  for (const auto& [words, variables, line] : cases) {
    const std::string text = told(words, variables);
    EXPECT_NE(text.find(line), text.npos) << text;
    EXPECT_EQ(text.find("store:"), text.npos) << "a drop-in has no sluice.yaml: " << text;
  }
}

TEST(Check, ReadsTheVariablesThatItRecommends) {
  const Folder folder;
  const std::string always = folder.write(
                        "always.yaml", "store: { durability: always }\nrules: [{ deny: true }]\n"),
                    plain = folder.write("plain.yaml", "rules: [{ deny: true }]\n");
  const Finished refused = run({.arguments = {"check", always}});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("there is no folder for the counters"), std::string::npos)
      << refused.err;
  const Finished sound = run(
      {.arguments = {"check", always}, .environment = {{"SLUICE_DATA", folder.path() + "/data"}}});
  EXPECT_EQ(sound.status, 0) << sound.err;
  const Finished warned =
      run({.arguments = {"check", plain}, .environment = {{"SLUICE_REDIS_TLS", "true"}}});
  EXPECT_NE(warned.err.find("name it: --redis HOST:PORT or SLUICE_REDIS"), std::string::npos)
      << warned.err;
  const Finished named =
      run({.arguments = {"check", plain},
           .environment = {{"SLUICE_REDIS_TLS", "true"}, {"SLUICE_REDIS", "localhost:6379"}}});
  EXPECT_EQ(named.err, "");
}

}  // namespace
}  // namespace sluice::tests::operators_test
