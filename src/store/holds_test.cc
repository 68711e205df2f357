// Holds against a naive model: a list of what each hold reserved and came to, from which every
// counter and every answer is computed again. One window that never ends, so that the counters must
// be equal to it; limit/held_test.cc has the windows that do.
#include "store/holds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "request/space.h"
#include "store/embedded_store.h"
#include "store/holds_model_test.h"
#include "tests/support/dice.h"
#include "tests/support/patience.h"

namespace sluice::store::holds_test {
namespace {

using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::HoldTerms;
using request::Verb;

// Two subjects, each with a counter of its own, and one that both share.
struct World {
  explicit World(const Holds::Options& options = {}, const HoldTerms& its_terms = {})
      : terms(its_terms), holds(store, spaces, options) {
    space = spaces.hold("test:", "", {});
    limits = spaces.hold_limits({&limit, 1});
  }

  request::Charge charge(std::string_view key, Verb verb, int64_t cost) const {
    return {.space = space.get(),
            .key = key,
            .verb = verb,
            .cost = cost,
            .limits = {&limit, 1},
            .limits_id = limits.id()};
  }
  HoldCall reserve(std::string_view id, std::array<int64_t, 2> units, base::Duration ttl = {},
                   uint64_t content = 0, std::string_view user = {}, bool is_place = false) {
    std::vector<request::Charge> charges{charge("a", Verb::reserve, units[0]),
                                         charge("b", Verb::reserve, units[1]),
                                         charge("both", Verb::reserve, units[0] + units[1])};
    std::vector<limit::Decision> decisions(charges.size());
    for (uint32_t i = 0; i < charges.size(); ++i) charges[i].decision_first = i;
    request::Group group{.charge_count = 3};
    const std::vector<Holds::Share> shares{{1, "a"}, {2, "b"}, {3, "both"}};
    HoldCall call{.user = user,
                  .id = id,
                  .content = content,
                  .ttl = ttl,
                  .holder = "somebody",
                  .is_place = is_place};
    EXPECT_TRUE(
        holds.reserve(call, terms, {{&group, 1}, charges, decisions}, shares, units, {now}, {}));
    return call;
  }
  HoldCall ask(HoldAsk what, std::string_view id, std::vector<int64_t> units = {},
               base::Duration ttl = {}, std::string_view user = {}) {
    HoldCall call{.ask = what, .user = user, .id = id, .ttl = ttl, .units = std::move(units)};
    EXPECT_TRUE(holds.settle(call, {now}, {}));
    return call;
  }
  // The units that are used of the counter; `verb`: of what is done to it.
  int64_t used(std::string_view key, Verb verb = Verb::peek, int64_t cost = 0, bool all = false) {
    holds.end_due({now});
    request::Charge one = charge(key, verb, cost);
    one.all = all;
    limit::Decision decision;
    request::Group group{.charge_count = 1};
    store.apply({{&group, 1}, {&one, 1}, {&decision, 1}}, {now});
    return quota - decision.remaining;
  }

