// The commands as a user calls them, in this process with real files and sockets and a made-up
// environment. Serving is tested with the program.
#include "cli/commands.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/bounds.h"
#include "cli/command_test.h"
#include "config/built_in.h"
#include "config/config.h"
#include "config/load_policy.h"
#include "config/read_file.h"
#include "protocol/protocol.h"
#include "testing/fake_server.h"
#include "tests/support/paths.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

using Commands = CommandTest;

constexpr std::string_view rules_ini =
    "[method=GET path=/status]\n"
    "creditLimit = 1000\n"
    "resetSeconds = 60\n"
    "matchPolicy = canary\n"
    "[method=GET path=/pantry/* ip=*]\n"
    "creditLimit = 3\n"
    "resetSeconds = 3600\n"
    "actorField = ip\n"
    "comment = 'cookies'\n"
    "[method=POST]\n"
    "creditLimit = 1\n"
    "resetSeconds = 60\n"
    "[default]\n"
    "creditLimit = 0\n"
    "resetSeconds = 0\n";

TEST_F(Commands, UsageErrorsExitWith2) {
  EXPECT_EQ(command({}), 2);
  EXPECT_TRUE(said(err, "Usage: sluice COMMAND"));
  EXPECT_EQ(command({"srve"}), 2);
  EXPECT_TRUE(said(err, "did you mean `serve`?")) << err;
  EXPECT_EQ(command({"serve", "--confg", "x"}), 2);
  EXPECT_TRUE(said(err, "there is no option --confg")) << err;
  EXPECT_EQ(command({"serve", "--config"}), 2);
  EXPECT_EQ(command({"serve", "sluice.yaml"}), 2);
  EXPECT_TRUE(said(err, "--config FILE")) << err;
  EXPECT_EQ(command({"divvy", "a.ini", "b.ini"}), 2);
  EXPECT_EQ(command({"droplet", "3000"}), 2);
  EXPECT_TRUE(said(err, "the port is given as PORT in the environment")) << err;
  EXPECT_EQ(command({"check"}), 2);
  EXPECT_EQ(command({"check", "--as", "toml", "a"}), 2);
  EXPECT_EQ(command({"explain", "a=b"}), 2);
  EXPECT_EQ(command({"explain", "--policy", "x.ini", "word"}), 2);
  EXPECT_TRUE(said(err, "`word` has no `=`")) << err;
  EXPECT_EQ(command({"ask"}), 2);
  EXPECT_EQ(command({"ask", "limitd", "a=b"}), 2);
  EXPECT_EQ(command({"ask", "limitd", "take", "ip"}), 2);
  EXPECT_EQ(command({"ask", "limitd", "take", "ip", "k", "0"}), 2);
  EXPECT_EQ(command({"ask", "limitd", "get", "ip", "k", "1"}), 2);
  EXPECT_EQ(command({"ask", "limitd", "ping", "ip"}), 2);
  EXPECT_EQ(command({"ask", "--server", "a", "limitd", "take"}), 2);
  EXPECT_EQ(command({"ask", "divvy", "--timeout", "0"}), 2);
  EXPECT_EQ(command({"ask", "divvy", "--server", "::1:80"}), 2);
}

TEST_F(Commands, HelpAndVersion) {
  EXPECT_EQ(command({"--version"}), 0);
  EXPECT_EQ(out.substr(0, out.find('\n')), "sluice " + std::string(config::version));
  for (const char* name : {"serve", "divvy", "limitd", "droplet"}) {
    EXPECT_EQ(command({name, "--help"}), 0);
    for (const char* variable : {"SLUICE_WORKERS", "SLUICE_CONNECTIONS", "SLUICE_MEMORY",
                                 "SLUICE_LOG_LEVEL", "SLUICE_LOG_FORMAT", "--log-format"})
      EXPECT_TRUE(said(out, variable)) << name << ": " << variable;
  }
  EXPECT_EQ(command({"--help"}), 0);
  for (const char* name :
       {"serve", "divvy", "limitd", "droplet", "check", "explain", "store", "ask", "limitdctl",
        "status", "top", "denials", "rules", "counters", "reset", "override", "reload"}) {
    EXPECT_TRUE(said(out, std::string("\n  ") + name + " ")) << name;
  }
  for (const char* name :
       {"serve", "divvy", "limitd", "droplet", "check", "explain", "store", "ask"}) {
    EXPECT_EQ(command({name, "--help"}), 0);
    EXPECT_TRUE(said(out, std::string("Usage: sluice ") + name)) << out;
    EXPECT_TRUE(said(out, "Example:")) << out;
    EXPECT_TRUE(said(out, "Exit status:\n  0  ")) << out;
  }
}

