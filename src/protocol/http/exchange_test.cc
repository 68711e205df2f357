// The answers to takes, peeks, puts, resets and batches, and the counters after them. Sessions,
// engine and table in memory, without sockets.
#include "protocol/http/exchange.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "protocol/http/http_text_test.h"

namespace sluice::http::exchange_test {
namespace {

using namespace session_world;

TEST(HttpTake, IsAnsweredWithTheRemainingUnits) {
  World world;
  Connection connection(world);
  const std::string take = post("/v1/take", by_ip("10.0.0.1"));
  HttpAnswer answer = ask(connection, take);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body,
            R"({"allowed": true, "limit": 3, "remaining": 2, "retry_after": 0, "reset_after": 60, )"
            R"("rule": "by-ip", "mode": "enforce", "generation": 1})");
  EXPECT_EQ(answer.field("content-type"), "application/json");
  EXPECT_EQ(answer.field("cache-control"), "no-store");
  EXPECT_EQ(answer.field("date"), "Sun, 22 Nov 2026 07:55:23 GMT");
  EXPECT_EQ(answer.field("ratelimit-policy"), R"("by-ip";q=3;w=60)");
  EXPECT_EQ(answer.field("ratelimit"), R"("by-ip";r=2;t=60)");
  EXPECT_FALSE(answer.has("retry-after"));
  EXPECT_FALSE(answer.has("connection"));
  world.pass(1'500'000);
  EXPECT_TRUE(
      ask(connection, take).tells(R"("remaining": 1, "retry_after": 0, "reset_after": 58.5)"));
  EXPECT_TRUE(ask(connection, take).tells(R"("remaining": 0)"));
  EXPECT_FALSE(connection.is_closed());
}

TEST(HttpTake, ADenialIs429WithTheSameMembers) {
  World world;
  Connection connection(world);
  const std::string take = post("/v1/take", by_ip("10.0.0.1", R"(, "n": 2)"));
  EXPECT_EQ(ask(connection, take).status, 200);
  world.pass(1'250'000);
  const HttpAnswer answer = ask(connection, take);
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.field("content-type"), "application/problem+json");
  EXPECT_EQ(answer.body,
            R"({"type": "https://iana.org/assignments/http-problem-types#quota-exceeded", )"
            R"("title": "Quota exceeded", "status": 429, "violated-policies": ["by-ip"], )"
            R"("allowed": false, "limit": 3, "remaining": 1, "retry_after": 58.75, )"
            R"("reset_after": 58.75, "rule": "by-ip", "mode": "enforce", "generation": 1})");
  EXPECT_EQ(answer.field("retry-after"), "59");
  EXPECT_EQ(answer.field("ratelimit"), R"("by-ip";r=1;t=59)");
  // A client that accepts only JSON gets the same without the members of a problem.
  const HttpAnswer plain = ask(connection, post("/v1/take", by_ip("10.0.0.1", R"(, "n": 2)"),
                                                "Accept: application/json\r\n"));
  EXPECT_EQ(plain.status, 429);
  EXPECT_EQ(plain.field("content-type"), "application/json");
  EXPECT_TRUE(plain.body.starts_with(R"({"allowed": false, "limit": 3, "remaining": 1, )"))
      << plain.body;
  // A client that treats 429 as a failure can ask for 200.
  const HttpAnswer fine =
      ask(connection, post("/v1/take?status=200", by_ip("10.0.0.1", R"(, "n": 2)")));
  EXPECT_EQ(fine.status, 200);
  EXPECT_EQ(fine.field("content-type"), "application/json");
  EXPECT_TRUE(fine.body.starts_with(R"({"allowed": false, )")) << fine.body;
  EXPECT_FALSE(fine.has("retry-after"));
  // None of them was charged.
  EXPECT_EQ(left(world, by_ip("10.0.0.1")), 1);
}

