// Limits whose numbers come with each request (limit/gcra.h), in the scripts of a real Redis and in
// the table in memory: the same sequences must get the same decisions, and leave the same states
// after each.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "limit/decide.h"
#include "limit/gcra.h"
#include "limit/wide.h"
#include "redis/script_call.h"
#include "store/embedded_store.h"
#include "tests/redis/both_stores.h"
#include "tests/support/dice.h"

namespace sluice::redis::gcra_scripts_test {
namespace {

using limit::Algorithm;
using limit::State;
using limit::Wide;
using limit::gcra::is_gcra;
using tests::Dice;
using States = std::vector<State>;

constexpr int64_t second = 1'000'000, start_us = 1'800'000'000 * second;
constexpr Algorithm kinds[] = {Algorithm::gcra_cell, Algorithm::gcra_crab, Algorithm::gcra_redis};

// Numbers of any magnitude, up to the largest ones.
int64_t any_size(Dice& dice) {
  switch (dice(4)) {
    case 0:
      return 1 + dice(int64_t{9});
    case 1:
      return INT64_MAX - dice(int64_t{3});
    case 2:
      return int64_t{1} << dice(63);
    default:
      return 1 + dice(int64_t{1} << (1 + dice(62)));
  }
}

Limit any_limit(Dice& dice, Algorithm algorithm, bool wild) {
  const bool crab = algorithm == Algorithm::gcra_crab;
  const int64_t emission = wild ? any_size(dice) : 1 + dice(int64_t{1} << (4 + dice(28)));
  const int64_t few = dice(3) == 0 ? -dice(int64_t{6}) : 1 + dice(int64_t{8});
  int64_t quota = wild && dice(2) == 0 ? any_size(dice) : few;
  // Both must fit: the whole bucket, and the tolerance.
  const auto fits = [&](int64_t units) { return limit::gcra::fits(Wide{emission} * units); };
  if (!fits(quota) || !fits(quota - 1)) quota = 1 + dice(INT64_MAX / emission);
  if (crab) quota = std::max<int64_t>(quota, 1);  // as limit::gcra::crab_rate makes them
  const Limit limit{algorithm, quota, {emission}, emission * (crab ? quota - 1 : quota)};
  // Some report when they are full.
  return crab && emission % 3 == 0 ? limit::gcra::telling_full(limit) : limit;
}

int64_t any_cost(Dice& dice, bool wild) {
  switch (dice(8)) {
    case 0:
      return 0;
    case 1:
      return -1 - dice(int64_t{5});
    case 2:
      return wild ? any_size(dice) : dice(int64_t{12});
    case 3:
      return wild ? -any_size(dice) - dice(int64_t{2}) : 1;
    default:
      return 1 + dice(int64_t{3});
  }
}

std::string key_of(const Charge& charge) {
  return "p:" + charge.space->prefix + std::string(charge.key) + charge.space->suffix;
}

// Reads a value of Redis. Nothing if it has another form or another name.
std::optional<States> read_value(std::string_view value, std::string_view name) {
  if (!value.starts_with(name) || !value.substr(name.size()).starts_with(' ')) return {};
  value.remove_prefix(name.size() + 1);
  States states;
  const auto number = [&](int64_t& n) {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
    value.remove_prefix(static_cast<size_t>(end - value.data()));
    return error == std::errc();
  };
  for (bool more = true; more;) {
    State& state = states.emplace_back();
    if (value == "-" || value.starts_with("-;")) {
      value.remove_prefix(1);
    } else {
      if (!number(state.fresh_at_us) || !value.starts_with(' ')) return {};
      value.remove_prefix(1);
      if (!number(state.units)) return {};
    }
    more = value.starts_with(';');
    if (more) value.remove_prefix(1);
  }
  if (!value.empty()) return {};
  return states;
}

std::string text_of(const States& states) {
  std::string text;
  for (const State& s : states)
    text += std::to_string(s.fresh_at_us) + " " + std::to_string(s.units) + ";";
  return text;
}

struct Seen {
  size_t granted = 0, refused = 0, out_of_range = 0, given_back = 0, negative_limits = 0,
         without_a_write = 0, states = 0, in_groups = 0;
};

class Game {
 public:
  Game() { both.table.keep_changes(); }

