// Connections of HTTP/1.1 and 1.0 without sockets: the order of answers, ends, bodies in pieces,
// and what closes a connection.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/http/http_text_test.h"
#include "protocol/http/session.h"

namespace sluice::http::http1_session_test {
namespace {

using namespace session_world;

const std::string take = post("/v1/take", by_ip("a"));
constexpr std::string_view go_ahead = "HTTP/1.1 100 Continue\r\n\r\n";

std::vector<std::string> remaining_of(const std::string& text) {
  std::vector<std::string> all;
  for (const HttpAnswer& answer : answers_of(text)) {
    const size_t at = answer.body.find("\"remaining\": ");
    all.push_back(at == std::string::npos ? std::to_string(answer.status)
                                          : answer.body.substr(at + 13, 1));
  }
  return all;
}

TEST(Http1Connection, AnswersInTheOrderOfRequests) {
  World world;
  Connection connection(world);
  EXPECT_EQ(remaining_of(
                connection.ask(take + get("/v1/nothing") + take + get("/v1/health") + take + take)),
            (std::vector<std::string>{"2", "404", "1", "200", "0", "0"}));
  EXPECT_FALSE(connection.is_closed());
}

TEST(Http1Connection, AnswersInOrderIfTheStoreAnswersLate) {
  World world;
  Connection connection(world);
  world.store.settles = [](size_t all) { return std::min<size_t>(all, 1); };
  EXPECT_EQ(remaining_of(
                connection.ask(take + get("/v1/nothing") + take + get("/v1/openapi.json") + take)),
            (std::vector<std::string>{"2", "404"}));
  EXPECT_EQ(connection.ask(take), "") << "one batch of a connection is under way at a time";
  ASSERT_EQ(world.store.asked(), 1u);
  world.store.name(0);
  world.settle();
  std::string text = connection.take();
  EXPECT_TRUE(take_answer(text).tells(R"("remaining": 1)"));
  EXPECT_EQ(take_answer(text).status, 200);
  world.store.name(0);
  world.settle();
  EXPECT_EQ(remaining_of(connection.take()), (std::vector<std::string>{"0", "0"}));
  EXPECT_EQ(world.engine().held(), engine::Engine::Held());
}

TEST(Http1Connection, AWaitDelaysLaterPipelinedRequests) {
  World world;
  Connection connection(world);
  const std::string wait = post("/v1/wait", by_ip("a"));
  EXPECT_EQ(remaining_of(connection.ask(take + take + take + wait + get("/v1/nothing") + take)),
            (std::vector<std::string>{"2", "1", "0"}));
  EXPECT_EQ(connection.ask(take), "") << "it waits as well";
  EXPECT_EQ(world.waiting(), 1u);
  Connection other(world, "127.0.0.1:2");
  EXPECT_EQ(ask(other, post("/v1/put", by_ip("a"))).status, 200);
  EXPECT_EQ(remaining_of(connection.take()), (std::vector<std::string>{"0", "404", "0", "0"}));
  EXPECT_EQ(world.waiting(), 0u);
  EXPECT_FALSE(connection.is_closed());
}

TEST(Http1Connection, EndsAfterTheAnswerIfTheRequestSaysClose) {
  World world;
  {
    Connection connection(world);
    const std::string text =
        connection.ask(take + post("/v1/take", by_ip("a"), "Connection: close\r\n") + take);
    const auto answers = answers_of(text);
    ASSERT_EQ(answers.size(), 2u);
    EXPECT_FALSE(answers[0].has("connection"));
    EXPECT_EQ(answers[1].field("connection"), "close");
    EXPECT_TRUE(connection.is_closed());
    EXPECT_EQ(connection.fault(), "");
  }
  EXPECT_EQ(left(world, by_ip("a")), 1) << "what is behind is not charged";
}

TEST(Http1Connection, KeepsHttp10OnlyIfTheRequestSaysKeepAlive) {
  World world;
  {
    Connection connection(world);
    const HttpAnswer answer = ask(connection, "GET /v1/health HTTP/1.0\r\n\r\n");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.field("connection"), "close");
    EXPECT_TRUE(connection.is_closed());
  }
  Connection connection(world);
  const HttpAnswer answer =
      ask(connection, "GET /v1/health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(answer.field("connection"), "keep-alive");
  EXPECT_FALSE(connection.is_closed());
  EXPECT_EQ(ask(connection, take).status, 200);
}

// The answer to the wait is sent, and is the last.
TEST(Http1Connection, AnswersAWaitBeforeItCloses) {
  for (const std::string more : {"Connection: close\r\n", ""}) {
    World world;
    Connection connection(world);
    EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a", R"(, "n": 3)"))).status, 200);
    std::string wait = post("/v1/wait", by_ip("a"), more);
    if (more.empty()) wait.replace(wait.find("HTTP/1.1"), 8, "HTTP/1.0");
    EXPECT_EQ(connection.ask(wait + take), "");
    EXPECT_FALSE(connection.is_closed());
    EXPECT_EQ(world.waiting(), 1u);
    EXPECT_EQ(ask(world, post("/v1/put", by_ip("a"))).status, 200);
    const auto answers = answers_of(connection.take());
    ASSERT_EQ(answers.size(), 1u) << more;
    EXPECT_EQ(answers[0].status, 200);
    EXPECT_EQ(answers[0].field("connection"), "close");
    EXPECT_TRUE(connection.is_closed());
    EXPECT_EQ(world.waiting(), 0u);
  }
}

TEST(Http1Connection, AnswersHeadWithoutABody) {
  World world;
  Connection connection(world);
  std::string text = connection.ask(get("/v1/health", "", "HEAD") + get("/v1/health"));
  const HttpAnswer head = take_answer(text, true);
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.field("content-length"), "0");
  const HttpAnswer whole = take_answer(text);
  EXPECT_EQ(head.field("content-length"), whole.field("content-length"));
  EXPECT_EQ(text, "");
  text = connection.ask(get("/v1/nothing", "", "HEAD") + get("/v1/nothing"));
  EXPECT_EQ(take_answer(text, true).status, 404);
  EXPECT_EQ(take_answer(text).status, 404);
  EXPECT_EQ(text, "");
}

TEST(Http1Connection, AnswersOptionsWithoutABody) {
  World world;
  Connection connection(world);
  const HttpAnswer answer = ask(connection, get("/v1/take", "", "OPTIONS"));
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer.field("allow"), "POST, OPTIONS");
  EXPECT_FALSE(answer.has("content-length"));
  EXPECT_FALSE(answer.has("access-control-allow-origin"));
  EXPECT_EQ(ask(connection, get("/v1/health", "", "OPTIONS")).field("allow"), "GET, HEAD, OPTIONS");
}

