// What takes back the units of a group over several slots: how it is sent, where its script is
// missing, and that it is executed once.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/redis/slots_world.h"
#include "tests/support/comes.h"

namespace sluice::redis::slots_undo_test {
namespace {

using limit::Algorithm;
using limit::Limit;
using request::Error;
using request::Group;
using request::Verb;

std::vector<Call> await_undos(ScriptedWorld& world, size_t count) {
  std::vector<Call> undos;
  EXPECT_TRUE(world.await([&] {
    for (const Call& call : world.cluster.take_calls())
      if (call.undo) undos.push_back(call);
    return undos.size() >= count;
  }));
  EXPECT_EQ(undos.size(), count);
  return undos;
}

// A group is between its slots: the first one is taken, and the second one's answer is held back.
class Between {
 public:
  explicit Between(ClusterWorld& world, std::vector<request::Charge> charges)
      : world_(world), group_(std::move(charges)) {
    EXPECT_FALSE(world_.start(group_.batch));
  }
  // Once the second one's answer is free.
  Group ends() {
    const auto deadline = tests::soon();
    bool answered = false;
    while (!answered && std::chrono::steady_clock::now() < deadline)
      answered = world_.go_on(group_.batch);
    EXPECT_TRUE(answered);
    return group_.groups[0];
  }

 private:
  ClusterWorld& world_;
  GroupUnderWay group_;
};

TEST(SlotsUndo, IsSentByHashThenByTextAfterNoscript) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  cluster.redis().client()({"SCRIPT", "FLUSH"});
  refused(world);
  const Call first = await_undos(world, 1)[0];
  EXPECT_EQ(cluster.take_unknown_undos(), 1u);
  EXPECT_TRUE(first.by_text);
  EXPECT_GT(first.bytes, 16'000u);
  for (int i = 0; i < 3; ++i) {
    refused(world);
    const Call next = await_undos(world, 1)[0];
    EXPECT_EQ(cluster.take_unknown_undos(), 0u);
    EXPECT_FALSE(next.by_text);
    EXPECT_LT(next.bytes, 300u);
  }
  world.decide(world.second_slot, false, {Fate::held, ""});
  Between between(world, world.both(3, many_an_hour, two_a_day));
  ASSERT_TRUE(world.await_held());
  cluster.redis().client()({"SCRIPT", "FLUSH"});
  cluster.release();
  EXPECT_FALSE(between.ends().allowed);
  EXPECT_TRUE(await_undos(world, 1)[0].by_text);
  EXPECT_EQ(cluster.take_unknown_undos(), 1u);
  EXPECT_EQ(world.used(world.first), 0);
  EXPECT_EQ(world.used(world.second), 0);
  EXPECT_EQ(undos_of(cluster.take_calls()), 0u);
  EXPECT_EQ(world.left_taken(), 0);
}

// Another server has other limits for the counter, and has written it meanwhile.
TEST(SlotsUndo, FindsTheLimitAmongOthers) {
  for (const bool is_there : {true, false}) {
    tests::ScriptedCluster cluster(2);
    ScriptedWorld world(cluster);
    world.decide(world.second_slot, false, {Fate::held, ""});
    Between between(world, world.both(3, many_an_hour, two_a_day));
    ASSERT_TRUE(world.await_held());
    auto client = cluster.redis().client();
    size_t written = 0;
    for (const auto& key : client({"KEYS", "*"}).list) {
      const std::string value = client({"GET", key.text}).text;
      if (!value.starts_with("s1;f1000000,")) continue;
      const size_t end = value.find(' ');
      const std::string its = is_there ? value.substr(2, end - 2) : ";f999,3600000000,0";
      client(
          {"SET", key.text, "s1;t7,60000000,7" + its + " -;" + value.substr(end + 1), "KEEPTTL"});
      ++written;
    }
    ASSERT_EQ(written, 1u);
    cluster.release();
    EXPECT_FALSE(between.ends().allowed);
    await_undos(world, 1);
    EXPECT_TRUE(world.await([&] { return world.left_taken() == (is_there ? 0 : 3); }));
    EXPECT_EQ(world.used(world.first), is_there ? 0 : 3);
  }
}

// Only an answer says that nothing was done.
TEST(SlotsUndo, IsNotRepeatedAfterALostAnswer) {
  for (const bool known : {true, false})
    for (const Fate fate : {Fate::lost_before, Fate::lost_after}) {
      SCOPED_TRACE(testing::Message() << known << " " << static_cast<int>(fate));
      tests::ScriptedCluster cluster(2);
      ScriptedWorld world(cluster);
      if (!known) cluster.redis().client()({"SCRIPT", "FLUSH"});
      world.decide(world.first_slot, true, {fate, ""}, 100);
      refused(world);
      EXPECT_TRUE(world.await([&] { return world.left_taken() == 3; })) << world.left_taken();
      EXPECT_EQ(world.used(world.first), fate == Fate::lost_before ? 3 : 0);
      EXPECT_EQ(await_undos(world, 1)[0].by_text, !known);
      EXPECT_EQ(cluster.take_unknown_undos(), known ? 0u : 1u);
    }
}

TEST(SlotsUndo, IsNotRepeatedAfterALostNoscriptAnswer) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  cluster.redis().client()({"SCRIPT", "FLUSH"});
  cluster.lose_unknown_undos();
  refused(world);
  EXPECT_TRUE(world.await([&] { return world.left_taken() == 3; })) << world.left_taken();
  EXPECT_EQ(world.used(world.first), 3);
  EXPECT_EQ(undos_of(cluster.take_calls()), 0u);
  EXPECT_EQ(cluster.take_unknown_undos(), 1u);
}

// An undo that was refused with its text, and those behind it, which find no script again.
TEST(SlotsUndo, IsGivenUpWhenItsTextIsRefused) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  cluster.redis().client()({"SCRIPT", "FLUSH"});
  world.decide(world.first_slot, true, {Fate::error, "NOPERM no EVAL for this user"}, 100);
  std::vector<Group> groups(3);
  std::vector<request::Charge> charges;
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i] = {.charge_first = static_cast<uint32_t>(2 * i), .charge_count = 2};
    for (const request::Charge& charge : world.both(3, many_an_hour, two_a_day))
      charges.push_back(charge);
  }
  EXPECT_TRUE(world.StoreWorld::ask(groups, charges, world.decisions, world.clock.now()));
  for (const Group& group : groups) EXPECT_FALSE(group.allowed);
  EXPECT_TRUE(world.await([&] { return world.left_taken() == 9; })) << world.left_taken();
  for (const Call& call : await_undos(world, 3)) EXPECT_TRUE(call.by_text);
  EXPECT_EQ(world.used(world.first), 9);
}

