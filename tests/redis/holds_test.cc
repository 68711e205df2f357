// Holds in Redis: as the naive model has them and as the table in memory does, at each time.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/holds_model_test.h"
#include "tests/redis/holds_world.h"
#include "tests/support/dice.h"

namespace sluice::redis::holds_test {
namespace {

using limit::Algorithm;
using limit::Limit;
using request::Charge;
using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::HoldTerms;
using request::Verb;
using store::HoldBook;
using store::holds_test::first_id;
using store::holds_test::HoldsInMemory;
using store::holds_test::noon;
using store::holds_test::quota;
using store::holds_test::second;
using store::holds_test::second_id;

// As store/holds_test.cc has it: two subjects, each with a counter of its own, and one that both
// share.
struct World {
  explicit World(const HoldBook::Options& options = {}, const HoldTerms& its_terms = {})
      : redis(options), terms(its_terms), holds(redis.book()) {
    space = redis.spaces.hold("test:", "", {});
    limits = redis.spaces.hold_limits({&limit, 1});
  }
  Charge charge(std::string_view key, Verb verb, int64_t cost) const {
    return {.space = space.get(),
            .key = names.emplace_back(HoldsInRedis::named(key)),
            .verb = verb,
            .cost = cost,
            .limits = {&limit, 1},
            .limits_id = limits.id()};
  }
  HoldCall reserve(std::string_view id, std::array<int64_t, 2> units, base::Duration ttl = {},
                   uint64_t content = 0, std::string_view user = {}) {
    std::vector<Charge> charges{charge("a", Verb::reserve, units[0]),
                                charge("b", Verb::reserve, units[1]),
                                charge("both", Verb::reserve, units[0] + units[1])};
    std::vector<limit::Decision> decisions(charges.size());
    for (uint32_t i = 0; i < charges.size(); ++i) charges[i].decision_first = i;
    request::Group group{.charge_count = 3};
    const std::vector<HoldBook::Share> shares{{1, "a"}, {2, "b"}, {3, "both"}};
    HoldCall call{.user = user, .id = id, .content = content, .ttl = ttl, .holder = "somebody"};
    EXPECT_TRUE(
        holds.reserve(call, terms, {{&group, 1}, charges, decisions}, shares, units, {now}, {}));
    return call;
  }
  HoldCall ask(HoldAsk what, std::string_view id, std::vector<int64_t> units = {},
               base::Duration ttl = {}, std::string_view user = {}) {
    HoldCall call{.ask = what, .user = user, .id = id, .ttl = ttl, .units = std::move(units)};
    EXPECT_TRUE(holds.settle(call, {now}, {}));
    return call;
  }
  int64_t used(std::string_view key, Verb verb = Verb::peek, int64_t cost = 0) {
    holds.end_due({now});
    std::vector<Charge> charges{charge(key, verb, cost)};
    std::vector<limit::Decision> decisions(1);
    redis.settle(charges, decisions, now);
    return quota - decisions[0].remaining;
  }

  const Limit limit{Algorithm::fixed_bucket, quota, {}, quota};
  HoldsInRedis redis;
  HoldTerms terms;
  HoldBook& holds;
  request::SpaceRef space;
  request::LimitsRef limits;
  mutable std::deque<std::string> names;
  int64_t now = noon;
};

// With one Redis, and with a Redis Cluster.
class RedisHolds : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() != std::string_view("Cluster")) return;
    static tests::RedisCluster the_cluster;
    HoldsInRedis::cluster = &the_cluster;
  }
  void TearDown() override { HoldsInRedis::cluster = nullptr; }
  // How often a random history is tried, of so many with one Redis.
  static int rounds(int most) { return HoldsInRedis::cluster == nullptr ? most : most / 3 + 1; }
};
INSTANTIATE_TEST_SUITE_P(In, RedisHolds, testing::Values("One", "Cluster"),
                         [](const auto& in) { return std::string(in.param); });

TEST_P(RedisHolds, EqualTheModelInAnyHistory) {
  EXPECT_NO_FATAL_FAILURE(store::holds_test::equal_the_model<World>(rounds(40)));
}

