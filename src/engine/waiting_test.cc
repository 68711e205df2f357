// Where requests that wait meet what changes beside them: suspended batches, reloads, overrides,
// rules that end, clients that go.
#include <gtest/gtest.h>

#include <cstdio>

#include "engine/waiting_world_test.h"

namespace sluice::engine::waiting_test {
namespace {

using limit::Algorithm;
using limit::Limit;
using request::Verb;
using namespace tests;

Limit window(int64_t quota) {
  return {Algorithm::fixed_window, quota, base::seconds(36'000), 0};
}
const Limit unlimited{Algorithm::unlimited, base::bounds::quota_max, {}, 0};
const Limit deny{Algorithm::deny, 0, {}, 0};

std::string pool(int64_t quota) {
  return "rules:\n- { name: pool, match: { k: '*' }, actor: k, limit: { quota: " +
         std::to_string(quota) + ", window: 10h, algorithm: fixed_window } }\n";
}

// One engine over the table in memory, behind a store that can put things off.
struct Fixture {
  Fixture() {
    world.reload(pool(3));
    settle();
  }
  void ask(const std::string& tag, Verb verb, int64_t cost, const std::string& key = "a") {
    seat.ask(client, {{tag, "k", key, verb, cost}});
  }
  void match_again() {
    seat.match_again();
    settle();
  }
  // All that is under way, but for batches that the store has put off.
  void settle() {
    while (seat.look(world.now()) || seat.run_posted()) continue;
  }
  // These as well.
  void finish() {
    do {
      while (wavering.name(0)) continue;
      settle();
      if (client.suspended && client.named) seat.resume(client);
    } while (client.suspended);
    settle();
  }
  // Was the request answered, and was it allowed?
  std::string fate(const std::string& tag) {
    const auto at = client.replies.find(tag);
    if (at == client.replies.end()) return "waits";
    return !at->second.error.empty() ? "failed" : at->second.allowed ? "granted" : "refused";
  }
  int64_t used(const std::string& key = "a") { return world.used("pool", key, window(1'000'000)); }
  // Nothing is left of anything that was asked.
  void expect_nothing_left() {
    EXPECT_EQ(seat.engine.held(), Engine::Held());
    EXPECT_EQ(seat.engine.completions().parked(), 0u);
    EXPECT_EQ(world.store.stats().waiting, 0u);
    EXPECT_EQ(wavering.asked(), 0u);
  }
  ~Fixture() {
    seat.engine.forget(client);
    settle();
    expect_nothing_left();
  }

  World world{1};
  Wavering& wavering = world.store;
  Seat& seat = *world.seats[0];
  Client client;
};

// Its batch waits for the store, which has not seen it: nothing may be done for it twice.
TEST(EngineWaiting, IsLeftAloneWhileItsBatchIsSuspended) {
  for (const Limit& other : {unlimited, deny, window(5), window(1)}) {
    SCOPED_TRACE(static_cast<int>(other.algorithm));
    Fixture f;
    f.ask("used", Verb::take, 2);
    f.wavering.settles = [](size_t) { return 0; };
    f.ask("w", Verb::wait, 2);
    ASSERT_TRUE(f.client.suspended);
    f.wavering.settles = [](size_t groups) { return groups; };
    f.world.set("pool", "a", {other});
    f.match_again();
    EXPECT_EQ(f.fate("w"), "waits");
    EXPECT_EQ(f.used(), 2);
    f.finish();  // by the rules that it was matched by; then, as it waits, by those that are live
    now_us += 10'000;
    f.settle();
    const bool fits = other == unlimited || other == window(5);
    EXPECT_EQ(f.fate("w"), fits ? "granted" : "waits");
    EXPECT_EQ(f.used(), other == window(5) ? 4 : 2);
    EXPECT_EQ(f.world.store.stats().waiting, fits ? 0u : 1u);
  }
}

TEST(EngineWaiting, IsLeftAloneWhileItsBatchIsSuspendedAndAnotherSOverrideIsSet) {
  Fixture f;
  f.ask("used", Verb::take, 2);
  f.wavering.settles = [](size_t) { return 0; };
  f.ask("w", Verb::wait, 1);
  f.wavering.settles = [](size_t groups) { return groups; };
  f.world.set("pool", "nobody", {unlimited});
  f.match_again();
  f.finish();
  EXPECT_EQ(f.fate("w"), "granted");
  EXPECT_EQ(f.used(), 3);  // once
}

TEST(EngineWaiting, IsMatchedAgainWhereThePolicyChangedWhileItsBatchWasSuspended) {
  Fixture f;
  f.ask("used", Verb::take, 3);
  f.wavering.settles = [](size_t) { return 0; };
  f.ask("w", Verb::wait, 1);
  f.world.reload(pool(10));
  f.match_again();
  EXPECT_EQ(f.fate("w"), "waits");
  f.wavering.settles = [](size_t groups) { return groups; };
  f.finish();
  EXPECT_EQ(f.fate("w"), "waits");  // by the rules that it was matched by
  now_us += 10'000;
  f.settle();
  EXPECT_EQ(f.fate("w"), "granted");
  EXPECT_EQ(f.client.replies["w"].limit, 10);
  EXPECT_EQ(f.used(), 4);
}

// The store may settle more of a batch than is asked for, and put off the rest: what waits by then
// can be answered before its batch goes on.
TEST(EngineWaiting, IsAnsweredWhileTheRestOfItsBatchIsPutOff) {
  Fixture f;
  f.ask("used", Verb::take, 3);
  f.wavering.settles = [](size_t groups) { return groups - 1; };
  f.seat.ask(f.client, {{"t", "k", "b", Verb::take, 1},
                        {"w", "k", "a", Verb::wait, 1},
                        {"last", "k", "b", Verb::take, 1}});
  EXPECT_TRUE(f.client.suspended);
  EXPECT_EQ(f.fate("t"), "granted");
  EXPECT_EQ(f.world.store.stats().waiting, 1u);
  Client other;
  f.wavering.settles = [](size_t groups) { return groups; };
  f.seat.ask(other, {{"p", "k", "a", Verb::put, 2}});
  f.settle();
  EXPECT_EQ(f.fate("w"), "granted");
  EXPECT_EQ(f.fate("last"), "waits");
  f.finish();
  EXPECT_EQ(f.fate("last"), "granted");
  EXPECT_EQ(f.used(), 2);
  f.seat.engine.forget(other);
}

TEST(EngineWaiting, AClientGoesWithABatchPutOffAndOthersParked) {
  Fixture f;
  f.ask("used", Verb::take, 3);
  f.ask("parked", Verb::wait, 1);
  f.wavering.settles = [](size_t groups) { return groups / 2; };
  f.seat.ask(f.client, {{"half", "k", "a", Verb::wait, 1}, {"planned", "k", "a", Verb::wait, 1}});
  EXPECT_EQ(f.world.store.stats().waiting, 2u);
  f.world.set("pool", "a", {deny});
  f.seat.match_again();
  f.seat.engine.forget(f.client);
  f.settle();
  f.expect_nothing_left();
  f.client.suspended = nullptr;
  EXPECT_EQ(f.client.replies.size(), 1u);
  f.world.remove("pool", "a");
  Client other;
  f.wavering.settles = [](size_t groups) { return groups; };
  f.seat.ask(other, {{"p", "k", "a", Verb::put, 3}});
  EXPECT_EQ(f.used(), 0);
  f.seat.engine.forget(other);
}

// Where the store puts off what is matched again it is tried again, however often, and each is
// remembered once.
TEST(EngineWaiting, WhatIsMatchedAgainLaterIsRememberedOnce) {
  Fixture f;
  f.ask("used", Verb::take, 3);
  f.ask("one", Verb::wait, 2);
  f.ask("two", Verb::wait, 2);
  f.wavering.puts_off = [] { return true; };
  for (int i = 0; i < 50; ++i) {
    f.world.set("pool", "x" + std::to_string(i), {deny});
    f.match_again();
    now_us += 1'000;
    f.settle();
  }
  EXPECT_EQ(f.seat.engine.held().later, 2u);
  f.world.set("pool", "a", {window(5)});
  f.match_again();
  EXPECT_EQ(f.fate("one"), "waits");
  f.wavering.puts_off = [] { return false; };
  now_us += 5'000;  // it does not recede while more comes
  f.settle();
  EXPECT_EQ(f.fate("one"), "granted");  // in order of their arrival
  EXPECT_EQ(f.fate("two"), "waits");
  EXPECT_EQ(f.seat.engine.held().later, 0u);
}

// An override or a rule ends of itself, and a request waits under it. Others are refused meanwhile,
// as it is the first.
struct Ends {
  std::string name;
  std::function<void(Fixture&, base::Time)> begin;
};

TEST(EngineWaiting, GoesOnUnderTheRulesThatAreLeftWhenOneEnds) {
  const auto pools = [](int64_t first, int64_t second) {
    std::string text = pool(second);
    text.insert(text.find("- {"),
                "- { name: pool-2, match: { k: '*' }, actor: k, limit: { quota: " +
                    std::to_string(first) + ", window: 10h, algorithm: fixed_window } }\n");
    return text;
  };
  const std::vector<Ends> all = {
      {"an override",
       [](Fixture& f, base::Time end) { f.world.set("pool", "a", {window(9)}, end); }},
      {"an override by a pattern",
       [](Fixture& f, base::Time end) { f.world.set("pool", "*", {window(9)}, end); }},
      {"a ban", [](Fixture& f, base::Time end) { f.world.set("pool", "a", {deny}, end); }},
      {"a rule", [&](Fixture& f, base::Time end) { f.world.reload(pools(9, 3), 1, end); }},
  };
  for (const Ends& ends : all) {
    SCOPED_TRACE(ends.name);
    Fixture f;
    const base::Time end{now_us + 1'000'000};
    f.ask("used", Verb::take, 1);
    ends.begin(f, end);
    f.match_again();
    f.ask("more", Verb::take, 1);
    f.ask("large", Verb::wait, 9);  // it is asked for under nine units, and can never fit in three
    f.ask("small", Verb::wait, 1);
    EXPECT_EQ(f.fate("large"), "waits");
    EXPECT_EQ(f.fate("small"), "waits");
    now_us = end.us - 1;
    f.settle();
    EXPECT_EQ(f.fate("small"), "waits");
    now_us = end.us;
    f.ask("before it is looked at", Verb::take, 1);
    f.settle();  // the timer, and nothing else: nothing notifies it
    EXPECT_EQ(f.fate("large"), "waits");
    EXPECT_EQ(f.fate("small"), "granted");
    EXPECT_EQ(f.client.replies["small"].limit, 3);
    now_us += 10;
    f.ask("after", Verb::take, 1);
    EXPECT_EQ(f.used(), 3);
  }
}

// One that is set again with another end, before the first came.
TEST(EngineWaiting, AnEndThatMoves) {
  Fixture f;
  const base::Time first{now_us + 1'000'000}, second{now_us + 2'000'000};
  f.ask("used", Verb::take, 2);
  f.world.set("pool", "a", {deny}, first);
  f.ask("w", Verb::wait, 1);
  f.world.set("pool", "a", {deny}, second);
  f.match_again();
  now_us = first.us;
  f.settle();
  EXPECT_EQ(f.fate("w"), "waits");
  now_us = second.us;
  f.settle();
  EXPECT_EQ(f.fate("w"), "granted");
}

// What it was matched by has ended while its batch was suspended.
TEST(EngineWaiting, AnEndThatComesWhileItsBatchIsSuspended) {
  Fixture f;
  const base::Time end{now_us + 1'000'000};
  f.ask("used", Verb::take, 2);
  f.world.set("pool", "a", {deny}, end);
  f.wavering.settles = [](size_t) { return 0; };
  f.ask("w", Verb::wait, 1);
  now_us = end.us + 5;
  f.wavering.settles = [](size_t groups) { return groups; };
  f.finish();
  now_us += 10'000;
  f.settle();
  EXPECT_EQ(f.fate("w"), "granted");
}

// Another worker has the new rules already, and writes the counter by them. The first of the queue
// is matched again though nothing was posted to its worker.
TEST(EngineWaiting, ACounterThatIsKeptUnderOtherLimitsHasItsFirstMatchedAgain) {
  World world(2);
  world.reload(pool(9));
  Client here, there;
  Seat& one = *world.seats[0];
  Seat& two = *world.seats[1];
  const auto settle = [&] {
    while (one.look(world.now()) || one.run_posted() || two.look(world.now()) || two.run_posted())
      continue;
  };
  two.ask(there, {{"used", "k", "a", Verb::take, 8}});
  one.ask(here, {{"large", "k", "a", Verb::wait, 8}, {"small", "k", "a", Verb::wait, 1}});
  settle();
  world.reload(pool(3));
  two.engine.take_policy();
  two.ask(there, {{"refused", "k", "a", Verb::take, 1}});  // the counter is kept under three now
  two.ask(there, {{"p", "k", "a", Verb::put, 6}});
  EXPECT_TRUE(here.replies.empty());  // seven of nine are left, of three one
  settle();
  EXPECT_FALSE(here.replies.contains("large"));
  ASSERT_TRUE(here.replies.contains("small"));
  EXPECT_TRUE(here.replies["small"].allowed);
  EXPECT_EQ(here.replies["small"].limit, 3);
  one.engine.forget(here);
  two.engine.forget(there);
  EXPECT_EQ(world.store.stats().waiting, 0u);
}

// What had ended holds again where the clock goes back. Nothing notifies the worker, and it has no
// other time to look at: the units never come back of themselves.
TEST(EngineWaiting, TheClockIsLookedAtWhileSomebodyWaitsForNoTime) {
  const Limit nine{Algorithm::fixed_bucket, 9, {}, 9};
  Fixture f;
  f.world.reload(
      "rules:\n- { name: pool, match: { k: '*' }, actor: k, limit: { quota: 3, algorithm: "
      "fixed_bucket } }\n");
  f.match_again();
  f.ask("used", Verb::take, 3);
  f.world.set("pool", "a", {nine}, {now_us + base::seconds(3'600).us});
  f.world.step_clock(base::seconds(86'400).us);
  f.ask("w", Verb::wait, 1);
  f.settle();
  EXPECT_EQ(f.fate("w"), "waits");
  f.world.step_clock(0);
  now_us += base::seconds(1).us;
  f.settle();
  EXPECT_EQ(f.fate("w"), "granted");
  EXPECT_EQ(f.client.replies["w"].limit, 9);
  // And only so long.
  now_us += base::seconds(1).us;
  f.settle();
  EXPECT_FALSE(f.seat.timer);
}

// All that waits in one queue, matched again one by one: each must know what is ahead of it.
TEST(EngineWaiting, MatchingManyOfOneQueueAgainTakesAFewStepsEach) {
  constexpr int many = 4'000;
  World world(1);
  world.reload(pool(3));
  Seat& seat = *world.seats[0];
  std::deque<Client> clients(8);
  Client other;
  seat.ask(other, {{"used", "k", "a", Verb::take, 3}});
  for (int i = 0; i < many; ++i)
    seat.ask(clients[static_cast<size_t>(i) % clients.size()],
             {{std::to_string(i), "k", "a", Verb::wait, 2}});
  while (seat.look(world.now()) || seat.run_posted()) continue;
  ASSERT_EQ(world.store.stats().waiting, static_cast<uint64_t>(many));
  const uint64_t before = base::running_sums_visited();
  world.set("pool", "a", {window(4)});
  seat.match_again();
  while (seat.look(world.now()) || seat.run_posted()) continue;
  const uint64_t steps = base::running_sums_visited() - before;
  EXPECT_GT(steps, uint64_t{many});
  EXPECT_LT(steps, uint64_t{many} * 200);  // some 100 each, of which none grows but by a logarithm
  std::printf("%d matched again: %.1f nodes visited for each\n", many,
              static_cast<double>(steps) / many);
  EXPECT_EQ(world.store.stats().waiting, static_cast<uint64_t>(many));
  for (Client& client : clients) seat.engine.forget(client);
  seat.engine.forget(other);
  EXPECT_EQ(world.store.stats().waiting, 0u);
}

}  // namespace
}  // namespace sluice::engine::waiting_test
