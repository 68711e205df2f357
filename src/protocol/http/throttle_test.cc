// POST /throttle and GET /health as in throttlecrab, and takes by GET. Sessions, engine and table
// in memory, without sockets.
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "protocol/http/http_text_test.h"
#include "tests/support/dice.h"

namespace sluice::http::throttle_test {
namespace {

using namespace session_world;

const Setup with_twin{.http = "{ twins: [throttlecrab] }"};

std::string crab(const std::string& key, const std::string& more = {}) {
  return R"({"key": ")" + key + R"(", "max_burst": 3, "count_per_period": 6, "period": 60)" + more +
         "}";
}

TEST(HttpThrottle, AnswersAsThrottlecrabDoes) {
  World world(with_twin);
  const HttpAnswer first = ask(world, post("/throttle", crab("k")));
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.field("content-type"), "application/json");
  EXPECT_EQ(first.field("cache-control"), "no-store");
  EXPECT_EQ(
      first.body,
      R"({"allowed": true, "limit": 3, "remaining": 2, "reset_after": 20, "retry_after": 0})");
  EXPECT_EQ(
      ask(world, post("/throttle", crab("k", R"(, "quantity": 2)"))).body,
      R"({"allowed": true, "limit": 3, "remaining": 0, "reset_after": 40, "retry_after": 0})");
  const HttpAnswer denied = ask(world, post("/throttle", crab("k", R"(, "quantity": null)")));
  EXPECT_EQ(denied.status, 200) << "also when it is denied";
  EXPECT_EQ(
      denied.body,
      R"({"allowed": false, "limit": 3, "remaining": 0, "reset_after": 40, "retry_after": 10})");
  EXPECT_TRUE(ask(world, post("/throttle", crab("other", R"(, "unknown": [1])"))).tells("true"));
  Http2Client client(world);
  EXPECT_EQ(client.ask("/throttle", crab("k")).body, denied.body);
}

// A body is read in one of two ways: as clients write it, or as a tree. A member that is not known
// forces the second.
TEST(HttpThrottle, BothReadersOfABodyAgree) {
  tests::Dice dice(7);
  const auto any = [&](std::initializer_list<const char*> texts) {
    return std::string(texts.begin()[dice(static_cast<int>(texts.size()))]);
  };
  World one(with_twin), other(with_twin);
  int allowed = 0, problems = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string members;
    const auto add = [&](const std::string& member) {
      members += (members.empty() ? "" : any({",", ", ", " ,\n"})) + member;
    };
    const auto number = [&] {
      return any({"1",
                  "2",
                  "3",
                  "60",
                  "7",
                  "1",
                  "2",
                  "0",
                  "-0",
                  "-1",
                  "1.0",
                  "1e2",
                  "01",
                  "null",
                  "9223372036854775807",
                  "9223372036854775808",
                  "-9223372036854775808",
                  "\"1\"",
                  "true",
                  "[1]",
                  "{}",
                  "",
                  "+1",
                  "2"});
    };
    for (const char* name : {"key", "max_burst", "count_per_period", "period", "quantity"}) {
      const bool is_key = name == std::string("key");
      const int times = dice(12) == 0 ? dice(3) : name == std::string("quantity") ? dice(2) : 1;
      for (int i = 0; i < times; ++i)
        add('"' + std::string(name) + '"' + any({":", ": ", " : "}) +
            (is_key ? any({"\"k\"", "\"l\"", "\"\\u006b\"", "\"\"", "\"\xff\"", "\"\xc3\xa9\"",
                           "\"a\nb\"", "3"})
             : dice(4) == 0 ? number()
                            : any({"1", "2", "3", "60"})));
    }
    const std::string end = any({"}", "}", "}", "} ", "}x", "}}", "", ",}"});
    const std::string begin = any({"{", "{", "{", " {", "[", "\xef\xbb\xbf{"});
    const HttpAnswer plain = ask(one, post("/throttle", begin + members + end));
    add("\"unknown\": 1");
    const HttpAnswer tree = ask(other, post("/throttle", begin + members + end));
    EXPECT_EQ(plain.status, tree.status) << members;
    ASSERT_EQ(plain.body, tree.body) << begin << members << end;
    allowed += plain.tells("\"allowed\": true");
    problems += plain.status == 400;
    one.pass(7'000'000);  // the clock of both
  }
  EXPECT_GT(allowed, 1'000);
  EXPECT_GT(problems, 1'000);
}

TEST(HttpThrottle, AQuantityOfZeroIsAPeek) {
  World world(with_twin);
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(ask(world, post("/throttle", crab("k", R"(, "quantity": 0)"))).tells("true"));
  EXPECT_TRUE(ask(world, post("/throttle", crab("k"))).tells(R"("remaining": 2)"));
}

TEST(HttpThrottle, ReportsErrorsInItsOwnForm) {
  World world(with_twin);
  for (
      const auto& [body, error] : std::vector<std::pair<std::string, std::string>>{
          {"", "the body must be an object of JSON"},
          {"[]", "the body must be an object of JSON"},
          {"{", "the body must be an object of JSON"},
          {R"({"max_burst": 3})", "`key` must be a text"},
          {R"({"key": 3})", "`key` must be a text"},
          {R"({"key": "k"})", "`max_burst` must be a whole number"},
          {R"({"key": "k", "max_burst": 1.5})", "`max_burst` must be a whole number"},
          {R"({"key": "k", "max_burst": 1})", "`count_per_period` must be a whole number"},
          {R"({"key": "k", "max_burst": 1, "count_per_period": 1})",
           "`period` must be a whole number"},
          {R"({"key": "k", "max_burst": 18446744073709551615, "count_per_period": 1, "period": 1})",
           "`max_burst` must be a whole number"},
          {crab("k", R"(, "quantity": -1)"), "negative quantity: -1"},
          {crab("k", R"(, "quantity": "2")"), "`quantity` must be a whole number"},
          {R"({"key": "k", "max_burst": 0, "count_per_period": 1, "period": 1})",
           "invalid rate limit parameters"},
          {R"({"key": "k", "max_burst": 1, "count_per_period": 0, "period": 1})",
           "invalid rate limit parameters"},
          {R"({"key": "k", "max_burst": 1, "count_per_period": 1, "period": -1})",
           "invalid rate limit parameters"}}) {
    const HttpAnswer answer = ask(world, post("/throttle", body));
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(answer.field("content-type"), "application/json");
    EXPECT_EQ(answer.body, R"({"error": ")" + error + "\"}") << body;
  }
  const HttpAnswer typed = ask(world,
                               "POST /throttle HTTP/1.1\r\nHost: localhost\r\n"
                               "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(typed.status, 415);
  EXPECT_TRUE(typed.body.starts_with(R"({"error": ")")) << typed.body;
  EXPECT_EQ(ask(world, get("/throttle")).status, 405);
  EXPECT_TRUE(ask(world, post("/throttle", crab("k"))).tells(R"("remaining": 2)"))
      << "nothing was charged";
}

TEST(HttpThrottle, IsDecidedByRulesOfThePolicyFirst) {
  World world({.rules = "- { match: { http: throttle, key: 'vip*' }, unlimited: true }\n"
                        "- { match: { http: throttle, key: 'bad*' }, deny: true }\n",
               .http = "{ twins: [throttlecrab] }"});
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(ask(world, post("/throttle", crab("vip", R"(, "quantity": 3)"))).tells("true"));
  const HttpAnswer bad = ask(world, post("/throttle", crab("bad")));
  EXPECT_EQ(bad.status, 200);
  EXPECT_TRUE(bad.tells(R"("allowed": false)")) << bad.body;
  EXPECT_TRUE(bad.tells(R"("retry_after": -1)")) << bad.body;
}

TEST(HttpThrottle, AStoreErrorIs503) {
  World world(with_twin);
  world.store.fails = true;
  const HttpAnswer answer = ask(world, post("/throttle", crab("k")));
  EXPECT_EQ(answer.status, 503);
  EXPECT_TRUE(answer.body.starts_with(R"({"error": ")")) << answer.body;
  EXPECT_EQ(ask(world, get("/health")).status, 503);
  world.store.fails = false;
  EXPECT_EQ(ask(world, get("/health")).body, R"({"status": "ok", "generation": 1})");
  EXPECT_EQ(ask(world, get("/health", "", "HEAD")).status, 200);
}

TEST(HttpThrottle, IsNotThereUnlessItIsSwitchedOn) {
  World world;
  for (const std::string& request : {post("/throttle", crab("k")), get("/health")}) {
    const HttpAnswer answer = ask(world, request);
    EXPECT_EQ(answer.status, 404);
    EXPECT_TRUE(answer.tells("urn:sluice:problem:not-found")) << answer.body;
  }
}

// ---- Takes by GET ----

TEST(HttpGetTake, TakesByTheQuery) {
  World world({.http = "{ get_takes: true }"});
  const HttpAnswer first = ask(world, get("/v1/take?entry=ip=10.0.0.1&n=2"));
  EXPECT_EQ(first.status, 200);
  EXPECT_TRUE(first.tells(R"("remaining": 1)")) << first.body;
  EXPECT_EQ(first.field("cache-control"), "no-store");
  EXPECT_EQ(ask(world, get("/v1/take?entry=ip=10.0.0.1&n=2")).status, 429);
  EXPECT_EQ(ask(world, get("/v1/take?entry=ip=10.0.0.1&n=2&status=200")).status, 200);
  const HttpAnswer head = ask(world, get("/v1/take?entry=ip=10.0.0.1", "", "HEAD"));
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
  EXPECT_EQ(left(world, by_ip("10.0.0.1")), 0) << "HEAD takes as well";
  EXPECT_EQ(ask(world, get("/v1/take?entry=ip=10.0.0.1", "", "HEAD")).status, 429);
  const std::string key = "/v1/take?key=a%20b%2Bc+d%22&limit=2&window=1m&algorithm=fixed_window";
  EXPECT_TRUE(ask(world, get(key)).tells(R"("remaining": 1)"));
  EXPECT_EQ(left(world, by_key("a b+c d\\\"", 2)), 1) << "the same counter as by POST";
  EXPECT_TRUE(ask(world, get("/v1/take?key=k&limit=1&window=1m&burst=5")).tells(R"("limit": 5)"));
}

TEST(HttpGetTake, RejectsUnknownParameters) {
  World world({.http = "{ get_takes: true }"});
  std::string many = "/v1/take?entry=a=0";
  for (int i = 1; i <= 256; ++i) many += "&entry=a" + std::to_string(i) + "=x";
  for (const std::string& path :
       {std::string("/v1/take"), std::string("/v1/take?entry=ip"), std::string("/v1/take?entry==x"),
        std::string("/v1/take?entry=ip=a&entry=ip=b"), std::string("/v1/take?entry=ip=a&m=1"),
        std::string("/v1/take?entry=ip=%zz"), std::string("/v1/take?entry=ip=a&n=-1"),
        std::string("/v1/take?entry=ip=a&n=1&n=2"), std::string("/v1/take?entry=ip=a&n="),
        std::string("/v1/take?entry=ip=a&status=429"), std::string("/v1/take?key=k"),
        std::string("/v1/take?entry=ip=a&key=k&limit=1&window=1m"),
        std::string("/v1/take?entry=ip=a&n=99999999999999999999"), many}) {
    const HttpAnswer answer = ask(world, get(path));
    EXPECT_EQ(answer.status, 400) << path.substr(0, 80) << " " << answer.body;
  }
  EXPECT_EQ(left(world, by_ip("a")), 3) << "nothing was charged";
  for (const char* path : {"/v1/peek?entry=ip=a", "/v1/put?entry=ip=a", "/v1/wait?entry=ip=a"})
    EXPECT_EQ(ask(world, get(path)).status, 405) << path;
  EXPECT_EQ(ask(world, get("/v1/take", "", "OPTIONS")).field("allow"), "GET, HEAD, POST, OPTIONS");
}

TEST(HttpGetTake, Is405UnlessItIsSwitchedOn) {
  World world;
  const HttpAnswer answer = ask(world, get("/v1/take?entry=ip=a"));
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.field("allow"), "POST, OPTIONS");
  EXPECT_EQ(left(world, by_ip("a")), 3);
}

}  // namespace
}  // namespace sluice::http::throttle_test
