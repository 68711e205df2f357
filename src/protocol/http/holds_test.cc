// Reservations over HTTP with the engine, holds and table in memory, under a clock that the test
// sets: ends, what is remembered, a store that fails, reloads and limited rights. Without sockets.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "access/users.h"
#include "access/users_by_rights_test.h"
#include "protocol/http/http_text_test.h"

namespace sluice::http::holds_test {
namespace {

using namespace session_world;

const std::string id = "hold-0000-0000-1";
const std::string of_id = R"({"id": ")" + id + "\"";

std::string rule(const std::string& more = {}, int quota = 100) {
  return "- { match: { ip: '*' }, actor: ip, name: tok, limit: { quota: " + std::to_string(quota) +
         ", window: 1h, algorithm: fixed_window }" + more + " }\n";
}

HttpAnswer reserve(World& world, int n, const std::string& more = {}) {
  return ask(world, post("/v1/reserve", by_ip("a", ", \"n\": " + std::to_string(n) +
                                                       ", \"id\": \"" + id + "\"" + more)));
}
HttpAnswer commit(World& world, int n, const std::string& more = {}) {
  return ask(world, post("/v1/commit", of_id + ", \"n\": " + std::to_string(n) + more + "}"));
}
HttpAnswer release(World& world) {
  return ask(world, post("/v1/release", of_id + "}"));
}
HttpAnswer take(World& world, int n) {
  return ask(world, post("/v1/take", by_ip("a", ", \"n\": " + std::to_string(n))));
}

TEST(HttpHold, EndsAtItsMicrosecond) {
  World world({.rules = rule()});
  EXPECT_EQ(reserve(world, 100, R"(, "ttl": 1.5)").status, 200);
  world.pass(1'499'999);
  EXPECT_EQ(take(world, 1).status, 429);
  world.pass(1);
  EXPECT_EQ(take(world, 100).status, 200);
}

TEST(HttpHold, IsRememberedAfterItWasSettledAndThenUnknown) {
  World world({.rules = rule()});
  EXPECT_EQ(reserve(world, 40).status, 200);
  EXPECT_EQ(commit(world, 12).status, 200);
  world.pass(599 * second);
  EXPECT_TRUE(commit(world, 12).tells(R"("repeated": true)"));
  EXPECT_EQ(commit(world, 13).status, 409);
  world.pass(2 * second);
  EXPECT_EQ(commit(world, 12).status, 404);
  EXPECT_EQ(left(world, by_ip("a")), 88);
  EXPECT_EQ(reserve(world, 40).status, 200) << "the id is free";
  EXPECT_EQ(left(world, by_ip("a")), 48);
}

// The answer to a reserve that is sent again is allowed, however its counter stands now.
TEST(HttpHold, ARepeatedReserveOfACounterInDebtIsTheSameReservation) {
  World world({.rules = rule()});
  EXPECT_EQ(reserve(world, 40).status, 200);
  EXPECT_EQ(ask(world, post("/v1/charge", by_ip("a", R"(, "n": 70)"))).status, 200);
  world.pass(20 * second);
  const HttpAnswer again = reserve(world, 40);
  EXPECT_EQ(again.status, 200);
  EXPECT_TRUE(again.body.starts_with(R"({"allowed": true, "limit": 100, "remaining": 0)"))
      << again.body;
  EXPECT_TRUE(again.tells(R"("ttl": 40, "reserved": 40, "repeated": true)")) << again.body;
}

TEST(HttpHold, AStoreThatFailsChangesNothingAndIsAnsweredAsTheRuleSays) {
  for (const auto& [on_error, status] : {std::pair{"error", 503}, {"deny", 429}, {"allow", 200}}) {
    World world({.rules = rule(std::string(", on_store_error: ") + on_error)});
    world.store.fails = true;
    const HttpAnswer answer = reserve(world, 40);
    EXPECT_EQ(answer.status, status) << on_error;
    EXPECT_EQ(answer.tells(R"("id": null, "held": false)"), status == 200) << answer.body;
    world.store.fails = false;
    EXPECT_EQ(left(world, by_ip("a")), 100) << on_error;
    EXPECT_FALSE(reserve(world, 40).tells("repeated")) << "the id is free: " << on_error;
    world.store.fails = true;
    for (const HttpAnswer& failed : {commit(world, 12), release(world),
                                     ask(world, post("/v1/extend", of_id + R"(, "n": 1})"))}) {
      EXPECT_EQ(failed.status, 503) << on_error << failed.body;
      EXPECT_EQ(failed.field("retry-after"), "1");
    }
    world.store.fails = false;
    const HttpAnswer done = commit(world, 12);
    EXPECT_TRUE(done.tells(R"("returned": 28, "charged": 0, "late": false, "repeated": false)"))
        << done.body;
    EXPECT_EQ(left(world, by_ip("a")), 88);
  }
}

TEST(HttpHold, IsSettledUnderTheRulesOfAReload) {
  World world({.rules = rule()});
  EXPECT_EQ(reserve(world, 40).status, 200);
  world.load(rule({}, 50));
  EXPECT_EQ(left(world, by_ip("a")), 10);
  EXPECT_EQ(take(world, 1).status, 200);
  const HttpAnswer done = commit(world, 12);
  EXPECT_TRUE(done.tells(R"("returned": 28)")) << done.body;
  EXPECT_TRUE(done.tells(R"("limit": 50, "remaining": 37)")) << done.body;
  EXPECT_TRUE(done.tells(R"("generation": 2)")) << done.body;
  EXPECT_EQ(left(world, by_ip("a")), 37);
}

TEST(HttpHold, OverHttp2IsTheSameHold) {
  World world({.rules = rule()});
  Http2Client client(world);
  EXPECT_EQ(reserve(world, 40).status, 200);
  EXPECT_TRUE(client.ask("/v1/extend", of_id + R"(, "n": 5})").tells(R"("reserved": 45)"));
  EXPECT_TRUE(client.ask("/v1/renew", of_id + R"(, "ttl": 7})").tells(R"("ttl": 7)"));
  EXPECT_TRUE(client.ask("/v1/commit", of_id + R"(, "n": 12})").tells(R"("returned": 33)"));
  EXPECT_EQ(client.ask("/v1/release", of_id + "}").status, 409);
}

// A right that reaches some counters alone: a reserve is judged as a take, and a hold that was made
// is its user's.
TEST(HttpHold, OfALimitedRightIsAboutCountersThatItReaches) {
  std::vector<access::User> users = {{"app", tests::every_right, access::digest_of("app")}};
  users[0].reach[static_cast<size_t>(access::Right::take)] = access::Reach({"tok:a*"});
  World world({.rules = rule(), .users = std::make_shared<const access::Users>(std::move(users))});
  const auto status = [&](const char* path, const std::string& body) {
    return ask(world, post(path, body, "Authorization: Bearer app\r\n")).status;
  };
  const std::string its = R"(, "id": ")" + id + "\"";
  EXPECT_EQ(status("/v1/reserve", by_ip("b", its)), 403);
  EXPECT_EQ(status("/v1/reserve",
                   R"({"takes": [{"entries": {"ip": "a"}}, {"entries": {"ip": "b"}}])" + its + "}"),
            403);
  EXPECT_EQ(status("/v1/renew", of_id + "}"), 404) << "nothing is held";
  EXPECT_EQ(status("/v1/reserve", by_ip("a", its)), 200);
  EXPECT_EQ(status("/v1/extend", of_id + R"(, "n": 1})"), 200);
  EXPECT_EQ(status("/v1/commit", of_id + R"(, "n": 1})"), 200);
  EXPECT_EQ(status("/v1/commit", by_ip("b", R"(, "n": 1, "id": "hold-0000-0000-2")")), 403);
  EXPECT_EQ(status("/v1/commit", by_ip("a", R"(, "n": 1, "id": "hold-0000-0000-2")")), 200);
}

