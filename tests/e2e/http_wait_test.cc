// POST /v1/wait with the real program: waits are granted in order of arrival, and end with their
// timeout, their units, their connection, their stream or the server.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/http_described.h"

namespace sluice::tests::http_e2e {
namespace {

const Json the_jar = about({{"jar", "j"}});

Asked wait_for(int n, double timeout = 60) {
  return post("/v1/wait", with(the_jar, {{"n", n}, {"timeout", timeout}}));
}

class HttpWait : public testing::Test {
 protected:
  HttpAnswer ask(const Asked& asked) const {
    return http_e2e::ask(HttpVersion::http1, door_.port(), asked);
  }
  // Takes all units of the jar.
  void empty_jar() const {
    ASSERT_EQ(ask(post("/v1/take", with(the_jar, {{"n", 2}}))).status, 200);
  }
  void put(int n) const { ASSERT_EQ(ask(post("/v1/put", with(the_jar, {{"n", n}}))).status, 200); }
  int64_t in_jar() const {
    return units_left([this](const Asked& asked) { return ask(asked); }, the_jar);
  }

  Door door_;
};

TEST_F(HttpWait, TakesAtOnceIfThereAreEnoughUnits) {
  for (const HttpVersion version : http_versions) {
    const HttpAnswer answer = http_e2e::ask(version, door_.port(), wait_for(1));
    EXPECT_EQ(answer.status, 200);
    const Json told = json_body(answer);
    EXPECT_EQ(told.at("allowed"), true);
    EXPECT_EQ(told.at("waited"), 0);
    EXPECT_EQ(header_of(answer, "ratelimit-policy"), "\"jar\";q=2");
  }
  EXPECT_EQ(in_jar(), 0);
}

TEST_F(HttpWait, GrantsReturnedUnitsInOrderOfArrival) {
  empty_jar();
  Http1 first(door_.port());
  Http2 second(door_.port());
  first.send(wait_for(2));
  ASSERT_TRUE(door_.await_waiting(1));
  const uint32_t stream = second.send(wait_for(1));
  ASSERT_TRUE(door_.await_waiting(2));
  // The first waits for two units, and the second does not overtake it.
  put(1);
  EXPECT_EQ(ask(post("/v1/take", the_jar)).status, 429);
  EXPECT_TRUE(door_.await_waiting(2));
  put(1);
  const HttpAnswer granted = first.read();
  expect_described(wait_for(2), granted);
  EXPECT_EQ(granted.status, 200);
  Json expected = with(decision(true, 2, 0, "jar", 0, nullptr), {{"generation", 1}});
  expected["waited"] = true;
  EXPECT_EQ(settled(json_body(granted)), expected);
  put(1);
  const HttpAnswer other = second.read(stream);
  expect_described(wait_for(1), other);
  EXPECT_EQ(other.status, 200);
  EXPECT_TRUE(door_.await_waiting(0));
  EXPECT_EQ(in_jar(), 0);
}

TEST_F(HttpWait, GrantsUnitsThatComeBackWithTime) {
  const auto asked = [](const std::string& key) {
    const Json limits = Json::array({{{"quota", 1}, {"window", 1}}});
    return post("/v1/wait", about_key(key, limits, {{"detail", true}}));
  };
  Http1 http1(door_.port());
  Http2 http2(door_.port());
  http1.send(Http1::text_of(asked("1")) + Http1::text_of(asked("1")));
  const uint32_t first = http2.send(asked("2")), second = http2.send(asked("2"));
  EXPECT_EQ(http1.read().status, 200);
  EXPECT_EQ(http2.read(first).status, 200);
  // A wait lasts ten seconds at most by default.
  for (const HttpAnswer& answer : {http1.read(), http2.read(second)}) {
    expect_described(asked(""), answer);
    EXPECT_EQ(answer.status, 200);
    const Json told = json_body(answer);
    EXPECT_GT(told.at("waited"), 0);
    EXPECT_EQ(told.at("rule"), "default");
    ASSERT_EQ(told.at("limits").size(), 1u) << told;
    EXPECT_EQ(told.at("limits")[0].at("quota"), 1);
  }
}

TEST_F(HttpWait, EndsWithItsTimeAndChargesNothing) {
  empty_jar();
  for (const HttpVersion version : http_versions) {
    const HttpAnswer answer = http_e2e::ask(version, door_.port(), wait_for(1, 0.05));
    EXPECT_EQ(answer.status, 408);
    EXPECT_EQ(problem_of(answer), "wait-timeout");
    EXPECT_GE(std::stoi(header_of(answer, "retry-after")), 1);
  }
  EXPECT_TRUE(door_.await_waiting(0));
  put(1);
  EXPECT_EQ(in_jar(), 1);
}

TEST_F(HttpWait, ATimeoutOfZeroTakesOrDenies) {
  EXPECT_EQ(ask(wait_for(2, 0)).status, 200);
  const HttpAnswer denied = ask(wait_for(1, 0));
  EXPECT_EQ(denied.status, 429);
  EXPECT_EQ(json_body(denied).at("waited"), 0);
  const Asked lenient{.method = "POST",
                      .target = "/v1/wait?status=200",
                      .body = wait_for(1, 0).body,
                      .headers = wait_for(1, 0).headers};
  EXPECT_EQ(ask(lenient).status, 200);
}

TEST_F(HttpWait, DeniesAtOnceARequestBeyondTheLimit) {
  for (const HttpVersion version : http_versions) {
    const HttpAnswer more = http_e2e::ask(version, door_.port(), wait_for(3));
    EXPECT_EQ(more.status, 429);
    EXPECT_TRUE(json_body(more).at("retry_after").is_null());
    const HttpAnswer closed =
        http_e2e::ask(version, door_.port(), post("/v1/wait", about({{"closed", "x"}})));
    EXPECT_EQ(closed.status, 429);
  }
}

TEST_F(HttpWait, EndsWithItsConnection) {
  empty_jar();
  Http1 behind(door_.port());
  {
    Http1 first(door_.port());
    Http2 second(door_.port());
    first.send(wait_for(1));
    ASSERT_TRUE(door_.await_waiting(1));
    second.send(wait_for(1));
    second.send(wait_for(1));
    ASSERT_TRUE(door_.await_waiting(3));
    behind.send(wait_for(1));
    ASSERT_TRUE(door_.await_waiting(4));
  }
  ASSERT_TRUE(door_.await_waiting(1));
  put(1);
  EXPECT_EQ(behind.read().status, 200);
  EXPECT_EQ(in_jar(), 0) << "one was charged, and the three that ended were not";
  put(1);
  EXPECT_EQ(in_jar(), 1);
}

TEST_F(HttpWait, EndsWithItsStream) {
  empty_jar();
  Http2 client(door_.port());
  const uint32_t first = client.send(wait_for(1)), second = client.send(wait_for(1));
  ASSERT_TRUE(door_.await_waiting(2));
  client.reset(first);
  ASSERT_TRUE(door_.await_waiting(1));
  put(1);
  EXPECT_EQ(client.read(second).status, 200);
  EXPECT_FALSE(client.is_answered(first));
  put(1);
  EXPECT_EQ(in_jar(), 1) << "nothing was charged for the first";
}

TEST_F(HttpWait, OtherStreamsContinue) {
  empty_jar();
  Http2 client(door_.port());
  const uint32_t waiting = client.send(wait_for(1));
  ASSERT_TRUE(door_.await_waiting(1));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(ask_on(client, post("/v1/take", about({{"open", "x"}}))).status, 200);
  EXPECT_FALSE(client.is_answered(waiting));
  EXPECT_EQ(ask_on(client, post("/v1/put", the_jar)).status, 200);
  EXPECT_EQ(client.read(waiting).status, 200);
}

TEST_F(HttpWait, DelaysLaterPipelinedRequests) {
  empty_jar();
  Http1 client(door_.port());
  const Asked open = post("/v1/take", about({{"open", "x"}}));
  client.send(Http1::text_of(open) + Http1::text_of(wait_for(1)) + Http1::text_of(open));
  EXPECT_EQ(json_body(client.read()).at("rule"), "open");
  ASSERT_TRUE(door_.await_waiting(1));
  put(1);
  EXPECT_EQ(json_body(client.read()).at("rule"), "jar");
  EXPECT_EQ(json_body(client.read()).at("rule"), "open");
}

TEST_F(HttpWait, AHundredOfOneConnectionAtMost) {
  empty_jar();
  Http2 client(door_.port());
  std::vector<uint32_t> streams;
  for (int i = 0; i < 100; ++i) streams.push_back(client.send(wait_for(1)));
  ASSERT_TRUE(door_.await_waiting(100));
  const HttpAnswer refused = ask_on(client, wait_for(1));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(problem_of(refused), "temporary-reduced-capacity");
  EXPECT_EQ(header_of(refused, "retry-after"), "1");
  for (size_t i = 1; i < streams.size(); ++i) client.reset(streams[i]);
  ASSERT_TRUE(door_.await_waiting(1));
  EXPECT_EQ(ask_on(client, wait_for(1, 0.05)).status, 408) << "there is room again";
}

TEST(HttpWaitBounds, BoundsTheWaitingRequestsOfTheServer) {
  const Door door("{ max_waiting: 1, max_wait: 120s }");
  Http1 first(door.port()), second(door.port());
  ASSERT_EQ(ask_on(first, post("/v1/take", with(the_jar, {{"n", 2}}))).status, 200);
  first.send(wait_for(1, 120));
  ASSERT_TRUE(door.await_waiting(1));
  const HttpAnswer refused = ask_on(second, wait_for(1, 120));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(header_of(refused, "retry-after"), "1");
  ASSERT_EQ(ask_on(second, post("/v1/put", the_jar)).status, 200);
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(ask_on(second, wait_for(1, 0.05)).status, 408);
  EXPECT_EQ(ask_on(second, wait_for(1, 121)).status, 400);
}

TEST(HttpWaitBounds, RefusesWaitsIfMaxWaitingIsZero) {
  const Door door("{ max_waiting: 0 }");
  for (const HttpVersion version : http_versions)
    EXPECT_EQ(ask(version, door.port(), wait_for(1)).status, 503);
}

// A timeout above max_wait is refused. The default timeout is not: it becomes max_wait.
TEST(HttpWaitBounds, TheDefaultTimeoutIsAtMostMaxWait) {
  const Door door("{ max_wait: 50ms }");
  Http1 client(door.port());
  ASSERT_EQ(ask_on(client, post("/v1/take", with(the_jar, {{"n", 2}}))).status, 200);
  EXPECT_EQ(ask_on(client, post("/v1/wait", the_jar)).status, 408);
  EXPECT_EQ(ask_on(client, wait_for(1, 0.051)).status, 400);
}

std::string jar_of(int quota) {
  return "rules:\n  - { name: jar, match: { jar: \"*\" }, actor: jar, limit: { quota: " +
         std::to_string(quota) + ", algorithm: fixed_bucket } }\n";
}

TEST_F(HttpWait, AReloadThatBringsMoreGrantsIt) {
  empty_jar();
  Http1 first(door_.port());
  Http2 second(door_.port());
  first.send(wait_for(1));
  ASSERT_TRUE(door_.await_waiting(1));
  const uint32_t stream = second.send(wait_for(1));
  ASSERT_TRUE(door_.await_waiting(2));
  door_.reload(jar_of(4));
  const HttpAnswer granted = first.read();
  expect_described(wait_for(1), granted);
  EXPECT_EQ(granted.status, 200);
  EXPECT_EQ(json_body(granted).at("limit"), 4);
  EXPECT_EQ(json_body(granted).at("generation"), 2) << granted.body;
  EXPECT_EQ(second.read(stream).status, 200);
}

TEST_F(HttpWait, AReloadThatLeavesNoRoomDeniesIt) {
  empty_jar();
  Http1 client(door_.port());
  client.send(wait_for(2));
  ASSERT_TRUE(door_.await_waiting(1));
  door_.reload(jar_of(1));
  const HttpAnswer denied = client.read();
  expect_described(wait_for(2), denied);
  EXPECT_EQ(denied.status, 429);
  EXPECT_TRUE(json_body(denied).at("retry_after").is_null());
}

TEST_F(HttpWait, AReloadThatRemovesTheRuleEndsIt) {
  empty_jar();
  Http1 client(door_.port());
  client.send(wait_for(1));
  ASSERT_TRUE(door_.await_waiting(1));
  door_.reload("rules:\n  - { name: other, match: { other: \"*\" }, deny: true }\n");
  const HttpAnswer ended = client.read();
  expect_described(wait_for(1), ended);
  EXPECT_EQ(ended.status, 404);
  EXPECT_EQ(problem_of(ended), "no-rule");
}

TEST_F(HttpWait, AStopEndsIt) {
  empty_jar();
  Http1 http1(door_.port());
  Http2 http2(door_.port());
  http1.send(wait_for(1));
  const uint32_t first = http2.send(wait_for(1)), second = http2.send(wait_for(1));
  ASSERT_TRUE(door_.await_waiting(3));
  door_.stop();
  const HttpAnswer answers[] = {http1.read(), http2.read(first), http2.read(second)};
  for (const HttpAnswer& answer : answers) {
    expect_described(wait_for(1), answer);
    EXPECT_EQ(answer.status, 503);
    EXPECT_EQ(problem_of(answer), "temporary-reduced-capacity");
    EXPECT_EQ(header_of(answer, "date").find("1970"), std::string::npos);
  }
  EXPECT_EQ(header_of(answers[0], "connection"), "close");
}

}  // namespace
}  // namespace sluice::tests::http_e2e