  // Settles the group in both. Empty if decisions, states and the lives of the keys are right.
  std::string ask(Question& q, base::Time now) {
    const bool leaves_all = only_looks(q);
    const int64_t writes_before = writes();
    std::map<std::string, std::string> values_before;
    for (const Charge& c : q.charges) values_before[key_of(c)] = value_of(c);
    const std::string wrong = both.ask(q, now, Weight::light);
    if (!wrong.empty()) return wrong;
    both.table.collect([this](const request::CounterRecord& record) {
      table_[record.space->prefix + std::string(record.key) + record.space->suffix] =
          States(record.cells.begin(), record.cells.end());
    });
    const bool refused = std::any_of(q.decisions.begin(), q.decisions.end(),
                                     [](const Decision& d) { return !d.allowed; });
    if (leaves_all || (refused && leaves_all_if_refused(q))) {
      ++seen.without_a_write;
      if (writes() != writes_before) return "Redis was written";
    }
    for (const Charge& c : q.charges) {
      const std::string problem = compare(c, now, values_before[key_of(c)]);
      if (!problem.empty()) return key_of(c) + ": " + problem;
    }
    count(q, refused);
    return "";
  }

  Both both;
  Seen seen;

 private:
  static bool is_all_gcra(const Question& q) {
    for (const Charge& c : q.charges)
      for (const Limit& l : c.limits)
        if (!is_gcra(l.algorithm)) return false;
    return true;
  }
  static bool only_looks(const Question& q) {
    return std::all_of(q.charges.begin(), q.charges.end(), [](const Charge& c) {
      return request::only_looks(c.verb) || (c.verb == Verb::take && c.cost == 0 &&
                                             !c.reset_first && is_gcra(c.limits[0].algorithm));
    });
  }
  static bool leaves_all_if_refused(const Question& q) {
    return is_all_gcra(q) && std::all_of(q.charges.begin(), q.charges.end(), [](const Charge& c) {
             return c.verb == Verb::take && !c.reset_first;
           });
  }

  // How many changes of its data Redis has counted.
  int64_t writes() {
    constexpr std::string_view name = "rdb_changes_since_last_save:";
    const std::string info = both.client()({"INFO", "persistence"}).text;
    return std::stoll(info.substr(info.find(name) + name.size()));
  }
  std::string value_of(const Charge& c) { return both.client()({"GET", key_of(c)}).text; }

  // The states that still count. A state whose time has passed counts only if nothing is swept and
  // its limit does not forget it by itself. Empty if no state counts: there is no counter.
  States live(States states, const Charge& c, base::Time now) const {
    bool any = false;
    for (size_t i = 0; i < states.size(); ++i) {
      const bool stays = !both.sweeps && is_gcra(c.limits[i].algorithm);
      if (states[i].fresh_at_us <= now.us && !stays) states[i] = {};
      any |= states[i] != State{};
    }
    if (!any) states.clear();
    return states;
  }

  std::string compare(const Charge& c, base::Time now, const std::string& before) {
    std::string name = "s1";
    for (const Limit& l : c.limits) {
      const bool gcra = is_gcra(l.algorithm);
      name += l.algorithm == Algorithm::gcra_cell    ? ";c1,1,1"
              : l.algorithm == Algorithm::gcra_crab  ? ";h1,1,1"
              : l.algorithm == Algorithm::gcra_redis ? ";g1,1,1"
                                                     : ";t";
      if (!gcra)
        name += std::to_string(l.quota) + "," + std::to_string(l.window.us) + "," +
                std::to_string(l.burst);
    }
    States there;
    const std::string value = value_of(c);
    if (!value.empty()) {
      const auto read = read_value(value, name);
      if (!read || read->size() != c.limits.size()) return "the value is " + value;
      there = *read;
      const int64_t ttl_ms = both.client()({"PTTL", key_of(c)}).number;
      if (ttl_ms <= 0) return "it stays for ever";
      if (value != before) {
        if (const std::string wrong = wrong_ttl(there, now, ttl_ms); !wrong.empty()) return wrong;
      }
    }
    const auto known = table_.find(c.space->prefix + std::string(c.key) + c.space->suffix);
    const States here = known == table_.end() ? States{} : known->second;
    if (live(here, c, now) != live(there, c, now))
      return "the states are " + text_of(here) + " here, " + text_of(there) + " there";
    if (!live(here, c, now).empty()) ++seen.states;
    return "";
  }

  // A key must live until the time of its last state has passed. These scripts add `spare_ms`,
  // because the time that they receive is not Redis' own.
  static std::string wrong_ttl(const States& states, base::Time now, int64_t ttl_ms) {
    constexpr int64_t spare_ms = 100'000'000, slow_ms = 20'000;
    int64_t wanted_ms = 0;
    for (const State& s : states) {
      const int64_t left_us = s.fresh_at_us - now.us;
      if (left_us > 0) wanted_ms = std::max(wanted_ms, left_us / 1000 + (left_us % 1000 > 0));
    }
    wanted_ms += spare_ms;
    // Above 2^53 ms, which are 285,000 years, it is rounded.
    const int64_t rounding_ms = wanted_ms >> 53 != 0 ? 4 : 0;
    if (ttl_ms <= wanted_ms + rounding_ms && ttl_ms >= wanted_ms - slow_ms) return "";
    return "it is kept for " + std::to_string(ttl_ms) + " ms, not " + std::to_string(wanted_ms);
  }