TEST_F(Commands, ServePrintsItsSettings) {
  variables["SLUICE_MEMORY"] = "2GiB";
  const auto path = file("sluice.yaml", "policy: [{ divvy: rules.ini }]\nworkers: 3\n");
  EXPECT_EQ(command({"serve", "--config", path, "--print-config", "--listen", "divvy=[::]:1",
                     "--listen", "divvy=localhost:2", "--log-level=debug"}),
            0)
      << err;
  for (const char* part : {"\"[::]:1\"", "\"localhost:2\"", "# --listen", "# --log-level",
                           "memory: 2GiB", "# SLUICE_MEMORY", "sluice.yaml:2\n", "rules.ini\""})
    EXPECT_TRUE(said(out, part)) << part << " in " << out;
}

TEST_F(Commands, ServePrintsTheEffectiveMemory) {
  const std::string redis = "redis: { nodes: [\"localhost:1\"] } }\n";
  const std::pair<std::string, const char*> stores[] = {
      {"", "1GiB"}, {"store: { " + redis, "64MiB"}, {"store: { memory: 2GiB, " + redis, "2GiB"}};
  for (const auto& [store, memory] : stores) {
    const auto path = file("a.yaml", store + "rules: [{ name: a, deny: true }]\n");
    EXPECT_EQ(command({"serve", "--config", path, "--print-config"}), 0) << err;
    EXPECT_TRUE(said(out, std::string(" memory: ") + memory + " ")) << out;
  }
}

TEST_F(Commands, NativeRulesAreCountedAndChecked) {
  file("rules.ini", rules_ini);
  const auto path = file("sluice.yaml",
                         "policy: [{ divvy: rules.ini }]\n"
                         "rules:\n"
                         "  - { name: all, limit: { quota: 9, window: 1s } }\n"
                         "  - { name: more, match: { a: b }, deny: true }\n");
  EXPECT_EQ(command({"serve", "--config", path, "--print-config"}), 0) << err;
  EXPECT_TRUE(said(out, "# rules: 2 native rules, not repeated here")) << out;
  EXPECT_TRUE(said(out, "# " + path + ":3\npolicy:\n")) << out;
  EXPECT_EQ(command({"check", "--as", "sluice", path}), 0);
  EXPECT_EQ(out, path + ": ok, 6 rules\n" + path +
                     ": where no rule applies, divvy: Divvy's protocol answers `OK false 0 -1`.\n");
  EXPECT_EQ(err.find(path + ":4: warning: rule more: is unreachable: rule all (line 3)"), 0u)
      << err;
  EXPECT_TRUE(said(err, path + ":3: warning: rule all: no request reaches the rules of `policy`"))
      << err;
  EXPECT_EQ(command({"explain", "--policy", path, "a=b"}), 0);
  EXPECT_TRUE(said(out, "counter: native:all::")) << out;
  EXPECT_TRUE(said(out, "5 rules behind it are not reached.")) << out;

  // All mistakes in all parts of a file are reported in one run.
  EXPECT_EQ(command({"check", file("bad.yaml", "wrokers: 1\nrules: [{ quota: 1 }]\n")}), 1);
  EXPECT_TRUE(said(err, "bad.yaml:1:1: error: wrokers")) << err;
  EXPECT_TRUE(said(err, "bad.yaml:2:11: error: rule 1: quota: is not a known key")) << err;
}

// docs/policy.md shows policies, each followed by a command and what it prints.
TEST_F(Commands, TheManualShowsTheOutputOfItsCommands) {
  std::ifstream manual(tests::source_path("docs/policy.md"));
  std::string yaml, shown, line;
  Words words;
  int examples = 0;
  const auto compare = [&] {
    if (words.empty()) return;
    for (std::string& word : words)
      if (word.ends_with(".yaml")) word = file(word, yaml);
    EXPECT_EQ(command(words), said(shown, ": error: ") ? 1 : 0) << err;
    std::string all = err + out;
    for (size_t at = 0; (at = all.find(folder_ + "/")) != std::string::npos;)
      all.erase(at, folder_.size() + 1);
    while (shown.ends_with("\n\n")) shown.pop_back();
    EXPECT_EQ(all, shown);
    words.clear();
    ++examples;
  };
  while (std::getline(manual, line)) {
    if (line.starts_with("    $ sluice ")) {
      std::istringstream all(line.substr(13));
      for (std::string word; all >> word;) words.push_back(word);
      shown.clear();
    } else if (line.starts_with("    rules:")) {
      yaml = "rules:\n";
    } else if (line.starts_with("    ") || line.empty()) {
      (words.empty() ? yaml : shown) += (line.empty() ? line : line.substr(4)) + "\n";
    } else {
      compare();
    }
  }
  compare();
  EXPECT_EQ(examples, 4);
}

