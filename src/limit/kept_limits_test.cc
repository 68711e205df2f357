// Counters that keep their limits: every short sequence and random ones against a model, each
// statement of limit/kept_limits.h by itself, and the numbers of droplet's recorded server.
#include "limit/kept_limits.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "testing/bounds_check.h"
#include "tests/support/dice.h"

namespace sluice::limit::kept_limits_test {
namespace {

using bounds_check::text;

constexpr int64_t second = 1'000'000, hour = 3'600 * second, day = 24 * hour;
const std::vector<Duration> periods = {{second}, {60 * second}, {hour},
                                       {day},    {7 * day},     {30 * day}};

struct Ask {
  std::vector<Limit> limits;
  int64_t cost = 1;
  bool take_nothing = false, reset_first = false;
};

Limit of(int64_t quota, int64_t window_us) {
  return {Algorithm::token_bucket, quota, {window_us}, quota};
}

// A counter, called as the store calls it.
struct Counter {
  std::vector<Duration> windows = periods;
  Cells cells = {};
  uint32_t mask = 0;
  std::vector<Decision> decisions = {};

  bool take(const Ask& ask, int64_t now) {
    if (ask.reset_first) cells.clear();
    Cells out(1 + 2 * windows.size());
    decisions.assign(windows.size(), {});
    const auto result = kept_limits::take(windows, cells, ask.limits, ask.cost, {now}, out.data(),
                                          decisions.data(), ask.take_nothing);
    settle(result);
    out.resize(result.cells);
    // The result must be the same if the new state replaces the old one in the same memory.
    Cells same = cells;
    same.resize(1 + 2 * windows.size());
    std::vector<Decision> again(windows.size());
    kept_limits::take(windows, std::span(same).first(cells.size()), ask.limits, ask.cost, {now},
                      same.data(), again.data(), ask.take_nothing);
    same.resize(result.cells);
    EXPECT_EQ(same, out);
    EXPECT_TRUE(kept_limits::is_valid(windows, out)) << text(out);
    cells = out;
    return result.allowed;
  }
  void peek(int64_t now) {
    const Cells before = cells;
    decisions.assign(windows.size(), {});
    const auto result = kept_limits::peek(windows, cells, {now}, decisions.data());
    EXPECT_TRUE(result.allowed);
    EXPECT_EQ(result.cells, cells.size());
    settle(result);
    EXPECT_EQ(cells, before);
  }
  void settle(const kept_limits::Result& result) {
    mask = result.mask;
    decisions.resize(static_cast<size_t>(std::popcount(mask)));
  }
  std::string left() const {
    std::string out;
    for (const Decision& d : decisions) out += std::to_string(d.remaining) + " ";
    if (!out.empty()) out.pop_back();
    return out;
  }
};

// The model: each balance in fractions of 1/window unit, moved by one formula.
struct Naive {
  struct Period {
    Wide limit, balance, at;
  };
  std::vector<Duration> windows;
  std::vector<std::optional<Period>> periods = std::vector<std::optional<Period>>(windows.size());

  Wide window(size_t i) const { return windows[i].us; }
  Wide at(size_t i, Wide t) const {
    const Period& p = *periods[i];
    return std::min(p.limit * window(i), p.balance + std::max<Wide>(0, t - p.at) * p.limit);
  }
  Wide whole(size_t i, Wide parts) const { return parts / window(i) - (parts % window(i) < 0); }
  static int64_t wait(Wide now, Wide us) {
    return us > INT64_MAX - std::max<Wide>(now, 1) ? INT64_MAX : static_cast<int64_t>(us);
  }
  // Microseconds; longer than any wait here.
  static constexpr Wide patience = Wide{1} << 66;

