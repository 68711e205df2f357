// A request that waits for a counter in Redis keeps the limits that it came with: the batch that
// brought them no longer exists when the store asks Redis again.
#include <gtest/gtest.h>

#include <vector>

#include "tests/redis/cluster_world.h"
#include "tests/support/comes.h"

namespace sluice::redis::waiting_limits_test {
namespace {

constexpr request::Ticket ticket{7, 1};

limit::Limit bucket_of(int64_t quota) {
  return {limit::Algorithm::fixed_bucket, quota, {}, quota};
}

TEST(RedisWaitingLimits, AreThoseOfItsOwnRequest) {
  const tests::RedisServer redis;
  ClusterWorld world(StoreWorld::options_for(redis));
  const auto three = [&](request::Verb verb, int64_t cost) {
    return world.charge("k", bucket_of(3), verb, cost);
  };
  ASSERT_TRUE(world.settle({three(request::Verb::take, 3)}).allowed);
  std::vector<limit::Limit> limits{bucket_of(3)};  // of the batch
  std::vector<request::Charge> charges{three(request::Verb::take, 2)};
  charges[0].limits = limits;
  std::vector<request::Group> groups{{.charge_count = 1, .may_wait = true, .ticket = ticket}};
  std::vector<limit::Decision> decisions;
  ASSERT_TRUE(world.ask(groups, charges, decisions, world.clock.now()));
  ASSERT_TRUE(groups[0].parked);
  limits[0] = bucket_of(1'000);  // the next batch uses the same memory

  world.settle({three(request::Verb::put, 1)});
  for (int i = 0; i < 20; ++i) {  // when these are answered, the store has asked again
    world.turn();
    world.settle({three(request::Verb::peek, 0)});
  }
  EXPECT_TRUE(world.settled().empty()) << "2 units were granted of the one that is there";
  world.settle({three(request::Verb::put, 1)});
  std::vector<store::Settled> settled;
  ASSERT_TRUE(tests::comes([&] {
    world.turn();
    settled = world.settled();
    return !settled.empty();
  }));
  EXPECT_EQ(settled[0].ticket, ticket);
  EXPECT_EQ(settled[0].decisions.at(0).limit, 3);
  EXPECT_EQ(world.settle({three(request::Verb::peek, 0)}).error, request::Error::none);
  EXPECT_EQ(world.decisions[0].remaining, 0);
}

// Debt is paid first, and what waits goes on waiting.
TEST(RedisWaitingLimits, AChargeDelaysWhatWaits) {
  const tests::RedisServer redis;
  ClusterWorld world(StoreWorld::options_for(redis));
  const auto three = [&](request::Verb verb, int64_t cost) {
    return world.charge("k", bucket_of(3), verb, cost);
  };
  ASSERT_TRUE(world.settle({three(request::Verb::take, 3)}).allowed);
  std::vector<request::Charge> charges{three(request::Verb::take, 2)};
  std::vector<request::Group> groups{{.charge_count = 1, .may_wait = true, .ticket = ticket}};
  std::vector<limit::Decision> decisions;
  ASSERT_TRUE(world.ask(groups, charges, decisions, world.clock.now()));
  ASSERT_TRUE(groups[0].parked);
  EXPECT_TRUE(world.settle({three(request::Verb::charge, 2)}).allowed);
  EXPECT_EQ(world.decisions[0].remaining, -2);
  world.settle({three(request::Verb::put, 3)});
  for (int i = 0; i < 20; ++i) {  // when these are answered, the store has asked again
    world.turn();
    world.settle({three(request::Verb::peek, 0)});
  }
  EXPECT_TRUE(world.settled().empty());
  world.settle({three(request::Verb::put, 1)});
  std::vector<store::Settled> settled;
  ASSERT_TRUE(tests::comes([&] {
    world.turn();
    settled = world.settled();
    return !settled.empty();
  }));
  EXPECT_EQ(settled[0].error, request::Error::none);
  EXPECT_EQ(settled[0].decisions.at(0).remaining, 0);
}

}  // namespace
}  // namespace sluice::redis::waiting_limits_test
