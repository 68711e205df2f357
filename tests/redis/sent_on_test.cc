// Commands that are sent on many times, as nodes of a Redis Cluster name each other for a slot or
// as it moves quickly: they are followed with pauses, up to a bound, and charge once. The nodes are
// scripted; the counters are in a real Redis.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "redis/cluster_map.h"
#include "tests/redis/slots_world.h"

namespace sluice::redis::sent_on_test {
namespace {

using request::Error;
using request::Group;
using request::Verb;

constexpr int always = 1'000'000;

// Each actor is at one of two nodes.
class SentOn : public testing::Test {
 protected:
  SentOn() {
    for (int i = 0; beside[0].empty() || beside[1].empty(); ++i) {
      const std::string name = "beside" + std::to_string(i);
      beside[cluster.owner_of(slot_of_actor(name))] = name;
    }
  }
  // So many times the slot's owner names the other node, which names the owner.
  void disagree(uint16_t slot, bool undo, int times, const char* kind = "MOVED") {
    cluster.decide([=, this, left = times](const Call& call) mutable {
      if (call.slot != slot || !(undo ? call.undo : call.takes) || left == 0) return Act{};
      --left;
      return world.names_other(call, kind);
    });
  }
  std::vector<request::Charge> one(int64_t cost) {
    return {world.charge(world.first, many_an_hour, Verb::take, cost)};
  }
  // A take is in its first pause, as time stands still.
  void begin_pause(GroupUnderWay& flight, uint16_t slot) {
    disagree(slot, false, 3);
    world.told = world.clock.now();
    ASSERT_FALSE(world.start(flight.batch));
    ASSERT_TRUE(await_redirects(flight, at_once));
    expect_pause(flight);
  }
  bool await_redirects(GroupUnderWay& flight, int count) {
    return world.await([&] {
      EXPECT_FALSE(world.go_on(flight.batch));
      return world.redirects("moved") == count;
    });
  }
  // Both nodes have answered what they were sent, and nothing is sent on.
  void expect_pause(GroupUnderWay& flight) {
    const int before = world.redirects("moved");
    for (const std::string& name : beside) EXPECT_EQ(world.used(name), 0);
    for (int turns = 0; turns < 5; ++turns) EXPECT_FALSE(world.go_on(flight.batch));
    EXPECT_EQ(world.redirects("moved"), before);
  }
  void pass(int64_t us) { world.told = base::Time{world.told->us + us}; }
  void expect_granted(GroupUnderWay& flight) {
    EXPECT_TRUE(world.await([&] { return world.go_on(flight.batch); }));
    EXPECT_EQ(flight.groups[0].error, Error::none);
    EXPECT_TRUE(flight.groups[0].allowed);
  }