  void count(const Question& q, bool refused) {
    const Charge& c = q.charges[0];
    const Decision& d = q.decisions[0];
    if (c.verb != Verb::take) return;
    ++(refused ? seen.refused : seen.granted);
    seen.out_of_range += limit::gcra::is_out_of_range(d);
    seen.given_back += !refused && c.cost < 0;
    seen.negative_limits += c.limits[0].quota < 0;
    seen.in_groups += !refused && q.charges.size() > 1;
  }

  std::map<std::string, States> table_;  // the states of counters in the table, by their names
};

struct Play {
  uint32_t seed;
  int rounds;
  bool wild;         // numbers of all sizes, and any time since 1970
  bool with_others;  // beside other counters, of other algorithms too
};

Seen play(Algorithm kind, const Play& play) {
  Game game;
  Both& both = game.both;
  Dice dice(play.seed);
  const request::Space &own = *both.spaces.intern("own:", "/x"),
                       &other = *both.spaces.intern("other:", ""),
                       &native = *both.spaces.intern("native:", "");
  for (int round = 0; round < play.rounds; ++round) {
    both.client()({"FLUSHALL"});
    // The numbers change from call to call, the algorithms do not.
    std::vector<Algorithm> algorithms = {kind};
    if (dice(4) == 0) algorithms.push_back(kinds[dice(3)]);
    const Algorithm others = kinds[dice(3)];
    const Limit bucket{Algorithm::token_bucket,
                       1 + dice(int64_t{9}),
                       {1 + dice(int64_t{10'000'000})},
                       1 + dice(int64_t{9})};
    const std::string key = std::to_string(round);
    // What a sweep has forgotten stays forgotten if the clock then steps back, but Redis still has
    // it. So a round has either sweeps or steps back.
    both.sweeps = dice(2) == 0;
    const bool early = play.wild && !play.with_others && dice(4) == 0;
    int64_t now = early ? dice(3 * second) : start_us + dice(second);
    std::string told;
    for (int step = 0; step < 20; ++step) {
      switch (dice(5)) {
        case 0:
        case 1:
          break;  // the time stands still
        case 2:
          now += dice(int64_t{3'000});
          break;
        case 3:
          now += dice(5 * second);
          break;
        default:
          if (play.wild && !play.with_others)
            now += dice(std::min(any_size(dice), INT64_MAX / 4 - now / 2));
          else
            now += dice(int64_t{1} << (1 + dice(40)));
      }
      if (!both.sweeps && dice(6) == 0) now -= dice(std::min(now + 1, 20 * second));
      const Verb verb = dice(8) == 0   ? Verb::put
                        : dice(8) == 0 ? Verb::peek
                        : dice(8) == 0 ? Verb::would_take
                                       : Verb::take;
      int64_t cost = any_cost(dice, play.wild);
      if (verb == Verb::put) cost = cost < 0 ? -(cost + 1) : cost;
      Question q;
      std::vector<Limit> limits;
      for (const Algorithm algorithm : algorithms)
        limits.push_back(any_limit(dice, algorithm, play.wild));
      q.add(own, key, limits, both.spaces, verb, cost);
      if (play.with_others && dice(2) == 0)
        q.add(other, key, {any_limit(dice, others, play.wild)}, both.spaces, verb, cost);
      // As with a rule that continues: a cost below 0 gives it nothing back.
      if (play.with_others && dice(3) > 0)
        q.add(native, key, {bucket}, both.spaces, verb, std::max<int64_t>(cost, 0));
      if (play.with_others && dice(2) == 0) std::reverse(q.charges.begin(), q.charges.end());
      const bool all = verb == Verb::put && dice(3) == 0;
      for (Charge& c : q.charges) {
        c.all = all;
        c.reset_first = verb == Verb::take && dice(15) == 0;
      }
      told += std::to_string(step) + ": at " + std::to_string(now) + " " +
              std::string(name_of(verb)) + (all ? " all" : "");
      for (const Charge& c : q.charges) {
        told += " " + key_of(c) + " " + std::to_string(c.cost) + (c.reset_first ? " again" : "");
        for (const Limit& l : c.limits)
          told += " " + std::string(name_of(l.algorithm)) + " " + std::to_string(l.quota) + "/" +
                  std::to_string(l.window.us) + "/" + std::to_string(l.burst);
      }
      told += "\n";
      const std::string wrong = game.ask(q, {now});
      told += "   " + redis::text_of(q.decisions[0]) + "\n";
      if (!wrong.empty()) {
        ADD_FAILURE() << wrong << "\nseed " << play.seed << " round " << round << "\n" << told;
        return {};
      }
    }
  }
  // Their numbers do not fit into doubles. Where they are large, or several counters settle, limbs.
  EXPECT_EQ(both.light + both.full, 0u);
  EXPECT_GT(both.arrivals, 0u);
  EXPECT_GT(both.wide, 50u);
  return game.seen;
}

TEST(ScriptsGcra, AnswerAsTheTableDoes) {
  for (const Algorithm kind : kinds) {
    const Seen seen = play(kind, {.seed = 1, .rounds = 40, .wild = false, .with_others = false});
    EXPECT_GT(seen.granted, 100u) << name_of(kind);
    EXPECT_GT(seen.refused, 100u);
    EXPECT_GT(seen.given_back, 10u);
    // THROTTLE has no negative limits.
    if (kind != Algorithm::gcra_crab) {
      EXPECT_GT(seen.negative_limits, 30u);
    }
    EXPECT_GT(seen.without_a_write, 100u);
    EXPECT_GT(seen.states, 200u);
  }
}

TEST(ScriptsGcra, AnswerAsTheTableDoesUpToSixtyThreeBits) {
  for (const Algorithm kind : kinds) {
    const Seen seen = play(kind, {.seed = 2, .rounds = 80, .wild = true, .with_others = false});
    EXPECT_GT(seen.granted, 100u) << name_of(kind);
    EXPECT_GT(seen.refused, 100u);
    EXPECT_GT(seen.out_of_range, 50u);
    EXPECT_GT(seen.states, 50u);
  }
}

TEST(ScriptsGcra, GroupsSettleAllOrNothing) {
  for (const Algorithm kind : kinds) {
    const Seen seen = play(kind, {.seed = 3, .rounds = 40, .wild = false, .with_others = true});
    EXPECT_GT(seen.in_groups, 40u) << name_of(kind);
    EXPECT_GT(seen.refused, 100u);
    EXPECT_GT(seen.states, 200u);
    play(kind, {.seed = 4, .rounds = 15, .wild = true, .with_others = true});
  }
}

// No protocol has requests that wait for such a counter. If one had, the units that they wait for
// would be kept for them.
TEST(ScriptsGcra, LeaveTheUnitsOfEarlierWaiters) {
  Both both;
  Dice dice(5);
  store::tests::Counting counting;
  const request::Space& space = *both.spaces.intern("w/", "");
  size_t parked = 0, granted = 0;
  for (uint32_t round = 0; round < 300; ++round) {
    const Algorithm kind = kinds[round % 3];
    const auto limit = [&] {
      Limit l = any_limit(dice, kind, false);
      l.quota = 1 + dice(int64_t{8});
      l.burst = l.window.us * (kind == Algorithm::gcra_crab ? l.quota - 1 : l.quota);
      return l;
    };
    const std::string key = std::to_string(round);
    const base::Time now{start_us + dice(second)};
    const auto ask = [&](Verb verb, int64_t cost, std::vector<int64_t> ahead) {
      Question q;
      q.add(space, key, {limit()}, both.spaces, verb, cost);
      return both.ask(q, now, Weight::light, std::move(ahead));
    };
    for (int i = 0; i < 3; ++i) ASSERT_EQ(ask(Verb::take, dice(int64_t{4}), {}), "");
    Question waits;
    // A request for more units than there can ever be would block no other.
    const Limit own = limit();
    waits.add(space, key, {own}, both.spaces, Verb::take, 1 + dice(own.quota));
    const std::vector<Charge> theirs = waits.charges;
    Group group{.charge_count = 1, .may_wait = true, .ticket = {round, 0}};
    both.table.apply({{&group, 1}, waits.charges, waits.decisions}, now, &counting.completions);
    std::vector<int64_t> ahead;
    if (group.parked) {
      ++parked;
      ahead = {waits.charges[0].cost};
    } else {
      ++granted;
      ASSERT_TRUE(group.allowed);
      ASSERT_EQ(both.follow(waits, theirs, true, now, Weight::light), "");
    }
    for (int i = 0; i < 4; ++i)
      ASSERT_EQ(ask(dice(3) == 0 ? Verb::peek : Verb::take, dice(int64_t{9}), ahead), "")
          << name_of(kind) << (group.parked ? " parked " : " granted ") << waits.charges[0].cost;
  }
  EXPECT_GT(parked, 20u);
  EXPECT_GT(granted, 20u);
}

}  // namespace
}  // namespace sluice::redis::gcra_scripts_test