TEST_P(RedisHolds, NothingExceedsALimitWhileTheListsChange) {
  EXPECT_NO_FATAL_FAILURE(store::holds_test::nothing_exceeds(
      [] { return std::make_unique<HoldsInRedis>(HoldBook::Options{}); }, rounds(80)));
}

TEST_P(RedisHolds, NothingStaysWhenAllIsSettledAndForgotten) {
  World world({.remember = {second}});
  EXPECT_EQ(world.reserve(first_id, {30, 20}, {5 * second}, 0, "ann").outcome, HoldOutcome::done);
  EXPECT_EQ(world.reserve(second_id, {3, 2}, {5 * second}).outcome, HoldOutcome::done);
  EXPECT_EQ(world.ask(HoldAsk::extend, second_id, {1, 1}).outcome, HoldOutcome::done);
  EXPECT_EQ(world.ask(HoldAsk::release, second_id).returned, 7);
  world.now += 6 * second;
  EXPECT_EQ(world.used("both"), 0);
  // The settled ones are keys that Redis forgets by itself.
  size_t records = 0;
  for (tests::RedisClient& client : world.redis.clients())
    for (const tests::RedisReply& key : client({"KEYS", "*"}).list) {
      if (key.text == "sluice:hold_slots") continue;  // a number for each slot
      const bool is_record = key.text.find("hold:") != key.text.npos;
      records += is_record ? 1u : 0u;
      EXPECT_TRUE(is_record || key.text.starts_with("sluice:hold_at:")) << key.text;
      EXPECT_GT(client({"PTTL", key.text}).number, 0) << key.text;
    }
  EXPECT_EQ(records, 2u);
}

TEST_P(RedisHolds, AreBoundedForAllAndForEachUser) {
  World world({.most = 2, .user_part = 2});
  EXPECT_EQ(world.reserve(first_id, {1, 0}, {}, 0, "ann").outcome, HoldOutcome::done);
  EXPECT_EQ(world.reserve(second_id, {1, 0}, {}, 0, "ann").outcome, HoldOutcome::full);
  EXPECT_EQ(world.reserve(second_id, {1, 0}, {}, 0, "bob").outcome, HoldOutcome::done);
  EXPECT_EQ(world.reserve(second_id, {1, 0}, {}, 0, "eve").outcome, HoldOutcome::full);
  EXPECT_EQ(world.used("a"), 2);
  EXPECT_EQ(world.ask(HoldAsk::release, first_id, {}, {}, "bob").outcome, HoldOutcome::unknown);
  EXPECT_EQ(world.ask(HoldAsk::release, first_id, {}, {}, "ann").outcome, HoldOutcome::done);
  EXPECT_EQ(world.reserve(second_id, {1, 0}, {}, 0, "eve").outcome, HoldOutcome::done);
}

TEST_P(RedisHolds, AreListed) {
  World world;
  for (int i = 0; i < 250; ++i)
    ASSERT_EQ(world.reserve("hold-number-" + std::to_string(1000 + i), {0, 0}).outcome,
              HoldOutcome::done);
  world.reserve(first_id, {3, 4}, {5 * second}, 0, "ann");
  world.now += second;
  size_t count = 0;
  std::optional<HoldBook::Listed> found;
  world.holds.each({world.now}, [&](const HoldBook::Listed& one) {
    ++count;
    if (one.id == first_id) found = one;
    return true;
  });
  EXPECT_EQ(count, 251u);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->user, "ann");
  EXPECT_EQ(found->holder, "somebody");
  EXPECT_EQ(found->units, 7);
  EXPECT_EQ(found->rule, "a");
  EXPECT_EQ(found->actor, HoldsInRedis::named("a"));
  EXPECT_EQ(found->counter, "test:" + HoldsInRedis::named("a"));
  EXPECT_EQ(found->age.us, second);
  EXPECT_EQ(found->ends_in.us, 4 * second);
}

