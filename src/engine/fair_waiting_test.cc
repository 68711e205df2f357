// Rules with `fair_by`: who waits is served in turn by the values of that entry, whatever the
// actor, over one rule and over several, through a reload and with clients that leave.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/waiting_world_test.h"

namespace sluice::engine::fair_waiting_test {
namespace {

using namespace tests;
using request::Verb;

constexpr const char* in_turn =
    "rules:\n- { name: pool, match: { k: '*', tenant: '*' }, actor: k, fair_by: tenant,\n"
    "    limit: { quota: 2, algorithm: concurrency, lease: 1h } }\n";
constexpr const char* by_arrival =
    "rules:\n- { name: pool, match: { k: '*', tenant: '*' }, actor: k,\n"
    "    limit: { quota: 2, algorithm: concurrency, lease: 1h } }\n";

struct Pool {
  explicit Pool(const char* rules, size_t seats = 1) : world(seats) {
    world.reload(rules);
    take_policy();
    client.on_reply = [this](const std::string& tag, const Reply& reply) {
      if (reply.delayed) order += tag;
    };
    ask("", "none", Verb::take, 2);
  }
  void take_policy() {
    for (auto& seat : world.seats) seat->match_again();
    look();
  }
  void ask(const std::string& tag, const std::string& tenant, Verb verb = Verb::wait,
           int64_t cost = 1, size_t seat = 0) {
    world.seats[seat]->ask(
        client,
        {{.tag = tag, .entry = "k", .key = "a", .verb = verb, .cost = cost, .tenant = tenant}});
    look();
  }
  void put() { ask("put" + std::to_string(++puts), "none", Verb::put); }
  void look() {
    for (bool busy = true; busy;) {
      busy = false;
      for (auto& seat : world.seats) busy |= seat->look(world.now());
    }
  }

  World world;
  Client client;
  std::string order;  // of the late answers
  int puts = 0;
};

TEST(FairBy, ServesTheValuesOfTheKeyInTurn) {
  Pool pool(in_turn, 2);
  for (const char* tag : {"a", "b", "c", "d"}) pool.ask(tag, "large");
  pool.ask("x", "small", Verb::wait, 1, 1);
  pool.ask("y", "other", Verb::wait, 1, 1);
  pool.ask("z", "small");
  for (int i = 0; i < 7; ++i) pool.put();
  EXPECT_EQ(pool.order, "axybzcd");
}

TEST(FairBy, AReloadThatBringsItOrdersThoseThatWait) {
  Pool pool(by_arrival);
  for (const char* tag : {"a", "b", "c"}) pool.ask(tag, "large");
  pool.ask("x", "small");
  pool.put();
  EXPECT_EQ(pool.order, "a");
  pool.world.reload(in_turn);
  pool.take_policy();
  for (int i = 0; i < 3; ++i) pool.put();
  EXPECT_EQ(pool.order, "abxc");
}

TEST(FairBy, AReloadThatTakesItAwayServesInOrderOfArrival) {
  Pool pool(in_turn);
  for (const char* tag : {"a", "b", "c"}) pool.ask(tag, "large");
  pool.ask("x", "small");
  pool.put();
  EXPECT_EQ(pool.order, "a");
  pool.world.reload(by_arrival);
  pool.take_policy();
  for (int i = 0; i < 3; ++i) pool.put();
  EXPECT_EQ(pool.order, "abcx");
}

TEST(FairBy, AnOverrideKeepsTheTurns) {
  Pool pool(in_turn);
  for (const char* tag : {"a", "b", "c"}) pool.ask(tag, "large");
  for (const char* tag : {"x", "y"}) pool.ask(tag, "small");
  pool.put();
  EXPECT_EQ(pool.order, "a");
  // Three places instead of two: one more is free, for the one whose turn it is.
  const int64_t hour_us = base::seconds(3600).us;
  pool.world.set("pool", "a", {{limit::Algorithm::concurrency, 3, {hour_us}, hour_us}});
  pool.take_policy();
  EXPECT_EQ(pool.order, "ax");
  for (int i = 0; i < 3; ++i) pool.put();
  EXPECT_EQ(pool.order, "axbyc");
}

TEST(FairBy, AClientThatLeavesFreesItsTurn) {
  Pool pool(in_turn);
  Client other;
  pool.world.seats[0]->ask(
      other, {{.tag = "gone", .entry = "k", .key = "a", .verb = Verb::wait, .tenant = "first"}});
  for (const char* tag : {"a", "b"}) pool.ask(tag, "large");
  pool.ask("x", "small");
  pool.world.seats[0]->engine.forget(other);
  for (int i = 0; i < 3; ++i) pool.put();
  EXPECT_EQ(pool.order, "axb");
  EXPECT_EQ(pool.world.store.stats().waiting, 0u);
}

}  // namespace
}  // namespace sluice::engine::fair_waiting_test
