// The admin port of the real binary. Every answer is checked against the OpenAPI document that it
// serves.
#include <gtest/gtest.h>

#include <cctype>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/described.h"
#include "tests/e2e/policies.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/json_schema.h"

namespace sluice::tests::admin_test {
namespace {

const std::string token = "0123456789-token";
const std::string with_token = "Authorization: Bearer " + token + "\r\n";

struct Served {
  explicit Served(const std::string& policy = hundred_policy,
                  std::map<std::string, std::string> environment = {},
                  const std::string& address = "127.0.0.1:0") {
    file = folder.write("rules.ini", policy);
    environment["PORT"] = "0";
    process = std::make_unique<Process>(Process::Options{
        .arguments = {"divvy", file, "--admin", address}, .environment = std::move(environment)});
    divvy = await_listening(*process);
    admin = await_listening(*process, "admin");
  }
  // Waits until the server is ready.
  void await_ready() const {
    for (const auto limit = soon(); std::chrono::steady_clock::now() < limit;)
      if (http_get(admin, "/health/ready").status == 200) return;
    ADD_FAILURE() << "it does not become ready";
  }

  Folder folder;
  std::string file;
  std::unique_ptr<Process> process;
  uint16_t divvy = 0, admin = 0;
};

TEST(Admin, ServesHealthMetricsAndItsOwnDescription) {
  const Served served;
  served.await_ready();
  EXPECT_EQ(json_of(ask(served.admin, "GET", "/health/live")).at("status"), "live");
  EXPECT_EQ(json_of(ask(served.admin, "GET", "/health/ready")).at("status"), "ready");
  EXPECT_NE(ask(served.admin, "GET", "/metrics").body.find("\nsluice_policy_generation 1\n"),
            std::string::npos);
  EXPECT_EQ(json_of(ask(served.admin, "GET", "/v1/openapi.json")), document());
  const auto head = http(served.admin, "HEAD", "/health/live");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
  EXPECT_NE(head.headers.at("content-length"), "0");
}

TEST(Admin, HasEveryPathThatIsDescribed) {
  const Served served;
  const Json openapi = document();
  for (const auto& [path, methods] : openapi.at("paths").items()) {
    const size_t parameter = path.find('{');
    const std::string target =
        parameter == path.npos ? path : path.substr(0, parameter) + "nothing";
    std::string all;
    for (const auto& [method, described] : methods.items()) {
      std::string verb = method;
      for (char& c : verb) c = static_cast<char>(std::toupper(c));
      const int status = ask(served.admin, verb, target, verb == "GET" ? "" : "x").status;
      EXPECT_NE(status, 405) << verb << " " << path;
      if (parameter == path.npos) {
        EXPECT_NE(status, 404) << verb << " " << path;
      }
      all += (all.empty() ? "" : ", ") + verb;
    }
    const auto other = ask(served.admin, "PATCH", target);
    EXPECT_EQ(other.status, 405);
    const std::string allowed = other.headers.at("allow");
    EXPECT_EQ(allowed.size(), all.size()) << path << ": " << allowed;
    for (const auto& [method, described] : methods.items()) {
      std::string verb = method;
      for (char& c : verb) c = static_cast<char>(std::toupper(c));
      EXPECT_NE(allowed.find(verb), allowed.npos) << path;
    }
  }
}

// Any request may have an ill-formed query, an unknown coding, or a body that is too long.
TEST(Admin, OpenApiListsTheRefusalsOfEveryPath) {
  const Served served;
  const Json openapi = document();
  for (const auto& [path, methods] : openapi.at("paths").items()) {
    for (const auto& [method, described] : methods.items()) {
      std::string verb = method;
      for (char& c : verb) c = static_cast<char>(std::toupper(c));
      const std::string target =
          path.substr(0, path.find('{')) + (path.find('{') == path.npos ? "" : "nothing");
      const std::string what = verb + " " + path;
      EXPECT_EQ(http(served.admin, verb, target + "?x=%zz", {}).status, 400) << what;
      EXPECT_EQ(http(served.admin, verb, target, {}, "Transfer-Encoding: gzip\r\n").status, 501)
          << what;
      EXPECT_EQ(http(served.admin, verb, target, {}, "Content-Length: 16777217\r\n").status, 413)
          << what;
      for (const char* status : {"400", "413", "501"})
        EXPECT_TRUE(described.at("responses").contains(status)) << what << " " << status;
    }
  }
}

TEST(Admin, AnswersErrorsAsProblemDetails) {
  const Served served;
  const Json schema = document().at("components").at("schemas").at("Problem");
  const auto problem = [&](const HttpAnswer& answer, int status) {
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(answer.headers.at("content-type"), "application/problem+json");
    const Json json = json_of(answer);
    EXPECT_EQ(schema_problem(document(), schema, json), "");
    EXPECT_EQ(json.at("status"), status);
  };
  problem(ask(served.admin, "GET", "/v2"), 404);
  problem(ask(served.admin, "GET", "/metrics/"), 404);
  const auto wrong = ask(served.admin, "GET", "/v1/reload");
  problem(wrong, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  problem(ask(served.admin, "GET", "/v1/rules?limit=0"), 400);
  problem(ask(served.admin, "GET", "/v1/rules?limit=1001"), 400);
  problem(ask(served.admin, "GET", "/v1/rules?after=x"), 400);
  problem(ask(served.admin, "POST", "/v1/config/check?as=toml", "x"), 400);
  problem(ask(served.admin, "GET", "/" + std::string(10'000, 'x')), 431);
  problem(ask(served.admin, "POST", "/v1/config/check", {}, "Content-Length: 16777217\r\n"), 413);
  problem(ask(served.admin, "POST", "/v1/config/check", {}, "Transfer-Encoding: gzip\r\n"), 501);
}

TEST(Admin, TakesABodyInChunks) {
  const Served served;
  const auto answer_to = [&](const std::string& fields, const std::string& chunks) {
    auto client = TcpClient::connect(served.admin).value();
    client.send("POST /v1/config/check HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" +
                fields + "\r\n" + chunks);
    return client.read_to_end();
  };
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  const std::string right = answer_to(chunked, "6\r\nrules:\r\n3;x=y\r\n []\r\n0\r\n\r\n");
  EXPECT_TRUE(right.starts_with("HTTP/1.1 200 ")) << right;
  EXPECT_TRUE(answer_to(chunked, "x\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(
      answer_to(chunked + "Content-Length: 5\r\n", "0\r\n\r\n").starts_with("HTTP/1.1 400 "));
}

TEST(Admin, RejectsWebPagesWhenNoTokenIsConfigured) {
  const Served served;
  EXPECT_EQ(ask(served.admin, "POST", "/v1/reload", {}, "Origin: http://evil.example\r\n").status,
            403);
  const auto rebound = [&](const std::string& host) {
    auto client = TcpClient::connect(served.admin);
    client->send("GET /v1/config HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
    return client->read_line().value_or("");
  };
  EXPECT_EQ(rebound("evil.example:8380"), "HTTP/1.1 403 Forbidden\r");
  for (const char* host : {"localhost:1", "127.0.0.1:1", "[::1]:1", "10.0.0.1"})
    EXPECT_EQ(rebound(host), "HTTP/1.1 200 OK\r") << host;
}

TEST(Admin, RequiresTheTokenIfOneIsConfigured) {
  const Served served(hundred_policy, {{"SLUICE_ADMIN_TOKEN", token}}, "0.0.0.0:0");
  EXPECT_EQ(ask(served.admin, "GET", "/health/live").status, 200);
  for (const char* target : {"/metrics", "/v1/config", "/v1/rules", "/v1/openapi.json"}) {
    EXPECT_EQ(ask(served.admin, "GET", target).status, 401) << target;
    EXPECT_EQ(ask(served.admin, "GET", target, {}, with_token).status, 200) << target;
  }
  for (const char* target : {"/v1/reload", "/v1/config/check"})
    EXPECT_EQ(ask(served.admin, "POST", target).status, 401) << target;
  const auto almost = ask(served.admin, "GET", "/v1/config", {},
                          "Authorization: Bearer " + token.substr(1) + "\r\n");
  EXPECT_EQ(almost.status, 401);
  EXPECT_EQ(almost.headers.at("www-authenticate"), "Bearer");
  EXPECT_EQ(ask(served.admin, "GET", "/v2").status, 401);  // it does not show which paths exist
  // A client without the right is refused before its body arrives.
  auto client = TcpClient::connect(served.admin);
  client->send("POST /v1/config/check HTTP/1.1\r\nHost: x\r\nContent-Length: 16000000\r\n\r\n");
  EXPECT_EQ(client->read_line(), "HTTP/1.1 401 Unauthorized\r");
  const std::string settings =
      json_of(ask(served.admin, "GET", "/v1/config", {}, with_token)).at("settings");
  EXPECT_EQ(settings.find(token), std::string::npos);
}

TEST(Admin, RequiresATokenOnAnAddressThatOthersCanReach) {
  const Folder folder;
  const auto finished = run(
      {.arguments = {"divvy", folder.write("rules.ini", hundred_policy), "--admin", "0.0.0.0:0"},
       .environment = {{"PORT", "0"}}});
  EXPECT_EQ(finished.status, 1);
  EXPECT_NE(finished.err.find("and there is no token; set SLUICE_ADMIN_TOKEN_FILE"),
            std::string::npos)
      << finished.err;
}

TEST(Admin, ListsRulesInPagesWithTheirDecisions) {
  const Served served;
  auto client = TcpClient::connect(served.divvy);
  for (int i = 0; i < 103; ++i) client->ask("HIT k=v who=a");
  client->ask("HIT other=1");
  const Json first = json_of(ask(served.admin, "GET", "/v1/rules?limit=1"));
  EXPECT_EQ(first.at("total"), 9);  // including rules that protocols bring
  ASSERT_EQ(first.at("rules").size(), 1u);
  const Json& rule = first.at("rules")[0];
  EXPECT_EQ(rule.at("pattern"), "k=v");
  EXPECT_EQ(rule.at("actor"), Json::array({"who"}));
  EXPECT_EQ(rule.at("decisions").at("allowed"), 100);
  EXPECT_EQ(rule.at("decisions").at("denied"), 3);
  const Json second =
      json_of(ask(served.admin, "GET", "/v1/rules?after=" + first.at("next").get<std::string>()));
  EXPECT_EQ(second.at("rules").size(), 8u);
  EXPECT_EQ(second.at("rules")[0].at("pattern"), "default");
  EXPECT_EQ(second.at("rules")[0].at("decisions").at("allowed"), 1);
  EXPECT_FALSE(second.contains("next"));
}

TEST(Admin, ReloadsAndReportsTheOutcome) {
  const Served served;
  served.await_ready();
  const Json before = json_of(ask(served.admin, "GET", "/v1/config"));
  EXPECT_EQ(before.at("generation"), 1);
  EXPECT_EQ(before.at("files"), Json::array({served.file}));
  EXPECT_EQ(json_of(ask(served.admin, "POST", "/v1/reload")).at("outcome"), "unchanged");

  // Requested at once: the server's own watch of the file may be first, and then the outcome is
  // `unchanged`.
  served.folder.write("rules.ini", "[default]\ncreditLimit = 7\nresetSeconds = 60\n");
  const Json reloaded = json_of(ask(served.admin, "POST", "/v1/reload"));
  EXPECT_EQ(reloaded.at("generation"), 2);
  EXPECT_NE(reloaded.at("hash"), before.at("hash"));
  EXPECT_EQ(TcpClient::connect(served.divvy)->ask("HIT k=v"), "OK true 6 60");
  const Json after = json_of(ask(served.admin, "GET", "/v1/config"));
  EXPECT_EQ(after.at("generation"), 2);
  EXPECT_EQ(after.at("rules"), 1);

  served.folder.write("rules.ini", "[default]\ncreditLimit = x\n");
  const auto refused = ask(served.admin, "POST", "/v1/reload");
  ASSERT_EQ(refused.status, 422);
  EXPECT_EQ(json_of(refused).at("generation"), 2);
  EXPECT_NE(json_of(refused).at("diagnostics").dump().find("creditLimit"), std::string::npos);
  const Json still = json_of(ask(served.admin, "GET", "/v1/config"));
  EXPECT_EQ(still.at("generation"), 2);
  EXPECT_EQ(still.at("last_reading").at("outcome"), "refused");
  const std::string metrics = ask(served.admin, "GET", "/metrics").body;
  EXPECT_NE(metrics.find("\nsluice_policy_stale 1\n"), std::string::npos);
  EXPECT_EQ(metrics.find("\nsluice_policy_refused_timestamp_seconds 0\n"), std::string::npos);
}

TEST(Admin, ChecksACandidateWithoutServingIt) {
  const Served served;
  const auto check = [&](const std::string& as, const std::string& text) {
    const auto answer = ask(served.admin, "POST", "/v1/config/check?as=" + as, text);
    EXPECT_EQ(answer.status, 200);
    return json_of(answer);
  };
  Json said =
      check("divvy-ini",
            "[k=v]\ncreditLimit = 7\nresetSeconds = 600\nactorField = who\n\n"
            "[new=1]\ncreditLimit = 1\nresetSeconds = 1\n\n"
            "[default]\ncreditLimit = 1000000000\nresetSeconds = 600\nactorField = actor\n");
  EXPECT_EQ(said.at("ok"), true);
  const Json& difference = said.at("difference");
  ASSERT_EQ(difference.at("changed").size(), 1u);
  EXPECT_EQ(difference.at("changed")[0].at("before").at("limits")[0].at("quota"), 100);
  EXPECT_EQ(difference.at("changed")[0].at("after").at("limits")[0].at("quota"), 7);
  ASSERT_EQ(difference.at("added").size(), 1u);
  EXPECT_EQ(difference.at("added")[0].at("pattern"), "new=1");
  EXPECT_TRUE(difference.at("removed").empty());
  EXPECT_EQ(difference.at("unchanged"), 1);

  said = check("divvy-ini", "[a=1]\ncreditLimit = 7\n");
  EXPECT_EQ(said.at("ok"), false);
  EXPECT_FALSE(said.at("diagnostics").empty());
  said = check("sluice",
               "rules:\n  - { name: one, match: { a: '*' }, limit: { quota: 1, window: 1s } }\n"
               "  - { name: two, match: { a: b }, limit: { quota: 1, window: 1s } }\n");
  EXPECT_EQ(said.at("ok"), true);
  EXPECT_EQ(said.at("difference").at("removed").size(), 2u);
  EXPECT_NE(said.at("diagnostics").dump().find("two"), std::string::npos) << "never reached";
  EXPECT_EQ(TcpClient::connect(served.divvy)->ask("HIT k=v who=a"), "OK true 99 600");
}

// What the admin port says of a candidate for a Redis Cluster, `sluice check` says of the file.
TEST(Admin, NamesTheRulesOfACandidateThatSettleOverSeveralSlots) {
  const Served served;
  const std::string named = "rule u (line 2), rule t (line 3)";
  const auto check = [&](const std::string& more) {
    const std::string text =
        "rules:\n"
        "  - { name: u, match: { user: '*' }, actor: user, limit: { quota: 5, window: 1m }, then: "
        "continue }\n"
        "  - { name: t, match: { tenant: '*' }, actor: tenant, limit: { quota: 5, window: 1m } }\n"
        "store: { redis: { nodes: ['a:1']" +
        more + " } }\n";
    const Json said = json_of(ask(served.admin, "POST", "/v1/config/check?as=sluice", text));
    const auto offline =
        run({.arguments = {"check", "--json", served.folder.write("candidate.yaml", text)}});
    const Json file = Json::parse(offline.out).at("files")[0];
    for (const char* key : {"ok", "rules", "across_slots"})
      EXPECT_EQ(said.value(key, Json()), file.value(key, Json())) << key << more;
    const Json &here = said.at("diagnostics"), &there = file.at("diagnostics");
    EXPECT_EQ(here.size(), there.size()) << more;
    for (size_t i = 0; i < here.size() && i < there.size(); ++i)
      for (const char* key : {"severity", "line", "subject", "message", "remedy"})
        EXPECT_EQ(here[i].at(key), there[i].at(key)) << more;
    return said;
  };
  const Json settled = check(", cluster: true, across_slots: settle");
  EXPECT_EQ(settled.at("ok"), true);
  EXPECT_EQ(settled.at("across_slots"), Json::array({named}));
  EXPECT_TRUE(settled.at("diagnostics").empty());
  const Json refused = check(", cluster: true");
  EXPECT_EQ(refused.at("ok"), false);
  EXPECT_EQ(refused.at("across_slots"), Json::array({named}));
  EXPECT_EQ(refused.at("diagnostics").size(), 1u);
  const Json single = check("");
  EXPECT_EQ(single.at("ok"), true);
  EXPECT_FALSE(single.contains("across_slots"));
}

TEST(Admin, IsNotReadyWhileItStops) {
  Served served;
  served.await_ready();
  // A client that does not read its replies delays the stop.
  auto client = TcpClient::connect(served.divvy);
  client->limit_receive_buffer(4096);
  std::string many;
  for (int i = 0; i < 500; ++i) many += "HIT k=v who=a\n";
  for (int refused = 0; refused < 50;) {  // until nothing could be sent for half a second
    refused = client->send_some(many) > 0 ? 0 : refused + 1;
    if (refused > 0) std::this_thread::sleep_for(Milliseconds(10));
  }
  served.process->signal(SIGTERM);
  int status = 200;
  for (const auto limit = soon(); status == 200 && std::chrono::steady_clock::now() < limit;)
    status = ask(served.admin, "GET", "/health/ready").status;
  EXPECT_EQ(status, 503);
  EXPECT_EQ(served.process->wait(within(std::chrono::seconds(10))), 0);
}

TEST(Admin, SlowAndManyClientsAreBounded) {
  const Served served;
  std::vector<TcpClient> idle;
  for (int i = 0; i < 80; ++i)
    if (auto client = TcpClient::connect(served.admin)) idle.push_back(*std::move(client));
  // The server keeps 72 connections. For each one more, it closes the one that has been silent
  // longest. When they close, other clients are served.
  int ended = 0;
  for (const auto limit = soon(); ended < 8 && std::chrono::steady_clock::now() < limit;) {
    ended = 0;
    for (auto& client : idle) ended += !client.peek_line(Milliseconds(20)) && client.ended();
  }
  EXPECT_EQ(ended, 8);
  idle.clear();
  int status = 0;
  for (const auto limit = soon(); status != 200 && std::chrono::steady_clock::now() < limit;) {
    auto client = TcpClient::connect(served.admin);
    client->send("GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    const auto line = client->read_line();
    if (line) status = std::stoi(line->substr(9));
  }
  EXPECT_EQ(status, 200);
}

}  // namespace
}  // namespace sluice::tests::admin_test