TEST_P(RedisHolds, ManyExtensionsKeepTheirBound) {
  World world;
  ASSERT_EQ(world.reserve(first_id, {0, 0}).outcome, HoldOutcome::done);
  for (int i = 0; i < 400; ++i) world.ask(HoldAsk::extend, first_id, {i % 8 == 0 ? 1 : 0, 0});
  EXPECT_EQ(world.used("a"), 50);
  const HoldCall back = world.ask(HoldAsk::release, first_id);
  EXPECT_EQ(back.outcome, HoldOutcome::done);
  EXPECT_EQ(back.returned, 10);
  EXPECT_EQ(world.used("a"), 40);
}

// An operator's DEL, or an eviction: what was given back is not known any more, so nothing goes
// back.
TEST_P(RedisHolds, WithoutWhatWasGivenBackNothingGoesBack) {
  World world;
  world.reserve(first_id, {40, 0});
  std::string key = "sluice:";
  if (HoldsInRedis::cluster != nullptr) append_tag(key, HoldsInRedis::named("a"));
  key += "given:test:" + HoldsInRedis::named("a");
  EXPECT_EQ(world.redis.client_of(key)({"DEL", key}).number, 1);
  world.ask(HoldAsk::release, first_id);
  EXPECT_EQ(world.used("a"), 40);
  EXPECT_EQ(world.used("both"), 0);
}

TEST_P(RedisHolds, ACommitOfAnUnknownHoldIsChargedOnce) {
  World world;
  EXPECT_EQ(world.ask(HoldAsk::commit, first_id, {7}).outcome, HoldOutcome::unknown);
  const auto charge = [&](int64_t units, bool& known) {
    HoldCall call{.ask = HoldAsk::commit, .id = first_id, .units = {units}};
    Charge one = world.charge("a", Verb::charge, units);
    limit::Decision decision;
    request::Group group{.charge_count = 1};
    const HoldBook::Share share{1, "a"};
    EXPECT_TRUE(world.holds.charge_unknown(call, {{&group, 1}, {&one, 1}, {&decision, 1}},
                                           {&share, 1}, {world.now}, {}, known));
    if (!known) {
      EXPECT_EQ(decision.remaining, quota - units);
    }
    return call;
  };
  bool known = true;
  const HoldCall done = charge(7, known);
  EXPECT_FALSE(known);
  EXPECT_EQ(done.outcome, HoldOutcome::done);
  EXPECT_EQ(done.charged, 7);
  EXPECT_TRUE(done.late);
  // Another request with the id was faster.
  EXPECT_EQ(charge(8, known).outcome, HoldOutcome::settled);
  EXPECT_TRUE(known);
  EXPECT_TRUE(charge(7, known).repeated);
  EXPECT_EQ(world.used("a"), 7);
  const HoldCall again = world.ask(HoldAsk::commit, first_id, {7});
  EXPECT_EQ(again.outcome, HoldOutcome::done);
  EXPECT_TRUE(again.repeated && again.late);
  EXPECT_EQ(again.charged, 7);
  EXPECT_EQ(again.rule, "a");
  EXPECT_EQ(again.decision.remaining, 93);
  EXPECT_EQ(world.reserve(first_id, {1, 0}).outcome, HoldOutcome::settled);
}

