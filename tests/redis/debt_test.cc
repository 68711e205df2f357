// Counters in debt, in a real Redis against the table in memory: many charges on one counter under
// limits that change, charges behind requests that wait, charges that are taken back, and counters
// that other programs share.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "redis/receipts.h"
#include "redis/script_call.h"
#include "store/asking_test.h"
#include "testing/grants_model.h"
#include "tests/redis/both_stores.h"
#include "tests/support/dice.h"

namespace sluice::redis::debt_test {
namespace {

using limit::Algorithm;
using tests::Dice;

constexpr int64_t start_us = 1'800'000'000'000'000, minute_us = 60'000'000;
constexpr std::array counted = {Algorithm::fixed_window, Algorithm::aligned_window,
                                Algorithm::token_bucket, Algorithm::sliding_window,
                                Algorithm::sliding_log,  Algorithm::fixed_bucket,
                                Algorithm::concurrency};

Limit limit_of(Algorithm algorithm, int64_t quota, int64_t window_us = minute_us) {
  if (algorithm == Algorithm::fixed_bucket) return {algorithm, quota, {}, quota};
  if (algorithm == Algorithm::concurrency) return {algorithm, quota, {window_us}, window_us};
  return {algorithm, quota, {window_us}, algorithm == Algorithm::token_bucket ? quota : 0};
}

std::string words(const Question& q, int64_t now_us) {
  std::string text = "at " + std::to_string(now_us - start_us);
  for (const Charge& c : q.charges) {
    text += " " + std::string(name_of(c.verb)) + (c.as_written ? " as written" : "");
    for (size_t i = 0; i < c.limits.size(); ++i)
      text += " " + std::to_string(c.cost_of(i)) + " of " +
              std::string(name_of(c.limits[i].algorithm)) + " " +
              std::to_string(c.limits[i].quota) + "/" + std::to_string(c.limits[i].window.us) +
              "/" + std::to_string(c.limits[i].burst) + (limit::has(c.counts, i) ? " counts" : "") +
              (c.overdraft_of(i) < limit::Overdrafts::none
                   ? " owes " + std::to_string(c.overdraft_of(i))
                   : "");
  }
  return text + "\n";
}

// Mostly charges, on one counter, so that it has many times of units and owes much.
void play(uint32_t seed, Weight least, int rounds, int64_t scale) {
  Both both;
  Dice dice(seed);
  size_t owing = 0, refused = 0, left = 0, full = 0, lives = 0, dropped = 0;
  request::Space like;
  like.carry = limit::CarryOver::apart;
  const request::Space& versions = *both.spaces.intern("u/", "/x");
  const request::Space& apart = *both.spaces.intern("v/", "/x", like);
  for (int round = 0; round < rounds; ++round) {
    const request::Space& space = dice(3) == 0 ? apart : versions;
    const auto lists = limit::any_lists(dice, minute_us);
    both.sweeps = dice(2) == 0;
    const bool changes = both.sweeps && dice(3) > 0;
    int64_t now = start_us + dice(minute_us);
    std::string told;
    for (int step = 0; step < 60; ++step) {
      if (dice(4) > 0) now += dice(minute_us / 12);
      if (!both.sweeps && dice(10) == 0) now -= dice(minute_us / 2);
      std::vector<Limit> list = lists[changes && dice(4) == 0 ? dice(lists.size()) : 0];
      for (Limit& one : list) {
        one.quota *= scale;
        if (is_bucket(one)) one.burst *= scale;
      }
      while (limit::cells(list) > limit::cells_max) list.pop_back();
      Question q;
      const Verb verb = dice(2) == 0   ? Verb::charge
                        : dice(3) == 0 ? Verb::take
                        : dice(3) == 0 ? Verb::put
                        : dice(2) == 0 ? Verb::count
                                       : Verb::peek;
      q.add(space, std::to_string(round), list, both.spaces, verb, scale * dice(int64_t{4}));
      if (verb == Verb::count)
        q.charges[0].counts =
            static_cast<limit::LimitMask>(1 + dice(limit::all_of(q.charges[0].limits)));
      if ((verb == Verb::count || verb == Verb::charge) && dice(3) == 0) {
        std::vector<int64_t> units;
        for (size_t i = 0; i < list.size(); ++i) units.push_back(scale * dice(int64_t{4}));
        q.charge_each(units);
        if (dice(2) == 0) q.charges[0].counts = 0;
      }
      if ((verb == Verb::count || verb == Verb::charge) && dice(2) == 0) {
        std::vector<int64_t> most;
        for (size_t i = 0; i < list.size(); ++i)
          most.push_back(dice(3) == 0 ? limit::Overdrafts::none : scale * dice(int64_t{8}));
        q.bound_debt(most);
      }
      if (verb == Verb::put && dice(3) == 0) q.charges[0].all = true;
      if (verb == Verb::peek && dice(2) == 0) {
        q = {};
        q.add(space, std::to_string(round), {limit_of(Algorithm::fixed_window, 1)}, both.spaces,
              verb, 0);
        q.charges[0].as_written = true;
      }
      told += words(q, now);
      ASSERT_EQ(both.ask(q, {now}, least), "") << "round " << round << "\n" << told;
      (q.charges[0].overdrafts != nullptr ? dropped : full) += q.charges[0].dropped > 0 ? 1u : 0u;
      for (const Decision& d : q.decisions) owing += d.remaining < 0 ? 1u : 0u;
      if (q.charges[0].as_written) lives += q.decisions[0].reset_after.us > 0 ? 1u : 0u;
      if (verb == Verb::take) refused += q.decisions[0].allowed ? 0u : 1u;
      left += both.client()({"GET", "p:" + space.prefix + std::to_string(round) + "/x"})
                  .text.find('|') != std::string::npos;
    }
  }
  EXPECT_GT(owing, static_cast<size_t>(rounds) * 10);
  EXPECT_GT(refused, static_cast<size_t>(rounds));
  EXPECT_GT(left, static_cast<size_t>(rounds));
  EXPECT_GT(lives, static_cast<size_t>(rounds));
  EXPECT_EQ(full > 0, scale > INT32_MAX);
  EXPECT_GT(dropped, static_cast<size_t>(rounds));
}

TEST(DebtInRedis, CountersThatOweMuchAnswerAsTheTableDoes) {
  play(1, Weight::light, 60, 1);
  play(2, Weight::full, 30, 1);
}
TEST(DebtInRedis, LimbsAnswerAsTheTableDoes) {
  play(3, Weight::wide, 20, 1);
  play(4, Weight::light, 30, 30'000'000);
}
TEST(DebtInRedis, UsedUnitsStopAtTheirBound) {
  play(5, Weight::light, 15, int64_t{1} << 49);
}

// A debt is paid before anything is granted, to the microsecond.
TEST(DebtInRedis, NothingIsGrantedBeforeTheDebtIsPaid) {
  for (const Algorithm algorithm : counted) {
    if (algorithm == Algorithm::fixed_bucket) continue;
    SCOPED_TRACE(name_of(algorithm));
    Both both;
    const request::Space& space = *both.spaces.intern("u/", "/x");
    const auto ask = [&](Verb verb, int64_t cost, int64_t now_us) {
      Question q;
      q.add(space, "k", {limit_of(algorithm, 10)}, both.spaces, verb, cost);
      EXPECT_EQ(both.ask(q, {now_us}, Weight::light), "");
      return q.decisions[0];
    };
    EXPECT_TRUE(ask(Verb::take, 9, start_us).allowed);
    const Decision charged = ask(Verb::charge, 25, start_us);
    EXPECT_TRUE(charged.allowed);
    EXPECT_EQ(charged.remaining, -24);
    ASSERT_GT(charged.retry_after.us, 0);
    const int64_t then_us = start_us + charged.retry_after.us;
    EXPECT_FALSE(ask(Verb::take, 1, then_us - 1).allowed);
    EXPECT_TRUE(ask(Verb::take, 1, then_us).allowed);
  }
}

// As docs/redis.md shows it. Without debt the value has two numbers as before.
TEST(DebtInRedis, ABucketInDebtHasTheTimeOfItsState) {
  Both both;
  const request::Space& space = *both.spaces.intern("u/", "/x");
  const auto ask = [&](Verb verb, int64_t cost) {
    Question q;
    q.add(space, "k", {limit_of(Algorithm::token_bucket, 10)}, both.spaces, verb, cost);
    EXPECT_EQ(both.ask(q, {start_us}, Weight::light), "");
    return both.client()({"GET", "p:u/k/x"}).text;
  };
  EXPECT_EQ(ask(Verb::charge, 25), "s1;t10,60000000,10 1800000150000000 10 1800000000000000 0");
  EXPECT_EQ(ask(Verb::put, 15), "s1;t10,60000000,10 1800000060000000 10");
}

// Charges stand behind the units that requests wait for, and what waits goes on waiting.
TEST(DebtInRedis, ChargesBehindWaitersAnswerAsTheTableDoes) {
  Both both;
  Dice dice(6);
  const request::Space& space = *both.spaces.intern("w/", "");
  store::tests::Counting counting;
  size_t parked = 0;
  for (int round = 0; round < 250; ++round) {
    const std::vector<Limit> list = {
        limit_of(counted[dice(counted.size())], 1 + dice(int64_t{20}), 100)};
    int64_t now = start_us + dice(int64_t{1000});
    Question first;
    first.add(space, std::to_string(round), list, both.spaces, Verb::take, list[0].quota);
    ASSERT_EQ(both.ask(first, {now}, Weight::light), "");
    Question waits;
    waits.add(space, std::to_string(round), list, both.spaces, Verb::take, 1 + dice(list[0].quota));
    waits.charges[0].limits = both.spaces.limits(waits.charges[0].limits_id);
    Group group{.charge_count = 1, .may_wait = true, .ticket = {static_cast<uint32_t>(round), 0}};
    both.table.apply({{&group, 1}, waits.charges, waits.decisions}, {now}, &counting.completions);
    if (!group.parked) continue;
    ++parked;
    for (int i = 0; i < 6; ++i, now += dice(int64_t{10})) {
      Question q;
      q.add(space, std::to_string(round), list, both.spaces,
            dice(3) == 0   ? Verb::take
            : dice(2) == 0 ? Verb::charge
                           : Verb::count,
            dice(list[0].quota + 3));
      ASSERT_EQ(
          both.ask(q, {now}, dice(4) == 0 ? Weight::wide : Weight::light, {waits.charges[0].cost}),
          "")
          << words(q, now) << waits.charges[0].cost << " wait";
    }
  }
  EXPECT_GT(parked, 150u);
}

// A script's call with a receipt, and what takes back by it.
class Undoing {
 public:
  Undoing() : client_(server().client()) { client_({"FLUSHALL"}); }