TEST(HttpTake, ATakeOfZeroUnitsIsAPeek) {
  World world;
  Connection connection(world);
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(ask(connection, post("/v1/take", by_ip("a", R"(, "n": 0)")))
                    .tells(R"("allowed": true, "limit": 3, "remaining": 3)"));
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a", R"(, "n": 3)"))).status, 200);
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a", R"(, "n": 0)"))).status, 200);
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a", R"(, "n": 4)"))).status, 429);
}

TEST(HttpTake, ATakeThatCanNeverPassHasNoRetryAfter) {
  World world({.rules =
                   "- { match: { jar: '*' }, actor: jar, name: jar, limit: { quota: 2, "
                   "algorithm: fixed_bucket } }\n- { match: { no: '*' }, name: no, deny: true }\n"
                   "- { match: { yes: '*' }, name: 'yes', unlimited: true }\n"});
  const HttpAnswer bucket = ask(world, post("/v1/take", R"({"entries": {"jar": "x"}, "n": 3})"));
  EXPECT_EQ(bucket.status, 429);
  EXPECT_TRUE(bucket.tells(R"("retry_after": null)")) << bucket.body;
  EXPECT_FALSE(bucket.has("retry-after"));
  const HttpAnswer denied = ask(world, post("/v1/take", R"({"entries": {"no": "x"}})"));
  EXPECT_EQ(denied.status, 429);
  EXPECT_TRUE(denied.tells(R"("rule": "no")"));
  EXPECT_TRUE(denied.tells(R"("retry_after": null)")) << denied.body;
  EXPECT_FALSE(denied.has("ratelimit"));
  EXPECT_FALSE(denied.has("retry-after"));
  const HttpAnswer allowed = ask(world, post("/v1/take", R"({"entries": {"yes": "x"}})"));
  EXPECT_EQ(allowed.status, 200);
  EXPECT_TRUE(allowed.tells(R"("limit": 9007199254740991)"));
  EXPECT_FALSE(allowed.has("ratelimit"));
}

TEST(HttpTake, ShowsTheLongestRefusalAndAllLimits) {
  World world({.rules =
                   "- { match: { ip: '*' }, actor: ip, name: two, limits: [{ quota: 2, window: "
                   "10s, algorithm: fixed_window }, { quota: 2, window: 1h, algorithm: "
                   "fixed_window }] }\n"});
  Connection connection(world);
  HttpAnswer answer = ask(connection, post("/v1/take", by_ip("a", R"(, "n": 2, "detail": true)")));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.tells(
      R"("limits": [{"name": "two", "allowed": true, "limit": 2, "remaining": 0, "retry_after": 0, )"
      R"("reset_after": 10, "algorithm": "fixed_window", "quota": 2, "window": 10}, )"
      R"({"name": "two-2", "allowed": true, "limit": 2, "remaining": 0, "retry_after": 0, )"
      R"("reset_after": 3600, "algorithm": "fixed_window", "quota": 2, "window": 3600}])"))
      << answer.body;
  EXPECT_EQ(answer.field("ratelimit-policy"), R"("two";q=2;w=10, "two-2";q=2;w=3600)");
  answer = ask(connection, post("/v1/take", by_ip("a")));
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(answer.tells(R"("violated-policies": ["two", "two-2"])")) << answer.body;
  EXPECT_TRUE(answer.tells(R"("retry_after": 3600)")) << answer.body;
  EXPECT_FALSE(answer.tells("limits"));
  EXPECT_EQ(answer.field("retry-after"), "3600");
  EXPECT_EQ(answer.field("ratelimit"), R"("two-2";r=0;t=3600)");
}

