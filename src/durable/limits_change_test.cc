// Counters whose limits change while they are used, in the table in memory and in a durable store
// that is stopped and started meanwhile: the grants never exceed what the largest limit of each
// kind would have granted alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "durable/durable_life_test.h"
#include "testing/bounds_check.h"
#include "testing/grants_model.h"
#include "tests/support/dice.h"

namespace sluice::durable {
namespace {

using namespace store::tests;
using limit::Algorithm;
using limit::Limit;
using request::Verb;
using namespace tests;
using base::Time;
using limit::bounds_check::counted;
using limit::bounds_check::limit_of;
using sluice::tests::Dice;

constexpr int64_t hour = 3'600 * second;
// A store that is stopped and started, if it is durable.
class Subject {
 public:
  explicit Subject(bool durable) {
    if (durable)
      disk_ = std::make_unique<Disk>();
    else
      world_ = std::make_unique<World>();
    restart();
  }
  void restart() {
    if (!disk_) return;
    if (life_) life_->until_committed();
    life_.reset();
    life_.emplace(*disk_, durable::Durability::always);
  }
  bool ask(const std::vector<Limit>& limits, int64_t cost, Time now, Verb verb = Verb::take) {
    const Part part{"k", cost, limits};
    if (world_) {
      const bool allowed = world_->ask({part}, now, verb).allowed();
      // The sweep forgets counters that equal fresh ones.
      world_->store.sweep(now, 2 * world_->store.chains() + store::EmbeddedStore::stripes);
      return allowed;
    }
    return life_->ask({part}, now, verb).allowed();
  }
  int64_t take_all(const std::vector<Limit>& limits, Time now) {
    int64_t taken = 0;
    while (taken < 1'000 && ask(limits, 1, now)) ++taken;
    return taken;
  }

 private:
  std::unique_ptr<World> world_;
  std::unique_ptr<Disk> disk_;
  std::optional<Life> life_;
};

class LimitsChange : public testing::TestWithParam<bool> {
 protected:
  Subject subject{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Stores, LimitsChange, testing::Bool(), [](const auto& kind) {
  return std::string(kind.param ? "durable" : "memory");
});

constexpr Time noon{500'000 * hour};
constexpr Time after(int64_t us) {
  return {noon.us + us};
}

TEST_P(LimitsChange, LimitsThatSwapPlacesKeepTheirStates) {
  const Limit fast = limit_of(Algorithm::fixed_window, 50, second),
              slow = limit_of(Algorithm::fixed_window, 100, hour);
  int64_t granted = 0;
  for (int i = 0; i < 8; ++i) {
    granted += subject.take_all(i % 2 == 0 ? std::vector{fast, slow} : std::vector{slow, fast},
                                after(i * 2 * second));
    subject.restart();
  }
  EXPECT_EQ(granted, 100);
}

TEST_P(LimitsChange, AnOverrideThatEndsDoesNotRefillTheCounter) {
  for (const bool buckets : {false, true}) {
    const Algorithm algorithm = buckets ? Algorithm::token_bucket : Algorithm::fixed_window;
    const std::vector rule{limit_of(algorithm, 50, second), limit_of(algorithm, 100, hour)};
    const std::vector override_{limit_of(algorithm, 150, hour)};
    const int64_t start = buckets ? 3 * hour : 0;
    int64_t granted = subject.take_all(rule, after(start));
    granted += subject.take_all(rule, after(start + 2 * second));
    for (int round = 0; round < 3; ++round) {
      granted += subject.take_all(override_, after(start + 3 * second));
      subject.restart();
      granted += subject.take_all(rule, after(start + 3 * second));
      subject.restart();
    }
    EXPECT_EQ(granted, 150);
  }
}

TEST_P(LimitsChange, ALimitLoweredAndRaisedDoesNotRefillTheCounter) {
  for (size_t i = 0; i < std::size(counted); ++i) {
    const std::vector rule{limit_of(counted[i], 100, hour)};
    const std::vector override_{limit_of(counted[i], 150, hour)};
    const Time now = after(static_cast<int64_t>(i) * 10 * hour);
    int64_t granted = 0;
    for (int round = 0; round < 5; ++round) {
      granted += subject.take_all(override_, now);
      granted += subject.take_all(rule, now);
      if (round == 2) subject.restart();
    }
    EXPECT_EQ(granted, 150) << name_of(counted[i]);
    subject.ask(rule, 150, now, Verb::put);
  }
}

// Rules change, overrides are set and removed, and the server restarts.
TEST_P(LimitsChange, NeverGrantsMoreThanTheLargestLimitOfEachKind) {
  Dice dice(GetParam() ? 51 : 50);
  size_t grants = 0, refusals = 0;
  const size_t rounds = GetParam() ? 60 : 300;
  for (size_t round = 0; round < rounds; ++round) {
    Subject store(GetParam());
    const auto lists = limit::any_lists(dice, second);
    limit::GrantsModel naive(lists);
    int64_t now = 0;
    std::string told;
    for (int step = 0; step < 60; ++step) {
      if (dice(3) > 0) now += dice(second);
      const auto& list = lists[dice(lists.size())];
      const int64_t cost = 1 + dice(int64_t{3});
      for (const Limit& limit : list)
        told += std::string(name_of(limit.algorithm)) + " " + std::to_string(limit.quota) + "/" +
                std::to_string(limit.window.us) + "/" + std::to_string(limit.burst) + " ";
      told += std::to_string(cost) + "@" + std::to_string(now) + "\n";
      if (dice(12) == 0) store.restart();
      if (store.ask(list, cost, after(now))) {
        ++grants;
        ASSERT_EQ(naive.grant(list, cost, after(now)), "") << told;
      } else {
        ++refusals;
      }
    }
  }
  EXPECT_GT(grants, rounds * 10);
  EXPECT_GT(refusals, rounds * 5);
}

// A counter works on although there is no memory for the state of a limit that is left out.
TEST(LimitsChangeInFullMemory, ForgetsALeftOutLimitWithoutMemoryForIt) {
  World world;
  const Limit fast = limit_of(Algorithm::fixed_window, 50, second),
              slow = limit_of(Algorithm::fixed_window, 100, hour);
  ASSERT_TRUE(world.ask({{"k", 10, {fast, slow}}}, noon).allowed());
  // Fills the table with counters of every size that this counter might need, in every stripe, as
  // each has its own memory.
  for (uint32_t i = 0, refused = 0; refused < 50'000; ++i) {
    bool full = true;
    for (const size_t count : {1u, 2u, 3u, 4u}) {
      std::vector<Limit> limits;
      for (size_t n = 0; n < count; ++n)
        limits.push_back(limit_of(Algorithm::fixed_window, 5, hour + static_cast<int64_t>(n)));
      // Keys of as many bytes as `k`, rounded up to four.
      std::string key(4, static_cast<char>(count));
      for (size_t byte = 0; byte < 3; ++byte) key[byte] = static_cast<char>(i >> 8 * byte);
      Asked asked = world.prepare({{key, 1, limits}});
      world.store.apply({{&asked.group, 1}, asked.charges, asked.decisions}, noon);
      full &= asked.group.error == request::Error::memory;
    }
    refused = full ? refused + 1 : 0;
  }
  Asked asked =
      world.prepare({{"k", 10, {slow, limit_of(Algorithm::aligned_window, 90, 2 * hour)}}});
  world.apply(asked, after(1));
  EXPECT_EQ(asked.group.error, request::Error::none);
  EXPECT_EQ(asked[0].remaining, 80);
  // The state was not kept, so the limit begins again.
  EXPECT_EQ(world.left({"k", 0, {fast, slow}}, after(2)), 50);
}

// A group that is refused brings a put of all under other limits, which need another number of
// cells than the counter has.
TEST(LimitsChangeOfARefusedPut, APutOfOtherLimitsHasRoomForItsCells) {
  const std::vector<Limit> small{limit_of(Algorithm::fixed_window, 50, second)},
      large{limit_of(Algorithm::sliding_log, 10, hour)};
  for (const auto& [first, then] : {std::pair(small, large), std::pair(large, small)}) {
    World world;
    ASSERT_TRUE(world.ask({{"k", 3, first}}, noon).allowed());
    Asked asked = world.prepare({{"k", 1, then}, {"banned", 1, {{Algorithm::deny}}}}, Verb::put);
    asked.charges[0].all = true;
    world.apply(asked, after(1));
    EXPECT_FALSE(asked.allowed());
    EXPECT_EQ(world.left({"k", 0, then}, after(2)), then.front().quota);
    EXPECT_TRUE(world.ask({{"k", then.front().quota, then}}, after(3)).allowed());
    EXPECT_FALSE(world.ask({{"k", 1, then}}, after(4)).allowed());
  }
}

}  // namespace
}  // namespace sluice::durable
