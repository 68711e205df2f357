// Requests that wait for counters in several slots, beside takes and puts over several slots,
// against a naive exact model: random interleavings in which waiting requests leave and are
// replaced between two slots, on one server and on several, with nodes that fail, and with servers
// that end. Everything runs in one thread, turn by turn, in an order that the dice choose.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "redis/cluster_map.h"
#include "tests/redis/scripted_world.h"

namespace sluice::redis::slots_waiting_model_test {
namespace {

using limit::Algorithm;
using limit::Limit;
using request::Error;
using request::Group;
using request::Ticket;
using request::Verb;

constexpr size_t actors_count = 6;

Limit limit_for(size_t actor) {
  constexpr std::array algorithms = {Algorithm::fixed_bucket, Algorithm::fixed_window,
                                     Algorithm::token_bucket, Algorithm::sliding_window};
  const int64_t quota = 5 + static_cast<int64_t>(actor);
  // So long that no time of a test gives units back, and no sliding window ends in it.
  return {algorithms[actor % algorithms.size()], quota, base::seconds(40'000'000), quota};
}

// What a request asks for.
struct Wish {
  std::vector<size_t> chosen;
  int64_t cost = 0;
};

// Units that are granted and not given back; of each actor.
using Units = std::array<int64_t, actors_count>;

class Server {
 public:
  Server(tests::ScriptedCluster& cluster, const std::vector<std::string>& actors)
      : world(std::make_unique<ScriptedWorld>(cluster)), actors_(&actors) {}

  bool is_asking() const { return is_asking_; }
  size_t waiting() const { return waiting_.size(); }

  void begin(Verb verb, Wish wish, bool may_wait) {
    wish_ = std::move(wish);
    charges_ = charges_of(verb, wish_);
    groups_ = {{.charge_count = static_cast<uint32_t>(charges_.size()),
                .may_wait = may_wait,
                .ticket = {9, may_wait ? ++tickets_ : 0}}};
    decisions_.assign(charges_.size(), {});
    batch_ = {groups_, charges_, decisions_};
    is_asking_ = true;
    if (world->start(batch_)) settle();
  }
  void turn() {
    if (!is_asking_)
      world->turn();
    else if (world->go_on(batch_))
      settle();
    for (const store::Settled& one : world->settled()) hear(one);
  }
  // One of those that wait leaves.
  void cancel(size_t which) {
    const auto at = std::next(waiting_.begin(), static_cast<ptrdiff_t>(which));
    if (world->cancel({9, at->first})) {
      waiting_.erase(at);
      ++cancelled;
    }
  }
  // One of those that wait has other charges, as after a reload or an override.
  void replace(size_t which, Wish wish) {
    const auto at = std::next(waiting_.begin(), static_cast<ptrdiff_t>(which));
    auto charges = charges_of(Verb::take, wish);
    std::vector<Group> groups = {{.charge_count = static_cast<uint32_t>(charges.size()),
                                  .may_wait = true,
                                  .ticket = {9, at->first},
                                  .arrival = at->second.arrival}};
    std::vector<limit::Decision> decisions(charges.size());
    world->replace(groups, charges, decisions);
    if (groups[0].answered) return;
    at->second.wish = std::move(wish);
    ++replaced;
  }
  // That much time has passed, and all that was sent then is answered.
  void pass(int64_t us) {
    world->told = base::Time{world->clock.now().us + us};
    turn();
    world->told.reset();
    for (size_t k = 0; k < actors_count; ++k) remaining(k);
  }
  int64_t remaining(size_t actor) {
    const auto left = world->left((*actors_)[actor], limit_for(actor));
    EXPECT_TRUE(left) << "no answer";
    return left.value_or(0);
  }

  std::unique_ptr<ScriptedWorld> world;
  Units granted{};
  std::vector<uint32_t> served;  // of those that waited, their tickets' numbers in order
  int cancelled = 0, replaced = 0, errors = 0, refused = 0;
  size_t settles = 0;  // batches
  int64_t unsure = 0;  // units of puts that failed: perhaps they were put

 private:
  struct Parked {
    Wish wish;
    uint64_t arrival;
  };

