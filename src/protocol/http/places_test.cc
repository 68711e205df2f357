// Places over HTTP: acquired by id, held for a lease, given back by a release, their end or the end
// of their connection; beside rates, under reloads, while others wait, and at random against a list
// of who holds what. Sessions, engine, holds and table in memory, without sockets.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/http/http_text_test.h"
#include "tests/support/dice.h"

namespace sluice::http::places_test {
namespace {

using namespace session_world;

std::string pool(int quota, const std::string& more = {}) {
  return "- { match: { ip: '*' }, actor: ip, name: pool" + more +
         ", limit: { quota: " + std::to_string(quota) +
         ", algorithm: concurrency, lease: 30s, max_lease: 5m } }\n";
}
std::string id_of(int number) {
  return "place-holder-" + std::to_string(1000 + number);
}
std::string acquire_text(int number, int n = 1, const std::string& more = {}) {
  return post("/v1/acquire", by_ip("a", ", \"n\": " + std::to_string(n) + ", \"id\": \"" +
                                            id_of(number) + "\"" + more));
}
HttpAnswer acquire(World& world, int number, int n = 1, const std::string& more = {}) {
  return ask(world, acquire_text(number, n, more));
}
HttpAnswer settle(World& world, const char* path, int number, const std::string& more = {}) {
  return ask(world, post(path, "{\"id\": \"" + id_of(number) + "\"" + more + "}"));
}
HttpAnswer take(World& world) {
  return ask(world, post("/v1/take", by_ip("a")));
}

TEST(HttpPlace, IsHeldForItsLeaseAndReleased) {
  World world({.rules = pool(2)});
  const HttpAnswer answer = acquire(world, 1, 1, R"(, "holder": "worker 1")");
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body.starts_with(R"({"allowed": true, "limit": 2, "remaining": 1, )"))
      << answer.body;
  EXPECT_TRUE(answer.tells(R"("id": ")" + id_of(1) + R"(", "ttl": 30, "reserved": 1)"))
      << answer.body;
  EXPECT_EQ(acquire(world, 2).status, 200);
  const HttpAnswer full = acquire(world, 3);
  EXPECT_EQ(full.status, 429);
  EXPECT_TRUE(full.tells(R"("retry_after": 30)")) << full.body;
  EXPECT_EQ(world.holds.figures().places, 2u);
  EXPECT_TRUE(settle(world, "/v1/release", 1).tells(R"("state": "released", "returned": 1)"));
  EXPECT_EQ(settle(world, "/v1/release", 1).status, 200);
  EXPECT_EQ(acquire(world, 3).status, 200);
  EXPECT_EQ(acquire(world, 4).status, 429);
}

TEST(HttpPlace, EndsAtItsMicrosecondAndIsNeverRevived) {
  World world({.rules = pool(1)});
  EXPECT_EQ(acquire(world, 1, 1, R"(, "ttl": 1.5)").status, 200);
  world.pass(1'499'999);
  EXPECT_EQ(take(world).status, 429);
  world.pass(1);
  EXPECT_EQ(settle(world, "/v1/renew", 1).status, 410) << "although nobody took it";
  EXPECT_EQ(settle(world, "/v1/commit", 1, R"(, "n": 1)").status, 410);
  EXPECT_TRUE(settle(world, "/v1/release", 1).tells(R"("returned": 0)"));
  EXPECT_EQ(acquire(world, 1).status, 409);
  EXPECT_EQ(acquire(world, 2).status, 200);
}

TEST(HttpPlace, IsRenewedUpToItsLongestLease) {
  World world({.rules = pool(1)});
  EXPECT_EQ(acquire(world, 1).status, 200);
  world.pass(20 * second);
  EXPECT_TRUE(settle(world, "/v1/renew", 1).tells(R"("ttl": 30)"));
  world.pass(29 * second);
  EXPECT_EQ(take(world).status, 429);
  EXPECT_TRUE(settle(world, "/v1/renew", 1, R"(, "ttl": 3600)").tells(R"("ttl": 300)"));
  world.pass(300 * second - 1);
  EXPECT_EQ(take(world).status, 429);
  world.pass(1);
  EXPECT_EQ(take(world).status, 200);
  EXPECT_TRUE(acquire(world, 2, 1, R"(, "ttl": 3600)").status == 429);
  world.pass(30 * second);
  EXPECT_TRUE(acquire(world, 2, 1, R"(, "ttl": 3600)").tells(R"("ttl": 300)"));
  // To an earlier end.
  EXPECT_TRUE(settle(world, "/v1/renew", 2, R"(, "ttl": 1)").tells(R"("ttl": 1)"));
  world.pass(second);
  EXPECT_EQ(take(world).status, 200);
}

TEST(HttpPlace, HasAWeightAndGrows) {
  World world({.rules = pool(5)});
  EXPECT_EQ(acquire(world, 1, 3).status, 200);
  EXPECT_EQ(acquire(world, 2, 3).status, 429);
  EXPECT_EQ(settle(world, "/v1/extend", 1, R"(, "n": 3)").status, 429);
  EXPECT_TRUE(settle(world, "/v1/extend", 1, R"(, "n": 2, "ttl": 60)").tells(R"("reserved": 5)"));
  world.pass(59 * second);
  EXPECT_EQ(take(world).status, 429) << "all five end together";
  EXPECT_TRUE(settle(world, "/v1/release", 1).tells(R"("returned": 5)"));
  EXPECT_EQ(acquire(world, 3, 5).status, 200);
  const HttpAnswer never = acquire(world, 4, 6);
  EXPECT_EQ(never.status, 429);
  EXPECT_TRUE(never.tells(R"("retry_after": null)")) << never.body;
}

TEST(HttpPlace, NeedsALimitWithPlaces) {
  World world;
  const HttpAnswer answer = acquire(world, 1);
  EXPECT_EQ(answer.status, 400);
  EXPECT_TRUE(answer.tells("urn:sluice:problem:no-places")) << answer.body;
  EXPECT_EQ(left(world, by_ip("a")), 3);
}

TEST(HttpPlace, EndsWithItsConnectionIfItSaysSo) {
  World world({.rules = pool(3)});
  Connection other(world);
  EXPECT_EQ(answers_of(other.ask(acquire_text(9, 1, R"(, "release_on_close": true)")))[0].status,
            200);
  {
    Connection connection(world);
    EXPECT_EQ(
        answers_of(connection.ask(acquire_text(1, 1, R"(, "release_on_close": true)")))[0].status,
        200);
    EXPECT_EQ(answers_of(connection.ask(acquire_text(2)))[0].status, 200);
    EXPECT_EQ(take(world).status, 429);
  }
  EXPECT_EQ(world.holds.figures().places, 2u);
  EXPECT_EQ(settle(world, "/v1/renew", 1).status, 410);
  EXPECT_EQ(settle(world, "/v1/renew", 2).status, 200);
  EXPECT_EQ(settle(world, "/v1/renew", 9).status, 200);
  EXPECT_EQ(take(world).status, 200);
  EXPECT_EQ(ask(world, post("/v1/reserve", by_ip("a", R"(, "release_on_close": true)"))).status,
            400);
}

TEST(HttpPlace, GoesToWhoWaitsInOrderOfArrival) {
  World world({.rules = pool(1)});
  EXPECT_EQ(acquire(world, 1).status, 200);
  Connection first(world), next(world), last(world);
  const std::string waits = R"(, "timeout": 60)";
  EXPECT_EQ(first.ask(acquire_text(2, 1, waits + R"(, "ttl": 5)")), "");
  EXPECT_EQ(next.ask(acquire_text(3, 1, waits)), "");
  EXPECT_EQ(last.ask(acquire_text(4, 1, waits)), "");
  EXPECT_EQ(settle(world, "/v1/release", 1).status, 200);
  ASSERT_EQ(answers_of(first.take()).size(), 1u);
  EXPECT_EQ(next.take(), "");
  world.pass(5 * second);  // its end
  const auto answers = answers_of(next.take());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0].tells(R"("waited": 5)")) << answers[0].body;
  EXPECT_TRUE(answers[0].tells(R"("ttl": 30)")) << answers[0].body;
  world.pass(30 * second - 1);
  EXPECT_EQ(last.take(), "");
  world.pass(1);
  EXPECT_EQ(answers_of(last.take()).size(), 1u);
  EXPECT_EQ(world.holds.figures().places, 1u);
}

