// The ids of charges in a real Redis: several servers on one Redis, or on the slots of a cluster,
// charge once however often a charge is sent.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/redis/slots_world.h"

namespace sluice::redis::charge_id_test {
namespace {

using limit::Algorithm;
using limit::Limit;
using request::ChargeId;
using request::Error;
using request::Group;
using request::Known;
using request::Verb;

constexpr ChargeId first_id{"ann:0123456789abcdef", 7}, second_id{"bob:0123456789abcdef", 7},
    other_content{"ann:0123456789abcdef", 8};
const Limit ten_a_day{Algorithm::sliding_log, 10, base::seconds(86'400)};

Group charge(ClusterWorld& world, const std::vector<request::Charge>& charges, const ChargeId& id,
             bool is_shadow = false) {
  std::vector<Group> groups = {
      {.charge_count = static_cast<uint32_t>(charges.size()), .may_fail = is_shadow, .id = &id}};
  auto its = charges;
  world.decisions.clear();
  EXPECT_TRUE(world.ask(groups, its, world.decisions, world.now()));
  return groups[0];
}

int64_t left(ClusterWorld& world, const std::string& key, const Limit& limit = ten_a_day) {
  return world.left(key, limit).value_or(-1'000);
}

TEST(ChargeId, IsChargedOnceByAllServers) {
  tests::RedisServer redis;
  std::vector<std::unique_ptr<ClusterWorld>> servers;
  for (int i = 0; i < 3; ++i)
    servers.push_back(std::make_unique<ClusterWorld>(StoreWorld::options_for(redis)));
  for (int i = 0; i < 6; ++i) {
    SCOPED_TRACE(i);
    ClusterWorld& server = *servers[static_cast<size_t>(i) % servers.size()];
    const Group group = charge(server, {server.charge("k", ten_a_day, Verb::charge, 25)}, first_id);
    ASSERT_EQ(group.error, Error::none);
    EXPECT_TRUE(group.allowed);
    EXPECT_EQ(group.known, i == 0 ? Known::no : Known::yes);
    EXPECT_EQ(server.decisions[0].remaining, -15);
    EXPECT_EQ(server.decisions[0].retry_after, base::seconds(86'400));  // that of the first answer
    // Another charge beside it, which the answer does not show.
    server.settle({server.charge("k", ten_a_day, Verb::charge, 1)});
  }
  EXPECT_EQ(left(*servers[0], "k"), 10 - 25 - 6);
  EXPECT_EQ(
      charge(*servers[1], {servers[1]->charge("k", ten_a_day, Verb::charge, 26)}, other_content)
          .known,
      Known::other_content);
  EXPECT_EQ(
      charge(*servers[1], {servers[1]->charge("k", ten_a_day, Verb::charge, 2)}, second_id).known,
      Known::no);
  EXPECT_EQ(left(*servers[2], "k"), 10 - 25 - 6 - 2);
  const int64_t ttl_ms = redis.client()({"PTTL", "sluice:id:ann:0123456789abcdef"}).number;
  EXPECT_GT(ttl_ms, 500'000);
  EXPECT_LE(ttl_ms, 600'000);
}

// Also counters that other programs share, limits whose numbers need limbs, and several charges.
TEST(ChargeId, IsRememberedWithCountersOfEachForm) {
  tests::RedisServer redis;
  ClusterWorld world(StoreWorld::options_for(redis));
  const Limit large{Algorithm::token_bucket, 3'000'000'000, base::seconds(86'400), 3'000'000'000},
      counted{Algorithm::aligned_window, 5, base::seconds(40'000'000), 0};
  const std::vector<std::vector<request::Charge>> groups = {
      {world.charge("k", large, Verb::charge, 9)},
      {world.charge("k", counted, Verb::charge, 9, "d_", request::KeyEncoding::window_text)},
      {world.charge("m", counted, Verb::charge, 9, "d_", request::KeyEncoding::window_text),
       world.charge("m", ten_a_day, Verb::charge, 9)}};
  int number = 0;
  for (const auto& charges : groups) {
    const std::string name = "ann:0123456789abcde" + std::to_string(++number);
    const ChargeId id{name, 7};
    for (int i = 0; i < 3; ++i) {
      const Group group = charge(world, charges, id);
      ASSERT_EQ(group.error, Error::none);
      EXPECT_TRUE(group.allowed);
      EXPECT_EQ(group.known, i == 0 ? Known::no : Known::yes);
      for (size_t k = 0; k < charges.size(); ++k)
        EXPECT_EQ(world.decisions[k].remaining, charges[k].limits[0].quota - 9);
    }
  }
}

// A shadow rule has a group of its own, with the same id.
TEST(ChargeId, IsRememberedForEachShadowRule) {
  tests::RedisServer redis;
  ClusterWorld world(StoreWorld::options_for(redis));
  for (int i = 0; i < 2; ++i)
    for (const bool is_shadow : {false, true}) {
      const std::string space = is_shadow ? "native:shadow:" : "native:rule:";
      const auto charges = {world.charge("k", ten_a_day, Verb::charge, 3, space)};
      EXPECT_EQ(charge(world, charges, first_id, is_shadow).known, i == 0 ? Known::no : Known::yes);
    }
  EXPECT_EQ(left(world, "k"), 7);
}

// The counters of a shadow rule are settled one by one.
TEST(ChargeId, IsRememberedForEachCounterOfAShadowRule) {
  tests::RedisServer redis;
  ClusterWorld world(StoreWorld::options_for(redis));
  const auto shadow = [&](const std::string& key, Verb verb, int64_t cost) {
    return world.charge(key, ten_a_day, verb, cost, "native:shadow:");
  };
  for (int i = 0; i < 2; ++i)
    for (const char* key : {"k", "m"})
      EXPECT_EQ(charge(world, {shadow(key, Verb::charge, 3)}, first_id, true).known,
                i == 0 ? Known::no : Known::yes)
          << key;
  for (const char* key : {"k", "m"}) {
    EXPECT_EQ(world.settle({shadow(key, Verb::peek, 0)}).error, Error::none);
    EXPECT_EQ(world.decisions[0].remaining, 7) << key;
  }
}

// What was charged and not answered is known when it is sent again.
TEST(ChargeId, ALostAnswerIsRepeatedWhenTheChargeIsSentAgain) {
  for (const Fate fate : {Fate::lost_before, Fate::lost_after}) {
    tests::ScriptedCluster cluster(2);
    ScriptedWorld world(cluster);
    const auto charges = {world.charge(world.first, ten_a_day, Verb::charge, 25)};
    world.decide(world.first_slot, false, {fate, ""});
    EXPECT_EQ(charge(world, charges, first_id).error, Error::store);
    Group again;
    EXPECT_TRUE(world.await([&] {
      again = charge(world, charges, first_id);
      return again.error == Error::none;
    }));
    EXPECT_EQ(again.known, fate == Fate::lost_after ? Known::yes : Known::no);
    EXPECT_EQ(world.decisions[0].remaining, -15);
    EXPECT_EQ(left(world, world.first), -15);
  }
}

// Each slot remembers its part: what a failure leaves undone is done when the charge is sent again.
TEST(ChargeId, IsCompletedOverSeveralSlotsWhenItIsSentAgain) {
  for (const Fate fate : {Fate::lost_before, Fate::lost_after, Fate::error}) {
    SCOPED_TRACE(static_cast<int>(fate));
    tests::ScriptedCluster cluster(2);
    ScriptedWorld world(cluster);
    auto charges = world.both(3);
    for (request::Charge& one : charges) one.verb = Verb::charge;
    world.decide(world.second_slot, false, {fate, "OOM no memory"});
    EXPECT_NE(charge(world, charges, first_id).error, Error::none);
    EXPECT_EQ(world.used(world.first), 3);
    Known known = Known::yes;
    for (int i = 0; i < 3; ++i) {
      Group again;
      EXPECT_TRUE(world.await([&] {
        again = charge(world, charges, first_id);
        return again.error == Error::none;
      }));
      EXPECT_TRUE(again.allowed);
      if (i == 0) known = again.known;
      if (i > 0) {
        EXPECT_EQ(again.known, Known::yes);
      }
      EXPECT_EQ(world.decisions[1].remaining, many_an_hour.quota - 3);
    }
    EXPECT_EQ(known, fate == Fate::lost_after ? Known::yes : Known::no);
    EXPECT_EQ(world.used(world.first), 3);
    EXPECT_EQ(world.used(world.second), 3);
    // Another content is charged nowhere.
    EXPECT_EQ(charge(world, charges, other_content).known, Known::other_content);
    EXPECT_EQ(world.used(world.first), 3);
    EXPECT_EQ(undos_of(cluster.take_calls()), 0u);
  }
}

}  // namespace
}  // namespace sluice::redis::charge_id_test
