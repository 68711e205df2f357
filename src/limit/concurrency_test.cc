// Places: every short sequence and random long ones against a list of the places that are out, each
// with its end; the statements of limit/concurrency.h by themselves; how runs are merged; numbers
// at the ends of their ranges.
#include "limit/concurrency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "limit/debt.h"
#include "limit/held.h"
#include "testing/bounds_check.h"
#include "tests/support/dice.h"

namespace sluice::limit::concurrency_test {
namespace {

using bounds_check::text;

constexpr int64_t max64 = INT64_MAX, min64 = INT64_MIN;
constexpr int64_t second = 1'000'000;

// Takes of one lease.
struct Subject {
  int64_t quota, lease, cost_max = quota, longest = lease;
  Limit limit() const { return {Algorithm::concurrency, quota, {lease}, longest}; }
  Cells zero() const { return Cells(cells(limit())); }
  Decision ask(const Cells& state, int64_t cost, int64_t now, Cells& next) const {
    return concurrency::decide(state, limit(), cost, {now}, next);
  }
};

// Every place that is out, by its end.
struct Naive {
  Wide cost_max, lease, patience = lease;
  std::vector<Wide> ends = {};

  void see(Wide now) {
    std::erase_if(ends, [&](Wide end) { return end <= now; });
    // After a step of the clock back the last end is farther away.
    patience = lease;
    for (const Wide end : ends) patience = std::max(patience, end - now);
  }
  Wide used(Wide t) const {
    return std::count_if(ends.begin(), ends.end(), [&](Wide end) { return end > t; });
  }
  Wide room(Wide t) const { return cost_max - used(t); }
  bool full(Wide t) const { return used(t) == 0; }
  void take(Wide units, Wide now) {
    ends.insert(ends.end(), static_cast<size_t>(units), std::min<Wide>(now + lease, max64));
  }
  void put(int64_t units) {
    std::sort(ends.begin(), ends.end());
    ends.erase(ends.begin(), ends.begin() + std::min(units, static_cast<int64_t>(ends.size())));
  }
};

int64_t bound(int64_t q, int64_t lease, int64_t t) {
  return q * ((t - 1) / lease + 1);
}

void every_sequence(size_t length, const std::vector<int64_t>& steps,
                    const std::vector<int64_t>& costs) {
  for (const int64_t quota : {1, 3}) {
    for (const int64_t lease : {1, 2, 4}) {
      // Starts below time 0, so that runs end below, at and above 0.
      const Subject subject{quota, lease};
      bounds_check::Sequences<Subject, Naive> all(subject, quota, steps, costs);
      all.run(length, subject.zero(), {quota, lease}, -2);
      ASSERT_EQ(all.wrong, "") << "quota " << quota << " lease " << lease;
      EXPECT_GT(all.decisions, 500u);
    }
  }
}

TEST(Concurrency, EverySequenceOfThree) {
  every_sequence(3, {-3, -1, 0, 1, 2}, {0, 1, 2, 4});
}

TEST(Concurrency, EverySequenceOfFive) {
  every_sequence(5, {-1, 0, 1}, {1, 2});
}

TEST(Concurrency, EveryForwardSequenceOfEight) {
  every_sequence(8, {0, 1}, {1});
}

TEST(Concurrency, TheBoundIsTheMost) {
  for (const int64_t quota : {1, 2, 3}) {
    for (const int64_t lease : {1, 2, 3, 4}) {
      bounds_check::MostAdmitted most(Subject{quota, lease}, lease + 2);
      for (int64_t t = 1; t <= 2 * lease + 2; ++t)
        EXPECT_EQ(most.in(t), bound(quota, lease, t)) << quota << " " << lease << " " << t;
    }
  }
}

// Leases of several lengths.
TEST(Concurrency, AWorkedExample) {
  constexpr int64_t now = 1'800'000'000 * second;
  const Limit pool{Algorithm::concurrency, 3, {30 * second}, 300 * second};
  Cells state(3);
  EXPECT_TRUE(decide(state.data(), pool, 1, {now}, state.data()).allowed);
  const Limit longer = concurrency::with_lease(pool, {120 * second});
  EXPECT_TRUE(decide(state.data(), longer, 1, {now + 5 * second}, state.data()).allowed);
  Decision d = decide(state.data(), pool, 1, {now + 10 * second}, state.data());
  EXPECT_EQ(text(d), text({true, 3, 0, {115 * second}, {}}));
  EXPECT_EQ(state,
            (Cells{{now + 125 * second, 1}, {now + 40 * second, 1}, {now + 30 * second, 1}}));
  d = decide(state.data(), pool, 2, {now + 20 * second}, state.data());
  EXPECT_EQ(text(d), text({false, 3, 0, {105 * second}, {20 * second}}));
  d = put(state.data(), pool, 1, false, {now + 20 * second}, state.data());
  EXPECT_EQ(text(d), text({true, 3, 1, {105 * second}, {}}));
  d = decide(state.data(), pool, 2, {now + 20 * second}, state.data());
  EXPECT_EQ(d.retry_after.us, 20 * second);
  EXPECT_TRUE(decide(state.data(), pool, 2, {now + 40 * second}, state.data()).allowed);
}

// What happens to a counter at one time.
struct Step {
  enum What { take, put, move } what = take;
  int64_t units = 1, lease = 1;
};

// The counter, and the places that are out.
struct Pair {
  Limit limit;
  Cells state = Cells(cells(limit));
  Naive naive = {limit.quota, limit.burst};
  std::vector<int64_t> taken = {};  // the ends of all takes