TEST(HttpTakes, AreChargedAllOrNothingByDefault) {
  World world;
  Connection connection(world);
  const auto takes = [](const std::string& more) {
    return post(
        "/v1/take",
        R"({"takes": [{"entries": {"ip": "a"}}, {"entries": {"ip": "b"}, "n": 2}])" + more + "}");
  };
  HttpAnswer answer = ask(connection, takes(""));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body.starts_with(R"({"allowed": true, "takes": [{"allowed": true, )"))
      << answer.body;
  EXPECT_TRUE(answer.body.ends_with(R"(}], "generation": 1})")) << answer.body;
  EXPECT_EQ(left(world, by_ip("a")), 2);
  EXPECT_EQ(left(world, by_ip("b")), 1);
  answer = ask(connection, takes(R"(, "mode": "all")"));
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(
      answer.tells(R"("allowed": false, "takes": [{"allowed": true, "limit": 3, "remaining": 2, )"))
      << answer.body;
  EXPECT_TRUE(answer.tells(R"({"allowed": false, "limit": 3, "remaining": 1, )")) << answer.body;
  EXPECT_EQ(left(world, by_ip("a")), 2);
  EXPECT_EQ(left(world, by_ip("b")), 1);
}

TEST(HttpTakes, AreChargedOneByOneInModeEach) {
  World world;
  Connection connection(world);
  const std::string takes = post(
      "/v1/take",
      R"({"takes": [{"entries": {"ip": "a"}}, {"entries": {"ip": "b"}, "n": 4}, {"entries": {"ip": "a"}}], "mode": "each"})");
  const HttpAnswer answer = ask(connection, takes);
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(
      answer.tells(R"("allowed": false, "takes": [{"allowed": true, "limit": 3, "remaining": 2, )"))
      << answer.body;
  EXPECT_TRUE(answer.tells(R"({"allowed": false, "limit": 3, "remaining": 3, )")) << answer.body;
  EXPECT_TRUE(answer.tells(R"({"allowed": true, "limit": 3, "remaining": 1, )")) << answer.body;
  EXPECT_EQ(left(world, by_ip("a")), 1);
  EXPECT_EQ(left(world, by_ip("b")), 3);
}

TEST(HttpTakes, AddUpForTheSameKey) {
  World world;
  Connection connection(world);
  const std::string takes = R"({"takes": [)" + by_key("k", 3, R"(, "n": 2)") + ", " +
                            by_key("k", 3, R"(, "n": 2)") + "]}";
  EXPECT_EQ(ask(connection, post("/v1/take", takes)).status, 429);
  EXPECT_EQ(left(world, by_key("k", 3)), 3);
  const std::string fits =
      R"({"takes": [)" + by_key("k", 3, R"(, "n": 2)") + ", " + by_key("k", 3) + "]}";
  EXPECT_EQ(ask(connection, post("/v1/take", fits)).status, 200);
  EXPECT_EQ(left(world, by_key("k", 3)), 0);
}

TEST(HttpBatch, Is200WhateverItsTakesAreAnswered) {
  World world;
  Connection connection(world);
  std::string body = R"({"takes": [{"entries": {"ip": "a"}, "n": 4}, {"entries": {"x": "a"}}, )" +
                     by_key("k", 1) + ", " + by_key("k", 1) + "]}";
  const HttpAnswer answer = ask(connection, post("/v1/batch", body));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body.starts_with(R"({"takes": [{"allowed": false, )")) << answer.body;
  EXPECT_TRUE(answer.tells(R"({"error": {"type": "urn:sluice:problem:no-rule", )")) << answer.body;
  EXPECT_TRUE(answer.tells(R"({"allowed": true, "limit": 1, "remaining": 0, )")) << answer.body;
  EXPECT_FALSE(answer.has("retry-after"));
  EXPECT_FALSE(answer.has("ratelimit"));
  EXPECT_EQ(left(world, by_ip("a")), 3);
  EXPECT_EQ(left(world, by_key("k", 1)), 0);
  // The most takes that a batch may have.
  body = R"({"takes": [)";
  for (int i = 0; i < 1000; ++i) body += (i > 0 ? "," : "") + by_key("k" + std::to_string(i), 1);
  const HttpAnswer many = ask(connection, post("/v1/batch", body + "]}"));
  EXPECT_EQ(many.status, 200);
  size_t allowed = 0;
  for (size_t at = 0; (at = many.body.find("\"allowed\": true", at)) != std::string::npos; ++at)
    ++allowed;
  EXPECT_EQ(allowed, 1000u);
}

