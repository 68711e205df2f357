// Overrides over the admin port of the real binary: every answer is checked against
// docs/openapi.json, and every worker decides by a change at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/json_schema.h"
#include "tests/support/limitd_client.h"
#include "tests/support/paths.h"
#include "tests/support/patience.h"
#include "tests/support/process.h"

namespace sluice::tests::overrides_test {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

const std::string path = "/v1/overrides", path_of_one = "/v1/overrides/{id}";

struct Answer {
  int status = 0;
  Json json;
};

// Sends a request, and checks the answer against docs/openapi.json. `described`: the path as
// written there.
Answer ask(uint16_t port, const std::string& method, const std::string& described,
           const std::string& target, const Json& body = {}, const std::string& headers = {}) {
  static const Json openapi = [] {
    std::ifstream file(tests::source_path("docs/openapi.json"));
    return Json::parse(file);
  }();
  const auto answer = http(port, method, target, body.is_null() ? "" : body.dump(), headers);
  std::string verb = method;
  for (char& c : verb) c = static_cast<char>(std::tolower(c));
  const Json& responses = openapi.at("paths").at(described).at(verb).at("responses");
  const std::string status = std::to_string(answer.status);
  const Json json = Json::parse(answer.body, nullptr, false);
  if (!responses.contains(status)) {
    ADD_FAILURE() << method << " " << target << " answers " << status << ": " << answer.body;
    return {answer.status, json};
  }
  const Json& content = resolved_in(openapi, responses.at(status)).at("content");
  const std::string type = answer.headers.at("content-type");
  EXPECT_TRUE(content.contains(type)) << type;
  EXPECT_EQ(schema_problem(openapi, content.at(type).at("schema"), json), "") << answer.body;
  return {answer.status, json};
}

struct Served {
  Served() {
    folder.write("rules.ini",
                 "[ip=* method=GET path=*]\ncreditLimit = 2\nresetSeconds = 600\n"
                 "matchPolicy = canary\n"
                 "[method=GET ip=*]\ncreditLimit = 2\nresetSeconds = 600\nactorField = ip\n"
                 "label = get\n"
                 "[default]\ncreditLimit = 1000000\nresetSeconds = 600\n");
    folder.write("limitd.yaml",
                 "db: { inMemory: true }\nbuckets: { ip: { size: 2 }, \"same\": { size: 2 } }\n");
    file = folder.write(
        "sluice.yaml",
        "listen:\n- { protocol: divvy, address: \"127.0.0.1:0\" }\n"
        "- { protocol: limitd, address: \"127.0.0.1:0\" }\n"
        "- { protocol: admin, address: \"127.0.0.1:0\" }\n"
        "workers: 4\n"
        "policy: [{ divvy: rules.ini }, { limitd: limitd.yaml }]\n"
        "rules:\n"
        "- { name: api, match: { tenant: '*', api: '*' }, actor: [tenant, api], limit: { "
        "quota: 3, window: 1h } }\n"
        "- { name: same, match: { same: '*' }, limit: { quota: 3, window: 1h } }\n"
        "- { match: { user: '*' }, actor: user, limit: { quota: 3, window: 1h } }\n"
        "- { name: soft, match: { soft: '*' }, actor: soft, limit: { quota: 4, window: 1h, "
        "algorithm: fixed_window } }\n"
        "- { name: staff, match: { staff: 's-*' }, actor: staff, limit: { quota: 4, window: 1h } "
        "}\n"
        "- { name: two, match: { two: '*' }, actor: two, limits: [{ quota: 3, window: 1h, "
        "algorithm: fixed_window }, { quota: 20, window: 1d, algorithm: fixed_window }] }\n");
    start();
  }
  void start() {
    process = std::make_unique<Process>(Process::Options{.arguments = {"serve", "--config", file}});
    divvy = await_listening(*process);
    limitd = await_listening(*process, "limitd");
    admin = await_listening(*process, "admin");
  }
  Answer set(const Json& body) const { return ask(admin, "POST", path, path, body); }
  Answer get(const std::string& query = "") const { return ask(admin, "GET", path, path + query); }
  Answer one(const std::string& method, const std::string& id) const {
    return ask(admin, method, path_of_one, path + "/" + id);
  }
  TcpClient client() const { return std::move(*TcpClient::connect(divvy)); }