// Rules in shadow have a group for each subject, on one counter too.
TEST_P(RedisHolds, RulesInShadowAreSettledEachByItself) {
  for (const bool is_refused : {false, true}) {
    World world;
    if (is_refused) world.used("both", Verb::take, 90);
    std::vector<Charge> charges{
        world.charge("shadow", Verb::reserve, 10), world.charge("shadow", Verb::reserve, 20),
        world.charge("shadow", Verb::reserve, 80), world.charge("both", Verb::reserve, 30)};
    std::vector<limit::Decision> decisions(charges.size());
    for (uint32_t i = 0; i < charges.size(); ++i) charges[i].decision_first = i;
    std::vector<request::Group> groups;
    for (uint32_t i = 0; i < 4; ++i)
      groups.push_back({.charge_first = i, .charge_count = 1, .may_fail = i < 3});
    const std::vector<HoldBook::Share> shares{{1, "s"}, {2, "s"}, {1, "s"}, {3, "both"}};
    const std::vector<int64_t> units{10, 20};
    HoldCall call{.id = first_id};
    EXPECT_TRUE(world.holds.reserve(call, {}, {groups, charges, decisions}, shares, units,
                                    {world.now}, {}));
    EXPECT_EQ(call.outcome, is_refused ? HoldOutcome::refused : HoldOutcome::done);
    EXPECT_EQ(groups[3].allowed, !is_refused);
    EXPECT_EQ(world.used("shadow"), is_refused ? 0 : 30);
    if (is_refused) continue;
    EXPECT_FALSE(groups[2].allowed);
    EXPECT_EQ(world.ask(HoldAsk::extend, first_id, {5, 1}).outcome, HoldOutcome::done);
    EXPECT_EQ(world.used("shadow"), 36);
    world.used("shadow", Verb::take, 64);
    EXPECT_EQ(world.ask(HoldAsk::extend, first_id, {5, 0}).outcome, HoldOutcome::done);
    EXPECT_EQ(world.used("shadow"), 100);
    const HoldCall done = world.ask(HoldAsk::commit, first_id, {4, 3});
    EXPECT_EQ(done.outcome, HoldOutcome::done);
    EXPECT_EQ(done.returned, 34);
    EXPECT_EQ(done.rule, "both");
    EXPECT_EQ(world.used("both"), 7);
    EXPECT_EQ(world.used("shadow"), 71);
  }
}

// ---- Against the table in memory ----

// The same requests over one counter, here and there.
class Twin {
 public:
  Twin(HoldsHere& here, std::vector<std::vector<Limit>> lists, const HoldTerms& terms,
       bool acquires = false)
      : here_(here), lists_(std::move(lists)), terms_(terms), acquires_(acquires) {
    for (const auto& list : lists_) ids_.push_back(here.spaces.hold_limits(list));
    space_ = here.spaces.hold("test:", "", {});
  }
  void use_list(size_t list) { list_ = list; }
  std::string ask(Verb verb, int64_t units, bool all, bool anew, int64_t now) {
    std::vector<Charge> charges{charge(verb, units)};
    charges[0].all = all;
    charges[0].reset_first = anew;
    std::vector<limit::Decision> decisions(limit::slots_max);
    here_.settle(charges, decisions, now);
    return told(decisions, verb == Verb::charge ? charges[0].dropped : 0);
  }
  std::string reserve(const std::string& id, int64_t units, int64_t ttl, int64_t now) {
    std::vector<Charge> charges{charge(Verb::reserve, units)};
    std::vector<limit::Decision> decisions(limit::slots_max);
    request::Group group{.charge_count = 1};
    const HoldBook::Share share{1, "rule"};
    HoldCall call{.id = id, .ttl = {ttl}, .is_place = acquires_};
    EXPECT_TRUE(here_.book().reserve(call, terms_, {{&group, 1}, charges, decisions}, {&share, 1},
                                     {&units, 1}, {now}, {}));
    const bool decided = call.outcome == HoldOutcome::done || call.outcome == HoldOutcome::refused;
    note_end(id, call, now);
    return told(call) + (decided ? told(decisions, 0) : "");
  }
  std::string settle(HoldAsk what, const std::string& id, int64_t units, int64_t now) {
    HoldCall call{.ask = what, .id = id};
    if (what == HoldAsk::commit || what == HoldAsk::extend) call.units = {units};
    EXPECT_TRUE(here_.book().settle(call, {now}, {}));
    note_end(id, call, now);
    return told(call);
  }
  void end_due(int64_t now) { here_.book().end_due({now}); }
  // When the next one ends; INT64_MAX: there is none. `count`: how many end then.
  int64_t next_end(int64_t after, size_t& count) const {
    int64_t next = INT64_MAX;
    count = 0;
    for (const auto& [id, end] : ends_) {
      if (end <= after || end > next) continue;
      count = end == next ? count + 1 : 1;
      next = end;
    }
    return next;
  }

