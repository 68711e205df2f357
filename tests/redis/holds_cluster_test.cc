// What is different about holds in a Redis Cluster: where they are, and what happens when a slot or
// a primary moves. What is the same is in the tests of holds and places with one Redis.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "redis/cluster_map.h"
#include "redis/hold_slots.h"
#include "store/hold_book.h"
#include "tests/redis/hold_server.h"
#include "tests/redis/world.h"
#include "tests/support/dice.h"
#include "tests/support/http_client.h"

namespace sluice::redis::holds_cluster_test {
namespace {

using request::Charge;
using request::Error;
using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::Verb;
using std::chrono::steady_clock;
using store::HoldBook;
using Milliseconds = std::chrono::milliseconds;

constexpr int64_t quota = 1'000'000;
const std::string an_id = "0123456789abcdef";

class Server : public HoldServer {
 public:
  explicit Server(const Options& options, const HoldBook::Options& holds = {})
      : HoldServer(options, {limit::Algorithm::fixed_bucket, quota, {}, quota}, holds) {}

  // Of one unit of each of these actors, the last ones by rules in shadow.
  HoldCall reserve_of(const std::vector<std::string>& actors, size_t in_shadow = 0) {
    std::vector<Charge> charges;
    for (const std::string& actor : actors) {
      charges.push_back(charge(actor, Verb::reserve, 1));
      charges.back().decision_first = static_cast<uint32_t>(charges.size() - 1);
    }
    std::vector<limit::Decision> decisions(charges.size());
    const auto enforced = static_cast<uint32_t>(actors.size() - in_shadow);
    groups_ = {{.charge_count = enforced}};
    for (uint32_t i = enforced; i < actors.size(); ++i)
      groups_.push_back({.charge_first = i, .charge_count = 1, .may_fail = true});
    const std::vector<HoldBook::Share> shares(charges.size(), {1, "rule"});
    const int64_t units = 1;
    HoldCall call;
    EXPECT_TRUE(world_.ask_book([&](const HoldBook::Asker& asker) {
      return book_->reserve(call, {}, {groups_, charges, decisions}, shares, {&units, 1},
                            world_.now(), asker);
    }));
    return call;
  }
  HoldCall reserve(std::string_view id, const std::string& key, int64_t units,
                   base::Duration ttl = {}) {
    Charge one = charge(key, Verb::reserve, units);
    limit::Decision decision;
    request::Group group{.charge_count = 1};
    const HoldBook::Share share{1, "rule"};
    HoldCall call{.id = id, .ttl = ttl};
    EXPECT_TRUE(world_.ask_book([&](const HoldBook::Asker& asker) {
      return book_->reserve(call, {}, {{&group, 1}, {&one, 1}, {&decision, 1}}, {&share, 1},
                            {&units, 1}, world_.now(), asker);
    }));
    return call;
  }
  const std::vector<request::Group>& groups() const { return groups_; }
  uint64_t expired() const {
    return book_->figures().events[static_cast<size_t>(HoldBook::Event::expired)];
  }

