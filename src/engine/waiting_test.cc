// Requests that wait, crossed with what changes meanwhile: suspended batches, reloads, overrides,
// rules that expire, clients that go.
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

// One engine over the table in memory, whose store can answer `later`.
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
  // Runs all that is due, except batches for which the store answered `later`.
  void settle() {
    while (seat.look(world.now()) || seat.run_posted()) continue;
  }
  // Runs these as well.
  void finish() {
    do {
      while (wavering.name(0)) continue;
      settle();
      if (client.suspended && client.named) seat.resume(client);
    } while (client.suspended);
    settle();
  }
  // What became of the request with this tag.
  std::string fate(const std::string& tag) {
    const auto at = client.replies.find(tag);
    if (at == client.replies.end()) return "waits";
    return !at->second.error.empty() ? "failed" : at->second.allowed ? "granted" : "refused";
  }
  int64_t used(const std::string& key = "a") { return world.used("pool", key, window(1'000'000)); }
  // No state of any request is left.
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

// The store has not seen the request yet, as its batch is suspended: a change of overrides must not
// have it decided twice.
TEST(EngineWaiting, IsNotMatchedAgainWhileItsBatchIsSuspended) {
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
    f.finish();  // by the rules of the match; then, while it waits, by the live ones
    now_us += 10'000;
    f.settle();
    const bool fits = other == unlimited || other == window(5);
    EXPECT_EQ(f.fate("w"), fits ? "granted" : "waits");
    EXPECT_EQ(f.used(), other == window(5) ? 4 : 2);
    EXPECT_EQ(f.world.store.stats().waiting, fits ? 0u : 1u);
  }
}

TEST(EngineWaiting, IsNotMatchedAgainForAnotherActorsOverrideWhileSuspended) {
  Fixture f;
  f.ask("used", Verb::take, 2);
  f.wavering.settles = [](size_t) { return 0; };
  f.ask("w", Verb::wait, 1);
  f.wavering.settles = [](size_t groups) { return groups; };
  f.world.set("pool", "nobody", {unlimited});
  f.match_again();
  f.finish();
  EXPECT_EQ(f.fate("w"), "granted");
  EXPECT_EQ(f.used(), 3);  // charged once
}

TEST(EngineWaiting, IsMatchedAgainIfThePolicyChangedDuringASuspension) {
  Fixture f;
  f.ask("used", Verb::take, 3);
  f.wavering.settles = [](size_t) { return 0; };
  f.ask("w", Verb::wait, 1);
  f.world.reload(pool(10));
  f.match_again();
  EXPECT_EQ(f.fate("w"), "waits");
  f.wavering.settles = [](size_t groups) { return groups; };
  f.finish();
  EXPECT_EQ(f.fate("w"), "waits");  // decided by the rules of its match
  now_us += 10'000;
  f.settle();
  EXPECT_EQ(f.fate("w"), "granted");
  EXPECT_EQ(f.client.replies["w"].limit, 10);
  EXPECT_EQ(f.used(), 4);
}

// The store may settle some groups of a batch and answer `later` for the rest: a request that waits
// already may be answered before its batch is resumed.
TEST(EngineWaiting, IsAnsweredWhileTheRestOfItsBatchIsSuspended) {
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

TEST(EngineWaiting, ALeavingClientCancelsSuspendedAndParkedRequests) {
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

// While the store answers `later` for requests that are matched again, they are tried again and
// again, and each is remembered once.
TEST(EngineWaiting, RemembersOnceEachRequestToMatchAgain) {
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
  now_us += 5'000;  // the time to try again is not moved by each change
  f.settle();
  EXPECT_EQ(f.fate("one"), "granted");  // the one that came first
  EXPECT_EQ(f.fate("two"), "waits");
  EXPECT_EQ(f.seat.engine.held().later, 0u);
}

// An override or a rule that expires while requests wait under it.
struct Ends {
  std::string name;
  std::function<void(Fixture&, base::Time)> begin;
};

TEST(EngineWaiting, ContinuesUnderTheRemainingRulesWhenAnOverrideEnds) {
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
    f.ask("large", Verb::wait, 9);  // fits nine units, but can never fit three
    f.ask("small", Verb::wait, 1);
    EXPECT_EQ(f.fate("large"), "waits");
    EXPECT_EQ(f.fate("small"), "waits");
    now_us = end.us - 1;
    f.settle();
    EXPECT_EQ(f.fate("small"), "waits");
    now_us = end.us;
    f.ask("before it is looked at", Verb::take, 1);
    f.settle();  // the timer alone; nothing notifies the worker
    EXPECT_EQ(f.fate("large"), "waits");
    EXPECT_EQ(f.fate("small"), "granted");
    EXPECT_EQ(f.client.replies["small"].limit, 3);
    now_us += 10;
    f.ask("after", Verb::take, 1);
    EXPECT_EQ(f.used(), 3);
  }
}

// An override that is set again with another end, before it has expired.
TEST(EngineWaiting, AnOverridesEndMayMove) {
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

// The override that a request was matched by expires while its batch is suspended.
TEST(EngineWaiting, AnOverrideMayEndWhileTheBatchIsSuspended) {
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

// Another worker has the new rules already, and writes the counter by them. The first request of
// the queue is matched again although nothing was posted to its worker.
TEST(EngineWaiting, MatchesTheFirstWaiterAgainIfTheCounterHasOtherLimits) {
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
  two.ask(there, {{"refused", "k", "a", Verb::take, 1}});  // the counter's quota is 3 now
  two.ask(there, {{"p", "k", "a", Verb::put, 6}});
  EXPECT_TRUE(here.replies.empty());  // 7 of 9 would be left, 1 of 3 is
  settle();
  EXPECT_FALSE(here.replies.contains("large"));
  ASSERT_TRUE(here.replies.contains("small"));
  EXPECT_TRUE(here.replies["small"].allowed);
  EXPECT_EQ(here.replies["small"].limit, 3);
  one.engine.forget(here);
  two.engine.forget(there);
  EXPECT_EQ(world.store.stats().waiting, 0u);
}

// An override that had expired is in force again after the clock went back. Nothing notifies the
// worker, and it has no timer: the units come back by puts alone. So it looks at the clock every
// second while a request waits.
TEST(EngineWaiting, ReadsTheClockForWaitersThatHaveNoDueTime) {
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
  // It does so only while a request waits.
  now_us += base::seconds(1).us;
  f.settle();
  EXPECT_FALSE(f.seat.timer);
}

// All requests of a long queue are matched again one by one; for each the units ahead of it must be
// known.
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
  EXPECT_LT(steps, uint64_t{many} * 200);  // about 100 each, which grow with the queue's logarithm
  std::printf("%d matched again: %.1f nodes visited for each\n", many,
              static_cast<double>(steps) / many);
  EXPECT_EQ(world.store.stats().waiting, static_cast<uint64_t>(many));
  for (Client& client : clients) seat.engine.forget(client);
  seat.engine.forget(other);
  EXPECT_EQ(world.store.stats().waiting, 0u);
}

}  // namespace
}  // namespace sluice::engine::waiting_test