// A place of a client that is gone when it is granted goes to the next one.
TEST(HttpPlace, OfAWaitWhoseClientIsGoneIsNotTaken) {
  World world({.rules = pool(1)});
  EXPECT_EQ(acquire(world, 1).status, 200);
  auto gone = std::make_unique<Connection>(world);
  Connection next(world);
  const std::string waits = R"(, "timeout": 60, "release_on_close": true)";
  EXPECT_EQ(gone->ask(acquire_text(2, 1, waits)), "");
  EXPECT_EQ(next.ask(acquire_text(3, 1, waits)), "");
  gone.reset();
  EXPECT_EQ(settle(world, "/v1/release", 1).status, 200);
  EXPECT_EQ(answers_of(next.take()).size(), 1u);
  EXPECT_EQ(settle(world, "/v1/renew", 2).status, 404);
  EXPECT_EQ(settle(world, "/v1/renew", 3).status, 200);
}

// One step: a place and units of a rate. The rate's units are taken for good.
TEST(HttpPlace, AndARateAreTakenTogether) {
  World world({.rules = "- { match: { ip: '*' }, actor: ip, name: both, limits: [ { quota: 2, "
                        "algorithm: concurrency, lease: 30s }, { quota: 3, window: 1h, algorithm: "
                        "fixed_window } ] }\n"});
  EXPECT_EQ(acquire(world, 1).status, 200);
  EXPECT_TRUE(settle(world, "/v1/release", 1).tells(R"("returned": 1)"));
  EXPECT_EQ(acquire(world, 2).status, 200);
  EXPECT_EQ(acquire(world, 3).status, 200);
  EXPECT_EQ(settle(world, "/v1/release", 2).status, 200);
  const HttpAnswer refused = acquire(world, 4);
  EXPECT_EQ(refused.status, 429) << "three an hour";
  world.pass(3600 * second);
  EXPECT_EQ(acquire(world, 4).status, 200);
}

