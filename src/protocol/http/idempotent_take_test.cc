// Requests with an Idempotency-Key are executed once, whatever happens to their connections.
// Sessions, engine and table in memory, without sockets.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "protocol/http/http_text_test.h"

namespace sluice::http::idempotent_take_test {
namespace {

using namespace session_world;

std::string with_key(const std::string& key, const std::string& body,
                     const std::string& path = "/v1/take", const std::string& more = {}) {
  return post(path, body, "Idempotency-Key: \"" + key + "\"\r\n" + more);
}

TEST(IdempotentTake, IsChargedOnceAndItsAnswerIsRepeated) {
  World world;
  const HttpAnswer first = ask(world, with_key("1", by_ip("a")));
  EXPECT_EQ(first.status, 200);
  EXPECT_FALSE(first.has("idempotency-replayed"));
  world.pass(5 * second);
  const HttpAnswer again = ask(world, with_key("1", by_ip("a")));
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(again.body, first.body) << "times are those of the first";
  EXPECT_EQ(again.field("idempotency-replayed"), "true");
  for (const char* name : {"content-type", "cache-control", "ratelimit", "ratelimit-policy"})
    EXPECT_EQ(again.field(name), first.field(name));
  EXPECT_EQ(left(world, by_ip("a")), 2);
  // The same key without quotes.
  const HttpAnswer bare = ask(world, post("/v1/take", by_ip("a"), "idempotency-key: 1\r\n"));
  EXPECT_EQ(bare.field("idempotency-replayed"), "true");
  // The same key over HTTP/2.
  Http2Client client(world);
  const HttpAnswer h2 = client.ask("/v1/take", by_ip("a"), {{"idempotency-key", "\"1\""}});
  EXPECT_EQ(h2.status, 200);
  EXPECT_EQ(h2.body, first.body);
  EXPECT_EQ(h2.field("idempotency-replayed"), "true");
  EXPECT_EQ(ask(world, with_key("2", by_ip("a"))).status, 200);
  EXPECT_EQ(left(world, by_ip("a")), 1);
}

TEST(IdempotentTake, RepeatsADenial) {
  World world;
  EXPECT_EQ(ask(world, post("/v1/take", by_ip("a", R"(, "n": 3)"))).status, 200);
  const HttpAnswer first = ask(world, with_key("1", by_ip("a")));
  EXPECT_EQ(first.status, 429);
  EXPECT_EQ(ask(world, post("/v1/put", by_ip("a"))).status, 200);
  const HttpAnswer again = ask(world, with_key("1", by_ip("a")));
  EXPECT_EQ(again.status, 429);
  EXPECT_EQ(again.body, first.body);
  EXPECT_EQ(again.field("content-type"), "application/problem+json");
  EXPECT_EQ(again.field("retry-after"), first.field("retry-after"));
  EXPECT_EQ(left(world, by_ip("a")), 1);
}

TEST(IdempotentTake, ExecutesABatchAPutAndSeveralTakesOnce) {
  World world;
  const std::string batch = R"({"takes": [)" + by_ip("a") + "," + by_key("k", 5) + "]}";
  const HttpAnswer first = ask(world, with_key("b", batch, "/v1/batch"));
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(ask(world, with_key("b", batch, "/v1/batch")).body, first.body);
  EXPECT_EQ(left(world, by_ip("a")), 2);
  EXPECT_EQ(left(world, by_key("k", 5)), 4);
  EXPECT_EQ(ask(world, with_key("p", by_ip("a"), "/v1/put")).status, 200);
  EXPECT_EQ(ask(world, post("/v1/take", by_ip("a", R"(, "n": 2)"))).status, 200);
  EXPECT_EQ(ask(world, with_key("p", by_ip("a"), "/v1/put")).field("idempotency-replayed"), "true");
  EXPECT_EQ(left(world, by_ip("a")), 1);
}

TEST(IdempotentTake, AnotherRequestUnderTheKeyIs422) {
  World world;
  EXPECT_EQ(ask(world, with_key("1", by_ip("a"))).status, 200);
  for (const std::string& other :
       {with_key("1", by_ip("a", R"(, "n": 2)")), with_key("1", by_ip("a"), "/v1/put"),
        with_key("1", by_ip("a"), "/v1/take?status=200"), with_key("1", by_ip("a ") + " ")}) {
    const HttpAnswer answer = ask(world, other);
    EXPECT_EQ(answer.status, 422) << other;
    EXPECT_TRUE(answer.tells("urn:sluice:problem:idempotency-key-reused")) << answer.body;
  }
  EXPECT_EQ(left(world, by_ip("a")), 2);
}

TEST(IdempotentTake, Is409DuringTheFirstRequest) {
  World world;
  Connection first(world), other(world);
  world.store.settles = [](size_t) { return 0; };
  EXPECT_EQ(first.ask(with_key("1", by_ip("a"))), "");
  HttpAnswer answer = ask(other, with_key("1", by_ip("a")));
  EXPECT_EQ(answer.status, 409);
  EXPECT_EQ(answer.field("retry-after"), "1");
  EXPECT_TRUE(answer.tells("urn:sluice:problem:idempotency-key-in-use")) << answer.body;
  world.store.settles = [](size_t all) { return all; };
  world.store.name(0);
  world.settle();
  EXPECT_EQ(statuses_of(first.take()), std::vector{200});
  EXPECT_EQ(ask(other, with_key("1", by_ip("a"))).status, 200);
  EXPECT_EQ(left(world, by_ip("a")), 2);
}

// Two requests with the same key in one batch: the second one arrives while the first is under way.
TEST(IdempotentTake, APipelinedRepetitionIsChargedOnce) {
  World world;
  Connection connection(world);
  const auto statuses =
      statuses_of(connection.ask(with_key("1", by_ip("a")) + with_key("1", by_ip("a"))));
  ASSERT_EQ(statuses.size(), 2u);
  EXPECT_EQ(statuses[0], 200);
  EXPECT_TRUE(statuses[1] == 409 || statuses[1] == 200) << statuses[1];
  EXPECT_EQ(left(world, by_ip("a")), 2);
  EXPECT_EQ(ask(connection, with_key("1", by_ip("a"))).field("idempotency-replayed"), "true");
}

// The first request may have been charged, and its answer is lost. The answer to the second one
// says that this is unknown.
TEST(IdempotentTake, IsNotExecutedAgainAfterItsConnectionWasCut) {
  World world;
  auto first = std::make_unique<Connection>(world);
  world.store.settles = [](size_t) { return 0; };
  EXPECT_EQ(first->ask(with_key("1", by_ip("a"))), "");
  world.store.settles = [](size_t all) { return all; };
  first.reset();
  EXPECT_EQ(world.store.asked(), 0u);
  EXPECT_EQ(world.engine().held(), engine::Engine::Held());
  const HttpAnswer answer = ask(world, with_key("1", by_ip("a")));
  EXPECT_EQ(answer.status, 503);
  EXPECT_TRUE(answer.tells("urn:sluice:problem:outcome-unknown")) << answer.body;
  EXPECT_EQ(left(world, by_ip("a")), 3);
  // The key is forgotten when its time has passed.
  world.pass(60 * second);
  EXPECT_EQ(ask(world, with_key("1", by_ip("a"))).status, 200);
}

TEST(IdempotentTake, RepeatsTheAnswerAfterItsStreamWasReset) {
  World world;
  Http2Client client(world);
  world.store.settles = [](size_t) { return 0; };
  const uint32_t stream = client.begin("/v1/take", by_ip("a"), {{"idempotency-key", "\"1\""}});
  client.reset(stream);
  world.store.settles = [](size_t all) { return all; };
  ASSERT_EQ(world.store.asked(), 1u);
  world.store.name(0);
  world.settle();
  const HttpAnswer answer = ask(world, with_key("1", by_ip("a")));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.field("idempotency-replayed"), "true");
  EXPECT_EQ(left(world, by_ip("a")), 2);
}

// An answer is kept whether or not it reached the client.
TEST(IdempotentTake, RepeatsTheAnswerAfterItsAnswerWasLost) {
  World world;
  {
    Connection connection(world);
    connection.send(with_key("1", by_ip("a")));
  }
  const HttpAnswer answer = ask(world, with_key("1", by_ip("a")));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.field("idempotency-replayed"), "true");
  EXPECT_EQ(left(world, by_ip("a")), 2);
}