TEST(HttpPeek, ChargesNothingAndIs200) {
  World world;
  Connection connection(world);
  HttpAnswer answer = ask(connection, post("/v1/peek", by_ip("a", R"(, "n": 2)")));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.tells(R"("allowed": true, "limit": 3, "remaining": 1)"))
      << "as after that take: " << answer.body;
  answer = ask(connection, post("/v1/peek", by_ip("a", R"(, "n": 4)")));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.field("content-type"), "application/json");
  EXPECT_TRUE(answer.body.starts_with(R"({"allowed": false, "limit": 3, "remaining": 3, )"))
      << answer.body;
  EXPECT_EQ(answer.field("ratelimit"), R"("by-ip";r=3)");
  EXPECT_FALSE(answer.has("retry-after"));
  EXPECT_EQ(left(world, by_ip("a")), 3);
}

TEST(HttpPut, ReturnsUnitsUpToTheLimit) {
  World world;
  Connection connection(world);
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a", R"(, "n": 3)"))).status, 200);
  HttpAnswer answer = ask(connection, post("/v1/put", by_ip("a", R"(, "n": 2)")));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, R"({"remaining": 2, "limit": 3, "generation": 1})");
  EXPECT_FALSE(answer.has("ratelimit"));
  EXPECT_EQ(left(world, by_ip("a")), 2);
  answer = ask(connection, post("/v1/put", by_ip("a", R"(, "n": 9)")));
  EXPECT_TRUE(answer.tells(R"("remaining": 3)")) << answer.body;
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a", R"(, "n": 3)"))).status, 200);
  answer = ask(connection, post("/v1/put", by_ip("a", R"(, "all": true)")));
  EXPECT_TRUE(answer.tells(R"("remaining": 3)")) << answer.body;
  EXPECT_EQ(left(world, by_ip("a")), 3);
  EXPECT_EQ(ask(connection, post("/v1/put", by_ip("a", R"(, "n": 0)"))).status, 400);
}

TEST(HttpReset, MakesCountersAsFreshAndCountsThem) {
  World world;
  Connection connection(world);
  EXPECT_EQ(ask(connection, post("/v1/reset", by_ip("a"))).body, R"({"reset": 0})");
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a", R"(, "n": 2)"))).status, 200);
  EXPECT_EQ(ask(connection, post("/v1/take", by_key("k", 5, R"(, "n": 2)"))).status, 200);
  const std::string both =
      R"({"takes": [{"entries": {"ip": "a"}}, )" + by_key("k", 5) + ", " + by_key("none", 5) + "]}";
  EXPECT_EQ(ask(connection, post("/v1/reset", both)).body, R"({"reset": 2})");
  EXPECT_EQ(left(world, by_ip("a")), 3);
  EXPECT_EQ(left(world, by_key("k", 5)), 5);
}

// ---- Where no rule applies ----