  std::vector<request::Charge> charges_of(Verb verb, const Wish& wish) {
    std::vector<request::Charge> charges;
    for (const size_t k : wish.chosen) {
      charges.push_back(world->charge((*actors_)[k], limit_for(k), verb, wish.cost));
      charges.back().decision_first = static_cast<uint32_t>(charges.size() - 1);
    }
    return charges;
  }
  void settle() {
    is_asking_ = false;
    ++settles;
    const Group& group = groups_[0];
    const bool puts = charges_[0].verb == Verb::put;
    if (group.parked) {
      waiting_[group.ticket.generation] = {wish_, group.arrival};
    } else if (group.error != Error::none) {
      ++errors;
      if (puts) unsure += wish_.cost * static_cast<int64_t>(wish_.chosen.size());
    } else if (group.allowed) {
      add(wish_, puts ? -1 : 1);
    } else {
      ++refused;
    }
  }
  void hear(const store::Settled& one) {
    const auto at = waiting_.find(one.ticket.generation);
    ASSERT_NE(at, waiting_.end()) << "it was answered before, or has left";
    if (one.error == Error::none) {
      add(at->second.wish, 1);
      served.push_back(at->first);
    } else {
      ++errors;
    }
    waiting_.erase(at);
  }
  void add(const Wish& wish, int64_t times) {
    for (const size_t k : wish.chosen) granted[k] += times * wish.cost;
  }

  const std::vector<std::string>* actors_;
  uint32_t tickets_ = 0;
  bool is_asking_ = false;
  Wish wish_;
  std::vector<Group> groups_;
  std::vector<request::Charge> charges_;
  std::vector<limit::Decision> decisions_;
  StoreWorld::UnderWay batch_{};
  std::map<uint32_t, Parked> waiting_;
};

class Crossing {
 public:
  // One of so many turns, or calls, is affected. 0: none is.
  struct Chances {
    unsigned moves = 0, fails = 0, loses = 0, ends = 0;
  };

  Crossing(size_t servers, unsigned seed, Chances chances) : chances_(chances), dice_(seed) {
    for (size_t i = 0; i < servers; ++i) servers_.emplace_back(cluster_, actors_);
    cluster_.decide([this, fates = std::mt19937(seed + 1)](const auto&) mutable {
      if (!trouble_) return Act{};
      if (chances_.loses != 0 && fates() % chances_.loses == 0)
        return Act{fates() % 2 == 0 ? Fate::lost_before : Fate::lost_after, ""};
      if (chances_.fails != 0 && fates() % chances_.fails == 0)
        return Act{Fate::error, fates() % 2 == 0 ? "TRYAGAIN it moves" : "CLUSTERDOWN it is"};
      return Act{};
    });
  }

  // `enough`: what must have happened as well, however long the machine takes for a request.
  void run(
      int requests, const std::function<bool()>& enough = [] { return true; }) {
    for (begun_ = 0; begun_ < requests || (!enough() && begun_ < 20 * requests);) {
      step(servers_[dice_() % servers_.size()]);
      if (happens(chances_.moves) && all_have_settled()) move_a_slot();
      if (happens(chances_.ends)) end(servers_[dice_() % servers_.size()]);
    }
    trouble_ = false;
    finish();
  }
  // When all is quiet: each counter lacks what is granted, and what is known to be left.
  void compare() {
    // What is taken back may be in a pause before it is sent on (redis/cluster_map.h), up to three
    // times.
    for (int64_t round = 1; round <= 4; ++round)
      for (Server& server : servers_) server.pass(round * redirect_pause_max_us * 2);
    Units granted{};
    for (const Server& server : servers_)
      for (size_t k = 0; k < actors_count; ++k) granted[k] += server.granted[k];
    // Where a put failed or a server ended in one, more may have been put than is known here.
    for (Server& server : servers_) unsure_ += server.unsure;
    int64_t left = 0;
    for (size_t k = 0; k < actors_count; ++k) {
      int64_t used = 0;
      // Each server's connections have executed what they were sent before.
      for (Server& server : servers_) used = limit_for(k).quota - server.remaining(k);
      granted[k] += ended_granted_[k];
      EXPECT_LE(granted[k], limit_for(k).quota + unsure_) << k;
      if (is_exact())
        EXPECT_EQ(used, granted[k]) << k;
      else
        left += used - granted[k];
    }
    for (Server& server : servers_) said_left_ += server.world->left_taken();
    if (is_exact()) {
      EXPECT_EQ(said_left_, 0);
      EXPECT_EQ(unsure_, 0);
    }
    EXPECT_LE(left, said_left_ + ended_);
    EXPECT_GE(left, -unsure_);
  }
  int sum(int Server::*of) const {
    return std::accumulate(servers_.begin(), servers_.end(), 0,
                           [&](int all, const Server& server) { return all + server.*of; });
  }
  int redirects(const std::string& kind) {
    int all = 0;
    for (Server& server : servers_) all += server.world->redirects(kind);
    return all;
  }
  // What the servers' logs say of it.
  std::string log() {
    std::string all;
    for (Server& server : servers_) all += server.world->log();
    return all;
  }
  size_t served() const {
    size_t all = 0;
    for (const Server& server : servers_) all += server.served.size();
    return all;
  }

