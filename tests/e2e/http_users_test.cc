// Users of the HTTP protocol with the real program: Basic and Bearer, the rights of each user, and
// reloads while connections stay open.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/http_described.h"

namespace sluice::tests::http_e2e {
namespace {

const std::string token_of_app(43, 'a'), token_of_ops(43, 'o');
constexpr const char* digest_of_ops =  // SHA-256
    "3907791a831e2e5c383fba601a0f08e0bfae87a56c2f45121101976d874ee3d6";

const Json any_jar = about({{"jar", "j"}});

std::string base64(const std::string& text) {
  static constexpr char letters[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string coded;
  for (size_t i = 0; i < text.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j)
      bits = bits << 8 | (i + j < text.size() ? static_cast<unsigned char>(text[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j)
      coded += i + j > text.size() ? '=' : letters[bits >> (18 - 6 * j) & 63];
  }
  return coded;
}
std::string basic(const std::string& user, const std::string& token) {
  return "Basic " + base64(user + ":" + token);
}

Asked as(const std::string& authorization, Asked asked) {
  asked.headers.emplace_back("Authorization", authorization);
  return asked;
}

class HttpUsers : public testing::Test {
 protected:
  HttpUsers() {
    folder_.write("app.token", token_of_app + "\n");
    door_ = std::make_unique<Door>("{}", users());
  }
  std::string users(const std::string& app_rights = "[take]") const {
    return std::string(usual_rules) + "users:\n  - { name: app, token_file: " + folder_.path() +
           "/app.token, rights: " + app_rights + " }\n  - { name: ops, sha256: " + digest_of_ops +
           ", rights: [look, put, admin] }\n";
  }
  void expect_status(const std::string& authorization, const std::string& path, int status) const {
    for (const HttpVersion version : http_versions) {
      SCOPED_TRACE(name_of(version));
      Asked asked = post(path, path == "/v1/batch" ? takes({any_jar}) : any_jar);
      if (!authorization.empty()) asked = as(authorization, asked);
      const HttpAnswer answer = ask(version, door_->port(), asked);
      EXPECT_EQ(answer.status, status) << authorization << " " << path << " " << answer.body;
      if (status != 401) continue;
      EXPECT_EQ(problem_of(answer), "unauthorized");
      EXPECT_EQ(header_of(answer, "www-authenticate"), "Basic realm=\"sluice\", charset=\"UTF-8\"");
    }
  }

  Folder folder_;
  std::unique_ptr<Door> door_;
  const std::string app_ = basic("app", token_of_app), ops_ = basic("ops", token_of_ops);
};

TEST_F(HttpUsers, AreKnownByBasicOrBearer) {
  for (const std::string& authorization :
       {app_, "basic " + base64("app:" + token_of_app), "Bearer " + token_of_app,
        "bearer " + token_of_app, basic("", token_of_app)})
    expect_status(authorization, "/v1/take?status=200", 200);
}

TEST_F(HttpUsers, RejectsUnknownUsersAndWrongTokens) {
  for (const std::string& authorization :
       {std::string(), basic("app", "wrong"), basic("nobody", token_of_app), basic("app", ""),
        basic("App", token_of_app), std::string("Bearer wrong"), std::string("Bearer app"),
        "Bearer app:" + token_of_app, "Bearer " + base64("app:" + token_of_app),
        std::string("Basic ???"), std::string("Basic"), "Digest " + token_of_app,
        basic("ops", token_of_app), "Basic " + base64(std::string(2000, 'a') + ":b")})
    expect_status(authorization, "/v1/take", 401);
  expect_status("", "/v1/reserve", 401);
  expect_status("", "/v1/explain", 401);
  // Requests that reveal nothing need no user.
  for (const HttpVersion version : http_versions) {
    EXPECT_EQ(ask(version, door_->port(), get("/v1/health")).status, 200);
    EXPECT_EQ(ask(version, door_->port(), get("/v1/openapi.json")).status, 200);
    EXPECT_EQ(ask(version, door_->port(), {.method = "OPTIONS", .target = "/v1/take"}).status, 204);
    EXPECT_EQ(ask(version, door_->port(), get("/v1/nosuch")).status, 404);
  }
}

TEST_F(HttpUsers, MayDoWhatTheirRightsAllow) {
  for (const char* path : {"/v1/take?status=200", "/v1/batch"}) {
    expect_status(app_, path, 200);
    expect_status(ops_, path, 403);
  }
  for (const char* path : {"/v1/peek", "/v1/put", "/v1/reset", "/v1/explain"}) {
    expect_status(app_, path, 403);
    expect_status(ops_, path, 200);
  }
  expect_status(ops_, "/v1/wait", 403);
  expect_status(ops_, "/v1/reserve", 403);
  expect_status(app_, "/v1/acquire", 400);
  expect_status("Bearer " + token_of_ops, "/v1/peek", 200);
  const HttpAnswer refused =
      ask(HttpVersion::http1, door_->port(), as(app_, post("/v1/peek", any_jar)));
  EXPECT_EQ(problem_of(refused), "forbidden");
  EXPECT_NE(refused.body.find("`look`"), std::string::npos) << refused.body;
}

TEST_F(HttpUsers, ExplainShowsRulesAndCounters) {
  for (const HttpVersion version : http_versions) {
    const auto explain = [&](const Json& body) {
      const HttpAnswer answer = ask(version, door_->port(), as(ops_, post("/v1/explain", body)));
      EXPECT_EQ(answer.status, 200) << answer.body;
      return json_body(answer);
    };
    const Json pair = explain(about({{"tenant", "t"}}, {{"n", 11}}));
    EXPECT_EQ(pair.at("allowed"), false);
    ASSERT_EQ(pair.at("limits").size(), 2u) << pair;
    EXPECT_EQ(pair.at("limits")[0].at("counter"), "native:pair:t:tenant");
    EXPECT_EQ(pair.at("limits")[0].at("allowed"), false);
    EXPECT_EQ(pair.at("limits")[1].at("allowed"), true);
    const Json own =
        explain(about_key("k", Json::array({{{"name", "own"}, {"quota", 3}, {"window", "1h"}}})));
    EXPECT_EQ(own.at("rule"), "own");
    EXPECT_EQ(own.at("remaining"), 2);
    const Json closed = explain(about({{"closed", "x"}}));
    EXPECT_EQ(closed.at("rule"), "closed");
    EXPECT_EQ(closed.at("allowed"), false);
    EXPECT_EQ(
        ask(version, door_->port(), as(ops_, post("/v1/explain", about({{"no", "rule"}})))).status,
        404);
  }
}

TEST_F(HttpUsers, KeepsSeveralUsersOfOneConnectionApart) {
  Http1 http1(door_->port());
  Http2 http2(door_->port());
  const auto statuses = [&](auto& connection) {
    std::string all;
    for (const std::string& authorization :
         {app_, ops_, app_, basic("app", "wrong"), std::string(), ops_})
      all += std::to_string(ask_on(connection, authorization.empty()
                                                   ? post("/v1/peek", any_jar)
                                                   : as(authorization, post("/v1/peek", any_jar)))
                                .status) +
             " ";
    return all;
  };
  EXPECT_EQ(statuses(http1), "403 200 403 401 401 200 ");
  EXPECT_EQ(statuses(http2), "403 200 403 401 401 200 ");
}

TEST_F(HttpUsers, AnswersPipelinedRequestsInOrder) {
  Http1 http1(door_->port());
  const Asked peek = post("/v1/peek", any_jar);
  http1.send(Http1::text_of(as(ops_, peek)) + Http1::text_of(peek) +
             Http1::text_of(as(app_, peek)) + Http1::text_of(get("/v1/health")) +
             Http1::text_of(as(ops_, peek)));
  for (const int status : {200, 401, 403, 200, 200}) EXPECT_EQ(http1.read().status, status);

  Http2 http2(door_->port());
  std::vector<std::pair<uint32_t, int>> streams;
  for (int i = 0; i < 5; ++i) {
    streams.emplace_back(http2.send(as(ops_, peek)), 200);
    streams.emplace_back(http2.send(as(app_, peek)), 403);
    streams.emplace_back(http2.send(peek), 401);
  }
  for (const auto& [stream, status] : streams) EXPECT_EQ(http2.read(stream).status, status);
}

TEST_F(HttpUsers, AreReadAgainAtAReload) {
  Http1 http1(door_->port());
  Http2 http2(door_->port());
  const auto statuses = [&](const std::string& authorization) {
    const Asked asked = as(authorization, post("/v1/take?status=200", any_jar));
    return std::pair(ask_on(http1, asked).status, ask_on(http2, asked).status);
  };
  const std::string other(43, 'n'), next = basic("app", other);
  EXPECT_EQ(statuses(app_), std::pair(200, 200));
  EXPECT_EQ(statuses(next), std::pair(401, 401));
  folder_.write("app.token", other);
  door_->reload(users());
  EXPECT_EQ(statuses(app_), std::pair(401, 401)) << "on connections that were known before";
  EXPECT_EQ(statuses(next), std::pair(200, 200));
  door_->reload(users("[look]"));
  EXPECT_EQ(statuses(next), std::pair(403, 403));
  door_->reload(usual_rules);
  EXPECT_EQ(statuses("Basic nonsense"), std::pair(200, 200)) << "no token is asked for any more";
}

TEST(HttpWithoutUsers, AllowsEveryRequestExceptAdministration) {
  const Door door;
  for (const HttpVersion version : http_versions) {
    const auto status = [&](const std::string& path) {
      return ask(version, door.port(), as("Basic nonsense", post(path, any_jar))).status;
    };
    EXPECT_EQ(status("/v1/take"), 200);
    EXPECT_EQ(status("/v1/peek"), 200);
    EXPECT_EQ(status("/v1/put"), 200);
    EXPECT_EQ(status("/v1/reset"), 200);
    EXPECT_EQ(status("/v1/explain"), 403);
  }
}

// A wait goes on if a reload changes its user's token: the user was known when it began.
TEST_F(HttpUsers, AWaitOutlivesItsUsersToken) {
  const Asked empty = as(app_, post("/v1/take", with(any_jar, {{"n", 2}})));
  Http1 client(door_->port()), other(door_->port());
  ASSERT_EQ(ask_on(client, empty).status, 200);
  client.send(as(app_, post("/v1/wait", any_jar)));
  ASSERT_TRUE(door_->await_waiting(1));
  folder_.write("app.token", std::string(43, 'n'));
  door_->reload(users());
  ASSERT_EQ(ask_on(other, as(ops_, post("/v1/put", any_jar))).status, 200);
  EXPECT_EQ(client.read().status, 200);
  EXPECT_EQ(ask_on(client, empty).status, 401);
}

}  // namespace
}  // namespace sluice::tests::http_e2e