TEST(HttpUnmatched, Is404OrTheConfiguredAnswer) {
  const std::string take = post("/v1/take", R"({"entries": {"x": "a"}})");
  const std::string both = R"({"takes": [{"entries": {"ip": "a"}}, {"entries": {"x": "a"}}]})";
  {
    World world;
    const HttpAnswer answer = ask(world, take);
    EXPECT_EQ(answer.status, 404);
    EXPECT_TRUE(answer.tells(R"("type": "urn:sluice:problem:no-rule")")) << answer.body;
    EXPECT_EQ(ask(world, post("/v1/peek", R"({"entries": {"x": "a"}})")).status, 404);
    EXPECT_EQ(ask(world, post("/v1/take", both)).status, 404);
    EXPECT_EQ(left(world, by_ip("a")), 3) << "none of them was charged";
  }
  {
    World world({.http = "{ unmatched: allow }"});
    const HttpAnswer answer = ask(world, take);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, R"({"allowed": true, "rule": null, "generation": 1})");
    EXPECT_FALSE(answer.has("ratelimit"));
    const HttpAnswer two = ask(world, post("/v1/take", both));
    EXPECT_EQ(two.status, 200);
    EXPECT_TRUE(two.tells(R"({"allowed": true, "rule": null}])")) << two.body;
    EXPECT_EQ(left(world, by_ip("a")), 2);
    EXPECT_EQ(ask(world, post("/v1/put", R"({"entries": {"x": "a"}})")).status, 404);
    EXPECT_EQ(ask(world, post("/v1/reset", R"({"entries": {"x": "a"}})")).status, 404);
  }
  {
    World world({.http = "{ unmatched: deny }"});
    const HttpAnswer answer = ask(world, take);
    EXPECT_EQ(answer.status, 429);
    EXPECT_TRUE(answer.tells(R"("violated-policies": [], "allowed": false, "rule": null)"))
        << answer.body;
    EXPECT_FALSE(answer.has("retry-after"));
    const HttpAnswer two = ask(world, post("/v1/take", both));
    EXPECT_EQ(two.status, 429);
    EXPECT_EQ(left(world, by_ip("a")), 3) << "none of them was charged";
    const std::string each = both.substr(0, both.size() - 1) + R"(, "mode": "each"})";
    EXPECT_EQ(ask(world, post("/v1/take", each)).status, 429);
    EXPECT_EQ(left(world, by_ip("a")), 2);
  }
}

// ---- Limits that come with requests ----

TEST(HttpInline, UsesTheGivenNamesOrNumbers) {
  World world;
  Connection connection(world);
  HttpAnswer answer = ask(connection, post("/v1/take", by_key("k", 5)));
  EXPECT_TRUE(answer.tells(R"("rule": "default")")) << answer.body;
  EXPECT_EQ(answer.field("ratelimit"), R"("default";r=4;t=60)");
  answer = ask(
      connection,
      post(
          "/v1/take",
          R"({"key": "m", "limits": [{"quota": 5, "window": "1m"}, {"quota": 2, "window": 1.5, "algorithm": "fixed_window"}], "detail": true})"));
  EXPECT_TRUE(answer.tells(R"("rule": "2")")) << answer.body;
  EXPECT_TRUE(answer.tells(R"("limits": [{"name": "1", )")) << answer.body;
  EXPECT_TRUE(answer.tells(R"({"name": "2", "allowed": true, "limit": 2, "remaining": 1, )"))
      << answer.body;
  EXPECT_TRUE(answer.tells(R"("algorithm": "fixed_window", "quota": 2, "window": 1.5})"))
      << answer.body;
  EXPECT_EQ(answer.field("ratelimit-policy"), R"("1";q=5;w=60, "2";q=2;w=2)");
  answer = ask(
      connection,
      post(
          "/v1/take",
          R"({"key": "m", "limits": [{"name": "burst", "quota": 5, "window": "1m"}, {"name": "daily", "quota": 2, "window": 1.5, "algorithm": "fixed_window"}], "n": 2})"));
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(answer.tells(R"("violated-policies": ["daily"])")) << answer.body;
  EXPECT_TRUE(answer.tells(R"("rule": "daily")")) << answer.body;
}

TEST(HttpInline, LimitsOfSeveralTakesKeepTheirNames) {
  World world;
  const std::string takes =
      R"({"takes": [{"key": "a", "limits": [{"name": "one", "quota": 1, "window": 60, "algorithm": "fixed_window"}]}, )"
      R"({"key": "b", "limits": [{"name": "x", "quota": 9, "window": 60, "algorithm": "fixed_window"}, {"name": "two", "quota": 2, "window": 60, "algorithm": "sliding_log"}], "n": 3}]})";
  const HttpAnswer answer = ask(world, post("/v1/take", takes));
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(answer.tells(R"("rule": "one")")) << answer.body;
  EXPECT_TRUE(answer.tells(R"("rule": "two")")) << answer.body;
  EXPECT_TRUE(answer.tells(R"("violated-policies": ["two"])")) << answer.body;
}