  const limit::Limit limit{limit::Algorithm::fixed_bucket, quota, {}, quota};
  request::Spaces spaces;
  EmbeddedStore store{16 << 20, base::Hash(1), spaces};
  HoldTerms terms;
  Holds holds;
  request::SpaceRef space;
  request::LimitsRef limits;
  int64_t now = noon;
};

// At each moment what is held of a counter is the sum of what holds have there that are not
// settled.
TEST(Holds, WhatIsHeldOfACounterIsTheSumOfItsHolds) {
  struct Open {
    std::array<int64_t, 2> units;
    int64_t end;
  };
  sluice::tests::Dice dice(20261201);
  World world({.remember = base::seconds(3)});
  std::map<std::string, Open> open;
  size_t seen = 0;
  for (int step = 0; step < 3'000; ++step) {
    world.now += dice(int64_t{2}) * second;
    const std::string id = "0123456789abcde" + std::to_string(dice(10));
    const std::array<int64_t, 2> units{dice(int64_t{4}), dice(int64_t{4})};
    std::erase_if(open, [&](const auto& one) { return one.second.end <= world.now; });
    switch (dice(4)) {
      case 0:
      case 1: {
        const HoldCall call =
            world.reserve(id, units, base::seconds(5), static_cast<uint64_t>(step));
        if (call.outcome == HoldOutcome::done) open[id] = {units, world.now + 5 * second};
        break;
      }
      case 2:
        if (world.ask(HoldAsk::extend, id, {units[0], units[1]}).outcome == HoldOutcome::done)
          open[id] = {{open[id].units[0] + units[0], open[id].units[1] + units[1]},
                      world.now + 5 * second};
        break;
      default:
        world.ask(dice(2) == 0 ? HoldAsk::release : HoldAsk::commit, id, {0, 0});
        open.erase(id);
    }
    HoldBook::OfCounters held{{"test:a", {}}, {"test:both", {}}, {"test:other", {}}};
    // Also of holds that nobody has ended yet.
    if (dice(3) == 0) world.holds.end_due({world.now});
    ASSERT_TRUE(world.holds.add_held({world.now}, held));
    int64_t of_first = 0, of_both = 0, first = INT64_MAX, last = 0;
    for (const auto& [name, one] : open) {
      of_first += one.units[0];
      of_both += one.units[0] + one.units[1];
      first = std::min(first, one.end - world.now);
      last = std::max(last, one.end - world.now);
    }
    ASSERT_EQ(held["test:a"].units, of_first) << step;
    ASSERT_EQ(held["test:both"].units, of_both) << step;
    ASSERT_EQ(held["test:both"].holds, open.size()) << step;
    ASSERT_EQ(held["test:both"].places, 0);
    ASSERT_EQ(held["test:other"].holds, 0u);
    if (open.empty()) continue;
    ++seen;
    ASSERT_EQ(held["test:both"].first_end.us, first) << step;
    ASSERT_EQ(held["test:both"].last_end.us, last) << step;
  }
  EXPECT_GT(seen, 1'000u);
}

TEST(Holds, AReservationIsTakenAtOnceAndCommitted) {
  World world;
  const HoldCall held = world.reserve(first_id, {30, 20}, base::seconds(5));
  EXPECT_EQ(held.outcome, HoldOutcome::done);
  EXPECT_EQ(held.made_id, first_id);
  EXPECT_EQ(held.ends_in, base::seconds(5));
  EXPECT_EQ(held.reserved, (std::vector<int64_t>{30, 20}));
  EXPECT_EQ(world.used("both"), 50);
  const HoldCall done = world.ask(HoldAsk::commit, first_id, {10, 25});
  EXPECT_EQ(done.outcome, HoldOutcome::done);
  // Both share a counter, so they are told of together.
  EXPECT_EQ(done.returned, 15);
  EXPECT_EQ(done.charged, 0);
  EXPECT_FALSE(done.late || done.repeated);
  EXPECT_EQ(world.used("a"), 10);
  EXPECT_EQ(world.used("b"), 25);
  EXPECT_EQ(world.used("both"), 35);
  EXPECT_TRUE(done.has_decision);
  EXPECT_EQ(done.decision.remaining, 65);
  EXPECT_EQ(done.rule, "both");
}

TEST(Holds, AllOrNothing) {
  World world;
  EXPECT_EQ(world.used("b", Verb::take, 90), 90);
  EXPECT_EQ(world.reserve(first_id, {30, 11}).outcome, HoldOutcome::refused);
  EXPECT_EQ(world.used("a"), 0);
  EXPECT_EQ(world.used("both"), 0);
  EXPECT_EQ(world.holds.figures().holds, 0u);
  EXPECT_EQ(world.reserve(first_id, {30, 10}).outcome, HoldOutcome::done);
  const HoldCall more = world.ask(HoldAsk::extend, first_id, {5, 1});
  EXPECT_EQ(more.outcome, HoldOutcome::refused);
  EXPECT_EQ(more.reserved, (std::vector<int64_t>{30, 10}));
  EXPECT_EQ(more.rule, "b");
  EXPECT_EQ(world.used("a"), 30);
  EXPECT_EQ(world.ask(HoldAsk::extend, first_id, {5, 0}).outcome, HoldOutcome::done);
  EXPECT_EQ(world.used("a"), 35);
}

TEST(Holds, AnEndGivesBackAtItsMicrosecond) {
  World world;
  world.reserve(first_id, {30, 0}, base::seconds(5));
  EXPECT_EQ(world.holds.next_due().us, noon + 5 * second);
  world.now += 5 * second - 1;
  EXPECT_EQ(world.used("a"), 30);
  world.now += 1;
  EXPECT_EQ(world.used("a"), 0);
  EXPECT_EQ(world.ask(HoldAsk::extend, first_id, {1, 0}).outcome, HoldOutcome::ended);
  EXPECT_EQ(world.ask(HoldAsk::renew, first_id).outcome, HoldOutcome::ended);
  const HoldCall late = world.ask(HoldAsk::commit, first_id, {40, 2});
  EXPECT_EQ(late.outcome, HoldOutcome::done);
  EXPECT_TRUE(late.late);
  EXPECT_EQ(late.charged, 42);
  EXPECT_EQ(world.used("both"), 42);
}

TEST(Holds, TheRulesSayWhatAnEndAndALateCommitDo) {
  World keeps({}, {.keeps = true});
  keeps.reserve(first_id, {30, 10}, base::seconds(5));
  keeps.now += 6 * second;
  EXPECT_EQ(keeps.used("both"), 40);
  const HoldCall late = keeps.ask(HoldAsk::commit, first_id, {10, 15});
  EXPECT_EQ(late.outcome, HoldOutcome::done);
  EXPECT_TRUE(late.late);
  EXPECT_EQ(keeps.used("both"), 25);
  World ignores({}, {.ignores_late = true});
  ignores.reserve(first_id, {30, 10}, base::seconds(5));
  ignores.now += 6 * second;
  EXPECT_EQ(ignores.ask(HoldAsk::commit, first_id, {10, 15}).outcome, HoldOutcome::ended);
  EXPECT_EQ(ignores.used("both"), 0);
}

TEST(Holds, ATimeThatIsTooLongIsCut) {
  World world({}, {.ttl_max = base::seconds(10)});
  EXPECT_EQ(world.reserve(first_id, {1, 0}, base::seconds(60)).ends_in, base::seconds(10));
  EXPECT_EQ(world.ask(HoldAsk::renew, first_id, {}, base::seconds(3)).ends_in, base::seconds(3));
  EXPECT_EQ(world.ask(HoldAsk::renew, first_id).ends_in, base::seconds(3));
}

TEST(Holds, AreBounded) {
  World world({.most = 2, .user_part = 2});
  EXPECT_EQ(world.reserve(first_id, {1, 0}, {}, 0, "ann").outcome, HoldOutcome::done);
  EXPECT_EQ(world.reserve(second_id, {1, 0}, {}, 0, "ann").outcome, HoldOutcome::full);
  EXPECT_EQ(world.reserve(second_id, {1, 0}, {}, 0, "bob").outcome, HoldOutcome::done);
  EXPECT_EQ(world.reserve(second_id, {1, 0}, {}, 0, "eve").outcome, HoldOutcome::full);
  EXPECT_EQ(world.used("a"), 2);
  world.ask(HoldAsk::release, first_id, {}, {}, "ann");
  EXPECT_EQ(world.reserve(second_id, {1, 0}, {}, 0, "eve").outcome, HoldOutcome::done);
  // As many are remembered. What is settled then is forgotten at once, and holds up nobody.
  EXPECT_EQ(world.ask(HoldAsk::commit, second_id, {3, 0}, {}, "eve").outcome, HoldOutcome::done);
  EXPECT_EQ(world.holds.figures().remembered, 2u);
  EXPECT_EQ(world.ask(HoldAsk::commit, second_id, {2, 0}, {}, "bob").outcome, HoldOutcome::done);
  world.used("a");
  EXPECT_EQ(world.holds.figures().remembered, 2u);
  EXPECT_EQ(world.ask(HoldAsk::commit, second_id, {2, 0}, {}, "bob").outcome, HoldOutcome::unknown);
  EXPECT_EQ(world.used("a"), 5);
  EXPECT_EQ(world.reserve(second_id, {1, 0}, {}, 0, "zoe").outcome, HoldOutcome::done);
}

TEST(Holds, AreBoundedInBytes) {
  HoldCall call;
  const std::string holder(255, 'h');
  size_t held = 0;
  World small({.most = 100'000});
  // Three counters and a long holder are more than most have; 512 bytes each are there.
  for (; held < 100'000; ++held) {
    std::vector<request::Charge> charges;
    std::vector<limit::Decision> decisions(40);
    std::vector<Holds::Share> shares(40, {1, "many"});
    std::vector<std::string> keys;
    for (int i = 0; i < 40; ++i) keys.push_back(std::string(200, 'k') + std::to_string(i));
    for (const std::string& key : keys) charges.push_back(small.charge(key, Verb::reserve, 0));
    for (uint32_t i = 0; i < 40; ++i) charges[i].decision_first = i;
    request::Group group{.charge_count = 40};
    const int64_t units = 0;
    call = {.holder = holder};
    EXPECT_TRUE(small.holds.reserve(call, {}, {{&group, 1}, charges, decisions}, shares,
                                    {&units, 1}, {small.now}, {}));
    if (call.outcome != HoldOutcome::done) break;
  }
  EXPECT_EQ(call.outcome, HoldOutcome::full);
  EXPECT_GT(held, 3'000u);
  EXPECT_LT(held, 10'000u);
  // When they have ended, and are forgotten, there is room again.
  for (const int64_t later : {61, 601}) {
    small.now += later * second;
    while (small.holds.next_due().us <= small.now) small.holds.end_due({small.now});
  }
  EXPECT_EQ(small.holds.figures().remembered, 0u);
  EXPECT_EQ(small.reserve(first_id, {1, 0}).outcome, HoldOutcome::done);
}

// Rules in shadow have a group for each subject, on one counter too.
TEST(Holds, RulesInShadowAreSettledEachByItself) {
  for (const bool is_refused : {false, true}) {
    World world;
    if (is_refused) world.used("both", Verb::take, 90);
    std::vector<request::Charge> charges{
        world.charge("shadow", Verb::reserve, 10), world.charge("shadow", Verb::reserve, 20),
        world.charge("shadow", Verb::reserve, 80), world.charge("both", Verb::reserve, 30)};
    std::vector<limit::Decision> decisions(charges.size());
    for (uint32_t i = 0; i < charges.size(); ++i) charges[i].decision_first = i;
    std::vector<request::Group> groups;
    for (uint32_t i = 0; i < 4; ++i)
      groups.push_back({.charge_first = i, .charge_count = 1, .may_fail = i < 3});
    const std::vector<Holds::Share> shares{{1, "s"}, {2, "s"}, {1, "s"}, {3, "both"}};
    const std::vector<int64_t> units{10, 20};
    HoldCall call{.id = first_id};
    EXPECT_TRUE(world.holds.reserve(call, {}, {groups, charges, decisions}, shares, units,
                                    {world.now}, {}));
    EXPECT_EQ(call.outcome, is_refused ? HoldOutcome::refused : HoldOutcome::done);
    // The third does not fit, and holds nothing.
    EXPECT_EQ(world.used("shadow"), is_refused ? 0 : 30);
    if (is_refused) continue;
    EXPECT_EQ(world.ask(HoldAsk::extend, first_id, {5, 1}).outcome, HoldOutcome::done);
    EXPECT_EQ(world.used("shadow"), 36);
    EXPECT_EQ(world.used("both"), 36);
    // One in shadow that refuses holds nobody up.
    world.used("shadow", Verb::take, 64);
    EXPECT_EQ(world.ask(HoldAsk::extend, first_id, {5, 0}).outcome, HoldOutcome::done);
    EXPECT_EQ(world.used("shadow"), 100);
    const HoldCall done = world.ask(HoldAsk::commit, first_id, {4, 3});
    EXPECT_EQ(done.outcome, HoldOutcome::done);
    EXPECT_EQ(done.returned, 34);
    EXPECT_EQ(done.rule, "both");
    EXPECT_EQ(world.used("both"), 7);
    EXPECT_EQ(world.used("shadow"), 71);
  }
}

// An operator sets a counter: what a hold took of it before is forgotten.
TEST(Holds, ACounterThatIsSetForgetsThem) {
  World world;
  world.reserve(first_id, {40, 0});
  request::Charge set = world.charge("a", Verb::take, 90);
  set.reset_first = true;
  limit::Decision decision;
  request::Group group{.charge_count = 1};
  world.store.apply({{&group, 1}, {&set, 1}, {&decision, 1}}, {world.now});
  EXPECT_EQ(world.used("a"), 90);
  world.ask(HoldAsk::release, first_id);
  EXPECT_EQ(world.used("a"), 90);
  EXPECT_EQ(world.used("both"), 0);
}

// A commit of an id that is unknown charges its subjects once.
TEST(Holds, ACommitOfAnUnknownHoldIsChargedOnce) {
  World world;
  EXPECT_EQ(world.ask(HoldAsk::commit, first_id, {7}).outcome, HoldOutcome::unknown);
  const auto charge = [&](int64_t units, bool& known) {
    HoldCall call{.ask = HoldAsk::commit, .id = first_id, .units = {units}};
    request::Charge one = world.charge("a", Verb::charge, units);
    limit::Decision decision;
    request::Group group{.charge_count = 1};
    const Holds::Share share{1, "a"};
    EXPECT_TRUE(world.holds.charge_unknown(call, {{&group, 1}, {&one, 1}, {&decision, 1}},
                                           {&share, 1}, {world.now}, {}, known));
    return call;
  };
  bool known = true;
  const HoldCall done = charge(7, known);
  EXPECT_FALSE(known);
  EXPECT_EQ(done.outcome, HoldOutcome::done);
  EXPECT_EQ(done.charged, 7);
  EXPECT_EQ(world.used("a"), 7);
  // Another request with the id was faster.
  EXPECT_EQ(charge(8, known).outcome, HoldOutcome::settled);
  EXPECT_TRUE(known);
  EXPECT_TRUE(charge(7, known).repeated);
  EXPECT_EQ(world.used("a"), 7);
  const HoldCall again = world.ask(HoldAsk::commit, first_id, {7});
  EXPECT_EQ(again.outcome, HoldOutcome::done);
  EXPECT_TRUE(again.repeated && again.late);
  EXPECT_EQ(again.charged, 7);
  EXPECT_EQ(again.rule, "a");
  EXPECT_EQ(again.decision.remaining, 93);
  EXPECT_EQ(world.ask(HoldAsk::commit, first_id, {8}).outcome, HoldOutcome::settled);
  EXPECT_EQ(world.reserve(first_id, {1, 0}).outcome, HoldOutcome::settled);
}

TEST(Holds, AnotherUsersIdIsUnknown) {
  World world;
  world.reserve(first_id, {1, 0}, {}, 0, "ann");
  EXPECT_EQ(world.ask(HoldAsk::release, first_id, {}, {}, "bob").outcome, HoldOutcome::unknown);
  EXPECT_EQ(world.ask(HoldAsk::release, first_id).outcome, HoldOutcome::unknown);
  EXPECT_EQ(world.ask(HoldAsk::release, first_id, {}, {}, "ann").outcome, HoldOutcome::done);
}

TEST(Holds, AnAcquireIsNotTheReserveOfItsId) {
  World world;
  world.reserve(first_id, {1, 0});
  EXPECT_TRUE(world.reserve(first_id, {1, 0}).repeated);
  EXPECT_EQ(world.reserve(first_id, {1, 0}, {}, 0, {}, true).outcome, HoldOutcome::in_use);
}

TEST(Holds, ManyExtensionsKeepTheirBound) {
  World world;
  ASSERT_EQ(world.reserve(first_id, {0, 0}).outcome, HoldOutcome::done);
  for (int i = 0; i < 400; ++i) world.ask(HoldAsk::extend, first_id, {i % 8 == 0 ? 1 : 0, 0});
  EXPECT_EQ(world.used("a"), 50);
  const HoldCall back = world.ask(HoldAsk::release, first_id);
  EXPECT_EQ(back.outcome, HoldOutcome::done);
  // The units of the last 85 parts of each counter go back; the older ones count as used.
  EXPECT_EQ(back.returned, 10);
  EXPECT_EQ(world.used("a"), 40);
}

// Ids of the server, one limit, no holder: as most reservations are.
TEST(Holds, AreSmall) {
  if (::sluice::tests::sanitized) GTEST_SKIP() << "a sanitizer's memory is not the program's";
  World world({.most = 200'000});
  const auto resident = [] {
    size_t pages = 0, all = 0;
    std::ifstream("/proc/self/statm") >> all >> pages;
    return pages * 4096;
  };
  const auto fill = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const std::string key = "customer-" + std::to_string(i % 10);
      request::Charge charge = world.charge(key, Verb::reserve, 0);
      limit::Decision decision;
      request::Group group{.charge_count = 1};
      const Holds::Share share{1, "tokens"};
      const int64_t units = 0;
      HoldCall call;
      EXPECT_TRUE(world.holds.reserve(call, {}, {{&group, 1}, {&charge, 1}, {&decision, 1}},
                                      {&share, 1}, {&units, 1}, {world.now}, {}));
      ASSERT_EQ(call.outcome, HoldOutcome::done);
    }
  };
  fill(50'000);
  const size_t before = resident();
  fill(150'000);
  const size_t each = (resident() - before) / 150'000;
  EXPECT_LE(each, 200u);
  RecordProperty("bytes", static_cast<int>(each));
  world.now += 61 * second;
  const auto began = std::chrono::steady_clock::now();
  size_t calls = 0;
  for (; world.holds.figures().holds > 0; ++calls) world.holds.end_due({world.now});
  const auto each_call = (std::chrono::steady_clock::now() - began) / calls;
  EXPECT_GT(calls, 500u);  // in slices
  RecordProperty("us", static_cast<int>(each_call / std::chrono::microseconds(1)));
}

// Places of forgotten records are used again, and none is lost among those that collide.
TEST(Holds, ManyComeAndGo) {
  World world({.most = 5'000, .remember = {second}});
  tests::Dice dice(7);
  std::map<std::string, int64_t> ends;
  for (int step = 0; step < 40'000; ++step) {
    if (dice(20) == 0) world.now += dice(second / 2);
    while (world.holds.next_due().us <= world.now) world.holds.end_due({world.now});
    std::erase_if(ends, [&](const auto& its) { return its.second <= world.now; });
    const std::string id = "hold-number-" + std::to_string(10'000 + dice(3'000));
    const auto its = ends.find(id);
    if (its != ends.end()) {
      const HoldCall call = world.ask(HoldAsk::renew, id);
      ASSERT_EQ(call.outcome, HoldOutcome::done) << step;
      ASSERT_EQ(call.made_id, id);
      its->second = world.now + call.ends_in.us;
    } else {
      const HoldCall call = world.reserve(id, {0, 0}, {1 + dice(2 * second)});
      ASSERT_TRUE(call.outcome == HoldOutcome::done || call.outcome == HoldOutcome::ended) << step;
      if (call.outcome == HoldOutcome::done) ends[id] = world.now + call.ends_in.us;
    }
    ASSERT_EQ(world.holds.figures().holds, ends.size());
  }
}

TEST(Holds, EqualTheModelInAnyHistory) {
  EXPECT_NO_FATAL_FAILURE(equal_the_model<World>(400));
}

TEST(Holds, NothingExceedsALimitWhileTheListsChange) {
  EXPECT_NO_FATAL_FAILURE(
      nothing_exceeds([] { return std::make_unique<HoldsInMemory>(HoldBook::Options{}); }, 1'500));
}

}  // namespace
}  // namespace sluice::store::holds_test
