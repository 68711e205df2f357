// Groups over several slots while a node refuses, names another node, is silent or goes away: while
// units are taken slot by slot, and while they are taken back. The nodes are scripted; the counters
// are in a real Redis.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "redis/cluster_map.h"
#include "tests/redis/slots_world.h"

namespace sluice::redis::slots_failures_test {
namespace {

using limit::Algorithm;
using limit::Limit;
using request::Error;
using request::Group;
using request::Verb;

// A node that answers so has executed nothing.
TEST(SlotsFailures, ASlotThatRejectsTheCommandReturnsTheUnitsOfOthers) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  const std::tuple<const char*, Error> refusals[] = {
      {"CLUSTERDOWN Hash slot not served", Error::store},
      {"TRYAGAIN Multiple keys request during rehashing of slot", Error::store},
      {"LOADING Redis is loading the dataset in memory", Error::store},
      {"OOM command not allowed when used memory > 'maxmemory'", Error::no_space},
      {"READONLY You can't write against a read only replica", Error::read_only},
      {"NOPERM this user has no permissions", Error::auth_failed}};
  for (const auto& [text, error] : refusals) {
    SCOPED_TRACE(text);
    for (const uint16_t slot : {world.first_slot, world.second_slot}) {
      cluster.take_calls();
      world.decide(slot, false, {Fate::error, text});
      EXPECT_EQ(world.settle(world.both(3)).error, error);
      EXPECT_EQ(world.used(world.first), 0);
      EXPECT_EQ(world.used(world.second), 0);
      EXPECT_EQ(undos_of(cluster.take_calls()), slot == world.first_slot ? 0u : 1u);
    }
  }
  EXPECT_EQ(world.left_taken(), 0);
  EXPECT_TRUE(world.settle(world.both(3)).allowed);
  EXPECT_EQ(world.used(world.first), 3);
  EXPECT_EQ(world.used(world.second), 3);
}

TEST(SlotsFailures, APartOfAMovedSlotIsChargedOnce) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  int64_t taken = 0;
  for (const uint16_t slot : {world.first_slot, world.second_slot})
    for (const bool moves : {false, true}) {
      SCOPED_TRACE(testing::Message() << slot << (moves ? " moved" : " is asked for"));
      const size_t to = 1 - cluster.owner_of(slot);
      if (moves)
        cluster.move(slot, to);
      else
        cluster.migrate(slot, to);
      const Group group = world.settle(world.both(2));
      EXPECT_EQ(group.error, Error::none);
      EXPECT_TRUE(group.allowed);
      taken += 2;
      if (!moves) cluster.migrate(slot, cluster.size());
      EXPECT_EQ(world.used(world.first), taken);
      EXPECT_EQ(world.used(world.second), taken);
    }
  EXPECT_GT(world.redirects("moved"), 0);
  EXPECT_GT(world.redirects("ask"), 0);
  EXPECT_EQ(world.left_taken(), 0);
}

// Up to the bound, and no further: nothing was executed then.
TEST(SlotsFailures, GivesUpOnAPartAfterFiveRedirects) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  const std::string moved = "MOVED " + std::to_string(world.second_slot) +
                            " 127.0.0.1:" + std::to_string(cluster.port(1));
  world.decide(world.second_slot, false, {Fate::error, moved}, 1'000);
  EXPECT_EQ(world.settle(world.both(3)).error, Error::store);
  const auto calls = cluster.take_calls();
  EXPECT_EQ(
      std::ranges::count_if(calls, [&](const Call& c) { return c.slot == world.second_slot; }),
      redirects_most + 1);
  EXPECT_EQ(world.redirects("given_up"), 1);
  cluster.decide({});
  EXPECT_EQ(world.used(world.first), 0);
  EXPECT_EQ(world.used(world.second), 0);
  EXPECT_EQ(world.left_taken(), 0);
}

bool has_no_call(ScriptedWorld& world) {  // when later calls are answered, earlier ones are too
  return world.used(world.first) >= 0 && world.used(world.second) >= 0;
}

