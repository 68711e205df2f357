// Verbs other than take, counters that keep their limits or stay listed when they are full, lists
// and the purge: the table in memory against the pure functions of limit/ on maps.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "limit/decide.h"
#include "limit/kept_limits.h"
#include "store/asking_test.h"
#include "tests/support/dice.h"
#include "tests/support/limitd_listed.h"

namespace sluice::store::verbs_test {
namespace {

using base::Time;
using limit::State;
using sluice::tests::Dice;
using sluice::tests::expect_listed_as_limitd_does;
using sluice::tests::LimitdListed;
using namespace tests;

constexpr int64_t second = 1'000'000;

void expect_equal(const Decision& a, const Decision& b) {
  EXPECT_EQ(a.allowed, b.allowed);
  EXPECT_EQ(a.limit, b.limit);
  EXPECT_EQ(a.remaining, b.remaining);
  EXPECT_EQ(a.reset_after, b.reset_after);
  EXPECT_EQ(a.retry_after, b.retry_after);
}

TEST(Verbs, MatchTheAlgorithms) {
  World w;
  Dice dice(3);
  const std::vector<std::vector<Limit>> kinds = {
      {bucket(7, 5, 40)},
      {fixed(6)},
      {window(5, 50), {Algorithm::sliding_log, 5, {60}}},
      {{Algorithm::concurrency, 5, {30}, 60}},
      {{Algorithm::aligned_window, 5, {50}}, {Algorithm::unlimited, 9, {}}},
      {{Algorithm::sliding_window, 8, {70}}, bucket(9, 3, 20), fixed(20)}};
  std::map<std::string, std::vector<State>> model;
  Time now{second};
  size_t allowed_count = 0, refused_count = 0;
  for (int round = 0; round < 40'000; ++round) {
    now.us += dice(int64_t{15});
    const size_t kind = dice(kinds.size());
    const std::string key = std::to_string(kind) + "/" + std::to_string(dice(3));
    const int64_t cost = dice(int64_t{4});
    const auto verb = std::array{Verb::take, Verb::take, Verb::peek, Verb::put}[dice(size_t{4})];
    Asked asked = w.prepare({{key, cost, kinds[kind]}}, verb);
    asked.charges[0].all = verb == Verb::put && dice(5) == 0;
    w.apply(asked, now);

    auto& state = model[key];
    state.resize(limit::cells(kinds[kind]));
    bool allowed = true;
    size_t at = 0;
    if (verb == Verb::take) {
      std::vector<State> next = state;
      for (const Limit& l : kinds[kind]) {
        allowed &= limit::decide(&state[at], l, cost, now, &next[at]).allowed;
        at += limit::cells(l);
      }
      at = 0;
    }
    for (size_t i = 0; i < kinds[kind].size(); ++i) {
      const Limit& l = kinds[kind][i];
      if (verb == Verb::peek) {
        expect_equal(asked[i], limit::peek(&state[at], l, now));
      } else if (verb == Verb::put) {
        expect_equal(asked[i],
                     limit::put(&state[at], l, cost, asked.charges[0].all, now, &state[at]));
      } else {
        std::vector<State> unused(limit::cells(l) + 1);
        const Decision d = limit::decide(&state[at], l, cost, now, unused.data());
        const Decision settled = limit::decide(&state[at], l, allowed ? cost : 0, now, &state[at]);
        expect_equal(asked[i], !allowed && d.allowed ? settled : d);
      }
      at += limit::cells(l);
    }
    EXPECT_EQ(asked.allowed(), allowed);
    ++(allowed ? allowed_count : refused_count);
    if (asked.charges[0].all) std::fill(state.begin(), state.end(), State{});
    if (round % 64 == 0) w.store.sweep(now, 5'000);
    if (HasFailure()) return;
  }
  EXPECT_GT(allowed_count, 10'000u);
  EXPECT_GT(refused_count, 1'000u);
}

TEST(Verbs, PutAllRemovesTheCounterAndPeekMakesNone) {
  World w;
  w.ask({{"k", 3, {fixed(5)}}}, {0});
  EXPECT_EQ(w.left({"k", 0, {fixed(5)}}, {0}), 2);
  EXPECT_EQ(w.put_all({"k", 1, {fixed(5)}}, {0})[0].remaining, 5);
  EXPECT_EQ(w.store.stats().counters, 0u);
  EXPECT_EQ(w.left({"other", 0, {fixed(5)}}, {0}), 5);
  EXPECT_EQ(w.put({{"other", 3, {fixed(5)}}}, {0})[0].remaining, 5);
  EXPECT_EQ(w.store.stats().counters, 0u);
  // A counter of other limits is removed; it needs no memory for the new limits.
  w.ask({{"k", 3, {fixed(5)}}}, {0});
  w.put_all({"k", 1, {fixed(5), window(3, 10)}}, {0});
  EXPECT_EQ(w.store.stats().counters, 0u);
}

TEST(Verbs, CountersThatKeepTheirLimitsMatchTheAlgorithm) {
  World w;
  Dice dice(5);
  const std::vector<base::Duration> windows = {{100}, {1'000}, {20'000}};
  Space like;
  like.windows = windows;
  w.space = w.spaces.intern("kept", "", like);
  std::map<std::string, std::vector<State>> model;
  Time now{second};
  for (int round = 0; round < 20'000; ++round) {
    now.us += dice(int64_t{200});
    const std::string key = std::to_string(dice(4));
    std::vector<Limit> limits;
    for (const base::Duration window : windows)
      if (dice(3) == 0) limits.push_back(bucket(3 + dice(int64_t{6}), 1, window.us));
    for (Limit& l : limits) l.quota = l.burst;
    Asked asked;
    asked.keys.push_back(key);
    asked.decisions.resize(windows.size());
    asked.group.charge_count = 1;
    Charge c;
    c.space = w.space;
    c.key = asked.keys.back();
    c.verb = dice(4) == 0 ? Verb::peek : Verb::take;
    c.reset_first = c.verb == Verb::take && dice(20) == 0;
    c.keeps_limits = true;
    c.cost = dice(int64_t{5}) - 1;
    c.limits = limits;
    asked.charges.push_back(c);
    w.apply(asked, now);

    auto& state = model[key];
    if (c.reset_first) state.clear();
    std::array<State, limit::cells_max> next;
    std::array<Decision, limit::slots_max> decisions;
    const auto expected = c.verb == Verb::peek
                              ? limit::kept_limits::peek(windows, state, now, decisions.data())
                              : limit::kept_limits::take(windows, state, limits, c.cost, now,
                                                         next.data(), decisions.data(), false);
    ASSERT_EQ(asked.allowed(), expected.allowed);
    ASSERT_EQ(asked.charges[0].slot_mask, expected.mask);
    for (int i = 0; i < std::popcount(expected.mask); ++i)
      expect_equal(asked[static_cast<size_t>(i)], decisions[static_cast<size_t>(i)]);
    if (c.verb == Verb::take)
      state.assign(next.begin(), next.begin() + static_cast<ptrdiff_t>(expected.cells));
    w.store.sweep(now, 50);
    if (HasFailure()) return;
  }
  EXPECT_EQ(w.store.stats().counters, 4u);  // the sweep leaves them
  EXPECT_EQ(w.store.purge({now.us - 1'000'000}), 0u);
  size_t full = 0;
  for (const auto& [key, state] : model) full += state[0].fresh_at_us <= now.us + 5'000 ? 1u : 0u;
  EXPECT_EQ(w.store.purge({now.us + 5'000}), full);
  EXPECT_EQ(w.store.purge({now.us + second}), 4 - full);
  EXPECT_EQ(w.store.stats().counters, 0u);
}

TEST(Verbs, ACounterLingersAfterItIsFull) {
  World w;
  Space like;
  like.keep_fresh_for = {10 * second};
  w.space = w.spaces.intern("lingering", "", like);
  const Limit five = bucket(5, 5, second);
  w.ask({{"taken", 5, {five}}}, {0});     // full again after 1 s
  w.ask({{"nothing", 0, {five}}}, {0});   // not changed, and full
  w.ask({{"back", 5, {fixed(5)}}}, {0});  // full when all is put back
  w.ask({{"gone", 5, {five}}}, {0});
  w.put_all({"gone", 1, {five}}, {0});
  EXPECT_EQ(w.store.list(*w.space, "", 9), (std::vector<std::string>{"back", "nothing", "taken"}));
  const auto there = [&](int64_t us) {
    w.store.sweep({us}, 5'000);
    return w.store.list(*w.space, "", 9);
  };
  EXPECT_EQ(there(9 * second - 1).size(), 3u);
  EXPECT_EQ(there(9 * second), (std::vector<std::string>{"back", "taken"}));
  EXPECT_EQ(there(11 * second - 1).size(), 2u);
  EXPECT_EQ(there(11 * second), (std::vector<std::string>{"back"}));
  EXPECT_EQ(there(1'000 * second), (std::vector<std::string>{"back"}));
  // A put that makes a bucket full keeps it listed where limitd stores it: if the bucket refills by
  // itself and the put has fewer units than it holds.
  w.put({{"back", 2, {fixed(5)}}}, {1'000 * second});
  w.put({{"back", 3, {fixed(5)}}}, {1'000 * second});
  w.put({{"full", 4, {fixed(5)}}}, {1'000 * second});
  w.put({{"whole", 5, {five}}}, {1'000 * second});
  w.put({{"untouched", 4, {five}}}, {1'000 * second});
  w.ask({{"refused", 6, {fixed(5)}}}, {1'000 * second});
  w.ask({{"filling", 2, {five}}}, {1'000 * second});
  w.put({{"filling", 4, {five}}}, {1'000 * second});
  EXPECT_EQ(there(1'009 * second - 1), (std::vector<std::string>{"filling", "untouched"}));
  EXPECT_EQ(there(1'009 * second).size(), 0u);
}

// limitd's buckets, in a store with or without a record of changes.
struct Buckets {
  explicit Buckets(bool notes_changes) {
    Space like;
    like.keep_fresh_for = {120 * second};
    for (const char* type : {"three", "one", "hourly", "single"})
      spaces[type] = w.spaces.intern(type, "", like);
    if (notes_changes) w.store.keep_changes();
  }
  Limit limit_of(const std::string& type) const {
    const auto& t = model.type(type);
    return t.refills ? bucket(t.size, 3, 3'600 * second) : fixed(t.size);
  }
  Asked ask(const std::string& type, const std::string& key, int64_t count, Verb verb, bool all) {
    w.space = spaces.at(type);
    Asked asked = w.prepare({{key, count, {limit_of(type)}}}, verb);
    asked.charges[0].all = all;
    w.apply(asked, now);
    return asked;
  }
  void take(const std::string& type, const std::string& key, int64_t count) {
    ask(type, key, count, Verb::take, false);
  }
  void put(const std::string& type, const std::string& key, int64_t count, bool all) {
    ask(type, key, count, Verb::put, all);
  }
  LimitdListed::Listed status(const std::string& type) {
    LimitdListed::Listed listed;
    for (const std::string& key : w.store.list(*spaces.at(type), "", 100))
      listed.emplace_back(key, ask(type, key, 0, Verb::peek, false)[0].remaining);
    return listed;
  }

  World w;
  std::map<std::string, const Space*> spaces;
  const LimitdListed model;
  const Time now{second};
};

TEST(Verbs, AFullBucketIsListedWhereLimitdStoresIt) {
  expect_listed_as_limitd_does(Buckets(false), 1, 300);
  expect_listed_as_limitd_does(Buckets(true), 2, 300);
}

// The admin port sets a counter to a number of used units in this way.
TEST(Verbs, ACounterThatIsSetToFullDoesNotLinger) {
  World w;
  Space like;
  like.keep_fresh_for = {10 * second};
  w.space = w.spaces.intern("lingering", "", like);
  for (const Limit& l : {bucket(5, 5, second), fixed(5)}) {
    const auto set = [&](int64_t used) {
      Asked asked = w.prepare({{"k", used, {l}}});
      asked.charges[0].reset_first = true;
      w.apply(asked, {0});
      return w.store.list(*w.space, "", 9).size();
    };
    EXPECT_EQ(set(0), 0u);
    EXPECT_EQ(set(2), 1u);
    EXPECT_EQ(set(0), 0u);
    EXPECT_EQ(w.store.stats().counters, 0u);
  }
}

TEST(Verbs, ListsTheFirstKeysWithAPrefixInByteOrder) {
  World w;
  Dice dice(8);
  const Space* const other = w.spaces.intern("other", "");
  const Space* const mine = w.space;
  std::set<std::string> all;
  for (int i = 0; i < 3'000; ++i) {
    std::string key;
    for (size_t n = dice(size_t{6}); n > 0; --n)
      key += std::array{'a', 'b', '\0', '\xff', '*'}[dice(size_t{5})];
    if (dice(40) == 0) key += std::string(600, 'a');  // stored apart
    w.space = dice(3) == 0 ? other : mine;
    w.ask({{key, 1, {fixed(5)}}}, {0});
    if (w.space == mine) all.insert(key);
  }
  for (const std::string& prefix :
       {std::string{}, std::string("a"), std::string("ab"), std::string("\xff"),
        std::string("\0", 1), std::string("a*"), std::string("zz"), std::string(300, 'a')}) {
    for (const size_t max : {0u, 1u, 3u, 100u, 100'000u}) {
      std::vector<std::string> expected;
      for (const std::string& key : all)
        if (key.starts_with(prefix) && expected.size() < max) expected.push_back(key);
      EXPECT_EQ(w.store.list(*mine, prefix, max), expected);
    }
  }
}

TEST(Verbs, ManyListsInOnePassEqualSeparateLists) {
  World w;
  const Space* const spaces[] = {w.space, w.spaces.intern("other", "")};
  for (int i = 0; i < 3'000; ++i) {
    w.space = spaces[i % 2];
    w.ask({{std::to_string(i * 7'919 % 10'007), 1, {fixed(5)}}}, {0});
  }
  ListPass pass({100, SIZE_MAX});
  for (const Space* space : spaces)
    for (int i = 0; i < 60; ++i) pass.add(*space, i < 50 ? std::to_string(i * 3) : "");
  w.store.list_all(pass);
  size_t found = 0;
  for (size_t i = 0; i < pass.size(); ++i) {
    const auto keys = pass.take(i);
    EXPECT_EQ(keys, w.store.list(pass.space(i), pass.prefix(i), 100)) << pass.prefix(i);
    found += keys.size();
  }
  EXPECT_GT(found, 1'000u);
}

// A stripe that shrinks moves counters to chains that the pass may have visited already.
TEST(VerbsThreads, AListFindsEveryLastingCounterDuringChanges) {
  World w;
  const Limit brief = window(1, 10), lasting = window(1, 1'000 * second);
  std::vector<std::string> expected;
  for (int i = 0; i < 100; ++i) {
    expected.push_back("lasting " + std::to_string(100 + i));
    w.ask({{expected.back(), 1, {lasting}}}, {0});
  }
  std::atomic<bool> stop{false};
  std::thread churn([&] {
    Time now{0};
    for (int round = 0; !stop; ++round) {
      for (int i = 0; i < 20'000; ++i)
        w.ask({{std::to_string(round) + " " + std::to_string(i), 1, {brief}}}, now);
      now.us += 10;
      w.store.sweep(now, 200'000);
    }
  });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(w.store.list(*w.space, "lasting", 100), expected);
  stop = true;
  churn.join();
}

}  // namespace
}  // namespace sluice::store::verbs_test