  static constexpr int at_once = base::bounds::redis_redirects_max;
  tests::ScriptedCluster cluster{2};
  ScriptedWorld world{cluster};
  std::array<std::string, 2> beside;  // actors of other slots, one at each node
};

TEST_F(SentOn, ATakeIsChargedOnceWhenNodesFinallyAgree) {
  int64_t first = 0, second = 0;
  for (const char* kind : {"MOVED", "ASK"})
    for (const uint16_t slot : {world.first_slot, world.second_slot})
      for (const bool both : {false, true}) {
        if (!both && slot == world.second_slot) continue;
        SCOPED_TRACE(testing::Message() << kind << " " << slot << " " << both);
        const int before = world.redirects("moved") + world.redirects("ask");
        disagree(slot, false, 9, kind);
        const Group group = world.settle(both ? world.both(2) : one(2));
        EXPECT_EQ(group.error, Error::none);
        EXPECT_TRUE(group.allowed);
        EXPECT_GE(world.redirects("moved") + world.redirects("ask"), before + 9);
        EXPECT_EQ(world.used(world.first), first += 2);
        EXPECT_EQ(world.used(world.second), second += both ? 2 : 0);
      }
  EXPECT_EQ(world.redirects("given_up"), 0);
  EXPECT_EQ(world.left_taken(), 0);
}

TEST_F(SentOn, ATakeFailsAtTheBoundWhenNodesNeverAgree) {
  disagree(world.first_slot, false, always);
  cluster.take_calls();
  EXPECT_EQ(world.settle(one(2)).error, Error::store);
  EXPECT_EQ(world.redirects("moved"), static_cast<int>(redirects_most));
  EXPECT_EQ(world.redirects("given_up"), 1);
  EXPECT_NE(world.log().find("a command was sent on 40 times and not executed, the last answer was "
                             "\"MOVED " +
                             std::to_string(world.first_slot) + " "),
            std::string::npos)
      << world.log();
  cluster.decide({});
  EXPECT_EQ(world.used(world.first), 0);
}

TEST_F(SentOn, AnUndoFollowsRedirectsToo) {
  disagree(world.first_slot, true, 9);
  refused(world);
  EXPECT_TRUE(world.await([&] { return world.redirects("moved") >= 9; }));
  EXPECT_TRUE(world.await([&] { return world.used(world.first) == 0; }));
  EXPECT_EQ(world.left_taken(), 0);
  EXPECT_EQ(undos_of(cluster.take_calls()), 10u);
  disagree(world.first_slot, true, always);
  refused(world);
  EXPECT_TRUE(world.await([&] { return world.redirects("given_up") == 1; }));
  EXPECT_EQ(world.left_taken(), 3);
  EXPECT_EQ(world.used(world.first), 3);
}

// The times are those of redis/cluster_map.h, by the clock of the test.
TEST_F(SentOn, PausesGrow) {
  GroupUnderWay flight(one(2));
  begin_pause(flight, world.first_slot);
  disagree(world.first_slot, false, always);
  for (int times = at_once; times < at_once + 7; ++times) {
    const int64_t pause_us = redirect_pause_us(static_cast<unsigned>(times));
    pass(pause_us - 1);
    expect_pause(flight);
    pass(1);
    ASSERT_TRUE(await_redirects(flight, times + 1));
    expect_pause(flight);
  }
  cluster.decide({});
  world.told.reset();
  expect_granted(flight);
  EXPECT_EQ(world.used(world.first), 2);
}

// The pause ends by the new time.
TEST_F(SentOn, TheClockIsSetBackInAPause) {
  GroupUnderWay flight(one(2));
  begin_pause(flight, world.first_slot);
  pass(-base::seconds(3'600).us);
  expect_pause(flight);
  pass(redirect_pause_min_us);
  expect_granted(flight);
}

TEST_F(SentOn, AClientGoesInAPause) {
  for (const bool both : {false, true}) {
    SCOPED_TRACE(both);
    const int before = world.redirects("moved");
    GroupUnderWay flight(both ? world.both(2) : one(2));
    disagree(both ? world.second_slot : world.first_slot, false, 3);
    world.told = world.clock.now();
    ASSERT_FALSE(world.start(flight.batch));
    ASSERT_TRUE(await_redirects(flight, before + at_once));
    expect_pause(flight);
    cluster.take_calls();
    world.abandon(flight.batch);
    world.told.reset();
    EXPECT_EQ(world.used(world.second), 0);
    EXPECT_TRUE(world.await([&] { return world.used(world.first) == 0; }));
    for (const Call& call : cluster.take_calls()) EXPECT_FALSE(call.takes);
    EXPECT_EQ(world.left_taken(), 0);
  }
}

// Its answer came from a node that has no slot any more, and the connection to it goes.
TEST_F(SentOn, ANodeLeavesInAPause) {
  GroupUnderWay flight(one(2));
  begin_pause(flight, world.first_slot);
  for (size_t slot = 0; slot < slot_count; ++slot) cluster.move(static_cast<uint16_t>(slot), 0);
  EXPECT_TRUE(world.await([&] { return world.metric("sluice_redis_primaries") == 1; }));
  for (int turns = 0; turns < 5; ++turns) EXPECT_FALSE(world.go_on(flight.batch));
  EXPECT_EQ(world.metric("sluice_redis_connections{state=\"up\"}"), 2);
  world.told.reset();
  expect_granted(flight);
  EXPECT_TRUE(
      world.await([&] { return world.metric("sluice_redis_connections{state=\"up\"}") == 1; }));
  EXPECT_EQ(world.used(world.first), 2);
}

// The answer names a node that is gone when the pause is over, as after a failover. Where the slot
// is now is known by then.
TEST_F(SentOn, TheNodeThatIsNamedLeavesInAPause) {
  for (const bool undo : {false, true}) {
    SCOPED_TRACE(undo);
    tests::ScriptedCluster nodes(2);
    ScriptedWorld other(nodes);
    const uint16_t slot = other.first_slot;
    nodes.decide([=, left = 3, to = nodes.port(1)](const Call& call) mutable {
      if (call.slot != slot || !(undo ? call.undo : call.takes) || left == 0) return Act{};
      --left;
      return Act{Fate::error, "MOVED " + std::to_string(slot) + " 127.0.0.1:" + std::to_string(to)};
    });
    other.told = other.clock.now();
    GroupUnderWay flight(undo ? other.both(3, many_an_hour, two_a_day) : other.both(3));
    bool settled = other.start(flight.batch);
    EXPECT_TRUE(other.await([&] {
      settled = settled || other.go_on(flight.batch);
      return settled == undo && other.redirects("moved") == at_once;
    }));
    // The second node's answer, which names the first one, is in its pause.
    EXPECT_EQ(other.used("beside"), 0);
    for (size_t i = 0; i < slot_count; ++i) nodes.move(static_cast<uint16_t>(i), 1);
    nodes.set_open(0, false);
    EXPECT_TRUE(other.await([&] {
      return other.metric("sluice_redis_primaries") == 1 &&
             other.metric("sluice_redis_connections{state=\"up\"}") == 1;
    }));
    other.told.reset();
    EXPECT_TRUE(other.await([&] { return settled || other.go_on(flight.batch); }));
    EXPECT_EQ(flight.groups[0].error, Error::none);
    EXPECT_EQ(flight.groups[0].allowed, !undo);
    EXPECT_TRUE(other.await([&] { return other.used(other.first) == (undo ? 0 : 3); }));
    EXPECT_EQ(other.left_taken(), 0);
  }
}

TEST_F(SentOn, AServerEndsInAPause) {
  ScriptedWorld other(cluster);
  disagree(world.first_slot, false, always);
  GroupUnderWay flight({other.charge(other.first, many_an_hour, Verb::take, 2)});
  other.told = other.clock.now();
  ASSERT_FALSE(other.start(flight.batch));
  ASSERT_TRUE(other.await([&] {
    EXPECT_FALSE(other.go_on(flight.batch));
    return other.redirects("moved") == at_once;
  }));
  EXPECT_EQ(other.used(other.second), 0);
  EXPECT_FALSE(other.go_on(flight.batch));
}

// A worker meets a primary by ASK first, and then has commands for slots of that primary.
TEST(SentOnByAsk, APrimaryHasOneConnection) {
  tests::ScriptedCluster cluster(3);
  ScriptedWorld world(cluster);
  const auto connections = [&] { return world.metric("sluice_redis_connections{state=\"up\"}"); };
  EXPECT_EQ(connections(), 2);
  cluster.migrate(world.first_slot, 2);
  EXPECT_TRUE(world.settle({world.charge(world.first)}).allowed);
  EXPECT_EQ(world.redirects("ask"), 1);
  EXPECT_EQ(connections(), 3);
  std::string third;
  for (int i = 0; third.empty(); ++i)
    if (const std::string name = "third" + std::to_string(i);
        cluster.owner_of(slot_of_actor(name)) == 2)
      third = name;
  EXPECT_EQ(world.used(third), 0);
  EXPECT_EQ(connections(), 3);
  cluster.move(world.first_slot, 2);
  EXPECT_EQ(world.used(world.first), 1);
  EXPECT_EQ(connections(), 3);
}

}  // namespace
}  // namespace sluice::redis::sent_on_test