TEST(SlotsFailures, AnUndoFollowsItsMovedSlot) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  for (const bool moves : {false, true}) {
    SCOPED_TRACE(moves);
    // Between the take and what takes it back.
    world.decide(world.second_slot, false, {Fate::held, ""});
    GroupUnderWay take(world.both(3, many_an_hour, two_a_day));
    ASSERT_FALSE(world.start(take.batch));
    ASSERT_TRUE(world.await_held());
    const size_t to = 1 - cluster.owner_of(world.first_slot);
    moves ? cluster.move(world.first_slot, to) : cluster.migrate(world.first_slot, to);
    cluster.release();
    ASSERT_TRUE(world.await([&] { return world.go_on(take.batch); }));
    EXPECT_FALSE(take.groups[0].allowed);
    expect_undos(world, 1);
    if (!moves) cluster.migrate(world.first_slot, cluster.size());
    EXPECT_EQ(world.used(world.first), 0);
    EXPECT_EQ(undos_of(cluster.take_calls()), 0u);
  }
  EXPECT_EQ(world.left_taken(), 0);
}

// It was not executed, and is not sent again: the units stay, and are counted.
TEST(SlotsFailures, ARejectedUndoLeavesTheUnitsTaken) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  int64_t left = 0;
  for (const char* text : {"CLUSTERDOWN Hash slot not served", "TRYAGAIN it moves",
                           "LOADING Redis is loading the dataset in memory", "OOM no memory"}) {
    SCOPED_TRACE(text);
    cluster.take_calls();
    world.decide(world.first_slot, true, {Fate::error, text}, 100);
    refused(world);
    left += 3;
    ASSERT_TRUE(has_no_call(world));
    EXPECT_EQ(world.left_taken(), left);
    EXPECT_EQ(undos_of(cluster.take_calls()), 1u);
    EXPECT_EQ(world.used(world.first), left);
  }
}

// It was executed, or not: that is not known, so it is not sent again.
TEST(SlotsFailures, AnUndoWhoseAnswerIsLostIsNotRepeated) {
  for (const Fate fate : {Fate::lost_before, Fate::lost_after}) {
    SCOPED_TRACE(static_cast<int>(fate));
    tests::ScriptedCluster cluster(2);
    ScriptedWorld world(cluster);
    world.decide(world.first_slot, true, {fate, ""}, 100);
    refused(world);
    EXPECT_TRUE(world.await([&] { return world.left_taken() == 3; })) << world.left_taken();
    EXPECT_EQ(world.used(world.first), fate == Fate::lost_before ? 3 : 0);
    EXPECT_EQ(undos_of(cluster.take_calls()), 1u);
  }
}

// The connection ends between two slots: what the second did is not known, so its units count as
// taken; the first slot's come back.
TEST(SlotsFailures, ATakeWhoseAnswerIsLostStaysCharged) {
  for (const Fate fate : {Fate::lost_before, Fate::lost_after}) {
    SCOPED_TRACE(static_cast<int>(fate));
    tests::ScriptedCluster cluster(2);
    ScriptedWorld world(cluster);
    world.decide(world.second_slot, false, {fate, ""});
    EXPECT_EQ(world.settle(world.both(3)).error, Error::store);
    const auto calls = cluster.take_calls();
    EXPECT_EQ(calls.size() - undos_of(calls), 2u);  // not again
    EXPECT_EQ(world.used(world.first), 0);
    EXPECT_EQ(world.used(world.second), fate == Fate::lost_after ? 3 : 0);
    EXPECT_EQ(world.left_taken(), 3);
  }
}

// The first slot's answer is lost: no other slot is asked.
TEST(SlotsFailures, AsksNoFurtherSlotAfterALostAnswer) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  world.decide(world.first_slot, false, {Fate::lost_after, ""});
  EXPECT_EQ(world.settle(world.both(3)).error, Error::store);
  EXPECT_EQ(cluster.take_calls().size(), 1u);
  EXPECT_EQ(world.used(world.first), 3);
  EXPECT_EQ(world.used(world.second), 0);
  EXPECT_EQ(world.left_taken(), 3);
}