  struct Settled {
    std::vector<Decision> decisions;
    std::string receipt;
    bool allowed = false;
  };
  Settled settle(const Question& q, int64_t now_us) {
    Settled settled{std::vector<Decision>(q.decisions.size()), {}, false};
    for (Weight weight = Weight::light;;) {
      const ScriptCall what{
          .charges = q.charges, .receipts = true, .weight = weight, .told = {now_us}};
      std::string bytes;
      append_call(bytes, what, script_of(what, scripts_, texts_, weight), false, scripts_, texts_);
      const std::string text = client_.raw(bytes).text;
      std::string_view answer = text;
      settled.receipt = cut_receipt(answer);
      std::vector<Charge> its = q.charges;
      const ScriptReply said = read_answer(answer, its, settled.decisions, settled.allowed);
      EXPECT_NE(said, ScriptReply::nonsense) << text;
      if (said == ScriptReply::decided || said == ScriptReply::nonsense) return settled;
      weight = said == ScriptReply::again_wide ? Weight::wide : Weight::full;
    }
  }
  void undo(const Question& q, const std::string& receipt, int64_t now_us) {
    const ScriptCall what{.charges = q.charges, .told = {now_us}};
    std::string by_hash, bytes;
    append_undo(by_hash, what, receipt, scripts_.undo(), texts_);
    append_by_text(bytes, by_hash, scripts_.undo());
    EXPECT_EQ(undo_answer(client_.raw(bytes).text), 0u);
  }

