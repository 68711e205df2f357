// POST /v1/charge: units that were used are counted past the limit too, and once for each id.
// Sessions, engine and table in memory, without sockets.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "protocol/http/http_text_test.h"
#include "request/charge_ids.h"
#include "request/kept_verdict.h"

namespace sluice::http::charge_test {
namespace {

using namespace session_world;

const std::string id = "charge-0000-0001";

std::string with_id(const std::string& its_id, const std::string& body) {
  return body.substr(0, body.size() - 1) + R"(, "id": ")" + its_id + "\"}";
}

HttpAnswer charge(World& world, const std::string& body) {
  return ask(world, post("/v1/charge", body));
}

// The rules of a world with a limit of each algorithm, 100 units of each actor.
Setup each_algorithm() {
  std::string rules;
  for (const char* name : {"fixed_window", "aligned_window", "token_bucket", "sliding_window",
                           "sliding_log", "fixed_bucket"})
    rules += std::string("- { match: { ") + name + ": '*' }, actor: " + name + ", name: " + name +
             ", limit: { quota: 100, algorithm: " + name +
             (std::string_view(name) == "fixed_bucket" ? "" : ", window: 1h") + " } }\n";
  return {.rules = rules};
}

TEST(Charge, PassesTheLimitAndShowsTheDebt) {
  World world({.rules =
                   "- { match: { ip: '*' }, actor: ip, name: tok, limit: { quota: 100, window: "
                   "1h, algorithm: fixed_window } }\n"});
  HttpAnswer answer = charge(world, by_ip("a", R"(, "n": 90)"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body,
            R"({"charged": 90, "over": false, "limit": 100, "remaining": 10, "debt": 0, )"
            R"("retry_after": 0, "reset_after": 3600, "rule": "tok", "mode": "enforce", )"
            R"("generation": 1})");
  world.pass(second);
  answer = charge(world, by_ip("a", R"(, "n": 25)"));
  EXPECT_EQ(answer.status, 200) << "it has happened, so it is never a 429";
  EXPECT_EQ(answer.body,
            R"({"charged": 25, "over": true, "limit": 100, "remaining": 0, "debt": 15, )"
            R"("retry_after": 3599, "reset_after": 3599, "rule": "tok", "mode": "enforce", )"
            R"("generation": 1})");
  EXPECT_EQ(answer.field("ratelimit-policy"), "\"tok\";q=100;w=3600");
  EXPECT_EQ(answer.field("ratelimit"), "\"tok\";r=0;t=3599");
  EXPECT_FALSE(answer.has("retry-after"));
  EXPECT_EQ(answer.field("cache-control"), "no-store");
}

TEST(Charge, OwesNoMoreThanTheOverdraft) {
  World world({.rules =
                   "- { match: { ip: '*' }, actor: ip, name: tok, limit: { quota: 100, window: "
                   "1h, algorithm: fixed_window, overdraft: 20 } }\n"});
  EXPECT_EQ(charge(world, by_ip("a", R"(, "n": 500)")).body,
            R"({"charged": 120, "over": true, "limit": 100, "remaining": 0, "debt": 20, )"
            R"("retry_after": 3600, "reset_after": 3600, "rule": "tok", "mode": "enforce", )"
            R"("generation": 1})");
  EXPECT_TRUE(charge(world, by_ip("a", R"(, "n": 1)")).tells(R"("charged": 0, "over": true)"));
  // Limits along, also two lists for one counter in one request.
  const std::string limits =
      R"("limits": [{"quota": 10, "window": "1h", "overdraft": 0}, {"quota": 100, "window": "1d"}])";
  EXPECT_TRUE(charge(world, R"({"key": "k", "n": 25, )" + limits + "}")
                  .tells(R"({"charged": 10, "over": false)"));
  EXPECT_TRUE(
      ask(world, post("/v1/peek", R"({"key": "k", "n": 0, "detail": true, )" + limits + "}"))
          .tells(R"("remaining": 75)"));
  const std::string other = R"("limits": [{"quota": 5, "window": "1m", "overdraft": 3}])";
  const HttpAnswer both = charge(world, R"({"takes": [{"key": "j", "n": 25, )" + limits +
                                            R"(}, {"key": "j", "n": 9, )" + other + "}]}");
  EXPECT_TRUE(both.tells(R"("debt": 3)")) << both.body;
  EXPECT_TRUE(charge(world, R"({"key": "j", "n": 0, )" + other + "}").tells(R"("debt": 3)"));
  EXPECT_TRUE(charge(world, R"({"key": "j", "n": 0, )" + limits + "}").tells(R"("debt": 0)"));
  const std::string unlike = R"("limits": [{"quota": 5, "window": "1m", "overdraft": 4}])";
  EXPECT_EQ(
      charge(world, R"({"takes": [{"key": "j", )" + other + R"(}, {"key": "j", )" + unlike + "}]}")
          .status,
      400);
  // A take that counts.
  const std::string drains =
      R"({"key": "d", "limits": [{"quota": 10, "window": "1h", "over": "count", "overdraft": 0}])";
  EXPECT_EQ(ask(world, post("/v1/take", drains + R"(, "n": 25})")).status, 429);
  EXPECT_EQ(ask(world, post("/v1/take", drains + R"(, "n": 0})")).status, 200);
  EXPECT_EQ(ask(world, post("/v1/take", drains + R"(, "n": 1})")).status, 429);
}

TEST(Charge, AnotherOverdraftIsAnotherContent) {
  World world;
  const auto body = [](const std::string& overdraft) {
    return R"({"key": "k", "n": 25, "limits": [{"quota": 10, "window": "1h", "overdraft": )" +
           overdraft + "}]}";
  };
  EXPECT_EQ(charge(world, with_id(id, body("3"))).status, 200);
  const HttpAnswer again = charge(world, with_id(id, body("3")));
  EXPECT_TRUE(again.tells(R"("charged": 13)") && again.tells(R"("repeated": true)")) << again.body;
  EXPECT_EQ(charge(world, with_id(id, body("4"))).status, 409);
}

// Section 1.1: 90 of 100 used, then "look, work, charge 25" until the look refuses.
TEST(Charge, ALookBeforeTheWorkRefusesAfterTheFirstChargePastEachLimit) {
  World world(each_algorithm());
  for (const char* name : {"fixed_window", "aligned_window", "token_bucket", "sliding_window",
                           "sliding_log", "fixed_bucket"}) {
    const std::string subject = std::string(R"({"entries": {")") + name + R"(": "a"})";
    EXPECT_EQ(ask(world, post("/v1/take", subject + R"(, "n": 90})")).status, 200) << name;
    int streams = 0;
    while (streams < 10 && ask(world, post("/v1/peek", subject + "}")).tells("\"allowed\": true")) {
      ++streams;
      EXPECT_EQ(charge(world, subject + R"(, "n": 25})").status, 200) << name;
    }
    EXPECT_EQ(streams, 1) << name;
    EXPECT_EQ(ask(world, post("/v1/take", subject + R"(, "n": 0})")).status, 429) << name;
    EXPECT_EQ(ask(world, post("/v1/put", subject + R"(, "n": 16})")).status, 200) << name;
    EXPECT_EQ(ask(world, post("/v1/take", subject + "}")).status, 200) << name;
  }
}

TEST(Charge, WithTheUnitsLeftIsNotOver) {
  World world;
  const HttpAnswer answer = charge(world, by_ip("a", R"(, "n": 3)"));
  EXPECT_TRUE(answer.tells(R"("charged": 3, "over": false, "limit": 3, "remaining": 0, "debt": 0)"))
      << answer.body;
  EXPECT_TRUE(answer.tells(R"("retry_after": 60)")) << "until one unit would be granted";
  EXPECT_TRUE(charge(world, by_ip("a", R"(, "n": 0)")).tells(R"("charged": 0, "over": false)"));
  EXPECT_TRUE(charge(world, by_ip("a", R"(, "n": 1)")).tells(R"("over": true)"));
  EXPECT_TRUE(charge(world, by_ip("a", R"(, "n": 0)")).tells(R"("charged": 0, "over": true)"));
}

TEST(Charge, ShowsTheLimitThatTakesLongest) {
  World world({.rules = "- { match: { ip: '*' }, actor: ip, name: t, limits: [{ quota: 10, window: "
                        "1h, algorithm: fixed_window }, { quota: 5, window: 1m, algorithm: "
                        "fixed_window }] }\n"});
  HttpAnswer answer = charge(world, by_ip("a", R"(, "n": 7, "detail": true)"));
  EXPECT_TRUE(answer.tells(R"({"charged": 7, "over": true, "limit": 5, "remaining": 0, "debt": 2)"))
      << answer.body;
  EXPECT_TRUE(answer.tells(
      R"("limits": [{"name": "t", "over": false, "limit": 10, "remaining": 3, "debt": 0, )"
      R"("retry_after": 0, "reset_after": 3600, "algorithm": "fixed_window", "quota": 10, )"
      R"("window": 3600}, {"name": "t-2", "over": true, "limit": 5, "remaining": 0, "debt": 2, )"
      R"("retry_after": 60, "reset_after": 60, "algorithm": "fixed_window", "quota": 5, )"
      R"("window": 60}])"))
      << answer.body;
  answer = charge(world, by_ip("a", R"(, "n": 7)"));
  EXPECT_TRUE(answer.tells(R"("limit": 10, "remaining": 0, "debt": 4, "retry_after": 3600)"))
      << answer.body;
}

TEST(Charge, CountsAllOfSeveralSubjects) {
  World world;
  const HttpAnswer answer =
      charge(world, R"({"takes": [)" + by_ip("a", R"(, "n": 5)") + "," + by_key("k", 9) + "]}");
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body.starts_with(
      R"({"over": true, "takes": [{"charged": 5, "over": true, "limit": 3, "remaining": 0, )"
      R"("debt": 2)"))
      << answer.body;
  EXPECT_TRUE(answer.tells(R"({"charged": 1, "over": false, "limit": 9, "remaining": 8)"));
  EXPECT_TRUE(answer.body.ends_with(R"(], "generation": 1})")) << answer.body;
  EXPECT_EQ(left(world, by_key("k", 9)), 8);
  // One subject without a rule: nothing is charged.
  const HttpAnswer failed =
      charge(world, R"({"takes": [{"entries": {"x": "y"}}, )" + by_key("k", 9) + "]}");
  EXPECT_EQ(failed.status, 404);
  EXPECT_TRUE(failed.tells(R"("pointer": "/takes")")) << failed.body;
  EXPECT_EQ(left(world, by_key("k", 9)), 8);
}

// One counter with the limits of both lists: each part is charged to its own.
TEST(Charge, CountsTheListsOfOneKeyApart) {
  World world;
  const std::string requests =
      R"({"key": "t", "limits": [{"quota": 2, "window": "1h", "name": "requests"}])";
  const std::string tokens =
      R"({"key": "t", "limits": [{"quota": 1000, "window": "1d", "name": "tokens"}])";
  const std::string both =
      R"({"detail": true, "takes": [)" + requests + "}, " + tokens + R"(, "n": 700}]})";
  HttpAnswer answer = ask(world, post("/v1/take", both));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.tells(R"("remaining": 1, "retry_after": 0, "reset_after": 1800, "rule": )"
                           R"("requests")"))
      << answer.body;
  EXPECT_TRUE(answer.tells(R"("limits": [{"name": "tokens", "allowed": true, "limit": 1000, )"
                           R"("remaining": 300)"))
      << answer.body;
  EXPECT_EQ(answer.field("ratelimit-policy"), "\"requests\";q=2;w=3600, \"tokens\";q=1000;w=86400");
  EXPECT_EQ(ask(world, post("/v1/take", both)).status, 429) << "nothing is charged";
  EXPECT_EQ(left(world, requests + "}"), 1);
  EXPECT_EQ(left(world, tokens + "}"), 300);
  answer = charge(world, both);
  EXPECT_TRUE(
      answer.tells(R"({"charged": 1, "over": false, "limit": 2, "remaining": 0, "debt": 0)"))
      << answer.body;
  EXPECT_TRUE(
      answer.tells(R"({"charged": 700, "over": true, "limit": 1000, "remaining": 0, "debt": 400)"))
      << answer.body;
  answer = ask(world, post("/v1/take", R"({"takes": [)" + requests +
                                           R"(}, {"key": "t", "limits": )"
                                           R"([{"quota": 3, "window": "1h"}]}]})"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_TRUE(answer.tells("two different limits of one algorithm and window")) << answer.body;
}

TEST(Charge, CountsACounterTwiceThatIsNamedTwice) {
  World world;
  const HttpAnswer answer = charge(
      world, R"({"takes": [)" + by_ip("a", R"(, "n": 2)") + "," + by_ip("a", R"(, "n": 4)") + "]}");
  EXPECT_TRUE(answer.tells(R"([{"charged": 2, "over": true)")) << answer.body;
  EXPECT_TRUE(answer.tells(R"({"charged": 4, "over": true, "limit": 3, "remaining": 0, "debt": 3)"))
      << answer.body;
}

TEST(Charge, TakesNeitherAModeNorAll) {
  World world;
  for (const char* more : {R"(, "mode": "each")", R"(, "all": true)", R"(, "timeout": 1)"})
    EXPECT_EQ(charge(world, by_ip("a", more)).status, 400) << more;
  EXPECT_EQ(ask(world, get("/v1/charge")).status, 405);
  EXPECT_EQ(ask(world, post("/v1/take", with_id(id, by_ip("a")))).status, 400);
  EXPECT_EQ(left(world, by_ip("a")), 3);
}

TEST(Charge, ChargesNothingByRulesWithoutACounter) {
  World world({.rules = "- { match: { free: '*' }, name: free, unlimited: true }\n"
                        "- { match: { banned: '*' }, name: banned, deny: true }\n"});
  HttpAnswer answer = charge(world, R"({"entries": {"free": "a"}, "n": 7})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.tells(R"({"charged": 0, "over": false)")) << answer.body;
  EXPECT_TRUE(answer.tells(R"("rule": "free")")) << answer.body;
  answer = charge(world, R"({"entries": {"banned": "a"}, "n": 7})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.tells(R"({"charged": 0, "over": false)")) << answer.body;
  EXPECT_TRUE(answer.tells(R"("rule": "banned")")) << answer.body;
}

TEST(Charge, WithoutARuleIsAnsweredAsUnmatchedSaysAndIsNever429) {
  World world;
  EXPECT_EQ(charge(world, R"({"entries": {"x": "y"}})").status, 404);
  for (const char* unmatched : {"allow", "deny"}) {
    World other({.http = std::string("{ unmatched: ") + unmatched + " }"});
    const HttpAnswer answer = charge(other, R"({"entries": {"x": "y"}})");
    EXPECT_EQ(answer.status, 200) << unmatched;
    EXPECT_EQ(answer.body, R"({"charged": 0, "over": false, "rule": null, "generation": 1})");
  }
}

TEST(Charge, CountsShadowRulesAndRulesOfLimitsThatItBrings) {
  World world({.rules = "- { match: { ip: '*' }, actor: ip, name: s, mode: shadow, limit: { quota: "
                        "1, window: 1m, algorithm: fixed_window }, then: continue }\n"
                        "- { match: { ip: '*' }, actor: ip, name: e, limit: { quota: 9, window: "
                        "1m, algorithm: fixed_window } }\n"});
  HttpAnswer answer = charge(world, by_ip("a", R"(, "n": 5)"));
  EXPECT_TRUE(answer.tells(R"("over": false, "limit": 9, "remaining": 4)")) << answer.body;
  answer = charge(world, by_key("k", 2, R"(, "n": 5)"));
  EXPECT_TRUE(answer.tells(R"("charged": 5, "over": true, "limit": 2, "remaining": 0, "debt": 3)"))
      << answer.body;
  EXPECT_TRUE(answer.tells(R"("rule": "default")")) << answer.body;
}

TEST(Charge, ALimitThatCountsIsChargedTheTakesThatItRefuses) {
  World world;
  const auto body = [](const std::string& over, int n) {
    return R"({"key": ")" + over + R"(", "limits": [{"quota": 10, "window": "1m", "over": ")" +
           over + R"(", "algorithm": "fixed_window"}], "n": )" + std::to_string(n) + "}";
  };
  for (const char* over : {"count", "refuse"}) {
    EXPECT_EQ(ask(world, post("/v1/take", body(over, 8))).status, 200) << over;
    EXPECT_EQ(ask(world, post("/v1/take", body(over, 5))).status, 429) << over;
  }
  EXPECT_TRUE(charge(world, body("count", 0)).tells(R"("over": true)"));
  EXPECT_TRUE(charge(world, body("count", 0)).tells(R"("debt": 3)"));
  EXPECT_TRUE(
      charge(world, body("refuse", 0)).tells(R"("over": false, "limit": 10, "remaining": 2)"));
}

TEST(Charge, OverHttp2IsTheSame) {
  World world;
  Http2Client client(world);
  const HttpAnswer answer = client.ask("/v1/charge", with_id(id, by_ip("a", R"(, "n": 5)")));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.tells(R"("over": true)")) << answer.body;
  EXPECT_TRUE(client.ask("/v1/charge", with_id(id, by_ip("a", R"(, "n": 5)")))
                  .tells(R"("repeated": true)"));
}

// ---- Ids ----

TEST(ChargeId, IsCountedOnceAndAnsweredAsTheFirstTime) {
  World world;
  const std::string body = with_id(id, by_ip("a", R"(, "n": 5, "detail": true)"));
  const HttpAnswer first = charge(world, body);
  EXPECT_EQ(first.status, 200);
  EXPECT_FALSE(first.tells("repeated"));
  world.pass(5 * second);
  EXPECT_TRUE(charge(world, by_ip("a")).tells(R"("debt": 3)"));
  const HttpAnswer again = charge(world, body);
  EXPECT_EQ(again.status, 200);
  std::string expected = first.body;
  expected.insert(expected.find(R"(, "generation")"), R"(, "repeated": true)");
  EXPECT_EQ(again.body, expected) << "times and numbers are those of the first";
  for (const char* name : {"ratelimit", "ratelimit-policy", "content-type"})
    EXPECT_EQ(again.field(name), first.field(name));
  EXPECT_TRUE(charge(world, by_ip("a", R"(, "n": 0)")).tells(R"("debt": 3)"));
}

TEST(ChargeId, TheFormOfTheBodyDoesNotMatter) {
  World world({.rules = "- { match: { ip: '*', user: '*' }, actor: ip, name: t, limit: { quota: 9, "
                        "window: 1m, algorithm: fixed_window } }\n"});
  EXPECT_EQ(
      charge(world, R"({"entries": {"ip": "a", "user": "b"}, "n": 2, "id": ")" + id + "\"}").status,
      200);
  EXPECT_TRUE(charge(world, R"({ "id": ")" + id +
                                R"(", "detail": true, "entries": {"user": "b", "ip": "\u0061"}, )"
                                R"("n": 2.0 })")
                  .tells(R"("repeated": true)"));
}

