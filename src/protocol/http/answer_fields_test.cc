// The header fields about limits in answers, for different settings. Sessions, engine and table in
// memory, without sockets.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "protocol/http/http_text_test.h"

namespace sluice::http::answer_fields_test {
namespace {

using namespace session_world;

TEST(HttpAnswerFields, AreOfTheStylesInUse) {
  World world({.http = "{ headers: [x-ratelimit] }"});
  for (const auto& [n, remaining] : {std::pair(2, "1"), std::pair(2, "1"), std::pair(1, "0")}) {
    const HttpAnswer answer =
        ask(world, post("/v1/take", by_ip("a", ", \"n\": " + std::to_string(n))));
    EXPECT_EQ(answer.field("x-ratelimit-limit"), "3");
    EXPECT_EQ(answer.field("x-ratelimit-remaining"), remaining);
    EXPECT_EQ(answer.field("x-ratelimit-reset"), "60");
    EXPECT_FALSE(answer.has("retry-after"));
    EXPECT_FALSE(answer.has("ratelimit"));
  }
}

TEST(HttpAnswerFields, TellWhatTheQuotaCounts) {
  World world({.rules =
                   "- { match: { model: \"*\" }, name: tokens, actor: model, limits: [{ quota: "
                   "10, window: 1m, unit: tokens }, { quota: 20, window: 1h }, { quota: 5, "
                   "algorithm: concurrency, lease: 9s }] }\n"
                   "- { match: { bare: \"*\" }, name: bare, limit: { quota: 3, window: 1m } }\n"
                   "- { match: { one: \"*\" }, name: one, limit: { quota: 3, window: 1m, unit: "
                   "images } }\n",
               .http = "{ ratelimit: all }"});
  EXPECT_EQ(
      ask(world, post("/v1/take", R"({"entries": {"model": "m"}})")).field("ratelimit-policy"),
      R"("tokens";q=10;w=60;qu="tokens", "tokens-2";q=20;w=3600;qu="tokens", )"
      R"("tokens-3";q=5;qu="concurrent-requests")");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(
        ask(world, post("/v1/take", R"({"entries": {"one": "x"}})")).field("ratelimit-policy"),
        R"("one";q=3;w=60;qu="images")");
    EXPECT_EQ(
        ask(world, post("/v1/take", R"({"entries": {"bare": "x"}})")).field("ratelimit-policy"),
        R"("bare";q=3;w=60)");
  }
}

TEST(HttpAnswerFields, MayBeSwitchedOff) {
  World world({.http = "{ headers: [] }"});
  const std::string all = by_ip("a", ", \"n\": 3");
  for (const int status : {200, 429}) {
    const HttpAnswer answer = ask(world, post("/v1/take", all));
    EXPECT_EQ(answer.status, status);
    for (const auto& [name, value] : answer.fields)
      EXPECT_TRUE(name == "content-type" || name == "content-length" || name == "date" ||
                  name == "cache-control")
          << name;
  }
  EXPECT_TRUE(ask(world, post("/v1/take", all)).tells(R"("retry_after": 60)"));
  world.store.fails = true;
  EXPECT_FALSE(ask(world, post("/v1/take", all)).has("retry-after"));
  EXPECT_TRUE(ask(world, get("/v1/take")).has("allow")) << "what a status requires";
}

TEST(HttpAnswerFields, SpreadRetryAfterByRetryJitter) {
  World world({.http = "{ retry_jitter: 0.5, auth: { profiles: { web: { proxy: nginx } } } }"});
  const std::string all = by_ip("a", ", \"n\": 3");
  EXPECT_EQ(ask(world, post("/v1/take", all)).status, 200);
  std::set<int> told;
  for (int i = 0; i < 100; ++i) {
    const HttpAnswer answer = ask(world, post("/v1/take", all));
    EXPECT_TRUE(answer.tells(R"("retry_after": 60)")) << answer.body;
    EXPECT_TRUE(answer.field("ratelimit").ends_with(";t=60")) << answer.field("ratelimit");
    told.insert(std::stoi(answer.field("retry-after")));
  }
  EXPECT_GE(*told.begin(), 60);
  EXPECT_LE(*told.rbegin(), 90);
  EXPECT_GT(told.size(), 10u);
  told.clear();
  const std::string page =
      get("/auth/web", "X-Original-Method: GET\r\nX-Original-URI: /\r\nX-Real-IP: 192.0.2.1\r\n");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(world, page).status, 200);
  for (int i = 0; i < 100; ++i) told.insert(std::stoi(ask(world, page).field("retry-after")));
  EXPECT_GT(told.size(), 10u) << "of forward-auth as well";
}

TEST(HttpAnswerFields, HashThePartitionKey) {
  std::string of_one_server;
  for (int i = 0; i < 2; ++i) {
    World world({.http = "{ partition_keys: true, ratelimit: all }"});
    const auto key_of = [&](const std::string& ip) {
      const HttpAnswer answer = ask(world, post("/v1/take", by_ip(ip)));
      const std::string policy = answer.field("ratelimit-policy"),
                        limit = answer.field("ratelimit");
      const size_t at = policy.find(";pk=:");
      EXPECT_NE(at, std::string::npos) << policy;
      const std::string key = policy.substr(at + 5);
      EXPECT_EQ(key.size(), 13u) << "9 bytes, and the colon: " << key;
      EXPECT_TRUE(limit.ends_with(";pk=:" + key)) << limit;
      EXPECT_EQ(policy.find(ip), std::string::npos);
      return key;
    };
    const std::string one = key_of("10.0.0.1");
    EXPECT_EQ(key_of("10.0.0.1"), one);
    EXPECT_NE(key_of("10.0.0.2"), one);
    EXPECT_NE(of_one_server, one) << "each server has a secret of its own";
    of_one_server = one;
  }
}

// With the fields for a web page, over HTTP/2.
TEST(HttpAnswerFields, HaveRoomForAllStyles) {
  World world({.http = "{ headers: [ietf, x-ratelimit, retry-after], origins: ['http://a'], "
                       "partition_keys: true, ratelimit: all }"});
  Http2Client client(world);
  const std::string all = by_ip("a", ", \"n\": 3");
  for (const int status : {200, 429, 429}) {
    const HttpAnswer answer = client.ask("/v1/take", all, {{"origin", "http://a"}});
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(answer.field("x-ratelimit-limit"), "3");
    EXPECT_TRUE(answer.has("ratelimit") && answer.has("ratelimit-policy"));
    EXPECT_EQ(answer.has("retry-after"), status == 429);
  }
  EXPECT_FALSE(client.connection.is_closed());
}

}  // namespace
}  // namespace sluice::http::answer_fields_test