TEST_F(Commands, ServeRefusesAConfigurationThatIsWrong) {
  EXPECT_EQ(command({"serve", "--config", folder_ + "/none.yaml", "--print-config"}), 1);
  EXPECT_TRUE(said(err, "none.yaml: error: cannot be read: No such file")) << err;
  EXPECT_EQ(command({"serve", "--config", "rules.ini", "--print-config"}), 1);
  EXPECT_TRUE(said(err, "serve it with `sluice divvy rules.ini`")) << err;
  EXPECT_EQ(command({"serve", "--workers", "no", "--print-config"}), 1);
  EXPECT_EQ(out, "");
}

TEST_F(Commands, DivvyWithoutAFilePrintsTheOriginalsError) {
  EXPECT_EQ(command({"divvy"}), 1);
  EXPECT_EQ(out, "Error: must provide config file as an argument.\n");
}

TEST_F(Commands, DivvyRefusesBeforeItBinds) {
  EXPECT_EQ(command({"divvy", "rules.conf"}), 1);
  EXPECT_TRUE(said(err, "Unrecognized format for config file: rules.conf")) << err;
  EXPECT_EQ(command({"divvy", file("RULES.INI", rules_ini)}), 1);
  EXPECT_EQ(command({"divvy", file("bad.ini", "[a=1]\n")}), 1);
  EXPECT_TRUE(said(err, "bad.ini:1")) << err;
  EXPECT_EQ(out, "");
  const auto path = file("rules.ini", rules_ini);
  for (const char* port : {"", "abc", "65536", "-1"}) {
    variables["PORT"] = port;
    EXPECT_EQ(command({"divvy", path}), 1);
    EXPECT_TRUE(said(err, "PORT: `" + std::string(port) + "` is not a port")) << err;
  }
}

TEST_F(Commands, DivvyWarnsOfVariablesThatItIgnores) {
  variables = {{"REDIS_HOST", "redis"},
               {"STATSD_PORT", "1"},
               {"PROMETHEUS_METRICS_PATH", "/m"},
               {"PORT", "no"}};
  EXPECT_EQ(command({"divvy", "rules.ini"}), 1);
  for (const char* part : {"warning: STATSD_PORT:", "warning: PROMETHEUS_METRICS_PATH:"})
    EXPECT_TRUE(said(err, part)) << part << " in " << err;
  EXPECT_FALSE(said(err, "REDIS_"));
}

// After a change from `sluice divvy` to `serve`, counters would silently no longer be in Redis.
TEST_F(Commands, ServeWarnsThatItIgnoresRedisHost) {
  const auto path = file("sluice.yaml", "policy: [{ divvy: rules.ini }]\n");
  file("rules.ini", rules_ini);
  for (const char* name : {"REDIS_HOST", "REDIS_PORT"}) {
    variables = {{name, "1"}};
    EXPECT_EQ(command({"serve", "--config", path, "--print-config"}), 0) << err;
    EXPECT_TRUE(said(err, "warning: " + std::string(name) + ": only `sluice divvy` reads it"))
        << err;
    EXPECT_TRUE(said(err, "SLUICE_REDIS")) << err;
    variables["SLUICE_REDIS"] = "localhost:1";
    EXPECT_EQ(command({"serve", "--config", path, "--print-config"}), 0) << err;
    EXPECT_FALSE(said(err, "REDIS_")) << err;
    variables = {{name, ""}};
    EXPECT_EQ(command({"serve", "--config", path, "--print-config"}), 0) << err;
    EXPECT_FALSE(said(err, "REDIS_")) << err;
  }
}