TEST(ChargeId, WithAnotherContentIs409AndChargesNothing) {
  World world;
  EXPECT_EQ(charge(world, with_id(id, by_ip("a"))).status, 200);
  for (const std::string& other : {with_id(id, by_ip("a", R"(, "n": 2)")), with_id(id, by_ip("b")),
                                   with_id(id, by_key("a", 3))}) {
    const HttpAnswer answer = charge(world, other);
    EXPECT_EQ(answer.status, 409) << other;
    EXPECT_EQ(answer.field("content-type"), "application/problem+json");
    EXPECT_TRUE(answer.tells("urn:sluice:problem:id-in-use")) << answer.body;
  }
  EXPECT_EQ(left(world, by_ip("a")), 2);
  EXPECT_EQ(left(world, by_ip("b")), 3);
}

// A digest of 64 bits may be that of another content: here that of two subjects, where the answer
// that is kept has one.
TEST(ChargeId, AnotherContentWithTheSameDigestIs409AndChargesNothing) {
  World world;
  request::ChargeContent content;
  content.add_entries({{"ip", "a"}}, 1);
  content.add_entries({{"ip", "b"}}, 1);
  request::ChargeIds::Claim claim;
  ASSERT_EQ(world.ids->claim("", id, content.digest(), {now_us}, claim),
            request::ChargeIds::Found::first);
  request::Verdict one;
  one.charged.units = 1;
  std::string kept;
  request::append_kept(one, {now_us}, kept);
  claim.finish(kept, {now_us});
  const HttpAnswer answer =
      charge(world, with_id(id, R"({"takes": [)" + by_ip("a") + "," + by_ip("b") + "]}"));
  EXPECT_EQ(answer.status, 409) << answer.body;
  EXPECT_TRUE(answer.tells("urn:sluice:problem:id-in-use")) << answer.body;
  EXPECT_EQ(left(world, by_ip("a")), 3);
  EXPECT_EQ(left(world, by_ip("b")), 3);
}

