// Groups over several slots of a real Redis Cluster against a naive exact model: answer by answer
// where one server asks alone, and in sum where several are between their slots at a time, lose
// connections and end.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <random>

#include "tests/redis/slots_world.h"

namespace sluice::redis::slots_model_test {
namespace {

using limit::Algorithm;
using limit::Limit;
using request::Error;
using request::Group;
using request::Verb;

constexpr size_t actors_count = 10;

Limit limit_for(size_t actor, int64_t least) {
  constexpr std::array algorithms = {Algorithm::fixed_window,   Algorithm::token_bucket,
                                     Algorithm::sliding_window, Algorithm::sliding_log,
                                     Algorithm::fixed_bucket,   Algorithm::concurrency};
  const int64_t quota = least + 7 * static_cast<int64_t>(actor);
  const Algorithm algorithm = algorithms[actor % algorithms.size()];
  const base::Duration day = base::seconds(86'400);
  return {algorithm, quota, day, algorithm == Algorithm::concurrency ? day.us : quota};
}

// The model: units taken of each.
class Model {
 public:
  explicit Model(int64_t least) : least_(least) {}
  bool take(const std::vector<size_t>& chosen, int64_t cost) {
    const bool fits = std::ranges::all_of(chosen, [&](size_t k) { return has(k, cost); });
    for (const size_t k : chosen) taken_[k] += fits ? cost : 0;
    return fits;
  }
  bool has(size_t k, int64_t cost) const { return taken_[k] + cost <= limit_for(k, least_).quota; }
  int64_t remaining(size_t k) const { return limit_for(k, least_).quota - taken_[k]; }

 private:
  const int64_t least_;
  std::array<int64_t, actors_count> taken_{};
};

TEST(SlotsModel, OneServerAnswersLikeTheModel) {
  constexpr int64_t least = 20;
  tests::RedisCluster cluster;
  load_undo(cluster);
  ClusterWorld world(settling(cluster));
  const auto actors = names(actors_count);
  Model model(least);
  std::mt19937 dice(11);
  int granted = 0, refused = 0;
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    const auto chosen = choose(actors_count, dice);
    const bool looks = dice() % 5 == 0;
    const int64_t cost = looks ? 0 : static_cast<int64_t>(1 + dice() % 4);
    std::vector<request::Charge> charges;
    for (const size_t k : chosen)
      charges.push_back(
          world.charge(actors[k], limit_for(k, least), looks ? Verb::peek : Verb::take, cost));
    std::vector<bool> fits;
    for (const size_t k : chosen) fits.push_back(model.has(k, cost));
    const bool allowed = model.take(chosen, cost);
    const Group group = world.settle(charges);
    ASSERT_EQ(group.error, Error::none);
    if (!looks) ++(allowed ? granted : refused);
    ASSERT_EQ(group.allowed, looks || allowed);
    for (size_t j = 0; j < chosen.size(); ++j) {
      ASSERT_EQ(world.decisions[j].allowed, looks || fits[j]) << j;
      ASSERT_EQ(world.decisions[j].remaining, model.remaining(chosen[j])) << j;
    }
    world.forget_names();
  }
  EXPECT_GT(granted, 10);
  EXPECT_GT(refused, 10);
  EXPECT_EQ(world.metric("sluice_redis_left_taken_units_total"), 0);
}

// Several servers, in one thread, one of which takes a turn at a time: so they are between their
// slots together, in an order that the dice choose.
class Crossing {
 public:
  static constexpr int64_t least = 60;
  struct Chances {
    unsigned loses = 0, ends = 0, flushes = 0;  // one of so many turns; 0: none
  };

  Crossing(tests::RedisCluster& cluster, unsigned seed, Chances chances)
      : cluster_(cluster), chances_(chances), dice_(seed), servers_(3) {
    for (Server& server : servers_)
      server.world = std::make_unique<ClusterWorld>(settling(cluster));
  }

  // `enough`: what must have happened as well, however long the machine takes for a group.
  void run(
      int groups, const std::function<bool()>& enough = [] { return true; }) {
    while (begun_ < groups || (!enough() && begun_ < 20 * groups)) {
      turn(servers_[dice_() % servers_.size()], true);
      if (happens(chances_.loses)) lose();
      if (happens(chances_.flushes)) flush();
      if (happens(chances_.ends)) end(servers_[dice_() % servers_.size()]);
    }
    const auto deadline = tests::soon();
    for (Server& server : servers_)
      while (server.is_asking && std::chrono::steady_clock::now() < deadline) turn(server, false);
    for (Server& server : servers_) EXPECT_FALSE(server.is_asking);
  }

  // When all is quiet: no counter lacks less than was granted, nor more than that and what the
  // lost answers may have left; none was granted beyond its limit.
  void compare() {
    // An undo may be sent twice more where its script is missing, each time once the last answer is
    // read.
    for (int i = 0; i < 3; ++i)
      for (Server& server : servers_)
        for (size_t k = 0; k < actors_count; ++k) remaining(*server.world, k);
    int64_t left = 0;
    for (size_t k = 0; k < actors_count; ++k) {
      const Limit limit = limit_for(k, least);
      int64_t used = 0;
      // Each server's connection has executed what it was sent before.
      for (Server& server : servers_) used = limit.quota - remaining(*server.world, k);
      EXPECT_LE(granted_[k], limit.quota) << k;
      EXPECT_GE(used, granted_[k]) << k;
      left += used - granted_[k];
      if (is_quiet()) {
        EXPECT_EQ(used, granted_[k]) << k;
      }
    }
    for (Server& server : servers_) said_left_ += left_of(server);
    EXPECT_LE(left, said_left_ + ended_);
    if (is_quiet()) {
      EXPECT_EQ(said_left_, 0);
    }
  }
  int refused() const { return refused_; }
  int errors() const { return errors_; }
  int ends() const { return ends_; }

