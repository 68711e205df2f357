// The commands over the admin port, asked of a server that is made up: what they send, print and
// end with. With the real one: tests/e2e/terminal_test.cc.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "cli/admin_answers_test.h"
#include "cli/commands.h"
#include "cli/json_fields.h"
#include "client/fake_http.h"
#include "client/http_client.h"

namespace sluice::cli {
namespace {

using client::FakeHttp;
using Request = FakeHttp::Request;

class AdminCommands : public testing::Test {
 protected:
  AdminCommands() {
    std::string pattern = testing::TempDir() + "sluice_admin_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~AdminCommands() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // Has the server answer by method and target, with 404 what is not there.
  std::string answer(const Request& request) {
    const auto at = answers.find(request.method + " " + request.target);
    if (at != answers.end()) return at->second;
    if (request.target == "/v1/openapi.json")
      return page({{"paths", {{"/v1/counters/{key}", {}}, {"/v1/overrides/{id}", {}}}}});
    return problem(404, "there is nothing here");
  }

  int command(Words words) {
    std::ostringstream out_stream, err_stream;
    Outside outside{out_stream, err_stream, false, false,
                    [this](const char* name) -> std::optional<std::string> {
                      const auto at = variables.find(name);
                      if (at == variables.end()) return std::nullopt;
                      return at->second;
                    }};
    const int status = run(words, outside);
    out = out_stream.str();
    err = err_stream.str();
    return status;
  }
  // At the server that is made up.
  int ask(Words words) {
    words.insert(words.end(), {"--admin", server.address()});
    return command(words);
  }

  std::string file(const std::string& name, std::string_view text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  bool said(const std::string& text, std::string_view part) const {
    return text.find(part) != std::string::npos;
  }
  Json result() const { return Json::parse(out, nullptr, false); }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::istringstream stream(out);
    for (std::string line; std::getline(stream, line);) all.push_back(line);
    return all;
  }

  std::map<std::string, std::string> answers, variables;
  std::string out, err, folder_;
  FakeHttp server{[this](const Request& request) { return answer(request); }};
};

TEST_F(AdminCommands, AreUsedAsTheirHelpSays) {
  for (const char* name : {"status", "top", "rules", "counters", "reset", "override", "reload"}) {
    EXPECT_EQ(command({name, "--help"}), 0);
    EXPECT_TRUE(said(out, std::string("Usage: sluice ") + name)) << out;
    for (const char* part :
         {"--admin", "--token-file", "SLUICE_ADMIN_TOKEN", "--json", "Example", "Exit status: 0"})
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
  answers["GET /metrics"] = FakeHttp::response(200, metrics, "text/plain; version=0.0.4");
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
      200, std::string(metrics) + "sluice_store_failing 1\nsluice_commits_total 9\n", "text/plain");
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
      "sluice_redis_failures_total{reason=\"silent\"} 5\n",
      "text/plain");
  EXPECT_EQ(ask({"status", "--over", "0s"}), 1);
  EXPECT_TRUE(said(out, ": not ready\n             the server is stopping\n")) << out;
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

