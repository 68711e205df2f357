// The commands over the admin port, against a made-up server: what they send and print, and their
// exit statuses. tests/e2e/terminal_test.cc has the real server, override_command_test.cc has
// `override`.
#include "cli/admin_commands_test.h"

#include <gtest/gtest.h>

#include <chrono>

#include "wire/http_session.h"

namespace sluice::cli {
namespace {

TEST_F(AdminCommands, HelpNamesFlagsAnExampleAndTheExitStatus) {
  for (const char* name :
       {"status", "top", "denials", "rules", "counters", "reset", "override", "reload"}) {
    EXPECT_EQ(command({name, "--help"}), 0);
    EXPECT_TRUE(said(out, std::string("Usage: sluice ") + name)) << out;
    for (const char* part : {"--admin", "--token-file", "SLUICE_ADMIN_TOKEN", "--json", "Example",
                             "Exit status:\n  0  "})
      EXPECT_TRUE(said(out, part)) << name << ": " << part;
    std::istringstream text(out);
    for (std::string line; std::getline(text, line);) {
      EXPECT_TRUE(line.size() <= 100 || line.starts_with("  sluice ")) << line;
    }
  }
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(AdminCommands, RejectWrongArgumentsAndSendNothing) {
  const Words wrong[] = {{"status", "word"},
                         {"status", "--over", "2m"},
                         {"status", "--admin", "::1:80"},
                         {"status", "--admin", "off"},
                         {"status", "--timeout", "0"},
                         {"top", "--by", "name"},
                         {"top", "--limit", "0"},
                         {"top", "--limit", "1001"},
                         {"rules", "a", "b"},
                         {"counters", "a", "b"},
                         {"counters", "--limit", "x"},
                         {"reset"},
                         {"reset", "a", "b"},
                         {"reset", "--encoded", "a b"},
                         {"reload", "file"},
                         {"override"},
                         {"override", "sett"},
                         {"override", "list", "word"},
                         {"override", "show"},
                         {"override", "remove"},
                         {"override", "show", ""},
                         {"override", "show", "o-1", "--rule", "r"},
                         {"override", "remove", "o-1", "--actor", "a"},
                         {"override", "list", "--quota", "5"},
                         {"override", "list", "--actor", "a", "--actor", "b"},
                         {"override", "set"},
                         {"override", "set", "--rule", "r"}};
  // The arguments that follow `override set --rule r`.
  const Words wrong_set[] = {{"--actor", "a"},
                             {"--actor", "a", "--window", "1h"},
                             {"--actor", "a", "--quota", "x"},
                             {"--actor", "a", "--quota", "1", "--deny"},
                             {"--actor", "a", "--limit", "[1]"},
                             {"--actor", "a", "--actor", "k=v", "--deny"},
                             {"--actor", "k=v", "--actor", "k=w", "--deny"},
                             {"--actor", "\xff", "--deny"},
                             {"--actor", "a", "--deny", "--until", "soon"},
                             {"--actor", "a", "--deny", "--for", "0s"},
                             {"--actor", "a", "--deny", "--for", "1d", "--until", "2030-01-01"}};
  std::vector<Words> all(std::begin(wrong), std::end(wrong));
  for (const Words& more : wrong_set) {
    all.push_back({"override", "set", "--rule", "r"});
    all.back().insert(all.back().end(), more.begin(), more.end());
  }
  for (const Words& words : all) {
    EXPECT_EQ(command(words), 2) << words.front() << " ... " << words.back();
    EXPECT_TRUE(said(err, "error: ")) << err;
  }
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(AdminCommands, StatusPrintsTheServersState) {
  answers["GET /v1/status"] = page(status_answer());
  EXPECT_EQ(ask({"status", "--over", "0s"}), 0) << err;
  const std::vector<std::string> expected{
      "server       sluice 0.1.0 at " + server.address() + ": ready",
      "up           2m",
      "policy       generation 4, live since 2026-11-20T10:00:00Z, 2 rules, hash 0123456789abcdef",
      "             /etc/rules.ini",
      "requests     12,345 allowed, 6 denied since the start",
      "             42/s allowed, 0.3/s denied over the last 10s",
      "connections  3 divvy",
      "counters     7 in 1.5GiB of 2GiB",
      "waiting      2",
      "store        memory alone: a restart forgets"};
  EXPECT_EQ(lines(), expected);
  // One document is enough.
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(server.requests()[0].target, "/v1/status");

  EXPECT_EQ(ask({"status", "--json"}), 0) << err;
  Json document = status_answer();
  EXPECT_EQ(result()["server"], server.address());
  Json json = result();
  json.erase("server");
  EXPECT_EQ(json, document);

  EXPECT_EQ(ask({"status", "--over", "1ms"}), 0) << err;
  EXPECT_TRUE(said(out, "             0/s allowed, 0/s denied over the last ")) << out;
  document["overrides"]["count"] = 3;
  answers["GET /v1/status"] = page(document);
  EXPECT_EQ(ask({"status"}), 0) << err;
  EXPECT_TRUE(said(out, "overrides    3\n")) << out;
}

TEST_F(AdminCommands, StatusReadsTwiceForRatesOverAGivenTime) {
  int looks = 0;
  FakeHttp growing([&](const Request&) {
    Json document = status_answer();
    if (++looks == 2)
      for (Json* counts : {&document["requests"], &document["protocols"]["divvy"]}) {
        (*counts)["total"]["allowed"] = 12345 + 1'000'000;
        (*counts)["total"]["unmatched"] = 1'000'000;
        (*counts)["total"]["denied"] = 0;  // as after a restart of the server
      }
    return page(document);
  });
  EXPECT_EQ(command({"status", "--over", "10ms", "--json", "--admin", growing.address()}), 0)
      << err;
  const Json requests = result()["requests"];
  const double seconds = requests["over_seconds"].get<double>();
  EXPECT_GE(seconds, 0.01);
  EXPECT_LT(seconds, 60);
  for (const Json& rates : {requests["per_second"], result()["protocols"]["divvy"]["per_second"]}) {
    EXPECT_DOUBLE_EQ(rates["allowed"].get<double>(), 1e6 / seconds);
    EXPECT_DOUBLE_EQ(rates["unmatched"].get<double>(), 1e6 / seconds);
    EXPECT_EQ(rates["denied"], 0.0);
  }
}

TEST_F(AdminCommands, StatusExitsWith1WhenTheServerIsDegraded) {
  Json document = status_answer();
  document["policy"]["stale"] = true;
  document["policy"]["last_reading"] = {{"outcome", "refused"},
                                        {"at", "2026-11-20T11:00:00Z"},
                                        {"diagnostics",
                                         {{{"severity", "error"},
                                           {"file", "/etc/rules.ini"},
                                           {"line", 3},
                                           {"column", 1},
                                           {"subject", ""},
                                           {"message", "is \x1b[2Jwrong"},
                                           {"remedy", ""}}}}};
  document["store"].update(
      Json::parse(R"({"kind": "disk", "durability": "always", "commits": 9, "failing": true})"));
  answers["GET /v1/status"] = page(document);
  EXPECT_EQ(ask({"status", "--over", "0s"}), 1);
  EXPECT_TRUE(said(out, "a newer one was refused at 2026-11-20T11:00:00Z")) << out;
  EXPECT_TRUE(said(out, "/etc/rules.ini:3:1: error: is \\x1b[2Jwrong")) << out;
  EXPECT_TRUE(said(out, "store        disk, durability always, 9 commits; it cannot be written"))
      << out;

  document = status_answer();
  document["ready"] = false;
  document["reasons"] = {"the server is stopping"};
  document["connections"] = {{"evil\x1b[2J", 1}};
  document["counters"] = {{"count", 0}, {"memory_bytes", 0}, {"memory_bytes_max", nullptr}};
  document["store"].update(Json::parse(
      R"({"kind": "redis", "connections": {"up": 0, "down": 2}, "failures": {"silent": 5}})"));
  answers["GET /v1/status"] = page(document);
  EXPECT_EQ(ask({"status", "--over", "0s"}), 1);
  EXPECT_TRUE(said(out, ": not ready\n             the server is stopping\n")) << out;
  EXPECT_TRUE(said(out, "connections  1 evil\\x1b[2J\n")) << out;
  EXPECT_TRUE(said(out, "counters     in Redis; here, for when it cannot be asked: 0 in 0B\n"))
      << out;
  EXPECT_TRUE(said(out, "Redis: 2 down connections; failures so far: 5 silent\n")) << out;
  EXPECT_EQ(ask({"status", "--over", "0s", "--json"}), 1);
  EXPECT_EQ(result()["reasons"][0], "the server is stopping");
  EXPECT_EQ(result()["store"]["failures"]["silent"], 5);

  document = status_answer();
  document["degraded"] = true;
  document["reasons"] = {"the disk is full"};
  answers["GET /v1/status"] = page(document);
  EXPECT_EQ(ask({"status"}), 1);
  EXPECT_TRUE(said(out, ": degraded\n             the disk is full\n")) << out;
}

// A field that is missing or of another kind is treated as if it were empty.
TEST_F(AdminCommands, StatusToleratesFieldsOfAnotherVersion) {
  for (const char* document :
       {R"({"ready": true})",
        R"({"ready": true, "requests": 1, "protocols": [1], "store": [], "connections": [1, 2],
            "policy": "x", "counters": null, "reasons": {"a": 1}, "server": "\u001b[2J"})",
        R"({"ready": true, "requests": {"total": 5, "per_second": []}, "protocols": {"x": 1}})"}) {
    answers["GET /v1/status"] = FakeHttp::response(200, document);
    for (const char* over : {"0s", "1ms"}) {
      EXPECT_EQ(ask({"status", "--over", over}), 0) << document;
      EXPECT_TRUE(said(out, " at " + server.address() + ": ready\n")) << out;
      EXPECT_EQ(ask({"status", "--json", "--over", over}), 0) << document;
      EXPECT_EQ(result()["server"], server.address());
    }
  }
  answers["GET /v1/status"] = FakeHttp::response(200, "{}");
  EXPECT_EQ(ask({"status"}), 3);
  EXPECT_TRUE(said(err, "its answer to GET /v1/status has no `ready`; check the address")) << err;
}

TEST_F(AdminCommands, SayWhyNoServerCouldBeReached) {
  answers["GET /v1/status"] = problem(401, "this needs the admin token");
  EXPECT_EQ(ask({"status"}), 3);
  EXPECT_EQ(err,
            "error: the server requires its admin token; give it by --token-file FILE or "
            "SLUICE_ADMIN_TOKEN\n");
  variables["SLUICE_ADMIN_TOKEN"] = "secret-secret-secret";
  EXPECT_EQ(ask({"status", "--json"}), 3);
  EXPECT_EQ(result()["status"], 401);
  EXPECT_TRUE(said(out, "another admin token")) << out;
  answers["POST /v1/reload"] = problem(403, "no web page");
  EXPECT_EQ(ask({"reload"}), 3);
  EXPECT_EQ(err, "error: no web page\n");
  EXPECT_FALSE(said(out + err, "secret"));

  // A server of an older version, and a server that is not sluice.
  answers.erase("GET /v1/status");
  for (const auto& [name, path] :
       {std::pair("top", "/v1/top"), std::pair("status", "/v1/status")}) {
    EXPECT_EQ(ask({name}), 3);
    EXPECT_EQ(err,
              "error: the server at " + server.address() + " has no " + path +
                  "; it is older than this command: use the `sluice` of its version, or restart "
                  "it with this version\n");
  }
  answers["GET /v1/rules?limit=1000"] = FakeHttp::response(502, "<html>", "text/html");
  EXPECT_EQ(ask({"rules", "--over", "0s"}), 3);
  EXPECT_TRUE(said(
      err, "does not answer as sluice's admin port would: it answers GET /v1/rules with 502; "))
      << err;
  answers["GET /v1/rules?limit=1000"] = FakeHttp::response(200, "{");
  EXPECT_EQ(ask({"rules", "--over", "0s"}), 3);
  EXPECT_TRUE(said(err, "with JSON that is none")) << err;
  answers["GET /v1/rules?limit=1000"] = FakeHttp::silence;
  EXPECT_EQ(ask({"rules", "--over", "0s", "--timeout", "30"}), 3);
  EXPECT_EQ(err, "error: " + server.address() + ": no reply in time\n");

  EXPECT_EQ(command({"status", "--admin", "127.0.0.1:1"}), 3);
  EXPECT_TRUE(said(err, "cannot connect to 127.0.0.1 port 1: Connection refused; is the server up"))
      << err;
  EXPECT_TRUE(said(err,
                   "name the server as its banner does: `--admin 127.0.0.1:PORT`, `--admin PATH` "
                   "of a socket, or SLUICE_ADMIN_SERVER"))
      << err;
}

// Droplet's port, for example, answers any path in this way, and other servers answer with JSON of
// their own.
TEST_F(AdminCommands, RejectAnswersOfOtherServers) {
  const auto described = [](const std::string& body, const std::string& type) {
    return FakeHttp::response(200, body, type);
  };
  std::string said_to_all;
  FakeHttp other([&](const Request&) { return said_to_all; });
  const std::vector<Words> all{{"status"},
                               {"top"},
                               {"rules"},
                               {"rules", "--over", "0s"},
                               {"counters"},
                               {"reset", "key"},
                               {"reload"},
                               {"override", "set", "--rule", "user", "--actor", "a", "--deny"},
                               {"override", "list"},
                               {"override", "show", "o-1"},
                               {"override", "remove", "o-1"}};
  for (const std::string& answer :
       {described("sluice is up.\n", "text/plain"), described("{}", "text/plain"),
        described("{}", "text/html"), described("[1]", "application/json"),
        described("{}", "application/problem+json"), described(metrics, metrics_type),
        FakeHttp::response(503, "{}", "application/json")}) {
    said_to_all = answer;
    for (Words words : all) {
      words.insert(words.end(), {"--admin", other.address()});
      EXPECT_EQ(command(words), 3) << words[0] << ": " << answer;
      EXPECT_EQ(out, "") << words[0] << ": " << answer;
      EXPECT_TRUE(said(err, other.address() + " does not answer as sluice's admin port would: "))
          << err;
      EXPECT_TRUE(said(err, "; check the address (--admin)\n")) << err;
    }
  }
}

TEST_F(AdminCommands, ReadAddressAndTokenFromTheEnvironmentOrAFile) {
  answers["POST /v1/reload"] = page({{"outcome", "live"}, {"generation", 5}, {"hash", "ab"}});
  variables["SLUICE_ADMIN_SERVER"] = server.address();
  variables["SLUICE_ADMIN"] = "127.0.0.1:1";  // the address at which servers listen
  EXPECT_EQ(command({"reload"}), 0) << err;
  EXPECT_EQ(err, "");
  variables["SLUICE_ADMIN_TOKEN"] = "by-the-environment";
  EXPECT_EQ(command({"reload"}), 0) << err;
  EXPECT_EQ(command({"reload", "--token-file", file("token", "out-of-the-file!\n")}), 0) << err;
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_FALSE(said(requests[0].head, "Authorization"));
  EXPECT_TRUE(said(requests[1].head, "Bearer by-the-environment\r\n"));
  EXPECT_TRUE(said(requests[2].head, "Bearer out-of-the-file!\r\n"));

  const std::string none = folder_ + "/none";
  EXPECT_EQ(command({"reload", "--token-file", none}), 3);
  EXPECT_EQ(err, "error: --token-file " + none +
                     ": cannot be read: No such file or directory; name a file that holds the "
                     "server's admin token, or set SLUICE_ADMIN_TOKEN\n");
  EXPECT_EQ(command({"reload", "--token-file", none, "--json"}), 3);
  EXPECT_TRUE(said(result()["error"].get<std::string>(), none + ": cannot be read")) << out;
  EXPECT_EQ(err, "");
  const std::string bad = file("bad", "a secret with\r\nlines\n");
  EXPECT_EQ(command({"reload", "--token-file", bad}), 3);
  EXPECT_TRUE(
      err.starts_with("error: --token-file " + bad + ": is not a token; give it 16 or more"))
      << err;
  EXPECT_FALSE(said(err, "secret with")) << err;
  EXPECT_EQ(server.requests().size(), 3u);
}

// Earlier versions used the variable that says where servers listen.
TEST_F(AdminCommands, AcceptTheServersVariableWithAWarning) {
  answers["POST /v1/reload"] = page({{"outcome", "live"}, {"generation", 5}, {"hash", "ab"}});
  variables["SLUICE_ADMIN"] = server.address();
  EXPECT_EQ(command({"reload"}), 0);
  EXPECT_EQ(err,
            "warning: SLUICE_ADMIN is where a server listens; name the server that commands ask by "
            "SLUICE_ADMIN_SERVER or --admin\n");
  EXPECT_EQ(ask({"reload"}), 0);
  EXPECT_EQ(err, "");
  variables["SLUICE_ADMIN_SERVER"] = "off";
  EXPECT_EQ(command({"reload"}), 2);
  EXPECT_TRUE(said(err, "SLUICE_ADMIN_SERVER is `off`, and what is switched off cannot be asked"))
      << err;
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST_F(AdminCommands, ReloadPrintsItsOutcome) {
  const Json diagnostic{{"severity", "warning"}, {"file", "r.ini"},       {"line", 3},
                        {"column", 4},           {"subject", "rule [a]"}, {"message", "is odd"},
                        {"remedy", "fix it"}};
  answers["POST /v1/reload"] = page({{"outcome", "live"},
                                     {"generation", 5},
                                     {"hash", "ab"},
                                     {"diagnostics", Json::array({diagnostic})}});
  EXPECT_EQ(ask({"reload"}), 0);
  EXPECT_EQ(out, "live: generation 5, hash ab\n");
  EXPECT_EQ(err, "r.ini:3:4: warning: rule [a]: is odd; fix it\n");
  Json harmful = diagnostic;
  harmful["message"] =
      "is \xc2\x9b"
      "2J\xe2\x80\xaeodd";
  answers["POST /v1/reload"] = page({{"outcome", "unchanged"},
                                     {"generation", 5},
                                     {"hash", "ab"},
                                     {"diagnostics", Json::array({harmful})}});
  EXPECT_EQ(ask({"reload"}), 0);
  EXPECT_EQ(out, "unchanged: generation 5, hash ab\n");
  EXPECT_EQ(err, "r.ini:3:4: warning: rule [a]: is \\u{9b}2J\\u{202e}odd; fix it\n");
  answers["POST /v1/reload"] = page({{"outcome", "unchanged"},
                                     {"generation", 5},
                                     {"hash", "ab"},
                                     {"diagnostics", Json::array()}});
  EXPECT_EQ(ask({"reload", "--json"}), 0);
  EXPECT_EQ(result(), Json({{"outcome", "unchanged"},
                            {"generation", 5},
                            {"hash", "ab"},
                            {"diagnostics", Json::array()}}));
  answers["POST /v1/reload"] =
      problem(422, "the policy is refused; live stays generation 5",
              {{"generation", 5}, {"diagnostics", Json::array({diagnostic})}});
  EXPECT_EQ(ask({"reload"}), 1);
  EXPECT_EQ(err,
            "r.ini:3:4: warning: rule [a]: is odd; fix it\n"
            "error: the policy is refused; live stays generation 5\n");
  EXPECT_EQ(ask({"reload", "--json"}), 1);
  EXPECT_EQ(result()["outcome"], "refused");
  EXPECT_EQ(result()["diagnostics"][0]["line"], 3);
  answers["POST /v1/reload"] = problem(
      409,
      "the policy comes from a pipe, which can be read only once; restart the server to change it");
  EXPECT_EQ(ask({"reload"}), 1);
  EXPECT_TRUE(said(err, "only once")) << err;
}

Json rule(const std::string& dialect, const std::string& name, const std::string& pattern) {
  return {{"dialect", dialect},
          {"name", name},
          {"pattern", pattern},
          {"comment", ""},
          {"mode", "enforce"},
          {"limits",
           Json::array(
               {{{"algorithm", "token_bucket"}, {"quota", 3}, {"window", "1h"}, {"burst", 9}}})},
          {"counted_as", name.empty() ? pattern : name},
          {"decisions",
           {{"allowed", 1234},
            {"denied", 5},
            {"shadow_allowed", 0},
            {"shadow_denied", 1},
            {"error", 0}}}};
}

TEST_F(AdminCommands, RulesAreListedOverAllPages) {
  answers["GET /v1/rules?limit=1000"] =
      page({{"generation", 1},
            {"total", 2},
            {"rules", Json::array({rule("native", "all", "a=*")})},
            {"next", "1"}});
  answers["GET /v1/rules?limit=1000&after=1"] = page(
      {{"generation", 1}, {"total", 2}, {"rules", Json::array({rule("divvy", "", "k=\x1b")})}});
  EXPECT_EQ(ask({"rules", "--over", "0s"}), 0) << err;
  EXPECT_EQ(
      out,
      "RULE    PROTOCOL  MODE     LIMITS                           ALLOWED  DENIED  ERRORS\n"
      "all     all       enforce  3 per 1h, token_bucket, burst 9    1,234       6       0\n"
      "k=\\x1b  divvy     enforce  3 per 1h, token_bucket, burst 9    1,234       6       0\n");
  EXPECT_EQ(ask({"rules", "--over", "0s", "k="}), 0) << err;
  EXPECT_EQ(lines().size(), 2u) << out;
  EXPECT_EQ(ask({"rules", "--over", "0s", "nothing"}), 1);
  EXPECT_EQ(ask({"rules", "--over", "0s", "--json"}), 0);
  EXPECT_EQ(result()["rules"].size(), 2u);
  EXPECT_FALSE(result()["rules"][0].contains("per_second"));

  EXPECT_EQ(ask({"rules", "--over", "1ms", "--json"}), 0);
  EXPECT_EQ(result()["rules"][0]["per_second"]["allowed"], 0.0);
}

TEST_F(AdminCommands, RulesHideThoseBuiltInUnlessAllAreAskedFor) {
  Json own = rule("native", "all", "a=*"), brought = rule("resp", "cl.throttle", "");
  own["built_in"] = false;
  brought["built_in"] = true;
  answers["GET /v1/rules?limit=1000"] =
      page({{"generation", 1}, {"total", 2}, {"rules", Json::array({own, brought})}});
  EXPECT_EQ(ask({"rules", "--over", "0s"}), 0) << err;
  EXPECT_EQ(lines().size(), 2u) << out;
  EXPECT_FALSE(said(out, "cl.throttle")) << out;
  EXPECT_EQ(err, "note: 1 rule is built in; --all lists them\n");
  EXPECT_EQ(ask({"rules", "--over", "0s", "--all"}), 0) << err;
  EXPECT_TRUE(said(out, "cl.throttle")) << out;
  EXPECT_EQ(err, "");
  EXPECT_EQ(ask({"rules", "--over", "0s", "throttle"}), 1);
  EXPECT_EQ(err, "error: no rule has `throttle` but 1 built in; --all lists them\n");
  EXPECT_EQ(ask({"rules", "--over", "0s", "--json"}), 0);
  EXPECT_EQ(result()["rules"].size(), 1u);
  EXPECT_EQ(ask({"rules", "--over", "0s", "--json", "--all"}), 0);
  EXPECT_EQ(result()["rules"].size(), 2u);
}

TEST_F(AdminCommands, RulesComputeRatesFromTwoReadings) {
  // The second answer has higher counts, and a rule that was loaded meanwhile.
  int looks = 0;
  FakeHttp growing([&](const Request&) {
    const int more = ++looks == 1 ? 0 : 1'000'000;
    Json native = rule("native", "r", ""), divvy = rule("divvy", "r", "");
    native["decisions"]["allowed"] = 1234 + more;
    native["decisions"]["shadow_denied"] = 1 + more;
    divvy["decisions"]["error"] = more;
    Json rules = Json::array({native, divvy});
    if (looks > 1) rules.push_back(rule("divvy", "new", ""));
    return page({{"rules", rules}});
  });
  EXPECT_EQ(command({"rules", "--over", "10ms", "--json", "--admin", growing.address()}), 0) << err;
  const Json native = result()["rules"][0]["per_second"],
             divvy = result()["rules"][1]["per_second"];
  // The two answers are 10 ms apart at least and a minute at most.
  EXPECT_GT(native["allowed"].get<double>(), 1e6 / 60);
  EXPECT_LE(native["allowed"].get<double>(), 1e8);
  EXPECT_EQ(native["denied"], native["allowed"]);
  EXPECT_EQ(native["error"], 0.0);
  EXPECT_EQ(divvy["allowed"], 0.0);
  EXPECT_EQ(divvy["error"], native["allowed"]);
  EXPECT_FALSE(result()["rules"][2].contains("per_second"));
  looks = 0;
  EXPECT_EQ(command({"rules", "new", "--over", "10ms", "--admin", growing.address()}), 0) << err;
  EXPECT_TRUE(said(out, "  -  ")) << out;
}

Json counter(const std::string& name) {
  return {{"counter", name},
          {"path", wire::percent_encoded(name)},
          {"dialect", "divvy"},
          {"rule", "k=*"},
          {"actor", "a"},
          {"limits", Json::array({{{"algorithm", "fixed_window"},
                                   {"quota", 3},
                                   {"window", "1h"},
                                   {"allowed", true},
                                   {"remaining", 2},
                                   {"retry_after", 0},
                                   {"reset_after", 3597.2}}})}};
}

TEST_F(AdminCommands, CountersAreListedAndReset) {
  answers["GET /v1/counters?prefix=&limit=100"] =
      page({{"counters", Json::array({counter("divvy:a"), counter("b\n")})}});
  EXPECT_EQ(ask({"counters"}), 0) << err;
  EXPECT_EQ(out,
            "COUNTER  HOW IT STANDS\n"
            "divvy:a  2 left of 3 per 1h, all of them in 59m58s\n"
            "b\\n      2 left of 3 per 1h, all of them in 59m58s\n");
  answers["GET /v1/counters?prefix=x%2F%2A&limit=1"] =
      page({{"counters", Json::array({counter("x/*")})}, {"next", "x"}});
  EXPECT_EQ(ask({"counters", "x/*", "--limit", "1", "--json"}), 0);
  EXPECT_EQ(result()["next"], "x");
  EXPECT_EQ(ask({"counters", "x/*", "--limit", "1"}), 0);
  EXPECT_EQ(err, "note: there are more; --limit N lists more of them\n");
  Json none = {{"counter", "n"}, {"limits", Json::array()}, {"problem", "no counter"}};
  answers["GET /v1/counters?prefix=n&limit=100"] = page({{"counters", Json::array({none})}});
  EXPECT_EQ(ask({"counters", "n"}), 0) << err;
  EXPECT_EQ(out, "COUNTER  HOW IT STANDS\nn        no counter\n");
  // This answer may take longer than others.
  lateness = std::chrono::milliseconds(200);
  answers["GET /v1/counters?prefix=late&limit=100"] = page({{"counters", Json::array()}});
  EXPECT_EQ(ask({"counters", "late", "--timeout", "1"}), 0) << err;
  lateness = {};
  answers["GET /v1/counters?prefix=no&limit=100"] = page({{"counters", Json::array()}});
  EXPECT_EQ(ask({"counters", "no"}), 0);
  EXPECT_EQ(out + err, "note: no counter's name begins with `no`\n");

  Json fresh = counter("divvy:k=*:a b/\xc3\xa9");
  fresh["limits"][0]["remaining"] = 3;
  fresh["limits"][0]["reset_after"] = 0;
  answers["DELETE /v1/counters/divvy%3Ak%3D%2A%3Aa%20b%2F%C3%A9"] = page(fresh);
  EXPECT_EQ(ask({"reset", "divvy:k=*:a b/\xc3\xa9"}), 0) << err;
  EXPECT_EQ(out, "divvy:k=*:a b/\xc3\xa9: 3 left of 3 per 1h\n");
  EXPECT_EQ(ask({"reset", "--encoded", "divvy%3Ak%3D%2A%3Aa%20b%2F%C3%A9", "--json"}), 0) << err;
  EXPECT_EQ(result(), fresh);
  // The server knows the path, so the error is about the counter.
  EXPECT_EQ(ask({"reset", "nothing"}), 1);
  EXPECT_EQ(err, "error: there is nothing here\n");
}

TEST_F(AdminCommands, HoldsAreListedAndReleased) {
  const Json hold{{"id", "AbCdEfGhIjKlMnOpQrStUv"},
                  {"kind", "reservation"},
                  {"rule", "tokens"},
                  {"actor", "acme"},
                  {"counter", "native:tokens:acme:tenant"},
                  {"n", 4000},
                  {"holder", "worker\x1b[2J7"},
                  {"age", 1.5},
                  {"expires_in", 58.25}};
  answers["GET /v1/holds?limit=100"] = page({{"total", 3}, {"holds", {hold}}});
  EXPECT_EQ(ask({"holds"}), 0) << err;
  EXPECT_EQ(out,
            "AbCdEfGhIjKlMnOpQrStUv  4000 units of native:tokens:acme:tenant\n"
            "  held for 1s500ms, ends in 58s250ms, by worker\\x1b[2J7\n");
  EXPECT_EQ(err, "these are 1 of 3\n");
  answers["GET /v1/holds?limit=2&rule=tokens&actor=a%26b&holder=w&user=ann"] =
      page({{"total", 0}, {"holds", Json::array()}});
  EXPECT_EQ(ask({"holds", "--limit", "2", "--rule", "tokens", "--actor", "a&b", "--holder", "w",
                 "--user", "ann"}),
            0)
      << err;
  EXPECT_EQ(out + err, "nothing is held\n");
  EXPECT_EQ(ask({"holds", "--limit", "0"}), 2);
  answers["DELETE /v1/holds/AbCdEfGhIjKlMnOpQrStUv"] =
      page({{"state", "released"}, {"returned", 4000}});
  EXPECT_EQ(ask({"release", "AbCdEfGhIjKlMnOpQrStUv"}), 0) << err;
  EXPECT_EQ(out, "released: 4000 units went back\n");
  answers["DELETE /v1/holds/AbCdEfGhIjKlMnOpQrStUv?user=ann"] =
      problem(404, "no reservation with that id is held");
  EXPECT_EQ(ask({"release", "AbCdEfGhIjKlMnOpQrStUv", "--user", "ann"}), 1);
  EXPECT_EQ(err, "error: no reservation with that id is held\n");
  EXPECT_EQ(ask({"release"}), 2);
  EXPECT_EQ(ask({"release", "one", "two"}), 2);
  Json place = hold;
  place["kind"] = "place", place["n"] = 2;
  answers["GET /v1/holds?limit=100&kind=place"] = page({{"total", 1}, {"holds", {place}}});
  EXPECT_EQ(ask({"holds", "--kind", "place"}), 0) << err;
  EXPECT_TRUE(said(out, "  2 places of native:tokens:acme:tenant\n")) << out;
  EXPECT_EQ(ask({"holds", "--kind", "seat"}), 2);
  EXPECT_EQ(ask({"holds", "--limit", "1001"}), 2);
}

TEST_F(AdminCommands, HoldsAreRenewed) {
  answers["PUT /v1/holds/AbCdEfGhIjKlMnOpQrStUv"] = page({{"expires_in", 59.5}});
  EXPECT_EQ(ask({"renew", "AbCdEfGhIjKlMnOpQrStUv"}), 0) << err;
  EXPECT_EQ(out, "renewed: ends in 59s500ms\n");
  EXPECT_EQ(Json::parse(server.requests().back().body), Json::object());
  answers["PUT /v1/holds/AbCdEfGhIjKlMnOpQrStUv?user=ann"] = page({{"expires_in", 90.25}});
  EXPECT_EQ(ask({"renew", "AbCdEfGhIjKlMnOpQrStUv", "90250ms", "--user", "ann", "--json"}), 0)
      << err;
  EXPECT_EQ(result()["expires_in"], 90.25);
  EXPECT_EQ(Json::parse(server.requests().back().body), (Json{{"ttl", 90.25}}));
  EXPECT_EQ(ask({"renew", "AbCdEfGhIjKlMnOpQrStUw"}), 1);
  for (const Words& wrong :
       {Words{}, {"id", "60"}, {"id", "0s"}, {"id", "-1s"}, {"id", "25h"}, {"id", "1s", "x"}}) {
    Words words{"renew"};
    words.insert(words.end(), wrong.begin(), wrong.end());
    EXPECT_EQ(ask(words), 2) << wrong.size() << err;
  }
}

TEST_F(AdminCommands, MetricsAreRefusedWithWhereTheyAre) {
  for (const Words& words :
       {Words{"metrics"}, {"metrics", "requests_total"}, {"help", "metrics"}}) {
    EXPECT_EQ(command(words), 2);
    EXPECT_EQ(err,
              "error: there is no command `metrics`: ask the server's admin port for them, as "
              "`curl http://127.0.0.1:8380/metrics` does\n");
  }
}

TEST_F(AdminCommands, WatchingIsRefusedWithWhatRepeatsThem) {
  for (const std::string name : {"status", "rules", "counters", "top", "denials"}) {
    for (const Words& more : {Words{"--watch"}, {"--watch", "--every", "1s"}, {"--every=1s"}}) {
      Words words{name};
      words.insert(words.end(), more.begin(), more.end());
      EXPECT_EQ(ask(words), 2);
      EXPECT_TRUE(said(err, "there is no option " + more.front().substr(0, 7))) << err;
      EXPECT_TRUE(said(err, "repeat it, as `watch -n 1 sluice " + name + "` does")) << err;
    }
  }
  EXPECT_EQ(ask({"top", "--once"}), 2);
  EXPECT_TRUE(said(err, "there is no option --once: `sluice top` prints once")) << err;
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(AdminCommands, TopIsOneTable) {
  Json items = Json::array();
  for (const char* who : {"10.0.0.7", "evil\x1b[2J", "third"})
    items.push_back({{"dialect", "divvy"},
                     {"rule", "k=*"},
                     {"counter", "c"},
                     {"path", wire::percent_encoded(who)},
                     {"actor", who},
                     {"allowed", 12},
                     {"denied", 3456},
                     {"error_max", 0}});
  answers["GET /v1/top?by=active&limit=100"] =
      page({{"window_seconds", 300}, {"by", "active"}, {"items", items}, {"tracked_max", 1024}});
  answers["GET /v1/status"] = page(status_answer());
  EXPECT_EQ(ask({"top", "--by", "active", "--limit", "2", "--over", "1ms"}), 0) << err;
  EXPECT_EQ(out, "sluice 0.1.0 at " + server.address() +
                     "\n"
                     "0/s allowed, 0/s denied; 7 counters, policy generation 4\n"
                     "most active of the last 5m\n\n"
                     "WHO          RULE  DENIED/S  ALLOWED/S  DENIED  ALLOWED\n"
                     "10.0.0.7     k=*          0          0   3,456       12\n"
                     "evil\\x1b[2J  k=*          0          0   3,456       12\n");
  EXPECT_EQ(ask({"top", "--by", "active", "--over", "0s", "--json"}), 0) << err;
  EXPECT_EQ(result()["items"].size(), 3u);
  EXPECT_EQ(result()["items"][2]["denied"], 3456);
  EXPECT_FALSE(result()["items"][2].contains("denied_per_second"));
}

}  // namespace
}  // namespace sluice::cli