// A reserve may hold places: its commit gives them back whole, and corrects the rest.
TEST(HttpPlace, OfAReserveIsGivenBackByItsCommit) {
  World world({.rules = "- { match: { ip: '*', what: tokens }, actor: ip, name: tokens, limit: { "
                        "quota: 100, window: 1h, algorithm: fixed_window } }\n"
                        "- { match: { ip: '*', what: streams }, actor: ip, name: streams, limit: { "
                        "quota: 1, algorithm: concurrency, lease: 60s } }\n"});
  const auto reserve = [&](int number) {
    return ask(world, post("/v1/reserve",
                           R"({"takes": [{"entries": {"ip": "a", "what": "tokens"}, "n": 40}, )"
                           R"({"entries": {"ip": "a", "what": "streams"}, "n": 1}], "id": ")" +
                               id_of(number) + R"("})"));
  };
  const auto tokens = [&] { return left(world, R"({"entries": {"ip": "a", "what": "tokens"}})"); };
  EXPECT_TRUE(reserve(1).tells(R"("ttl": 60, "reserved": [40, 1])"));
  EXPECT_EQ(reserve(2).status, 429);
  EXPECT_EQ(tokens(), 60);
  EXPECT_TRUE(settle(world, "/v1/commit", 1, R"(, "n": [70, 1])").tells(R"("charged": 30)"));
  EXPECT_EQ(tokens(), 30);
  EXPECT_EQ(reserve(2).status, 429) << "30 tokens";
  EXPECT_EQ(settle(world, "/v1/commit", 1, R"(, "n": [71, 1])").status, 409);
}

TEST(HttpPlace, OfAPlainTakeEndsByItselfAndGoesBackByAPut) {
  World world({.rules = pool(2)});
  EXPECT_EQ(take(world).status, 200);
  EXPECT_EQ(acquire(world, 1).status, 200);
  EXPECT_EQ(take(world).status, 429);
  EXPECT_EQ(ask(world, post("/v1/put", by_ip("a"))).status, 200);
  EXPECT_EQ(take(world).status, 200);
  world.pass(30 * second);
  EXPECT_EQ(acquire(world, 2, 2).status, 200);
}