  Decision decide(size_t i, Wide cost, Wide now) const {
    const Wide balance = periods[i]->balance, w = window(i), limit = periods[i]->limit;
    Decision d;
    d.allowed = balance >= cost * w;
    d.limit = static_cast<int64_t>(limit);
    d.remaining = static_cast<int64_t>(whole(i, std::min(balance - cost * w, limit * w)));
    if (d.allowed) return d;
    d.retry_after.us =
        cost > limit ? INT64_MAX : wait(now, bounds_check::least(patience, [&](Wide t) {
                                          return at(i, now + t) >= cost * w;
                                        }));
    return d;
  }
  Duration reset(size_t i, Wide now) const {
    return {wait(now, bounds_check::least(patience, [&](Wide t) {
                   return at(i, now + t) >= periods[i]->limit * window(i);
                 }))};
  }
  bool take(const Ask& ask, Wide now, std::vector<Decision>& decisions) {
    for (size_t i = 0; i < windows.size(); ++i) {
      if (ask.reset_first) periods[i].reset();
      if (periods[i]) *periods[i] = {periods[i]->limit, at(i, now), now};
    }
    std::vector<bool> named(windows.size());
    for (const Limit& limit : ask.limits) {
      for (size_t i = 0; i < windows.size(); ++i) {
        if (windows[i] != limit.window) continue;
        named[i] = true;
        const Wide balance = periods[i] ? periods[i]->balance : limit.quota * window(i);
        periods[i] = {limit.quota, balance, now};
      }
    }
    bool allowed = true;
    decisions.clear();
    for (size_t i = 0; i < windows.size(); ++i) {
      if (!named[i]) continue;
      decisions.push_back(decide(i, ask.cost, now));
      allowed = allowed && decisions.back().allowed;
    }
    size_t n = 0;
    for (size_t i = 0; i < windows.size(); ++i) {
      if (!periods[i]) continue;
      Period& p = *periods[i];
      if (allowed && !ask.take_nothing) p.balance -= Wide{ask.cost} * window(i);
      p.balance = std::min(p.balance, p.limit * window(i));
      if (named[i]) decisions[n++].reset_after = reset(i, now);
    }
    return allowed;
  }
  std::vector<Decision> peek(Wide now) const {
    std::vector<Decision> out;
    for (size_t i = 0; i < windows.size(); ++i) {
      if (!periods[i]) continue;
      Naive then = *this;
      then.periods[i] = {periods[i]->limit, at(i, now), now};
      out.push_back(then.decide(i, 0, now));
      out.back().allowed = true;
      out.back().retry_after = {};
      out.back().reset_after = then.reset(i, now);
    }
    return out;
  }
};

std::string text(const std::vector<Decision>& all) {
  std::string out;
  for (const Decision& d : all) out += text(d) + "; ";
  return out;
}

// Checks the first cell's mark: then every balance is at its limit, a microsecond before not every
// one is.
std::string wrong_mark(const Counter& counter, int64_t now) {
  const auto full = [&](int64_t then) {
    Counter seen = counter;
    seen.peek(then);
    for (const Decision& d : seen.decisions)
      if (d.remaining != d.limit) return false;
    return true;
  };
  const int64_t mark = counter.cells[0].fresh_at_us;
  if (mark < now) return "a mark in the past";
  if (mark < INT64_MAX && !full(mark)) return "not full at its mark";
  if (mark > now && mark < INT64_MAX && full(mark - 1)) return "full before its mark";
  return "";
}

// Makes one call of both, and returns how they differ. Empty: they agree.
std::string compare(Counter& counter, Naive& model, const Ask& ask, int64_t now) {
  std::vector<Decision> expected;
  const Counter before = counter;
  const bool allowed = counter.take(ask, now);
  const bool expected_allowed = model.take(ask, now, expected);
  if (allowed != expected_allowed || text(counter.decisions) != text(expected))
    return text(counter.decisions) + " not " + text(expected);
  if (const std::string wrong = wrong_mark(counter, now); !wrong.empty()) return wrong;
  Counter looked = counter;
  looked.peek(now);
  if (text(looked.decisions) != text(model.peek(now)))
    return "there is " + text(looked.decisions) + " not " + text(model.peek(now));

  // The call is allowed after the wait, and not a microsecond earlier.
  size_t n = 0;
  for (size_t i = 0; i < counter.windows.size(); ++i) {
    if ((counter.mask >> i & 1) == 0) continue;
    const Decision& d = counter.decisions[n++];
    if (d.allowed || d.retry_after == base::never) continue;
    for (const int64_t less : {0, 1}) {
      Counter later = counter;
      const Limit limit{Algorithm::token_bucket, d.limit, counter.windows[i]};
      if (later.take({{limit}, ask.cost}, now + d.retry_after.us - less) == (less == 1))
        return "retry_after is not the moment";
    }
  }
  if (!allowed || ask.take_nothing) {
    // A refusal must change the limits alone, as a call that takes nothing does.
    Counter held = before;
    Ask denied = ask;
    denied.take_nothing = true;
    held.take(denied, now);
    if (held.cells != counter.cells) return "a refusal took something";
  }
  return "";
}

struct Sequence {
  std::vector<Ask> asks;
  std::vector<int64_t> steps;
  size_t done = 0;
  std::string wrong = "";