// Takes, reserves and settles that arrive together are decided in their order.
TEST(HttpHold, IsDecidedInItsPlaceAmongPipelinedRequests) {
  World world({.rules = rule()});
  Connection connection(world);
  std::string all = post("/v1/take", by_ip("a", R"(, "n": 10)")) +
                    post("/v1/reserve", by_ip("a", R"(, "n": 90, "id": ")" + id + "\"")) +
                    post("/v1/take", by_ip("a")) + post("/v1/commit", of_id + R"(, "n": 50})") +
                    post("/v1/take", by_ip("a", R"(, "n": 40)")) + post("/v1/take", by_ip("a"));
  std::string answers = connection.ask(all);
  std::vector<int> statuses;
  while (!answers.empty()) statuses.push_back(take_answer(answers).status);
  EXPECT_EQ(statuses, (std::vector<int>{200, 200, 429, 200, 200, 429}));
}

// ---- Waiting ----

// A world in which 90 of the 100 units are taken.
struct Nearly : World {
  explicit Nearly(const std::string& rules = rule()) : World({.rules = rules}) {
    EXPECT_EQ(take(*this, 90).status, 200);
  }
  void give(int n) {
    EXPECT_EQ(ask(*this, post("/v1/put", by_ip("a", ", \"n\": " + std::to_string(n)))).status, 200);
  }
};