TEST_F(Commands, CheckAcceptsValidFilesAndRejectsOthers) {
  const auto good = file("rules.ini", rules_ini);
  const auto bad = file("bad.json", "{\"overrides\": [}");
  EXPECT_EQ(command({"check", good}), 0) << err;
  EXPECT_EQ(out, good + ": ok, 4 rules\n");
  EXPECT_EQ(command({"check", bad, good}), 1);
  EXPECT_EQ(out, good + ": ok, 4 rules\n");
  EXPECT_TRUE(said(err, bad + ":1:")) << err;
  EXPECT_EQ(command({"check", "--as", "divvy-ini", file("odd.txt", rules_ini)}), 0) << err;
  EXPECT_EQ(command({"check", file("odd2.txt", rules_ini)}), 1);
  EXPECT_TRUE(said(err, "say what it is with --as")) << err;
}

TEST_F(Commands, CheckOfASluiceYamlChecksItsPolicies) {
  file("bad.ini", "[a=1]\n");
  const auto yaml = file("sluice.yaml", "policy: [{ divvy: bad.ini }]\nwrokers: 2\n");
  EXPECT_EQ(command({"check", yaml}), 1);
  EXPECT_TRUE(said(err, "sluice.yaml:2:1: error: wrokers")) << err;
  EXPECT_TRUE(said(err, "bad.ini:1")) << err;
  file("rules.ini", rules_ini);
  EXPECT_EQ(command({"check", file("good.yml", "policy: [{ divvy: rules.ini }]\n")}), 0) << err;
  EXPECT_TRUE(said(out, "good.yml: ok, 4 rules")) << out;
}

TEST_F(Commands, CheckAsJson) {
  const auto good = file("rules.ini", rules_ini);
  const auto bad = file("bad.ini", "[a=\xff]\n");
  EXPECT_EQ(command({"check", "--json", good, bad}), 1);
  const json result = json::parse(out);
  EXPECT_EQ(err, "");
  ASSERT_EQ(result["files"].size(), 2u);
  EXPECT_EQ(result["files"][0]["ok"], true);
  EXPECT_EQ(result["files"][0]["rules"], 4);
  EXPECT_EQ(result["files"][1]["ok"], false);
  EXPECT_EQ(result["files"][1]["diagnostics"][0]["line"], 1);
}

TEST_F(Commands, ExplainSaysWhichRuleDecidesAndWhyOthersDoNot) {
  const auto path = file("rules.ini", rules_ini);
  EXPECT_EQ(command({"explain", "--policy", path, "method=GET", "path=/pantry/x", "ip=10.0.0.7"}),
            0)
      << err;
  EXPECT_EQ(out, "request: method=GET path=/pantry/x ip=10.0.0.7\n\n" + path +
                     ":1: [method=GET path=/status]\n"
                     "    does not apply: `path` is `/pantry/x`, and the rule wants `/status`\n" +
                     path +
                     ":5: [method=GET path=/pantry/* ip=*] (cookies)\n"
                     "    applies and decides\n"
                     "      limit: 3 per 1h\n"
                     "      actor: by `ip`, here `10.0.0.7`\n"
                     "      counter: divvy:ip=* method=GET path=/pantry/*:10.0.0.7:3:3600\n"
                     "2 rules behind it are not reached.\n");
}

TEST_F(Commands, ExplainShowsShadowRulesMissingKeysAndDenials) {
  const auto path = file("rules.ini", rules_ini);
  EXPECT_EQ(command({"explain", "--policy", path, "method=GET", "path=/status"}), 0);
  EXPECT_TRUE(said(out, "applies in shadow: it is charged, and the search goes on")) << out;
  EXPECT_TRUE(said(out, "counter: divvy:method=GET path=/status::1000:60")) << out;
  EXPECT_TRUE(said(out, "`method` is `GET`, and the rule wants `POST`")) << out;
  EXPECT_TRUE(said(out, "limit: always denied")) << out;
  EXPECT_FALSE(said(out, "not reached")) << out;

  EXPECT_EQ(command({"explain", "--policy", path, "method=GET", "path=/pantry/x"}), 0);
  EXPECT_TRUE(said(out, "by `ip`, which the request lacks")) << out;
  EXPECT_EQ(command({"explain", "--documented", "--policy", path, "method=GET", "path=/pantry/x"}),
            0);
  EXPECT_TRUE(said(out, "the request has no `ip`, and the rule wants `*`")) << out;
}