  void run(size_t length, const Counter& counter, const Naive& model, int64_t now,
           const std::string& path) {
    if (length == 0 || !wrong.empty()) return;
    for (const int64_t step : steps) {
      for (const Ask& ask : asks) {
        Counter next = counter;
        Naive next_model = model;
        std::string here = path + std::to_string(ask.cost) + "@" + std::to_string(now + step);
        for (const Limit& l : ask.limits)
          here += " " + std::to_string(l.quota) + "/" + std::to_string(l.window.us);
        wrong = compare(next, next_model, ask, now + step);
        ++done;
        if (!wrong.empty()) wrong = here + ": " + wrong;
        if (!wrong.empty()) return;
        run(length - 1, next, next_model, now + step, here + ", ");
      }
    }
  }
};

TEST(KeptLimits, EverySequenceOfThree) {
  const std::vector<Duration> windows = {{2}, {5}};
  Sequence all{{}, {-2, 0, 3}};
  for (const int64_t cost : {-2, 0, 1, 3}) {
    all.asks.push_back({{}, cost});
    all.asks.push_back({{of(1, 2)}, cost});
    all.asks.push_back({{of(3, 5)}, cost});
    all.asks.push_back({{of(2, 2), of(1, 5)}, cost});
  }
  all.asks.push_back({{of(3, 5)}, 2, true});
  all.asks.push_back({{of(2, 5)}, 1, false, true});
  all.run(3, {windows}, {windows}, -1, "");
  EXPECT_EQ(all.wrong, "");
  EXPECT_GT(all.done, 150'000u);
}

TEST(KeptLimits, RandomSequencesAsTheModel) {
  tests::Dice dice(20261220);
  const auto one_of = [&](const std::vector<int64_t>& values) {
    return values[dice(values.size())];
  };
  size_t granted = 0, refused = 0, debts = 0, nevers = 0;
  for (int round = 0; round < 1'500; ++round) {
    const bool odd = round % 3 == 0;
    const std::vector<Duration> windows =
        odd ? std::vector<Duration>{{1}, {7}, {999'983}, {base::bounds::window_us_max}} : periods;
    Counter counter{windows};
    Naive model{windows};
    int64_t now = one_of({0, -day, 1'795'000'000'000'000, INT64_MIN, INT64_MAX - 90 * day});
    const std::vector<int64_t> limits = {1, 2, 10, 1000, 999'983, INT32_MAX, UINT32_MAX};
    for (int i = 0; i < 25; ++i) {
      Ask ask;
      for (const Duration window : windows)
        if (dice(3) == 0) ask.limits.push_back(of(one_of(limits), window.us));
      ask.cost = one_of({0, 1, 1, 1, 2, 5, -1, -3, 1000, -1000, INT32_MAX, INT32_MIN, UINT32_MAX,
                         one_of(limits), dice(int64_t{1} << 31)});
      ask.take_nothing = dice(10) == 0;
      ask.reset_first = dice(30) == 0;
      ASSERT_EQ(compare(counter, model, ask, now), "")
          << "cost " << ask.cost << " at " << now << " of " << text(counter.cells);
      for (const Decision& d : counter.decisions) {
        (d.allowed ? granted : refused) += 1;
        debts += d.remaining < 0;
        nevers += d.reset_after == base::never;
      }
      const Wide step = one_of({0, 0, 1, -1, 499'999, second, second - 1, -second, hour, -hour, day,
                                9 * day, dice(day), dice(hour), dice(second)});
      now = static_cast<int64_t>(std::clamp<Wide>(Wide{now} + step, INT64_MIN, INT64_MAX));
    }
  }
  EXPECT_GT(granted, 20'000u);
  EXPECT_GT(refused, 10'000u);
  EXPECT_GT(debts, 10'000u);
  EXPECT_GT(nevers, 100u);
}

// Numbers that were recorded from droplet's server where its code does what its documentation says.
TEST(KeptLimits, WorkedNumbers) {
  constexpr int64_t month = 30 * day;
  Counter c;
  const auto take = [&](std::vector<Limit> limits, int64_t cost, int64_t now) {
    const bool allowed = c.take({std::move(limits), cost}, now);
    return std::string(allowed ? "yes " : "no ") + c.left();
  };
  const auto peek = [&](int64_t now) {
    c.peek(now);
    return c.left();
  };
  EXPECT_EQ(take({of(10, month)}, 8, 0), "yes 2");
  EXPECT_EQ(take({of(10, month)}, 5, 0), "no -3");
  EXPECT_EQ(take({of(10, month)}, 2, 0), "yes 0");
  c = {};
  EXPECT_EQ(take({of(10, hour), of(10, month)}, 1, 0), "yes 9 9");
  EXPECT_EQ(take({of(10, hour)}, 1, 0), "yes 8");
  EXPECT_EQ(take({of(10, month)}, 1, 0), "yes 7");
  EXPECT_EQ(peek(0), "7 7");
  c = {};
  EXPECT_EQ(take({of(1, second)}, 1, 0), "yes 0");
  EXPECT_EQ(take({of(1, second)}, 1, second / 2), "no -1");
  EXPECT_EQ(c.decisions[0].retry_after.us, second / 2);
  EXPECT_EQ(peek(second / 2), "0");
  EXPECT_EQ(take({of(1, second)}, 1, second - 1), "no -1");
  EXPECT_EQ(take({of(1, second)}, 1, second), "yes 0");
  c = {};
  EXPECT_EQ(take({of(5, day), of(5, month)}, 0, 0), "yes 5 5");
  EXPECT_EQ(take({}, 9, 0), "yes ");
  EXPECT_EQ(peek(0), "-4 -4");
  EXPECT_EQ(take({of(5, day)}, -3, 0), "no -1");
  EXPECT_EQ(take({of(5, day)}, 0, 0), "no -4");
  EXPECT_EQ(take({of(5, day)}, -4, 0), "yes 0");

  // Where droplet's code differs from its documentation we follow the documentation: a balance
  // never exceeds its limit,
  c = {};
  EXPECT_EQ(take({of(10, second)}, 1, 0), "yes 9");
  EXPECT_EQ(take({of(10, second)}, 25, 2 * second), "no -15");
  EXPECT_EQ(c.decisions[0].retry_after, base::never);
  c = {};
  EXPECT_EQ(take({of(10, month)}, -15, 0), "yes 10");
  EXPECT_EQ(take({of(10, month)}, 24, 0), "no -14");
  c = {};
  EXPECT_EQ(take({of(100, month)}, 1, 0), "yes 99");
  EXPECT_EQ(take({of(10, month)}, 1, 0), "yes 10");
  EXPECT_EQ(take({of(10, month)}, 90, 0), "no -80");
  EXPECT_EQ(take({of(3, month)}, 11, 0), "no -1");  // of 10 units
  EXPECT_EQ(take({of(3, month)}, 4, 0), "no -1");
  // and units that came back before a new limit came back at the old limit's rate.
  c = {};
  EXPECT_EQ(take({of(5, second)}, 5, 0), "yes 0");
  EXPECT_EQ(take({of(200, second)}, 0, 400'000), "yes 2");
  EXPECT_EQ(take({of(200, second)}, 0, 500'000), "yes 22");
}

// The example of docs/algorithms.md.
TEST(KeptLimits, AWorkedExample) {
  constexpr int64_t now = 1'800'000'000 * second;
  Counter c;
  EXPECT_TRUE(c.take({{of(10, second), of(100, hour)}, 8}, now));
  EXPECT_EQ(text(c.decisions), text(std::vector<Decision>{{true, 10, 2, {800'000}, {}},
                                                          {true, 100, 92, {288 * second}, {}}}));
  EXPECT_EQ(c.cells, (Cells{{now + 288 * second, 0b101}, {now, 10}, {2, 0}, {now, 100}, {92, 0}}));
  EXPECT_FALSE(c.take({{of(10, second), of(100, hour)}, 5}, now));
  EXPECT_EQ(text(c.decisions), text(std::vector<Decision>{{false, 10, -3, {800'000}, {300'000}},
                                                          {true, 100, 87, {288 * second}, {}}}));
  EXPECT_TRUE(c.take({{of(10, second)}, 5}, now + 300'000));
  EXPECT_EQ(c.left(), "0");
  c.peek(now + 300'000);
  EXPECT_EQ(c.left(), "0 87");
}

TEST(KeptLimits, WithoutWindows) {
  Counter c;
  EXPECT_TRUE(c.take({{}, 7}, 1'000));
  EXPECT_EQ(c.mask, 0u);
  EXPECT_EQ(c.cells, (Cells{{1'000, 0}}));  // fresh at once: may be forgotten
  c.peek(1'000);
  EXPECT_EQ(c.mask, 0u);
  c.cells.clear();
  c.peek(1'000);
  EXPECT_EQ(c.mask, 0u);
  EXPECT_TRUE(c.cells.empty());
}

TEST(KeptLimits, DebtEndsAtItsBound) {
  Counter c;
  EXPECT_TRUE(c.take({{of(UINT32_MAX, second), of(1, 30 * day)}, 0}, 0));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(c.take({{}, INT64_MAX}, 0));
  c.peek(0);
  EXPECT_EQ(c.decisions[0].remaining, -kept_limits::debt_max);
  EXPECT_EQ(c.decisions[1].remaining, -kept_limits::debt_max);
  const Wide parts = (kept_limits::debt_max + Wide{UINT32_MAX}) * second;
  EXPECT_EQ(c.decisions[0].reset_after.us, (parts - 1) / UINT32_MAX + 1);
  EXPECT_EQ(c.decisions[1].reset_after, base::never);
  EXPECT_EQ(c.cells[0].fresh_at_us, INT64_MAX);
  EXPECT_FALSE(c.take({{of(1, 30 * day)}, INT64_MAX}, 1));
  EXPECT_EQ(c.decisions[0].remaining, -kept_limits::debt_max);
  EXPECT_FALSE(c.take({{of(1, 30 * day)}, 1 - kept_limits::debt_max}, 1));
  EXPECT_TRUE(c.take({{of(1, 30 * day)}, -kept_limits::debt_max}, 1));
  EXPECT_EQ(c.left(), "0");
  EXPECT_TRUE(c.take({{of(1, 30 * day)}, INT64_MIN}, 1));
  EXPECT_EQ(c.left(), "1");
  c.peek(1);
  EXPECT_EQ(c.left(), "4294967295 1");
}

// A debt of many takes of INT32_MAX is exact to the unit.
TEST(KeptLimits, DebtsOfManyTakes) {
  Counter c;
  EXPECT_TRUE(c.take({{of(1, 30 * day)}, 0}, 0));
  for (int i = 0; i < 1'000; ++i) EXPECT_TRUE(c.take({{}, INT32_MAX}, 0));
  c.peek(0);
  EXPECT_EQ(c.decisions[0].remaining, 1 - int64_t{1'000} * INT32_MAX);
  EXPECT_EQ(c.decisions[0].reset_after, Duration{INT64_MAX});
}

// Every way of taking of one counter with one window, from one time on: at each microsecond any
// number of calls, or none, each of any cost of `costs`. Of all ways that lead to the same state
// the one that has taken the most is kept, as what can follow depends on the state alone.
struct EveryWay {
  int64_t limit, window;
  std::vector<int64_t> costs;
  std::map<std::vector<std::pair<int64_t, int64_t>>, int64_t> taken = {};  // by state
  int64_t most = 0;
  size_t calls = 0;

  static std::vector<std::pair<int64_t, int64_t>> key_of(const Cells& cells) {
    std::vector<std::pair<int64_t, int64_t>> key;
    for (const State& cell : cells) key.emplace_back(cell.fresh_at_us, cell.units);
    return key;
  }
  // All calls of the microsecond `now`, in all orders; ends early once more than `bound` is taken.
  void call(int64_t now, int64_t bound) {
    std::vector<std::vector<std::pair<int64_t, int64_t>>> open;
    for (const auto& [state, sum] : taken) open.push_back(state);
    while (!open.empty()) {
      const auto from = std::move(open.back());
      open.pop_back();
      const int64_t before = taken.at(from);
      for (const int64_t cost : costs) {
        ++calls;
        Counter c{{{window}}};
        for (const auto& [time, units] : from) c.cells.push_back({time, units});
        const int64_t sum = before + (c.take({{of(limit, window)}, cost}, now) ? cost : 0);
        const auto [at, fresh] = taken.try_emplace(key_of(c.cells), sum);
        if (!fresh && at->second >= sum) continue;
        at->second = sum;
        most = std::max(most, sum);
        if (most > bound) return;
        open.push_back(at->first);
      }
    }
  }
};

// Any way of taking, of 1 to all units and more, and of adding, from any balance: within T
// microseconds less than the bound or as much as it, never more. From a full balance some way takes
// just as much, so the bound is the smallest one.
TEST(KeptLimits, NoWayOfTakingExceedsTheBoundAndOneReachesIt) {
  size_t calls = 0;
  for (const int64_t limit : {1, 2, 3, 5}) {
    for (const int64_t window : {1, 2, 3, 4}) {
      std::vector<int64_t> costs;
      for (int64_t cost = -2; cost <= limit + 1; ++cost) costs.push_back(cost);
      for (int64_t units = -1; units <= limit; ++units) {
        for (int64_t parts = 0; parts < (units < limit ? window : 1); ++parts) {
          EveryWay all{limit, window, costs};
          all.taken[{{INT64_MAX, 1}, {0, limit}, {units, parts}}] = 0;
          for (int64_t t = 0; t < 2 * window + 1; ++t) {
            const int64_t bound = limit + t * limit / window;  // of T = t + 1
            all.call(t, bound);
            ASSERT_LE(all.most, bound) << limit << "/" << window << " from " << units << ", "
                                       << parts << " parts, in " << t + 1 << " us";
            if (units == limit) {
              ASSERT_EQ(all.most, bound) << limit << "/" << window << " in " << t + 1 << " us";
            }
          }
          calls += all.calls;
        }
      }
    }
  }
  EXPECT_GT(calls, 10'000u);
}

TEST(KeptLimits, WhatIsReadIsChecked) {
  const std::vector<Duration> windows = {{10}, {100}};
  const Cells good = {{5, 0b10}, {7, 3}, {-2, 99}};
  ASSERT_TRUE(kept_limits::is_valid(windows, good));
  ASSERT_TRUE(kept_limits::is_valid(windows, {}));
  const auto with = [&](size_t cell, State state) {
    Cells cells = good;
    cells[cell] = state;
    return kept_limits::is_valid(windows, cells);
  };
  EXPECT_FALSE(with(0, {5, 0b11}));
  EXPECT_FALSE(with(0, {5, 0b100}));
  EXPECT_FALSE(with(0, {5, -1}));
  EXPECT_FALSE(with(1, {7, 0}));
  EXPECT_FALSE(with(1, {7, int64_t{UINT32_MAX} + 1}));
  EXPECT_FALSE(with(2, {4, 0}));
  EXPECT_FALSE(with(2, {3, 1}));
  EXPECT_TRUE(with(2, {3, 0}));
  EXPECT_FALSE(with(2, {-2, 100}));
  EXPECT_FALSE(with(2, {-2, -1}));
  EXPECT_FALSE(with(2, {-kept_limits::debt_max - 1, 0}));
  EXPECT_FALSE(kept_limits::is_valid(windows, std::span(good).first(2)));
}

TEST(KeptLimitsDeathTest, PreconditionsAreChecked) {
  Counter c;
  EXPECT_DEATH(c.take({{of(1, 17)}, 1}, 0), "windows");
  EXPECT_DEATH(c.take({{of(0, second)}, 1}, 0), "quota");
  EXPECT_DEATH(c.take({{of(int64_t{1} << 32, second)}, 1}, 0), "quota");
  c.windows[0].us = 0;
  EXPECT_DEATH(c.take({{}, 1}, 0), "window");
}

}  // namespace
}  // namespace sluice::limit::kept_limits_test