// So many with their texts would be more than a connection takes (redis_bytes_max).
TEST(SlotsUndo, ManyInOneTurnAreSentWithOneText) {
  constexpr size_t count = 1'200;
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  cluster.redis().client()({"SCRIPT", "FLUSH"});
  std::vector<Group> groups(count);
  std::vector<request::Charge> charges;
  for (size_t i = 0; i < count; ++i) {
    groups[i] = {.charge_first = static_cast<uint32_t>(2 * i), .charge_count = 2};
    for (const request::Charge& charge : world.both(3, many_an_hour, two_a_day))
      charges.push_back(charge);
  }
  ASSERT_TRUE(world.StoreWorld::ask(groups, charges, world.decisions, world.clock.now()));
  for (const Group& group : groups) {
    EXPECT_EQ(group.error, Error::none);
    EXPECT_FALSE(group.allowed);
  }
  const auto undos = await_undos(world, count);
  EXPECT_EQ(std::ranges::count_if(undos, &Call::by_text), 1);
  size_t bytes = 0;
  for (const Call& call : undos) bytes += call.bytes;
  EXPECT_LT(bytes, size_t{512} << 10);
  EXPECT_EQ(world.used(world.first), 0);
  EXPECT_EQ(world.used(world.second), 0);
  EXPECT_EQ(world.left_taken(), 0);
}