TEST_F(Commands, ExplainTakesWordsLiterallyAndTheLastOfAKeyCounts) {
  const auto path = file("rules.ini", rules_ini);
  EXPECT_EQ(command({"explain", "--json", "--policy", path, "--", "-x=1", "[a=b,c]", "e==f",
                     "g=", "method=GET", "method=POST"}),
            0)
      << err;
  const json result = json::parse(out);
  EXPECT_EQ(result["request"],
            json({{"-x", "1"}, {"[a", "b,c]"}, {"e", "=f"}, {"g", ""}, {"method", "POST"}}));
  EXPECT_EQ(result["decided"], true);
  EXPECT_EQ(result["rules"].back()["pattern"], "method=POST");
  EXPECT_EQ(result["rules"].back()["limits"][0]["quota"], 1);
  EXPECT_TRUE(result["rules"].back()["actor"].empty());
  EXPECT_EQ(result["rules"][0]["mismatch"]["has"], "POST");
  EXPECT_EQ(result["unreached"], 1);
}

TEST_F(Commands, ExplainKnowsLimitdsTypes) {
  const auto path = file("limitd.yaml",
                         "db: { inMemory: true }\nbuckets:\n  ip:\n    size: 5\n    per_second: 1\n"
                         "    override:\n      10.0.0.7: { size: 9, until: 2020-01-01 }\n"
                         "      10.0.0.8: { size: 8 }\n");
  EXPECT_EQ(command({"explain", "--policy", path, "type=ip", "key=10.0.0.7"}), 0) << err;
  EXPECT_TRUE(said(out, "[type=ip key=10.0.0.7]\n    does not apply: its time is over")) << out;
  EXPECT_TRUE(said(out, "`key` is `10.0.0.7`, and the rule wants `10.0.0.8`")) << out;
  EXPECT_TRUE(said(out, "1 per 1s, token_bucket, burst 5")) << out;
  EXPECT_TRUE(said(out, "counter: limitd:ip:10.0.0.7")) << out;
  EXPECT_EQ(command({"explain", "--as", "limitd", "--policy", path, "type=x", "key=k"}), 0) << err;
  EXPECT_TRUE(said(out, "No rule decides it. limitd's protocol answers UNKNOWN_BUCKET_TYPE"))
      << out;
  EXPECT_EQ(command({"explain", "--protocol", "divvy", "--policy", path, "type=ip"}), 0) << err;
  EXPECT_TRUE(said(out, "Divvy's protocol answers `OK false 0 -1`")) << out;
  EXPECT_EQ(command({"explain", "--protocol", "nosuch", "--policy", path, "type=ip"}), 2);
}

TEST_F(Commands, ExplainShowsTheActorOfARuleThatIsOff) {
  const auto path = file("sluice.yaml",
                         "rules:\n  - { name: a, match: { ip: '*' }, actor: ip, mode: off,\n"
                         "      limit: { quota: 1, window: 1s } }\n");
  EXPECT_EQ(command({"explain", "--json", "--policy", path, "ip=1"}), 0) << err;
  const json result = json::parse(out);
  EXPECT_EQ(result["rules"][0]["mode"], "off");
  EXPECT_EQ(result["rules"][0]["applies"], false);
  EXPECT_EQ(result["rules"][0]["actor"], json({{{"key", "ip"}, {"value", "1"}}}));
}

TEST_F(Commands, ExplainSaysThatARuleCannotBeEvaluated) {
  const auto path = file("bad.json", R"({"overrides": [
      {"operation": {"t": "bad", "path": "**"}, "creditLimit": 2, "resetSeconds": 60}],
      "default": {"operation": {}, "creditLimit": 0, "resetSeconds": 0}})");
  EXPECT_EQ(command({"explain", "--policy", path, "t=bad", "path=/x"}), 0);
  EXPECT_TRUE(said(out, "cannot be evaluated, so the request fails: Invalid regular")) << out;
  EXPECT_TRUE(said(out, "1 rule behind it is not reached.")) << out;
  EXPECT_TRUE(said(err, "warning: ")) << err;
}

