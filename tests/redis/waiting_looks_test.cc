// Another server may put units back without notice. So the store asks Redis again for each waiting
// request every 100 ms; if many wait at a worker less often, 20,000 times a second in all. The test
// sets the time, and goes on when Redis has answered all calls, so speed does not matter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/redis/cluster_world.h"

namespace sluice::redis::waiting_looks_test {
namespace {

constexpr int64_t step_ms = 5;

class Waiting {
 public:
  explicit Waiting(size_t count) {
    world_.told = world_.clock.now();
    // In parts: calls carry their script until Redis has answered one, and may take
    // bounds::redis_bytes_max together.
    constexpr size_t part = 500;
    for (size_t first = 0; first < count; first += part)
      begin(first, std::min(count, first + part));
  }

  // How often Redis is asked for them within that time.
  size_t looks(int64_t ms) {
    const uint64_t before = calls();
    size_t others = 0;
    for (int64_t at = 0; at < ms; at += step_ms, ++others) {
      world_.told->us += step_ms * 1'000;
      world_.turn();
      // Calls are answered in order, so this is the last answer.
      std::vector<request::Group> groups{{.charge_count = 1}};
      std::vector<request::Charge> charges{
          world_.charge("other", unit_, request::Verb::would_take)};
      ask(groups, charges);
      EXPECT_TRUE(groups[0].allowed);
    }
    return calls() - before - others;
  }

 private:
  // Each empties its bucket, and waits for it.
  void begin(size_t from, size_t to) {
    std::vector<request::Group> groups;
    std::vector<request::Charge> charges;
    for (size_t i = from; i < to; ++i)
      for (const bool waits : {false, true}) {
        groups.push_back({.charge_first = static_cast<uint32_t>(charges.size()),
                          .charge_count = 1,
                          .may_wait = waits,
                          .ticket = {static_cast<uint32_t>(i), 1}});
        charges.push_back(world_.charge(std::to_string(i), unit_));
      }
    ask(groups, charges);
    for (size_t i = 0; i < groups.size(); ++i)
      ASSERT_EQ(groups[i].parked, i % 2 == 1) << request::name_of(groups[i].error);
  }
  void ask(std::vector<request::Group>& groups, std::vector<request::Charge>& charges) {
    EXPECT_TRUE(world_.ask(groups, charges, world_.decisions, *world_.told));
  }
  uint64_t calls() { return static_cast<uint64_t>(world_.metric("sluice_redis_calls_total")); }

  const limit::Limit unit_{limit::Algorithm::fixed_bucket, 1, {}, 1};
  tests::RedisServer redis_;
  ClusterWorld world_{StoreWorld::options_for(redis_)};
};

void expect_looks(size_t waiting, size_t each) {
  SCOPED_TRACE(waiting);
  Waiting requests(waiting);
  requests.looks(200);  // all have the same pause from here on
  EXPECT_EQ(requests.looks(400), waiting * each);
}

TEST(RedisWaitingLooks, HappenTenTimesASecondForEachRequest) {
  expect_looks(1, 4);
  expect_looks(1'000, 4);
}

TEST(RedisWaitingLooks, AreBoundedBy20000ASecondForManyRequests) {
  expect_looks(2'000, 4);
  expect_looks(4'000, 2);
}

}  // namespace
}  // namespace sluice::redis::waiting_looks_test
