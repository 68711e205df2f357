// Requests that wait for units, over HTTP/1.1 and HTTP/2: granted, timed out, ended by their
// client, and how many may wait. Sessions, engine and table in memory, without sockets.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "protocol/http/http_text_test.h"

namespace sluice::http::wait_test {
namespace {

using namespace session_world;

const engine::Engine::Held nothing_held{};

// A world in which the counter of by_ip("a") has no units left.
struct Empty : World {
  explicit Empty(const std::string& settings = "{}") : World({.http = settings}) {
    EXPECT_EQ(ask(*this, post("/v1/take", by_ip("a", R"(, "n": 3)"))).status, 200);
  }
  // Puts `units` back.
  void give(int64_t units) {
    EXPECT_EQ(ask(*this, post("/v1/put", by_ip("a", ", \"n\": " + std::to_string(units)))).status,
              200);
  }
};

TEST(HttpWait, IsATakeIfThereAreEnoughUnits) {
  World world;
  const HttpAnswer answer = ask(world, post("/v1/wait", by_ip("a")));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body,
            R"({"allowed": true, "limit": 3, "remaining": 2, "retry_after": 0, "reset_after": 60, )"
            R"("rule": "by-ip", "mode": "enforce", "waited": 0, "generation": 1})");
  EXPECT_EQ(answer.field("ratelimit"), R"("by-ip";r=2;t=60)");
  EXPECT_EQ(world.waiting(), 0u);
}

TEST(HttpWait, IsGrantedLateAndSaysHowLongItWaited) {
  Empty world;
  Connection connection(world);
  EXPECT_EQ(connection.ask(post("/v1/wait", by_ip("a"))), "");
  world.pass(1'250'000);
  EXPECT_EQ(connection.take(), "");
  world.give(1);
  const auto answers = answers_of(connection.take());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 200);
  EXPECT_EQ(answers[0].body,
            R"({"allowed": true, "limit": 3, "remaining": 0, "retry_after": 0, )"
            R"("reset_after": 58.75, "rule": "by-ip", "mode": "enforce", "waited": 1.25, )"
            R"("generation": 1})");
  EXPECT_EQ(answers[0].field("ratelimit"), R"("by-ip";r=0;t=59)");
  EXPECT_EQ(world.waiting(), 0u);
  EXPECT_EQ(world.engine().held(), nothing_held);
}

TEST(HttpWait, IsGrantedWhenTheWindowBegins) {
  Empty world;
  Connection connection(world);
  EXPECT_EQ(connection.ask(post("/v1/wait", by_ip("a", R"(, "timeout": 60, "n": 2)"))), "");
  world.pass(60 * second);
  const auto answers = answers_of(connection.take());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 200);
  EXPECT_TRUE(answers[0].tells(R"("remaining": 1)")) << answers[0].body;
  EXPECT_TRUE(answers[0].tells(R"("waited": 60)")) << answers[0].body;
}

TEST(HttpWait, NamesTheInlineLimitsInALateAnswer) {
  World world;
  Connection connection(world);
  const std::string body =
      R"({"key": "k", "limits": [{"name": "hour", "quota": 5, "window": "1h", "algorithm": "fixed_window"}, )"
      R"({"name": "minute", "quota": 1, "window": "1m", "algorithm": "fixed_window"}], "timeout": 60})";
  EXPECT_EQ(ask(connection, post("/v1/wait", body)).status, 200);
  EXPECT_EQ(connection.ask(post("/v1/wait", body)), "");
  world.pass(60 * second);
  const auto answers = answers_of(connection.take());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0].tells(R"("limit": 1, "remaining": 0)")) << answers[0].body;
  EXPECT_TRUE(answers[0].tells(R"("rule": "minute")")) << answers[0].body;
}

TEST(HttpWait, EndsWith408UnchargedWhenItsTimeIsOver) {
  Empty world;
  Connection connection(world);
  EXPECT_EQ(connection.ask(post("/v1/wait", by_ip("a", R"(, "timeout": 2.5)"))), "");
  world.pass(2'499'999);
  EXPECT_EQ(connection.take(), "");
  world.pass(1);
  const auto answers = answers_of(connection.take());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 408);
  EXPECT_TRUE(answers[0].tells("urn:sluice:problem:wait-timeout")) << answers[0].body;
  EXPECT_TRUE(answers[0].has("retry-after"));
  EXPECT_FALSE(connection.is_closed());
  EXPECT_EQ(world.waiting(), 0u);
  EXPECT_EQ(world.engine().held(), nothing_held);
  world.give(1);
  EXPECT_EQ(left(world, by_ip("a")), 1);
}

