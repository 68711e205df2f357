// The scripts in a real Redis against src/limit by way of the embedded table: the same sequences,
// the same decisions, in both arithmetics.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "redis/asking.h"
#include "store/asking_test.h"
#include "tests/support/dice.h"
#include "tests/support/redis_server.h"

namespace sluice::redis {
namespace {

using limit::Algorithm;
using limit::Charge;
using limit::Decision;
using limit::Group;
using limit::Limit;
using limit::Verb;
using tests::Dice;

constexpr int64_t start_us = 1'800'000'000'000'000;

tests::RedisServer& server() {
  static tests::RedisServer the_server;
  return the_server;
}

std::string text_of(const Decision& d) {
  return std::string(d.allowed ? "yes" : "no") + " limit " + std::to_string(d.limit) + " left " +
         std::to_string(d.remaining) + " reset " + std::to_string(d.reset_after.us) + " retry " +
         std::to_string(d.retry_after.us);
}

// What is asked of both.
struct Question {
  std::deque<std::string> keys;
  std::deque<std::vector<Limit>> limits;
  std::vector<Charge> charges;
  std::vector<Decision> decisions;

  void add(const limit::Space& space, std::string key, std::vector<Limit> of, limit::Spaces& spaces,
           Verb verb, int64_t cost) {
    keys.push_back(std::move(key));
    limits.push_back(std::move(of));
    Charge c;
    c.space = &space;
    c.key = keys.back();
    c.verb = verb;
    c.cost = cost;
    c.limits = limits.back();
    c.keeps_limits = !space.windows.empty();
    if (!c.keeps_limits) c.limits_id = spaces.intern_limits(limits.back());
    c.decision_first = static_cast<uint32_t>(decisions.size());
    decisions.resize(decisions.size() +
                     std::max<size_t>(space.windows.size(), limits.back().size()));
    charges.push_back(c);
  }
};

class Both {
 public:
  Both() : client_(server().client()) { client_({"FLUSHALL"}); }

  limit::Spaces spaces;
  store::EmbeddedStore table{0, base::Hash(1), spaces};
  bool sweeps = true;  // what is as fresh is forgotten at once
  int64_t near = 0;    // times may differ by that
  size_t light = 0, full = 0, wide = 0, again = 0;

  // Empty: they agree.
  std::string ask(Question& q, base::Time now, Weight least, std::vector<int64_t> ahead = {}) {
    Group group{.charge_count = static_cast<uint32_t>(q.charges.size())};
    std::vector<Charge> theirs = q.charges;
    std::vector<Decision> decided(q.decisions.size());
    if (sweeps) table.sweep(now, 2 * table.chains() + 4 * store::EmbeddedStore::stripes);
    table.apply({{&group, 1}, q.charges, q.decisions}, now);

    bool allowed = false;
    Ask ask{.charges = theirs, .ahead = ahead, .weight = least, .key_prefix = "p:", .told = now};
    for (int attempt = 0;; ++attempt) {
      Weight weight;
      const Script& script = script_of(ask, scripts_, texts_, weight);
      std::string bytes;
      append_call(bytes, ask, script, true, scripts_, texts_);
      tests::RedisReply reply = client_.raw(bytes);
      if (reply.text.starts_with("NOSCRIPT")) {
        bytes.clear();
        append_call(bytes, ask, script, false, scripts_, texts_);
        reply = client_.raw(bytes);
      }
      if (reply.is_error()) return "error: " + reply.text;
      ++(weight == Weight::light ? light : weight == Weight::full ? full : wide);
      const Said said = read_answer(reply.text, theirs, decided, allowed);
      if (said == Said::nonsense) return "nonsense: " + reply.text;
      if (said == Said::decided) break;
      if (attempt == 2) return "again and again: " + reply.text;
      ask.weight = said == Said::again_wide ? Weight::wide : Weight::full;
      ++again;
    }
    std::string wrong;
    if (allowed != group.allowed)
      wrong += std::string("allowed ") + (allowed ? "there" : "here") + " only; ";
    for (size_t k = 0; k < theirs.size(); ++k) {
      if (theirs[k].slot_mask != q.charges[k].slot_mask) wrong += "another mask; ";
      size_t count = theirs[k].limits.size();
      if (theirs[k].keeps_limits) count = static_cast<size_t>(std::popcount(theirs[k].slot_mask));
      for (size_t i = 0; i < count; ++i) {
        const Decision& a = q.decisions[theirs[k].decision_first + i];
        Decision& b = decided[theirs[k].decision_first + i];
        if (std::abs(a.reset_after.us - b.reset_after.us) < near) b.reset_after = a.reset_after;
        if (std::abs(a.retry_after.us - b.retry_after.us) < near) b.retry_after = a.retry_after;
        if (text_of(a) != text_of(b))
          wrong += "charge " + std::to_string(k) + ": " + text_of(a) + " here, " + text_of(b) +
                   " there; ";
      }
    }
    return wrong;
  }