  void run(const Step& step, int64_t now) {
    const Naive before = naive;
    naive.see(now);
    if (step.what == Step::take) {
      const Limit its = concurrency::with_lease(limit, {step.lease});
      naive.lease = its.window.us;
      const Decision d = decide(state.data(), its, step.units, {now}, state.data());
      Naive then = naive;
      const Decision expected = bounds_check::ask(then, limit.quota, step.units, now);
      ASSERT_EQ(text(d), text(expected));
      naive = then;
      if (d.allowed) taken.push_back(now + its.window.us);
    } else if (step.what == Step::put) {
      naive.put(step.units);
      const Decision d = limit::put(state.data(), limit, step.units, false, {now}, state.data());
      ASSERT_TRUE(d.allowed);
      ASSERT_EQ(d.remaining, naive.room(now));
    } else if (!taken.empty()) {
      // Of the take before the last one, or of one that has ended.
      const int64_t from = taken[taken.size() / 2], to = now + step.lease;
      const int64_t there = std::count(naive.ends.begin(), naive.ends.end(), from);
      int64_t moved = 0;
      if (from > now && there == 0) {  // put back: its units may be another's by now
        naive = before;
        return;
      }
      for (Wide& end : naive.ends) {
        if (end != from || moved == step.units) continue;
        end = to;
        ++moved;
      }
      const int64_t units = from > now ? moved : step.units;
      ASSERT_EQ(concurrency::move(state, limit, units, from, to, {now}), moved);
      if (moved > 0) {
        naive.see(now);
        taken.push_back(to);
      } else {
        naive = before;  // nothing was written
      }
    }
    check(now);
  }
  // Never above the quota, and to the microsecond.
  void check(int64_t now) const {
    ASSERT_LE(naive.used(now), limit.quota);
    for (int64_t t = now; t <= now + 12; ++t)
      ASSERT_EQ(peek(state.data(), limit, {t}).remaining, naive.room(t)) << t;
    for (size_t i = 1; i < state.size() && state[i].units > 0; ++i)
      ASSERT_LT(state[i].fresh_at_us, state[i - 1].fresh_at_us);
  }
};

void every(const Pair& pair, int64_t now, size_t length, size_t& steps) {
  if (length == 0) return;
  for (const int64_t move : {-2, 0, 1, 3}) {
    for (const Step& step : {Step{Step::take, 1, 1}, Step{Step::take, 1, 4}, Step{Step::take, 2, 2},
                             Step{Step::put, 1}, Step{Step::move, 1, 3}, Step{Step::move, 2, -1}}) {
      Pair next = pair;
      ASSERT_NO_FATAL_FAILURE(next.run(step, now + move))
          << step.what << " " << step.units << "@" << now + move;
      ++steps;
      ASSERT_NO_FATAL_FAILURE(every(next, now + move, length - 1, steps));
    }
  }
}

TEST(Concurrency, EverySequenceOfLeasesPutsAndMovesMatchesTheModel) {
  for (const int64_t quota : {2, 3}) {
    size_t steps = 0;
    ASSERT_NO_FATAL_FAILURE(every({{Algorithm::concurrency, quota, {2}, 4}}, 7, 4, steps));
    EXPECT_GT(steps, 300'000u);
  }
}

TEST(Concurrency, LongRandomSequencesMatchTheModel) {
  tests::Dice dice(20261130);
  size_t moved = 0;
  for (int round = 0; round < 2'000; ++round) {
    const int64_t quota = 1 + dice(int64_t{32}), longest = 1 + dice(int64_t{60});
    Pair pair{{Algorithm::concurrency, quota, {1 + dice(longest)}, longest}};
    int64_t now = dice(int64_t{100}) - 50;
    for (int i = 0; i < 80; ++i) {
      now += dice(10) == 0 ? -dice(int64_t{20}) : dice(int64_t{4});
      const Step step{static_cast<Step::What>(dice(3) == 0 ? 1 + dice(2) : 0),
                      dice(4) == 0 ? 1 + dice(quota + 1) : 1, 1 + dice(longest)};
      moved += step.what == Step::move;
      ASSERT_NO_FATAL_FAILURE(pair.run(step, now)) << quota << " " << longest << " step " << i;
    }
  }
  EXPECT_GT(moved, 10'000u);
}

// More ends than there are cells: a place is never back early, and less than a slot's time late.
TEST(Concurrency, MergedRunsComeBackLateByLessThanASlotsTime) {
  tests::Dice dice(20261129);
  size_t late = 0;
  for (int round = 0; round < 200; ++round) {
    const int64_t quota = 33 + dice(int64_t{200}), longest = 400 + dice(int64_t{4'000});
    const Limit limit{Algorithm::concurrency, quota, {longest}, longest};
    const int64_t slot = sliding_log::slot_us(longest);
    Cells state(cells(limit));
    Naive exact{quota, longest};
    int64_t now = dice(2) == 0 ? -longest : 1'795'000'000'000'000;
    for (int i = 0; i < 300; ++i) {
      now += dice(int64_t{40});
      const Limit its = concurrency::with_lease(limit, {1 + dice(longest)});
      exact.see(now);
      exact.lease = its.window.us;
      const int64_t cost = 1 + dice(int64_t{3});
      const Decision d = decide(state.data(), its, cost, {now}, state.data());
      if (d.allowed) exact.take(cost, now);
      ASSERT_LE(exact.used(now), quota);
      for (const int64_t ahead : {int64_t{0}, dice(longest), dice(longest)}) {
        const int64_t used = quota - peek(state.data(), limit, {now + ahead}).remaining;
        ASSERT_GE(used, exact.used(now + ahead));
        if (ahead < slot) continue;
        // Those that end within a slot before then may be out.
        ASSERT_LE(used, exact.used(now + ahead - slot + 1));
        late += used > exact.used(now + ahead);
      }
    }
  }
  EXPECT_GT(late, 1'000u);
}

// Places of several units that are renewed and given back by their ends, while these are merged:
// what has not ended is never free.
TEST(Concurrency, RenewalsOfMergedPlacesFreeNoneEarly) {
  struct Out {
    int64_t end, units;
  };
  tests::Dice dice(20261130);
  size_t merged = 0;
  for (int round = 0; round < 120; ++round) {
    const Limit limit{Algorithm::concurrency, 40 + dice(int64_t{200}), {1'000}, 1'000};
    Cells state(cells(limit)), scratch = state;
    std::vector<Out> out;
    int64_t now = 0;
    for (int step = 0; step < 300; ++step) {
      now += dice(int64_t{5});
      const Limit its = concurrency::with_lease(limit, {1 + dice(int64_t{1'000})});
      const int64_t end = now + its.window.us;
      std::erase_if(out, [now](const Out& one) { return one.end <= now; });
      const size_t which = out.empty() ? 0 : dice(out.size());
      switch (dice(5)) {
        case 0:
        case 1: {
          const int64_t units = 1 + dice(int64_t{6});
          if (decide(state.data(), its, units, {now}, state.data()).allowed)
            out.push_back({end, units});
          break;
        }
        case 2:
        case 3:
          if (out.empty()) break;
          ASSERT_EQ(concurrency::move(state, limit, out[which].units, out[which].end, end, {now}),
                    out[which].units);
          out[which].end = end;
          break;
        default:
          if (out.empty()) break;
          ASSERT_EQ(concurrency::move(state, limit, out[which].units, out[which].end, now, {now}),
                    out[which].units);
          out.erase(out.begin() + static_cast<std::ptrdiff_t>(which));
      }
      for (const Out& one : out) {
        int64_t units = 0;
        for (const Out& other : out) units += other.end >= one.end ? other.units : 0;
        const int64_t used =
            limit.quota - concurrency::decide(state, limit, 0, {one.end - 1}, scratch).remaining;
        ASSERT_GE(used, units) << "round " << round << " step " << step;
        merged += used > units;
      }
    }
  }
  EXPECT_GT(merged, 1'000u);
}

// Ends beyond the longest lease: that was lowered, or the clock stepped back. There may be one in
// each slot.
TEST(Concurrency, MergesAnyPairWhereNoSlotHasTwo) {
  const Limit wide{Algorithm::concurrency, 100, {1'000'000}, 1'000'000};
  Cells state(32);
  for (int64_t i = 0; i < 32; ++i)
    decide(state.data(), wide, 1 + (i == 5), {i * 1'000}, state.data());
  const Limit narrow{Algorithm::concurrency, 100, {31}, 31};
  const Decision d = decide(state.data(), narrow, 3, {40'000}, state.data());
  EXPECT_TRUE(d.allowed);
  EXPECT_EQ(d.remaining, 100 - 33 - 3);
  EXPECT_EQ(state[31], (State{40'031, 3}));
  EXPECT_EQ(state[30], (State{1'001'000, 2})) << "the earliest of equals that lose least";
}

TEST(Concurrency, ALaterEndOfAMergedRunKeepsItsUnits) {
  const Limit limit{Algorithm::concurrency, 64, {6'200}, 6'200};
  Cells state(32);
  for (int64_t i = 0; i < 40; ++i) decide(state.data(), limit, 1, {i * 10}, state.data());
  // Each of the 40 can be given back, whatever it was merged into.
  for (int64_t i = 0; i < 40; ++i)
    EXPECT_EQ(concurrency::move(state, limit, 1, i * 10 + 6'200, 0, {400}), 1) << i;
  EXPECT_EQ(state, Cells(32));
}

TEST(Concurrency, AtTheEndsOfTime) {
  const Limit limit{Algorithm::concurrency, 2, {10}, 10};
  for (const int64_t now : {min64, int64_t{-1}, int64_t{0}, max64 - 11}) {
    Cells state(2);
    EXPECT_TRUE(decide(state.data(), limit, 2, {now}, state.data()).allowed);
    EXPECT_EQ(state[0], (State{now + 10, 2}));
    EXPECT_EQ(decide(state.data(), limit, 1, {now + 9}, state.data()).retry_after.us, 1);
    EXPECT_TRUE(decide(state.data(), limit, 1, {now + 10}, state.data()).allowed);
  }
  Cells state(2);
  EXPECT_TRUE(decide(state.data(), limit, 2, {max64 - 3}, state.data()).allowed);
  EXPECT_EQ(state[0], (State{max64, 2}));
  EXPECT_EQ(peek(state.data(), limit, {max64}).remaining, 2);
  const Limit most{Algorithm::concurrency, used_max, {max64}, max64};
  Cells all(32);
  EXPECT_TRUE(decide(all.data(), most, used_max, {1}, all.data()).allowed);
  EXPECT_EQ(decide(all.data(), most, used_max, {2}, all.data()).retry_after.us, max64 - 2);
  EXPECT_EQ(decide(all.data(), limit, 3, {2}, all.data()).retry_after, base::never);
}

TEST(Concurrency, ALeaseIsAtMostTheLongest) {
  const Limit limit{Algorithm::concurrency, 2, {10}, 30};
  const auto lease = [&](int64_t us) { return held::limit_for(limit, {us}).window.us; };
  EXPECT_EQ(lease(5), 5);
  EXPECT_EQ(lease(30), 30);
  EXPECT_EQ(lease(31), 30);
  EXPECT_EQ(lease(max64), 30);
  EXPECT_EQ(lease(0), 1);
  const Limit window{Algorithm::fixed_window, 2, {10}};
  EXPECT_EQ(held::limit_for(window, {5}), window);
}

// A hold of places that is renewed: it ends at the new end alone, and after a put of others no more
// of it moves than it can have left.
TEST(Concurrency, APartOfAHoldMoves) {
  const Limit limit{Algorithm::concurrency, 4, {10}, 100};
  std::array<State, limit_cells_max> whole{};
  ASSERT_TRUE(debt::decide(whole.data(), limit, 1, {0}).allowed);  // another's
  const Limit its = held::limit_for(limit, {20});
  ASSERT_TRUE(debt::decide(whole.data(), its, 2, {0}).allowed);
  held::Part part{its, held::mark_of(whole.data(), its, {0}), {0}, {}};
  EXPECT_EQ(part.mark, (State{20, 2})) << "of its own run alone";
  EXPECT_EQ(held::move(whole.data(), limit, part, 2, {}, {60}, {5}), 2);
  const auto left = [&](int64_t at) { return debt::peek(whole.data(), limit, {at}).remaining; };
  EXPECT_EQ(left(9), 1);
  EXPECT_EQ(left(59), 2);
  EXPECT_EQ(left(60), 4);
  // A put takes the place that ends first, then one of the hold's: both may have been its own.
  part.mark = {60, 2};
  debt::put(whole.data(), limit, 2, false, {6});
  const Given given{2, 1, 0};
  EXPECT_EQ(held::move(whole.data(), limit, part, 2, given, {80}, {7}), 0);
  EXPECT_EQ(held::give_back(whole.data(), limit, part, 2, given, {7}), 0);
  EXPECT_EQ(left(59), 3);
  EXPECT_EQ(held::move(whole.data(), limit, part, 2, {2, 1, 1}, {90}, {7}), 0) << "reset";
  EXPECT_EQ(held::move(whole.data(), limit, part, 2, {}, {90}, {60}), 0) << "it has ended";
  EXPECT_EQ(held::move(whole.data(), limit, part, 2, {}, {80}, {8}), 1) << "without a put";
  part.mark = {80, 1};
  EXPECT_EQ(held::give_back(whole.data(), limit, part, 2, {}, {79}), 1);
  EXPECT_EQ(left(79), 4);
}

TEST(ConcurrencyDeathTest, PreconditionsAreChecked) {
  Cells state(1);
  const auto ask = [&](const Limit& limit, int64_t cost) {
    concurrency::decide(state, limit, cost, {}, state);
  };
  EXPECT_DEATH(ask({Algorithm::concurrency, 1, {1}, 1}, -1), "cost");
  EXPECT_DEATH(ask({Algorithm::concurrency, 0, {1}, 1}, 1), "quota");
  EXPECT_DEATH(ask({Algorithm::concurrency, 1, {0}, 1}, 1), "window");
  EXPECT_DEATH(ask({Algorithm::concurrency, 1, {2}, 1}, 1), "burst");
}

}  // namespace
}  // namespace sluice::limit::concurrency_test