TEST(HttpWait, WithoutATimeoutWaitsForMaxWait) {
  {
    Empty world;
    Connection connection(world);
    EXPECT_EQ(connection.ask(post("/v1/wait", by_ip("a"))), "");
    world.pass(10 * second - 1);
    EXPECT_EQ(connection.take(), "");
    world.pass(1);
    EXPECT_EQ(statuses_of(connection.take()), std::vector{408});
  }
  Empty world("{ max_wait: 3s }");
  Connection connection(world);
  EXPECT_EQ(connection.ask(post("/v1/wait", by_ip("a"))), "");
  world.pass(3 * second);
  EXPECT_EQ(statuses_of(connection.take()), std::vector{408});
  const HttpAnswer longer = ask(connection, post("/v1/wait", by_ip("a", R"(, "timeout": 3.001)")));
  EXPECT_EQ(longer.status, 400);
  EXPECT_TRUE(longer.tells(R"("pointer": "/timeout")")) << longer.body;
}

TEST(HttpWait, ATimeoutOfZeroIsAnsweredAtOnce) {
  Empty world;
  const HttpAnswer answer = ask(world, post("/v1/wait", by_ip("a", R"(, "timeout": 0)")));
  EXPECT_EQ(answer.status, 429) << "as a take";
  EXPECT_TRUE(answer.tells(R"("waited": 0)")) << answer.body;
  EXPECT_EQ(answer.field("retry-after"), "60");
  world.give(1);
  EXPECT_EQ(ask(world, post("/v1/wait", by_ip("a", R"(, "timeout": 0)"))).status, 200);
  EXPECT_EQ(left(world, by_ip("a")), 0);
  EXPECT_EQ(world.waiting(), 0u);
}

// The wait is for more units than the limit ever allows.
TEST(HttpWait, RefusesAtOnceARequestBeyondTheLimit) {
  World world;
  const HttpAnswer answer = ask(world, post("/v1/wait", by_ip("a", R"(, "n": 4)")));
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(answer.tells(R"("allowed": false)")) << answer.body;
  EXPECT_EQ(world.waiting(), 0u);
  EXPECT_EQ(left(world, by_ip("a")), 3);
}

TEST(HttpWait, IsServedAfterEarlierWaits) {
  Empty world;
  Connection first(world), second_one(world), third(world);
  EXPECT_EQ(first.ask(post("/v1/wait", by_ip("a", R"(, "n": 2)"))), "");
  EXPECT_EQ(second_one.ask(post("/v1/wait", by_ip("a"))), "");
  world.give(1);
  EXPECT_EQ(first.take(), "") << "the first waits for two";
  EXPECT_EQ(ask(third, post("/v1/take", by_ip("a"))).status, 429) << "nor is it another's";
  world.give(1);
  EXPECT_EQ(statuses_of(first.take()), std::vector{200});
  EXPECT_EQ(second_one.take(), "");
  world.give(1);
  EXPECT_EQ(statuses_of(second_one.take()), std::vector{200});
  EXPECT_EQ(world.engine().held(), nothing_held);
}

TEST(HttpWait, EndsUnchargedWithItsConnection) {
  Empty world;
  {
    Connection connection(world);
    EXPECT_EQ(connection.ask(post("/v1/wait", by_ip("a"))), "");
    EXPECT_EQ(world.waiting(), 1u);
  }
  EXPECT_EQ(world.waiting(), 0u);
  EXPECT_EQ(world.engine().held(), nothing_held);
  world.give(1);
  EXPECT_EQ(left(world, by_ip("a")), 1);
}

