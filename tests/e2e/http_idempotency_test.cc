// Idempotency keys with the real program: a request that is sent again gets the same answer and is
// charged once, whatever happened to the connection of the first.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/http_described.h"
#include "tests/support/redis_server.h"

namespace sluice::tests::http_e2e {
namespace {

Asked keyed(const std::string& key, const std::string& path, const Json& body) {
  return post(path, body, {{"Idempotency-Key", key}});
}

class HttpIdempotency : public testing::Test {
 protected:
  HttpAnswer ask(const Asked& asked, HttpVersion version = HttpVersion::http1) const {
    return http_e2e::ask(version, door_.port(), asked);
  }
  int64_t left(const Json& subject) const {
    return units_left([this](const Asked& asked) { return ask(asked); }, subject);
  }

  Door door_;
};

// Expects the same answer, except for its date and the mark of a replay.
void expect_replay(const HttpAnswer& again, const HttpAnswer& first) {
  EXPECT_EQ(again.status, first.status);
  EXPECT_EQ(again.body, first.body);
  EXPECT_EQ(header_of(again, "idempotency-replayed"), "true");
  EXPECT_EQ(header_of(first, "idempotency-replayed"), "(none)");
  for (const auto& [name, value] : first.headers)
    if (name != "date") {
      EXPECT_EQ(header_of(again, name), value) << name;
    }
}

TEST_F(HttpIdempotency, ARepeatedRequestGetsTheSameAnswerAndIsChargedOnce) {
  const Json tenant = about({{"tenant", "t"}}, {{"n", 3}});
  for (const HttpVersion version : http_versions) {
    const std::string key = std::string("\"") + name_of(version) + "\"";
    const Asked asked = keyed(key, "/v1/take", tenant);
    const HttpAnswer first = ask(asked, version);
    EXPECT_EQ(first.status, 200);
    for (const HttpVersion again : http_versions) expect_replay(ask(asked, again), first);
  }
  EXPECT_EQ(left(tenant), 4);
}

TEST_F(HttpIdempotency, OverACutConnectionIsChargedOnce) {
  const Json tenant = about({{"tenant", "t"}}, {{"n", 3}});
  const Asked asked = keyed("\"cut\"", "/v1/take", tenant);
  for (int i = 0; i < 5; ++i) {
    Http1 cut(door_.port());
    cut.send(asked);
    cut.socket().abort();
  }
  HttpAnswer last;
  ASSERT_TRUE(comes([&] {
    last = ask(asked);
    return last.status != 409;
  }));
  // If the client was cut off during the execution, its request may have been charged, and the
  // answer says so.
  EXPECT_TRUE(last.status == 200 || problem_of(last) == "outcome-unknown") << last.body;
  EXPECT_GE(left(tenant), 7) << "once at most";
}

TEST_F(HttpIdempotency, ADenialIsKeptToo) {
  const Json jar = about({{"jar", "j"}}, {{"n", 2}});
  ASSERT_EQ(ask(post("/v1/take", jar)).status, 200);
  const Asked asked = keyed("denied", "/v1/take", jar);
  const HttpAnswer first = ask(asked);
  EXPECT_EQ(first.status, 429);
  ASSERT_EQ(ask(post("/v1/put", jar)).status, 200);
  expect_replay(ask(asked), first);
  EXPECT_EQ(ask(keyed("another", "/v1/take", jar)).status, 200);
}

TEST_F(HttpIdempotency, KeepsTheAnswerOfARequestWithoutARule) {
  const Asked asked = keyed("none", "/v1/take", about({{"no", "rule"}}));
  const HttpAnswer first = ask(asked);
  EXPECT_EQ(first.status, 404);
  expect_replay(ask(asked), first);
}

TEST_F(HttpIdempotency, PutAndBatchTakeKeysToo) {
  const Json tenant = about({{"tenant", "t"}});
  const Asked batch = keyed("b", "/v1/batch", takes({tenant, tenant, tenant}));
  const HttpAnswer taken = ask(batch);
  EXPECT_EQ(taken.status, 200);
  expect_replay(ask(batch), taken);
  EXPECT_EQ(left(tenant), 7);
  const Asked put = keyed("p", "/v1/put", tenant);
  const HttpAnswer given = ask(put);
  EXPECT_EQ(given.status, 200);
  expect_replay(ask(put), given);
  EXPECT_EQ(left(tenant), 8);
}

TEST_F(HttpIdempotency, AnotherRequestMustHaveAnotherKey) {
  const Json tenant = about({{"tenant", "t"}});
  ASSERT_EQ(ask(keyed("k", "/v1/take", tenant)).status, 200);
  for (const Asked& other :
       {keyed("k", "/v1/take", with(tenant, {{"n", 1}})), keyed("k", "/v1/put", tenant),
        keyed("k", "/v1/take?status=200", tenant)}) {
    const HttpAnswer answer = ask(other);
    EXPECT_EQ(answer.status, 422);
    EXPECT_EQ(problem_of(answer), "idempotency-key-reused");
  }
  EXPECT_EQ(left(tenant), 9);
}

TEST_F(HttpIdempotency, AKeyIsAStringWithOrWithoutQuotes) {
  const Json tenant = about({{"tenant", "t"}});
  const HttpAnswer first = ask(keyed("\"8e03978e-40d5\"", "/v1/take", tenant));
  EXPECT_EQ(first.status, 200);
  expect_replay(ask(keyed("8e03978e-40d5", "/v1/take", tenant)), first);
  EXPECT_EQ(ask(keyed(std::string(255, 'k'), "/v1/take", tenant)).status, 200);
  for (const std::string& key : {std::string("\"\""), std::string("\"open"), std::string(256, 'k'),
                                 std::string("\"a\" b"), std::string("\"a\", \"b\"")}) {
    const HttpAnswer answer = ask(keyed(key, "/v1/take", tenant));
    EXPECT_EQ(answer.status, 400) << key;
    EXPECT_EQ(problem_of(answer), "bad-request") << key;
  }
  EXPECT_EQ(left(tenant), 8);
}

// The answer to a request that was not executed is not kept.
TEST_F(HttpIdempotency, ARejectedRequestMayBeCorrectedUnderTheSameKey) {
  const Json tenant = about({{"tenant", "t"}});
  EXPECT_EQ(ask(keyed("m", "/v1/take", with(tenant, {{"quanity", 1}}))).status, 400);
  Asked untyped = keyed("m", "/v1/take", tenant);
  untyped.headers.pop_back();
  EXPECT_EQ(ask(untyped).status, 415);
  const HttpAnswer answer = ask(keyed("m", "/v1/take", tenant));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(header_of(answer, "idempotency-replayed"), "(none)");
}

TEST_F(HttpIdempotency, AnAnswerThatCouldBeTooLongIsRefusedBeforeItIsDecided) {
  const Json tenant = about({{"tenant", "t"}});
  std::vector<Json> many(16, about({{"open", "x"}}));
  EXPECT_EQ(ask(keyed("16", "/v1/batch", takes(many))).status, 200);
  many.push_back(tenant);
  for (const char* path : {"/v1/batch", "/v1/take"}) {
    const HttpAnswer answer = ask(keyed("17", path, takes(many)));
    EXPECT_EQ(answer.status, 413);
    EXPECT_EQ(problem_of(answer), "content-too-large");
  }
  EXPECT_EQ(left(tenant), 10);
  EXPECT_EQ(ask(post("/v1/take", takes(many))).status, 200) << "without a key";
}

// With rules of long names, an answer is longer than what a request under way reserves in the
// memory for keys (idempotent_answer_bytes_max).
TEST(HttpIdempotencyBounds, KeepsEveryAcceptedAnswerOfAnyLength) {
  std::string rules = "rules:\n";
  std::vector<Json> all;
  for (int i = 0; i < 16; ++i) {
    const std::string n = std::to_string(i);
    rules += "  - { name: " + std::string(250, 'r') + n + ", match: { k: \"" + n +
             "\" }, limit: { quota: 9, window: 1h } }\n";
    all.push_back(about({{"k", n}}));
  }
  const Door door("{}", rules);
  const Asked asked = keyed("long", "/v1/take", takes(all));
  const auto send = [&](const Asked& one) { return ask(HttpVersion::http1, door.port(), one); };
  const HttpAnswer first = send(asked);
  EXPECT_EQ(first.status, 200) << first.body;
  EXPECT_GT(first.body.size(), 4096u);
  expect_replay(send(asked), first);
  for (const Json& one : all) EXPECT_EQ(units_left(send, one), 8) << one;
}

TEST(HttpIdempotencyBounds, KeysThatAreSwitchedOffAreRefused) {
  const Door door("{ idempotency_ttl: 0 }");
  for (const HttpVersion version : http_versions) {
    const Json tenant = about({{"tenant", "t"}});
    const HttpAnswer answer = ask(version, door.port(), keyed("k", "/v1/take", tenant));
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(problem_of(answer), "bad-request");
    EXPECT_EQ(ask(version, door.port(), post("/v1/take", tenant)).status, 200);
  }
}

TEST(HttpIdempotencyBounds, AKeyIsForgottenWithItsTime) {
  const Door door("{ idempotency_ttl: 1s }");
  const Asked asked = keyed("k", "/v1/take", about({{"tenant", "t"}}));
  ASSERT_EQ(ask(HttpVersion::http1, door.port(), asked).status, 200);
  EXPECT_TRUE(comes([&] {
    const HttpAnswer answer = ask(HttpVersion::http1, door.port(), asked);
    return header_of(answer, "idempotency-replayed") == "(none)" &&
           json_of(answer).at("remaining") == 8;
  }));
}

// Without users all keys belong to one user, which may use all the memory. A request under way
// counts 4 KiB.
TEST(HttpIdempotencyBounds, RefusesANewKeyWhenTheMemoryIsFull) {
  const Door door("{ idempotency_memory: 1MiB }");
  Http1 client(door.port());
  const auto take = [&](int i) {
    return ask_on(client, keyed(std::to_string(i), "/v1/take", about({{"open", "x"}})));
  };
  HttpAnswer answer;
  int kept = 0;
  while (kept < 2800 && (answer = take(kept)).status == 200) ++kept;
  EXPECT_GT(kept, 800);
  EXPECT_LT(kept, 2731) << "384 bytes each, without an answer";
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(problem_of(answer), "temporary-reduced-capacity");
  const int retry_after = std::stoi(header_of(answer, "retry-after"));
  EXPECT_GE(retry_after, 1);
  EXPECT_LE(retry_after, 60);
  for (int i = 0; i < kept; i += 50)
    EXPECT_EQ(header_of(take(i), "idempotency-replayed"), "true") << i;
  EXPECT_EQ(ask_on(client, post("/v1/take", about({{"open", "x"}}))).status, 200)
      << "without a key";
}

// If one take of several has no rule, the others are not charged again.
TEST(HttpIdempotencyBounds, SeveralTakesWithOneUnmatchedAreChargedOnce) {
  const Door door;
  const Json tenant = about({{"tenant", "t"}});
  for (const HttpVersion version : http_versions) {
    const std::string key = name_of(version);
    const Asked asked =
        keyed(key, "/v1/take", takes({tenant, about({{"no", "rule"}})}, {{"mode", "each"}}));
    const HttpAnswer first = ask(version, door.port(), asked);
    expect_replay(ask(version, door.port(), asked), first);
  }
  EXPECT_EQ(
      units_left([&](const Asked& asked) { return ask(HttpVersion::http1, door.port(), asked); },
                 tenant),
      8);
}

// The Redis is suspended, so that the first request is under way until the test resumes it.
TEST(HttpIdempotencyBounds, AKeyIsInUseDuringItsFirstRequest) {
  const RedisServer redis;
  const Door door("{}", "store: { redis: { nodes: [\"" + redis.address() +
                            "\"], deadline_ms: 60000 } }\n" + usual_rules);
  const Json tenant = about({{"tenant", "t"}}, {{"n", 3}});
  const Asked asked = keyed("\"slow\"", "/v1/take", tenant);
  const auto on_new = [&](const Asked& one) { return ask(HttpVersion::http1, door.port(), one); };
  ASSERT_EQ(on_new(post("/v1/take", tenant)).status, 200) << "Redis is connected";
  Http2 client(door.port());
  redis.signal(SIGSTOP);
  const uint32_t first = client.send(asked);
  const HttpAnswer second = client.read(client.send(asked));
  expect_described(asked, second);
  EXPECT_EQ(second.status, 409);
  EXPECT_EQ(problem_of(second), "idempotency-key-in-use");
  EXPECT_EQ(header_of(second, "retry-after"), "1");
  EXPECT_EQ(on_new(asked).status, 409) << "on another connection as well";
  EXPECT_EQ(on_new(keyed("\"slow\"", "/v1/take", about({{"tenant", "u"}}))).status, 422);
  // A request whose client leaves meanwhile keeps its key: it is unknown whether it was charged.
  const Asked cut = keyed("\"cut\"", "/v1/take", about({{"tenant", "u"}}));
  {
    Http2 leaves(door.port());
    leaves.send(cut);
    EXPECT_EQ(leaves.read(leaves.send(cut)).status, 409);
    leaves.socket().abort();
  }
  EXPECT_TRUE(comes([&] { return problem_of(on_new(cut)) == "outcome-unknown"; }));
  EXPECT_FALSE(client.is_answered(first));
  redis.signal(SIGCONT);
  const HttpAnswer answer = client.read(first);
  EXPECT_EQ(answer.status, 200);
  expect_replay(on_new(asked), answer);
  EXPECT_EQ(units_left(on_new, tenant), 4);
}

TEST(HttpIdempotencyBounds, SeparatesKeysByUser) {
  const Folder folder;
  folder.write("a.password", "a\n");
  folder.write("b.password", "b\n");
  const std::string user = "password_file: " + folder.path() + "/";
  const Door door("{}", std::string(usual_rules) + "users:\n  - { name: a, " + user +
                            "a.password, rights: [take, look] }\n  - { name: b, " + user +
                            "b.password, rights: [take, look] }\n");
  const auto take = [&](const std::string& credentials) {
    Asked asked = keyed("k", "/v1/take", about({{"tenant", "t"}}));
    asked.headers.emplace_back("Authorization", "Bearer " + credentials);
    return ask(HttpVersion::http2, door.port(), asked);
  };
  EXPECT_EQ(json_of(take("a:a")).at("remaining"), 9);
  EXPECT_EQ(json_of(take("b:b")).at("remaining"), 8);
  EXPECT_EQ(json_of(take("a:a")).at("remaining"), 9);
  EXPECT_EQ(take("a:b").status, 401) << "a key is not a password";
}

}  // namespace
}  // namespace sluice::tests::http_e2e
