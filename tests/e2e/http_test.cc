// The real program's answers to requests of the HTTP protocol over HTTP/1.1 and HTTP/2: take, peek,
// put, reset, batch and health. Every answer is checked against docs/openapi-http.json.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "tests/e2e/http_described.h"

namespace sluice::tests::http_e2e {
namespace {

// Runs `body` over both versions, against one server. Each version has its own `actor`, and so its
// own counters.
class HttpAnswers : public testing::Test {
 protected:
  using Ask = std::function<HttpAnswer(const Asked&)>;
  using Body = std::function<void(const Ask& ask, const std::string& actor)>;

  static void for_each_version(const Door& door, const Body& body) {
    for (const HttpVersion version : http_versions) {
      SCOPED_TRACE(name_of(version));
      body([&](const Asked& asked) { return http_e2e::ask(version, door.port(), asked); },
           name_of(version));
    }
  }
};

Json login_from(const std::string& ip, const Json& more = {}) {
  return about({{"method", "POST"}, {"path", "/login"}, {"ip", ip}}, more);
}

const Json bucket_of_three = {{"quota", 3}, {"window", "1h"}};

TEST_F(HttpAnswers, TakeByARuleOfThePolicy) {
  const Door door;
  for_each_version(door, [](const Ask& ask, const std::string& ip) {
    const HttpAnswer first = ask(post("/v1/take", login_from(ip)));
    EXPECT_EQ(first.status, 200);
    EXPECT_EQ(json_body(first), with(decision(true, 5, 4, "login", 0, 3600), {{"generation", 1}}));
    EXPECT_EQ(header_of(first, "content-type"), "application/json");
    EXPECT_EQ(header_of(first, "ratelimit-policy"), "\"login\";q=5;w=3600");
    EXPECT_EQ(header_of(first, "ratelimit"), "\"login\";r=4;t=3600");
    EXPECT_EQ(header_of(first, "retry-after"), "(none)");

    const HttpAnswer denied = ask(post("/v1/take", login_from(ip, {{"n", 5}})));
    EXPECT_EQ(denied.status, 429);
    EXPECT_EQ(header_of(denied, "content-type"), "application/problem+json");
    Json expected = with(decision(false, 5, 4, "login", true), {{"generation", 1}});
    expected["type"] = "https://iana.org/assignments/http-problem-types#quota-exceeded";
    expected["title"] = "Quota exceeded";
    expected["status"] = 429;
    expected["violated-policies"] = {"login"};
    EXPECT_EQ(settled(json_body(denied)), expected);
    const int retry_after = std::stoi(header_of(denied, "retry-after"));
    EXPECT_GE(retry_after, 3000);
    EXPECT_LE(retry_after, 3600);

    EXPECT_EQ(ask(post("/v1/take", login_from(ip, {{"n", 4}}))).status, 200)
        << "nothing was charged";
  });
}

TEST_F(HttpAnswers, ADenialIs200IfTheQueryAsksForIt) {
  const Door door;
  for_each_version(door, [](const Ask& ask, const std::string& ip) {
    const HttpAnswer denied = ask(post("/v1/take?status=200", login_from(ip, {{"n", 6}})));
    EXPECT_EQ(denied.status, 200);
    EXPECT_EQ(header_of(denied, "content-type"), "application/json");
    EXPECT_EQ(settled(json_body(denied)),
              with(decision(false, 5, 5, "login", nullptr, 0), {{"generation", 1}}));
  });
}

TEST_F(HttpAnswers, ADenialIsPlainJsonIfTheClientAcceptsOnlyThat) {
  const Door door;
  for_each_version(door, [](const Ask& ask, const std::string& ip) {
    const HttpAnswer denied =
        ask(post("/v1/take", login_from(ip, {{"n", 6}}), {{"Accept", "application/json"}}));
    EXPECT_EQ(denied.status, 429);
    EXPECT_EQ(header_of(denied, "content-type"), "application/json");
    EXPECT_EQ(settled(json_body(denied)),
              with(decision(false, 5, 5, "login", nullptr, 0), {{"generation", 1}}));
    const HttpAnswer wrong =
        ask(post_text("/v1/take", "{}", {{"Accept", "text/html, application/json;q=0.5"}}));
    EXPECT_EQ(wrong.status, 400);
    EXPECT_EQ(header_of(wrong, "content-type"), "application/json");
    EXPECT_EQ(json_body(wrong).value("pointer", "(none)"), "");
  });
}

TEST_F(HttpAnswers, ATakeOfZeroUnitsIsAPeek) {
  const Door door;
  for_each_version(door, [](const Ask& ask, const std::string& ip) {
    for (int i = 0; i < 3; ++i) {
      const HttpAnswer answer = ask(post("/v1/take", login_from(ip, {{"n", 0}})));
      EXPECT_EQ(answer.status, 200);
      EXPECT_EQ(json_body(answer).value("remaining", -1), 5);
    }
  });
}

TEST_F(HttpAnswers, EntriesMayBeNumbersAndBooleans) {
  const Door door("{}",
                  "rules:\n  - { name: r, match: { port: \"80\", tls: \"true\", size: \"1.50\" }, "
                  "limit: { quota: 9, window: 1h } }\n");
  for_each_version(door, [](const Ask& ask, const std::string&) {
    const HttpAnswer answer =
        ask(post_text("/v1/take", R"({"entries": {"port": 80, "tls": true, "size": 1.50}})"));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(json_body(answer).value("rule", ""), "r");
  });
}

TEST_F(HttpAnswers, TakeByInlineLimits) {
  const Door door;
  for_each_version(door, [](const Ask& ask, const std::string& key) {
    const Json limits =
        Json::array({{{"name", "burst"}, {"quota", 100}, {"window", "1m"}, {"burst", 200}},
                     {{"quota", "1k"}, {"window", 86400}, {"algorithm", "sliding_window"}}});
    const HttpAnswer answer = ask(post("/v1/take", about_key(key, limits, {{"n", 3}})));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(settled(json_body(answer)),
              with(decision(true, 200, 197, "burst"), {{"generation", 1}}));
    EXPECT_EQ(header_of(answer, "ratelimit-policy"),
              "\"burst\";q=100;w=60;sluice-burst=200, \"2\";q=1000;w=86400");
    EXPECT_EQ(header_of(answer, "ratelimit"), "\"burst\";r=197;t=1");
    const HttpAnswer alone =
        ask(post("/v1/take", about_key(key + "2", Json::array({bucket_of_three}), {{"n", 4}})));
    EXPECT_EQ(alone.status, 429);
    EXPECT_EQ(json_body(alone).value("rule", ""), "default");
    EXPECT_TRUE(json_body(alone).at("retry_after").is_null()) << "more than it ever allows";
    EXPECT_EQ(header_of(alone, "retry-after"), "(none)");
  });
}

TEST_F(HttpAnswers, DetailListsEveryLimit) {
  const Door door;
  for_each_version(door, [](const Ask& ask, const std::string& tenant) {
    const HttpAnswer answer =
        ask(post("/v1/take", about({{"tenant", tenant}}, {{"n", 4}, {"detail", true}})));
    EXPECT_EQ(answer.status, 200);
    const Json told = json_body(answer);
    ASSERT_EQ(told.at("limits").size(), 2u) << told;
    EXPECT_EQ(told.at("limits")[0], Json({{"name", "pair"},
                                          {"allowed", true},
                                          {"limit", 10},
                                          {"remaining", 6},
                                          {"retry_after", 0},
                                          {"reset_after", 3600},
                                          {"algorithm", "fixed_window"},
                                          {"quota", 10},
                                          {"window", 3600}}));
    EXPECT_EQ(told.at("limits")[1].at("name"), "pair-2");
    EXPECT_EQ(told.at("limits")[1].at("remaining"), 96);
    EXPECT_EQ(header_of(answer, "ratelimit-policy"),
              "\"pair\";q=10;w=3600, \"pair-2\";q=100;w=86400");
  });
}

TEST_F(HttpAnswers, SeveralTakesAreChargedAllOrNone) {
  const Door door;
  for_each_version(door, [](const Ask& ask, const std::string& actor) {
    const Json jar = about({{"jar", actor}}), tenant = about({{"tenant", actor}});
    const HttpAnswer both = ask(post("/v1/take", takes({jar, tenant})));
    EXPECT_EQ(both.status, 200);
    EXPECT_EQ(
        settled(json_body(both)),
        Json({{"allowed", true},
              {"takes", {decision(true, 2, 1, "jar", 0, nullptr), decision(true, 10, 9, "pair")}},
              {"generation", 1}}));
    // A denied take keeps the other one from being charged; that one shows its present state.
    const HttpAnswer none = ask(post("/v1/take", takes({with(jar, {{"n", 2}}), tenant})));
    EXPECT_EQ(none.status, 429);
    const Json told = settled(json_body(none));
    EXPECT_EQ(told.at("allowed"), false);
    EXPECT_EQ(told.at("violated-policies"), Json({"jar"}));
    EXPECT_EQ(told.at("takes"), Json({decision(false, 2, 1, "jar", nullptr, nullptr),
                                      decision(true, 10, 9, "pair")}));
    EXPECT_EQ(header_of(none, "ratelimit"), "\"jar\";r=1");
    EXPECT_EQ(units_left(ask, tenant), 9);
    // An `n` beside `takes` is for the takes without one.
    const HttpAnswer two =
        ask(post("/v1/take", takes({with(jar, {{"n", 1}}), tenant}, {{"n", 3}})));
    EXPECT_EQ(two.status, 200);
    EXPECT_EQ(json_body(two).at("takes")[0].at("remaining"), 0);
    EXPECT_EQ(json_body(two).at("takes")[1].at("remaining"), 6);
  });
}

TEST_F(HttpAnswers, SeveralTakesInModeEach) {
  const Door door;
  for_each_version(door, [](const Ask& ask, const std::string& actor) {
    const Json body = takes({about({{"jar", actor}}, {{"n", 3}}), about({{"tenant", actor}})},
                            {{"mode", "each"}});
    const HttpAnswer answer = ask(post("/v1/take", body));
    EXPECT_EQ(answer.status, 429);
    const Json told = settled(json_body(answer));
    EXPECT_EQ(told.at("allowed"), false);
    EXPECT_EQ(told.at("takes"), Json({decision(false, 2, 2, "jar", nullptr, nullptr),
                                      decision(true, 10, 9, "pair")}));
    EXPECT_EQ(units_left(ask, about({{"tenant", actor}})), 9);
    const HttpAnswer fine =
        ask(post("/v1/take",
                 takes({about({{"jar", actor}}), about({{"tenant", actor}})}, {{"mode", "each"}})));
    EXPECT_EQ(fine.status, 200);
    EXPECT_EQ(json_body(fine).at("allowed"), true);
    const HttpAnswer part =
        ask(post("/v1/take",
                 takes({about({{"tenant", actor}}), about({{"no", "rule"}})}, {{"mode", "each"}})));
    EXPECT_EQ(part.status, 200);
    EXPECT_EQ(json_body(part).at("allowed"), false) << "one of them could not be decided";
    EXPECT_EQ(json_body(part).at("takes")[0].at("allowed"), true);
    EXPECT_EQ(json_body(part).at("takes")[1].at("error").at("type"), "urn:sluice:problem:no-rule");
  });
}

TEST_F(HttpAnswers, SeveralTakesRequireARuleForEach) {
  const Door door;
  for_each_version(door, [](const Ask& ask, const std::string& actor) {
    const Json tenant = about({{"tenant", actor}});
    const HttpAnswer answer = ask(post("/v1/take", takes({tenant, about({{"no", "rule"}})})));
    EXPECT_EQ(answer.status, 404);
    EXPECT_EQ(problem_of(answer), "no-rule");
    EXPECT_EQ(units_left(ask, tenant), 10) << "nothing was charged";
  });
}

TEST_F(HttpAnswers, PeekChargesNothing) {
  const Door door;
  for_each_version(door, [](const Ask& ask, const std::string& actor) {
    for (int i = 0; i < 2; ++i) {
      const HttpAnswer answer = ask(post("/v1/peek", about({{"jar", actor}}, {{"n", 2}})));
      EXPECT_EQ(answer.status, 200);
      EXPECT_EQ(json_body(answer).at("allowed"), true);
      EXPECT_EQ(json_body(answer).at("remaining"), 0) << "as the take would say";
    }
    const HttpAnswer denied = ask(post("/v1/peek", about({{"jar", actor}}, {{"n", 3}})));
    EXPECT_EQ(denied.status, 200) << "always";
    EXPECT_EQ(settled(json_body(denied)),
              with(decision(false, 2, 2, "jar", nullptr, nullptr), {{"generation", 1}}));
    const HttpAnswer both =
        ask(post("/v1/peek", takes({about({{"jar", actor}}, {{"n", 3}}), about({{"open", "x"}})})));
    EXPECT_EQ(both.status, 200);
    EXPECT_EQ(json_body(both).at("allowed"), false);
  });
}

TEST_F(HttpAnswers, PutReturnsUnitsUpToTheLimit) {
  const Door door;
  for_each_version(door, [](const Ask& ask, const std::string& actor) {
    const auto put = [&](const Json& more) {
      return json_body(ask(post("/v1/put", about({{"tenant", actor}}, more))));
    };
    ask(post("/v1/take", about({{"tenant", actor}}, {{"n", 7}})));
    EXPECT_EQ(put({{"n", 2}}), Json({{"remaining", 5}, {"limit", 10}, {"generation", 1}}));
    EXPECT_EQ(put({{"n", 100}}), Json({{"remaining", 10}, {"limit", 10}, {"generation", 1}}));
    ask(post("/v1/take", about({{"tenant", actor}}, {{"n", 7}})));
    EXPECT_EQ(put({{"all", true}}).at("remaining"), 10);
    ask(post("/v1/take", about({{"tenant", actor}}, {{"n", 7}})));
    EXPECT_EQ(put({}).at("remaining"), 4) << "one by default";
    const HttpAnswer two = ask(
        post("/v1/put", takes({about({{"tenant", actor}}, {{"n", 2}}), about({{"jar", actor}})})));
    EXPECT_EQ(two.status, 200);
    EXPECT_EQ(json_body(two).at("takes"),
              Json({{{"remaining", 6}, {"limit", 10}}, {{"remaining", 2}, {"limit", 2}}}));
    EXPECT_EQ(header_of(two, "ratelimit"), "(none)");
  });
}

TEST_F(HttpAnswers, PutAndResetOfAKeyChangeItsOwnCounter) {
  // This rule also decides takes of a key.
  const Door door("{}",
                  "rules:\n  - { name: all-keys, match: { http: inline, key: \"*\" }, then: "
                  "continue, limit: { quota: 9, window: 1h, algorithm: fixed_window } }\n");
  for_each_version(door, [](const Ask& ask, const std::string& key) {
    const Json subject = about_key(
        key, Json::array({{{"quota", 4}, {"window", "1h"}, {"algorithm", "fixed_window"}}}));
    const HttpAnswer taken = ask(post("/v1/take", with(subject, {{"n", 3}, {"detail", true}})));
    EXPECT_EQ(taken.status, 200);
    EXPECT_EQ(json_body(taken).at("limits").size(), 2u) << taken.body;
    EXPECT_EQ(json_body(ask(post("/v1/put", subject))).at("remaining"), 2);
    EXPECT_EQ(json_body(ask(post("/v1/reset", subject))), Json({{"reset", 1}}));
    EXPECT_EQ(json_body(ask(post("/v1/reset", subject))), Json({{"reset", 0}}));
    const Json after =
        json_body(ask(post("/v1/peek", with(subject, {{"n", 0}, {"detail", true}}))));
    ASSERT_EQ(after.at("limits").size(), 2u) << after;
    EXPECT_LT(after.at("limits")[0].at("remaining"), 9) << "the rule's counter is as it was";
    EXPECT_EQ(after.at("limits")[1].at("remaining"), 4);
  });
}

TEST_F(HttpAnswers, ResetReportsTheNumberOfCounters) {
  const Door door;
  for_each_version(door, [](const Ask& ask, const std::string& actor) {
    const Json both = takes({about({{"tenant", actor}}), about({{"jar", actor}})});
    EXPECT_EQ(json_body(ask(post("/v1/reset", both))), Json({{"reset", 0}}));
    ask(post("/v1/take", both));
    EXPECT_EQ(json_body(ask(post("/v1/reset", both))), Json({{"reset", 2}}));
    EXPECT_EQ(units_left(ask, about({{"jar", actor}})), 2);
    EXPECT_EQ(json_body(ask(post("/v1/reset", both))), Json({{"reset", 0}}));
  });
}

TEST_F(HttpAnswers, ABatchDecidesEachTakeSeparately) {
  const Door door;
  for_each_version(door, [](const Ask& ask, const std::string& actor) {
    std::vector<Json> many;
    for (int i = 0; i < 997; ++i) many.push_back(about({{"open", std::to_string(i)}}));
    many.push_back(about({{"jar", actor}}, {{"n", 3}}));
    many.push_back(about({{"no", "rule"}}));
    many.push_back(about({{"jar", actor}}));
    const HttpAnswer answer = ask(post("/v1/batch", takes(many)));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(header_of(answer, "ratelimit-policy"), "(none)");
    const Json told = json_body(answer).at("takes");
    ASSERT_EQ(told.size(), 1000u);
    for (size_t i = 0; i < 997; ++i) ASSERT_EQ(told[i].at("rule"), "open") << i;
    EXPECT_EQ(told[997].at("allowed"), false);
    EXPECT_EQ(told[998].at("error").at("type"), "urn:sluice:problem:no-rule");
    EXPECT_EQ(told[999].at("remaining"), 1);
  });
}

TEST_F(HttpAnswers, RulesThatAlwaysAllowOrDeny) {
  const Door door;
  for_each_version(door, [](const Ask& ask, const std::string&) {
    const HttpAnswer open = ask(post("/v1/take", about({{"open", "x"}}, {{"n", 1'000'000}})));
    EXPECT_EQ(open.status, 200);
    EXPECT_EQ(json_body(open).at("limit"), 9'007'199'254'740'991);
    const HttpAnswer closed = ask(post("/v1/take", about({{"closed", "x"}})));
    EXPECT_EQ(closed.status, 429);
    EXPECT_TRUE(json_body(closed).at("retry_after").is_null());
    for (const char* field : {"ratelimit", "ratelimit-policy", "retry-after"})
      EXPECT_EQ(header_of(closed, field), "(none)");
  });
}

TEST_F(HttpAnswers, AShadowRuleDoesNotChangeAnswers) {
  const Door door("{}",
                  "rules:\n  - { name: shadow, mode: shadow, limit: { quota: 1, window: 1h } }\n"
                  "  - { name: real, limit: { quota: 50, window: 1h } }\n");
  for_each_version(door, [](const Ask& ask, const std::string&) {
    for (int i = 0; i < 3; ++i) {
      const HttpAnswer answer = ask(post("/v1/take", about({{"a", "b"}})));
      EXPECT_EQ(answer.status, 200);
      EXPECT_EQ(json_body(answer).at("rule"), "real");
      EXPECT_EQ(header_of(answer, "ratelimit-policy"), "\"real\";q=50;w=3600");
    }
  });
}

TEST_F(HttpAnswers, AnswersARequestWithoutARuleAsConfigured) {
  const Json unmatched = about({{"no", "rule"}});
  {
    const Door door("{ unmatched: error }");
    for_each_version(door, [&](const Ask& ask, const std::string&) {
      for (const char* path : {"/v1/take", "/v1/peek", "/v1/put", "/v1/reset", "/v1/wait"}) {
        const HttpAnswer answer = ask(post(path, unmatched));
        EXPECT_EQ(answer.status, 404) << path;
        EXPECT_EQ(problem_of(answer), "no-rule") << path;
      }
    });
  }
  {
    const Door door("{ unmatched: allow }");
    for_each_version(door, [&](const Ask& ask, const std::string& actor) {
      for (const char* path : {"/v1/take", "/v1/peek", "/v1/wait"}) {
        const HttpAnswer answer = ask(post(path, unmatched));
        EXPECT_EQ(answer.status, 200) << path;
        const Json told = json_body(answer);
        EXPECT_EQ(told.at("allowed"), true) << path;
        EXPECT_TRUE(told.at("rule").is_null()) << path;
      }
      const HttpAnswer several = ask(post("/v1/take", takes({unmatched, about({{"jar", actor}})})));
      EXPECT_EQ(several.status, 200);
      EXPECT_EQ(json_body(several).at("takes")[1].at("remaining"), 1) << several.body;
      EXPECT_EQ(ask(post("/v1/put", unmatched)).status, 404) << "there is nothing to give back to";
    });
  }
  const Door door("{ unmatched: deny }");
  for_each_version(door, [&](const Ask& ask, const std::string&) {
    const HttpAnswer answer = ask(post("/v1/take", unmatched));
    EXPECT_EQ(answer.status, 429);
    EXPECT_EQ(json_body(answer).at("violated-policies"), Json::array());
    EXPECT_TRUE(json_body(answer).at("rule").is_null());
    EXPECT_EQ(ask(post("/v1/peek", unmatched)).status, 200);
    EXPECT_EQ(ask(post("/v1/reset", unmatched)).status, 404);
  });
}

TEST_F(HttpAnswers, LimitsInRequestsCanBeSwitchedOff) {
  const Door door("{ inline_limits: false }");
  for_each_version(door, [](const Ask& ask, const std::string& actor) {
    const Json own = about_key("k", Json::array({bucket_of_three}));
    for (const Json& body : {own, takes({about({{"jar", actor}}), own})}) {
      const HttpAnswer answer = ask(post("/v1/take", body));
      EXPECT_EQ(answer.status, 400);
      EXPECT_EQ(problem_of(answer), "bad-request");
    }
    EXPECT_EQ(json_body(ask(post("/v1/take", about({{"jar", actor}})))).at("remaining"), 1);
  });
}

TEST_F(HttpAnswers, AnOverrideBansAKey) {
  const Door door;
  const auto override_of = [&](const Json& terms) {
    return http(door.admin(), "POST", "/v1/overrides",
                with({{"dialect", "http"}, {"rule", "inline"}, {"actor", "bad"}}, terms).dump())
        .status;
  };
  EXPECT_EQ(override_of({{"limit", {{"quota", 9}, {"window", "1h"}}}}), 422);
  EXPECT_EQ(override_of({{"deny", true}}), 201);
  for_each_version(door, [](const Ask& ask, const std::string&) {
    const Json limits = Json::array({bucket_of_three});
    const HttpAnswer banned = ask(post("/v1/take", about_key("bad", limits)));
    EXPECT_EQ(banned.status, 429);
    EXPECT_TRUE(json_body(banned).at("retry_after").is_null());
    EXPECT_EQ(ask(post("/v1/peek", about_key("good", limits))).status, 200);
    EXPECT_EQ(json_body(ask(post("/v1/peek", about_key("good", limits)))).at("allowed"), true);
  });
}

TEST_F(HttpAnswers, AReloadIsANewGeneration) {
  Door door;
  for_each_version(door, [](const Ask& ask, const std::string& actor) {
    EXPECT_EQ(json_body(ask(post("/v1/take", about({{"jar", actor}})))).at("generation"), 1);
  });
  door.reload(
      "rules:\n  - { name: jar, match: { jar: \"*\" }, actor: jar, limit: { quota: 7, algorithm: "
      "fixed_bucket } }\n");
  for_each_version(door, [](const Ask& ask, const std::string& actor) {
    const Json told = json_body(ask(post("/v1/take", about({{"jar", actor}}))));
    EXPECT_EQ(told.at("generation"), 2);
    EXPECT_EQ(told.at("remaining"), 5) << "what was used stays used";
    EXPECT_EQ(json_body(ask(get("/v1/health"))), Json({{"status", "ok"}, {"generation", 2}}));
  });
}

TEST_F(HttpAnswers, HealthAndItsOwnDescription) {
  const Door door;
  std::ifstream file(source_path("docs/openapi-http.json"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for_each_version(door, [&](const Ask& ask, const std::string&) {
    EXPECT_EQ(json_body(ask(get("/v1/health"))), Json({{"status", "ok"}, {"generation", 1}}));
    EXPECT_TRUE(ask(get("/v1/openapi.json")).body == text);
    for (const char* path : {"/v1/health", "/v1/openapi.json"}) {
      const HttpAnswer whole = ask(get(path)), head = ask({.method = "HEAD", .target = path});
      EXPECT_EQ(head.status, 200);
      EXPECT_EQ(head.body, "");
      EXPECT_EQ(header_of(head, "content-length"), std::to_string(whole.body.size()));
    }
  });
}

TEST_F(HttpAnswers, SharesItsCountersWithTheAdminPort) {
  const Door door;
  for_each_version(door, [&](const Ask& ask, const std::string& actor) {
    ask(post("/v1/take", about({{"jar", actor}})));
    const HttpAnswer counter = http_get(door.admin(), "/v1/counters/native:jar:" + actor + ":jar");
    ASSERT_EQ(counter.status, 200) << counter.body;
    EXPECT_EQ(json_body(counter).at("limits")[0].at("remaining"), 1) << counter.body;
  });
}

// The fields of each style, and of all limits.
TEST_F(HttpAnswers, HeaderFieldsAreOfTheStylesThatAreConfigured) {
  struct Style {
    const char* settings;
    HeaderLines fields;
  };
  const Style styles[] = {
      {"{ headers: [ietf], ratelimit: all }",
       {{"ratelimit-policy", "\"pair\";q=10;w=3600, \"pair-2\";q=100;w=86400"},
        {"ratelimit", "\"pair\";r=7;t=3600, \"pair-2\";r=97;t=86400"}}},
      {"{ headers: [x-ratelimit] }",
       {{"x-ratelimit-limit", "10"},
        {"x-ratelimit-remaining", "7"},
        {"x-ratelimit-reset", "3600"}}},
      {"{ headers: [retry-after] }", {}},
  };
  for (const Style& style : styles) {
    SCOPED_TRACE(style.settings);
    const Door door(style.settings);
    for (const HttpVersion version : http_versions) {
      const Asked asked = post("/v1/take", about({{"tenant", name_of(version)}}, {{"n", 3}}));
      const HttpAnswer answer = version == HttpVersion::http1 ? Http1(door.port()).ask(asked)
                                                              : Http2(door.port()).ask(asked);
      EXPECT_EQ(answer.status, 200);
      for (const auto& [name, value] : style.fields) EXPECT_EQ(header_of(answer, name), value);
      size_t limits = 0;
      for (const auto& [name, value] : answer.headers)
        limits += name.find("ratelimit") != name.npos;
      EXPECT_EQ(limits, style.fields.size());
    }
  }
}

}  // namespace
}  // namespace sluice::tests::http_e2e
