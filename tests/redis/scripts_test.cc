// The scripts in a real Redis against the table in memory, and so against src/limit: the same
// sequences must get the same decisions, whether a script calculates with doubles or with limbs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/bounds.h"
#include "redis/script_call.h"
#include "testing/grants_model.h"
#include "testing/some_calendar.h"
#include "tests/redis/both_stores.h"
#include "tests/support/dice.h"
#include "tests/support/limitd_listed.h"
#include "tests/support/redis_server.h"

namespace sluice::redis {
namespace {

using limit::Algorithm;
using tests::Dice;

constexpr int64_t start_us = 1'800'000'000'000'000;

struct Sizes {
  int64_t quota, window, step;
  int64_t burst = quota;
  bool calendars = false;  // half of the limits have windows of the calendar
};

int64_t longest_lease(Dice& dice, int64_t lease) {
  return std::min(lease + dice(lease), std::max(lease, base::bounds::window_us_max));
}

Limit random_limit(Dice& dice, const Sizes& sizes, bool may_lack_counter) {
  const int64_t quota = 1 + dice(sizes.quota), window = 1 + dice(sizes.window);
  if (sizes.calendars && dice(2) == 0) return tests::calendar_limit(dice(size_t{7}), quota);
  switch (dice(may_lack_counter ? 10 : 7)) {
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
      return {Algorithm::concurrency, quota, {window}, longest_lease(dice, window)};
    case 7:
      return {Algorithm::unlimited, quota, {dice(int64_t{2})}, 0};
    case 8:
      return {Algorithm::deny, 0, {}, 0};
    default:
      return {Algorithm::token_bucket, quota, {window}, quota};
  }
}

// A key of a granted group must live until its counter equals a fresh one, to the millisecond.
// These scripts add `spare_ms`, a long time, because the time that they receive is not Redis' own.
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
    // Above 2^53 ms, which are 285,000 years, it is rounded.
    const int64_t most_ms = wanted_ms + (wanted_ms >> 53 != 0 ? 1 : 0);
    // Limits that are left out may need a longer life.
    const bool leaves_out = client({"GET", key}).text.find('|') != std::string::npos;
    if ((ttl_ms > most_ms && !leaves_out) || ttl_ms < wanted_ms - slow_ms)
      return key + " is kept for " + std::to_string(ttl_ms) + " ms, not " +
             std::to_string(wanted_ms);
  }
  return "";
}

