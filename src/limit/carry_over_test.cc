// One limit's state under another limit: each statement of limit/carry_over.h, for all pairs of
// algorithms and random numbers.
#include "limit/carry_over.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "testing/bounds_check.h"
#include "tests/support/dice.h"

namespace sluice::limit::carry_over_test {
namespace {

using bounds_check::text;

struct Subject {
  Limit numbers;
  int64_t cost_max;
  explicit Subject(const Limit& limit) : numbers(limit), cost_max(units_max(limit)) {}
  Cells zero() const { return Cells(cells(numbers)); }
  Decision ask(const Cells& state, int64_t cost, int64_t now, Cells& next) const {
    return decide(state.data(), numbers, cost, {now}, next.data());
  }
};

struct AnyLimit {
  tests::Dice dice;
  int64_t one_of(const std::vector<int64_t>& values) { return values[dice(values.size())]; }
  Limit of(Algorithm algorithm, const std::vector<int64_t>& units,
           const std::vector<int64_t>& windows) {
    Limit limit{algorithm, one_of(units), {}};
    if (algorithm == Algorithm::token_bucket) limit.burst = one_of(units);
    if (algorithm == Algorithm::fixed_bucket) limit.burst = limit.quota;
    if (algorithm != Algorithm::fixed_bucket && has_counter(algorithm))
      limit.window.us = one_of(windows);
    if (algorithm == Algorithm::concurrency)
      limit.burst = std::max(limit.window.us, one_of(windows));
    return limit;
  }
};

std::string name(const Limit& limit) {
  return std::string(name_of(limit.algorithm)) + " " + std::to_string(limit.quota) + " per " +
         std::to_string(limit.window.us) + " burst " + std::to_string(limit.burst);
}

// The units that a bucket misses and holds, in fractions of 1/`unit`, computed from its own limit.
struct Parts {
  Wide missing, capacity, unit;
};
Parts parts(const Limit& limit, const State& state, int64_t now) {
  if (limit.algorithm == Algorithm::fixed_bucket) return {state.units, limit.burst, 1};
  const Wide missing = state.units > 0 && state.fresh_at_us > now
                           ? (Wide{state.fresh_at_us} - 1 - now) * limit.quota + state.units
                           : Wide{0};
  const Wide capacity = Wide{limit.burst} * limit.window.us;
  return {std::min(missing, capacity), capacity, limit.window.us};
}

// Checks every statement of the header for one change. Empty: all of them hold.
std::string wrong(const Limit& from, const Limit& to, CarryOver carry, const Cells& state,
                  const Cells& next, int64_t now) {
  const Subject was(from), is(to);
  const int64_t left = bounds_check::remaining(is, next, now);
  if (is_bucket(from) && is_bucket(to)) {
    // In fractions of both limits, so that nothing is rounded here.
    const Parts before = parts(from, state[0], now), after = parts(to, next[0], now);
    const Wide missed = before.missing * after.unit, misses = after.missing * before.unit;
    const Wide had = (before.capacity - before.missing) * after.unit;
    const Wide has = (after.capacity - after.missing) * before.unit;
    const Wide room = after.capacity * before.unit;
    const bool may_owe = to.algorithm == Algorithm::fixed_bucket && from.algorithm == to.algorithm;
    if (after.missing < 0 || (after.missing > after.capacity && !may_owe)) return "no such bucket";
    if (carry == CarryOver::used) {
      if (misses < std::min(missed, room)) return "gives units";
      if (misses >= missed + before.unit) return "takes more than it rounds";
    } else {
      if (has > had) return "gives units";
      if (has <= std::min(had, room) - before.unit) return "takes more than it rounds";
    }
    if (Wide{left} * after.unit * before.unit > has) return "remaining is more than there is";
    return "";
  }
  const bool same_cells = cells(from) == cells(to);
  const bool kept = from.algorithm == to.algorithm && has_counter(to.algorithm) &&
                    (same_kind(from, to) || to.algorithm == Algorithm::fixed_window);
  if (!kept) return next == is.zero() ? "" : "not fresh";
  const int64_t used = from.quota - bounds_check::remaining(was, state, now);
  if (left != to.quota - used) return "other units are used: " + std::to_string(used);
  if (to.algorithm == Algorithm::fixed_window) {
    const int64_t to_end = peek(state.data(), from, {now}).reset_after.us;
    if (peek(next.data(), to, {now}).reset_after.us != std::min(to_end, to.window.us))
      return "another end";
  } else if (same_cells) {
    // The same window and as many cells: the state must be unchanged.
    Cells was_seen = was.zero();
    was.ask(state, 0, now, was_seen);
    if (next != was_seen) return "another state";
  }
  return "";
}

struct Change {
  Cells state, next;
  int64_t now;
};

// A counter that was used for a while, before and after its limit changed.
Change change(AnyLimit& any, const Subject& was, const Subject& is, CarryOver carry, int64_t now,
              int64_t step) {
  Cells state = was.zero();
  for (int i = 0; i < 6; ++i) {
    was.ask(state, any.one_of({0, 1, 1, 2, was.cost_max / 2, was.cost_max}), now, state);
    now += any.one_of({0, 1, 1, step, any.dice(step + 1), -any.dice(step + 1)});
  }
  Cells next = is.zero();
  carry_over(state, was.numbers, is.numbers, carry, {now}, next);
  return {state, next, now};
}

constexpr Algorithm all_algorithms[] = {
    Algorithm::unlimited,      Algorithm::deny,         Algorithm::fixed_window,
    Algorithm::aligned_window, Algorithm::token_bucket, Algorithm::sliding_window,
    Algorithm::sliding_log,    Algorithm::fixed_bucket, Algorithm::concurrency};

TEST(CarryOver, EveryPairOfAlgorithmsKeepsItsBounds) {
  AnyLimit any{tests::Dice(20261210)};
  size_t kept = 0, debts = 0;
  for (int round = 0; round < 600; ++round) {
    for (const Algorithm a : all_algorithms) {
      for (const Algorithm b : all_algorithms) {
        // Mostly pairs that keep a state; nine of ten other pairs are skipped.
        if (a != b && !(a == Algorithm::token_bucket && b == Algorithm::fixed_bucket) &&
            round % 10 != 0)
          continue;
        const std::vector<int64_t> units = {1, 2, 3, 5, 8, 40, 41}, windows = {1, 3, 10, 10, 64};
        const Limit from = any.of(a, units, windows), to = any.of(b, units, windows);
        const Subject was(from), is(to);
        const CarryOver carry = any.dice(2) == 0 ? CarryOver::used : CarryOver::left;
        const Change c = change(any, was, is, carry, 1'000, 6);
        const std::string where = name(from) + " to " + name(to) + ", " + text(c.state) +
                                  "became " + text(c.next) + "at " + std::to_string(c.now);
        if (!has_counter(b)) continue;
        if (has_counter(a)) {
          ASSERT_EQ(wrong(from, to, carry, c.state, c.next, c.now), "") << where;
        } else {
          ASSERT_EQ(c.next, is.zero());
        }
        debts += bounds_check::remaining(is, c.next, c.now) < 0;
        kept += c.next != is.zero();
        if (b == Algorithm::fixed_bucket) continue;  // no time resets it
        for (int64_t cost = 0; cost <= is.cost_max + 1; ++cost)
          ASSERT_EQ(bounds_check::broken(is, c.next, cost, c.now), "") << where << " cost " << cost;
        // The statements must also hold for takes that follow.
        Cells next = c.next;
        for (int64_t i = 1; i < 4; ++i) {
          is.ask(next, 1, c.now + i, next);
          ASSERT_EQ(bounds_check::broken(is, next, 1, c.now + i), "") << where;
        }
      }
    }
  }
  EXPECT_GT(kept, 1'500u);
  EXPECT_GT(debts, 100u);
}

TEST(CarryOver, NumbersOfAnySize) {
  AnyLimit any{tests::Dice(20261211)};
  const std::vector<int64_t> units = {1, 2, 7, 999'983, (int64_t{1} << 31) - 1};
  const std::vector<int64_t> windows = {1, 999'983, 1'000'000, 3'600'000'000, 86'400'000'000};
  for (int round = 0; round < 40'000; ++round) {
    const Algorithm a = all_algorithms[2 + any.dice(7)];
    const bool buckets = a == Algorithm::token_bucket || a == Algorithm::fixed_bucket;
    const Algorithm b = !buckets           ? a
                        : any.dice(2) == 0 ? Algorithm::token_bucket
                                           : Algorithm::fixed_bucket;
    const Limit from = any.of(a, units, windows), to = any.of(b, units, windows);
    const CarryOver carry = any.dice(2) == 0 ? CarryOver::used : CarryOver::left;
    const int64_t start = any.one_of({0, 1'795'000'000'000'000});
    const Change c = change(any, Subject(from), Subject(to), carry, start, from.window.us);
    // A bucket that would take longer to fill than time lasts holds less.
    if (is_bucket(from) && std::max(Wide{from.burst} * from.window.us / from.quota,
                                    Wide{to.burst} * to.window.us / to.quota) > INT64_MAX / 4)
      continue;
    ASSERT_EQ(wrong(from, to, carry, c.state, c.next, c.now), "")
        << name(from) << " to " << name(to) << ", " << text(c.state) << "became " << text(c.next);
  }
}

// For any numbers and any time the result is a state that is valid under the new limit.
TEST(CarryOver, AtAnyTime) {
  AnyLimit any{tests::Dice(20261212)};
  const std::vector<int64_t> units = {1, 2, 33, (int64_t{1} << 53) - 1};
  const std::vector<int64_t> windows = {1, 1'000'000, base::bounds::window_us_max};
  const std::vector<int64_t> moments = {INT64_MIN,     INT64_MIN + 1, -1, 0, 1'795'000'000'000'000,
                                        INT64_MAX - 1, INT64_MAX};
  for (int round = 0; round < 40'000; ++round) {
    const Limit from = any.of(all_algorithms[any.dice(9)], units, windows);
    const Limit to = any.of(all_algorithms[any.dice(9)], units, windows);
    const Subject was(from), is(to);
    Cells state = was.zero(), next = is.zero();
    for (int i = 0; i < 3; ++i)
      was.ask(state, any.one_of({1, was.cost_max}), any.one_of(moments), state);
    const int64_t now = any.one_of(moments);
    carry_over(state, from, to, any.dice(2) == 0 ? CarryOver::used : CarryOver::left, {now}, next);
    if (!has_counter(to.algorithm)) continue;
    Cells seen = is.zero();
    const Decision d = is.ask(next, 0, now, seen);
    ASSERT_LE(d.remaining, d.limit);
    if (now == INT64_MAX) continue;  // at INT64_MAX every counter is fresh
    ASSERT_EQ(seen, next) << name(from) << " to " << name(to) << " at " << now;
    if (cells(from) == cells(to)) {
      carry_over(state, from, to, CarryOver::used, {now}, next);
      carry_over(state, from, to, CarryOver::used, {now}, state);
      ASSERT_EQ(state, next);
    }
  }
}

TEST(CarryOver, KeepsUsedOrRemainingUnits) {
  const auto bucket = [](int64_t burst) { return Limit{Algorithm::token_bucket, 5, {100}, burst}; };
  const auto left = [](const Limit& from, const Limit& to, CarryOver carry, int64_t taken) {
    State state;
    decide(&state, from, taken, {1000}, &state);
    carry_over({&state, 1}, from, to, carry, {1000}, {&state, 1});
    return peek(&state, to, {1000}).remaining;
  };
  EXPECT_EQ(left(bucket(5), bucket(10), CarryOver::used, 3), 7);
  EXPECT_EQ(left(bucket(5), bucket(10), CarryOver::left, 3), 2);
  EXPECT_EQ(left(bucket(5), bucket(10), CarryOver::left, 0), 5);
  EXPECT_EQ(left(bucket(10), bucket(5), CarryOver::used, 3), 2);
  EXPECT_EQ(left(bucket(10), bucket(5), CarryOver::left, 3), 5);
  EXPECT_EQ(left(bucket(10), bucket(5), CarryOver::used, 7), 0);
  const Limit places{Algorithm::fixed_bucket, 8, {}, 8};
  EXPECT_EQ(left(bucket(5), places, CarryOver::used, 3), 5);
  EXPECT_EQ(left(bucket(5), places, CarryOver::left, 3), 2);
  EXPECT_EQ(left(places, bucket(5), CarryOver::used, 7), 0);
  EXPECT_EQ(left(places, bucket(5), CarryOver::left, 7), 1);
  // A third of a unit is lost in a fixed_bucket, which holds whole units only.
  State state;
  decide(&state, bucket(5), 3, {1000}, &state);
  carry_over({&state, 1}, bucket(5), places, CarryOver::used, {1007}, {&state, 1});
  EXPECT_EQ(state, (State{INT64_MAX, 3}));
}

}  // namespace
}  // namespace sluice::limit::carry_over_test
