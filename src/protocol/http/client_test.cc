// Which user a request is from: credentials, which of them a worker remembers, and how requests
// wait for a password that is being checked.
#include "protocol/http/client.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "protocol/http/http_text_test.h"

namespace sluice::http::client_test {
namespace {

using namespace session_world;
using access::Right;

std::shared_ptr<const access::Users> users(const std::string& password = "secret") {
  return std::make_shared<const access::Users>(std::vector<access::User>{
      {"app", {Right::take, Right::look}, "", password},
      {"ops", {Right::take, Right::put, Right::look, Right::admin}, "", "p:w"},
      {"see", {Right::look}, "", ""}});
}

// "app:secret" and "ops:p:w" in base64.
const std::string app = "Authorization: Basic YXBwOnNlY3JldA==\r\n",
                  ops = "Authorization: bearer ops:p:w\r\n";

// The answer to a request whose password must be checked first.
HttpAnswer ask_late(World& world, Connection& connection, const std::string& request) {
  EXPECT_EQ(connection.ask(request), "");
  world.run_posted();
  std::string text = connection.take();
  HttpAnswer answer = take_answer(text);
  EXPECT_EQ(text, "");
  return answer;
}

TEST(HttpClient, NeedsNoCredentialsWithoutUsers) {
  World world;
  Connection connection(world);
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a"))).status, 200);
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a"), app)).status, 200);
  EXPECT_EQ(ask(connection, post("/v1/explain", by_ip("a"))).status, 403);
}

TEST(HttpClient, IsTheUserOfTheAuthorizationField) {
  for (const std::string value : {"Basic YXBwOnNlY3JldA==", "basic  YXBwOnNlY3JldA",
                                  "Bearer app:secret", "BEARER YXBwOnNlY3JldA=="}) {
    World world({.users = users()});
    Connection connection(world);
    const HttpAnswer answer = ask_late(
        world, connection, post("/v1/take", by_ip("a"), "Authorization: " + value + "\r\n"));
    EXPECT_EQ(answer.status, 200) << value;
  }
}

TEST(HttpClient, AnswersAnUnknownUserWith401) {
  World world({.users = users()});
  Connection connection(world);
  for (const std::string value : {"", "Basic", "Basic !!!", "Basic YXBw", "Bearer", "Bearer app",
                                  "Digest app:secret", "Basic app:secret"}) {
    const HttpAnswer answer =
        ask(connection, post("/v1/take", by_ip("a"), "Authorization: " + value + "\r\n"));
    EXPECT_EQ(answer.status, 401) << value;
    EXPECT_EQ(answer.field("www-authenticate"), R"(Basic realm="sluice", charset="UTF-8")");
  }
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a"))).status, 401);
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a"),
                                 "Authorization: Bearer a:" + std::string(2'000, 'x') + "\r\n"))
                .status,
            401);
  EXPECT_EQ(ask_late(world, connection,
                     post("/v1/take", by_ip("a"), "Authorization: Bearer app:wrong\r\n"))
                .status,
            401);
  // Wrong passwords are remembered too.
  EXPECT_EQ(
      ask(connection, post("/v1/take", by_ip("a"), "Authorization: Bearer app:wrong\r\n")).status,
      401);
  EXPECT_EQ(ask(connection, get("/v1/health")).status, 200) << "it needs no user";
  EXPECT_EQ(left(world, by_ip("a")), -1);
}

TEST(HttpClient, ChecksAPasswordOncePerConnection) {
  World world({.users = users()});
  Connection connection(world);
  EXPECT_EQ(ask_late(world, connection, post("/v1/take", by_ip("a"), app)).status, 200);
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a"), app)).status, 200);
  Connection other(world);
  EXPECT_EQ(ask_late(world, other, post("/v1/take", by_ip("a"), app)).status, 200);
}

// Each request is by the user that it names, not by the user of the one before.
TEST(HttpClient, AllowsSeveralUsersOnOneConnection) {
  World world({.users = users()});
  Connection connection(world);
  EXPECT_EQ(ask_late(world, connection, post("/v1/take", by_ip("a"), app)).status, 200);
  EXPECT_EQ(ask(connection, post("/v1/put", by_ip("a"), app)).status, 403);
  EXPECT_EQ(ask_late(world, connection, post("/v1/put", by_ip("a"), ops)).status, 200);
  EXPECT_EQ(ask(connection, post("/v1/put", by_ip("a"), app)).status, 403);
  EXPECT_EQ(ask(connection, post("/v1/put", by_ip("a"))).status, 401);
  EXPECT_EQ(ask(connection, post("/v1/put", by_ip("a"), ops)).status, 200);
  EXPECT_EQ(ask(connection, post("/v1/explain", by_ip("a"), ops)).status, 200);
  EXPECT_EQ(ask(connection, post("/v1/explain", by_ip("a"), app)).status, 403);
}

TEST(HttpClient, ChecksAPasswordAgainWhenTheUsersChange) {
  World world({.users = users()});
  Connection connection(world);
  const std::string take = post("/v1/take", by_ip("a"), app);
  EXPECT_EQ(ask_late(world, connection, take).status, 200);
  world.access.set(users("another"));
  EXPECT_EQ(ask_late(world, connection, take).status, 401);
  world.access.set(std::make_shared<const access::Users>(
      std::vector<access::User>{{"ops", {Right::take}, "", "p:w"}}));
  EXPECT_EQ(ask_late(world, connection, take).status, 401) << "there is no such user";
  world.access.set(nullptr);
  EXPECT_EQ(ask(connection, take).status, 200) << "no user is required";
  world.access.set(users());
  EXPECT_EQ(ask_late(world, connection, take).status, 200);
}

TEST(HttpClient, HasIdsOfChargesOfItsOwn) {
  World world({.users = users()});
  Connection by_app(world), by_ops(world);
  const std::string body = R"({"entries": {"ip": "a"}, "n": 1, "id": "charge-0000-0001"})";
  EXPECT_EQ(ask_late(world, by_app, post("/v1/charge", body, app)).status, 200);
  const HttpAnswer other = ask_late(world, by_ops, post("/v1/charge", body, ops));
  EXPECT_EQ(other.status, 200);
  EXPECT_FALSE(other.tells("repeated")) << "another user's id";
  EXPECT_TRUE(ask(by_app, post("/v1/charge", body, app)).tells(R"("repeated": true)"));
}

// If the users change while a password is checked, the result does not count under the new list.
TEST(HttpClient, ChecksAPasswordAgainIfTheUsersChangeMeanwhile) {
  World world({.users = users()});
  Connection connection(world);
  EXPECT_EQ(connection.ask(post("/v1/take", by_ip("a"), app)), "");
  world.access.set(std::make_shared<const access::Users>(
      std::vector<access::User>{{"ops", {Right::take}, "", "p:w"}}));
  world.run_posted();
  std::string text = connection.take();
  if (text.empty()) {
    world.run_posted();
    text = connection.take();
  }
  EXPECT_EQ(take_answer(text).status, 401);
}

TEST(HttpClient, RemembersABoundedNumberOfCredentials) {
  World world({.users = users()});
  Connection connection(world);
  EXPECT_EQ(ask_late(world, connection, post("/v1/take", by_ip("a"), app)).status, 200);
  const auto wrong = [](size_t i) {
    return post("/v1/take", by_ip("a"),
                "Authorization: Bearer app:wrong" + std::to_string(i) + "\r\n");
  };
  for (size_t i = 0; i + 1 < Client::remembered_max; ++i)
    EXPECT_EQ(ask_late(world, connection, wrong(i)).status, 401);
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a"), app)).status, 200) << "used last";
  EXPECT_EQ(ask_late(world, connection, wrong(99)).status, 401);
  EXPECT_EQ(ask(connection, wrong(1)).status, 401);
  EXPECT_EQ(ask_late(world, connection, wrong(0)).status, 401) << "used longest ago";
}

TEST(HttpClient, Answers503WhenTooManyPasswordsAreBeingChecked) {
  World world({.users = users()});
  world.access.stop();
  // The thread that checks passwords has stopped, so these checks are never done.
  std::vector<std::unique_ptr<Connection>> connections;
  HttpAnswer refused;
  for (size_t i = 0; i <= access::Access::checks_of_source_max && refused.status == 0; ++i) {
    connections.push_back(std::make_unique<Connection>(world));
    std::string text = connections.back()->ask(post("/v1/take", by_ip("a"), app));
    refused = take_answer(text);
  }
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.field("retry-after"), "1");
}

// ---- Requests that wait for their user ----

TEST(HttpClient, APasswordCheckHoldsBackLaterPipelinedRequests) {
  World world({.users = users()});
  Connection connection(world);
  const std::string take = post("/v1/take", by_ip("a"), app);
  std::string text = connection.ask(get("/v1/health") + take + get("/v1/nothing") + take);
  EXPECT_EQ(take_answer(text).status, 200);
  EXPECT_EQ(text, "");
  EXPECT_EQ(connection.ask(take), "");
  world.run_posted();
  EXPECT_EQ(statuses_of(connection.take()), (std::vector{200, 404, 200, 200}));
}

TEST(HttpClient, ChecksThePasswordOfARequestInPieces) {
  for (const bool chunked : {false, true}) {
    for (const size_t piece : {1u, 30u, 100u}) {
      World world({.users = users()});
      Connection connection(world);
      const std::string body = by_ip("a");
      const std::string request =
          chunked
              ? "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
                    app + "Transfer-Encoding: chunked\r\n\r\n10\r\n" + body.substr(0, 16) +
                    "\r\n8\r\n" + body.substr(16) + "\r\n0\r\n\r\n"
              : post("/v1/take", body, app);
      ASSERT_EQ(body.size(), 24u);
      for (size_t at = 0; at < request.size(); at += piece)
        connection.send(request.substr(at, piece));
      connection.send(get("/v1/nothing") + request);
      EXPECT_EQ(connection.take(), "");
      world.run_posted();
      EXPECT_EQ(statuses_of(connection.take()), (std::vector{200, 404, 200})) << piece << chunked;
    }
  }
}

TEST(HttpClient, ChecksThePasswordOfEachPipelinedRequest) {
  World world({.users = users()});
  Connection connection(world);
  const std::string by_app = post("/v1/take", by_ip("a"), app),
                    by_ops = post("/v1/put", by_ip("a"), ops);
  EXPECT_EQ(connection.ask(by_app + by_ops + by_app), "");
  world.run_posted();
  EXPECT_EQ(statuses_of(connection.take()), std::vector{200});
  world.run_posted();
  EXPECT_EQ(statuses_of(connection.take()), (std::vector{200, 200}));
}

TEST(HttpClient, Sends100ContinueOnceDuringAPasswordCheck) {
  World world({.users = users()});
  const std::string request = post("/v1/take", by_ip("a"), app + "Expect: 100-continue\r\n");
  const size_t head = request.find("\r\n\r\n") + 4;
  {
    Connection connection(world);
    EXPECT_EQ(connection.ask(request.substr(0, head)), "HTTP/1.1 100 Continue\r\n\r\n");
    EXPECT_EQ(ask_late(world, connection, request.substr(head)).status, 200);
  }
  Connection connection(world);
  EXPECT_EQ(ask_late(world, connection, request).status, 200);
}

TEST(HttpClient, APasswordCheckHoldsBackLaterStreams) {
  World world({.users = users()});
  Http2Client client(world);
  const wire::http2_peer::Headers basic = {{"authorization", "Basic YXBwOnNlY3JldA=="}};
  uint32_t one = 0, two = 0, three = 0;
  std::string bytes = client.request("/v1/take", by_ip("a"), one, basic);
  bytes += client.request("/v1/take", by_ip("a"), two, basic);
  bytes += client.request("/v1/take", by_ip("a"), three);
  client.send(bytes);
  EXPECT_EQ(client.answer_of(one).status, 0);
  EXPECT_EQ(client.answer_of(three).status, 0);
  const uint32_t four = client.begin("/v1/take", by_ip("a"), basic);
  world.run_posted();
  EXPECT_EQ(client.answer_of(one).status, 200);
  EXPECT_EQ(client.answer_of(two).status, 200);
  EXPECT_EQ(client.answer_of(three).status, 401);
  EXPECT_EQ(client.answer_of(four).status, 200);
  EXPECT_FALSE(client.connection.session().has_more());
}

TEST(HttpClient, MayDisconnectDuringAPasswordCheck) {
  World world({.users = users()});
  {
    Connection connection(world);
    EXPECT_EQ(connection.ask(post("/v1/take", by_ip("a"), app)), "");
    Http2Client client(world);
    client.begin("/v1/take", by_ip("a"), {{"authorization", "Bearer app:secret"}});
  }
  EXPECT_EQ(world.engine().held(), engine::Engine::Held());
}

TEST(HttpClient, AStopAnswers503DuringAPasswordCheck) {
  World world({.users = users()});
  Connection connection(world);
  EXPECT_EQ(connection.ask(post("/v1/take", by_ip("a"), app)), "");
  connection.finish();
  EXPECT_EQ(statuses_of(connection.take()), std::vector{503});
  Http2Client client(world);
  const uint32_t one =
      client.begin("/v1/take", by_ip("a"), {{"authorization", "Bearer app:secret"}});
  const uint32_t two = client.begin("/v1/take", by_ip("a"));
  client.connection.finish();
  EXPECT_EQ(client.answer_of(one).status, 503);
  EXPECT_EQ(client.answer_of(two).status, 0) << "its bytes were not read";
  ASSERT_EQ(client.peer.goaways.size(), 1u);
  EXPECT_EQ(client.peer.goaways[0].first, one) << "so it may be sent again";
}

}  // namespace
}  // namespace sluice::http::client_test
