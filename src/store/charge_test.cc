// Charges (Verb::charge), and limits that count (Verb::count), in the table in memory: counters
// with several limits of all algorithms, alone and in groups, against the naive models of
// testing/usage_model.h. And charges beside requests that wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "store/asking_test.h"
#include "testing/usage_model.h"
#include "tests/support/dice.h"

namespace sluice::store::charge_test {
namespace {

using limit::LimitMask;
using limit::usage_model::Model;
using limit::usage_model::model_of;
using limit::usage_model::reset_of;
using limit::usage_model::taken_of;
using limit::usage_model::wait_of;
using sluice::tests::Dice;
using namespace tests;

std::string text(const Decision& d) {
  return std::string(d.allowed ? "allowed" : "refused") + " of " + std::to_string(d.limit) +
         " left " + std::to_string(d.remaining) + " reset " + std::to_string(d.reset_after.us) +
         " retry " + std::to_string(d.retry_after.us);
}

Limit random_limit(Dice& dice) {
  const auto algorithm =
      static_cast<Algorithm>(static_cast<int>(Algorithm::fixed_window) + dice(7));
  const int64_t quota = 1 + dice(int64_t{8}), us = 1 + dice(int64_t{20});
  if (algorithm == Algorithm::fixed_bucket) return fixed(quota);
  if (algorithm == Algorithm::token_bucket) return bucket(1 + dice(int64_t{8}), quota, us);
  return {algorithm, quota, {us}, algorithm == Algorithm::concurrency ? us : 0};
}

// A counter with its rule, and a model of each limit.
struct Counter {
  std::string key;
  std::vector<Limit> limits;
  LimitMask counts = 0;
  std::vector<std::unique_ptr<Model>> models{};
  limit::Overdrafts overdrafts{};