 private:
  bool is_exact() const { return chances_.fails == 0 && chances_.loses == 0 && chances_.ends == 0; }
  bool happens(unsigned of) { return of != 0 && dice_() % of == 0; }

  Wish any_wish() {
    Wish wish;
    wish.chosen.resize(actors_count);
    std::iota(wish.chosen.begin(), wish.chosen.end(), size_t{0});
    std::ranges::shuffle(wish.chosen, dice_);
    wish.chosen.resize(2 + dice_() % 3);
    wish.cost = static_cast<int64_t>(1 + dice_() % 3);
    return wish;
  }
  void step(Server& server) {
    const size_t what = dice_() % 100;
    if (server.waiting() > 0 && what < 3) return server.cancel(dice_() % server.waiting());
    if (server.waiting() > 0 && what < 6)
      return server.replace(dice_() % server.waiting(), any_wish());
    if (server.is_asking() || what < 60) return server.turn();
    ++begun_;
    if (what >= 85 && give_back(server)) return;
    server.begin(Verb::take, any_wish(), what >= 65);
  }
  // Puts what this server was granted and still has. False: it has nothing.
  bool give_back(Server& server) {
    Wish wish;
    wish.cost = static_cast<int64_t>(1 + dice_() % 4);
    for (size_t k = 0; k < actors_count; ++k)
      if (server.granted[k] >= wish.cost && wish.chosen.size() < 4) wish.chosen.push_back(k);
    if (wish.chosen.empty()) return false;
    server.begin(Verb::put, std::move(wish), false);
    return true;
  }
  // Those that wait are served one after the other, as units are given back.
  void finish() {
    const auto deadline = tests::within(std::chrono::seconds(120));
    const auto is_done = [&] {
      return std::ranges::none_of(servers_,
                                  [](Server& s) { return s.is_asking() || s.waiting() > 0; });
    };
    while (!is_done() && std::chrono::steady_clock::now() < deadline)
      for (Server& server : servers_) {
        if (!server.is_asking() && waiting() > 0) give_back(server);
        server.turn();
        if (server.waiting() > 0 && !is_exact() && dice_() % 8 == 0)
          server.cancel(0);  // units that are left taken never come back
      }
    EXPECT_TRUE(is_done()) << "requests wait for what is there";
  }
  size_t waiting() const {
    size_t all = 0;
    for (const Server& server : servers_) all += server.waiting();
    return all;
  }
  // Whether each server has settled a batch since the last move. Else, on a slow machine, slots
  // would move more often than a request is sent on (redis/cluster_map.h).
  bool all_have_settled() {
    std::vector<size_t> now;
    for (const Server& server : servers_) now.push_back(server.settles);
    if (settles_.size() == now.size())
      for (size_t i = 0; i < now.size(); ++i)
        if (now[i] == settles_[i]) return false;
    settles_ = std::move(now);
    return true;
  }
  void move_a_slot() {
    const uint16_t slot = slot_of_actor(actors_[dice_() % actors_count]);
    const size_t to = dice_() % cluster_.size();
    dice_() % 2 == 0 ? cluster_.move(slot, to) : cluster_.migrate(slot, to);
  }
  // A server ends wherever it is, and another one is in its place.
  void end(Server& server) {
    said_left_ += server.world->left_taken();
    unsure_ += server.unsure;
    for (size_t k = 0; k < actors_count; ++k) ended_granted_[k] += server.granted[k];
    // The most that may be under way: for the batch, for each waiting request, and on its way back.
    ended_ += most_of_a_request * static_cast<int64_t>(server.waiting() + 3);
    unsure_ += server.is_asking() ? most_of_a_request : 0;
    server = Server(cluster_, actors_);
    ++ends;
  }

  static constexpr int64_t most_of_a_request = 16;