TEST(IdempotentTake, DoesNotKeepTheAnswerOfARequestThatWasNotExecuted) {
  World world({.http = "{ inline_limits: false }"});
  for (const auto& [body, status] : {std::pair<std::string, int>{"no json", 400},
                                     {by_key("k", 1), 400},
                                     {R"({"entries": {"x": "y"}})", 404}}) {
    EXPECT_EQ(ask(world, with_key("1", body)).status, status);
    if (status == 404) break;
    EXPECT_EQ(world.kept().entries, 0u) << body;
  }
  world.store.fails = true;
  EXPECT_EQ(ask(world, with_key("2", by_ip("a"))).status, 503);
  world.store.fails = false;
  const HttpAnswer answer = ask(world, with_key("2", by_ip("a")));
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(answer.has("idempotency-replayed"));
}

// If its answer is too long to be kept, a request would be charged again when it is repeated.
TEST(IdempotentTake, Is413BeforeItsDecisionIfItsAnswerMayBeTooLong) {
  World world;
  std::string body = R"({"takes": [)";
  for (int i = 0; i < 64; ++i) body += (i > 0 ? "," : "") + by_key("k" + std::to_string(i), 5);
  body += "]}";
  const HttpAnswer answer = ask(world, with_key("1", body));
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(left(world, by_key("k0", 5)), 5);
  EXPECT_EQ(world.kept().entries, 0u);
  EXPECT_EQ(ask(world, post("/v1/take", body)).status, 200);
}

