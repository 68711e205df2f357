// A counter whose list of limits changes, by a reload or an override: against the bound that the
// largest limit of each kind allows (testing/grants_model.h), and the states of limits that are
// left out.
#include "limit/carry_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/zone_data.h"
#include "testing/bounds_check.h"
#include "testing/grants_model.h"
#include "tests/support/dice.h"

namespace sluice::limit::carry_list_test {
namespace {

using bounds_check::counted;
using bounds_check::limit_of;

constexpr int64_t second = 1'000'000, hour = 3'600 * second;

Limit tokens(int64_t quota, int64_t window_us) {
  return limit_of(Algorithm::token_bucket, quota, window_us);
}

std::string text(const std::vector<Limit>& list) {
  std::string all;
  for (const Limit& limit : list)
    all += std::string(name_of(limit.algorithm)) + " " + std::to_string(limit.quota) + "/" +
           std::to_string(limit.window.us) + "/" + std::to_string(limit.burst) + " ";
  return all;
}

// A counter as a store holds it.
struct Counter {
  CarryOver carry = CarryOver::used;
  std::vector<Limit> limits;
  Cells cells;

  CellCount load(const std::vector<Limit>& list, Time now, State* next) const {
    if (limits.empty()) {
      const size_t count = limit::cells(list);
      std::fill_n(next, count, State{});
      return {count, 0};
    }
    return limits == list ? drop_fresh(cells, list, now, next)
                          : carry_over_list(cells, limits, list, carry, now, next);
  }
  void store(const std::vector<Limit>& list, const State* next, size_t count) {
    limits = list;
    cells.assign(next, next + count);
  }
  // Of a counter that is not in debt: its cells stay as many.
  template <class Change>
  static void change_left_out(std::span<State> cells, const std::vector<Limit>& list,
                              const Change& change) {
    Opened counter(cells, list);
    change(counter);
    State next[counter_cells_max];
    ASSERT_EQ(counter.close(next).all, cells.size());
    std::copy_n(next, cells.size(), cells.begin());
  }
  bool take(const std::vector<Limit>& list, int64_t cost, int64_t now_us) {
    const Time now{now_us};
    State next[counter_cells_max], state[counter_cells_max];
    const CellCount count = load(list, now, state);
    EXPECT_TRUE(left_out::fits(list, {state, count.all}));
    std::copy_n(state, count.all, next);
    bool allowed = true;
    size_t at = 0;
    for (const Limit& limit : list) {
      allowed &= decide(state + at, limit, cost, now, next + at).allowed;
      at += limit::cells(limit);
    }
    if (allowed) {
      change_left_out({next, count.all}, list, [&](Opened& counter) {
        counter.take_left_out(all_of(list), now, std::vector(list.size(), cost));
      });
    } else {
      at = 0;
      for (const Limit& limit : list) {
        decide(state + at, limit, 0, now, next + at);
        at += limit::cells(limit);
      }
    }
    store(list, next, count.all);
    return allowed;
  }
  void put(const std::vector<Limit>& list, int64_t units, int64_t now_us) {
    State next[counter_cells_max];
    const CellCount count = load(list, {now_us}, next);
    size_t at = 0;
    for (const Limit& limit : list) {
      limit::put(next + at, limit, units, false, {now_us}, next + at);
      at += limit::cells(limit);
    }
    change_left_out({next, count.all}, list, [&](Opened& counter) {
      counter.put_left_out(units, CarryOver::used, {now_us});
    });
    store(list, next, count.all);
  }
  // Takes single units until one is refused.
  int64_t take_all(const std::vector<Limit>& list, int64_t now_us) {
    int64_t taken = 0;
    while (taken < 1'000 && take(list, 1, now_us)) ++taken;
    return taken;
  }
};

constexpr int64_t noon = 500'000 * hour;

TEST(CarryList, LimitsThatSwapPlacesKeepTheirStates) {
  for (const Algorithm algorithm : counted) {
    if (algorithm == Algorithm::fixed_bucket) continue;
    const Limit fast = limit_of(algorithm, 50, second), slow = limit_of(algorithm, 100, hour);
    Counter counter;
    int64_t granted = 0;
    for (int i = 0; i < 20; ++i)
      granted += counter.take_all(i % 2 == 0 ? std::vector{fast, slow} : std::vector{slow, fast},
                                  noon + i * 2 * second);
    // A bucket of 100 an hour gets one unit back every 36 s.
    EXPECT_LE(granted, algorithm == Algorithm::token_bucket ? 101 : 100) << name_of(algorithm);
    EXPECT_GE(granted, 100);
  }
}

TEST(CarryList, AnOverrideAndItsEndDoNotRefillTheCounter) {
  for (const Algorithm algorithm : counted) {
    if (algorithm == Algorithm::fixed_bucket) continue;
    const std::vector rule{limit_of(algorithm, 50, second), limit_of(algorithm, 100, hour)};
    const std::vector override_{limit_of(algorithm, 150, hour)};
    Counter counter;
    EXPECT_EQ(counter.take_all(rule, noon), 50);
    EXPECT_EQ(counter.take_all(rule, noon + 2 * second), 50);
    int64_t granted = 100, now = noon + 3 * second;
    for (int round = 0; round < 5; ++round, now += second) {
      granted += counter.take_all(override_, now);
      granted += counter.take_all(rule, now);
    }
    EXPECT_EQ(granted, 150) << name_of(algorithm);
  }
}

TEST(CarryList, AnOverrideOfAnotherWindowKeepsTheDaysCount) {
  for (const Algorithm algorithm : counted) {
    if (algorithm == Algorithm::fixed_bucket) continue;
    const std::vector rule{limit_of(algorithm, 100, 24 * hour)};
    const std::vector override_{limit_of(algorithm, 150, hour)};
    Counter counter;
    // Midnight, where the aligned windows begin.
    const int64_t start = 24 * hour * 20'000;
    EXPECT_EQ(counter.take_all(rule, start), 100);
    counter.take_all(override_, start + second);
    counter.take_all(override_, start + 2 * hour);
    const int64_t again = counter.take_all(rule, start + 4 * hour + second);
    // The units that a bucket gets back in four hours.
    EXPECT_LE(again, algorithm == Algorithm::token_bucket ? 17 : 0) << name_of(algorithm);
  }
}

TEST(CarryList, ALimitLoweredAndRaisedDoesNotRefillTheCounter) {
  for (const Algorithm algorithm : counted) {
    for (const int64_t quota : {100, 4}) {
      const std::vector rule{limit_of(algorithm, quota, hour)};
      const std::vector override_{limit_of(algorithm, quota + 50, hour)};
      Counter counter;
      int64_t granted = counter.take_all(rule, noon);
      for (int round = 0; round < 5; ++round) {
        granted += counter.take_all(override_, noon + round);
        granted += counter.take_all(rule, noon + round);
      }
      EXPECT_EQ(granted, quota + 50) << name_of(algorithm);
    }
  }
}

TEST(CarryList, CarryOverKeepsUnitsTakenFromAFixedBucket) {
  const std::vector rule{limit_of(Algorithm::fixed_bucket, 10, 0)};
  const std::vector more{limit_of(Algorithm::fixed_bucket, 15, 0)};
  const std::vector other{tokens(20, hour)};
  Counter counter;
  EXPECT_EQ(counter.take_all(more, noon), 15);
  EXPECT_FALSE(counter.take(rule, 1, noon));
  EXPECT_FALSE(counter.take(rule, 0, noon));  // debt
  counter.put(rule, 5, noon);
  EXPECT_FALSE(counter.take(rule, 1, noon));
  counter.put(rule, 1, noon);
  EXPECT_EQ(counter.take_all(rule, noon), 1);
  EXPECT_EQ(counter.take_all(more, noon), 5);
  // 15 units are out. Units that are put back under another limit count as put back.
  counter.take(other, 1, noon);
  counter.put(other, 8, noon);
  // 16 units were out; 8 are.
  EXPECT_EQ(counter.take_all(rule, noon), 2);
}

// Takes under other limits do not charge a state that is left out, and its units come back in time.
TEST(CarryList, ALimitThatIsLeftOutKeepsItsState) {
  const Limit fast = tokens(50, second), day = limit_of(Algorithm::fixed_window, 100, 24 * hour);
  Counter counter;
  for (int i = 0; i < 4; ++i) counter.take({fast, day}, 10, noon);
  EXPECT_EQ(counter.take_all({tokens(500, second)}, noon), 460);
  EXPECT_EQ(counter.take_all({fast, day}, noon + 5 * second), 50);
  EXPECT_EQ(counter.take_all({fast, day}, noon + 10 * second), 10);
  // A bucket that is left out is forgotten when it is full again.
  counter.take_all({tokens(500, second), day}, noon + 20 * second);
  EXPECT_FALSE(counter.take({fast}, 1, noon + 48 * hour - second) && counter.cells.size() > 1);
  counter.take({fast}, 1, noon + 72 * hour);
  EXPECT_EQ(counter.cells.size(), 1u);
}

TEST(CarryList, LimitsBeyond64CellsAreNotKept) {
  const Limit log = limit_of(Algorithm::sliding_log, 100, hour), slow = tokens(100, hour);
  Counter counter;
  const std::vector rule{log, slow};
  for (int i = 0; i < 40; ++i) counter.take(rule, 2, noon + i);
  // 32 cells of the log, 3 of the bucket, and 29 for the runs of the log that is left out: they
  // hold all of its units.
  const std::vector other{limit_of(Algorithm::sliding_log, 100, 2 * hour)};
  counter.take(other, 1, noon + 50);
  EXPECT_EQ(counter.cells.size(), cells_max);
  EXPECT_EQ(counter.take_all(rule, noon + 60), 20);
  EXPECT_EQ(counter.take_all({tokens(200, 2 * hour)}, noon + 61), 100);
  EXPECT_LE(counter.cells.size(), cells_max);
  // Two logs use all cells: a state that would be left out is dropped.
  const std::vector two{log, limit_of(Algorithm::sliding_log, 100, 3 * hour)};
  EXPECT_EQ(counter.take_all(two, noon + 62), 0);
  EXPECT_EQ(counter.cells.size(), cells_max);
  EXPECT_EQ(counter.take_all({slow}, noon + 63), 100);
}

TEST(CarryList, DetectsInvalidCells) {
  State cells[cells_max];
  const std::vector rule{tokens(5, second)};
  const State one{noon, 1};
  const auto count_of = [&](const Limit& limit) {
    cells[0] = one;
    const std::vector<State> state(limit::cells(limit), one);
    return left_out::append({limit, state}, cells, 1);
  };
  for (const Algorithm algorithm : counted) {
    const Limit limit = limit_of(algorithm, 3, hour);
    const size_t count = count_of(limit);
    EXPECT_TRUE(left_out::fits(rule, {cells, count}));
    EXPECT_FALSE(left_out::fits(rule, {cells, count - 1}));
    EXPECT_FALSE(left_out::fits(rule, {cells, 0}));
    EXPECT_FALSE(left_out::fits(rule, {cells, count + 1}));
    std::span<const State> rest(cells + 1, count - 1);
    LeftOut read;
    ASSERT_TRUE(left_out::next(rest, read) && rest.empty());
    EXPECT_EQ(read.limit, limit);
    EXPECT_LT(cells[1].fresh_at_us, INT64_MIN / 4);
  }
  // A quota of 0 denies all, and counts.
  EXPECT_TRUE(left_out::fits(rule, {cells, count_of({Algorithm::aligned_window, 0, {hour}})}));
  EXPECT_FALSE(left_out::fits(rule, {cells, count_of({Algorithm::fixed_window, 0, {hour}})}));
  const auto breaks = [&](auto&& change) {
    const size_t count = count_of({Algorithm::token_bucket, 3, {hour}, 7});
    EXPECT_EQ(count, 4u);
    EXPECT_TRUE(left_out::fits(rule, {cells, count}));
    change();
    EXPECT_FALSE(left_out::fits(rule, {cells, count}));
  };
  breaks([&] { cells[1].units = 0; });
  breaks([&] { cells[1].units = base::bounds::quota_max + 1; });
  breaks([&] { cells[1].fresh_at_us = noon; });
  breaks([&] { cells[1].fresh_at_us += 16; });
  breaks([&] { cells[1].fresh_at_us = INT64_MIN | 7; });
  breaks([&] { cells[2].units = 0; });
  breaks([&] { cells[2].units = 3; });
  breaks([&] { cells[2].fresh_at_us = 0; });
}

// The code of a zone is a digest: the head of each is below all moments, and its state returns.
TEST(CarryList, ACalendarOfAnyZoneThatIsLeftOutKeepsItsState) {
  const std::vector<std::string> names = base::ZoneData::find({}).names();
  ASSERT_GT(names.size(), 400u);
  for (const std::string& name : names) {
    const auto terms = *parse_calendar("year@" + name + ",year_day=12-31,starts_at=23:59");
    Limit year{Algorithm::aligned_window, 100, Calendar::nominal(terms.unit)};
    year.calendar = Calendar::of(terms).calendar;
    ASSERT_TRUE(year.calendar) << name;
    Counter counter;
    EXPECT_EQ(counter.take_all({year}, noon), 100) << name;
    counter.take({tokens(500, hour)}, 1, noon);
    ASSERT_EQ(counter.cells.size(), 3u) << name;
    EXPECT_LT(counter.cells[1].fresh_at_us, 0) << name;
    EXPECT_EQ(counter.take_all({year}, noon + 1), 0) << name;
  }
}

// Every sequence of `length` steps; a step is one list of `lists`, a cost and a step in time. The
// model fails where a grant exceeds what the largest limit alone allows.
void every_sequence(const std::vector<std::vector<Limit>>& lists, size_t length,
                    const Counter& counter, const GrantsModel& naive, int64_t now, bool puts,
                    size_t& grants, const std::string& told) {
  if (length == 0) return;
  for (const int64_t step : {0, 1, 3}) {
    for (const auto& list : lists) {
      for (const int64_t cost : {1, 3}) {
        if (testing::Test::HasFailure()) return;
        Counter next = counter;
        GrantsModel then = naive;
        const std::string path = told + text(list) + std::to_string(cost) + "@" +
                                 std::to_string(now + step - noon) + "; ";
        if (next.take(list, cost, now + step)) {
          ASSERT_EQ(then.grant(list, cost, {now + step}), "") << path;
          ++grants;
        }
        every_sequence(lists, length - 1, next, then, now + step, puts, grants, path);
      }
      if (!puts || step != 0) continue;
      Counter next = counter;
      GrantsModel then = naive;
      next.put(list, 1, now);
      then.put(list, 1, {now});
      every_sequence(lists, length - 1, next, then, now, puts, grants, told + "put; ");
    }
  }
}

TEST(CarryList, EverySequenceKeepsTheBoundOfTheLargestLimit) {
  for (const Algorithm algorithm : counted) {
    const std::vector<std::vector<Limit>> lists{{limit_of(algorithm, 2, 4)},
                                                {limit_of(algorithm, 5, 4)}};
    size_t grants = 0;
    every_sequence(lists, 5, {}, GrantsModel(lists), noon, algorithm == Algorithm::fixed_bucket,
                   grants, "");
    EXPECT_GT(grants, 1'000u);
  }
  // Places of which the lease changes as well.
  const std::vector<std::vector<Limit>> leases{{{Algorithm::concurrency, 3, {4}, 4}},
                                               {{Algorithm::concurrency, 2, {1}, 9}},
                                               {{Algorithm::concurrency, 5, {6}, 6}}};
  size_t places = 0;
  every_sequence(leases, 4, {}, GrantsModel(leases), noon, true, places, "");
  EXPECT_GT(places, 1'000u);
  // A bucket of which the rate and the burst change, and one of which only the burst does.
  const std::vector<std::vector<Limit>> bursts{{{Algorithm::token_bucket, 3, {4}, 1}},
                                               {{Algorithm::token_bucket, 3, {4}, 6}},
                                               {{Algorithm::token_bucket, 1, {4}, 3}}};
  size_t grants = 0;
  every_sequence(bursts, 4, {}, GrantsModel(bursts), noon, false, grants, "");
  EXPECT_GT(grants, 1'000u);
}

// Lists in which limits are added, removed and moved, and their numbers change.
TEST(CarryList, AnyListsKeepTheBoundOfTheLargestOfEachKind) {
  tests::Dice dice(20261122);
  size_t grants = 0, left = 0;
  for (int round = 0; round < 3'000; ++round) {
    const auto lists = any_lists(dice, 20);
    Counter counter;
    GrantsModel naive(lists);
    int64_t now = noon;
    std::string told;
    for (int step = 0; step < 40; ++step) {
      if (dice(3) > 0) now += dice(12);
      const auto& list = lists[dice(lists.size())];
      const int64_t cost = 1 + dice(int64_t{3});
      told += text(list) + std::to_string(cost) + "@" + std::to_string(now - noon) + "\n";
      if (counter.take(list, cost, now)) {
        ++grants;
        ASSERT_EQ(naive.grant(list, cost, {now}), "") << told;
      }
      left += counter.cells.size() > cells(list);
    }
  }
  EXPECT_GT(grants, 10'000u);
  EXPECT_GT(left, 10'000u);
}

}  // namespace
}  // namespace sluice::limit::carry_list_test