// Few keys and few lists of limits, so that requests often find a counter in use, also under other
// limits.
// `debt`: also charges, and takes under limits that count.
void play(const Sizes& sizes, Weight least, uint32_t seed, int rounds, bool with_groups,
          bool debt = false) {
  Both both;
  Dice dice(seed);
  request::Space left;
  left.carry = limit::CarryOver::left;
  const request::Space* const spaces[] = {both.spaces.intern("u/", "/x"),
                                          both.spaces.intern("l/", "", left)};
  for (int round = 0; round < rounds; ++round) {
    both.client()({"FLUSHALL"});
    const std::string prefix = std::to_string(round) + "-";
    std::vector<std::vector<Limit>> lists;
    for (int i = 0; i < 3; ++i) {
      std::vector<Limit> list;
      const int count = 1 + (with_groups ? dice(3) : 0);
      for (int j = 0; j < count; ++j) list.push_back(random_limit(dice, sizes, j > 0));
      // Mostly only numbers change.
      if (i > 0 && dice(2) == 0) {
        list = lists.front();
        for (Limit& l : list) {
          if (l.algorithm == Algorithm::deny) continue;
          l.quota = 1 + dice(sizes.quota);
          if (l.burst > 0) l.burst = l.window.us == 0 ? l.quota : 1 + dice(sizes.quota);
          if (l.window.us > 1 && !l.calendar && dice(2) == 0) l.window.us = 1 + dice(sizes.window);
          if (l.algorithm == Algorithm::concurrency) l.burst = longest_lease(dice, l.window.us);
        }
      }
      // Or the order or the number of limits changes.
      if (i > 0 && dice(3) == 0) std::reverse(list.begin(), list.end());
      if (i > 0 && list.size() > 1 && dice(4) == 0) list.pop_back();
      if (limit::cells(list) > limit::cells_max) list.resize(1);
      if (!limit::is_counted(list)) list = lists.front();  // a script is not asked
      lists.push_back(list);
    }
    // What a sweep has forgotten stays forgotten if the clock then steps back, but Redis still has
    // it. So a round has either sweeps or steps back.
    both.sweeps = dice(3) > 0;
    if (!both.sweeps) lists[1] = lists[2] = lists[0];
    int64_t now = start_us + dice(sizes.window);
    std::string told;
    for (int step = 0; step < 24; ++step) {
      if (dice(3) > 0) now += dice(sizes.step);
      if (!both.sweeps && dice(10) == 0) now -= dice(sizes.step);
      Question q;
      const Verb verb = dice(6) == 0           ? Verb::put
                        : dice(6) == 0         ? Verb::peek
                        : dice(6) == 0         ? Verb::would_take
                        : debt && dice(3) == 0 ? Verb::charge
                                               : Verb::take;
      const int charges = with_groups ? 1 + dice(3) : 1;
      const int first = dice(3);
      // Mostly the first list, so that limits often stay the same.
      for (int k = 0; k < charges; ++k) {
        const auto& list = lists[dice(3) == 0 ? static_cast<size_t>(dice(3)) : 0];
        int64_t cost = dice(4) == 0 ? dice(sizes.quota + 2) : dice(sizes.quota / 8 + 3);
        if (dice(50) == 0) cost = INT64_MAX - dice(int64_t{2});
        q.add(*spaces[(first + k) % 2], prefix + std::to_string((first + k) % 3), list, both.spaces,
              verb, cost);
      }
      if (verb == Verb::put && dice(4) == 0) q.charges[0].all = true;
      for (Charge& c : q.charges) {
        c.reset_first = verb == Verb::take && dice(12) == 0;
        if (!debt || verb != Verb::take || dice(2) == 0) continue;
        c.counts = static_cast<limit::LimitMask>(1 + dice(limit::all_of(c.limits)));
        c.verb = Verb::count;
      }
      told += std::to_string(step) + ": at " + std::to_string(now - start_us) + " " +
              std::string(name_of(verb));
      for (const Charge& c : q.charges) {
        told += " " + std::string(c.key) + " " + std::to_string(c.cost) + (c.all ? " all" : "") +
                (c.reset_first ? " again" : "") +
                (c.counts != 0 ? " counts " + std::to_string(c.counts) : "");
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
  std::printf("arrivals %zu, light %zu, full %zu, wide %zu, again %zu\n", both.arrivals, both.light,
              both.full, both.wide, both.again);
  const auto keys = both.client()({"KEYS", "*"});
  for (const auto& key : keys.list)
    EXPECT_GT(both.client()({"PTTL", key.text}).number, 0) << key.text;
}

constexpr Sizes tiny{6, 12, 9}, usual{1'000, 3'600'000'000, 100'000'000},
    // A million units a day and more: products above 2^53.
    large{2'000'000'000'000, 86'400'000'000, 20'000'000'000},
    // Products on both sides of 2^51, 2^52 and 2^53, where a script switches to another arithmetic.
    edge{3'000'000, 3'000'000'000, 300'000'000},
    // Buckets that are full again only at the end of time, or hold less because of it.
    endless{3, 3'000'000'000'000'000, 50'000'000'000'000, 9'007'199'254'740'990};

TEST(Scripts, LightWeightAnswersAsTheTableDoes) {
  play(tiny, Weight::light, 1, 150, false);
  play(usual, Weight::light, 2, 150, false);
}
TEST(Scripts, FullWeightAnswersAsTheTableDoes) {
  play(tiny, Weight::full, 3, 100, false);
  play(usual, Weight::full, 4, 100, false);
}
TEST(Scripts, LimbWeightAnswersAsTheTableDoes) {
  play(tiny, Weight::wide, 5, 60, false);
  play(usual, Weight::wide, 6, 60, false);
  play(large, Weight::light, 7, 100, false);
}
// Times move by days, so that windows end and a clock that steps back is in the one before.
TEST(Scripts, WindowsOfTheCalendarAnswerAsTheTableDoes) {
  constexpr int64_t day = 86'400'000'000;
  constexpr Sizes days{20, 40 * day, 3 * day, 20, true}, hours{20, day, day / 24, 20, true};
  play(days, Weight::light, 81, 150, false);
  play(hours, Weight::light, 82, 150, false);
  play(days, Weight::full, 83, 100, true, true);
  play(hours, Weight::wide, 84, 60, true, true);
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

TEST(Scripts, ChargesAndLimitsThatCountAnswerAsTheTableDoes) {
  play(tiny, Weight::light, 61, 300, false, true);
  play(usual, Weight::light, 62, 150, false, true);
  play(tiny, Weight::full, 63, 150, true, true);
  play(usual, Weight::full, 64, 100, true, true);
}
TEST(Scripts, LimbsAnswerChargesAsTheTableDoes) {
  play(tiny, Weight::wide, 65, 100, true, true);
  play(usual, Weight::wide, 66, 60, true, true);
  play(large, Weight::light, 67, 60, true, true);
  play(edge, Weight::light, 68, 100, true, true);
}
TEST(Scripts, ChargesAnswerAsTheTableDoesAtTheEndOfTime) {
  play(endless, Weight::light, 69, 100, false, true);
  play(endless, Weight::full, 70, 50, true, true);
}

// Overrides with other kinds of limits come and go. The scripts must decide as the table does, and
// grant no more than the largest limit of each kind alone would.
TEST(Scripts, LimitsThatAreLeftOutDoNotRefillTheCounter) {
  constexpr int64_t second = 1'000'000;
  Both both;
  Dice dice(60);
  size_t grants = 0, refusals = 0, left = 0;
  for (int round = 0; round < 250; ++round) {
    const bool limbs = round % 5 == 0;
    const auto lists = limit::any_lists(dice, second);
    limit::GrantsModel naive(lists);
    int64_t now = start_us;
    std::string told;
    const request::Space& space = *both.spaces.intern("u/", "/x");
    const std::string key = std::to_string(round);
    for (int step = 0; step < 30; ++step) {
      if (dice(3) > 0) now += dice(second);
      const auto& list = lists[dice(lists.size())];
      const int64_t cost = 1 + dice(int64_t{3});
      for (const Limit& l : list)
        told += std::string(name_of(l.algorithm)) + " " + std::to_string(l.quota) + "/" +
                std::to_string(l.window.us) + "/" + std::to_string(l.burst) + " ";
      told += std::to_string(cost) + "@" + std::to_string(now - start_us) + "\n";
      Question q;
      q.add(space, key, list, both.spaces, Verb::take, cost);
      ASSERT_EQ(both.ask(q, {now}, limbs ? Weight::wide : Weight::light), "") << told;
      const auto value = both.client()({"GET", "p:u/" + key + "/x"});
      left += value.text.find('|') != std::string::npos;
      const bool allowed = std::all_of(q.decisions.begin(), q.decisions.end(),
                                       [](const Decision& d) { return d.allowed; });
      (allowed ? grants : refusals) += 1;
      if (allowed) {
        ASSERT_EQ(naive.grant(list, cost, {now}), "") << told;
      }
    }
  }
  EXPECT_GT(grants, 1'000u);
  EXPECT_GT(refusals, 1'000u);
  EXPECT_GT(left, 1'000u);
}

// A value has `|` only while a limit is left out.
TEST(Scripts, LimitsThatAreLeftOutStandBehindTheOthers) {
  constexpr int64_t second = 1'000'000, hour = 3'600 * second;
  constexpr std::string_view recorded =
      "s1;f50,1000000,0;f100,3600000000,0 1800000001000000 50;1800003600000000 50";
  const Limit fast{Algorithm::fixed_window, 50, {second}, 0},
      slow{Algorithm::fixed_window, 100, {hour}, 0}, more{Algorithm::fixed_window, 150, {hour}, 0};
  for (const Weight weight : {Weight::light, Weight::full, Weight::wide}) {
    Both both;
    const request::Space& space = *both.spaces.intern("u/", "/x");
    const auto ask = [&](const std::vector<Limit>& limits, int64_t cost, int64_t after_us) {
      Question q;
      q.add(space, "k", limits, both.spaces, Verb::take, cost);
      EXPECT_EQ(both.ask(q, {start_us + after_us}, weight), "");
      return q.decisions;
    };
    const auto value = [&] { return both.client()({"GET", "p:u/k/x"}).text; };
    ask({fast, slow}, 50, 0);
    EXPECT_EQ(value(), recorded);
    both.client()({"SET", "p:u/k/x", std::string(recorded), "PX", "100000000"});
    EXPECT_EQ(ask({slow, fast}, 50, 2 * second)[0].remaining, 0);
    EXPECT_EQ(value(),
              "s1;f100,3600000000,0;f50,1000000,0 1800003600000000 100;1800000003000000 50");
    EXPECT_EQ(ask({more}, 50, 2 * second)[0].remaining, 0);
    EXPECT_EQ(value(),
              "s1;f150,3600000000,0|;f50,1000000,0 1800003600000000 150;1800000003000000 50");
    EXPECT_EQ(ask({more}, 1, 2 * second)[0].remaining, 0);
    EXPECT_EQ(ask({fast, slow}, 1, 2 * second)[0].remaining, 0);
    EXPECT_EQ(value(),
              "s1;f50,1000000,0;f100,3600000000,0 1800000003000000 50;1800003600000000 150");
    EXPECT_EQ(ask({fast, slow}, 1, hour)[1].remaining, 99);
    EXPECT_EQ(value(), "s1;f50,1000000,0;f100,3600000000,0 1800003601000000 1;1800007200000000 1");
    // Values that no server writes.
    for (const std::string wrong : {"s1;f50,1000000,0|;f100,3600000000,0 1800000001000000 50",
                                    "s1;f50,1000000,0|;f100,3600000000,0 -;-;-",
                                    "s1;|;f50,1000000,0 -;-", "s1;f50,1000000,0| "}) {
      both.client()({"SET", "p:u/k/x", wrong, "PX", "100000000"});
      Question q;
      q.add(space, "k", {fast}, both.spaces, Verb::take, 1);
      const std::string said = both.ask(q, {start_us}, weight);
      EXPECT_TRUE(said.empty() || said.starts_with("error: FOREIGN") ||
                  said.find("here, ") != std::string::npos)
          << wrong << ": " << said;
    }
  }
}

// Droplet's limits, which come with a request and stay in the counter.
void play_kept(int64_t limits, int64_t costs, Weight least, uint32_t seed, int rounds) {
  Both both;
  Dice dice(seed);
  request::Space like;
  const int64_t second = 1'000'000;
  like.windows = {{second}, {60 * second}, {3600 * second}, {86'400 * second}};
  const request::Space& space = *both.spaces.intern("d:", "", like);
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
            : dice(8) == 0 ? Verb::would_take
            : dice(9) == 0 ? Verb::charge
                           : Verb::take,
            cost);
      Charge& charge = q.charges[0];
      if (charge.verb == Verb::take && dice(20) == 0) charge.reset_first = true;
      if (charge.verb == Verb::take && !charge.reset_first && dice(12) == 0) charge.refill = true;
      if (charge.verb == Verb::peek && dice(3) == 0) {
        charge.verb = Verb::put;
        charge.all = true;
      }
      told += std::to_string(step) + ": at " + std::to_string(now - start_us) + " " +
              std::string(name_of(charge.verb)) + (charge.refill ? " refilled" : "") +
              (charge.reset_first ? " again" : "") + " cost " + std::to_string(cost);
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

// Counters in Divvy's form expire by Redis' own time, so a round happens at one time of a long
// window.
TEST(Scripts, SetAndProbeCountersSharedWithDivvy) {
  constexpr int64_t second = 1'000'000, window = 1'000 * second;
  Dice dice(40);
  size_t refused = 0, probed = 0;
  for (int round = 0; round < 150; ++round) {
    Both both;
    request::Space like;
    like.encoding = request::KeyEncoding::remaining_text;
    const request::Space &shared = *both.spaces.intern("divvy:a=1:", ":5:1000", like),
                         &own = *both.spaces.intern("n/", "");
    const int64_t quota = 1 + dice(int64_t{6});
    both.sweeps = false;
    both.near = 10 * second;
    std::string told = "quota " + std::to_string(quota) + "\n";
    for (int step = 0; step < 20; ++step) {
      Question q;
      const Verb verb = dice(6) == 0   ? Verb::put
                        : dice(6) == 0 ? Verb::peek
                        : dice(3) == 0 ? Verb::would_take
                                       : Verb::take;
      const int64_t cost = dice(std::min<int64_t>(quota, 3) + 1);
      q.add(shared, std::to_string(round), {{Algorithm::fixed_window, quota, {window}, 0}},
            both.spaces, verb, cost);
      if (dice(3) == 0)
        q.add(own, std::to_string(round), {{Algorithm::fixed_bucket, 4, {}, 4}}, both.spaces, verb,
              dice(int64_t{3}));
      Charge& charge = q.charges[0];
      charge.all = verb == Verb::put && dice(3) == 0;
      charge.reset_first = verb == Verb::take && dice(4) == 0;
      if (verb == Verb::would_take) charge.before = static_cast<uint8_t>(dice(4));
      told += std::string(name_of(verb)) + " " + std::to_string(cost) + (charge.all ? " all" : "") +
              (charge.reset_first ? " again" : "") + " behind " + std::to_string(charge.before) +
              " of " + std::to_string(q.charges.size()) + "\n";
      const std::string wrong =
          both.ask(q, {start_us}, dice(5) == 0 ? Weight::wide : Weight::light);
      ASSERT_EQ(wrong, "") << "round " << round << "\n" << told;
      told += "   " + text_of(q.decisions[0]) + "\n";
      refused += q.decisions[0].allowed ? 0u : 1u;
      probed += verb == Verb::would_take ? 1u : 0u;
    }
  }
  EXPECT_GT(refused, 200u);
  EXPECT_GT(probed, 500u);
}

// Units that a waiting request claims are not available to requests after it. A request that may
// wait and need not is granted as any other is.
void play_ahead(const Sizes& sizes, uint32_t seed) {
  Both both;
  Dice dice(seed);
  const request::Space& space = *both.spaces.intern("w/", "");
  store::tests::Counting counting;
  size_t parked = 0, granted = 0;
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
    const int64_t most = units_max(list[0]);
    waits.add(space, key, list, both.spaces, Verb::take, 1 + dice(most));
    waits.charges[0].limits = both.spaces.limits(waits.charges[0].limits_id);
    const std::vector<Charge> theirs = waits.charges;
    Group group{.charge_count = 1, .may_wait = true, .ticket = {static_cast<uint32_t>(round), 0}};
    both.table.apply({{&group, 1}, waits.charges, waits.decisions}, {now}, &counting.completions);
    std::vector<int64_t> ahead;
    if (group.parked) {
      ++parked;
      ahead = {waits.charges[0].cost};
    } else {
      ++granted;
      ASSERT_TRUE(group.allowed);
      ASSERT_EQ(both.follow(waits, theirs, true, {now}, Weight::light), "");
    }
    for (int i = 0; i < 6; ++i)
      ASSERT_EQ(ask(dice(3) == 0 ? Verb::peek : Verb::take, dice(sizes.quota + 3), ahead), "")
          << name_of(list[0].algorithm) << (group.parked ? " parked " : " granted ")
          << waits.charges[0].cost;
  }
  EXPECT_GT(parked, 50u);
  EXPECT_GT(granted, 50u);
}

// limitd's buckets, settled by the table and by the scripts.
struct Buckets {
  explicit Buckets(Weight least_weight) : least(least_weight) {
    request::Space like;
    like.keep_fresh_for = base::seconds(120);
    for (const char* type : {"three", "one", "hourly", "single"})
      spaces[type] = both.spaces.intern(std::string(type) + "/", "", like);
  }
  Question ask(const std::string& type, const std::string& key, int64_t count, Verb verb,
               bool all) {
    const auto& t = model.type(type);
    const Limit limit = t.refills ? Limit{Algorithm::token_bucket, 3, base::seconds(3'600), t.size}
                                  : Limit{Algorithm::fixed_bucket, t.size, {}, t.size};
    Question q;
    q.add(*spaces.at(type), key, {limit}, both.spaces, verb, count);
    q.charges[0].all = all;
    EXPECT_EQ(both.ask(q, {start_us}, least), "");
    return q;
  }
  void take(const std::string& type, const std::string& key, int64_t count) {
    ask(type, key, count, Verb::take, false);
  }
  void put(const std::string& type, const std::string& key, int64_t count, bool all) {
    ask(type, key, count, Verb::put, all);
  }
  tests::LimitdListed::Listed status(const std::string& type) {
    tests::LimitdListed::Listed listed;
    for (const char* key : {"a", "b", "c"}) {
      if (both.client()({"EXISTS", "p:" + type + "/" + key}).number == 1)
        listed.emplace_back(key, ask(type, key, 0, Verb::peek, false).decisions[0].remaining);
    }
    return listed;
  }

  const Weight least;
  Both both;
  std::map<std::string, const request::Space*> spaces;
  const tests::LimitdListed model;
};

TEST(Scripts, KeepAFullBucketWhereLimitdStoresIt) {
  tests::expect_listed_as_limitd_does(Buckets(Weight::light), 1, 500);
  tests::expect_listed_as_limitd_does(Buckets(Weight::full), 2, 500);
  tests::expect_listed_as_limitd_does(Buckets(Weight::wide), 3, 500);
}

TEST(Scripts, LeaveTheUnitsOfEarlierWaiters) {
  play_ahead({20, 100, 30}, 30);
  // A double cannot represent the sum of these units exactly.
  play_ahead({9'007'199'254'740'990, 100, 30}, 31);
}

TEST(Scripts, RejectForeignValues) {
  Both both;
  const request::Space& space = *both.spaces.intern("f/", "");
  Scripts scripts;
  LimitTexts texts;
  const auto ask = [&](Weight weight) {
    Question q;
    q.add(space, "k", {{Algorithm::fixed_window, 3, {1'000'000}, 0}}, both.spaces, Verb::take, 1);
    const ScriptCall what{.charges = q.charges, .weight = weight, .key_prefix = "p:"};
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