 private:
  void note_end(const std::string& id, const HoldCall& call, int64_t now) {
    if (call.outcome == HoldOutcome::done) ends_[id] = now + call.ends_in.us;
  }
  Charge charge(Verb verb, int64_t units) const {
    return {.space = space_.get(),
            .key = "k",
            .verb = verb,
            .cost = units,
            .limits = lists_[list_],
            .limits_id = ids_[list_].id()};
  }
  std::string told(const std::vector<limit::Decision>& decisions, int64_t dropped) const {
    std::string text = " dropped " + std::to_string(dropped);
    for (size_t i = 0; i < lists_[list_].size(); ++i) text += " | " + text_of(decisions[i]);
    return text;
  }
  static std::string told(const HoldCall& call) {
    std::string text = "outcome " + std::to_string(static_cast<int>(call.outcome)) + " returned " +
                       std::to_string(call.returned) + " charged " + std::to_string(call.charged);
    if (call.outcome != HoldOutcome::done && call.outcome != HoldOutcome::refused) return text;
    text += " ends " + std::to_string(call.ends_in.us) + (call.late ? " late" : "") +
            (call.repeated ? " repeated" : "");
    if (call.has_decision)
      text += " shows " + std::to_string(call.decision.limit) + " " +
              std::to_string(call.decision.remaining) + " " + call.rule;
    return text;
  }

  HoldsHere& here_;
  const std::vector<std::vector<Limit>> lists_;
  const HoldTerms terms_;
  const bool acquires_;
  std::vector<request::LimitsRef> ids_;
  request::SpaceRef space_;
  size_t list_ = 0;
  std::map<std::string, int64_t> ends_;
};

Limit limit_of(Algorithm algorithm, int64_t units, int64_t window_us, int64_t burst = 0) {
  return {algorithm, units, {window_us}, burst};
}

// Random histories of one counter under each of the lists; empty: they were the same.
std::string differs(const std::vector<std::vector<Limit>>& lists, int rounds, uint32_t seed,
                    int64_t step_us, bool acquires = false) {
  tests::Dice dice(seed);
  int returns = 0;
  if (HoldsInRedis::cluster != nullptr) rounds = rounds / 3 + 1;
  for (int round = 0; round < rounds; ++round) {
    HoldTerms terms{.keeps = dice(2) == 0, .ignores_late = dice(2) == 0};
    if (acquires) terms = {.ttl_max = {6 * step_us}, .ignores_late = true};
    const HoldBook::Options options{.remember = {2 * step_us}};
    HoldsInMemory memory(options);
    HoldsInRedis redis(options);
    Twin here(memory, lists, terms, acquires), there(redis, lists, terms, acquires);
    int64_t now = noon + dice(int64_t{1'000'000});
    std::string told = "round " + std::to_string(round);
    for (int step = 0; step < 60; ++step) {
      const int64_t then = now + (dice(2) == 0 ? dice(step_us) : 0);
      // One after the other: what a bucket gets back depends on what it got before.
      bool together = false;
      for (size_t ending = 0; now < then;) {
        now = std::min(here.next_end(now, ending), then);
        together |= ending > 1;
        here.end_due(now);
        there.end_due(now);
      }
      if (together) break;
      const std::string id = "hold-number-" + std::to_string(1000 + dice(4));
      const int what = dice(14);
      const int64_t n = dice(int64_t{6});
      std::string a, b;
      const auto both = [&](const auto& ask) {
        a = ask(here);
        b = ask(there);
      };
      if (what <= 1) both([&](Twin& at) { return at.ask(Verb::take, n, false, false, now); });
      if (what == 2) both([&](Twin& at) { return at.ask(Verb::put, n, false, false, now); });
      if (what == 3 && dice(3) == 0)
        both([&](Twin& at) { return at.ask(Verb::put, 0, true, false, now); });
      if (what == 3 && dice(3) == 0)
        both([&](Twin& at) { return at.ask(Verb::take, n, false, true, now); });
      if (what == 4) both([&](Twin& at) { return at.ask(Verb::charge, n, false, false, now); });
      const int64_t ttl = step_us + dice(10 * step_us);
      if (what >= 5 && what <= 7) both([&](Twin& at) { return at.reserve(id, n, ttl, now); });
      if (what >= 8 && what <= 9)
        both([&](Twin& at) { return at.settle(HoldAsk::extend, id, n, now); });
      if (what == 10) both([&](Twin& at) { return at.settle(HoldAsk::renew, id, 0, now); });
      if (what >= 11 && what <= 12)
        both([&](Twin& at) { return at.settle(HoldAsk::commit, id, n, now); });
      if (what == 13) both([&](Twin& at) { return at.settle(HoldAsk::release, id, 0, now); });
      if (a.find(" returned ") != a.npos && a.find(" returned 0") == a.npos) ++returns;
      told += "\n" + std::to_string(now - noon) + " " + std::to_string(what) + " " + id + " " +
              std::to_string(n) + ": " + a;
      if (a != b) return told + "\nthere: " + b;
      a = here.ask(Verb::peek, 0, false, false, now);
      b = there.ask(Verb::peek, 0, false, false, now);
      if (a != b) return told + "\nis    " + a + "\nthere " + b;
    }
  }
  EXPECT_GT(returns, rounds / 4);
  return {};
}