// ---- Bodies ----

TEST(Http1Connection, TakesABodyInPieces) {
  World world;
  for (const size_t piece : {1u, 2u, 7u, 50u}) {
    Connection connection(world);
    const std::string request = post("/v1/take", by_ip("p" + std::to_string(piece)));
    for (size_t at = 0; at < request.size(); at += piece) {
      EXPECT_EQ(connection.take(), "");
      connection.send(request.substr(at, piece));
    }
    EXPECT_EQ(remaining_of(connection.take()), (std::vector<std::string>{"2"}));
    EXPECT_EQ(connection.session().state().unfinished_bytes, 0u);
  }
}

TEST(Http1Connection, TakesAChunkedBody) {
  World world;
  Connection connection(world);
  const std::string body = by_ip("a");
  std::string request =
      "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  for (const char c : body) request += std::string("1;x=y\r\n") + c + "\r\n";
  request += "0\r\nTrailer: x\r\n\r\n";
  EXPECT_EQ(remaining_of(connection.ask(request + take)), (std::vector<std::string>{"2", "1"}));
  for (const char c : request) connection.send(std::string_view(&c, 1));
  EXPECT_EQ(remaining_of(connection.take()), (std::vector<std::string>{"0"}));
}

TEST(Http1Connection, Sends100ContinueOnceAndAfterEarlierAnswers) {
  World world;
  Connection connection(world);
  const std::string request = post("/v1/take", by_ip("a"), "Expect: 100-continue\r\n");
  const size_t head = request.find("\r\n\r\n") + 4;
  EXPECT_EQ(connection.ask(request.substr(0, head - 1)), "");
  EXPECT_EQ(connection.ask(request.substr(head - 1, 1)), go_ahead);
  EXPECT_EQ(connection.ask(request.substr(head, 1)), "");
  EXPECT_EQ(remaining_of(connection.ask(request.substr(head + 1))),
            (std::vector<std::string>{"2"}));
  // A request whose body has arrived gets no "100 Continue".
  EXPECT_EQ(remaining_of(connection.ask(request)), (std::vector<std::string>{"1"}));
  // The "100 Continue" comes after the answers to earlier requests, however late these are.
  world.store.settles = [](size_t) { return 0; };
  EXPECT_EQ(connection.ask(take + request.substr(0, head)), "");
  world.store.settles = [](size_t all) { return all; };
  world.store.name(0);
  world.settle();
  std::string text = connection.take();
  EXPECT_EQ(take_answer(text).status, 200);
  EXPECT_EQ(text, go_ahead);
  EXPECT_EQ(statuses_of(connection.ask(request.substr(head))), std::vector{429});
}