std::string waiting_reserve(int n, const std::string& more = {}) {
  return post("/v1/reserve",
              by_ip("a", ", \"n\": " + std::to_string(n) + ", \"timeout\": 30" + more));
}
const std::string with_id = R"(, "id": ")" + id + "\"";
const engine::Engine::Held nothing_held{};

TEST(HttpHold, WaitsForUnitsAndIsHeldFromThenOn) {
  Nearly world;
  Connection connection(world);
  EXPECT_EQ(connection.ask(waiting_reserve(40, with_id + R"(, "ttl": 5)")), "");
  EXPECT_EQ(left(world, by_ip("a")), 0) << "the units before it are claimed";
  EXPECT_EQ(world.holds.figures().events[0], 0u);
  world.pass(2 * second);
  world.give(30);
  const auto answers = answers_of(connection.take());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 200);
  EXPECT_TRUE(answers[0].tells(R"("remaining": 0)")) << answers[0].body;
  EXPECT_TRUE(answers[0].tells(R"("waited": 2, "id": ")" + id + R"(", "ttl": 5, "reserved": 40)"))
      << answers[0].body;
  world.pass(5 * second - 1);
  EXPECT_EQ(left(world, by_ip("a")), 0);
  world.pass(1);
  EXPECT_EQ(left(world, by_ip("a")), 40);
  EXPECT_EQ(world.engine().held(), nothing_held);
}

TEST(HttpHold, WhatAnotherGivesBackGoesToTheOneThatWaits) {
  for (const char* how : {"commit", "release", "its end"}) {
    World world({.rules = rule()});
    EXPECT_EQ(reserve(world, 100, R"(, "ttl": 10)").status, 200);
    Connection connection(world);
    EXPECT_EQ(connection.ask(waiting_reserve(60)), "");
    if (how == std::string("commit")) {
      EXPECT_EQ(commit(world, 40).status, 200);
    } else if (how == std::string("release")) {
      EXPECT_EQ(release(world).status, 200);
    } else {
      world.pass(10 * second);
    }
    const auto answers = answers_of(connection.take());
    ASSERT_EQ(answers.size(), 1u) << how;
    EXPECT_TRUE(answers[0].tells(R"("reserved": 60)")) << how << answers[0].body;
    EXPECT_EQ(left(world, by_ip("a")), how == std::string("commit") ? 0 : 40) << how;
    EXPECT_EQ(world.holds.figures().holds, 1u) << how;
  }
}

TEST(HttpHold, AWaitThatIsOverHoldsNothing) {
  Nearly world;
  Connection connection(world);
  EXPECT_EQ(connection.ask(waiting_reserve(40, with_id)), "");
  world.pass(30 * second);
  const auto answers = answers_of(connection.take());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 408);
  EXPECT_TRUE(answers[0].tells("wait-timeout")) << answers[0].body;
  EXPECT_EQ(left(world, by_ip("a")), 10);
  EXPECT_EQ(world.holds.figures().holds, 0u);
  EXPECT_FALSE(reserve(world, 5).tells("repeated")) << "the id is free";
  EXPECT_EQ(world.engine().held(), nothing_held);
}

TEST(HttpHold, AWaitEndsWithItsConnection) {
  Nearly world;
  {
    Connection connection(world);
    EXPECT_EQ(connection.ask(waiting_reserve(40)), "");
  }
  world.give(30);
  EXPECT_EQ(left(world, by_ip("a")), 40);
  EXPECT_EQ(world.holds.figures().holds, 0u);
  EXPECT_EQ(world.engine().held(), nothing_held);
}