TEST_F(Commands, AskPrintsTheDecisionAsText) {
  calls::FakeServer server({"OK true 2 3597\n", "OK false 0 59\n", "OK false 0 -1\n",
                            "ERR unknown \"x\"\n", "OK true 1 0\n",
                            "OK true 9007199254740991 0\n"});
  const std::string at = "127.0.0.1:" + std::to_string(server.port());
  EXPECT_EQ(command({"ask", "divvy", "--server", at, "path=/a b", "ip=1"}), 0) << err;
  EXPECT_EQ(out, "allowed: 2 left, all of them again in 59m57s\n");
  EXPECT_EQ(server.lines().front(), "HIT \"ip\"=\"1\" \"path\"=\"/a b\"");
  EXPECT_EQ(command({"ask", "divvy", "--server", at, "ip=1"}), 1);
  EXPECT_EQ(out, "denied: none left, try again in 59s\n");
  EXPECT_EQ(command({"ask", "--json", "divvy", "--server", at}), 1);
  EXPECT_EQ(json::parse(out), json({{"allowed", false}, {"remaining", 0}, {"reset_seconds", -1}}));
  EXPECT_EQ(command({"ask", "divvy", "--server", at, "ip=1"}), 3);
  EXPECT_EQ(err, "error: the server refused: ERR unknown \"x\"\n");
  EXPECT_EQ(command({"ask", "divvy", "--server", at}), 0);
  EXPECT_EQ(out, "allowed: 1 left, all of them again in less than a second\n");
  EXPECT_EQ(command({"ask", "divvy", "--server", at}), 0);
  EXPECT_EQ(out, "allowed: unlimited\n");
}

TEST_F(Commands, AskDropletRequiresAVerbABucketAndNumbers) {
  const Words wrong[] = {{},
                         {"put", "jar"},
                         {"take"},
                         {"take", "a", "b"},
                         {"query"},
                         {"take", "jar", "--lm", "-1"},
                         {"take", "jar", "--lm", "4294967296"},
                         {"take", "jar", "--count", "2147483648"},
                         {"take", "jar", "--count", "-2147483649"},
                         {"take", "jar", "--count", "one"},
                         {"query", "jar", "--lm", "1"},
                         {"query", "jar", "--count", "1"},
                         {"query", "jar", "--reset"},
                         {"take", "jar", "--server", "::1:80"},
                         {"take", "jar", "--timeout", "0"},
                         {"take", "--lx", "1"}};
  for (Words words : wrong) {
    words.insert(words.begin(), {"ask", "droplet"});
    EXPECT_EQ(command(words), 2) << words.back();
    EXPECT_TRUE(said(err, "error: ")) << err;
    EXPECT_TRUE(said(err, "Usage: sluice ask droplet")) << err;
  }
  EXPECT_EQ(command({"ask", "droplet", "--help"}), 0);
  for (const char* option : {"--ls", "--lo", "--count", "--reset", "--server", "--json"})
    EXPECT_TRUE(said(out, option)) << option;
  EXPECT_EQ(command({"ask", "--timeout", "x", "droplet", "query", "jar"}), 2);
  EXPECT_TRUE(said(err, "--timeout must be")) << err;
}

TEST_F(Commands, AskSaysWhyItGotNoDecision) {
  EXPECT_EQ(command({"ask", "divvy", "k=a\"b"}), 2);
  EXPECT_TRUE(said(err, "holds a double quote")) << err;
  EXPECT_EQ(command({"ask", "--json", "divvy", "k=a\"b"}), 2);
  EXPECT_TRUE(said(json::parse(out)["error"].get<std::string>(), "a double quote")) << out;
  EXPECT_EQ(err, "");
}

TEST_F(Commands, TheExamplesAreValidAndEquivalent) {
  const std::string examples = tests::source_path("examples/");
  EXPECT_EQ(command({"check", examples + "example-config.ini", examples + "example-config.json",
                     examples + "sluice.yaml", examples + "limitd.yaml"}),
            0)
      << err;
  EXPECT_EQ(err, "");
  request::Spaces spaces;
  base::Diagnostics diagnostics;
  const auto load = [&](std::unique_ptr<protocol::PolicyFiles> files) {
    return config::load_policy({base::Cloned(std::move(files))}, spaces, diagnostics);
  };
  const protocol::PolicyFormat& format = *describe(*protocol::find("divvy")).policy;
  const auto ini = load(format.configured({examples + "example-config.ini"}));
  const auto as_json = load(format.configured({examples + "example-config.json"}));
  const auto built_in = load(format.example());
  ASSERT_TRUE(ini && as_json && built_in);
  const auto a = ini->rules(protocol::find_dialect("divvy"));
  for (const auto& other : {as_json, built_in}) {
    const auto b = other->rules(protocol::find_dialect("divvy"));
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].pattern, b[i].pattern);
      EXPECT_EQ(a[i].actor, b[i].actor);
      EXPECT_EQ(a[i].comment, b[i].comment);
      EXPECT_EQ(a[i].limits, b[i].limits);
      EXPECT_EQ(a[i].space, b[i].space);
    }
  }
}