  Folder folder;
  std::string file;
  std::unique_ptr<Process> process;
  uint16_t divvy = 0, limitd = 0, admin = 0;
};

TEST(Overrides, AreSetListedAndRemoved) {
  const Served s;
  EXPECT_EQ(s.get().json, (Json{{"total", 0}, {"kept", false}, {"overrides", Json::array()}}));
  const Json body = {{"rule", "api"},
                     {"actor", {{"tenant", "acme"}, {"api", "*"}}},
                     {"limit", {{"quota", 10}, {"window", "1m"}}},
                     {"until", "2099-01-01T01:00:00+01:00"},
                     {"comment", "until the launch"}};
  const auto made = s.set(body);
  EXPECT_EQ(made.status, 201);
  const std::string id = made.json.at("id");
  EXPECT_EQ(made.json.at("dialect"), "native");
  EXPECT_EQ(made.json.at("actor"), "acme|*");
  EXPECT_EQ(made.json.at("until"), "2099-01-01T00:00:00Z");
  EXPECT_EQ(made.json.at("limits"), (Json::array({{{"algorithm", "token_bucket"},
                                                   {"quota", 10},
                                                   {"window", "1m"},
                                                   {"window_ms", 60'000.0},
                                                   {"burst", 10}}})));
  EXPECT_TRUE(made.json.at("applies"));
  EXPECT_FALSE(made.json.at("kept"));
  auto client = s.client();
  EXPECT_EQ(client.ask("HIT tenant=acme api=v1"), "OK true 9 6");
  EXPECT_EQ(client.ask("HIT tenant=other api=v1"), "OK true 2 1200");

  // The fields of an answer can be sent back. The same rule and actor are the same override.
  Json again = {{"dialect", "native"}, {"rule", "api"}, {"actor", "acme|*"}};
  again["limits"] = made.json.at("limits");
  again["limits"][0]["quota"] = 20;
  again["limits"][0]["burst"] = 20;
  const auto replaced = s.set(again);
  EXPECT_EQ(replaced.status, 200);
  EXPECT_EQ(replaced.json.at("id"), id);
  EXPECT_FALSE(replaced.json.contains("until"));
  EXPECT_EQ(client.ask("HIT tenant=acme api=v1"), "OK true 18 6");

  EXPECT_EQ(s.get().json.at("total"), 1);
  Json listed = s.get("?rule=api&actor=acme%7C*").json.at("overrides").at(0);
  EXPECT_EQ(listed, s.one("GET", id).json);
  EXPECT_EQ(s.get("?rule=other").json.at("total"), 0);
  EXPECT_EQ(s.get("?limit=0").status, 400);
  EXPECT_EQ(s.get("?after=x").status, 400);
  EXPECT_EQ(sample(s.admin, "sluice_overrides"), "1");
  EXPECT_EQ(s.one("DELETE", id).status, 200);
  EXPECT_EQ(s.one("DELETE", id).status, 404);
  EXPECT_EQ(s.one("GET", "x").status, 404);
  // Two of the rule's three units were used, less those that returned at the override's rate.
  EXPECT_EQ(client.ask("HIT tenant=acme api=v1").substr(0, 11), "OK true 0 3");
}

TEST(Overrides, AreOfEveryDialect) {
  const Served s;
  auto client = s.client();
  const Json window = {{"quota", 5}, {"window", "100s"}, {"algorithm", "fixed_window"}};
  const auto get = s.set({{"rule", "get"}, {"actor", "10.0.0.*"}, {"limit", window}});
  EXPECT_EQ(get.status, 201);
  EXPECT_EQ(get.json.at("rule"), "method=GET ip=*");  // by its label
  EXPECT_EQ(client.ask("HIT method=GET ip=10.0.0.7"), "OK true 4 100");
  EXPECT_EQ(client.ask("HIT method=GET ip=10.0.1.7"), "OK true 1 600");
  // A rule's only possible algorithm may be left out.
  const Json unsaid = {{"quota", 6}, {"window", "1m"}};
  const auto plain = s.set({{"rule", "get"}, {"actor", "10.0.2.7"}, {"limit", unsaid}});
  EXPECT_EQ(plain.status, 201) << plain.json;
  EXPECT_EQ(plain.json.at("limits")[0].at("algorithm"), "fixed_window");
  EXPECT_EQ(client.ask("HIT method=GET ip=10.0.2.7"), "OK true 5 60");
  const auto listed =
      s.set({{"rule", "get"}, {"actor", "10.0.2.8"}, {"limits", Json::array({unsaid})}});
  EXPECT_EQ(listed.status, 201) << listed.json;
  EXPECT_EQ(s.set({{"rule", "ip=* method=GET path=*"}, {"limit", window}}).json.at("rule"),
            "ip=* method=GET path=* (canary)");
  EXPECT_EQ(s.set({{"rule", "default"}, {"actor", ""}, {"limit", window}}).status, 201);
  EXPECT_EQ(client.ask("HIT x=y"), "OK true 4 100");
  EXPECT_EQ(
      s.set({{"rule", "ip"}, {"actor", "vip"}, {"limit", {{"quota", 9}, {"window", "1d"}}}}).status,
      201);
  LimitdClient limitd(std::move(*TcpClient::connect(s.limitd)));
  EXPECT_EQ(limitd.take("ip", "vip").remaining, 8);
  EXPECT_EQ(limitd.take("ip", "x").remaining, 1);
  EXPECT_EQ(s.set({{"rule", "user=*"}, {"actor", "bad"}, {"deny", true}}).status, 201);
  EXPECT_EQ(client.ask("HIT user=bad").substr(0, 8), "OK false");
  EXPECT_EQ(client.ask("HIT user=good").substr(0, 7), "OK true");
}

// A higher quota changes neither the algorithm nor the used units.
TEST(Overrides, HaveTheirRulesAlgorithmUnlessTheySayOther) {
  const Served s;
  auto client = s.client();
  client.ask("HIT soft=q");
  EXPECT_EQ(client.ask("HIT soft=q"), "OK true 2 3600");
  Json body = {{"rule", "soft"}, {"actor", "q"}, {"limit", {{"quota", 10}, {"window", "1h"}}}};
  EXPECT_EQ(s.set(body).json.at("limits")[0].at("algorithm"), "fixed_window");
  EXPECT_EQ(client.ask("HIT soft=q"), "OK true 7 3600");
  body["limit"]["burst"] = 20;
  EXPECT_EQ(s.set(body).json.at("limits")[0].at("algorithm"), "token_bucket");
  body["limit"] = {{"quota", 10}, {"window", "1h"}, {"algorithm", "sliding_log"}};
  EXPECT_EQ(s.set(body).json.at("limits")[0].at("algorithm"), "sliding_log");
}

// Of a rule with several limits, an override replaces the one with its window, and the used units
// of all are kept.
TEST(Overrides, ReplaceTheLimitOfTheirWindow) {
  const Served s;
  auto client = s.client();
  client.ask("HIT two=a");
  EXPECT_EQ(client.ask("HIT two=a").substr(0, 9), "OK true 1");
  Json body = {{"rule", "two"}, {"actor", "a"}, {"limit", {{"quota", 50}, {"window", "1h"}}}};
  const auto one = s.set(body);
  ASSERT_EQ(one.status, 201) << one.json;
  EXPECT_FALSE(one.json.at("all_limits"));
  ASSERT_EQ(one.json.at("limits").size(), 2u);
  EXPECT_EQ(one.json.at("limits")[0].at("quota"), 50);
  EXPECT_EQ(one.json.at("limits")[0].at("algorithm"), "fixed_window");
  EXPECT_TRUE(one.json.at("limits")[1].at("of_rule"));
  EXPECT_EQ(client.ask("HIT two=a").substr(0, 10), "OK true 17");  // 3 of the day's 20 are used
  const Json asked = {{"protocol", "divvy"}, {"descriptor", {{"two", "a"}}}};
  const auto explained = ask(s.admin, "POST", "/v1/explain", "/v1/explain", asked);
  ASSERT_EQ(explained.status, 200) << explained.json;
  for (const Json& rule : explained.json.at("rules")) {
    if (rule.at("rule") != "two") continue;
    EXPECT_EQ(rule.at("override"), one.json.at("id"));
    EXPECT_FALSE(rule.at("decisions")[0].contains("of_rule"));
    EXPECT_TRUE(rule.at("decisions")[1].at("of_rule"));
  }
  // A refusal of a window that the rule does not have shows two ways out.
  body["limit"]["window"] = "1m";
  const auto refused = s.set(body);
  EXPECT_EQ(refused.status, 422);
  EXPECT_EQ(refused.json.at("field"), "limit.window");
  const std::string why = refused.json.at("detail");
  EXPECT_NE(why.find("1h and 1d"), std::string::npos) << why;
  EXPECT_NE(why.find("--all-limits"), std::string::npos) << why;
  body["all_limits"] = true;
  const auto all = s.set(body);
  EXPECT_EQ(all.status, 200) << all.json;
  EXPECT_TRUE(all.json.at("all_limits"));
  EXPECT_EQ(all.json.at("limits").size(), 1u);
  EXPECT_EQ(client.ask("HIT two=a").substr(0, 10), "OK true 46");  // used units stay used
}

TEST(Overrides, ReportErrorsWithTheirPlace) {
  const Served s;
  const Json good = {{"quota", 5}, {"window", "100s"}};
  const Json bucket = {{"quota", 5}, {"window", "1m"}, {"algorithm", "token_bucket"}};
  const auto refused = [&](const Json& body, int status, const std::string& field) {
    const auto answer = s.set(body);
    EXPECT_EQ(answer.status, status) << body;
    EXPECT_EQ(answer.json.value("field", ""), field) << answer.json;
    return answer.json;
  };
  refused(Json("x"), 422, "");
  refused(Json::array(), 422, "");
  refused(Json::array({{{"rule", "api"}}, 3}), 422, "[0].actor");
  refused({{"actor", "x"}, {"limit", good}}, 422, "rule");
  refused({{"rule", "nobody"}, {"limit", good}}, 422, "rule");
  refused({{"rule", "ip"}, {"dialect", "nosuch"}, {"limit", good}}, 422, "dialect");
  refused({{"rule", "ip"}, {"dialect", "native"}, {"limit", good}}, 422, "rule");
  EXPECT_EQ(refused({{"rule", "same"}, {"limit", good}}, 409, "rule").at("candidates").size(), 2u);
  refused({{"rule", "ip"}, {"limit", good}}, 422, "actor");
  refused({{"rule", "ip"}, {"actor", 7}, {"limit", good}}, 422, "actor");
  refused({{"rule", "ip"}, {"actor", {{"ip", "1"}}}, {"limit", good}}, 422, "actor.ip");
  refused({{"rule", "api"}, {"actor", {{"api", "1"}}}, {"limit", good}}, 422, "actor.tenant");
  refused({{"rule", "api"}, {"actor", "a|b|c"}, {"limit", good}}, 422, "actor");
  refused({{"rule", "ip"}, {"actor", std::string(5000, 'x')}, {"limit", good}}, 422, "actor");
  refused({{"rule", "default"}, {"actor", "x"}, {"limit", good}}, 422, "actor");
  const auto with = [&](const Json& more) {
    Json body = {{"rule", "ip"}, {"actor", "x"}};
    body.update(more);
    return body;
  };
  refused(with({{"untill", "x"}}), 422, "untill");
  refused(with(Json::object()), 422, "limit");
  refused(with({{"limit", good}, {"deny", true}}), 422, "limits");
  refused(with({{"deny", false}}), 422, "deny");
  refused(with({{"limit", 5}}), 422, "limit");
  refused(with({{"limit", {{"quota", 0}, {"window", "1s"}}}}), 422, "limit.quota");
  refused(with({{"limit", {{"quota", 5}}}}), 422, "limit");
  refused(with({{"limit", {{"quota", 5}, {"window", 60}}}}), 422, "limit.window");
  refused(with({{"limits", Json::array({good, {{"quota", "x"}, {"window", "1s"}}})}}), 422,
          "limits[1].quota");
  refused(with({{"limits", Json::array({good, {{"algorithm", "deny"}}})}}), 422, "limits");
  refused(with({{"limits", Json(9, good)}}), 422, "limits");
  refused(with({{"limit", good}, {"until", "Friday"}}), 422, "until");
  refused(with({{"limit", good}, {"until", "2020-01-01T00:00:00Z"}}), 422, "until");
  refused(with({{"limit", good}, {"comment", std::string(2000, 'x')}}), 422, "comment");
  // A counter of Divvy can only have limits of Divvy's kind.
  for (const Json& limit :
       {bucket, Json{{"quota", 1}, {"window", "1500ms"}, {"algorithm", "fixed_window"}}})
    refused({{"rule", "get"}, {"actor", "x"}, {"limit", limit}}, 422, "limit");
  EXPECT_EQ(http(s.admin, "POST", path, "{").status, 400);
  EXPECT_EQ(s.get().json.at("total"), 0);
}

TEST(Overrides, AreRefusedWhereTheRulesMatchKeepsThemOut) {
  const Served s;
  const auto set = [&](const std::string& actor) {
    return run({.arguments = {"override", "set", "--admin", "127.0.0.1:" + std::to_string(s.admin),
                              "--rule", "staff", "--actor", actor, "--deny"}});
  };
  const Finished refused = set("bob");
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("`bob` never fits `s-*`, which the rule's match wants of `staff`, so "
                             "it would never hold; write a value that fits, or name another rule"),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(set("b*").status, 1);
  EXPECT_EQ(s.get().json.at("total"), 0);
  EXPECT_EQ(set("s-*").status, 0);
}

TEST(Overrides, AThousandAreSetAllOrNothing) {
  const Served s;
  Json all = Json::array();
  for (int i = 0; i < 1000; ++i)
    all.push_back({{"rule", "ip"},
                   {"actor", "k" + std::to_string(i)},
                   {"limit", {{"quota", 9}, {"window", "1d"}}}});
  Json broken = all;
  broken[999]["limit"]["window"] = "soon";
  const auto refused = s.set(broken);
  EXPECT_EQ(refused.status, 422);
  EXPECT_EQ(refused.json.at("field"), "[999].limit.window");
  EXPECT_EQ(s.get().json.at("total"), 0);
  const auto made = s.set(all);
  EXPECT_EQ(made.status, 201);
  EXPECT_EQ(made.json.at("overrides").size(), 1000u);
  EXPECT_EQ(s.set(all).status, 200);
  all.push_back(all[0]);
  EXPECT_EQ(s.set(all).status, 422);
  size_t seen = 0;
  for (std::string after; seen < 1000;) {
    const auto page = s.get("?limit=400" + (after.empty() ? "" : "&after=" + after)).json;
    seen += page.at("overrides").size();
    if (!page.contains("next")) break;
    after = page.at("next");
  }
  EXPECT_EQ(seen, 1000u);
  LimitdClient limitd(std::move(*TcpClient::connect(s.limitd)));
  EXPECT_EQ(limitd.take("ip", "k999").remaining, 8);
}

// Every worker decides by a change over the admin port 100 ms after the request is sent at the
// latest.
TEST(Overrides, AreLiveOnAllWorkersAtOnce) {
  const Served s;
  std::vector<TcpClient> clients;  // the worker with fewest gets the next: each has two
  for (int i = 0; i < 8; ++i) clients.push_back(s.client());
  const auto limit_seen = [](const std::string& reply) {
    // LEFT of "OK true LEFT SECONDS".
    return std::stol(reply.substr(reply.find(' ', 3) + 1));
  };
  Clock::duration longest{};
  for (int quota = 100; quota < 120; ++quota) {
    const std::string hit = "HIT user=u" + std::to_string(quota);
    for (auto& client : clients) EXPECT_LE(limit_seen(client.ask(hit)), 3);
    const auto began = Clock::now();
    EXPECT_EQ(s.set({{"rule", "user=*"},
                     {"actor", "u" + std::to_string(quota)},
                     {"limit", {{"quota", quota}, {"window", "1h"}}}})
                  .status,
              201);
    for (auto& client : clients) EXPECT_GE(limit_seen(client.ask(hit)), 3) << quota;
    longest = std::max(longest, Clock::now() - began);
  }
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(longest).count();
  std::printf("from the request to the last worker's decision: %d us at most\n",
              static_cast<int>(us));
  EXPECT_LT(longest, promised(std::chrono::milliseconds(100)));
}

TEST(Overrides, WakeWaitingRequests) {
  const Served s;
  LimitdClient client(std::move(*TcpClient::connect(s.limitd)));
  EXPECT_EQ(client.take("ip", "w", 2).remaining, 0);
  const auto first = client.send({LimitdMethod::wait, "ip", "w", 1});
  const auto second = client.send({LimitdMethod::wait, "ip", "w", 2});
  ASSERT_TRUE(client.ask({LimitdMethod::ping, "", ""}).kind == "pong");
  EXPECT_EQ(sample(s.admin, "sluice_waiting_requests"), "2");
  const auto began = Clock::now();
  const auto made = s.set({{"rule", "ip"}, {"actor", "w"}, {"unlimited", true}});
  for (const auto& id : {first, second}) {
    const auto reply = client.await(id);
    ASSERT_TRUE(reply);
    EXPECT_TRUE(reply->conformant);
    EXPECT_TRUE(reply->delayed);
  }
  EXPECT_LT(Clock::now() - began, promised(std::chrono::milliseconds(1000)));
  EXPECT_EQ(s.one("DELETE", made.json.at("id")).status, 200);
  EXPECT_FALSE(client.take("ip", "w").conformant);  // units that were used before stay used
}

TEST(Overrides, ExpireAtTheirTimeAndSurviveAReload) {
  Served s;
  auto client = s.client();
  const auto now = std::chrono::system_clock::now();
  const auto at = std::chrono::system_clock::to_time_t(now + std::chrono::seconds(2));
  char until[32];
  std::tm parts{};
  ::gmtime_r(&at, &parts);
  std::strftime(until, sizeof until, "%Y-%m-%dT%H:%M:%SZ", &parts);
  const Json limit = {{"quota", 9}, {"window", "1h"}};
  EXPECT_EQ(s.set({{"rule", "user=*"}, {"actor", "u"}, {"limit", limit}, {"until", until}}).status,
            201);
  EXPECT_EQ(s.set({{"rule", "user=*"}, {"actor", "v"}, {"limit", limit}}).status, 201);
  EXPECT_EQ(client.ask("HIT user=u").substr(0, 9), "OK true 8");
  EXPECT_EQ(http(s.admin, "POST", "/v1/reload").status, 200);
  EXPECT_EQ(client.ask("HIT user=v").substr(0, 9), "OK true 8");
  for (const auto deadline = soon(); s.get().json.at("total") != 1;)
    ASSERT_LT(Clock::now(), deadline);
  EXPECT_EQ(client.ask("HIT user=u").substr(0, 9), "OK true 1");
  EXPECT_EQ(client.ask("HIT user=v").substr(0, 9), "OK true 7");
}

}  // namespace
}  // namespace sluice::tests::overrides_test