TEST(ChargeId, SeveralSubjectsAreCountedOnce) {
  World world;
  const std::string body =
      with_id(id, R"({"takes": [)" + by_ip("a") + "," + by_key("k", 9, R"(, "n": 4)") + "]}");
  const HttpAnswer first = charge(world, body);
  const HttpAnswer again = charge(world, body);
  EXPECT_TRUE(again.body.ends_with(R"(], "repeated": true, "generation": 1})")) << again.body;
  EXPECT_EQ(again.body.substr(0, again.body.rfind(']')),
            first.body.substr(0, first.body.rfind(']')));
  EXPECT_EQ(left(world, by_ip("a")), 2);
  EXPECT_EQ(left(world, by_key("k", 9)), 5);
}

TEST(ChargeId, WhileTheFirstHasNoAnswerIs503AndChargedOnce) {
  World world;
  Connection first(world), other(world);
  world.store.settles = [](size_t) { return 0; };
  EXPECT_EQ(first.ask(post("/v1/charge", with_id(id, by_ip("a")))), "");
  EXPECT_EQ(other.ask(post("/v1/charge", with_id(id, by_ip("a")))), "");
  world.store.settles = [](size_t all) { return all; };
  world.store.name(1);
  world.settle();
  const auto early = answers_of(other.take());
  ASSERT_EQ(early.size(), 1u);
  EXPECT_EQ(early[0].status, 503);
  EXPECT_EQ(early[0].field("retry-after"), "1");
  EXPECT_TRUE(early[0].tells("has no answer yet")) << early[0].body;
  world.store.name(0);
  world.settle();
  EXPECT_EQ(statuses_of(first.take()), std::vector{200});
  EXPECT_TRUE(ask(other, post("/v1/charge", with_id(id, by_ip("a")))).tells(R"("repeated": true)"));
  EXPECT_EQ(left(world, by_ip("a")), 2);
}