TEST_P(RedisHolds, GiveBackAsTheTableInMemoryWithEachAlgorithm) {
  const std::vector<Limit> each{
      limit_of(Algorithm::fixed_window, 20, 40),    limit_of(Algorithm::aligned_window, 20, 40),
      limit_of(Algorithm::token_bucket, 7, 40, 20), limit_of(Algorithm::sliding_window, 20, 40),
      limit_of(Algorithm::sliding_log, 20, 40),     limit_of(Algorithm::fixed_bucket, 30, 0, 30)};
  for (size_t i = 0; i < each.size(); ++i)
    EXPECT_EQ(differs({{each[i]}}, 25, static_cast<uint32_t>(100 + i), 12), "")
        << "algorithm " << i;
  EXPECT_EQ(differs({{each[1], each[2]}}, 15, 7, 12), "");
  EXPECT_EQ(differs({{each[3], each[4], each[0]}}, 15, 8, 12), "");
}

TEST_P(RedisHolds, HoldPlacesAsTheTableInMemory) {
  const Limit places = limit_of(Algorithm::concurrency, 12, 30, 72),
              fewer = limit_of(Algorithm::concurrency, 7, 12, 40),
              many = limit_of(Algorithm::concurrency, 60, 30, 72),
              crowd = limit_of(Algorithm::concurrency, 200, 3'000, 3'000);  // more than 32 ends
  const Limit rate = limit_of(Algorithm::token_bucket, 7, 40, 20);
  for (const bool acquires : {true, false}) {
    EXPECT_EQ(differs({{places}}, 40, 21, 12, acquires), "");
    EXPECT_EQ(differs({{many}}, 20, 22, 12, acquires), "");
    EXPECT_EQ(differs({{crowd}}, 10, 26, 60, acquires), "");
    EXPECT_EQ(differs({{rate, places}}, 25, 23, 12, acquires), "");
    EXPECT_EQ(differs({{places, fewer}}, 20, 24, 12, acquires), "");
  }
  EXPECT_EQ(
      differs({{limit_of(Algorithm::concurrency, 5, 86'400 * second, 86'400 * 4000 * second)}}, 15,
              25, 86'400 * 900 * second, true),
      "");
}

// Numbers that a double does not hold, so that the other script decides.
TEST_P(RedisHolds, GiveBackAsTheTableInMemoryInLargeNumbers) {
  const int64_t day = 86'400 * second;
  EXPECT_EQ(differs({{limit_of(Algorithm::token_bucket, 1'000'000, day, 20)}}, 20, 1, day / 50'000),
            "");
  EXPECT_EQ(differs({{limit_of(Algorithm::sliding_window, 20, day * 4000)}}, 20, 2, day * 900), "");
}

}  // namespace
}  // namespace sluice::redis::holds_test
