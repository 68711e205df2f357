// What tests of slots share: three primaries, the names of stored counters, a group that is under
// way beside the steps of its test, what a refused group takes back, and the table in memory as a
// model.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "redis/cluster_map.h"
#include "store/embedded_store.h"
#include "tests/redis/scripted_world.h"
#include "tests/support/redis_cluster.h"

namespace sluice::redis {

// Three primaries for all tests of a program, empty at the beginning of each; slots are where the
// test before has left them.
inline tests::RedisCluster& three_primaries() {
  static tests::RedisCluster cluster;
  for (size_t i = 0; i < cluster.size(); ++i) cluster.node(i).client()({"FLUSHALL"});
  load_undo(cluster);
  return cluster;
}

inline Options settling(const tests::RedisCluster& cluster) {
  Options options = ClusterWorld::options_for(cluster);
  options.settles_across_slots = true;
  return options;
}

inline std::string stored_name(const std::string& actor) {
  std::string name = "sluice:";
  append_tag(name, actor);
  return name + "native:rule:" + actor;
}

// Its batch is for StoreWorld::start and go_on.
struct GroupUnderWay {
  explicit GroupUnderWay(std::vector<request::Charge> its_charges,
                         base::Time answer_by = {INT64_MAX})
      : groups{{.charge_count = static_cast<uint32_t>(its_charges.size()), .answer_by = answer_by}},
        charges(std::move(its_charges)),
        decisions(charges.size()),
        batch{groups, charges, decisions} {
    for (size_t k = 0; k < charges.size(); ++k)
      charges[k].decision_first = static_cast<uint32_t>(k);
  }
  GroupUnderWay(const GroupUnderWay&) = delete;
  GroupUnderWay& operator=(const GroupUnderWay&) = delete;

  std::vector<request::Group> groups;
  std::vector<request::Charge> charges;
  std::vector<limit::Decision> decisions;
  StoreWorld::UnderWay batch;
};

inline const limit::Limit two_a_day{limit::Algorithm::fixed_window, 2, base::seconds(86'400), 0};

// The second actor has two units, so three are refused there and taken back at the first.
inline request::Group refused(ScriptedWorld& world) {
  const request::Group group = world.settle(world.both(3, many_an_hour, two_a_day));
  EXPECT_EQ(group.error, request::Error::none);
  EXPECT_FALSE(group.allowed);
  return group;
}

// So many parts are taken back.
inline void expect_undos(ScriptedWorld& world, size_t parts) {
  size_t undos = 0;
  EXPECT_TRUE(world.await([&] {
    undos += undos_of(world.cluster.take_calls());
    return undos >= parts;
  }));
  EXPECT_EQ(undos, parts);
}

// Two to five of `count` actors, in any order.
inline std::vector<size_t> choose(size_t count, std::mt19937& dice) {
  std::vector<size_t> chosen(count);
  std::iota(chosen.begin(), chosen.end(), size_t{0});
  std::ranges::shuffle(chosen, dice);
  chosen.resize(2 + dice() % 4);
  return chosen;
}

// Settles one group of charges of one limit each, which must be decided as the table does.
inline request::Group settle_as(store::EmbeddedStore& table, ScriptedWorld& world,
                                std::vector<request::Charge> charges) {
  for (size_t k = 0; k < charges.size(); ++k) charges[k].decision_first = static_cast<uint32_t>(k);
  request::Group expected{.charge_count = static_cast<uint32_t>(charges.size())};
  auto its = charges;
  std::vector<limit::Decision> decisions(charges.size());
  table.apply({{&expected, 1}, its, decisions}, world.clock.now());
  const request::Group group = world.settle(charges);
  EXPECT_EQ(group.error, request::Error::none);
  EXPECT_EQ(group.allowed, expected.allowed);
  for (size_t k = 0; k < charges.size(); ++k) {
    EXPECT_EQ(world.decisions[k].allowed, decisions[k].allowed) << k;
    EXPECT_EQ(world.decisions[k].remaining, decisions[k].remaining) << k;
  }
  return group;
}

}  // namespace sluice::redis