TEST(ChargeId, PipelinedBehindTheFirstHasItsAnswer) {
  World world;
  Connection connection(world);
  const std::string request = post("/v1/charge", with_id(id, by_ip("a")));
  const auto answers = answers_of(connection.ask(request + request));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].status, 200);
  EXPECT_EQ(answers[1].status, 200);
  EXPECT_TRUE(answers[1].tells(R"("repeated": true)")) << answers[1].body;
  EXPECT_EQ(left(world, by_ip("a")), 2);
}

TEST(ChargeId, AFailedChargeMayBeSentAgain) {
  World world;
  world.store.fails = true;
  EXPECT_EQ(charge(world, with_id(id, by_ip("a"))).status, 503);
  world.store.fails = false;
  const HttpAnswer answer = charge(world, with_id(id, by_ip("a")));
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(answer.tells("repeated"));
  EXPECT_EQ(left(world, by_ip("a")), 2);
  // Neither is the id of a charge kept to which no rule applies, or that is malformed.
  EXPECT_EQ(charge(world, with_id("charge-0000-0002", R"({"entries": {"x": "y"}})")).status, 404);
  EXPECT_EQ(charge(world, with_id("charge-0000-0002", by_ip("a", R"(, "n": -1)"))).status, 400);
  EXPECT_EQ(world.ids->figures().remembered, 1u);
  EXPECT_EQ(world.ids->figures().under_way, 0u);
}