 private:
  struct Server {
    std::unique_ptr<ClusterWorld> world;
    std::vector<Group> groups;
    std::vector<request::Charge> charges;
    std::vector<limit::Decision> decisions;
    StoreWorld::UnderWay batch{};
    std::vector<size_t> chosen;
    int64_t cost = 0;
    bool is_asking = false;
  };

  bool is_quiet() const { return chances_.loses == 0 && chances_.ends == 0; }
  bool happens(unsigned of) { return of != 0 && dice_() % of == 0; }

  void turn(Server& server, bool may_begin) {
    if (server.is_asking) {
      if (server.world->go_on(server.batch)) settle(server);
    } else if (may_begin) {
      begin(server);
    }
  }
  void begin(Server& server) {
    ++begun_;
    server.chosen = choose(actors_count, dice_);
    server.cost = static_cast<int64_t>(1 + dice_() % 3);
    server.charges.clear();
    server.world->forget_names();
    for (const size_t k : server.chosen) {
      server.charges.push_back(
          server.world->charge(actors_[k], limit_for(k, least), Verb::take, server.cost));
      server.charges.back().decision_first = static_cast<uint32_t>(server.charges.size() - 1);
    }
    server.groups = {{.charge_count = static_cast<uint32_t>(server.charges.size())}};
    server.decisions.assign(server.charges.size(), {});
    server.batch = {server.groups, server.charges, server.decisions};
    server.is_asking = true;
    if (server.world->start(server.batch)) settle(server);
  }
  void settle(Server& server) {
    server.is_asking = false;
    const Group& group = server.groups[0];
    errors_ += group.error != Error::none;
    refused_ += group.error == Error::none && !group.allowed;
    if (group.error != Error::none || !group.allowed) return;
    for (const size_t k : server.chosen) granted_[k] += server.cost;
  }
  // A node's clients lose their connections, with what is under way on them.
  void lose() {
    const size_t node = dice_() % cluster_.size();
    cluster_.node(node).client()({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  }
  void flush() { cluster_.node(dice_() % cluster_.size()).client()({"SCRIPT", "FLUSH"}); }
  // A server ends wherever it is, and another one is in its place.
  void end(Server& server) {
    ++ends_;
    said_left_ += left_of(server);
    if (server.is_asking) ended_ += server.cost * static_cast<int64_t>(server.chosen.size());
    server = {};
    server.world = std::make_unique<ClusterWorld>(settling(cluster_));
  }
  static int64_t left_of(Server& server) {
    return static_cast<int64_t>(server.world->metric("sluice_redis_left_taken_units_total"));
  }
  int64_t remaining(ClusterWorld& world, size_t k) {
    const auto left = world.left(actors_[k], limit_for(k, least));
    EXPECT_TRUE(left) << "no answer";
    return left.value_or(0);
  }

  tests::RedisCluster& cluster_;
  const Chances chances_;
  std::mt19937 dice_;
  const std::vector<std::string> actors_ = names(actors_count);
  std::vector<Server> servers_;
  std::array<int64_t, actors_count> granted_{};
  int64_t said_left_ = 0, ended_ = 0;  // units left taken: by the metric, and of ended servers
  int begun_ = 0, refused_ = 0, errors_ = 0, ends_ = 0;
};

TEST(SlotsModel, ServersBetweenTheirSlots) {
  tests::RedisCluster cluster;
  Crossing crossing(cluster, 21, {});
  crossing.run(500);
  crossing.compare();
  EXPECT_GT(crossing.refused(), 50);
  EXPECT_EQ(crossing.errors(), 0);
}

TEST(SlotsModel, ScriptsThatAreFlushedBetweenSlots) {
  tests::RedisCluster cluster;
  Crossing crossing(cluster, 24, {.flushes = 10});
  crossing.run(500);
  crossing.compare();
  EXPECT_GT(crossing.refused(), 50);
  EXPECT_EQ(crossing.errors(), 0);
}

TEST(SlotsModel, ConnectionsThatAreLostBetweenSlots) {
  tests::RedisCluster cluster;
  Crossing crossing(cluster, 22, {.loses = 60, .flushes = 100});
  crossing.run(500, [&] { return crossing.errors() > 0; });
  crossing.compare();
  EXPECT_GT(crossing.errors(), 0);
}

TEST(SlotsModel, ServersThatEndBetweenSlots) {
  tests::RedisCluster cluster;
  Crossing crossing(cluster, 23, {.loses = 200, .ends = 100});
  crossing.run(300, [&] { return crossing.ends() > 0; });
  crossing.compare();
  EXPECT_GT(crossing.ends(), 0);
}

}  // namespace
}  // namespace sluice::redis::slots_model_test