TEST(HttpInline, IsReplacedByOverrides) {
  World world;
  EXPECT_EQ(ask(world, post("/v1/take", by_key("k", 1))).status, 200);
  EXPECT_EQ(ask(world, post("/v1/take", by_key("k", 1))).status, 429);
  world.override_inline("k", limit::Algorithm::unlimited);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(world, post("/v1/take", by_key("k", 1))).status, 200);
  world.override_inline("k", limit::Algorithm::deny);
  EXPECT_EQ(ask(world, post("/v1/take", by_key("k", 100))).status, 429);
  EXPECT_EQ(ask(world, post("/v1/take", by_key("other", 1))).status, 200);
  world.override_inline("k", std::nullopt);
  EXPECT_EQ(left(world, by_key("k", 1)), 0) << "the counter has what it had";
}

TEST(HttpInline, MayBeSwitchedOff) {
  World world({.http = "{ inline_limits: false }"});
  EXPECT_EQ(ask(world, post("/v1/take", by_key("k", 1))).status, 400);
  EXPECT_EQ(ask(world, post("/v1/take", by_ip("a"))).status, 200);
}

// A native rule applies before limits that come with a request.
TEST(HttpInline, MatchesTheRulesOfThePolicy) {
  World world({.rules = "- { match: { http: inline, key: 'vip*' }, actor: key, name: vip, limit: { "
                        "quota: 1, window: 1m, algorithm: fixed_window } }\n"});
  const HttpAnswer answer = ask(world, post("/v1/take", by_key("vip-1", 9)));
  EXPECT_TRUE(answer.tells(R"("limit": 1, "remaining": 0)")) << answer.body;
  EXPECT_TRUE(answer.tells(R"("rule": "vip")")) << answer.body;
  EXPECT_TRUE(ask(world, post("/v1/take", by_key("k", 9))).tells(R"("rule": "default")"));
}

TEST(HttpInline, DetailListsTheLimitsOfAllTakes) {
  World world;
  const std::string takes =
      R"({"takes": [{"key": "a", "limits": [{"name": "one", "quota": 1, "window": 60, "algorithm": "fixed_window"}]}, )"
      R"({"key": "b", "limits": [{"name": "x", "quota": 9, "window": 60, "algorithm": "fixed_window"}, {"name": "two", "quota": 2, "window": 60, "algorithm": "sliding_log"}]}], "detail": true})";
  const HttpAnswer answer = ask(world, post("/v1/take", takes));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.tells(R"("limits": [{"name": "one", "allowed": true, "limit": 1, )"))
      << answer.body;
  EXPECT_TRUE(answer.tells(R"("limits": [{"name": "x", "allowed": true, "limit": 9, )"));
  EXPECT_TRUE(answer.tells(R"({"name": "two", "allowed": true, "limit": 2, )")) << answer.body;
  EXPECT_EQ(answer.field("ratelimit-policy"), R"("one";q=1;w=60, "x";q=9;w=60, "two";q=2;w=60)");
}

// A counter that two takes share is charged once, with the sum of their costs.
TEST(HttpTakes, ListASharedCounterInTheDetailOfEach) {
  World world({.rules =
                   "- { match: { t: '*' }, actor: t, name: a, then: continue, limit: { quota: 9, "
                   "window: 1h, algorithm: fixed_window } }\n"
                   "- { match: { ip: '*' }, actor: ip, name: b, limit: { quota: 5, window: 1h, "
                   "algorithm: fixed_window } }\n"});
  const HttpAnswer answer = ask(
      world, post("/v1/take",
                  R"({"takes": [{"entries": {"ip": "x"}}, {"entries": {"t": "y", "ip": "x"}}], )"
                  R"("detail": true})"));
  EXPECT_EQ(answer.status, 200);
  const std::string shared = R"({"name": "b", "allowed": true, "limit": 5, "remaining": 3, )";
  EXPECT_TRUE(answer.tells(R"("limits": [)" + shared)) << answer.body;
  const size_t second =
      answer.body.find(R"("limits": [{"name": "a", "allowed": true, "limit": 9, )");
  ASSERT_NE(second, std::string::npos) << answer.body;
  EXPECT_NE(answer.body.find(shared, second), std::string::npos) << answer.body;
  EXPECT_EQ(answer.field("ratelimit-policy"), R"("b";q=5;w=3600, "a";q=9;w=3600)");
}

