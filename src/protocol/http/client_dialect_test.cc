// How the client library speaks HTTP: the requests that it sends, and what it makes of answers. The
// test plays the server and sets the time. client_json_test.cc has their bodies.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "testing/client_world.h"

namespace sluice::http {
extern const calls::Dialect client_dialect;

namespace client_dialect_test {
namespace {

using calls::ClientWorld;

client_request command(std::vector<std::string_view> words) {
  client_request request;
  request.verb = client_verb::command;
  request.words = std::move(words);
  return request;
}

client_request take() {
  client_request request;
  request.subject.entries = {{"ip", "1"}};
  return request;
}

std::string answer(std::string_view status, std::string_view body) {
  return "HTTP/1.1 " + std::string(status) + "\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

class HttpClientDialect : public testing::Test {
 protected:
  std::string said(const client_request& request) {
    world_.submit(request, "call");
    if (world_.core.phase(0) == calls::Link::Phase::connecting) world_.accept(0);
    return world_.take_sent(0);
  }

  ClientWorld world_{client_dialect};
};

TEST_F(HttpClientDialect, ATakeIsAPost) {
  EXPECT_EQ(said(take()),
            "POST /v1/take?status=200 HTTP/1.1\r\nHost: 10.0.0.1:9231\r\n"
            "Accept: application/json\r\nContent-Type: application/json\r\n"
            "Content-Length: 24\r\n\r\n{\"entries\": {\"ip\": \"1\"}}");
}

TEST_F(HttpClientDialect, PassesACommandAndItsReplyThroughUnchanged) {
  EXPECT_EQ(said(command({"GET", "/v1/health"})),
            "GET /v1/health HTTP/1.1\r\nHost: 10.0.0.1:9231\r\nAccept: application/json\r\n\r\n");
  EXPECT_EQ(said(command({"POST", "/v1/explain?x=%20", "{}"})),
            "POST /v1/explain?x=%20 HTTP/1.1\r\nHost: 10.0.0.1:9231\r\n"
            "Accept: application/json\r\nContent-Type: application/json\r\n"
            "Content-Length: 2\r\n\r\n{}");
  EXPECT_EQ(said(command({"DELETE", "/x"})),
            "DELETE /x HTTP/1.1\r\nHost: 10.0.0.1:9231\r\nAccept: application/json\r\n"
            "Content-Length: 0\r\n\r\n");
  for (const char* status : {"200 OK", "429 Too Many Requests", "503 no"}) {
    world_.receive(0, answer(status, "not JSON"));
    EXPECT_EQ(world_.results["call"].error, client_errc::none);
    EXPECT_EQ(world_.results["call"].status, static_cast<unsigned>(std::stoul(status)));
    EXPECT_EQ(world_.results["call"].reply, "not JSON");
  }
}

TEST_F(HttpClientDialect, RejectsACommandThatIsNotARequest) {
  const std::vector<std::vector<std::string_view>> wrong = {{},
                                                            {"GET"},
                                                            {"GET", "/", "{}", "x"},
                                                            {"", "/"},
                                                            {"get", "/"},
                                                            {"GET /x HTTP/1.1\r\nX:", "/"},
                                                            {"HEAD", "/"},
                                                            {"CONNECT", "/"},
                                                            {"GET", ""},
                                                            {"GET", "v1"},
                                                            {"GET", "/a b"},
                                                            {"GET", "/ HTTP/1.1\r\nX: y"},
                                                            {"GET", "/\x7f"},
                                                            {"GET", "/\xc3\xa4"}};
  for (const auto& words : wrong) {
    EXPECT_EQ(said(command(words)), "");
    EXPECT_EQ(world_.results["call"].error, client_errc::bad_request);
    world_.results.clear();
  }
}

// The operator must correct a wrong token: no call is sent twice, and its result says what to
// do.
TEST(HttpClientUsers, ARejectedUserIsReportedAndNotRetried) {
  for (const bool with_user : {true, false}) {
    std::vector<calls::Target> hosts = ClientWorld::make_hosts(1);
    if (with_user) hosts[0].user = hosts[0].token = "app";
    ClientWorld world(client_dialect, hosts, {});
    world.submit(take(), "a");
    world.accept(0);
    const std::string sent = world.take_sent(0);
    EXPECT_EQ(sent.find("Authorization: Basic YXBwOmFwcA==\r\n") != sent.npos, with_user) << sent;
    world.receive(0, answer("401 Unauthorized", R"({"detail": "send the token of a user"})"));
    EXPECT_EQ(world.results["a"].error, client_errc::refused);
    EXPECT_EQ(world.results["a"].text,
              with_user ? "the server does not accept the user and token (401): correct them, "
                          "or add the user at the server"
                        : "the server wants a user (401): give USER:TOKEN@ in the client's "
                          "address");
    world.advance(base::seconds(3'600));
    EXPECT_EQ(world.take_sent(0), "");
    EXPECT_EQ(world.tries.size(), 1u);
  }
}

}  // namespace
}  // namespace client_dialect_test
}  // namespace sluice::http