TEST(ChargeId, ARepeatedChargeFailsIfTheStoreCannotAnswer) {
  World world;
  EXPECT_EQ(charge(world, with_id(id, by_ip("a"))).status, 200);
  world.store.fails = true;
  EXPECT_EQ(charge(world, with_id(id, by_ip("a"))).status, 503);
  world.store.fails = false;
  EXPECT_TRUE(charge(world, with_id(id, by_ip("a"))).tells(R"("repeated": true)"));
}

// The store is shared by several servers, and remembers the id with the charge.
TEST(ChargeId, AnotherServersChargeIsAnsweredAsRepeated) {
  World world;
  std::vector<std::string> names;
  world.store.knows = [&](const request::ChargeId& known) {
    names.emplace_back(known.name);
    return request::Known::yes;
  };
  const HttpAnswer answer = charge(world, with_id(id, by_ip("a", R"(, "n": 2)")));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.tells(R"("charged": 2, "over": false)")) << answer.body;
  EXPECT_TRUE(answer.tells(R"("repeated": true)")) << answer.body;
  EXPECT_EQ(charge(world, with_id(id, by_ip("a", R"(, "n": 2)"))).body, answer.body);
  EXPECT_EQ(names, std::vector{":" + id}) << "the second answer is this server's";
  // All subjects of a request have the id.
  names.clear();
  const std::string both = R"({"takes": [)" + by_ip("a") + "," + by_key("k", 9) + "]}";
  EXPECT_TRUE(charge(world, with_id("charge-0000-0002", both)).tells(R"("repeated": true)"));
  EXPECT_EQ(names, std::vector<std::string>{":charge-0000-0002"});
  EXPECT_FALSE(charge(world, by_ip("b")).tells("repeated")) << "without an id";
}

