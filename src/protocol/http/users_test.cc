// Which user a request is from, and what it may do.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "protocol/http/http_text_test.h"

namespace sluice::http::users_test {
namespace {

using namespace session_world;
using access::Right;

std::shared_ptr<const access::Users> users(const std::string& token = "secret") {
  return std::make_shared<const access::Users>(std::vector<access::User>{
      {"app", {Right::take, Right::look}, access::digest_of(token)},
      {"ops", {Right::take, Right::put, Right::look, Right::admin}, access::digest_of("p:w")},
      {"see", {Right::look}, access::digest_of("s")}});
}

// "app:secret" in base64.
const std::string app = "Authorization: Basic YXBwOnNlY3JldA==\r\n",
                  ops = "Authorization: bearer p:w\r\n";

TEST(HttpUsers, NeedNoTokenWhereThereAreNone) {
  World world;
  Connection connection(world);
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a"))).status, 200);
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a"), app)).status, 200);
  EXPECT_EQ(ask(connection, post("/v1/explain", by_ip("a"))).status, 403);
}

TEST(HttpUsers, AreThoseOfTheAuthorizationField) {
  World world({.users = users()});
  Connection connection(world);
  // The last two have no name: `:secret`, and `default:secret` where no user is `default`.
  for (const std::string value :
       {"Basic YXBwOnNlY3JldA==", "basic  YXBwOnNlY3JldA", "Bearer secret", "BEARER  secret",
        "Basic OnNlY3JldA==", "Basic ZGVmYXVsdDpzZWNyZXQ="}) {
    const HttpAnswer answer =
        ask(connection, post("/v1/peek", by_ip("a"), "Authorization: " + value + "\r\n"));
    EXPECT_EQ(answer.status, 200) << value;
  }
}

TEST(HttpUsers, AnUnknownOneIsAnsweredWith401) {
  World world({.users = users()});
  Connection connection(world);
  // "ops:secret": a right token, and a wrong name.
  for (const std::string& value :
       {std::string(), std::string("Basic"), std::string("Basic !!!"), std::string("Basic YXBw"),
        std::string("Bearer"), std::string("Bearer app"), std::string("Bearer app:secret"),
        std::string("Bearer YXBwOnNlY3JldA=="), std::string("Digest secret"),
        std::string("Basic app:secret"), std::string("Basic b3BzOnNlY3JldA=="),
        "Bearer " + std::string(2'000, 'x')}) {
    const HttpAnswer answer =
        ask(connection, post("/v1/take", by_ip("a"), "Authorization: " + value + "\r\n"));
    EXPECT_EQ(answer.status, 401) << value;
    EXPECT_EQ(answer.field("www-authenticate"), R"(Basic realm="sluice", charset="UTF-8")");
    EXPECT_FALSE(answer.tells("secret")) << value;
  }
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a"))).status, 401);
  EXPECT_EQ(ask(connection, get("/v1/health")).status, 200) << "it needs no user";
  EXPECT_EQ(left(world, by_ip("a")), -1);
}

// Each request is by the user that it names, not by the user of the one before.
TEST(HttpUsers, MayBeSeveralOnOneConnection) {
  World world({.users = users()});
  Connection connection(world);
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a"), app)).status, 200);
  EXPECT_EQ(ask(connection, post("/v1/put", by_ip("a"), app)).status, 403);
  EXPECT_EQ(ask(connection, post("/v1/put", by_ip("a"), ops)).status, 200);
  EXPECT_EQ(ask(connection, post("/v1/put", by_ip("a"), app)).status, 403);
  EXPECT_EQ(ask(connection, post("/v1/put", by_ip("a"))).status, 401);
  EXPECT_EQ(ask(connection, post("/v1/put", by_ip("a"), ops)).status, 200);
  EXPECT_EQ(ask(connection, post("/v1/explain", by_ip("a"), ops)).status, 200);
  EXPECT_EQ(ask(connection, post("/v1/explain", by_ip("a"), app)).status, 403);
  const std::string take = post("/v1/take", by_ip("a"), app),
                    put = post("/v1/put", by_ip("a"), ops);
  EXPECT_EQ(statuses_of(connection.ask(take + put + post("/v1/put", by_ip("a"), app) + take)),
            (std::vector{200, 200, 403, 200}));
}

TEST(HttpUsers, FollowTheLiveList) {
  World world({.users = users()});
  Connection connection(world);
  const std::string take = post("/v1/take", by_ip("a"), app);
  EXPECT_EQ(ask(connection, take).status, 200);
  world.access.set(users("another"));
  EXPECT_EQ(ask(connection, take).status, 401);
  world.access.set(std::make_shared<const access::Users>(
      std::vector<access::User>{{"ops", {Right::take}, access::digest_of("p:w")}}));
  EXPECT_EQ(ask(connection, take).status, 401) << "there is no such user";
  world.access.set(nullptr);
  EXPECT_EQ(ask(connection, take).status, 200) << "no user is required";
  world.access.set(users());
  EXPECT_EQ(ask(connection, take).status, 200);
}

TEST(HttpUsers, HaveIdsOfChargesOfTheirOwn) {
  World world({.users = users()});
  Connection by_app(world), by_ops(world);
  const std::string body = R"({"entries": {"ip": "a"}, "n": 1, "id": "charge-0000-0001"})";
  EXPECT_EQ(ask(by_app, post("/v1/charge", body, app)).status, 200);
  const HttpAnswer other = ask(by_ops, post("/v1/charge", body, ops));
  EXPECT_EQ(other.status, 200);
  EXPECT_FALSE(other.tells("repeated")) << "another user's id";
  EXPECT_TRUE(ask(by_app, post("/v1/charge", body, app)).tells(R"("repeated": true)"));
}

TEST(HttpUsers, AreThoseOfEachStream) {
  World world({.users = users()});
  Http2Client client(world);
  const wire::http2_peer::Headers basic = {{"authorization", "Basic YXBwOnNlY3JldA=="}};
  uint32_t one = 0, two = 0, three = 0;
  std::string bytes = client.request("/v1/take", by_ip("a"), one, basic);
  bytes += client.request("/v1/take", by_ip("a"), two);
  bytes += client.request("/v1/put", by_ip("a"), three, basic);
  client.send(bytes);
  EXPECT_EQ(client.answer_of(one).status, 200);
  EXPECT_EQ(client.answer_of(two).status, 401);
  EXPECT_EQ(client.answer_of(three).status, 403);
}

}  // namespace
}  // namespace sluice::http::users_test
