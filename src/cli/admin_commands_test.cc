// The commands over the admin port, asked of a server that is made up: what they send, print and
// end with. With the real one: tests/e2e/terminal_test.cc; `override`: override_command_test.cc.
#include "cli/admin_commands_test.h"

#include <gtest/gtest.h>

#include <chrono>

#include "client/http_client.h"

namespace sluice::cli {
namespace {

TEST_F(AdminCommands, AreUsedAsTheirHelpSays) {
  for (const char* name : {"status", "top", "rules", "counters", "reset", "override", "reload"}) {
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
  const Words wrong[] = {{"status", "word"},
                         {"status", "--over", "2m"},
                         {"status", "--admin", "::1:80"},
                         {"status", "--admin", "off"},
                         {"status", "--timeout", "0"},
                         {"top", "--by", "name"},
                         {"top", "--limit", "0"},
                         {"top", "--limit", "1001"},
                         {"top", "--every", "1ms"},
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
                         {"override", "load"},
                         {"override", "show", ""},
                         {"override", "show", "o-1", "--rule", "r"},
                         {"override", "remove", "o-1", "--actor", "a"},
                         {"override", "load", "file", "--deny"},
                         {"override", "list", "--quota", "5"},
                         {"override", "list", "--actor", "a", "--actor", "b"},
                         {"override", "set"},
                         {"override", "set", "--rule", "r"}};
  // Behind `override set --rule r`.
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

TEST_F(AdminCommands, StatusSaysWhatThereIs) {
  answers["GET /health/ready"] = page({{"status", "ready"}});
  answers["GET /v1/config"] = page(config());
  answers["GET /metrics"] = FakeHttp::response(200, metrics, metrics_type);
  EXPECT_EQ(ask({"status", "--over", "0s"}), 0) << err;
  auto shown = lines();
  ASSERT_EQ(shown.size(), 9u) << out;
  EXPECT_TRUE(shown[1].starts_with("up           ")) << out;
  shown.erase(shown.begin() + 1);
  const std::vector<std::string> expected{
      "server       sluice 0.1.0 at " + server.address() + ": ready",
      "policy       generation 4, live since 2026-11-20T10:00:00Z, 2 rules, hash 0123456789abcdef",
      "             /etc/rules.ini",
      "requests     12,345 allowed, 6 denied since the start",
      "connections  3 divvy",
      "counters     7 in 1.5GiB of 2GiB",
      "waiting      2",
      "store        memory alone: a restart forgets"};
  EXPECT_EQ(shown, expected);
  // What is up for 100.7 s is not up for 101.
  const auto clock = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const double started = clock() - 100.7;
  answers["GET /metrics"] = FakeHttp::response(
      200, "process_start_time_seconds " + std::to_string(started) + "\n", metrics_type);
  EXPECT_EQ(ask({"status", "--over", "0s", "--json"}), 0) << err;
  EXPECT_GE(result()["up_seconds"], 100);
  EXPECT_LE(result()["up_seconds"].get<double>(), clock() - started);
  answers["GET /metrics"] = FakeHttp::response(200, metrics, metrics_type);

  EXPECT_EQ(ask({"status", "--over", "1ms"}), 0) << err;
  EXPECT_TRUE(said(out, "requests     0/s allowed, 0/s denied\n")) << out;

  EXPECT_EQ(ask({"status", "--over", "1ms", "--json"}), 0) << err;
  const Json json = result();
  EXPECT_EQ(json["ready"], true);
  EXPECT_EQ(json["policy"]["generation"], 4);
  EXPECT_EQ(json["policy"]["stale"], false);
  EXPECT_EQ(json["requests"]["total"]["denied"], 6);
  EXPECT_EQ(json["requests"]["per_second"]["denied"], 0.0);
  EXPECT_EQ(json["connections"]["divvy"], 3);
  EXPECT_EQ(json["store"], Json({{"kind", "memory"}}));
}

TEST_F(AdminCommands, StatusEndsWithOneWhenSomethingIsAmiss) {
  answers["GET /health/ready"] = page({{"status", "ready"}});
  Json refused = config();
  refused["last_reading"] = {{"outcome", "refused"},
                             {"at", "2026-11-20T11:00:00Z"},
                             {"diagnostics",
                              {{{"severity", "error"},
                                {"file", "/etc/rules.ini"},
                                {"line", 3},
                                {"column", 1},
                                {"subject", ""},
                                {"message", "is \x1b[2Jwrong"},
                                {"remedy", ""}}}}};
  refused["settings"] =
      "store:\n  memory: 1GiB   # default\n  path: \"/data\"  # --data\n  durability: always  # "
      "x\n";
  answers["GET /v1/config"] = page(refused);
  answers["GET /metrics"] = FakeHttp::response(
      200, std::string(metrics) + "sluice_store_failing 1\nsluice_commits_total 9\n", metrics_type);
  EXPECT_EQ(ask({"status", "--over", "0s"}), 1);
  EXPECT_TRUE(said(out, "a newer one was refused at 2026-11-20T11:00:00Z")) << out;
  EXPECT_TRUE(said(out, "/etc/rules.ini:3:1: error: is \\x1b[2Jwrong")) << out;
  EXPECT_TRUE(said(out, "store        disk, durability always, 9 commits; it cannot be written"))
      << out;

  answers["GET /v1/config"] = page(config());
  answers["GET /health/ready"] =
      problem(503, "not ready: the server is stopping", {{"reasons", {"the server is stopping"}}});
  answers["GET /metrics"] = FakeHttp::response(
      200,
      "sluice_redis_connections{state=\"up\"} 0\nsluice_redis_connections{state=\"down\"} 2\n"
      "sluice_connections{protocol=\"evil\x1b[2J\"} 1\n"
      "sluice_redis_failures_total{reason=\"silent\"} 5\n",
      metrics_type);
  EXPECT_EQ(ask({"status", "--over", "0s"}), 1);
  EXPECT_TRUE(said(out, ": not ready\n             the server is stopping\n")) << out;
  EXPECT_TRUE(said(out, "connections  1 evil\\x1b[2J\n")) << out;
  EXPECT_TRUE(said(out, "counters     in Redis; here, for when it cannot be asked: 0 in 0B\n"))
      << out;
  EXPECT_TRUE(said(out, "Redis: 2 down connections; failures so far: 5 silent\n")) << out;
  EXPECT_EQ(ask({"status", "--over", "0s", "--json"}), 1);
  EXPECT_EQ(result()["reasons"][0], "the server is stopping");
  EXPECT_EQ(result()["store"]["failures"]["silent"], 5);
}

TEST_F(AdminCommands, SayWhyNobodyCouldBeAsked) {
  answers["GET /health/ready"] = page({{"status", "ready"}});
  answers["GET /v1/config"] = problem(401, "this needs the admin token");
  EXPECT_EQ(ask({"status"}), 3);
  EXPECT_EQ(err,
            "error: the server wants its admin token; give it by --token-file FILE or "
            "SLUICE_ADMIN_TOKEN\n");
  variables["SLUICE_ADMIN_TOKEN"] = "secret-secret-secret";
  EXPECT_EQ(ask({"status", "--json"}), 3);
  EXPECT_EQ(result()["status"], 401);
  EXPECT_TRUE(said(out, "another admin token")) << out;
  answers["POST /v1/reload"] = problem(403, "no web page");
  EXPECT_EQ(ask({"reload"}), 3);
  EXPECT_EQ(err, "error: no web page\n");
  EXPECT_FALSE(said(out + err, "secret"));

  // An older server, and something else altogether.
  EXPECT_EQ(ask({"top"}), 3);
  EXPECT_EQ(err, "error: the server at " + server.address() +
                     " has no /v1/top; it is older than this command\n");
  answers["GET /v1/rules?limit=1000"] = FakeHttp::response(502, "<html>", "text/html");
  EXPECT_EQ(ask({"rules", "--over", "0s"}), 3);
  EXPECT_TRUE(said(err, "answers GET /v1/rules with 502, and not as sluice's admin port")) << err;
  answers["GET /v1/rules?limit=1000"] = FakeHttp::response(200, "{");
  EXPECT_EQ(ask({"rules", "--over", "0s"}), 3);
  EXPECT_TRUE(said(err, "with JSON that is none")) << err;
  answers["GET /v1/rules?limit=1000"] = FakeHttp::silence;
  EXPECT_EQ(ask({"rules", "--over", "0s", "--timeout", "30"}), 3);
  EXPECT_EQ(err, "error: " + server.address() + ": no reply in time\n");

  EXPECT_EQ(command({"status", "--admin", "127.0.0.1:1"}), 3);
  EXPECT_TRUE(said(err, "cannot connect to 127.0.0.1 port 1: Connection refused; is the server up"))
      << err;
}

// Droplet's port, for one, answers any path so; and another server has JSON of its own.
TEST_F(AdminCommands, TakeNoOtherServersWordForDone) {
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
                               {"override", "remove", "o-1"},
                               {"override", "load", file("one.jsonl", "{\"rule\":\"user\"}\n")}};
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
      EXPECT_TRUE(said(err, "what listens at " + other.address() + " answers ")) << err;
      EXPECT_TRUE(said(err, ", and not as sluice's admin port would\n")) << err;
    }
  }
}

TEST_F(AdminCommands, TakeAddressAndTokenFromTheEnvironmentOrAFile) {
  answers["POST /v1/reload"] = page({{"outcome", "live"}, {"generation", 5}, {"hash", "ab"}});
  variables["SLUICE_ADMIN"] = server.address();
  EXPECT_EQ(command({"reload"}), 0) << err;
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

TEST_F(AdminCommands, ReloadSaysWhatBecameOfIt) {
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
  answers["POST /v1/reload"] = problem(409, "the policy comes from what can be read only once");
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

  answers["GET /metrics"] = FakeHttp::response(200, metrics, metrics_type);
  EXPECT_EQ(ask({"rules", "--over", "1ms", "--json"}), 0);
  EXPECT_EQ(result()["rules"][0]["per_second"]["allowed"], 0.0);
}

TEST_F(AdminCommands, RulesHaveTheRatesOfTheirOwnProtocol) {
  answers["GET /v1/rules?limit=1000"] =
      page({{"rules", Json::array({rule("native", "r", ""), rule("divvy", "r", "")})}});
  // The second look finds more.
  int looks = 0;
  FakeHttp growing([&](const Request& request) {
    if (request.target != "/metrics") return answer(request);
    const std::string count = ++looks == 1 ? "10" : "1000000010";
    return FakeHttp::response(
        200,
        "sluice_decisions_total{protocol=\"divvy\",rule=\"r\",outcome=\"allowed\"} " + count +
            "\nsluice_decisions_total{protocol=\"limitd\",rule=\"r\",outcome=\"shadow_denied\"} " +
            count + "\n",
        metrics_type);
  });
  EXPECT_EQ(command({"rules", "--over", "10ms", "--json", "--admin", growing.address()}), 0) << err;
  const Json native = result()["rules"][0]["per_second"],
             divvy = result()["rules"][1]["per_second"];
  // In ten milliseconds at the least, and in a minute at most.
  EXPECT_GT(native["allowed"].get<double>(), 1e9 / 60);
  EXPECT_LE(native["allowed"].get<double>(), 1e11);
  EXPECT_GT(native["denied"].get<double>(), 1e9 / 60);
  EXPECT_GT(divvy["allowed"].get<double>(), 1e9 / 60);
  EXPECT_EQ(divvy["denied"].get<double>(), 0);
}

Json counter(const std::string& name) {
  return {{"counter", name},
          {"path", calls::percent_encoded(name)},
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
  // It may take the server longer than other answers.
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
  // A path that the server has: so it is about what stands in it.
  EXPECT_EQ(ask({"reset", "nothing"}), 1);
  EXPECT_EQ(err, "error: there is nothing here\n");
}

TEST_F(AdminCommands, TopIsOneTableWithoutATerminal) {
  Json items = Json::array();
  for (const char* who : {"10.0.0.7", "evil\x1b[2J", "third"})
    items.push_back({{"dialect", "divvy"},
                     {"rule", "k=*"},
                     {"counter", "c"},
                     {"path", calls::percent_encoded(who)},
                     {"actor", who},
                     {"allowed", 12},
                     {"denied", 3456},
                     {"error_max", 0}});
  answers["GET /v1/top?by=active&limit=100"] =
      page({{"window_seconds", 300}, {"by", "active"}, {"items", items}, {"tracked_max", 1024}});
  answers["GET /metrics"] = FakeHttp::response(200, metrics, metrics_type);
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
