// Charges and limits that count whose counters are in several slots of a Redis Cluster: what is
// charged and what is taken back when a slot refuses, fails, or names another node, and when the
// client is gone.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "tests/redis/slots_world.h"

namespace sluice::redis::slots_debt_test {
namespace {

using limit::Algorithm;
using limit::Limit;
using request::Error;
using request::Group;
using request::Verb;

constexpr std::array counted = {Algorithm::fixed_window, Algorithm::aligned_window,
                                Algorithm::token_bucket, Algorithm::sliding_window,
                                Algorithm::sliding_log,  Algorithm::fixed_bucket,
                                Algorithm::concurrency};

// So long that nothing returns while the test runs, wherever it begins.
Limit limit_for(size_t actor) {
  const Algorithm algorithm = counted[actor % counted.size()];
  const auto quota = static_cast<int64_t>(20 + 10 * actor);
  if (algorithm == Algorithm::fixed_bucket) return {algorithm, quota, {}, quota};
  const base::Duration year = base::seconds(40'000'000);
  if (algorithm == Algorithm::concurrency) return {algorithm, quota, year, year.us};
  return {algorithm, quota, year, algorithm == Algorithm::token_bucket ? quota : 0};
}

// The table in memory is the model.
TEST(SlotsDebt, ChargesAndLimitsThatCountAnswerAsTheTableDoes) {
  tests::ScriptedCluster cluster(3);
  ScriptedWorld world(cluster);
  store::EmbeddedStore model(0, base::Hash(1), world.spaces);
  const auto actors = names(12);
  std::mt19937 dice(51);
  int refused = 0, over = 0;
  for (int i = 0; i < 400; ++i) {
    SCOPED_TRACE(i);
    if (i % 40 == 0) {
      cluster.redis().client()({"FLUSHALL"});
      load_undo(cluster.redis());
    }
    const std::string round = std::to_string(i / 40);
    const auto chosen = choose(actors.size(), dice);
    const bool charges_all = dice() % 4 == 0;
    std::vector<request::Charge> charges;
    for (const size_t k : chosen) {
      const Verb verb = charges_all ? Verb::charge : dice() % 2 == 0 ? Verb::count : Verb::take;
      charges.push_back(world.charge(actors[k] + "-" + round, limit_for(k), verb,
                                     static_cast<int64_t>(1 + dice() % 6)));
    }
    refused += settle_as(model, world, charges).allowed ? 0 : 1;
    ASSERT_FALSE(HasFailure());
    for (const limit::Decision& decision : world.decisions) over += decision.remaining < 0 ? 1 : 0;
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(over, 50);
  EXPECT_EQ(world.left_taken(), 0);
  EXPECT_GT(world.metric("sluice_redis_across_slots_total"), 300);
}

std::vector<request::Charge> charges_of(ScriptedWorld& world, int64_t cost,
                                        const Limit& of_second = many_an_hour) {
  auto charges = world.both(cost, many_an_hour, of_second);
  for (request::Charge& charge : charges) charge.verb = Verb::charge;
  return charges;
}

TEST(SlotsDebt, AChargeIsChargedOnceThoughItsSlotMoves) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  int64_t charged = 0;
  for (const bool moves : {false, true})
    for (const uint16_t slot : {world.first_slot, world.second_slot}) {
      SCOPED_TRACE(slot);
      const size_t to = 1 - cluster.owner_of(slot);
      moves ? cluster.move(slot, to) : cluster.migrate(slot, to);
      cluster.redis().client()({"SCRIPT", "FLUSH"});
      const Group group = world.settle(charges_of(world, 3, two_a_day));
      EXPECT_EQ(group.error, Error::none);
      EXPECT_TRUE(group.allowed);
      charged += 3;
      EXPECT_EQ(world.decisions[1].remaining, two_a_day.quota - charged);
      if (!moves) cluster.migrate(slot, cluster.size());
      EXPECT_EQ(world.used(world.first), charged);
    }
  EXPECT_EQ(world.left_taken(), 0);
}

// The client may send it again, so nothing stays charged.
TEST(SlotsDebt, AChargeThatASlotRejectsIsAnErrorAndIsTakenBack) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  for (const bool counts : {false, true}) {
    SCOPED_TRACE(counts);
    world.decide(world.second_slot, false, {Fate::error, "OOM no memory"});
    auto charges = charges_of(world, 3);
    for (request::Charge& charge : charges) {
      if (!counts) continue;
      charge.verb = Verb::count;
      charge.counts = 1;
    }
    EXPECT_EQ(world.settle(charges).error, Error::no_space);
    expect_undos(world, 1);
    EXPECT_EQ(world.used(world.first), 0);
    EXPECT_EQ(world.used(world.second), 0);
  }
  EXPECT_EQ(world.left_taken(), 0);
}

// What the second slot did is not known; the first one's units are taken back.
TEST(SlotsDebt, AChargeWithoutAnAnswerIsAnErrorAndIsCounted) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  world.decide(world.second_slot, false, {Fate::lost_after, ""});
  EXPECT_EQ(world.settle(charges_of(world, 3)).error, Error::store);
  expect_undos(world, 1);
  EXPECT_EQ(world.used(world.first), 0);
  EXPECT_EQ(world.left_taken(), 3);
}