  // As a reload may, or an override: the state of the counter goes on.
  void change_overdrafts(Dice& dice) {
    overdrafts = {};
    for (const Limit& limit : limits)
      overdrafts.add(limit, dice(2) == 0 ? limit::Overdrafts::none : dice(int64_t{6}));
  }
  void reset() {
    models.clear();
    for (const Limit& limit : limits) models.push_back(model_of(limit));
  }
  bool is_fresh(int64_t now) const {
    return std::all_of(models.begin(), models.end(),
                       [&](const auto& model) { return model->is_fresh(now); });
  }
};

// What the limits of a counter answer to one charge of a group; `all`: the group is allowed.
// `dropped`: as Charge has it.
std::vector<std::string> settled(Counter& c, Verb verb, int64_t cost, LimitMask counts, bool all,
                                 int64_t now, int64_t& dropped) {
  std::vector<std::string> texts;
  dropped = 0;
  for (size_t i = 0; i < c.limits.size(); ++i) {
    const Limit& limit = c.limits[i];
    Decision d{true, limit::units_max(limit), 0, {}, {}};
    auto look = c.models[i]->copy();
    Model& model = verb == Verb::peek ? *look : *c.models[i];
    model.see(now);
    const int64_t room = taken_of(cost, model.remaining(now), c.overdrafts.most[i]);
    if (verb == Verb::put) model.put(cost, now);
    if (verb == Verb::charge) {
      model.add(room, now);
      dropped = std::max(dropped, cost - room);
      d.retry_after = wait_of(model, limit, 1, now);
    }
    if (verb == Verb::take || verb == Verb::count) {
      d.allowed = cost <= model.remaining(now);
      if (all || limit::has(counts, i)) model.add(d.allowed ? cost : room, now);
      if (!d.allowed) d.retry_after = wait_of(model, limit, cost, now);
    }
    d.remaining = model.remaining(now);
    d.reset_after = reset_of(model, limit, now);
    texts.push_back(text(d));
  }
  return texts;
}

bool fits(const Counter& c, int64_t cost, int64_t now) {
  return std::all_of(c.models.begin(), c.models.end(), [&](const auto& model) {
    const auto then = model->copy();
    then->see(now);
    return cost <= then->remaining(now);
  });
}

struct Seen {
  size_t in_debt = 0, refused_and_charged = 0, mixed = 0, charged = 0, dropped = 0;
};

// Compares the decisions of a group with the models, and lets these do the same.
void compare(const Asked& asked, const std::vector<Counter*>& counters, bool all, int64_t now,
             Seen& seen) {
  ASSERT_EQ(asked.group.error, request::Error::none);
  ASSERT_EQ(asked.allowed(), all);
  size_t at = 0;
  for (size_t i = 0; i < counters.size(); ++i) {
    const request::Charge& charge = asked.charges[i];
    int64_t dropped = 0;
    const auto expected =
        settled(*counters[i], charge.verb, charge.cost, charge.counts, all, now, dropped);
    for (size_t l = 0; l < expected.size(); ++l, ++at) {
      const Limit& limit = charge.limits[l];
      ASSERT_EQ(text(asked[at]), expected[l])
          << name_of(charge.verb) << " " << charge.cost << " of " << charge.key << " limit " << l
          << ": " << name_of(limit.algorithm) << " " << limit.quota << "/" << limit.window.us << "/"
          << limit.burst << " at " << now;
      seen.in_debt += asked[at].remaining < 0 ? 1u : 0u;
    }
    ASSERT_EQ(charge.dropped, dropped);
    seen.dropped += dropped > 0 ? 1u : 0u;
    seen.charged += charge.verb == Verb::charge ? 1u : 0u;
    if (all || charge.verb != Verb::count) continue;
    ++seen.refused_and_charged;
    seen.mixed += charge.counts != limit::all_of(charge.limits) ? 1u : 0u;
  }
}

std::vector<Counter> random_counters(Dice& dice) {
  std::vector<Counter> counters;
  for (int i = 0; i < 3; ++i) {
    Counter c{"k" + std::to_string(i), {}};
    const size_t count = 1 + dice(size_t{3});
    for (size_t l = 0; l < count; ++l) c.limits.push_back(random_limit(dice));
    c.counts = static_cast<LimitMask>(dice(1u << count));
    c.change_overdrafts(dice);
    c.reset();
    counters.push_back(std::move(c));
  }
  return counters;
}

// One group of random charges on some of the counters.
void ask_some(World& w, std::vector<Counter>& counters, Dice& dice, int64_t now, Seen& seen) {
  std::vector<Counter*> asked_of;
  for (Counter& c : counters)
    if (dice(2) == 0) asked_of.push_back(&c);
  if (asked_of.empty()) return;
  const size_t what = dice(size_t{12});
  const Verb verb = what == 0   ? Verb::peek
                    : what <= 2 ? Verb::put
                    : what <= 5 ? Verb::charge
                                : Verb::take;
  std::vector<Part> parts;
  for (const Counter* c : asked_of) parts.push_back({c->key, dice(int64_t{6}), c->limits});
  Asked asked = w.prepare(parts, verb);
  bool all = true;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (dice(15) == 0) asked_of[i]->change_overdrafts(dice);
    const limit::Overdrafts& overdrafts = asked_of[i]->overdrafts;
    if (overdrafts.has_any()) asked.charges[i].overdrafts = &overdrafts;
    if (verb != Verb::take) continue;
    // Now and then a strict request, whose refusal takes nothing.
    const bool counts = asked_of[i]->counts != 0 && dice(5) > 0;
    if (counts) asked.charges[i].verb = Verb::count;
    if (counts) asked.charges[i].counts = asked_of[i]->counts;
    all = all && fits(*asked_of[i], parts[i].cost, now);
  }
  ASSERT_NO_FATAL_FAILURE(w.apply(asked, {now}));
  compare(asked, asked_of, all, now, seen);
}

TEST(Charges, RandomGroupsUnderSeveralLimitsMatchTheModels) {
  Dice dice(20261128);
  Seen seen;
  for (int round = 0; round < 150; ++round) {
    World w;
    std::vector<Counter> counters = random_counters(dice);
    int64_t now = dice(int64_t{50});
    for (int step = 0; step < 120; ++step) {
      now += dice(9) == 0 ? -dice(int64_t{8}) : dice(int64_t{5});
      ASSERT_NO_FATAL_FAILURE(ask_some(w, counters, dice, now, seen)) << round << " " << step;
      if (dice(20) == 0) {
        w.store.sweep({now}, 100'000);
        for (Counter& c : counters)
          if (c.is_fresh(now)) c.reset();
      }
      if (dice(25) == 0) {
        Counter& c = counters[dice(counters.size())];
        w.put_all({c.key, 0, c.limits}, {now});
        c.reset();
        for (const auto& model : c.models) model->see(now);
      }
    }
  }
  EXPECT_GT(seen.in_debt, 5'000u);
  EXPECT_GT(seen.refused_and_charged, 1'000u);
  EXPECT_GT(seen.mixed, 500u);
  EXPECT_GT(seen.charged, 2'500u);
  EXPECT_GT(seen.dropped, 500u);
}

// The case of the issue: 90 of 100 used, a look, then a report of 25.
TEST(Charges, ALookAfterAReportThatDidNotFitIsRefused) {
  for (const Limit& limit : {window(100, 60), Limit{Algorithm::aligned_window, 100, {60}},
                             bucket(100, 100, 6'000), Limit{Algorithm::sliding_window, 100, {60}},
                             Limit{Algorithm::sliding_log, 100, {60}}, fixed(100)}) {
    for (const Verb verb : {Verb::count, Verb::charge}) {
      World w;
      w.ask({{"k", 90, {limit}}}, {0});
      EXPECT_TRUE(w.ask({{"k", 0, {limit}}}, {1}, Verb::take).allowed());
      EXPECT_EQ(w.ask({{"k", 25, {limit}}}, {1}, verb).allowed(), verb == Verb::charge);
      const Asked look = w.ask({{"k", 0, {limit}}}, {2}, Verb::take);
      EXPECT_FALSE(look.allowed()) << name_of(limit.algorithm);
      EXPECT_EQ(look[0].remaining, -15);
    }
    // Without either the report is forgotten, and the next look passes.
    World w;
    w.ask({{"k", 90, {limit}}}, {0});
    EXPECT_FALSE(w.ask({{"k", 25, {limit}}}, {1}).allowed());
    EXPECT_TRUE(w.ask({{"k", 0, {limit}}}, {2}).allowed());
  }
  // Exactly none left is not debt.
  World w;
  w.ask({{"k", 100, {fixed(100)}}}, {0}, Verb::charge);
  EXPECT_TRUE(w.ask({{"k", 0, {fixed(100)}}}, {0}).allowed());
}

TEST(Charges, ALookMakesNoCounterAndUnitsHaveABound) {
  World w;
  EXPECT_TRUE(w.ask({{"k", 0, {window(5, 60)}}}, {0}, Verb::charge).allowed());
  EXPECT_EQ(w.store.stats().counters, 0u);
  for (const Limit& limit : {window(5, 60), Limit{Algorithm::aligned_window, 5, {60}},
                             bucket(5, 5, 60), Limit{Algorithm::sliding_window, 5, {60}},
                             Limit{Algorithm::sliding_log, 5, {60}}, fixed(5)}) {
    const std::vector<Part> all = {{std::string(name_of(limit.algorithm)), INT64_MAX, {limit}}};
    Asked asked = w.ask(all, {0}, Verb::charge);
    EXPECT_TRUE(asked.allowed());
    EXPECT_EQ(asked[0].remaining, 5 - limit::used_max) << name_of(limit.algorithm);
    EXPECT_EQ(asked.charges[0].dropped, INT64_MAX - limit::used_max);
    asked = w.ask(all, {0}, Verb::charge);
    EXPECT_EQ(asked[0].remaining, 5 - limit::used_max) << name_of(limit.algorithm);
    EXPECT_EQ(asked.charges[0].dropped, INT64_MAX);
  }
}

// 31 years of a bucket's window, and so many units that they would come back after the end of time.
TEST(Charges, ABucketTakesNoMoreThanComesBackByTheLastMoment) {
  World w;
  const Limit slow = bucket(1, 1, 1'000'000'000'000'000);
  const base::Time now{1'800'000'000'000'000};
  const Asked asked = w.ask({{"k", 1'000'000, {slow}}}, now, Verb::charge);
  const int64_t charged = 1'000'000 - asked.charges[0].dropped;
  EXPECT_EQ(charged, (INT64_MAX - now.us) / slow.window.us);
  EXPECT_EQ(asked[0].remaining, 1 - charged);
}

TEST(Charges, LimitsWithoutACounterAreNotCharged) {
  World w;
  const Limit deny{Algorithm::deny, 0, {}}, unlimited{Algorithm::unlimited, 7, {}};
  Asked asked = w.ask({{"k", 5, {deny}}}, {0}, Verb::charge);
  EXPECT_TRUE(asked.allowed());
  EXPECT_EQ(asked[0].retry_after, base::never);
  asked = w.ask({{"k", 5, {unlimited}}}, {0}, Verb::charge);
  EXPECT_TRUE(asked.allowed());
  EXPECT_EQ(asked[0].retry_after, base::Duration{});
  EXPECT_EQ(w.store.stats().counters, 0u);
}

// 33 charges at different times under a quota of 1: from the 33rd on two are one, too late.
TEST(Charges, ALogOfOneUnitKeepsThirtyTwoTimes) {
  World w;
  const Limit one{Algorithm::sliding_log, 1, {1'000'000}};
  for (int64_t i = 0; i < 32; ++i) w.ask({{"k", 1, {one}}}, {i * 10'000}, Verb::charge);
  for (int64_t i = 0; i < 32; ++i) {
    // Each ends by itself, to the microsecond.
    EXPECT_EQ(w.left({"k", 0, {one}}, {1'000'000 + i * 10'000 - 1}), 1 - (32 - i));
    EXPECT_EQ(w.left({"k", 0, {one}}, {1'000'000 + i * 10'000}), 1 - (31 - i));
  }
  for (int64_t i = 32; i < 90; ++i) w.ask({{"k", 1, {one}}}, {i * 10'000}, Verb::charge);
  const int64_t slot_us = limit::sliding_log::slot_us(one.window.us);
  for (int64_t us = 1'000'000; us < 2'000'000; us += 5'000) {
    int64_t least = 0, most = 0;
    for (int64_t i = 0; i < 90; ++i) {
      least += i * 10'000 + 1'000'000 > us ? 1 : 0;
      most += i * 10'000 + 1'000'000 + slot_us > us ? 1 : 0;
    }
    const int64_t used = 1 - w.left({"k", 0, {one}}, {us});
    EXPECT_GE(used, least) << us;
    EXPECT_LE(used, most) << us;
  }
}

// A counter that is not in debt costs what it did: one cell for a bucket, min(quota, 32) for a log.
TEST(Charges, OnlyDebtCostsMemory) {
  World w;
  const Limit tokens = bucket(5, 5, 1'000), log{Algorithm::sliding_log, 2, {1'000}};
  const std::vector<Part> both = {{"k", 5, {tokens, log}}};
  w.ask({{"k", 2, {tokens, log}}}, {0}, Verb::charge);
  const uint64_t before = w.store.stats().memory_bytes;
  w.ask(both, {1}, Verb::charge);
  w.ask(both, {2}, Verb::charge);
  EXPECT_EQ(w.ask(both, {2}, Verb::peek)[0].remaining, -7);
  // Paid back: the cells of debt are gone with the next write.
  w.ask({{"k", 1, {tokens, log}}}, {10'000});
  EXPECT_EQ(w.store.stats().memory_bytes, before);
  EXPECT_EQ(w.ask(both, {10'000}, Verb::peek)[0].remaining, 4);
}

// Charges take from under those that wait; these go on waiting, and get what comes.
TEST(Charges, RequestsThatWaitContinueToWaitInDebt) {
  World w;
  Counting at;
  const Limit tokens = bucket(2, 1, 10);
  w.ask({{"k", 2, {tokens}}}, {0});
  EXPECT_TRUE(w.wait(at, 1, {{"k", 1, {tokens}}}, {0}).group.parked);
  const Asked charged = w.ask({{"k", 3, {tokens}}}, {5}, Verb::charge);
  EXPECT_EQ(charged[0].remaining, -3);
  // 2.5 units of debt, one for the request that waits, one for the next: 45 microseconds.
  EXPECT_EQ(charged[0].retry_after.us, 45);
  EXPECT_TRUE(w.answered(at, {39}).empty());
  EXPECT_EQ(w.answered(at, {40}), std::vector<uint32_t>{1});
  EXPECT_TRUE(at.settled[0].decisions[0].allowed);
  // A take that counts and does not fit behind those that wait is refused and charged.
  EXPECT_TRUE(w.wait(at, 2, {{"k", 1, {tokens}}}, {40}).group.parked);
  const Asked refused = w.ask({{"k", 1, {tokens}}}, {51}, Verb::count);
  EXPECT_FALSE(refused.allowed());
  EXPECT_EQ(w.answered(at, {59}), std::vector<uint32_t>{});
  EXPECT_EQ(w.answered(at, {60}), std::vector<uint32_t>{2});
}

// Other limits for the counter: what was used, debt too, goes on.
TEST(Charges, DebtOutlastsChangesOfTheLimits) {
  World w;
  const Limit five = bucket(5, 1, 100), ten = bucket(10, 1, 100), two = bucket(2, 1, 100);
  w.ask({{"k", 8, {five}}}, {0}, Verb::charge);
  EXPECT_EQ(w.left({"k", 0, {five}}, {0}), -3);
  EXPECT_EQ(w.left({"k", 0, {ten}}, {0}), 2);
  EXPECT_EQ(w.left({"k", 0, {two}}, {0}), -3);
  EXPECT_EQ(w.left({"k", 0, {fixed(5)}}, {0}), -3);
  w.ask({{"k", 0, {two}}}, {0});
  EXPECT_EQ(w.left({"k", 0, {five}}, {0}), -3);
  // Under another rule for a while: the debt is paid meanwhile.
  w.ask({{"k", 1, {window(5, 60)}}}, {100});
  EXPECT_EQ(w.left({"k", 0, {five}}, {200}), -1);
  const Limit log{Algorithm::sliding_log, 2, {1'000}};
  for (int64_t i = 0; i < 5; ++i) w.ask({{"l", 1, {log}}}, {i}, Verb::charge);
  const Limit more{Algorithm::sliding_log, 4, {1'000}};
  w.ask({{"l", 0, {more}}}, {10});
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(w.left({"l", 0, {more}}, {1'000 + i}), i);
}

}  // namespace
}  // namespace sluice::store::charge_test