 private:
  std::vector<request::Group> groups_;
};

uint16_t slot_of_actor(const std::string& actor) {
  std::string tag;
  append_tag(tag, actor);
  return slot_of(tag);
}

// An actor whose counters are in another slot than those of `actor`, or in the same.
std::string actor_beside(const std::string& actor, bool same) {
  for (int i = 0;; ++i) {
    std::string other = actor + "-" + std::to_string(i);
    if ((slot_of_actor(other) == slot_of_actor(actor)) == same) return other;
  }
}

TEST(HoldSlots, ATagIsInItsSlotAndAnIdHasItsOwn) {
  for (uint32_t slot = 0; slot < slot_count; ++slot) {
    const auto its = static_cast<uint16_t>(slot);
    ASSERT_EQ(slot_of("sluice:" + HoldSlots::tag_of(its) + "hold:ann:some"), its);
    ASSERT_EQ(HoldSlots::slot_in(HoldSlots::with_slot(HoldBook::make_id(), its)), its);
  }
  EXPECT_EQ(HoldSlots::tag_of(0).size(), tag_size);
  EXPECT_FALSE(HoldSlots::slot_in(an_id));
  EXPECT_FALSE(HoldSlots::slot_in(HoldBook::make_id()));
  EXPECT_FALSE(HoldSlots::slot_in(HoldBook::make_id() + "___"));  // 2^18 - 1
}

TEST(HoldSlots, AreLookedAtWhenAnEndIsDueAndInTurn) {
  HoldSlots slots;
  auto now = HoldSlots::Clock::time_point() + std::chrono::hours(1);
  EXPECT_TRUE(slots.due(now).empty());
  for (uint16_t slot = 0; slot < 250; ++slot) slots.note(slot, base::seconds(60), now, 1);
  EXPECT_EQ(slots.counts().reservations, 250u);
  std::map<uint16_t, int> seen;
  for (int i = 0; i < 5; ++i) {
    now += HoldSlots::in_turn_every;
    for (const uint16_t slot : slots.due(now)) ++seen[slot];
    EXPECT_TRUE(slots.due(now + Milliseconds(199)).empty());
  }
  EXPECT_EQ(seen.size(), 250u);
  for (const auto& [slot, times] : seen) EXPECT_EQ(times, 2) << slot;
  // Those that are due come at once, and each only once.
  slots.note(240, base::milliseconds(10), now);
  slots.note(7, base::milliseconds(10), now);
  EXPECT_EQ(slots.due(now + Milliseconds(10)), (std::vector<uint16_t>{7, 240}));
  slots.note(240, base::milliseconds(10), now);
  slots.note(7, base::milliseconds(10), now);
  now += HoldSlots::in_turn_every;
  std::vector<uint16_t> due = slots.due(now);
  EXPECT_EQ(due.size(), 101u);  // 7 is in its turn
  EXPECT_EQ(std::ranges::count(due, 240), 1);
  EXPECT_EQ(std::ranges::count(due, 7), 1);
  EXPECT_EQ(std::ranges::count(slots.due(now + HoldSlots::in_turn_every), 240), 0);
  // What was looked at replaces what was noted.
  slots.looked(3, 5, 2, base::Duration{0}, now);
  EXPECT_EQ(slots.counts().reservations, 254u);
  EXPECT_EQ(slots.counts().places, 2u);
  slots.note(3, base::never, now, -1);
  EXPECT_EQ(slots.counts().reservations, 253u);
  // What Redis has lost is told again.
  EXPECT_EQ(slots.learn({1, 300}).size(), 249u);
  EXPECT_TRUE(slots.is_told(300));
  EXPECT_FALSE(slots.is_told(3));
}

class HoldsInCluster : public testing::Test {
 protected:
  static tests::RedisCluster& cluster() {
    static tests::RedisCluster the_cluster;
    return the_cluster;
  }
  void SetUp() override {
    for (size_t i = 0; i < cluster().size(); ++i) cluster().node(i).client()({"FLUSHALL"});
  }
  static Options options() { return ClusterWorld::options_for(cluster()); }
  static bool has_key(const std::string& key) {
    return cluster().at_owner({"EXISTS", key}, key).number == 1;
  }
};

// Of an id of the caller's the slot is known beside; of the server's own it is in the id.
TEST_F(HoldsInCluster, AnyServerFindsAHoldByItsId) {
  Server one(options()), other(options());
  for (int i = 0; i < 40; ++i) {
    const std::string actor = "actor" + std::to_string(i), id = an_id + std::to_string(i);
    const HoldCall made = one.reserve({}, actor, 5), named = one.reserve(id, actor, 7);
    ASSERT_EQ(made.outcome, HoldOutcome::done);
    ASSERT_EQ(named.outcome, HoldOutcome::done);
    EXPECT_EQ(HoldSlots::slot_in(made.made_id), slot_of_actor(actor));
    EXPECT_EQ(named.made_id, id);
    EXPECT_FALSE(has_key("sluice:hold_at::" + made.made_id));
    EXPECT_TRUE(has_key("sluice:hold_at::" + id));
    EXPECT_TRUE(one.reserve(id, actor, 7).repeated);
    EXPECT_EQ(other.used(actor), 12);
    EXPECT_EQ(other.settle(HoldAsk::renew, id).outcome, HoldOutcome::done);
    EXPECT_EQ(other.settle(HoldAsk::extend, made.made_id, {1}).outcome, HoldOutcome::done);
    EXPECT_EQ(other.settle(HoldAsk::commit, id, {2}).returned, 5);
    EXPECT_TRUE(one.settle(HoldAsk::commit, id, {2}).repeated);
    EXPECT_EQ(other.settle(HoldAsk::release, made.made_id).returned, 6);
    EXPECT_EQ(one.used(actor), 2);
  }
  EXPECT_EQ(one.settle(HoldAsk::renew, "never-was-a-hold-1").outcome, HoldOutcome::unknown);
  EXPECT_EQ(one.settle(HoldAsk::renew, HoldSlots::with_slot(HoldBook::make_id(), 77)).outcome,
            HoldOutcome::unknown);
}

// A caller's id may look like one of a server's.
TEST_F(HoldsInCluster, AnIdThatNamesAnotherSlotIsFoundAllTheSame) {
  Server server(options());
  const std::string id = HoldSlots::with_slot(HoldBook::make_id(), 12'345);
  ASSERT_NE(slot_of_actor("ann"), 12'345);
  ASSERT_EQ(server.reserve(id, "ann", 5).outcome, HoldOutcome::done);
  EXPECT_EQ(server.settle(HoldAsk::commit, id, {1}).returned, 4);
  EXPECT_EQ(server.used("ann"), 1);
}

TEST_F(HoldsInCluster, AnIdIsOneHoldWhereverItIs) {
  Server one(options()), other(options());
  const std::string beside = actor_beside("ann", false);
  ASSERT_EQ(one.reserve(an_id, "ann", 5).outcome, HoldOutcome::done);
  EXPECT_EQ(other.reserve(an_id, beside, 5).outcome, HoldOutcome::in_use);
  EXPECT_EQ(one.settle(HoldAsk::commit, an_id, {2}).outcome, HoldOutcome::done);
  EXPECT_EQ(other.reserve(an_id, beside, 5).outcome, HoldOutcome::settled);
  EXPECT_EQ(other.used(beside), 0);
  // Once it is forgotten, or was refused, it may be elsewhere.
  const std::string record = "sluice:" + HoldSlots::tag_of(slot_of_actor("ann")) + "hold::" + an_id;
  EXPECT_EQ(cluster().at_owner({"DEL", record}, record).number, 1);
  EXPECT_EQ(other.reserve(an_id, beside, 5).outcome, HoldOutcome::done);
  EXPECT_EQ(one.settle(HoldAsk::release, an_id).returned, 5);
}

TEST_F(HoldsInCluster, TheSlotOfARefusedReserveIsForgotten) {
  Server server(options());
  const std::string other_id = "fedcba9876543210";
  ASSERT_EQ(server.reserve(an_id, "ann", quota + 1).outcome, HoldOutcome::refused);
  ASSERT_EQ(server.reserve(other_id, "ann", quota + 1).outcome, HoldOutcome::refused);
  // Another request has put the id there again meanwhile.
  ASSERT_EQ(server.reserve(other_id, "ann", 1).outcome, HoldOutcome::done);
  EXPECT_TRUE(has_key("sluice:hold_at::" + an_id));
  const auto deadline = tests::soon();
  while (has_key("sluice:hold_at::" + an_id) && steady_clock::now() < deadline)
    std::this_thread::sleep_for(Milliseconds(20));
  EXPECT_FALSE(has_key("sluice:hold_at::" + an_id));
  EXPECT_TRUE(has_key("sluice:hold_at::" + other_id));
  EXPECT_EQ(server.settle(HoldAsk::release, other_id).returned, 1);
}

TEST_F(HoldsInCluster, ACommitOfAnUnknownHoldIsChargedOnce) {
  Server one(options()), other(options());
  const std::string made = HoldSlots::with_slot(HoldBook::make_id(), slot_of_actor("ann"));
  for (const std::string& id : {an_id, made, HoldSlots::with_slot(HoldBook::make_id(), 12'345)}) {
    const int64_t before = one.used("ann");
    for (Server* server : {&one, &other}) {
      Charge charge = server->charge("ann", Verb::charge, 3);
      limit::Decision decision;
      request::Group group{.charge_count = 1};
      const HoldBook::Share share{1, "rule"};
      HoldCall call{.ask = HoldAsk::commit, .id = id, .units = {3}};
      bool known = false;
      EXPECT_TRUE(server->world().ask_book([&](const HoldBook::Asker& asker) {
        return server->book().charge_unknown(call, {{&group, 1}, {&charge, 1}, {&decision, 1}},
                                             {&share, 1}, server->world().now(), asker, known);
      }));
      EXPECT_EQ(call.outcome, HoldOutcome::done);
      EXPECT_EQ(known, server == &other);
    }
    EXPECT_EQ(one.used("ann"), before + 3);
    EXPECT_TRUE(one.settle(HoldAsk::commit, id, {3}).repeated);
  }
}

TEST_F(HoldsInCluster, SeveralSlotsAreRefusedByNameAndLeftOutOfShadow) {
  Server server(options());
  const std::string beside = actor_beside("ann", true), away = actor_beside("ann", false);
  const HoldCall both = server.reserve_of({"ann", beside});
  EXPECT_EQ(both.outcome, HoldOutcome::done);
  EXPECT_EQ(server.used("ann"), 1);
  EXPECT_EQ(server.used(beside), 1);
  EXPECT_EQ(server.settle(HoldAsk::release, both.made_id).returned, 1);
  EXPECT_EQ(server.reserve_of({"ann", away}).outcome, HoldOutcome::failed);
  EXPECT_NE(server.world().log().find("several slots"), std::string::npos);
  EXPECT_EQ(server.used("ann"), 0);
  EXPECT_EQ(server.used(away), 0);
  // A rule that is only tried does not stop one that counts.
  EXPECT_EQ(server.reserve_of({"ann", away, beside}, 2).outcome, HoldOutcome::done);
  EXPECT_EQ(server.groups()[1].error, Error::store);
  EXPECT_EQ(server.groups()[2].error, Error::none);
  EXPECT_EQ(server.used("ann"), 1);
  EXPECT_EQ(server.used(away), 0);
  EXPECT_EQ(server.used(beside), 1);
}

// The other servers know its slots though they have nothing there.
TEST_F(HoldsInCluster, OthersEndTheHoldsOfAServerThatHasGone) {
  Server other(options());
  other.used("ann");
  constexpr int count = 30;
  {
    Server gone(options());
    for (int i = 0; i < count; ++i)
      ASSERT_EQ(gone.reserve({}, "actor" + std::to_string(i), 9, base::seconds(2)).outcome,
                HoldOutcome::done);
  }
  const auto deadline = tests::soon();
  while (other.expired() < count && steady_clock::now() < deadline)
    std::this_thread::sleep_for(Milliseconds(5));
  EXPECT_EQ(other.expired(), static_cast<uint64_t>(count));
  for (int i = 0; i < count; ++i) EXPECT_EQ(other.used("actor" + std::to_string(i)), 0) << i;
  EXPECT_EQ(other.book().figures().holds, 0u);
}

TEST_F(HoldsInCluster, AreBoundedOverAllSlots) {
  Server server(options(), {.most = 3});
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i)
    ids.push_back(server.reserve({}, "actor" + std::to_string(i), 1).made_id);
  EXPECT_EQ(server.reserve({}, "actor4", 1).outcome, HoldOutcome::full);
  EXPECT_EQ(server.settle(HoldAsk::commit, ids[1], {1}).outcome, HoldOutcome::done);
  EXPECT_EQ(server.reserve({}, "actor4", 1).outcome, HoldOutcome::done);
  size_t listed = 0;
  server.book().each(server.world().now(), [&](const HoldBook::Listed& one) {
    EXPECT_NE(one.id, ids[1]);
    ++listed;
    return true;
  });
  EXPECT_EQ(listed, 3u);
}

// While their slots move, a hold may fail and is asked again; nothing is counted twice or lost.
TEST_F(HoldsInCluster, SlotsThatMoveLoseNothing) {
  Server one(options()), other(options());
  tests::Dice dice(20261201);
  constexpr size_t actors = 3;
  std::array<int64_t, actors> expected{};
  std::array<std::string, actors> names;
  for (size_t i = 0; i < actors; ++i) names[i] = "moves" + std::to_string(i);
  std::atomic<bool> stops = false;
  std::thread mover([&] {
    for (size_t round = 0; !stops; ++round)
      for (const std::string& name : names) {
        const uint16_t slot = slot_of_actor(name);
        const size_t from = cluster().owner_of(slot);
        cluster().move_slot(slot, from, (from + 1) % cluster().size());
        // The keys of its ids are in other slots, which move too.
      }
  });
  for (int i = 0; i < 150; ++i) {
    const size_t at = static_cast<size_t>(dice(int64_t{actors}));
    const std::string id = "moving-hold-number-" + std::to_string(i);
    Server &server = dice(2) == 0 ? one : other, &second = dice(2) == 0 ? one : other;
    const int64_t units = 1 + dice(int64_t{9}), used = dice(int64_t{12});
    const auto deadline = tests::soon();
    const auto repeat = [&](const auto& ask) {
      HoldCall call = ask();
      while ((call.outcome == HoldOutcome::failed || call.outcome == HoldOutcome::not_held) &&
             steady_clock::now() < deadline)
        call = ask();
      return call;
    };
    ASSERT_EQ(repeat([&] { return server.reserve(id, names[at], units); }).outcome,
              HoldOutcome::done)
        << i;
    ASSERT_EQ(repeat([&] { return second.settle(HoldAsk::commit, id, {used}); }).outcome,
              HoldOutcome::done)
        << i;
    expected[at] += used;
  }
  stops = true;
  mover.join();
  for (size_t i = 0; i < actors; ++i) EXPECT_EQ(one.used(names[i]), expected[i]) << names[i];
}

// In whatever order the keys of a hold move, a commit in between is done as a whole or not at all.
TEST_F(HoldsInCluster, EachOrderOfItsKeysLosesNothing) {
  Server server(options());
  const std::string actor = "moves";
  const uint16_t slot = slot_of_actor(actor);
  std::string tag;
  append_tag(tag, actor);
  std::array<size_t, 4> order{0, 1, 2, 3};
  int64_t used = server.used(actor);
  int between = 0;
  do {
    const HoldCall held = server.reserve({}, actor, 5);
    ASSERT_EQ(held.outcome, HoldOutcome::done);
    const std::string head = "sluice:" + HoldSlots::tag_of(slot);
    const std::array keys{"sluice:" + tag + "test:" + actor,
                          "sluice:" + tag + "given:test:" + actor, head + "hold::" + held.made_id,
                          head + "holds"};
    const size_t from = cluster().owner_of(slot), to = (from + 1) % cluster().size();
    const std::string port = std::to_string(cluster().node(to).port());
    cluster().begin_move(slot, from, to);
    HoldCall done;
    for (const size_t i : order) {
      const auto moved =
          cluster().node(from).client()({"MIGRATE", "127.0.0.1", port, keys[i], "0", "20000"});
      ASSERT_FALSE(moved.is_error()) << moved.text;
      if (done.outcome == HoldOutcome::done) continue;
      done = server.settle(HoldAsk::commit, held.made_id, {2});
      ASSERT_TRUE(done.outcome == HoldOutcome::done || done.outcome == HoldOutcome::failed);
      between += done.outcome == HoldOutcome::done ? 1 : 0;
    }
    cluster().move_keys(slot, from, to);
    cluster().end_move(slot, from, to);
    const auto deadline = tests::soon();
    do {
      done = server.settle(HoldAsk::commit, held.made_id, {2});
    } while (done.outcome == HoldOutcome::failed && steady_clock::now() < deadline);
    ASSERT_EQ(done.outcome, HoldOutcome::done);
    EXPECT_EQ(done.returned, 3);
    ASSERT_EQ(server.used(actor), used += 2) << order[0] << order[1] << order[2] << order[3];
    EXPECT_EQ(cluster().at_owner({"DEL", keys[2]}, keys[2]).number, 1);
  } while (std::ranges::next_permutation(order).found);
  RecordProperty("commits_between", between);
}

// A put looks beside its counter whether that has holds; where the key is missing as its slot moves
// that is found before anything is written.
TEST_F(HoldsInCluster, APutInASlotThatMovesIsDoneOnce) {
  Server server(options());
  const std::string actor = "puts";
  const uint16_t slot = slot_of_actor(actor);
  std::vector<limit::Decision> decisions;
  server.world().ask({server.charge(actor, Verb::take, 10)}, decisions);
  const size_t from = cluster().owner_of(slot), to = (from + 1) % cluster().size();
  cluster().begin_move(slot, from, to);
  const auto put = [&] {
    std::vector<request::Group> groups = {{.charge_count = 1}};
    std::vector<Charge> charges{server.charge(actor, Verb::put, 1)};
    EXPECT_TRUE(server.world().ask(groups, charges, decisions, server.world().now()));
    return groups[0].error;
  };
  const bool at_once = put() == Error::none;
  EXPECT_EQ(server.used(actor), at_once ? 9 : 10);
  cluster().move_keys(slot, from, to);
  cluster().end_move(slot, from, to);
  const auto deadline = tests::soon();
  bool again = at_once;
  while (!again && steady_clock::now() < deadline) again = put() == Error::none;
  EXPECT_EQ(server.used(actor), 9);
}

// A replica takes over, with the records as with the counters.
TEST(HoldsInAFailover, AreSettledByTheNextPrimary) {
  tests::RedisCluster cluster({.primaries = 3, .replicas = 1, .node_timeout_ms = 1'000});
  const Options options = ClusterWorld::options_for(cluster);
  Server one(options), other(options);
  one.used("ann");
  other.used("ann");
  const HoldCall held = one.reserve({}, "ann", 9);
  ASSERT_EQ(held.outcome, HoldOutcome::done);
  ASSERT_EQ(one.reserve(an_id, "ann", 5).outcome, HoldOutcome::done);
  // What was written before has reached the replica with this.
  const size_t owner = cluster.owner_of(slot_of_actor("ann"));
  std::string key = "last";
  append_tag(key, "ann");
  tests::RedisClient client = cluster.node(owner).client();
  client({"SET", key, "1"});
  ASSERT_EQ(client({"WAIT", "1", "20000"}).number, 1);
  cluster.stop(owner);
  const auto deadline = tests::soon();
  const auto settle = [&](HoldAsk what, const std::string& id, std::vector<int64_t> units) {
    HoldCall call;
    do {
      other.world().turn();
      call = other.settle(what, id, units);
    } while (call.outcome == HoldOutcome::failed && steady_clock::now() < deadline);
    return call;
  };
  EXPECT_EQ(settle(HoldAsk::commit, held.made_id, {2}).returned, 7);
  EXPECT_EQ(settle(HoldAsk::release, an_id, {}).outcome, HoldOutcome::done);
  EXPECT_EQ(other.used("ann"), 2);
}

}  // namespace
}  // namespace sluice::redis::holds_cluster_test