TEST(Http1Connection, Sends100ContinueAfterAWait) {
  World world;
  Connection connection(world);
  const std::string request = post("/v1/take", by_ip("b"), "Expect: 100-continue\r\n");
  const size_t head = request.find("\r\n\r\n") + 4;
  EXPECT_EQ(statuses_of(connection.ask(post("/v1/take", by_ip("a", R"(, "n": 3)")))),
            std::vector{200});
  EXPECT_EQ(connection.ask(post("/v1/wait", by_ip("a")) + request.substr(0, head)), "");
  EXPECT_EQ(ask(world, post("/v1/put", by_ip("a"))).status, 200);
  std::string text = connection.take();
  EXPECT_EQ(take_answer(text).status, 200);
  EXPECT_EQ(text, go_ahead);
  EXPECT_EQ(remaining_of(connection.ask(request.substr(head))), (std::vector<std::string>{"2"}));
}

// ---- What closes the connection ----

TEST(Http1Connection, AnswersAMalformedRequestAfterEarlierAnswers) {
  const std::string head = "POST /v1/take HTTP/1.1\r\nHost: localhost\r\n";
  for (const auto& [broken, status] : std::vector<std::pair<std::string, int>>{
           {"nonsense\r\n\r\n", 400},
           {"GET /v1/health HTTP/1.1\r\n\r\n", 400},
           {"GET /v1/health HTTP/2.0\r\n\r\n", 505},
           {head + "Content-Length: 1048577\r\n\r\n", 413},
           {head + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400},
           {head + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
           {head + "Transfer-Encoding: gzip\r\n\r\n", 501},
           {head + "Transfer-Encoding: chunked\r\n\r\nx\r\n", 400},
           {head + "Expect: miracles\r\n\r\n", 417},
           {head + "X: " + std::string(70'000, 'x') + "\r\n\r\n", 431},
           {"GET /" + std::string(70'000, 'x') + " HTTP/1.1\r\n\r\n", 414}}) {
    World world;
    Connection connection(world);
    const auto answers = answers_of(connection.ask(take + broken + take));
    ASSERT_EQ(answers.size(), 2u) << broken.substr(0, 100);
    EXPECT_EQ(answers[0].status, 200);
    EXPECT_EQ(answers[1].status, status) << broken.substr(0, 100) << answers[1].body;
    EXPECT_EQ(answers[1].field("connection"), "close");
    EXPECT_EQ(answers[1].field("content-type"), "application/problem+json");
    EXPECT_TRUE(connection.is_closed());
    EXPECT_EQ(connection.fault(), "http");
    EXPECT_EQ(left(world, by_ip("a")), 2);
  }
}

TEST(Http1Connection, AnswersAWaitBeforeALaterMalformedRequest) {
  World world;
  Connection connection(world);
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a", R"(, "n": 3)"))).status, 200);
  EXPECT_EQ(connection.ask(post("/v1/wait", by_ip("a")) + "nonsense\r\n\r\n"), "");
  EXPECT_FALSE(connection.is_closed());
  world.pass(10 * second);
  EXPECT_EQ(statuses_of(connection.take()), (std::vector{408, 400}));
  EXPECT_TRUE(connection.is_closed());
}

TEST(Http1Connection, ARefusedConnectionGets503) {
  World world;
  HttpSession session(world.peer("127.0.0.1:1"));
  base::Buffer out;
  session.end(request::Ending::refused, "too many connections", out);
  const auto answers = answers_of(std::string(out.view()));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 503);
  EXPECT_EQ(answers[0].field("connection"), "close");
  EXPECT_TRUE(answers[0].tells("too many connections"));
}

TEST(Http1Connection, AStopAnswersAWait) {
  World world;
  Connection connection(world), idle(world);
  EXPECT_EQ(ask(connection, post("/v1/take", by_ip("a", R"(, "n": 3)"))).status, 200);
  EXPECT_EQ(connection.ask(post("/v1/wait", by_ip("a")) + take), "");
  connection.finish();
  idle.finish();
  const auto answers = answers_of(connection.take());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 503);
  EXPECT_EQ(answers[0].field("connection"), "close");
  EXPECT_EQ(answers[0].field("date"), "Sun, 22 Nov 2026 07:55:23 GMT");
  EXPECT_EQ(idle.take(), "");
  EXPECT_EQ(world.waiting(), 0u);
  EXPECT_EQ(world.engine().held(), engine::Engine::Held());
}

TEST(Http1Connection, AnswersAllAndClosesAfterTheClientsEnd) {
  World world;
  Connection connection(world);
  connection.send(take + take);
  connection.end();
  EXPECT_EQ(remaining_of(connection.take()), (std::vector<std::string>{"2", "1"}));
  EXPECT_TRUE(connection.is_closed());
}

// ---- Forward-auth, whose body is not awaited ----

const std::string auth_rules =
    "- { match: { path: '/page*' }, actor: ip, name: pages, limit: { quota: 2, window: 1m, "
    "algorithm: fixed_window } }\n";

std::string auth(std::string_view more, std::string_view version = "1.1") {
  return "GET /auth/web HTTP/" + std::string(version) +
         "\r\nHost: localhost\r\nX-Original-URI: /page?x\r\nX-Original-Method: GET\r\n"
         "X-Original-Host: example.com\r\nX-Real-IP: 10.0.0.1\r\n" +
         std::string(more) + "\r\n";
}

TEST(Http1Auth, IsAnsweredBeforeItsBodyAndThenCloses) {
  World world({.rules = auth_rules,
               .http = "{ auth: { profiles: { web: { proxy: nginx, deny: 403 } } } }"});
  for (const std::string more : {"Content-Length: 10\r\n", "Transfer-Encoding: chunked\r\n"}) {
    Connection connection(world);
    const auto answers = answers_of(connection.ask(auth(more)));
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0].status, 200);
    EXPECT_EQ(answers[0].field("connection"), "close");
    EXPECT_TRUE(connection.is_closed());
  }
  Connection connection(world);
  const auto answers =
      answers_of(connection.ask(auth("Content-Length: 10\r\n") + "0123456789" + auth("")));
  ASSERT_EQ(answers.size(), 1u) << "as if the body came later";
  EXPECT_EQ(answers[0].status, 403);
  EXPECT_EQ(answers[0].field("connection"), "close");
  EXPECT_TRUE(connection.is_closed());
}

TEST(Http1Auth, KeepsTheConnectionIfNoBodyIsAnnounced) {
  World world({.rules = auth_rules,
               .http = "{ auth: { profiles: { web: { proxy: nginx, deny: 403 } } } }"});
  Connection connection(world);
  EXPECT_EQ(statuses_of(connection.ask(auth("") + auth("Content-Length: 0\r\n") + auth(""))),
            (std::vector{200, 200, 403}));
  EXPECT_FALSE(connection.is_closed());
  EXPECT_EQ(ask(connection, auth("", "1.0")).field("connection"), "close");
  EXPECT_TRUE(connection.is_closed());
}

TEST(Http1Auth, AnswersAnUnknownPathBeforeItsBody) {
  World world;
  Connection connection(world);
  const HttpAnswer answer = ask(connection,
                                "POST /nothing HTTP/1.1\r\nHost: localhost\r\n"
                                "Content-Length: 1000000\r\n\r\n");
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.field("connection"), "close");
  EXPECT_TRUE(connection.is_closed());
}

}  // namespace
}  // namespace sluice::http::http1_session_test