// A server without a policy file must not warn: its operator has written no policy.
TEST_F(Commands, TheBuiltInExamplesAreServedWithoutAWarning) {
  request::Spaces spaces;
  base::Diagnostics diagnostics;
  const auto rules = config::load_policy(config::Config().policy_files(), spaces, diagnostics);
  ASSERT_TRUE(rules);
  for (const auto& d : diagnostics) ADD_FAILURE() << base::to_string(d);
  EXPECT_EQ(rules->rules(protocol::find_dialect("divvy")).front().file, "built-in example (divvy)");
  EXPECT_EQ(rules->rules(protocol::find_dialect("limitd")).front().file,
            "built-in example (limitd)");
}

// limitd's files have the same extension as sluice's: the contents tell them apart.
TEST_F(Commands, ChecksAndCountsLimitdsFiles) {
  const auto path = file("limitd.yaml",
                         "db: { inMemory: true }\nbuckets:\n  ip:\n    size: 10\n"
                         "    override: { a: { size: 1 }, b: { size: 2 } }\n");
  EXPECT_EQ(command({"check", path}), 0) << err;
  EXPECT_EQ(out, path + ": ok, 3 rules\n");
  std::filesystem::create_directory(path + ".d");
  file("limitd.yaml.d/10.yml", "buckets: { more: { size: 2 } }\n");
  file("limitd.yaml.d/.swap", "buckets: [");
  EXPECT_EQ(command({"check", path}), 0) << err;
  EXPECT_EQ(out, path + ": ok, 4 rules\n");
  const auto named = file("limitd.config", "buckets: { ip: { size: -1 } }\n");
  EXPECT_EQ(command({"check", named}), 1);
  EXPECT_TRUE(said(err, "missing database path")) << err;
  EXPECT_EQ(
      command({"check", "--as", "limitd", file("x", "db: x\nbuckets: { ip: { size: 1 } }\n")}), 0);
  EXPECT_EQ(err, "");

  file("rules.ini", rules_ini);
  EXPECT_EQ(command({"check", file("sluice.yaml",
                                   "policy: [{ divvy: rules.ini }, { limitd: limitd.yaml }]\n")}),
            0)
      << err;
  EXPECT_TRUE(said(out, ": ok, 8 rules\n")) << out;
  // The file may say where limitd listens; inside sluice.yaml these settings are ignored, with a
  // warning.
  file("limitd.yaml.d/20.yml", "port: 1\nhostname: a\nlog_level: warn\nlog_file: x\n");
  EXPECT_EQ(command({"check", folder_ + "/sluice.yaml"}), 0) << err;
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 4) << err;
}

TEST_F(Commands, CheckReadsTheConfiguratorsFile) {
  const auto types = file("types.yml", "db: x\nbuckets: { ip: { size: 1 }, b: { size: 1 } }\n");
  const auto path = file("limitd.yaml",
                         "db: { inMemory: true }\nbuckets: { ip: { size: 10 } }\n"
                         "configurator: { type: file, path: " +
                             types + " }\n");
  EXPECT_EQ(command({"check", path}), 0) << err;
  EXPECT_EQ(out, path + ": ok, 2 rules\n");
  file("types.yml", "buckets: { ip: { size: 1 } }\n");
  EXPECT_EQ(command({"check", path}), 1);
  EXPECT_TRUE(said(err, types + ": error: db: missing database path")) << err;
  std::filesystem::remove(types);
  EXPECT_EQ(command({"check", path}), 1);
  EXPECT_TRUE(said(err, types + ": error: cannot be read")) << err;
}