  tests::RedisClient& client() { return client_; }

 private:
  tests::RedisClient client_;
  Scripts scripts_{Scripts::Time::told};
  LimitTexts texts_;
};

struct Sizes {
  int64_t quota, window, step;
  int64_t burst = quota;
};

Limit random_limit(Dice& dice, const Sizes& sizes, bool may_lack_counter) {
  const int64_t quota = 1 + dice(sizes.quota), window = 1 + dice(sizes.window);
  switch (dice(may_lack_counter ? 9 : 6)) {
    case 0:
      return {Algorithm::fixed_window, quota, {window}, 0};
    case 1:
      return {Algorithm::aligned_window, quota, {window}, 0};
    case 2:
      return {Algorithm::token_bucket, quota, {window}, 1 + dice(sizes.burst)};
    case 3:
      return {Algorithm::sliding_window, quota, {window}, 0};
    case 4:
      return {Algorithm::sliding_log, quota, {window}, 0};
    case 5:
      return {Algorithm::fixed_bucket, quota, {}, quota};
    case 6:
      return {Algorithm::unlimited, quota, {dice(int64_t{2})}, 0};
    case 7:
      return {Algorithm::deny, 0, {}, 0};
    default:
      return {Algorithm::token_bucket, quota, {window}, quota};
  }
}

// What was just granted is kept until it is as fresh, to the millisecond; and by these scripts for
// `spare_ms` more, which is long, as the time they are told is not Redis'.
std::string wrong_ttls(tests::RedisClient& client, const Question& q) {
  constexpr int64_t spare_ms = 100'000'000, century_ms = 3'162'240'000'000, slow_ms = 20'000;
  for (const Decision& d : q.decisions)
    if (!d.allowed) return "";
  for (const Charge& c : q.charges) {
    int64_t wanted_ms = 0;
    for (size_t i = 0; i < c.limits.size() && c.cost > 0; ++i) {
      const Algorithm algorithm = c.limits[i].algorithm;
      if (!limit::has_counter(algorithm)) continue;
      const int64_t reset_us = q.decisions[c.decision_first + i].reset_after.us;
      wanted_ms = std::max(wanted_ms, algorithm == Algorithm::fixed_bucket
                                          ? century_ms
                                          : (reset_us + 999) / 1000 + spare_ms);
    }
    if (wanted_ms == 0) continue;
    const std::string key = "p:" + c.space->prefix + std::string(c.key) + c.space->suffix;
    const int64_t ttl_ms = client({"PTTL", key}).number;
    // Past 2^53 ms it is rounded; those are 285,000 years.
    const int64_t most_ms = wanted_ms + (wanted_ms >> 53 != 0 ? 1 : 0);
    if (ttl_ms > most_ms || ttl_ms < wanted_ms - slow_ms)
      return key + " is kept for " + std::to_string(ttl_ms) + " ms, not " +
             std::to_string(wanted_ms);
  }
  return "";
}

// Few keys, few limits, so that counters meet one another's past.
void play(const Sizes& sizes, Weight least, uint32_t seed, int rounds, bool with_groups) {
  Both both;
  Dice dice(seed);
  limit::Space left;
  left.carry = limit::Carry::left;
  const limit::Space* const spaces[] = {both.spaces.intern("u/", "/x"),
                                        both.spaces.intern("l/", "", left)};
  for (int round = 0; round < rounds; ++round) {
    both.client()({"FLUSHALL"});
    const std::string prefix = std::to_string(round) + "-";
    std::vector<std::vector<Limit>> lists;
    for (int i = 0; i < 3; ++i) {
      std::vector<Limit> list;
      const int count = 1 + (with_groups ? dice(3) : 0);
      for (int j = 0; j < count; ++j) list.push_back(random_limit(dice, sizes, j > 0));
      // What changes is mostly a number.
      if (i > 0 && dice(2) == 0) {
        list = lists.front();
        for (Limit& l : list) {
          if (l.algorithm == Algorithm::deny) continue;
          l.quota = 1 + dice(sizes.quota);
          if (l.burst > 0) l.burst = l.window.us == 0 ? l.quota : 1 + dice(sizes.quota);
          if (l.window.us > 1 && dice(2) == 0) l.window.us = 1 + dice(sizes.window);
        }
      }
      if (limit::cells(list) > limit::cells_max) list.resize(1);
      lists.push_back(list);
    }
    // Forgotten is forgotten, also if the clock then steps back: not both in one game.
    both.sweeps = dice(3) > 0;
    if (!both.sweeps) lists[1] = lists[2] = lists[0];
    int64_t now = start_us + dice(sizes.window);
    std::string told;
    for (int step = 0; step < 24; ++step) {
      if (dice(3) > 0) now += dice(sizes.step);
      if (!both.sweeps && dice(10) == 0) now -= dice(sizes.step);
      Question q;
      const Verb verb = dice(6) == 0   ? Verb::put
                        : dice(6) == 0 ? Verb::peek
                        : dice(6) == 0 ? Verb::probe
                                       : Verb::take;
      const int charges = with_groups ? 1 + dice(3) : 1;
      const int first = dice(3);
      // Mostly the first list: the same limits again.
      for (int k = 0; k < charges; ++k) {
        const auto& list = lists[dice(3) == 0 ? static_cast<size_t>(dice(3)) : 0];
        int64_t cost = dice(4) == 0 ? dice(sizes.quota + 2) : dice(sizes.quota / 8 + 3);
        if (dice(50) == 0) cost = INT64_MAX - dice(int64_t{2});
        q.add(*spaces[(first + k) % 2], prefix + std::to_string((first + k) % 3), list, both.spaces,
              verb, cost);
      }
      if (verb == Verb::put && dice(4) == 0) q.charges[0].all = true;
      for (Charge& c : q.charges) c.fresh = verb == Verb::take && dice(12) == 0;
      told += std::to_string(step) + ": at " + std::to_string(now - start_us) + " " +
              std::string(name_of(verb));
      for (const Charge& c : q.charges) {
        told += " " + std::string(c.key) + " " + std::to_string(c.cost) + (c.all ? " all" : "") +
                (c.fresh ? " anew" : "");
        for (const Limit& l : c.limits)
          told += " " + std::string(name_of(l.algorithm)) + " " + std::to_string(l.quota) + "/" +
                  std::to_string(l.window.us) + "/" + std::to_string(l.burst);
      }
      told += "\n";
      std::string wrong = both.ask(q, {now}, least);
      if (verb == Verb::take) wrong += wrong_ttls(both.client(), q);
      told += "   " + text_of(q.decisions[0]) + "\n";
      ASSERT_EQ(wrong, "") << "seed " << seed << " round " << round << "\n" << told;
    }
  }
  std::printf("light %zu, full %zu, wide %zu, again %zu\n", both.light, both.full, both.wide,
              both.again);
  const auto keys = both.client()({"KEYS", "*"});
  for (const auto& key : keys.list)
    EXPECT_GT(both.client()({"PTTL", key.text}).number, 0) << key.text;
}

constexpr Sizes tiny{6, 12, 9}, usual{1'000, 3'600'000'000, 100'000'000},
    // A million a day and more: products beyond 2^53.
    large{2'000'000'000'000, 86'400'000'000, 20'000'000'000},
    // Products to either side of 2^51, 2^52 and 2^53, where one arithmetic takes over from the
    // other, or gives up.
    edge{3'000'000, 3'000'000'000, 300'000'000},
    // Buckets that are full again at the end of time, or hold less for it.
    endless{3, 3'000'000'000'000'000, 50'000'000'000'000, 9'007'199'254'740'990};

TEST(Scripts, AnswerAsTheTableDoesInTheLight) {
  play(tiny, Weight::light, 1, 150, false);
  play(usual, Weight::light, 2, 150, false);
}
TEST(Scripts, AnswerAsTheTableDoesInFull) {
  play(tiny, Weight::full, 3, 100, false);
  play(usual, Weight::full, 4, 100, false);
}
TEST(Scripts, AnswerAsTheTableDoesInLimbs) {
  play(tiny, Weight::wide, 5, 60, false);
  play(usual, Weight::wide, 6, 60, false);
  play(large, Weight::light, 7, 100, false);
}
TEST(Scripts, AnswerAsTheTableDoesWhereDoublesEnd) {
  play(edge, Weight::light, 13, 200, false);
  play(edge, Weight::full, 14, 150, false);
  play(edge, Weight::light, 15, 50, true);
}
TEST(Scripts, AnswerAsTheTableDoesAtTheEndOfTime) {
  play(endless, Weight::light, 16, 100, false);
  play(endless, Weight::full, 17, 50, true);
}
TEST(Scripts, GroupsSettleAllOrNothing) {
  play(tiny, Weight::light, 8, 150, true);
  play(tiny, Weight::full, 9, 100, true);
  play(tiny, Weight::wide, 10, 50, true);
  play(usual, Weight::light, 11, 50, true);
  play(large, Weight::light, 12, 50, true);
}

// Droplet's: limits that come along and stay.
void play_kept(int64_t limits, int64_t costs, Weight least, uint32_t seed, int rounds) {
  Both both;
  Dice dice(seed);
  limit::Space like;
  const int64_t second = 1'000'000;
  like.windows = {{second}, {60 * second}, {3600 * second}, {86'400 * second}};
  const limit::Space& space = *both.spaces.intern("d:", "", like);
  for (int round = 0; round < rounds; ++round) {
    int64_t now = start_us;
    std::string told;
    for (int step = 0; step < 20; ++step) {
      now += dice(4) == 0 ? dice(86'400 * second) : dice(2 * second);
      if (dice(20) == 0) now -= dice(second);
      std::vector<Limit> asked;
      for (const auto window : like.windows)
        if (dice(3) == 0) asked.push_back({Algorithm::fixed_window, 1 + dice(limits), window, 0});
      Question q;
      const int64_t cost = dice(5) == 0 ? -dice(costs) : dice(3) == 0 ? dice(costs) : dice(5);
      q.add(space, std::to_string(round), asked, both.spaces,
            dice(6) == 0   ? Verb::peek
            : dice(8) == 0 ? Verb::probe
                           : Verb::take,
            cost);
      Charge& charge = q.charges[0];
      if (charge.verb == Verb::take && dice(20) == 0) charge.fresh = true;
      if (charge.verb == Verb::take && !charge.fresh && dice(12) == 0) charge.refill = true;
      if (charge.verb == Verb::peek && dice(3) == 0) {
        charge.verb = Verb::put;
        charge.all = true;
      }
      told += std::to_string(step) + ": at " + std::to_string(now - start_us) + " " +
              std::string(name_of(charge.verb)) + (charge.refill ? " refilled" : "") +
              (charge.fresh ? " anew" : "") + " cost " + std::to_string(cost);
      for (const Limit& l : asked)
        told += " " + std::to_string(l.quota) + "/" + std::to_string(l.window.us);
      told += "\n";
      const std::string wrong = both.ask(q, {now}, least);
      ASSERT_EQ(wrong, "") << "seed " << seed << " round " << round << "\n" << told;
    }
  }
  std::printf("full %zu, wide %zu, again %zu\n", both.full, both.wide, both.again);
}

TEST(Scripts, KeepLimits) {
  play_kept(10, 12, Weight::light, 20, 150);
  play_kept(10, 12, Weight::wide, 21, 50);
  play_kept(UINT32_MAX, int64_t{1} << 31, Weight::light, 22, 60);
  play_kept(100, int64_t{1} << 60, Weight::light, 23, 60);
}

// Divvy's form lives by Redis' own time, so all of it happens in one moment of a long window.
TEST(Scripts, SetAndProbeWhatIsSharedWithDivvy) {
  constexpr int64_t second = 1'000'000, window = 1'000 * second;
  Dice dice(40);
  size_t refused = 0, probed = 0;
  for (int round = 0; round < 150; ++round) {
    Both both;
    limit::Space like;
    like.form = limit::Form::divvy;
    const limit::Space &shared = *both.spaces.intern("divvy:a=1:", ":5:1000", like),
                       &own = *both.spaces.intern("n/", "");
    const int64_t quota = 1 + dice(int64_t{6});
    both.sweeps = false;
    both.near = 10 * second;
    std::string told = "quota " + std::to_string(quota) + "\n";
    for (int step = 0; step < 20; ++step) {
      Question q;
      const Verb verb = dice(6) == 0   ? Verb::put
                        : dice(6) == 0 ? Verb::peek
                        : dice(3) == 0 ? Verb::probe
                                       : Verb::take;
      const int64_t cost = dice(std::min<int64_t>(quota, 3) + 1);
      q.add(shared, std::to_string(round), {{Algorithm::fixed_window, quota, {window}, 0}},
            both.spaces, verb, cost);
      if (dice(3) == 0)
        q.add(own, std::to_string(round), {{Algorithm::fixed_bucket, 4, {}, 4}}, both.spaces, verb,
              dice(int64_t{3}));
      Charge& charge = q.charges[0];
      charge.all = verb == Verb::put && dice(3) == 0;
      charge.fresh = verb == Verb::take && dice(4) == 0;
      if (verb == Verb::probe) charge.before = static_cast<uint8_t>(dice(4));
      told += std::string(name_of(verb)) + " " + std::to_string(cost) + (charge.all ? " all" : "") +
              (charge.fresh ? " anew" : "") + " behind " + std::to_string(charge.before) + " of " +
              std::to_string(q.charges.size()) + "\n";
      const std::string wrong =
          both.ask(q, {start_us}, dice(5) == 0 ? Weight::wide : Weight::light);
      ASSERT_EQ(wrong, "") << "round " << round << "\n" << told;
      told += "   " + text_of(q.decisions[0]) + "\n";
      refused += q.decisions[0].allowed ? 0u : 1u;
      probed += verb == Verb::probe ? 1u : 0u;
    }
  }
  EXPECT_GT(refused, 200u);
  EXPECT_GT(probed, 500u);
}

// Units that somebody waits for are not there for anybody behind.
void play_ahead(const Sizes& sizes, uint32_t seed) {
  Both both;
  Dice dice(seed);
  const limit::Space& space = *both.spaces.intern("w/", "");
  store::tests::Counting counting;
  size_t parked = 0;
  for (int round = 0; round < 300; ++round) {
    const std::vector<Limit> list = {random_limit(dice, sizes, false)};
    const std::string key = std::to_string(round);
    int64_t now = start_us + dice(int64_t{1000});
    const auto ask = [&](Verb verb, int64_t cost, std::vector<int64_t> ahead) {
      Question q;
      q.add(space, key, list, both.spaces, verb, cost);
      return both.ask(q, {now}, dice(4) == 0 ? Weight::wide : Weight::light, std::move(ahead));
    };
    for (int i = 0; i < 3; ++i, now += dice(int64_t{10}))
      ASSERT_EQ(ask(Verb::take, dice(sizes.quota), {}), "");
    Question waits;
    const int64_t most = list[0].burst > 0 ? list[0].burst : list[0].quota;
    waits.add(space, key, list, both.spaces, Verb::take, 1 + dice(most));
    waits.charges[0].limits = both.spaces.limits(waits.charges[0].limits_id);
    Group group{.charge_count = 1, .may_wait = true, .ticket = {static_cast<uint32_t>(round), 0}};
    both.table.apply({{&group, 1}, waits.charges, waits.decisions}, {now}, &counting.port);
    if (!group.parked) {
      // It has taken: so does the script.
      continue;
    }
    ++parked;
    const int64_t ahead = waits.charges[0].cost;
    for (int i = 0; i < 6; ++i)
      ASSERT_EQ(ask(dice(3) == 0 ? Verb::peek : Verb::take, dice(sizes.quota + 3), {ahead}), "")
          << name_of(list[0].algorithm) << " ahead " << ahead;
  }
  EXPECT_GT(parked, 50u);
}

TEST(Scripts, LeaveWhatIsAheadToThoseThatWait) {
  play_ahead({20, 100, 30}, 30);
  // Their sum is past what a double tells apart.
  play_ahead({9'007'199'254'740'990, 100, 30}, 31);
}

TEST(Scripts, RefuseWhatIsNoCounterOfOurs) {
  Both both;
  const limit::Space& space = *both.spaces.intern("f/", "");
  Scripts scripts;
  LimitTexts texts;
  const auto ask = [&](Weight weight) {
    Question q;
    q.add(space, "k", {{Algorithm::fixed_window, 3, {1'000'000}, 0}}, both.spaces, Verb::take, 1);
    const Ask what{.charges = q.charges, .weight = weight, .key_prefix = "p:"};
    Weight used;
    std::string bytes;
    append_call(bytes, what, script_of(what, scripts, texts, used), false, scripts, texts);
    return both.client().raw(bytes).text;
  };
  for (const std::string value :
       {"", "x", "7", "s1;f3,1000000,0", "s1;f3,1000000,0 a b", "s1;f3,1000000,0 1",
        "s1;f3,1000000,0 1 2;3 4", "s1;f3,1000000,0 1 2 3 4", "s1;t3,1,3 1 2 3", "s1;k 3 1 2",
        "s1; -", "s1;f3,1000000,0 1.5 2"}) {
    both.client()({"SET", "p:f/k", value});
    EXPECT_TRUE(ask(Weight::full).starts_with("FOREIGN")) << value << ": " << ask(Weight::full);
    EXPECT_TRUE(ask(Weight::wide).starts_with("FOREIGN")) << value << ": " << ask(Weight::wide);
    EXPECT_EQ(both.client()({"GET", "p:f/k"}).text, value);
  }
  both.client()({"DEL", "p:f/k"});
  both.client()({"LPUSH", "p:f/k", "x"});
  EXPECT_TRUE(ask(Weight::light).starts_with("WRONGTYPE"));
  both.client()({"DEL", "p:f/k"});
  EXPECT_EQ(ask(Weight::light), "1 1 2 1000000 0");
  EXPECT_GT(both.client()({"PTTL", "p:f/k"}).number, 1'000);
}

}  // namespace
}  // namespace sluice::redis