TEST(HttpInline, ARuleOfThePolicyMayHaveTheSameName) {
  World world({.rules =
                   "- { match: { http: inline, key: 'vip*' }, actor: key, name: inline, "
                   "limit: { quota: 1, window: 1m, algorithm: fixed_window }, then: continue }\n"});
  const std::string detailed = by_key("vip-1", 9, R"(, "detail": true)");
  const HttpAnswer answer = ask(world, post("/v1/take", detailed));
  EXPECT_TRUE(answer.tells(R"("rule": "inline")")) << answer.body;
  EXPECT_TRUE(answer.tells(R"("limits": [{"name": "inline", )")) << answer.body;
  EXPECT_TRUE(answer.tells(R"({"name": "default", )")) << answer.body;
}

// The rules that sluice itself has for `http: inline` do not match entries that a client sends.
TEST(HttpEntries, CannotAddressCountersOfKeys) {
  World world;
  EXPECT_EQ(ask(world, post("/v1/take", by_key("k", 1))).status, 200);
  EXPECT_EQ(ask(world, post("/v1/take", R"({"entries": {"http": "inline", "key": "k"}})")).status,
            404);
  EXPECT_EQ(ask(world, post("/v1/reset", R"({"entries": {"http": "inline", "key": "k"}})")).status,
            404);
  EXPECT_EQ(left(world, by_key("k", 1)), 0);
}

// A text of JSON cannot tell them apart, so they would share a counter.
TEST(HttpQuery, OfBytesThatAreNotUtf8IsRefused) {
  World world({.http = "{ get_takes: true }"});
  for (const char* const query : {"entry=ip=%ff", "entry=ip=%fe", "key=%ff&limit=5&window=60",
                                  "entry=%c3=a", "entry=ip=%ed%a0%80"}) {
    const HttpAnswer answer = ask(world, get(std::string("/v1/take?") + query));
    EXPECT_EQ(answer.status, 400) << query;
    EXPECT_TRUE(answer.tells("the query has bytes that are not UTF-8")) << answer.body;
  }
  EXPECT_EQ(ask(world, get("/v1/take?entry=ip=%c3%bf")).status, 200);
}

// ---- The store ----

// It would have to be kept, or a request that is sent again is charged twice.
TEST(HttpIdempotencyKey, IsRefusedOnEveryPathThatChangesOrLooks) {
  World world({.http = "{ get_takes: true, twins: [throttlecrab] }"});
  const std::string key = "Idempotency-Key: k\r\n";
  for (const char* path : {"/v1/take", "/v1/batch", "/v1/charge", "/v1/peek", "/v1/put", "/v1/wait",
                           "/v1/reset", "/v1/explain", "/v1/reserve", "/v1/extend", "/v1/renew",
                           "/v1/commit", "/v1/release", "/v1/acquire"}) {
    const HttpAnswer answer = ask(world, post(path, by_ip("a"), key));
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_TRUE(answer.tells("urn:sluice:problem:bad-request")) << answer.body;
    EXPECT_TRUE(
        answer.tells("this server takes no Idempotency-Key; to send a request again safely, "
                     "send a charge to /v1/charge with an `id` in its body"))
        << answer.body;
  }
  Http2Client client(world);
  EXPECT_EQ(client.ask("/v1/take", by_ip("a"), {{"idempotency-key", ""}}).status, 400);
  EXPECT_EQ(ask(world, get("/v1/take?entry=ip=a", key)).status, 400);
  EXPECT_EQ(left(world, by_ip("a")), 3) << "nothing was charged";
  EXPECT_EQ(ask(world, get("/v1/health", key)).status, 200);
  EXPECT_EQ(
      ask(world, post("/throttle",
                      R"({"key": "k", "max_burst": 3, "count_per_period": 6, "period": 60})", key))
          .status,
      200)
      << "throttlecrab does not know it";
}