TEST(HttpHold, AStopEndsAWait) {
  Nearly world;
  Connection connection(world);
  EXPECT_EQ(connection.ask(waiting_reserve(40)), "");
  connection.finish();
  const auto answers = answers_of(connection.take());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 503);
  EXPECT_TRUE(answers[0].tells("the server stops; nothing was taken")) << answers[0].body;
  EXPECT_EQ(world.holds.figures().holds, 0u);
}

TEST(HttpHold, MoreThanALimitEverHasDoesNotWait) {
  World world({.rules = rule()});
  const HttpAnswer answer = ask(world, waiting_reserve(101));
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(answer.tells(R"("retry_after": null)")) << answer.body;
  EXPECT_EQ(world.holds.figures().holds, 0u);
  EXPECT_EQ(world.engine().held(), nothing_held);
}

TEST(HttpHold, AWaitIsDecidedByTheRulesOfAReload) {
  Nearly world;
  Connection connection(world), other(world);
  EXPECT_EQ(connection.ask(waiting_reserve(40, with_id)), "");
  EXPECT_EQ(other.ask(waiting_reserve(5)), "") << "behind it";
  world.load(rule({}, 130));
  const auto answers = answers_of(connection.take());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0].tells(R"("limit": 130, "remaining": 0)")) << answers[0].body;
  EXPECT_TRUE(answers[0].tells(R"("generation": 2)")) << answers[0].body;
  EXPECT_EQ(other.take(), "");
  EXPECT_TRUE(commit(world, 10).tells(R"("returned": 30)"));
  EXPECT_EQ(answers_of(other.take()).size(), 1u);
  EXPECT_EQ(left(world, by_ip("a")), 25);
  // A rule that has a limit no more.
  EXPECT_EQ(connection.ask(waiting_reserve(100)), "");
  world.load("- { match: { ip: '*' }, actor: ip, name: tok, unlimited: true }\n");
  EXPECT_EQ(answers_of(connection.take()).size(), 1u);
  EXPECT_EQ(world.engine().held(), nothing_held);
}

// Two requests with one id wait: the second to be granted finds the first.
TEST(HttpHold, AnIdThatWaitsTwiceIsHeldOnce) {
  Nearly world;
  Connection first(world), second_one(world), third(world);
  EXPECT_EQ(first.ask(waiting_reserve(40, with_id)), "");
  EXPECT_EQ(second_one.ask(waiting_reserve(40, with_id)), "");
  EXPECT_EQ(third.ask(waiting_reserve(39, with_id)), "");
  world.give(90);
  for (int i = 0; i < 3; ++i) world.pass(0);  // each is looked at by itself
  auto answers = answers_of(first.take());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_FALSE(answers[0].tells("repeated")) << answers[0].body;
  answers = answers_of(second_one.take());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0].tells(R"("repeated": true)")) << answers[0].body;
  answers = answers_of(third.take());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 409);
  EXPECT_EQ(left(world, by_ip("a")), 60);
  EXPECT_EQ(world.holds.figures().holds, 1u);
}

// A rule in shadow takes its units while the others are waited for, and gives them back with them.
TEST(HttpHold, ARuleInShadowHoldsWithTheOneThatWaits) {
  const auto trial = [](const std::string& mode) {
    return "- { match: { ip: '*' }, actor: ip, name: trial, mode: " + mode +
           ", limit: { quota: 1000, window: 1h, algorithm: fixed_window } }\n";
  };
  for (const bool is_granted : {false, true}) {
    Nearly world(rule(", then: continue") + trial("shadow"));
    {
      Connection connection(world);
      EXPECT_EQ(connection.ask(waiting_reserve(40, with_id)), "");
      if (is_granted) {
        world.give(50);
        EXPECT_EQ(answers_of(connection.take()).size(), 1u);
        EXPECT_EQ(commit(world, 10).status, 200);
      }
    }
    world.load(trial("enforce"));
    // The put gave 50 back there, too.
    EXPECT_EQ(left(world, by_ip("a")), is_granted ? 1000 - 90 - 10 + 50 : 1000 - 90);
  }
}

}  // namespace
}  // namespace sluice::http::holds_test