// The units were used already, so nothing changes if the answer is not read.
TEST(SlotsDebt, AChargeWhoseClientIsGoneIsChargedInEachSlot) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  int64_t charged = 0;
  for (const bool at_the_end : {false, true}) {
    SCOPED_TRACE(at_the_end);
    world.decide(at_the_end ? world.second_slot : world.first_slot, false, {Fate::held, ""});
    GroupUnderWay group(charges_of(world, 3));
    ASSERT_FALSE(world.start(group.batch));
    ASSERT_TRUE(world.await_held());
    if (!at_the_end) world.abandon(group.batch);
    cluster.release();
    ASSERT_TRUE(world.await([&] { return cluster.held() == 0; }));
    charged += 3;
    EXPECT_TRUE(world.await([&] { return world.used(world.second) == charged; }));
    if (at_the_end) world.abandon(group.batch);
    EXPECT_EQ(world.used(world.first), charged);
    EXPECT_EQ(undos_of(cluster.take_calls()), 0u);
  }
  EXPECT_EQ(world.left_taken(), 0);
}

// Of two limits of one counter only the one that counts stays charged.
TEST(SlotsDebt, ARefusalTakesBackOnlyWhatDoesNotCount) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  const std::vector<Limit> two{many_an_hour, {Algorithm::sliding_log, 500, base::seconds(86'400)}};
  const auto ask = [&](Verb verb, int64_t cost, bool with_second) {
    auto charges = world.both(cost, many_an_hour, two_a_day);
    charges[0].limits = two;
    charges[0].limits_id = world.spaces.intern_limits(two);
    charges[0].verb = verb;
    charges[0].counts = verb == Verb::count ? 2 : 0;
    charges[0].decision_first = 0;
    charges[1].decision_first = 2;
    if (!with_second) charges.pop_back();
    std::vector<Group> groups = {{.charge_count = static_cast<uint32_t>(charges.size())}};
    std::vector<limit::Decision> decisions(3);
    StoreWorld::UnderWay batch{groups, charges, decisions};
    if (!world.start(batch)) {
      EXPECT_TRUE(world.await([&] { return world.go_on(batch); }));
    }
    EXPECT_EQ(groups[0].error, Error::none);
    EXPECT_EQ(groups[0].allowed, !with_second);
    return decisions;
  };
  const auto said = ask(Verb::count, 3, true);
  EXPECT_EQ(said[0].remaining, many_an_hour.quota);
  EXPECT_EQ(said[1].remaining, 497);
  expect_undos(world, 1);
  const auto left = ask(Verb::peek, 0, false);
  EXPECT_EQ(left[0].remaining, many_an_hour.quota);
  EXPECT_EQ(left[1].remaining, 497);
  EXPECT_EQ(world.left_taken(), 0);
}

}  // namespace
}  // namespace sluice::redis::slots_debt_test