// A client that has closed its sending side may still read, so the wait and the requests after it
// are answered.
TEST(HttpWait, EndsUnchargedWhenItsClientSendsNoMore) {
  Empty world;
  Connection connection(world);
  EXPECT_EQ(connection.ask(post("/v1/wait", by_ip("a")) + post("/v1/wait", by_ip("a")) +
                           get("/v1/health")),
            "");
  connection.end();
  EXPECT_EQ(statuses_of(connection.take()), (std::vector{408, 408, 200}));
  EXPECT_TRUE(connection.is_closed());
  EXPECT_EQ(world.waiting(), 0u);
  EXPECT_EQ(world.engine().held(), nothing_held);
  world.give(1);
  EXPECT_EQ(left(world, by_ip("a")), 1);
}

TEST(HttpWait, ANewPolicyDecidesAWait) {
  Empty world;
  Connection connection(world), other(world);
  EXPECT_EQ(connection.ask(post("/v1/wait", by_ip("a"))), "");
  EXPECT_EQ(other.ask(post("/v1/wait", by_ip("a"))), "");
  world.load(
      "- { match: { ip: '*' }, actor: ip, name: by-ip, limit: { quota: 4, window: 1m, "
      "algorithm: fixed_window } }\n");
  const auto answers = answers_of(connection.take());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 200);
  EXPECT_TRUE(answers[0].tells(R"("limit": 4, "remaining": 0)")) << answers[0].body;
  EXPECT_TRUE(answers[0].tells(R"("generation": 2})")) << answers[0].body;
  world.load("- { match: { x: '*' }, deny: true }\n");
  EXPECT_EQ(statuses_of(other.take()), std::vector{404}) << "no rule applies any more";
  EXPECT_EQ(world.waiting(), 0u);
  EXPECT_EQ(world.engine().held(), nothing_held);
}

TEST(HttpWait, ANewOverrideDecidesAWaitOfAKey) {
  World world;
  EXPECT_EQ(ask(world, post("/v1/take", by_key("k", 1))).status, 200);
  for (const auto& [algorithm, status] :
       {std::pair{limit::Algorithm::unlimited, 200}, std::pair{limit::Algorithm::deny, 429}}) {
    Connection connection(world);
    EXPECT_EQ(connection.ask(post("/v1/wait", by_key("k", 1))), "");
    world.override_inline("k", algorithm);
    EXPECT_EQ(statuses_of(connection.take()), std::vector{status});
    world.override_inline("k", std::nullopt);
    EXPECT_EQ(world.waiting(), 0u);
  }
}

TEST(HttpWait, IsRefusedPastTheBoundOfTheServer) {
  Empty world("{ max_waiting: 2 }");
  Connection one(world), two(world), three(world);
  const std::string wait = post("/v1/wait", by_ip("a"));
  EXPECT_EQ(one.ask(wait), "");
  EXPECT_EQ(two.ask(wait), "");
  const HttpAnswer answer = ask(three, wait);
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.field("retry-after"), "1");
  EXPECT_EQ(ask(three, post("/v1/take", by_ip("b"))).status, 200);
  world.give(1);
  EXPECT_EQ(statuses_of(one.take()), std::vector{200});
  EXPECT_EQ(three.ask(wait), "") << "there is room again";
  EXPECT_EQ(world.waiting(), 2u);
}

// ---- HTTP/2: concurrent waits ----

TEST(Http2Wait, DoesNotDelayOtherStreams) {
  Empty world;
  Http2Client client(world);
  const uint32_t wait = client.begin("/v1/wait", by_ip("a"));
  EXPECT_EQ(client.ask("/v1/take", by_ip("b")).status, 200);
  EXPECT_EQ(client.answer_of(wait).status, 0);
  world.give(1);
  const HttpAnswer answer = client.answer_of(wait);
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.tells(R"("waited": 0)")) << answer.body;
  EXPECT_EQ(answer.field("content-length"), std::to_string(answer.body.size()));
}