// What others put back may have been a holder's, so its release gives back no more than is left of
// its own, and nothing of those that came later.
TEST(HttpPlace, APutOfOthersFreesNoMoreThanItGave) {
  World world({.rules = pool(10)});
  EXPECT_EQ(acquire(world, 1, 5, R"(, "ttl": 10)").status, 200);
  world.pass(second);
  EXPECT_EQ(acquire(world, 2, 5, R"(, "ttl": 60)").status, 200);
  world.pass(10 * second);
  EXPECT_EQ(acquire(world, 3, 5, R"(, "ttl": 60)").status, 200);
  EXPECT_EQ(ask(world, post("/v1/put", by_ip("a", R"(, "n": 5)"))).status, 200);
  EXPECT_EQ(left(world, by_ip("a")), 5);
  EXPECT_TRUE(settle(world, "/v1/release", 2).tells(R"("returned": 0)"));
  EXPECT_EQ(left(world, by_ip("a")), 5);
  EXPECT_TRUE(settle(world, "/v1/release", 3).tells(R"("returned": )"));
  EXPECT_LE(left(world, by_ip("a")), 10);
}

TEST(HttpPlace, IsSettledUnderTheRulesOfAReload) {
  World world({.rules = pool(3)});
  EXPECT_EQ(acquire(world, 1, 2).status, 200);
  world.load(pool(2));
  EXPECT_EQ(acquire(world, 2).status, 429);
  EXPECT_EQ(settle(world, "/v1/renew", 1).status, 200);
  EXPECT_TRUE(settle(world, "/v1/release", 1).tells(R"("returned": 2)"));
  EXPECT_EQ(acquire(world, 2, 2).status, 200);
  world.load(
      "- { match: { ip: '*' }, actor: ip, name: pool, limit: { quota: 5, window: 1h, "
      "algorithm: fixed_window } }\n");
  EXPECT_EQ(settle(world, "/v1/release", 2).status, 200);
  EXPECT_EQ(left(world, by_ip("a")), 5);
}

// At random, against a list of who holds what: never above the quota, and refused only where the
// list has no room.
TEST(HttpPlace, IsNeverOneTooMany) {
  constexpr int quota = 7;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    sluice::tests::Dice dice(seed);
    World world({.rules = pool(quota)});
    struct Holder {
      int n;
      int64_t end_us;
    };
    std::map<int, Holder> holders;
    int next = 0;
    const auto out = [&] {
      int sum = 0;
      for (const auto& [number, one] : holders) sum += one.n;
      return sum;
    };
    for (int step = 0; step < 200; ++step) {
      world.pass(dice(int64_t{6}) * second);
      std::erase_if(holders, [&](const auto& one) { return one.second.end_us <= now_us; });
      const int which = holders.empty() ? 0 : dice(static_cast<int>(holders.size()));
      auto its = holders.begin();
      std::advance(its, which);
      const int ttl = 1 + dice(20);
      const std::string with_ttl = ", \"ttl\": " + std::to_string(ttl);
      switch (holders.empty() ? 0 : dice(4)) {
        case 0:
        case 1: {
          const int n = 1 + dice(3), number = next++;
          const HttpAnswer answer = acquire(world, number, n, with_ttl);
          ASSERT_EQ(answer.status, out() + n <= quota ? 200 : 429) << seed << " " << step;
          if (answer.status == 200) holders[number] = {n, now_us + ttl * second};
          break;
        }
        case 2:
          ASSERT_EQ(settle(world, "/v1/renew", its->first, with_ttl).status, 200);
          its->second.end_us = now_us + ttl * second;
          break;
        default:
          ASSERT_TRUE(settle(world, "/v1/release", its->first)
                          .tells("\"returned\": " + std::to_string(its->second.n)))
              << seed << " " << step;
          holders.erase(its);
      }
      ASSERT_EQ(left(world, by_ip("a")), quota - out()) << seed << " " << step;
    }
  }
}

}  // namespace
}  // namespace sluice::http::places_test
