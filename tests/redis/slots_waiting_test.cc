// Requests that wait for units of counters in several slots: their order, and what becomes of their
// units when they leave, are replaced or fail between two slots. The nodes are scripted; the
// counters are in a real Redis.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>

#include "redis/cluster_map.h"
#include "tests/redis/slots_world.h"

namespace sluice::redis::slots_waiting_test {
namespace {

using limit::Algorithm;
using limit::Limit;
using request::Error;
using request::Group;
using request::Ticket;
using request::Verb;

constexpr Limit bucket_of(int64_t quota) {
  return {Algorithm::fixed_bucket, quota, {}, quota};
}
constexpr Limit window_of(int64_t quota, int64_t hours) {
  return {Algorithm::fixed_window, quota, base::seconds(3'600 * hours), 0};
}

// Both actors have a bucket of six, which is empty.
class Waiting : public testing::Test {
 protected:
  Waiting() { EXPECT_TRUE(world.settle(take(6)).allowed); }

  std::vector<request::Charge> take(int64_t cost, const Limit& limit = bucket_of(6)) {
    return world.both(cost, limit, limit);
  }
  void put(int64_t units) {
    auto charges = take(units);
    for (request::Charge& charge : charges) charge.verb = Verb::put;
    EXPECT_EQ(world.settle(charges).error, Error::none);
  }
  // Parks a request; its ticket.
  Ticket wait(std::vector<request::Charge> charges) {
    std::vector<Group> groups = {{.charge_count = static_cast<uint32_t>(charges.size()),
                                  .may_wait = true,
                                  .ticket = {7, ++tickets_}}};
    std::vector<limit::Decision> decisions;
    EXPECT_TRUE(world.ask(groups, charges, decisions, world.clock.now()));
    EXPECT_EQ(groups[0].error, Error::none);
    EXPECT_TRUE(groups[0].parked);
    arrival_ = groups[0].arrival;
    return groups[0].ticket;
  }
  // Gives the request that was parked last these charges.
  bool replace(std::vector<request::Charge> charges) {
    std::vector<Group> groups = {{.charge_count = static_cast<uint32_t>(charges.size()),
                                  .may_wait = true,
                                  .ticket = {7, tickets_},
                                  .arrival = arrival_}};
    std::vector<limit::Decision> decisions(charges.size());
    for (size_t k = 0; k < charges.size(); ++k)
      charges[k].decision_first = static_cast<uint32_t>(k);
    world.replace(groups, charges, decisions);
    return groups[0].parked;
  }
  // The next answer of a waiting request.
  store::Settled next() {
    const bool come = !settled_.empty() || world.await([&] {
      settled_ = world.settled();
      return !settled_.empty();
    });
    EXPECT_TRUE(come);
    if (settled_.empty()) return {};
    store::Settled first = std::move(settled_.front());
    settled_.erase(settled_.begin());
    return first;
  }
  // Nothing is answered, though the store has asked for a request that waits `times` times.
  void expect_nothing_in(int times) {
    cluster.take_calls();
    size_t calls = 0;  // one for each slot
    EXPECT_TRUE(world.await([&] {
      calls += cluster.take_calls().size();
      return calls >= 2 * static_cast<size_t>(times);
    }));
    settled_ = world.settled();
    EXPECT_TRUE(settled_.empty());
  }
  int64_t left(const std::string& actor, const Limit& limit = bucket_of(6)) {
    return world.left(actor, limit).value_or(-1);
  }
  // Both buckets have so many units, which no request of this server has put there: it finds them
  // when it looks again. (What it put would stand behind a call that is held back.)
  void set_left(int64_t units) {
    const std::string value = "s1;b6,0,6 0 " + std::to_string(6 - units);
    cluster.redis().client()(
        {"MSET", stored_name(world.first), value, stored_name(world.second), value});
  }
  // A request waits for two units, which are there, and has asked that slot; with
  // `with_another`, one like it waits behind it.
  Ticket stop_at(uint16_t slot, bool with_another = false) {
    const Ticket ticket = wait(take(2));
    if (with_another) wait(take(2));
    world.decide(slot, false, {Fate::held, ""});
    set_left(2);
    EXPECT_TRUE(world.await_held());
    return ticket;
  }
  // What it has taken there comes back.
  void expect_taken_back(uint16_t slot) {
    cluster.release();
    expect_undos(world, slot == world.first_slot ? 1 : 2);
  }

  tests::ScriptedCluster cluster{2};
  ScriptedWorld world{cluster};

 private:
  uint32_t tickets_ = 0;
  uint64_t arrival_ = 0;
  std::vector<store::Settled> settled_;
};

TEST_F(Waiting, RequestsAreServedInTheirOrder) {
  const Ticket two = wait(take(2)), one = wait(take(1)), three = wait(take(3));
  put(1);
  expect_nothing_in(3);  // the one unit belongs to the request that waits for two
  EXPECT_FALSE(world.settle(take(1)).allowed);
  put(1);
  EXPECT_EQ(next().ticket, two);
  put(4);
  EXPECT_EQ(next().ticket, one);
  const store::Settled last = next();
  EXPECT_EQ(last.ticket, three);
  EXPECT_EQ(last.error, Error::none);
  EXPECT_EQ(last.decisions.at(0).remaining, 0);
  EXPECT_EQ(last.decisions.at(1).remaining, 0);
  EXPECT_EQ(left(world.first), 0);
  EXPECT_EQ(left(world.second), 0);
  EXPECT_EQ(world.left_taken(), 0);
}

// Only that counter's units are kept for it.
TEST_F(Waiting, WaitsInTheQueueOfTheCounterThatLacksUnitsLongest) {
  for (const bool first_is_longer : {false, true}) {
    SCOPED_TRACE(first_is_longer);
    const Limit longer = window_of(5, first_is_longer ? 9 : 8);
    const Limit shorter = window_of(5, first_is_longer ? 7 : 6);
    const Limit of_first = first_is_longer ? longer : shorter;
    const Limit of_second = first_is_longer ? shorter : longer;
    EXPECT_TRUE(world.settle(world.both(2, of_first, of_second)).allowed);
    const Ticket ticket = wait(world.both(4, of_first, of_second));
    EXPECT_EQ(left(world.first, of_first), first_is_longer ? 0 : 3);
    EXPECT_EQ(left(world.second, of_second), first_is_longer ? 3 : 0);
    EXPECT_TRUE(world.cancel(ticket));
    EXPECT_EQ(left(world.first, of_first), 3);
    EXPECT_EQ(left(world.second, of_second), 3);
    for (const std::string& actor : {world.first, world.second}) {
      auto reset = world.charge(actor, of_first, Verb::put, 0);
      reset.all = true;
      EXPECT_EQ(world.settle({reset}).error, Error::none);
    }
  }
}

// One slot has enough and the other has not: nothing is held between two looks.
TEST_F(Waiting, DoesNotHoldUnitsOfOneSlotWhileAnotherLacksThem) {
  wait(take(4));
  auto some = world.charge(world.first, bucket_of(6), Verb::put, 5);
  EXPECT_EQ(world.settle({some}).error, Error::none);
  expect_nothing_in(3);
  some = world.charge(world.second, bucket_of(6), Verb::put, 5);
  EXPECT_EQ(world.settle({some}).error, Error::none);
  EXPECT_EQ(next().error, Error::none);
  EXPECT_EQ(left(world.first), 1);
  EXPECT_EQ(left(world.second), 1);
  EXPECT_EQ(world.left_taken(), 0);
}

TEST_F(Waiting, ACancelledRequestBetweenSlotsTakesNothing) {
  for (const uint16_t slot : {world.first_slot, world.second_slot}) {
    SCOPED_TRACE(slot);
    const Ticket ticket = stop_at(slot, true);
    EXPECT_TRUE(world.cancel(ticket));
    expect_taken_back(slot);
    // The units are there for the next.
    const store::Settled behind = next();
    EXPECT_NE(behind.ticket, ticket);
    EXPECT_EQ(behind.error, Error::none);
    EXPECT_EQ(left(world.first), 0);
    EXPECT_EQ(left(world.second), 0);
  }
  EXPECT_EQ(world.left_taken(), 0);
}

// By a reload or an override: what it took under the old limits comes back, then it asks again.
TEST_F(Waiting, ARequestMatchedAgainBetweenSlotsIsGrantedOnce) {
  for (const uint16_t slot : {world.first_slot, world.second_slot}) {
    SCOPED_TRACE(slot);
    stop_at(slot);
    EXPECT_TRUE(replace(take(3, bucket_of(7))));
    expect_taken_back(slot);
    EXPECT_EQ(next().error, Error::none);  // of seven three were left
    EXPECT_EQ(left(world.first, bucket_of(7)), 0);
    EXPECT_EQ(left(world.second, bucket_of(7)), 0);
    // Back to empty buckets of six.
    for (const std::string& actor : {world.first, world.second}) {
      auto reset = world.charge(actor, bucket_of(6), Verb::put, 0);
      reset.all = true;
      EXPECT_EQ(world.settle({reset}).error, Error::none);
    }
    EXPECT_TRUE(world.settle(take(6)).allowed);
  }
  EXPECT_EQ(world.left_taken(), 0);
}

// Matched again by the same rules: the calls under way count.
TEST_F(Waiting, ARequestMatchedByTheSameRulesContinues) {
  stop_at(world.second_slot);
  EXPECT_TRUE(replace(take(2)));
  cluster.release();
  EXPECT_EQ(next().error, Error::none);
  EXPECT_EQ(undos_of(cluster.take_calls()), 0u);
  EXPECT_EQ(left(world.first), 0);
  EXPECT_EQ(left(world.second), 0);
}

// It is not known what the slot did, so it is not asked again.
TEST_F(Waiting, ARequestWhoseAnswerIsLostFails) {
  for (const Fate fate : {Fate::lost_before, Fate::lost_after}) {
    SCOPED_TRACE(static_cast<int>(fate));
    const int64_t before = world.left_taken();
    wait(take(2));
    world.decide(world.second_slot, false, {fate, ""});
    set_left(2);
    EXPECT_EQ(next().error, Error::store);
    EXPECT_EQ(world.left_taken(), before + 2);
    EXPECT_EQ(left(world.first), 2);
    EXPECT_EQ(left(world.second), fate == Fate::lost_after ? 0 : 2);
    world.settle({world.charge(world.first, bucket_of(6), Verb::take, 2)});
    world.settle({world.charge(world.second, bucket_of(6), Verb::take, 2)});
  }
}

// Nothing was sent to the slot, so the request waits until its node is back.
TEST_F(Waiting, ARequestWaitsForAStoppedNode) {
  stop_at(world.first_slot);
  cluster.set_open(1, false);
  ASSERT_TRUE(
      world.await([&] { return world.metric("sluice_redis_connections{state=\"down\"}") == 1; }));
  expect_taken_back(world.first_slot);
  cluster.set_open(1, true);
  EXPECT_EQ(next().error, Error::none);
  EXPECT_EQ(left(world.first), 0);
  EXPECT_EQ(left(world.second), 0);
  EXPECT_EQ(world.left_taken(), 0);
}

TEST_F(Waiting, ARequestFollowsItsSlots) {
  for (const bool moves : {false, true}) {
    SCOPED_TRACE(moves);
    stop_at(world.first_slot);
    const size_t to = 1 - cluster.owner_of(world.second_slot);
    moves ? cluster.move(world.second_slot, to) : cluster.migrate(world.second_slot, to);
    cluster.release();
    EXPECT_EQ(next().error, Error::none);
    if (!moves) cluster.migrate(world.second_slot, cluster.size());
    EXPECT_EQ(left(world.first), 0);
    EXPECT_EQ(left(world.second), 0);
  }
  EXPECT_EQ(world.left_taken(), 0);
}

// Its new counter may be at other nodes, so its redirects are counted from 0.
TEST_F(Waiting, ARequestMatchedAgainFollowsItsNewSlot) {
  wait({world.charge(world.first, bucket_of(6), Verb::take, 2)});
  // So often the owner of the new slot names the other node, which names the owner each time.
  auto times_left = std::make_shared<std::atomic<int>>(static_cast<int>(redirects_most) / 2 - 3);
  cluster.decide([&world = world, times_left,
                  slots = std::array{world.first_slot, world.second_slot}](const Call& call) {
    if (!call.takes || (call.slot != slots[0] && call.slot != slots[1])) return Act{};
    if (call.slot == slots[1] && (*times_left)-- <= 0) return Act{};
    return world.names_other(call);
  });
  ASSERT_TRUE(world.await([&] { return world.redirects("moved") >= 10; }));
  EXPECT_TRUE(replace({world.charge(world.second, window_of(6, 1), Verb::take, 2)}));
  EXPECT_EQ(next().error, Error::none);
  cluster.decide({});
  EXPECT_LT(*times_left, 0);
  EXPECT_EQ(world.redirects("given_up"), 0);
  EXPECT_EQ(left(world.first), 0);
  EXPECT_EQ(left(world.second, window_of(6, 1)), 4);
}

// The node that an ASK named is not asked for another counter. The request is matched again before
// it has asked that node, as a first redirect has no pause.
TEST_F(Waiting, ARequestMatchedAgainAsksTheOwnerOfItsNewSlot) {
  wait({world.charge(world.first, bucket_of(6), Verb::take, 2)});
  cluster.decide([&world = world, slot = world.first_slot](const Call& call) {
    return call.takes && call.slot == slot ? world.names_other(call, "ASK") : Act{};
  });
  ASSERT_TRUE(world.await([&] { return world.redirects("ask") >= 1; }));
  cluster.take_calls();
  EXPECT_TRUE(replace({world.charge(world.second, window_of(6, 1), Verb::take, 2)}));
  EXPECT_EQ(next().error, Error::none);
  for (const Call& call : cluster.take_calls())
    EXPECT_TRUE(call.slot == world.first_slot || !call.asked) << call.node;
  EXPECT_EQ(left(world.second, window_of(6, 1)), 4);
}

// A waiting request that a slot refuses with an error is answered by its rules, as on one slot.
TEST_F(Waiting, ASlotThatRejectsTheCommandEndsTheWait) {
  for (const uint16_t slot : {world.first_slot, world.second_slot}) {
    SCOPED_TRACE(slot);
    wait(take(2));
    world.decide(slot, false, {Fate::error, "CLUSTERDOWN Hash slot not served"});
    set_left(2);
    EXPECT_EQ(next().error, Error::store);
    EXPECT_EQ(left(world.first), 2);
    EXPECT_EQ(left(world.second), 2);
    EXPECT_TRUE(world.settle(take(2)).allowed);
  }
  EXPECT_EQ(world.left_taken(), 0);
}

}  // namespace
}  // namespace sluice::redis::slots_waiting_test
