// Undos of groups over several slots while nodes name each other, slots move, scripts are flushed
// and connections are lost, in any order: each is executed once at most, not sent again after a
// lost answer, and its units are counted where it may not have been executed. The nodes are
// scripted; the counters are in a real Redis, whose answers say what it executed.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "redis/cluster_map.h"
#include "tests/redis/slots_world.h"

namespace sluice::redis::slots_undo_disorder_test {
namespace {

using request::Error;
using request::Group;
using request::Verb;

// What all seeds together must have met.
struct Met {
  size_t undone = 0, lost = 0, lost_answers = 0, by_text = 0, asked = 0, unknown = 0, at_other = 0,
         failed = 0;
};

// Costs differ, so a cost names a group, its take at the first actor and the undo of that.
class Disorder {
 public:
  Disorder(unsigned seed, Met& met)
      : met_(met), dice_(seed), loses_(seed % 2 == 0), redirects_percent_(seed % 3 == 0 ? 93 : 70) {
    for (int i = 0; at_first_node_.empty(); ++i) {
      const std::string name = "beside" + std::to_string(i);
      if (cluster_.owner_of(slot_of_actor(name)) == 0) at_first_node_ = name;
    }
    // So that taking back too much shows in the counter.
    EXPECT_TRUE(world_.settle({world_.charge(world_.first, many_an_hour, Verb::take, taken_before)})
                    .allowed);
    cluster_.take_executed();
    cluster_.take_unknown_undos();
  }

  void run() {
    cluster_.decide([this](const Call& call) { return act_of(call); });
    for (int round = 0; round < rounds; ++round) {
      if (dice() % 3 == 0) flush();
      move_slot();
      // Connected again, if a connection was lost; undos of earlier rounds may be under way.
      for (const std::string& name : {at_first_node_, world_.second}) world_.used(name);
      refuse_groups();
    }
    end_all();
    read_executed();
    expect_all_exact();
  }

 private:
  unsigned dice() { return static_cast<unsigned>(dice_() >> 8); }
  void flush() { flusher_({"SCRIPT", "FLUSH"}); }

  // Runs in threads of the nodes, for one call at a time.
  Act act_of(const Call& call) {
    if (call.slot != world_.first_slot || !(call.takes || call.undo)) return {};
    if (call.undo && lost_.contains(call.cost)) sent_again_.insert(call.cost);
    const unsigned chance = node_dice() % 100;
    // Between the node's own look for the script and the call.
    if (node_dice() % 20 == 0) node_flusher_({"SCRIPT", "FLUSH"});
    if (chance < (call.undo ? redirects_percent_ : 10))
      return {Fate::error, (chance % 2 == 0 ? "MOVED " : "ASK ") + std::to_string(call.slot) +
                               " 127.0.0.1:" + std::to_string(cluster_.port(1 - call.node))};
    if (!loses_ || !call.undo || chance < 96) return {};
    lost_.insert(call.cost);
    return {chance < 98 ? Fate::lost_before : Fate::lost_after, ""};
  }
  unsigned node_dice() { return static_cast<unsigned>(node_dice_() >> 8); }

  void move_slot() {
    const unsigned chance = dice() % 6;
    if (chance < 2) cluster_.move(world_.first_slot, chance);
    if (chance == 2) cluster_.migrate(world_.first_slot, 1 - cluster_.owner_of(world_.first_slot));
  }
  // The second actor has two units, so it refuses all.
  void refuse_groups() {
    std::vector<Group> groups(4);
    std::vector<request::Charge> charges;
    for (size_t i = 0; i < groups.size(); ++i) {
      groups[i] = {
          .charge_first = static_cast<uint32_t>(2 * i), .charge_count = 2, .may_fail = true};
      for (const request::Charge& charge : world_.both(cost_++, many_an_hour, two_a_day))
        charges.push_back(charge);
    }
    ASSERT_TRUE(world_.StoreWorld::ask(groups, charges, world_.decisions, world_.now()));
    for (const Group& group : groups) {
      if (group.error == Error::none) {
        EXPECT_FALSE(group.allowed);
      } else {
        ++met_.failed;
        failed_units_ += charges[group.charge_first].cost;
      }
    }
  }