TEST(ChargeId, AnotherServersIdWithAnotherContentIs409) {
  World world;
  world.store.knows = [](const request::ChargeId&) { return request::Known::other_content; };
  const HttpAnswer answer = charge(world, with_id(id, by_ip("a")));
  EXPECT_EQ(answer.status, 409) << answer.body;
  EXPECT_TRUE(answer.tells("urn:sluice:problem:id-in-use")) << answer.body;
  EXPECT_EQ(world.ids->figures().remembered + world.ids->figures().under_way, 0u);
}

TEST(ChargeId, AConnectionThatIsCutBeforeTheDecisionLeavesNothing) {
  World world;
  auto first = std::make_unique<Connection>(world);
  world.store.settles = [](size_t) { return 0; };
  EXPECT_EQ(first->ask(post("/v1/charge", with_id(id, by_ip("a")))), "");
  world.store.settles = [](size_t all) { return all; };
  first.reset();
  EXPECT_EQ(world.ids->figures().under_way, 0u);
  const HttpAnswer answer = charge(world, with_id(id, by_ip("a")));
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(answer.tells("repeated")) << "it was not charged before";
  EXPECT_EQ(left(world, by_ip("a")), 2);
}

TEST(ChargeId, AnAnswerThatTheClientNeverReadIsAnsweredAgain) {
  World world;
  {
    Connection connection(world);
    connection.send(post("/v1/charge", with_id(id, by_ip("a"))));
  }
  EXPECT_TRUE(charge(world, with_id(id, by_ip("a"))).tells(R"("repeated": true)"));
  EXPECT_EQ(left(world, by_ip("a")), 2);
}

