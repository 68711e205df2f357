// A store that finds its primary by asking real sentinels.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <map>
#include <string>

#include "tests/redis/cluster_world.h"
#include "tests/support/redis_sentinels.h"

namespace sluice::redis::sentinel_test {
namespace {

Options options_for(tests::RedisSentinels& all) {
  Options options;
  options.nodes.clear();
  options.sentinel.master = tests::RedisSentinels::master;
  for (size_t i = 0; i < 3; ++i)
    options.sentinel.nodes.push_back({"127.0.0.1", all.sentinel(i).port()});
  options.deadline = base::milliseconds(500);
  return options;
}

// Takes one unit of each actor until no take has an error. Keys have the names of a single Redis.
void await_decision(ClusterWorld& world, const std::vector<std::string>& all) {
  const auto deadline = tests::soon();
  while (world.take_of(all) > 0 && std::chrono::steady_clock::now() < deadline) world.turn();
}

TEST(Sentinel, FollowsAPromotionAndLeavesTheOldPrimary) {
  tests::RedisSentinels all;
  ClusterWorld world(options_for(all));
  const auto actors = names(5);
  await_decision(world, actors);
  EXPECT_EQ(all.node(0).client()({"EXISTS", "sluice:native:rule:actor0"}).number, 1);
  for (int round = 0; round < 20; ++round) world.take_of(actors);
  // All that was granted has reached the replicas, so nothing is forgotten.
  auto client = all.node(0).client();
  client({"SET", "marker", "1"});
  ASSERT_EQ(client({"WAIT", "2", "20000"}).number, 2);
  const auto before = world.granted;
  const size_t now = all.fail_over();
  EXPECT_NE(now, 0u);
  // Until the store learns of the promotion it may still use the old primary, as long as that is
  // not demoted.
  auto promoted = all.node(now).client();
  const auto value = [&] { return promoted({"GET", "sluice:native:rule:actor0"}).text; };
  const std::string old_value = value();
  EXPECT_TRUE(old_value.ends_with(" " + std::to_string(before.at("actor0")))) << old_value;
  const auto deadline = tests::soon();
  while (value() == old_value && std::chrono::steady_clock::now() < deadline) world.take_of(actors);
  await_decision(world, actors);
  const auto heard = world.granted;
  std::map<std::string, int64_t> used;
  for (const std::string& name : actors) used[name] = world.used(name);
  std::cout << "promotion by Sentinel: forgotten " << heard.at("actor0") - used.at("actor0")
            << " of " << heard.at("actor0") << " grants of each actor\n";
  auto left = all.node(0).client();
  const auto at_old = [&] {
    const std::string all_stats = left({"INFO", "commandstats"}).text;
    const size_t at = all_stats.find("cmdstat_evalsha:calls=");
    return all_stats.substr(at, all_stats.find(',', at) - at);
  };
  const auto old_then = at_old();
  for (int round = 0; round < 20; ++round) EXPECT_EQ(world.take_of(actors), 0u);
  for (const std::string& name : actors) {
    EXPECT_EQ(world.used(name), used[name] + 20);  // all of them at the new one
    // A take that had an error may have been charged, once.
    EXPECT_LE(world.used(name), world.granted[name] + world.unknown[name]);
  }
  // The old primary was not asked any more.
  EXPECT_EQ(at_old(), old_then);
  EXPECT_EQ(world.metric("sluice_redis_primaries"), 1);
}

TEST(Sentinel, APrimaryThatDiesIsReplaced) {
  tests::RedisSentinels all;
  ClusterWorld world(options_for(all));
  const auto actors = names(3);
  await_decision(world, actors);
  all.node(0).signal(SIGKILL);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_GT(world.take_of(actors), 0u);
  await_decision(world, actors);
  const auto took = std::chrono::steady_clock::now() - began;
  RecordProperty(
      "failed_ms",
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
  EXPECT_NE(all.await_other_than(0), 0u);
  for (const auto& [name, units] : world.granted)
    EXPECT_LE(world.used(name), units + world.unknown[name]);
}

TEST(Sentinel, AsksOtherSentinelsIfOneIsStopped) {
  tests::RedisSentinels all;
  all.sentinel(0).stop();
  ClusterWorld world(options_for(all));
  await_decision(world, names(2));
  EXPECT_EQ(world.compare(), "");
}

}  // namespace
}  // namespace sluice::redis::sentinel_test
