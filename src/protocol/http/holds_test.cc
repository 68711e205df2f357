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

}  // namespace
}  // namespace sluice::http::holds_test