TEST(IdempotentTake, WithLongNamesIsKeptWholeOrRefused) {
  World world(
      {.rules = "- { match: { ip: '*' }, actor: ip, name: " + std::string(255, 'n') +
                ", limits: [{ quota: 3, window: 1m }, { quota: 3, window: 2m }, { quota: 3, "
                "window: 3m }, { quota: 3, window: 4m }, { quota: 3, window: 5m }, { quota: "
                "3, window: 6m }, { quota: 3, window: 7m }, { quota: 3, window: 8m }] }\n"});
  for (const std::string more : {"", R"(, "n": 4)", R"(, "detail": true)"}) {
    const HttpAnswer first = ask(world, with_key("k" + more, by_ip("a", more)));
    const HttpAnswer again = ask(world, with_key("k" + more, by_ip("a", more)));
    EXPECT_EQ(again.status, first.status) << more;
    EXPECT_EQ(again.body, first.body) << more;
    EXPECT_NE(again.status, 503) << again.body;
  }
}

TEST(IdempotentTake, IsKeptForItsTime) {
  World world;
  EXPECT_EQ(world.kept().entries, 0u);
  EXPECT_EQ(ask(world, with_key("1", by_ip("a"))).status, 200);
  EXPECT_EQ(world.kept().entries, 1u);
  world.pass(61 * second);
  EXPECT_EQ(ask(world, with_key("1", by_ip("a"))).field("idempotency-replayed"), "");
}

TEST(IdempotentTake, IsRejectedOnPathsWithoutKeys) {
  World world;
  for (const std::string path : {"/v1/peek", "/v1/reset", "/v1/wait"})
    EXPECT_EQ(ask(world, with_key("1", by_ip("a"), path)).status, 400) << path;
  EXPECT_EQ(ask(world, with_key("", by_ip("a"))).status, 400);
  EXPECT_EQ(ask(world, with_key(std::string(256, 'x'), by_ip("a"))).status, 400);
  EXPECT_EQ(ask(world, with_key("1", by_ip("a"), "/v1/take", "Idempotency-Key: \"1\"\r\n")).status,
            400);
  World without({.http = "{ idempotency_ttl: 0 }"});
  EXPECT_EQ(ask(without, with_key("1", by_ip("a"))).status, 400);
  EXPECT_EQ(left(without, by_ip("a")), 3);
}

TEST(IdempotentTake, Is503WithoutRoomForANewKey) {
  World world({.http = "{ idempotency_memory: 1MiB }"});
  std::vector<std::unique_ptr<Connection>> connections;
  world.store.settles = [](size_t) { return 0; };
  HttpAnswer refused;
  for (int i = 0; i < 1'000 && refused.status == 0; ++i) {
    connections.push_back(std::make_unique<Connection>(world));
    std::string text = connections.back()->ask(with_key(std::to_string(i), by_ip("a")));
    refused = take_answer(text);
  }
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(refused.has("retry-after"));
  EXPECT_GT(connections.size(), 10u);
  connections.clear();
}

TEST(IdempotentTake, RepeatsTheAnswerWithTheFieldsOfTheNewRequest) {
  World world({.http = "{ origins: ['https://one.example', 'https://two.example'] }"});
  const auto asked_by = [&](const std::string& origin) {
    return ask(world, post("/v1/take", by_ip("a"),
                           "Idempotency-Key: k\r\n" +
                               (origin.empty() ? origin : "Origin: " + origin + "\r\n")));
  };
  const HttpAnswer first = asked_by("https://one.example");
  EXPECT_EQ(first.field("access-control-allow-origin"), "https://one.example");
  const HttpAnswer second = asked_by("https://two.example");
  EXPECT_EQ(second.field("access-control-allow-origin"), "https://two.example");
  EXPECT_EQ(second.field("vary"), "Origin");
  EXPECT_EQ(second.field("idempotency-replayed"), "true");
  EXPECT_EQ(second.body, first.body);
  const HttpAnswer third = asked_by("");
  EXPECT_FALSE(third.has("access-control-allow-origin"));
  EXPECT_FALSE(third.has("vary"));
  EXPECT_EQ(third.field("ratelimit"), first.field("ratelimit"));
}

}  // namespace
}  // namespace sluice::http::idempotent_take_test