  const Chances chances_;
  std::atomic<bool> trouble_{true};
  tests::ScriptedCluster cluster_{3};
  std::mt19937 dice_;
  const std::vector<std::string> actors_ = names(actors_count);
  std::deque<Server> servers_;
  std::vector<size_t> settles_;  // of each server, at the last move
  int64_t said_left_ = 0, unsure_ = 0, ended_ = 0;
  Units ended_granted_{};
  int begun_ = 0;

 public:
  int ends = 0;
};

TEST(SlotsWaitingModel, OneServerLosesNoUnitAndGrantsNoneTwice) {
  Crossing crossing(1, 31, {});
  crossing.run(400, [&] {
    return crossing.served() > 10 && crossing.sum(&Server::cancelled) > 3 &&
           crossing.sum(&Server::replaced) > 3;
  });
  crossing.compare();
  EXPECT_GT(crossing.served(), 10u);
  EXPECT_GT(crossing.sum(&Server::cancelled), 3);
  EXPECT_GT(crossing.sum(&Server::replaced), 3);
  EXPECT_EQ(crossing.sum(&Server::errors), 0);
}

TEST(SlotsWaitingModel, SeveralServersWhileSlotsMove) {
  Crossing crossing(3, 32, {.moves = 40});
  crossing.run(400, [&] {
    return crossing.served() > 10 && crossing.redirects("moved") > 0 &&
           crossing.redirects("ask") > 0;
  });
  crossing.compare();
  EXPECT_GT(crossing.served(), 10u);
  EXPECT_GT(crossing.redirects("moved"), 0);
  EXPECT_GT(crossing.redirects("ask"), 0);
  EXPECT_EQ(crossing.redirects("given_up"), 0);
  EXPECT_EQ(crossing.sum(&Server::errors), 0) << crossing.log();
}

TEST(SlotsWaitingModel, SeveralServersWhileNodesFail) {
  Crossing crossing(3, 33, {.moves = 100, .fails = 40, .loses = 150});
  crossing.run(300, [&] { return crossing.served() > 5 && crossing.sum(&Server::errors) > 5; });
  crossing.compare();
  EXPECT_GT(crossing.served(), 5u);
  EXPECT_GT(crossing.sum(&Server::errors), 5);
}

TEST(SlotsWaitingModel, ServersThatEnd) {
  Crossing crossing(3, 34, {.loses = 300, .ends = 400});
  crossing.run(300, [&] { return crossing.ends > 0; });
  crossing.compare();
  EXPECT_GT(crossing.ends, 0);
}

// All wait for the same counters, of which one is short, so there is one queue: it is served in the
// order of arrival, whatever leaves it in between.
TEST(SlotsWaitingModel, OneQueueIsServedInItsOrder) {
  tests::ScriptedCluster cluster(3);
  const auto actors = names(actors_count);
  Server server(cluster, actors);
  std::mt19937 dice(35);
  const auto finish = [&] {
    EXPECT_TRUE(server.world->await([&] {
      server.turn();
      return !server.is_asking();
    }));
  };
  const std::vector<size_t> chosen{0, 2, 4};
  server.begin(Verb::take, {{0}, limit_for(0).quota}, false);  // a fixed bucket: it is empty
  finish();
  for (int i = 0; i < 60; ++i) {
    server.begin(Verb::take, {chosen, static_cast<int64_t>(1 + dice() % 2)}, true);
    finish();
    for (size_t turns = dice() % 20; turns > 0; --turns) server.turn();
    if (server.waiting() > 1 && dice() % 3 == 0) server.cancel(dice() % server.waiting());
    const auto units = static_cast<int64_t>(1 + dice() % 2);
    if (dice() % 2 == 0 || server.granted[0] < units) continue;
    // Puts back to the counter that is short alone, or, of what was granted, to all three.
    const bool of_all = server.granted[2] >= units && dice() % 2 == 0;
    if (!of_all && server.granted[0] - server.granted[2] < units) continue;
    server.begin(Verb::put, {of_all ? chosen : std::vector<size_t>{0}, units}, false);
    finish();
  }
  EXPECT_GT(server.served.size(), 10u);
  EXPECT_GT(server.cancelled, 5);
  EXPECT_TRUE(std::ranges::is_sorted(server.served));
  while (server.waiting() > 0) server.cancel(0);
  for (const size_t k : chosen)
    EXPECT_EQ(limit_for(k).quota - server.remaining(k), server.granted[k]) << k;
  EXPECT_EQ(server.world->left_taken(), 0);
}

}  // namespace
}  // namespace sluice::redis::slots_waiting_model_test