TEST(HttpStore, AStoreErrorIs503) {
  World world;
  Connection connection(world);
  world.store.fails = true;
  for (const std::string path : {"/v1/take", "/v1/peek", "/v1/put", "/v1/reset", "/v1/wait"}) {
    const HttpAnswer answer = ask(connection, post(path, by_ip("a")));
    EXPECT_EQ(answer.status, 503) << path;
    EXPECT_TRUE(answer.tells("#temporary-reduced-capacity")) << answer.body;
    EXPECT_EQ(answer.field("retry-after"), "1") << path;
  }
  const std::string both = R"({"takes": [{"entries": {"ip": "a"}}, {"entries": {"ip": "b"}}])";
  EXPECT_EQ(ask(connection, post("/v1/take", both + "}")).status, 503);
  const HttpAnswer each = ask(connection, post("/v1/take", both + R"(, "mode": "each"})"));
  EXPECT_EQ(each.status, 503);
  EXPECT_TRUE(each.tells(R"("takes": [{"error": {)")) << each.body;
  EXPECT_EQ(ask(connection, post("/v1/batch", both + "}")).status, 200);
  EXPECT_EQ(ask(connection, get("/v1/health")).status, 503);
  world.store.fails = false;
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a"))).status, 200);
  EXPECT_EQ(left(world, by_ip("a")), 2);
}

TEST(HttpStore, AStoreErrorIsAnsweredByTheRulesOnStoreError) {
  World world({.rules =
                   "- { match: { a: '*' }, name: a, limit: { quota: 1, window: 1m }, "
                   "on_store_error: deny }\n- { match: { b: '*' }, name: b, limit: { quota: 1, "
                   "window: 1m }, on_store_error: allow }\n",
               .http = "{ on_store_error: deny }"});
  world.store.fails = true;
  const HttpAnswer denied = ask(world, post("/v1/take", R"({"entries": {"a": "x"}})"));
  EXPECT_EQ(denied.status, 429);
  EXPECT_EQ(denied.field("retry-after"), "1");
  EXPECT_EQ(ask(world, post("/v1/take", R"({"entries": {"b": "x"}})")).status, 200);
  EXPECT_EQ(ask(world, post("/v1/take", by_key("k", 9))).status, 429);
  // A put or a reset that was not done is not answered as if it was.
  EXPECT_EQ(ask(world, post("/v1/put", R"({"entries": {"b": "x"}})")).status, 503);
  EXPECT_EQ(ask(world, post("/v1/reset", by_key("k", 9))).status, 503);
  EXPECT_EQ(ask(world, get("/v1/health")).status, 503);
}

TEST(HttpGeneration, IsTheGenerationOfTheDecidingPolicy) {
  World world;
  EXPECT_TRUE(ask(world, post("/v1/take", by_ip("a"))).tells(R"("generation": 1})"));
  world.load(
      "- { match: { ip: '*' }, actor: ip, name: by-ip, limit: { quota: 9, window: 1m, "
      "algorithm: fixed_window } }\n");
  EXPECT_TRUE(
      ask(world, post("/v1/take", by_ip("a")))
          .tells(
              R"("limit": 9, "remaining": 7, "retry_after": 0, "reset_after": 60, "rule": "by-ip", "mode": "enforce", "generation": 2})"));
  EXPECT_EQ(ask(world, get("/v1/health")).body, R"({"status": "ok", "generation": 2})");
}

}  // namespace
}  // namespace sluice::http::exchange_test
