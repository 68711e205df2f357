// Groups whose counters are in several slots of a real Redis Cluster or of scripted nodes: what is
// granted, and what remains in the counters when a slot refuses, fails or does not answer.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "redis/cluster_map.h"
#include "redis/receipts.h"
#include "redis/scripts.h"
#include "tests/redis/slots_world.h"

namespace sluice::redis::slots_across_test {
namespace {

using limit::Algorithm;
using limit::Limit;
using request::Error;
using request::Group;
using request::KeyEncoding;
using request::Verb;

// Two actors of different primaries; the first one's slot is settled first.
struct Two {
  std::string first, second;
};
Two two_of(tests::RedisCluster& cluster, int number) {
  std::vector<std::string> by_node(cluster.size());
  for (int i = 0; by_node[0].empty() || by_node[2].empty(); ++i) {
    const std::string name = "actor" + std::to_string(number) + "." + std::to_string(i);
    by_node[cluster.owner_of(slot_of_actor(name))] = name;
  }
  Two two{by_node[0], by_node[2]};
  if (slot_of_actor(two.first) > slot_of_actor(two.second)) std::swap(two.first, two.second);
  return two;
}

constexpr int64_t large = 1'000;

Limit limit_of(Algorithm algorithm, int64_t quota) {
  const base::Duration day = base::seconds(86'400);
  return {algorithm, quota, day, algorithm == Algorithm::concurrency ? day.us : quota};
}

int64_t left_in(ClusterWorld& world, const std::string& key, const Limit& limit) {
  EXPECT_EQ(world.settle({world.charge(key, limit, Verb::peek, 0)}).error, Error::none);
  return world.decisions[0].remaining;
}

// Takes two units of each counter, until the second take is refused: `narrow` has three.
void expect_taken_back(ClusterWorld& world, const std::string& roomy, const std::string& narrow,
                       Algorithm algorithm) {
  const Limit wide = limit_of(algorithm, large), small = limit_of(algorithm, 3);
  const auto take = [&](int64_t cost) {
    return world.settle({world.charge(roomy, wide, Verb::take, cost),
                         world.charge(narrow, small, Verb::take, cost)});
  };
  const Group granted = take(2);
  EXPECT_EQ(granted.error, Error::none);
  EXPECT_TRUE(granted.allowed);
  EXPECT_EQ(world.decisions[0].remaining, large - 2);
  EXPECT_EQ(world.decisions[1].remaining, 1);
  const Group refused = take(2);
  EXPECT_EQ(refused.error, Error::none);
  EXPECT_FALSE(refused.allowed);
  EXPECT_TRUE(world.decisions[0].allowed);
  EXPECT_EQ(world.decisions[0].remaining, large - 2);
  EXPECT_FALSE(world.decisions[1].allowed);
  EXPECT_EQ(world.decisions[1].remaining, 1);
  EXPECT_EQ(left_in(world, roomy, wide), large - 2);
  EXPECT_EQ(left_in(world, narrow, small), 1);
  EXPECT_TRUE(take(1).allowed);
  EXPECT_EQ(left_in(world, roomy, wide), large - 3);
  EXPECT_EQ(left_in(world, narrow, small), 0);
}

TEST(AcrossSlots, ARefusalReturnsTheUnitsOfEarlierSlots) {
  tests::RedisCluster& cluster = three_primaries();
  ClusterWorld world(settling(cluster));
  int number = 0;
  for (const Algorithm algorithm :
       {Algorithm::fixed_window, Algorithm::aligned_window, Algorithm::token_bucket,
        Algorithm::sliding_window, Algorithm::sliding_log, Algorithm::fixed_bucket,
        Algorithm::concurrency}) {
    SCOPED_TRACE(static_cast<int>(algorithm));
    const Two a = two_of(cluster, ++number), b = two_of(cluster, ++number);
    expect_taken_back(world, a.first, a.second, algorithm);
    expect_taken_back(world, b.second, b.first, algorithm);
  }
  EXPECT_EQ(world.metric("sluice_redis_left_taken_units_total"), 0);
  EXPECT_EQ(world.metric("sluice_redis_apart_total"), 0);
  EXPECT_GT(world.metric("sluice_redis_across_slots_total"), 0);
}

// A counter that was fresh before the refused group is fresh afterwards, so its key is gone.
TEST(AcrossSlots, ARefusalMakesAFreshCounterFreshAgain) {
  tests::RedisCluster& cluster = three_primaries();
  ClusterWorld world(settling(cluster));
  const Two two = two_of(cluster, 1);
  for (const Algorithm algorithm :
       {Algorithm::fixed_window, Algorithm::token_bucket, Algorithm::sliding_window,
        Algorithm::sliding_log, Algorithm::fixed_bucket, Algorithm::concurrency}) {
    SCOPED_TRACE(static_cast<int>(algorithm));
    EXPECT_FALSE(world
                     .settle({world.charge(two.first, limit_of(algorithm, 5)),
                              world.charge(two.second, limit_of(algorithm, 1), Verb::take, 2)})
                     .allowed);
    EXPECT_EQ(left_in(world, two.first, limit_of(algorithm, 5)), 5);
    for (size_t i = 0; i < cluster.size(); ++i)
      EXPECT_EQ(cluster.node(i).client()({"DBSIZE"}).number, 0) << i;
  }
}

TEST(AcrossSlots, ARefusalReturnsTheUnitsOfSharedCounters) {
  tests::RedisCluster& cluster = three_primaries();
  ClusterWorld world(settling(cluster));
  const Limit minute{Algorithm::fixed_window, 5, base::seconds(86'400), 0};
  const Limit counted{Algorithm::aligned_window, 5, base::seconds(86'400), 0};
  const Limit none = limit_of(Algorithm::fixed_window, 1);
  // Of 12 keys some are settled before the one that refuses, and some would be after it.
  for (int i = 0; i < 12; ++i) {
    const std::string key = "k" + std::to_string(i);
    const auto divvy = [&](Verb verb, int64_t cost) {
      return world.charge(key, minute, verb, cost, "divvy:", KeyEncoding::remaining_text);
    };
    const auto envoy = [&](Verb verb, int64_t cost) {
      return world.charge(key, counted, verb, cost, "d_", KeyEncoding::window_text);
    };
    EXPECT_TRUE(world.settle({divvy(Verb::take, 1), envoy(Verb::take, 1)}).allowed);
    const Group group = world.settle(
        {divvy(Verb::take, 2), envoy(Verb::take, 2), world.charge(key + "n", none, Verb::take, 2)});
    EXPECT_EQ(group.error, Error::none);
    EXPECT_FALSE(group.allowed);
    EXPECT_TRUE(world.settle({divvy(Verb::peek, 0), envoy(Verb::peek, 0)}).allowed);
    EXPECT_EQ(world.decisions[0].remaining, 4);
    EXPECT_EQ(world.decisions[1].remaining, 4);
  }
}

TEST(AcrossSlots, PutsResetsAndPeeksGoSlotBySlot) {
  tests::RedisCluster& cluster = three_primaries();
  ClusterWorld world(settling(cluster));
  const Two two = two_of(cluster, 1);
  const Limit bucket = limit_of(Algorithm::fixed_bucket, 10);
  const auto both = [&](Verb verb, int64_t cost, bool all = false) {
    std::vector<request::Charge> charges = {world.charge(two.first, bucket, verb, cost),
                                            world.charge(two.second, bucket, verb, cost)};
    for (request::Charge& charge : charges) charge.all = all;
    const Group group = world.settle(charges);
    EXPECT_EQ(group.error, Error::none);
    EXPECT_TRUE(group.allowed);
    EXPECT_EQ(world.decisions[0].remaining, world.decisions[1].remaining);
    return world.decisions[0].remaining;
  };
  EXPECT_EQ(both(Verb::take, 6), 4);
  EXPECT_EQ(both(Verb::peek, 0), 4);
  EXPECT_EQ(both(Verb::put, 2), 6);
  EXPECT_EQ(both(Verb::peek, 0), 6);
  EXPECT_EQ(both(Verb::put, 0, true), 10);
  EXPECT_EQ(both(Verb::peek, 0), 10);
}

// The second slot's node is silent: what it did is not known, so its units count as taken; the
// first slot's come back.
TEST(AcrossSlots, DoesNotReturnTheUnitsOfALateAnswer) {
  tests::RedisCluster& cluster = three_primaries();
  Options options = settling(cluster);
  options.deadline = base::milliseconds(300);
  ClusterWorld world(options);
  const Two two = two_of(cluster, 1);
  const auto deadline = tests::soon();
  while (world.settle({world.charge(two.first, many_an_hour, Verb::peek, 0),
                       world.charge(two.second, many_an_hour, Verb::peek, 0)})
                 .error != Error::none &&
         std::chrono::steady_clock::now() < deadline)
    world.turn();
  tests::RedisServer& silent = cluster.node(cluster.owner_of(slot_of_actor(two.second)));
  silent.client()({"CLIENT", "PAUSE", "700", "ALL"});
  const Group group = world.settle({world.charge(two.first, many_an_hour, Verb::take, 3),
                                    world.charge(two.second, many_an_hour, Verb::take, 3)});
  EXPECT_EQ(group.error, Error::deadline);
  EXPECT_EQ(world.metric("sluice_redis_left_taken_units_total"), 3);
  EXPECT_EQ(world.used(two.first), 0);
  const int64_t left = world.used(two.second);  // it may have been taken, once
  EXPECT_TRUE(left == 0 || left == 3) << left;
}

// The second slot's node refuses the command, so nothing was done there.
TEST(AcrossSlots, AFailureReturnsTheUnitsOfEarlierSlots) {
  tests::RedisCluster& cluster = three_primaries();
  ClusterWorld world(settling(cluster));
  const Two two = two_of(cluster, 1);
  std::string name = "sluice:";
  append_tag(name, two.second);
  name += "native:rule:" + two.second;
  cluster.at_owner({"SET", name, "not a counter"}, name);
  const Group group = world.settle({world.charge(two.first), world.charge(two.second)});
  EXPECT_EQ(group.error, Error::wrong_type);
  EXPECT_EQ(world.used(two.first), 0);
  EXPECT_EQ(world.metric("sluice_redis_left_taken_units_total"), 0);
}

TEST(AcrossSlots, GroupsOfSeveralSlotsFailWithoutTheOption) {
  tests::RedisCluster& cluster = three_primaries();
  ClusterWorld world(ClusterWorld::options_for(cluster));
  const Two two = two_of(cluster, 1);
  EXPECT_EQ(world.settle({world.charge(two.first), world.charge(two.second)}).error, Error::store);
  EXPECT_EQ(world.metric("sluice_redis_apart_total"), 1);
}

// A probe of a group that a later slot refuses reports what the counters have: it subtracts
// nothing.
TEST(AcrossSlots, ProbesOfARefusedGroupReportTheUnits) {
  tests::ScriptedCluster cluster(2);
  ScriptedWorld world(cluster);
  const Limit wide = limit_of(Algorithm::fixed_window, 10),
              narrow = limit_of(Algorithm::fixed_window, 2);
  const Group group = world.settle({world.charge(world.first, wide, Verb::would_take, 3),
                                    world.charge(world.second, narrow, Verb::would_take, 3)});
  EXPECT_EQ(group.error, Error::none);
  EXPECT_FALSE(group.allowed);
  EXPECT_EQ(world.decisions[0].remaining, 10);
  EXPECT_EQ(world.decisions[1].remaining, 2);
  EXPECT_EQ(undos_of(cluster.take_calls()), 0u);
}

// Charges that count stay although their group is refused. Charges that take are taken back. The
// table in memory is the model.
TEST(AcrossSlots, CountingChargesStayThoughTheirGroupIsRefused) {
  tests::ScriptedCluster cluster(3);
  ScriptedWorld world(cluster);
  store::EmbeddedStore model(0, base::Hash(1), world.spaces);
  const auto actors = names(8);
  constexpr base::Duration long_window = base::seconds(40'000'000);
  const auto charge_of = [&](size_t k, int64_t cost) {
    const auto quota = static_cast<int64_t>(20 + 10 * k);
    if (k % 3 == 0)
      return world.charge(actors[k], {Algorithm::fixed_window, quota, long_window, 0}, Verb::take,
                          cost);
    const Limit counted{Algorithm::aligned_window, quota, long_window, 0};
    if (k % 3 == 1) return world.charge(actors[k], counted, Verb::count, cost);
    return world.charge(actors[k], counted, Verb::count, cost, "d_", KeyEncoding::window_text);
  };
  std::mt19937 dice(41);
  int refused = 0;
  for (int i = 0; i < 150; ++i) {
    SCOPED_TRACE(i);
    std::vector<request::Charge> charges;
    for (const size_t k : choose(actors.size(), dice))
      charges.push_back(charge_of(k, static_cast<int64_t>(1 + dice() % 3)));
    refused += settle_as(model, world, charges).allowed ? 0 : 1;
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(refused, 30);
  EXPECT_EQ(world.metric("sluice_redis_left_taken_units_total"), 0);
}

// A log that had to merge the time of a take into a later one before it is taken back.
TEST(AcrossSlots, TakesBackAChargeThatALogHasMerged) {
  tests::RedisServer redis;
  tests::RedisClient client = redis.client();
  request::Spaces spaces;
  const request::Space* const space = spaces.intern("native:rule:", "");
  constexpr int64_t start_us = 1'800'000'000'000'000, hour_us = 3'600'000'000;
  const Limit log{Algorithm::sliding_log, 1'000, {hour_us}, 0};
  Scripts scripts(Scripts::Time::told);
  LimitTexts texts;
  std::mt19937 dice(42);
  const auto up_to = [&](int64_t most_us) { return static_cast<int64_t>(dice()) % most_us; };
  const auto call = [&](Verb verb, int64_t cost, int64_t now_us, std::string* receipt) {
    request::Charge charge;
    charge.space = space;
    charge.key = "k";
    charge.verb = verb;
    charge.cost = cost;
    charge.limits = {&log, 1};
    charge.limits_id = spaces.intern_limits({&log, 1});
    const ScriptCall what{.charges = {&charge, 1}, .receipts = true, .told = {now_us}};
    std::string bytes;
    if (receipt != nullptr && !receipt->empty()) {
      std::string by_hash;
      append_undo(by_hash, what, *receipt, scripts.undo(), texts);
      append_by_text(bytes, by_hash, scripts.undo());
      return undo_answer(client.raw(bytes).text);
    }
    Weight weight;
    const Script& script = script_of(what, scripts, texts, weight);
    append_call(bytes, what, script, false, scripts, texts);
    const std::string text = client.raw(bytes).text;
    std::string_view answer = text;
    const std::string_view its = cut_receipt(answer);
    if (receipt != nullptr) *receipt = its;
    limit::Decision decision;
    bool allowed = false;
    EXPECT_EQ(read_answer(answer, {&charge, 1}, {&decision, 1}, allowed), ScriptReply::decided);
    return std::optional<uint64_t>(static_cast<uint64_t>(decision.remaining));
  };
  for (int round = 0; round < 8; ++round) {
    SCOPED_TRACE(round);
    client({"FLUSHALL"});
    int64_t now_us = start_us + up_to(hour_us);
    uint64_t others = 0;
    std::string receipt;
    const int taken_at = static_cast<int>(dice() % 60);
    for (int i = 0; i < 100; ++i, now_us += up_to(hour_us / 120)) {
      if (i == taken_at) call(Verb::take, 7, now_us, &receipt);
      call(Verb::take, 3, now_us, nullptr);
      others += 3;
    }
    EXPECT_EQ(call(Verb::peek, 0, now_us, nullptr), 1'000 - others - 7);
    EXPECT_EQ(call(Verb::take, 7, now_us, &receipt), 0u);
    EXPECT_EQ(call(Verb::peek, 0, now_us, nullptr), 1'000 - others);
  }
}

// Several servers whose requests meet at the same counters. In the end each counter lacks exactly
// the granted units, and no more were granted than its limit.
TEST(AcrossSlots, SeveralServersNeverGrantMoreThanEachLimit) {
  tests::RedisCluster& cluster = three_primaries();
  constexpr unsigned servers = 3;
  constexpr int rounds = 150;
  const std::vector<Algorithm> algorithms = {Algorithm::fixed_window, Algorithm::sliding_log,
                                             Algorithm::fixed_bucket};
  const auto actors = names(9);
  const auto limit_for = [&](size_t actor) {
    return limit_of(algorithms[actor % 3], 20 + 10 * static_cast<int64_t>(actor));
  };
  std::vector<std::atomic<int64_t>> granted(actors.size());
  std::atomic<int64_t> errors{0}, left_taken{0}, refused{0};
  std::vector<std::thread> threads;
  for (unsigned server = 0; server < servers; ++server)
    threads.emplace_back([&, server] {
      ClusterWorld world(settling(cluster));
      std::mt19937 dice(server + 1);
      for (int i = 0; i < rounds; ++i) {
        std::vector<size_t> chosen(actors.size());
        for (size_t k = 0; k < chosen.size(); ++k) chosen[k] = k;
        std::shuffle(chosen.begin(), chosen.end(), dice);
        chosen.resize(2 + dice() % 3);
        const auto cost = static_cast<int64_t>(1 + dice() % 3);
        std::vector<request::Charge> charges;
        for (const size_t k : chosen)
          charges.push_back(world.charge(actors[k], limit_for(k), Verb::take, cost));
        const Group group = world.settle(charges);
        errors += group.error != Error::none;
        refused += group.error == Error::none && !group.allowed;
        for (const size_t k : chosen)
          if (group.error == Error::none && group.allowed) granted[k] += cost;
      }
      left_taken += static_cast<int64_t>(world.metric("sluice_redis_left_taken_units_total"));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(left_taken, 0);
  EXPECT_GT(refused, 0);
  ClusterWorld world(settling(cluster));
  for (size_t k = 0; k < actors.size(); ++k) {
    EXPECT_LE(granted[k], limit_for(k).quota) << k;
    EXPECT_EQ(limit_for(k).quota - left_in(world, actors[k], limit_for(k)), granted[k]) << k;
  }
}

}  // namespace
}  // namespace sluice::redis::slots_across_test