TEST(ChargeId, OutlivesAReloadThatChangesOrRemovesTheRule) {
  World world;
  const HttpAnswer first = charge(world, with_id(id, by_ip("a", R"(, "n": 2)")));
  for (const char* rules :
       {"- { match: { ip: '*' }, actor: ip, name: by-ip, limit: { quota: 1000, window: 1h } }\n",
        "- { match: { user: '*' }, actor: user, name: u, limit: { quota: 1, window: 1h } }\n"}) {
    world.load(rules);
    const HttpAnswer again = charge(world, with_id(id, by_ip("a", R"(, "n": 2)")));
    EXPECT_EQ(again.status, 200) << again.body;
    EXPECT_TRUE(again.tells(R"("charged": 2, "over": false, "limit": 3, "remaining": 1)"))
        << again.body;
    EXPECT_TRUE(again.body.ends_with(R"("repeated": true, "generation": 1})")) << again.body;
    EXPECT_EQ(again.field("ratelimit"), first.field("ratelimit"));
  }
}

TEST(ChargeId, IsKnownForTenMinutes) {
  World world;
  EXPECT_EQ(charge(world, with_id(id, by_ip("a"))).status, 200);
  world.pass(599 * second);
  EXPECT_TRUE(charge(world, with_id(id, by_ip("a"))).tells(R"("repeated": true)"));
  world.pass(second);
  EXPECT_FALSE(charge(world, with_id(id, by_ip("a"))).tells("repeated"));
}

TEST(ChargeId, ABadIdIsRefused) {
  World world;
  for (const std::string wrong : {"short", "with blank 000000", "dot.0000000000000"}) {
    const HttpAnswer answer = charge(world, with_id(wrong, by_ip("a")));
    EXPECT_EQ(answer.status, 400) << wrong;
    EXPECT_TRUE(answer.tells(R"("pointer": "/id")")) << answer.body;
  }
  EXPECT_EQ(left(world, by_ip("a")), 3);
}

TEST(ChargeId, IsRefusedWithoutRoomForANewOne) {
  World world;
  world.ids = std::make_unique<request::ChargeIds>(request::ChargeIds::Bounds{.bytes = 0});
  const HttpAnswer answer = charge(world, with_id(id, by_ip("a")));
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.field("retry-after"), "1");
  EXPECT_EQ(left(world, by_ip("a")), 3);
}

}  // namespace
}  // namespace sluice::http::charge_test