TEST(Http2Wait, AResetEndsOnlyItsOwnWait) {
  Empty world;
  Http2Client client(world);
  std::vector<uint32_t> waits;
  for (int i = 0; i < 4; ++i) waits.push_back(client.begin("/v1/wait", by_ip("a")));
  EXPECT_EQ(world.waiting(), 4u);
  client.reset(waits[1]);
  EXPECT_EQ(world.waiting(), 3u);
  EXPECT_EQ(world.engine().held().parked, 3u);
  world.give(2);
  EXPECT_EQ(client.answer_of(waits[0]).status, 200);
  EXPECT_EQ(client.answer_of(waits[1]).status, 0);
  EXPECT_EQ(client.answer_of(waits[2]).status, 200);
  EXPECT_EQ(client.answer_of(waits[3]).status, 0);
  client.reset(waits[3]);
  EXPECT_EQ(world.waiting(), 0u);
  EXPECT_EQ(world.engine().held(), nothing_held);
  world.give(3);
  EXPECT_EQ(left(world, by_ip("a")), 3);
  EXPECT_EQ(client.ask("/v1/take", by_ip("b")).status, 200);
  EXPECT_FALSE(client.connection.is_closed());
}

TEST(Http2Wait, AResetInTheSameBatchAsksNothing) {
  Empty world;
  Http2Client client(world);
  uint32_t stream = 0;
  const std::string request = client.request("/v1/wait", by_ip("a"), stream);
  client.send(request + wire::http2_peer::rst_stream(stream));
  EXPECT_EQ(world.waiting(), 0u);
  EXPECT_EQ(world.engine().held(), nothing_held);
  EXPECT_EQ(client.ask("/v1/take", by_ip("b")).status, 200);
}

// The reset arrives before the store has answered, so whether the request waits is not known yet.
TEST(Http2Wait, AResetDuringTheStoresAnswerChargesNothing) {
  Empty world;
  Http2Client client(world);
  world.store.settles = [](size_t) { return 0; };
  const uint32_t wait = client.begin("/v1/wait", by_ip("a"));
  const uint32_t other = client.begin("/v1/wait", by_ip("a"));
  client.reset(wait);
  world.store.settles = [](size_t all) { return all; };
  while (world.store.asked() > 0) world.store.name(0);
  world.settle();
  EXPECT_EQ(world.waiting(), 1u);
  EXPECT_EQ(world.engine().held().parked, 1u);
  world.give(2);
  EXPECT_EQ(client.answer_of(other).status, 200);
  EXPECT_EQ(left(world, by_ip("a")), 1);
  EXPECT_EQ(world.waiting(), 0u);
}

TEST(Http2Wait, IsRefusedPastTheBoundOfTheConnection) {
  Empty world;
  Http2Client client(world);
  std::vector<uint32_t> waits;
  for (size_t i = 0; i < waiting_per_connection_max; ++i)
    waits.push_back(client.begin("/v1/wait", by_ip("a")));
  EXPECT_EQ(client.ask("/v1/wait", by_ip("a")).status, 503);
  Connection other(world);
  EXPECT_EQ(other.ask(post("/v1/wait", by_ip("a"))), "") << "of one connection alone";
  client.reset(waits[0]);
  EXPECT_EQ(client.answer_of(client.begin("/v1/wait", by_ip("a"))).status, 0);
  EXPECT_EQ(world.waiting(), waiting_per_connection_max + 1);
}

TEST(Http2Wait, EndsWithItsConnection) {
  Empty world;
  {
    Http2Client client(world);
    for (int i = 0; i < 3; ++i) client.begin("/v1/wait", by_ip("a"));
    EXPECT_EQ(world.waiting(), 3u);
  }
  EXPECT_EQ(world.waiting(), 0u);
  EXPECT_EQ(world.engine().held(), nothing_held);
  Http2Client client(world);
  client.begin("/v1/wait", by_ip("a"));
  client.connection.end();
  EXPECT_TRUE(client.connection.is_closed());
  EXPECT_EQ(world.waiting(), 0u);
  EXPECT_EQ(world.engine().held(), nothing_held);
}

TEST(Http2Wait, AStopAnswersAWait) {
  Empty world;
  Http2Client client(world);
  const uint32_t one = client.begin("/v1/wait", by_ip("a"));
  const uint32_t two = client.begin("/v1/wait", by_ip("a"));
  client.connection.finish();
  EXPECT_EQ(client.answer_of(one).status, 503);
  EXPECT_EQ(client.answer_of(two).status, 503);
  EXPECT_EQ(client.peer.goaways.size(), 1u);
  EXPECT_EQ(world.waiting(), 0u);
  EXPECT_EQ(world.engine().held(), nothing_held);
}

}  // namespace
}  // namespace sluice::http::wait_test