// A batch that is between its slots.
struct Between : GroupUnderWay {
  Between(ScriptedWorld& world, uint16_t slot, base::Time answer_by = {INT64_MAX})
      : GroupUnderWay(world.both(3), answer_by) {
    world.decide(slot, false, {Fate::held, ""});
    EXPECT_FALSE(world.start(batch));
    EXPECT_TRUE(world.await_held());
  }
};

// `ends`: what ends the request between two slots, or before the last one's answer.
template <class Ends>
void expect_nothing_taken(Ends&& ends) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  for (const uint16_t slot : {world.first_slot, world.second_slot}) {
    SCOPED_TRACE(slot);
    ends(world, slot);
    cluster.release();
    expect_undos(world, slot == world.first_slot ? 1 : 2);
    EXPECT_EQ(world.used(world.first), 0);
    EXPECT_EQ(world.used(world.second), 0);
  }
  EXPECT_EQ(world.left_taken(), 0);
}

TEST(SlotsFailures, ADeadlineBetweenSlotsTakesNothing) {
  expect_nothing_taken([](ScriptedWorld& world, uint16_t slot) {
    Between between(world, slot, {world.clock.now().us + 500'000 * tests::slowness});
    EXPECT_TRUE(world.await([&] { return world.go_on(between.batch); }));
    EXPECT_EQ(between.groups[0].error, Error::deadline);
  });
}

TEST(SlotsFailures, AClientThatDisconnectsBetweenSlotsTakesNothing) {
  expect_nothing_taken([](ScriptedWorld& world, uint16_t slot) {
    const Between between(world, slot);
    world.abandon(between.batch);
  });
}

// All slots have answered, but the batch was not looked at again.
TEST(SlotsFailures, AClientThatDisconnectsAfterTheLastSlotTakesNothing) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  const Between between(world, world.second_slot);
  cluster.release();
  ASSERT_TRUE(world.await([&] { return cluster.held() == 0; }));
  ASSERT_GE(world.used(world.second), 0);  // its node has answered
  world.abandon(between.batch);
  expect_undos(world, 2);
  EXPECT_EQ(world.used(world.first), 0);
  EXPECT_EQ(world.used(world.second), 0);
  EXPECT_EQ(world.left_taken(), 0);
}

// A slot that would be asked with hardly any time left is not asked: its node would seem to be
// late, and then takes no commands of other requests.
TEST(SlotsFailures, DoesNotAskASlotWithoutEnoughTime) {
  tests::ScriptedCluster cluster(2);
  Options options = options_of(cluster);
  options.deadline = base::milliseconds(3'000);
  ScriptedWorld world(cluster, options);
  Between between(world, world.first_slot);
  const base::Time most_is_over{world.clock.now().us + 2'400'000};
  world.await([&] { return world.clock.now() >= most_is_over; });
  cluster.release();
  EXPECT_TRUE(world.await([&] { return world.go_on(between.batch); }));
  EXPECT_EQ(between.groups[0].error, Error::deadline);
  const auto calls = cluster.take_calls();
  EXPECT_TRUE(std::ranges::none_of(
      calls, [&](const Call& call) { return call.slot == world.second_slot; }));
  EXPECT_EQ(world.used(world.first), 0);
  EXPECT_EQ(world.used(world.second), 0);
  EXPECT_EQ(world.left_taken(), 0);
}

// Each slot waits for replicas, of which there are none.
TEST(SlotsFailures, ManySlotsMayEachWaitForReplicas) {
  tests::ScriptedCluster cluster(2);
  Options options = options_of(cluster);
  options.deadline = base::milliseconds(800);
  options.wait_replicas = 1;
  options.wait_timeout = base::milliseconds(400);
  ScriptedWorld world(cluster, options);
  std::vector<request::Charge> charges;
  for (const std::string& actor : names(6)) charges.push_back(world.charge(actor));
  const auto began = world.clock.now();
  const Group group = world.settle(charges);
  EXPECT_EQ(group.error, Error::none);
  EXPECT_TRUE(group.allowed);
  EXPECT_GE(world.clock.now().us - began.us, 2'200'000);
  EXPECT_EQ(world.left_taken(), 0);
}

// The first answer is held for a WAIT when the second command becomes late: each is still sent on,
// or not, as its own answer says.
TEST(SlotsFailures, UndosAreForwardedInTheirOrder) {
  tests::ScriptedCluster cluster(2);
  Options options = options_of(cluster);
  options.deadline = base::milliseconds(1'500);
  options.wait_replicas = 1;
  options.wait_timeout = base::milliseconds(20);
  ScriptedWorld world(cluster, options);
  std::string other;
  for (int i = 0; other.empty(); ++i) {
    const std::string name = "other" + std::to_string(i);
    const uint16_t slot = slot_of_actor(name);
    if (cluster.owner_of(slot) == 0 && slot > world.first_slot) other = name;
  }
  const uint16_t other_slot = slot_of_actor(other);
  cluster.decide([&](const Call& call) {
    return Act{call.takes && call.slot == world.second_slot ? Fate::held : Fate::executed};
  });
  std::vector<request::Charge> charges = world.both(3, many_an_hour, two_a_day);
  charges.push_back(world.charge(other, many_an_hour, Verb::take, 3));
  GroupUnderWay take(std::move(charges));
  ASSERT_FALSE(world.start(take.batch));
  ASSERT_TRUE(world.await_held());
  cluster.move(world.first_slot, 1);
  cluster.decide([&, left = 1](const Call& call) mutable {
    const bool holds = call.undo && call.slot == other_slot && left-- > 0;
    return Act{holds ? Fate::held : Fate::executed};
  });
  cluster.release();
  ASSERT_TRUE(world.await([&] { return world.go_on(take.batch); }));
  EXPECT_EQ(take.groups[0].error, Error::none);
  EXPECT_FALSE(take.groups[0].allowed);
  ASSERT_TRUE(world.await_held());
  const base::Time late{world.clock.now().us + 1'700'000};
  EXPECT_TRUE(world.await([&] { return world.clock.now() >= late; }));
  cluster.release();
  EXPECT_EQ(world.used(other), 0);
  EXPECT_EQ(world.used(world.first), 0);
  EXPECT_EQ(world.left_taken(), 0);
  const auto calls = cluster.take_calls();
  EXPECT_EQ(undos_of(calls), 2u);
}

// Whatever the order of a request's charges, and whichever server settles it.
TEST(SlotsFailures, EveryServerGoesThroughTheSlotsInOneOrder) {
  tests::ScriptedCluster cluster(3);
  ScriptedWorld one(cluster), other(cluster);
  const auto actors = names(7);
  std::vector<uint16_t> expected;
  for (const std::string& actor : actors) expected.push_back(slot_of_actor(actor));
  std::ranges::sort(expected);
  expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
  const auto slots_of = [&](ScriptedWorld& world, bool backwards) {
    std::vector<request::Charge> charges;
    for (const std::string& actor : actors) charges.push_back(world.charge(actor));
    if (backwards) std::ranges::reverse(charges);
    cluster.take_calls();
    EXPECT_TRUE(world.settle(charges).allowed);
    std::vector<uint16_t> slots;
    for (const Call& call : cluster.take_calls()) slots.push_back(call.slot);
    return slots;
  };
  EXPECT_EQ(slots_of(one, false), expected);
  EXPECT_EQ(slots_of(one, true), expected);
  EXPECT_EQ(slots_of(other, false), expected);
  EXPECT_EQ(slots_of(other, true), expected);
}

}  // namespace
}  // namespace sluice::redis::slots_failures_test