 private:
  tests::RedisClient client_;
  Scripts scripts_{Scripts::Time::told};
  LimitTexts texts_;
};

TEST(DebtInRedis, ChargesThatBringDebtAreTakenBackExactly) {
  Dice dice(7);
  for (int round = 0; round < 300; ++round) {
    const Limit limit = limit_of(counted[dice(counted.size())], 1 + dice(int64_t{40}));
    SCOPED_TRACE(std::string(name_of(limit.algorithm)) + " round " + std::to_string(round));
    Undoing redis;
    request::Spaces spaces;
    const request::Space& space = *spaces.intern("u/", "");
    const auto question = [&](Verb verb, int64_t cost) {
      Question q;
      q.add(space, "k", {limit}, spaces, verb, cost);
      return q;
    };
    int64_t now = start_us + dice(minute_us);
    for (int i = 0; i < 4; ++i, now += dice(int64_t{500}))
      redis.settle(question(Verb::charge, 1 + dice(int64_t{9})), now);
    const Decision before = redis.settle(question(Verb::peek, 0), now).decisions[0];
    const Verb verb = dice(2) == 0 ? Verb::charge : Verb::count;
    Question more = question(verb, 1 + dice(int64_t{60}));
    const int64_t most = dice(2) == 0 ? limit::Overdrafts::none : dice(int64_t{20});
    if (most < limit::Overdrafts::none) more.bound_debt({most});
    const Undoing::Settled settled = redis.settle(more, now);
    EXPECT_EQ(
        settled.decisions[0].remaining,
        before.remaining - std::clamp<int64_t>(before.remaining + most, 0, more.charges[0].cost));
    redis.undo(more, settled.receipt, now);
    EXPECT_EQ(text_of(redis.settle(question(Verb::peek, 0), now).decisions[0]), text_of(before));
  }
}

// Units of its own for each limit, and a list that has changed since.
TEST(DebtInRedis, ChargesOfSeveralListsAreTakenBackExactly) {
  Dice dice(8);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    Undoing redis;
    request::Spaces spaces;
    const request::Space& space = *spaces.intern("u/", "");
    std::vector<Limit> list;
    for (const Algorithm algorithm : counted)
      if (dice(2) == 0) list.push_back(limit_of(algorithm, 10 + dice(int64_t{40})));
    if (list.empty()) continue;
    const auto question = [&](Verb verb, const std::vector<Limit>& of, int64_t most) {
      Question q;
      q.add(space, "k", of, spaces, verb, 0);
      q.charges[0].counts = 0;
      std::vector<int64_t> units;
      for (size_t i = 0; i < of.size(); ++i) units.push_back(dice(most));
      q.charge_each(units);
      return q;
    };
    int64_t now = start_us + dice(minute_us);
    for (int i = 0; i < 3; ++i, now += dice(int64_t{500}))
      redis.settle(question(Verb::count, list, 3), now);
    const auto peek = [&] { return redis.settle(question(Verb::peek, list, 1), now).decisions; };
    const auto before = peek();
    const Question more = question(dice(2) == 0 ? Verb::charge : Verb::count, list, 4);
    const Undoing::Settled settled = redis.settle(more, now);
    ASSERT_TRUE(settled.allowed);
    const auto after = peek();
    for (size_t i = 0; i < list.size(); ++i)
      EXPECT_EQ(after[i].remaining, before[i].remaining - more.charges[0].cost_of(i));
    if (dice(2) == 0) {
      std::vector<Limit> turned(list.rbegin(), list.rend());
      redis.settle(question(Verb::count, turned, 1), now);
    }
    redis.undo(more, settled.receipt, now);
    const auto undone = peek();
    for (size_t i = 0; i < list.size(); ++i) EXPECT_EQ(text_of(undone[i]), text_of(before[i]));
  }
}

// A group that another slot refuses gets back what its limits that do not count took.
TEST(DebtInRedis, ARefusalElsewhereLeavesWhatLimitsThatCountTook) {
  Undoing redis;
  request::Spaces spaces;
  const request::Space& space = *spaces.intern("u/", "");
  for (const Algorithm algorithm : counted) {
    SCOPED_TRACE(name_of(algorithm));
    const std::string key(name_of(algorithm));
    const auto question = [&](Verb verb, int64_t cost) {
      Question q;
      q.add(space, key, {limit_of(algorithm, 20), limit_of(Algorithm::fixed_window, 30)}, spaces,
            verb, cost);
      return q;
    };
    Question hit = question(Verb::count, 5);
    hit.charges[0].counts = 1;
    const Undoing::Settled settled = redis.settle(hit, start_us);
    EXPECT_TRUE(settled.allowed);
    redis.undo(hit, receipt_if_refused(hit.charges, settled.receipt), start_us);
    const auto left = redis.settle(question(Verb::peek, 0), start_us).decisions;
    EXPECT_EQ(left[0].remaining, 15);
    EXPECT_EQ(left[1].remaining, 30);
    // A hit that is refused here is charged to the first limit; an error elsewhere takes that back.
    hit.charges[0].cost = 28;
    const Undoing::Settled refused = redis.settle(hit, start_us);
    EXPECT_FALSE(refused.allowed);
    EXPECT_EQ(receipt_if_refused(hit.charges, refused.receipt), "-,-");
    redis.undo(hit, refused.receipt, start_us);
    EXPECT_EQ(redis.settle(question(Verb::peek, 0), start_us).decisions[0].remaining, 15);
  }
}

// Counters in the forms of other programs.
TEST(DebtInRedis, SharedCountersAreChargedPastTheirLimits) {
  Both both;
  request::Space like;
  like.encoding = request::KeyEncoding::remaining_text;
  both.near = minute_us;
  both.sweeps = false;
  const request::Space& divvys = *both.spaces.intern("divvy:a=1:", ":5:60", like);
  like.encoding = request::KeyEncoding::window_text;
  const request::Space& envoys = *both.spaces.intern("e_", "", like);
  const auto ask = [&](const request::Space& space, Algorithm algorithm, Verb verb, int64_t cost) {
    Question q;
    q.add(space, "k", {limit_of(algorithm, 5)}, both.spaces, verb, cost);
    EXPECT_EQ(both.ask(q, {start_us}, Weight::light), "");
    return q.decisions[0].remaining;
  };
  EXPECT_EQ(ask(divvys, Algorithm::fixed_window, Verb::charge, 3), 2);
  EXPECT_EQ(ask(divvys, Algorithm::fixed_window, Verb::charge, 4), -2);
  EXPECT_EQ(ask(divvys, Algorithm::fixed_window, Verb::count, 9), -11);
  EXPECT_EQ(both.client()({"GET", "divvy:a=1:k:5:60"}).text, "-11");
  EXPECT_EQ(ask(envoys, Algorithm::aligned_window, Verb::charge, 3), 2);
  EXPECT_EQ(ask(envoys, Algorithm::aligned_window, Verb::charge, 4), -2);
  EXPECT_EQ(ask(envoys, Algorithm::aligned_window, Verb::peek, 0), -2);
  EXPECT_EQ(both.client()({"GET", "e_k_" + std::to_string(start_us / 1'000'000)}).text, "7");
}

}  // namespace
}  // namespace sluice::redis::debt_test