TEST_F(Commands, LimitdExitsWith1OnEveryUsageError) {
  EXPECT_EQ(command({"limitd", "--nope"}), 1);
  EXPECT_EQ(command({"limitd", "file"}), 1);
  EXPECT_EQ(command({"limitd"}), 1);
  EXPECT_TRUE(said(err, "missing database path")) << err;
  EXPECT_EQ(command({"limitd", "-h", "127.0.0.1", "-c", file("e.yaml", "")}), 1);
  EXPECT_TRUE(said(err, "missing database path")) << err;
  EXPECT_EQ(command({"limitd", "-c", folder_ + "/none.yml"}), 1);
  EXPECT_TRUE(said(err, "none.yml: error: cannot be read")) << err;
  EXPECT_EQ(command({"limitd", "--db", "x"}), 1);
  EXPECT_TRUE(said(err, "buckets: is missing")) << err;
  EXPECT_EQ(command({"limitd", "-d", "x", "-p", "x", "-c", file("b.yaml", "buckets: {}\n")}), 1);
  EXPECT_TRUE(said(err, "--port: `x` is not a port")) << err;
  EXPECT_EQ(command({"limitd", "--version"}), 0);
  EXPECT_EQ(out, std::string(config::version) + "\n");
}

TEST_F(Commands, LimitdctlReportsMissingArgumentsAsTheOriginal) {
  EXPECT_EQ(command({"limitdctl", "--key", "k", "--take", "1"}), 1);
  EXPECT_EQ(err, "\"--bucket\" is required\n");
  EXPECT_EQ(command({"limitdctl", "--bucket", "ip", "--take", "1"}), 1);
  EXPECT_EQ(err, "\"--key\" is required\n");
  for (const Words& more : {Words{}, Words{"-t", "1", "-s"}, Words{"-t", "1", "-r", "1"}}) {
    Words words{"limitdctl", "-b", "ip", "-k", "k"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(command(words), 1);
    EXPECT_TRUE(said(err, "one and only one method must be provided")) << err;
  }
  EXPECT_EQ(command({"limitdctl", "-b", "ip", "-k", "k", "-t", "x"}), 1);
  EXPECT_EQ(command({"limitdctl", "-b", "ip", "-k", "k", "-p", "x", "-t", "1"}), 1);
  EXPECT_EQ(command({"limitdctl", "--nope"}), 1);
}

TEST_F(Commands, CheckSaysWhichCountersBeginFresh) {
  const auto rule = [](const std::string& name, const std::string& limit) {
    return "rules: [{ name: " + name + ", match: { path: /login }, actor: ip, limit: { quota: 5, " +
           limit + " } }]\n";
  };
  const std::string old = file("old.yaml", rule("login", "window: 1m"));
  const std::string same = file("same.yaml", rule("login", "window: 2m"));
  EXPECT_EQ(command({"check", "--against", old, same}), 0) << err;
  EXPECT_TRUE(said(out, same + ": no counter begins fresh\n")) << out;
  const std::string named = file("named.yaml", rule("signin", "window: 1m"));
  EXPECT_EQ(command({"check", "--against", old, named}), 0) << err;
  EXPECT_TRUE(
      said(out, named + ": rule `signin`: its counters begin fresh: its name was `login`\n"))
      << out;
  const std::string log = file("log.yaml", rule("login", "window: 1m, algorithm: sliding_log"));
  EXPECT_EQ(command({"check", "--json", "--against", old, log}), 0) << err;
  EXPECT_TRUE(said(out,
                   "\"begins_fresh\": [\n        \"rule `login`, 5 per 1m (sliding_log): begins "
                   "fresh: its algorithm was token_bucket\"\n"))
      << out;
  const std::string bad = file("bad.yaml", "rules: 3\n");
  EXPECT_EQ(command({"check", "--against", bad, same}), 1);
  EXPECT_TRUE(said(err, "error: nothing can be compared with " + bad)) << err;
}

TEST_F(Commands, ReportsFilesThatCannotBeRead) {
  std::filesystem::create_directory(folder_ + "/folder.ini");
  base::Diagnostics diagnostics;
  EXPECT_FALSE(config::read_file(folder_ + "/folder.ini", diagnostics));
  EXPECT_EQ(diagnostics.back().message, "is a directory");
  EXPECT_FALSE(config::read_file(folder_ + "/none.ini", diagnostics));
  EXPECT_EQ(diagnostics.back().message, "cannot be read: No such file or directory");

  const auto path = file("large.ini", std::string(base::bounds::config_bytes_max, 'x'));
  EXPECT_EQ(config::read_file(path, diagnostics)->size(), base::bounds::config_bytes_max);
  std::filesystem::resize_file(path, base::bounds::config_bytes_max + 1);
  EXPECT_FALSE(config::read_file(path, diagnostics));
  EXPECT_EQ(diagnostics.back().message, "is longer than 64 MiB, the bound of a configuration file");
}

}  // namespace
}  // namespace sluice::cli