  // All undos that are under way end: nodes do nothing unusual any more, each pass ends all pauses,
  // and the answer to a look at each node is behind those of the undos.
  void end_all() {
    cluster_.decide({});
    world_.told = world_.clock.now();
    for (int pass = 0; pass < 12; ++pass) {
      pass_time(redirect_pause_max_us);
      for (const std::string& name : {at_first_node_, world_.second}) {
        const auto deadline = tests::soon();
        while (look_fails(name) && std::chrono::steady_clock::now() < deadline) pass_time(1'000);
      }
    }
    world_.told.reset();
  }
  bool look_fails(const std::string& name) {
    return world_.settle({world_.charge(name, many_an_hour, Verb::peek, 0)}).error != Error::none;
  }
  void pass_time(int64_t us) {
    world_.told = base::Time{world_.told->us + us};
    world_.turn();
  }

  void read_executed() {
    for (const auto& [call, answer, lost] : cluster_.take_executed()) {
      if (call.slot != world_.first_slot || !(call.takes || call.undo)) continue;
      if (call.takes && answer.starts_with('1')) ++taken_[call.cost];
      if (!call.undo) continue;
      ++undone_[call.cost];
      EXPECT_EQ(answer, "0") << call.cost;  // all its units were found
      if (lost) lost_answer_units_ += call.cost;
      ++met_.undone;
      met_.lost_answers += lost ? 1u : 0u;
      met_.by_text += call.by_text ? 1u : 0u;
      met_.asked += call.asked ? 1u : 0u;
      met_.at_other += call.node == 1 ? 1u : 0u;
    }
    met_.lost += lost_.size();
    met_.unknown += cluster_.take_unknown_undos();
  }

  void expect_all_exact() {
    int64_t still_taken = 0;
    for (const auto& [cost, times] : taken_) {
      EXPECT_EQ(times, 1) << cost;
      if (!undone_.contains(cost)) still_taken += cost;
    }
    for (const auto& [cost, times] : undone_) {
      EXPECT_EQ(times, 1) << cost;
      EXPECT_TRUE(taken_.contains(cost)) << cost;
    }
    EXPECT_EQ(sent_again_, std::set<int64_t>());
    EXPECT_EQ(world_.used(world_.first), taken_before + still_taken);
    // Units may also be counted of groups that lost the answer of a take which was not executed.
    const int64_t left = world_.left_taken();
    EXPECT_GE(left, still_taken + lost_answer_units_);
    EXPECT_LE(left, still_taken + lost_answer_units_ + failed_units_);
    if (!loses_) {
      EXPECT_EQ(taken_.size(), 4u * rounds);
      EXPECT_EQ(failed_units_, 0);
      EXPECT_EQ(taken_.size() - undone_.size(), static_cast<size_t>(world_.redirects("given_up")));
    }
  }

  static constexpr int64_t taken_before = 10'000;
  static constexpr int rounds = 15;

  Met& met_;
  std::minstd_rand dice_;
  const bool loses_;
  const unsigned redirects_percent_;
  tests::ScriptedCluster cluster_{2};
  ScriptedWorld world_{cluster_};
  tests::RedisClient flusher_{cluster_.redis().client()};
  std::string at_first_node_;  // an actor whose slot stays there
  // Used by act_of, and by the test's thread once that is not called any more.
  tests::RedisClient node_flusher_{cluster_.redis().client()};
  std::minstd_rand node_dice_{dice_()};
  std::set<int64_t> lost_, sent_again_;  // costs
  int64_t cost_ = 3;
  std::map<int64_t, int> taken_, undone_;  // by cost, how often Redis has executed it
  int64_t lost_answer_units_ = 0, failed_units_ = 0;
};

TEST(SlotsUndoDisorder, EachUndoIsExecutedOnceAtMost) {
  Met met;
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    Disorder(seed, met).run();
  }
  EXPECT_GT(met.undone, 300u);
  EXPECT_GT(met.lost, 0u);
  EXPECT_GT(met.lost_answers, 0u);
  EXPECT_GT(met.by_text, 0u);
  EXPECT_GT(met.asked, 0u);
  EXPECT_GT(met.at_other, 0u);
  EXPECT_GT(met.unknown, 0u);
  EXPECT_GT(met.failed, 0u);
}

}  // namespace
}  // namespace sluice::redis::slots_undo_disorder_test