// No request waits for it, so it is sent behind an answer that is late. Where the connection ends
// it may have been executed.
TEST(SlotsUndo, IsSentToANodeWithAnOverdueAnswer) {
  for (const bool comes_back : {true, false}) {
    SCOPED_TRACE(comes_back);
    tests::ScriptedCluster cluster(2);
    ScriptedWorld world(cluster);
    world.decide(world.second_slot, false, {Fate::held, ""});
    Between between(world, world.both(3));
    ASSERT_TRUE(world.await_held());
    // Both nodes have an overdue answer then, the first one beside the group.
    world.decide(world.first_slot, false, {Fate::held, ""});
    std::vector<Group> beside = {{.charge_count = 1}};
    std::vector<request::Charge> its = {world.charge(world.first, many_an_hour, Verb::take, 10)};
    std::vector<limit::Decision> decisions(1);
    world.begin(beside, its, decisions);
    ASSERT_TRUE(world.await_held(2));
    world.told = base::Time{world.clock.now().us + base::seconds(25).us};
    world.turn();
    world.told.reset();
    EXPECT_EQ(between.ends().error, Error::deadline);
    EXPECT_EQ(world.left_taken(), 3);  // of the second slot, whose answer is late
    if (!comes_back) cluster.set_open(0, false);
    cluster.release();
    EXPECT_TRUE(world.await([&] { return cluster.held() == 0; }));
    if (!comes_back) cluster.set_open(0, true);
    EXPECT_TRUE(world.await([&] { return world.left_taken() == (comes_back ? 3 : 6); }))
        << world.left_taken();
    EXPECT_EQ(world.used(world.second), 3);
    if (comes_back) {
      EXPECT_EQ(world.used(world.first), 10);
    }
    EXPECT_EQ(world.left_taken(), comes_back ? 3 : 6);
  }
}

// Of a real cluster.
class RealSlotsUndo : public testing::Test {
 protected:
  static tests::RedisCluster& cluster() {
    static tests::RedisCluster three;
    return three;
  }
  static Options options() {
    Options options = ClusterWorld::options_for(cluster());
    options.settles_across_slots = true;
    return options;
  }
  RealSlotsUndo() {
    for (size_t i = 0; i < cluster().size(); ++i) cluster().node(i).client()({"FLUSHALL"});
    for (int i = 0; second.empty(); ++i) {
      const std::string name = "actor" + std::to_string(i);
      const size_t node = cluster().owner_of(slot_of_actor(name));
      if (node == 0) first = name;
      if (node == 2 && !first.empty() && slot_of_actor(first) < slot_of_actor(name)) second = name;
    }
    // The node of the first one has the script.
    EXPECT_TRUE(world.settle({world.charge(first, many_an_hour, Verb::take, 5)}).allowed);
    EXPECT_FALSE(world.settle(charges()).allowed);
    expect_counters();
  }
  std::vector<request::Charge> charges() {
    return {world.charge(first, many_an_hour, Verb::take, 3),
            world.charge(second, two_a_day, Verb::take, 3)};
  }
  // What happens between the first slot's take and what takes it back.
  template <class Meanwhile>
  void refuse_after(Meanwhile meanwhile) {
    std::string name = "sluice:";
    append_tag(name, first);
    name += "native:rule:" + first;
    const auto value = [&] { return cluster().at_owner({"GET", name}, name).text; };
    const std::string before = value();
    Between between(world, charges());
    world.turn();  // the take leaves; its answer is read by the next turn
    EXPECT_TRUE(tests::comes([&] { return value() != before; }));
    meanwhile();
    EXPECT_FALSE(between.ends().allowed);
    expect_counters();
  }
  void expect_counters() {
    const auto deadline = tests::soon();
    while (world.used(first) != 5 && std::chrono::steady_clock::now() < deadline) world.turn();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(world.used(first), 5);
    EXPECT_EQ(world.used(second), 0);
    EXPECT_EQ(world.metric("sluice_redis_left_taken_units_total"), 0);
  }

  ClusterWorld world{options()};
  std::string first, second;
};

TEST_F(RealSlotsUndo, ScriptsThatWereFlushedAreSentAgain) {
  refuse_after([&] { cluster().node(0).client()({"SCRIPT", "FLUSH"}); });
}

TEST_F(RealSlotsUndo, TheNewOwnerOfASlotGetsTheScript) {
  const uint16_t slot = slot_of_actor(first);
  cluster().node(1).client()({"SCRIPT", "FLUSH"});
  refuse_after([&] { cluster().move_slot(slot, 0, 1); });
  EXPECT_GT(world.metric("sluice_redis_redirects_total{kind=\"moved\"}"), 0);
  cluster().move_slot(slot, 1, 0);
}

TEST_F(RealSlotsUndo, TheImportingNodeGetsTheScript) {
  const uint16_t slot = slot_of_actor(first);
  cluster().node(1).client()({"SCRIPT", "FLUSH"});
  refuse_after([&] {
    cluster().begin_move(slot, 0, 1);
    cluster().move_keys(slot, 0, 1);
  });
  EXPECT_GT(world.metric("sluice_redis_redirects_total{kind=\"ask\"}"), 0);
  cluster().end_move(slot, 0, 1);
  cluster().move_slot(slot, 1, 0);
}

}  // namespace
}  // namespace sluice::redis::slots_undo_test