  EXPECT_EQ(command({"reload", "--token-file", folder_ + "/none"}), 3);
  EXPECT_TRUE(said(err, "none: error: cannot be read")) << err;
  EXPECT_EQ(command({"reload", "--token-file", file("bad", "a secret with\r\nlines\n")}), 3);
  EXPECT_TRUE(said(err, "is no token")) << err;
  EXPECT_FALSE(said(err, "secret with")) << err;
  EXPECT_EQ(server.requests().size(), 3u);
}

TEST_F(AdminCommands, ReloadSaysWhatBecameOfIt) {
  const Json diagnostic{{"severity", "warning"}, {"file", "r.ini"},       {"line", 3},
                        {"column", 4},           {"subject", "rule [a]"}, {"message", "is odd"},
                        {"remedy", "mend it"}};
  answers["POST /v1/reload"] = page({{"outcome", "live"},
                                     {"generation", 5},
                                     {"hash", "ab"},
                                     {"diagnostics", Json::array({diagnostic})}});
  EXPECT_EQ(ask({"reload"}), 0);
  EXPECT_EQ(out, "live: generation 5, hash ab\n");
  EXPECT_EQ(err, "r.ini:3:4: warning: rule [a]: is odd; mend it\n");
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
            "r.ini:3:4: warning: rule [a]: is odd; mend it\n"
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

  answers["GET /metrics"] = FakeHttp::response(200, metrics, "text/plain");
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
        "text/plain");
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
          {"path", client::percent_encoded(name)},
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
  EXPECT_EQ(err, "there are more; --limit N lists more of them\n");

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

Json override_of(const std::string& id) {
  return {{"id", id},
          {"dialect", "limitd"},
          {"rule", "user"},
          {"actor", {{"tenant", "acme"}, {"api", "*"}}},
          {"limits",
           Json::array(
               {{{"algorithm", "token_bucket"}, {"quota", 5}, {"window", "1s"}, {"burst", 5}}})},
          {"until", "2030-01-01T00:00:00Z"},
          {"comment", "why"},
          {"created", "2026-11-20T10:00:00Z"},
          {"applies", false}};
}

TEST_F(AdminCommands, OverrideSetSendsWhatWasSaid) {
  answers["POST /v1/overrides"] = page(override_of("o-1"), 201);
  const auto sent = [&](Words words) {
    words.insert(words.begin(), {"override", "set"});
    EXPECT_EQ(ask(words), 0) << err;
    return Json::parse(server.requests().back().body);
  };
  EXPECT_EQ(sent({"--rule", "user", "--actor", "alice", "--quota", "10_000", "--window", "1h"}),
            Json({{"rule", "user"},
                  {"actor", "alice"},
                  {"limit", {{"quota", 10'000}, {"window", "1h"}}}}));
  EXPECT_EQ(out,
            "id        o-1\n"
            "rule      user\n"
            "protocol  limitd\n"
            "actor     tenant=acme api=*\n"
            "limits    5 per 1s, token_bucket\n"
            "until     2030-01-01T00:00:00Z\n"
            "created   2026-11-20T10:00:00Z\n"
            "comment   why\n"
            "applies   no: the live policy has no such rule\n");
  EXPECT_EQ(sent({"--rule",      "api",     "--dialect",         "native",    "--actor",
                  "tenant=acme", "--actor", "api=a=b",           "--quota",   "1",
                  "--window",    "1s",      "--burst",           "2k",        "--algorithm",
                  "sliding_log", "--until", "2030-12-01T00:00Z", "--comment", "ticket 4711"}),
            Json({{"dialect", "native"},
                  {"rule", "api"},
                  {"actor", {{"tenant", "acme"}, {"api", "a=b"}}},
                  {"limit",
                   {{"quota", 1}, {"window", "1s"}, {"algorithm", "sliding_log"}, {"burst", 2000}}},
                  {"until", "2030-12-01T00:00:00Z"},
                  {"comment", "ticket 4711"}}));
  EXPECT_EQ(sent({"--rule", "r", "--actor", "a", "--limit", R"({"quota":5,"window":"1s"})",
                  "--limit", R"({"quota":9,"window":"1h"})", "--json"})["limits"],
            Json::parse(R"([{"quota":5,"window":"1s"},{"quota":9,"window":"1h"}])"));
  EXPECT_EQ(result(), override_of("o-1"));
  const Json denied = sent({"--rule", "r", "--actor", "a", "--deny", "--for", "3d"});
  EXPECT_EQ(denied["deny"], true);
  EXPECT_TRUE(denied["until"].get<std::string>().ends_with("Z"));
  EXPECT_EQ(sent({"--rule", "r", "--actor", "a", "--unlimited"})["unlimited"], true);

  answers["POST /v1/overrides"] = problem(
      409, "several rules are called `user`",
      {{"candidates",
        {{{"dialect", "limitd"}, {"rule", "user"}}, {{"dialect", "native"}, {"rule", "user"}}}}});
  EXPECT_EQ(ask({"override", "set", "--rule", "user", "--actor", "a", "--deny", "--json"}), 1);
  EXPECT_EQ(result()["candidates"][1]["dialect"], "native");
  EXPECT_EQ(ask({"override", "set", "--rule", "user", "--actor", "a", "--deny"}), 1);
  EXPECT_EQ(err,
            "error: several rules are called `user`\n"
            "  --dialect limitd --rule 'user'\n  --dialect native --rule 'user'\n");
}

TEST_F(AdminCommands, OverridesAreListedShownAndRemoved) {
  answers["GET /v1/overrides?rule=user&actor=a%20b&limit=2"] =
      page({{"overrides", Json::array({override_of("o-1"), override_of("o-2")})},
            {"total", 9},
            {"next", "o-2"}});
  EXPECT_EQ(ask({"override", "list", "--rule", "user", "--actor", "a b", "--limit", "2"}), 0)
      << err;
  EXPECT_EQ(lines().size(), 3u) << out;
  EXPECT_EQ(
      lines()[1],
      "o-1  user (not live)  tenant=acme api=*  5 per 1s, token_bucket  2030-01-01T00:00:00Z  why");
  EXPECT_EQ(err, "9 in all; --limit N lists more of them\n");
  answers["GET /v1/overrides?limit=100"] = page({{"overrides", Json::array()}, {"total", 0}});
  EXPECT_EQ(ask({"override", "list", "--json"}), 0);
  EXPECT_EQ(result(), Json({{"overrides", Json::array()}, {"total", 0}}));
  answers["GET /v1/overrides/o-1"] = page(override_of("o-1"));
  EXPECT_EQ(ask({"override", "show", "o-1", "--json"}), 0);
  EXPECT_EQ(result()["id"], "o-1");
  answers["DELETE /v1/overrides/o-1"] = page(override_of("o-1"));
  EXPECT_EQ(ask({"override", "remove", "o-1"}), 0);
  EXPECT_EQ(out, "o-1: removed\n");
  EXPECT_EQ(ask({"override", "remove", "o-1", "o-9"}), 1);
  EXPECT_EQ(out, "o-1: removed\n");
  EXPECT_EQ(err, "error: there is nothing here\n");
}

TEST_F(AdminCommands, OverridesAreLoadedFromAFileInParts) {
  std::string text;
  for (int i = 0; i < 2500; ++i)
    text += R"({"rule":"user","actor":")" + std::to_string(i) + R"(","limit":{"quota":1}})" +
            (i % 2 == 0 ? "\n" : "\r\n\n");
  text.pop_back();
  const auto path = file("all.jsonl", text);
  answers["POST /v1/overrides"] = page(Json::object(), 201);
  EXPECT_EQ(ask({"override", "load", path}), 0) << err;
  EXPECT_EQ(out, "2500 overrides loaded\n");
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(Json::parse(requests[0].body).size(), 1000u);
  EXPECT_EQ(Json::parse(requests[2].body).size(), 500u);
  EXPECT_EQ(Json::parse(requests[1].body)[0]["actor"], "1000");

  answers["POST /v1/overrides"] = problem(422, "the 3rd is wrong");
  EXPECT_EQ(ask({"override", "load", path}), 1);
  EXPECT_EQ(err, "error: " + path +
                     ":1-1499: the 3rd is wrong\n0 overrides of the lines before are in\n");
  answers["POST /v1/overrides"] = page(Json::object(), 201);
  const auto bad = file("bad.jsonl", "{}\n\n[1]\n");
  EXPECT_EQ(ask({"override", "load", bad, "--json"}), 1);
  EXPECT_TRUE(said(result()["error"].get<std::string>(), bad + ":3: is no JSON object")) << out;
  EXPECT_EQ(result()["loaded"], 0);
  const auto long_line = file("long.jsonl", "{}\n" + std::string(70'000, ' ') + "\n");
  EXPECT_EQ(ask({"override", "load", long_line}), 1);
  EXPECT_TRUE(said(err, long_line + ":2: is longer than 65536 bytes")) << err;
  EXPECT_EQ(ask({"override", "load", folder_ + "/none"}), 1);
  EXPECT_TRUE(said(err, "cannot be read: No such file")) << err;
  EXPECT_EQ(ask({"override", "load", file("empty.jsonl", "")}), 0);
  EXPECT_EQ(out, "0 overrides loaded\n");
}

TEST_F(AdminCommands, TopIsOneTableWithoutATerminal) {
  Json items = Json::array();
  for (const char* who : {"10.0.0.7", "evil\x1b[2J", "third"})
    items.push_back({{"dialect", "divvy"},
                     {"rule", "k=*"},
                     {"counter", "c"},
                     {"path", client::percent_encoded(who)},
                     {"actor", who},
                     {"allowed", 12},
                     {"denied", 3456},
                     {"error_max", 0}});
  answers["GET /v1/top?by=active&limit=100"] =
      page({{"window_seconds", 300}, {"by", "active"}, {"items", items}, {"tracked_max", 1024}});
  answers["GET /metrics"] = FakeHttp::response(200, metrics, "text/plain");
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
