// Which paths and methods are answered, and how others are refused.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/http/exchange.h"
#include "protocol/http/http_text_test.h"

namespace sluice::http::route_test {
namespace {

using namespace session_world;

TEST(HttpRoute, MatchesTheWholePath) {
  EXPECT_EQ(find_route("/v1/take")->action, Action::take);
  EXPECT_EQ(find_route("/v1/health")->action, Action::health);
  for (const std::string path : {"/auth", "/auth/", "/auth/web", "/auth/web/more"})
    EXPECT_EQ(find_route(path)->action, Action::auth) << path;
  for (const std::string path : {"", "/", "/v1", "/v1/", "/v1/take/", "/v1/Take", "/v1//take",
                                 "/v1/take%20", "/authx", "/aut", "/v2/take"})
    EXPECT_EQ(find_route(path), nullptr) << path;
}

TEST(HttpRoute, ChargesAndReservationsNeedTheRightToTake) {
  for (const char* path : {"/v1/charge", "/v1/reserve", "/v1/extend", "/v1/renew", "/v1/commit",
                           "/v1/release", "/v1/acquire"})
    EXPECT_EQ(find_route(path)->right, access::Right::take) << path;
}

TEST(HttpRoute, HasTheMethodsThatItSays) {
  const Route& take = *find_route("/v1/take");
  EXPECT_TRUE(has_method(take, "POST"));
  EXPECT_TRUE(has_method(take, "OPTIONS"));
  for (const std::string method : {"GET", "HEAD", "PUT", "post", "POST,", "POST, OPTIONS", "", "P"})
    EXPECT_FALSE(has_method(take, method)) << method;
  EXPECT_TRUE(has_method(*find_route("/v1/health"), "HEAD"));
  EXPECT_TRUE(has_method(*find_route("/auth"), "ANYTHING"));
}

TEST(HttpRoute, AnswersByPathAndMethod) {
  World world;
  Connection connection(world);
  EXPECT_EQ(ask(connection, get("/v1/health")).body, R"({"status": "ok", "generation": 1})");
  EXPECT_EQ(ask(connection, get("/v1/health?x=y")).status, 200);
  const HttpAnswer api = ask(connection, get("/v1/openapi.json"));
  EXPECT_EQ(api.status, 200);
  EXPECT_EQ(api.field("content-type"), "application/json");
  EXPECT_TRUE(api.tells("\"openapi\""));
  const HttpAnswer method = ask(connection, get("/v1/take"));
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.field("allow"), "POST, OPTIONS");
  EXPECT_TRUE(method.tells("urn:sluice:problem:method-not-allowed"));
  EXPECT_EQ(ask(connection, post("/v1/health", "")).status, 405);
  EXPECT_EQ(ask(connection, post("/v1/nothing", "")).status, 404);
  EXPECT_EQ(ask(connection, get("/throttle")).status, 404) << "switched off";
  EXPECT_EQ(ask(connection, get("/health")).status, 404);
  EXPECT_EQ(ask(world, post("/v1/cancel", "{}")).status, 404);
}

TEST(HttpRoute, AnswersInvalidRequestsWithProblems) {
  World world;
  Connection connection(world);
  const auto problem = [&](const std::string& request) {
    const HttpAnswer answer = ask(connection, request);
    EXPECT_EQ(answer.field("content-type"), "application/problem+json") << request;
    EXPECT_EQ(answer.field("cache-control"), "no-store");
    EXPECT_TRUE(answer.tells("\"status\": " + std::to_string(answer.status))) << answer.body;
    return answer;
  };
  EXPECT_EQ(problem(post("/v1/take", "no json")).status, 400);
  EXPECT_EQ(problem(post("/v1/take", "")).status, 400);
  HttpAnswer answer = problem(post("/v1/take", R"({"entries": {"ip": "a"}, "quanity": 5})"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_TRUE(answer.tells(R"("pointer": "/quanity")")) << answer.body;
  answer = problem(post("/v1/take", by_key("k", 0)));
  EXPECT_EQ(answer.status, 400);
  EXPECT_TRUE(answer.tells(R"("pointer": "/limits/0/quota")")) << answer.body;
  EXPECT_EQ(problem(post("/v1/take?n=5", by_ip("a"))).status, 400);
  EXPECT_EQ(problem(post("/v1/take", by_ip("a"), "Content-Type: application/json\r\n")).status, 400)
      << "it comes twice";
  std::string typeless = post("/v1/take", by_ip("a"));
  typeless.replace(typeless.find("Content-Type"), 12, "Content-Tape");
  answer = problem(typeless);
  EXPECT_EQ(answer.status, 415);
  EXPECT_TRUE(answer.tells("-H 'Content-Type: application/json'")) << answer.body;
  answer = problem(post("/v1/take", by_ip("a"), "Content-Encoding: gzip\r\n"));
  EXPECT_EQ(answer.status, 415);
  EXPECT_TRUE(answer.tells("without `Content-Encoding`")) << answer.body;
  EXPECT_EQ(problem(post("/v1/take", by_ip("a"), "Accept: text/html\r\n")).status, 406);
  answer = ask(connection, post("/v1/take", "no json", "Accept: application/json\r\n"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.field("content-type"), "application/json");
  EXPECT_TRUE(answer.body.starts_with(R"({"detail": ")")) << answer.body;
  EXPECT_EQ(left(world, by_ip("a")), 3);
  EXPECT_FALSE(connection.is_closed());
}

}  // namespace
}  // namespace sluice::http::route_test
