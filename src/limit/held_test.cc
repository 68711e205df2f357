// Giving back what was not used of a hold: against the counter from which only that was taken which
// was used (the ideal), in all short histories of small limits and in random long ones.
#include "limit/held.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "limit/debt.h"
#include "testing/bounds_check.h"
#include "tests/support/dice.h"

namespace sluice::limit::held_test {
namespace {

using bounds_check::counted;
using bounds_check::limit_of;
using Whole = std::array<State, limit_cells_max>;

constexpr int64_t noon = 1'800'000'000'000'000;

// What happens at one time. A hold is settled by a later step that names it.
struct Step {
  enum What { take, put, reset, reserve, settle } what = take;
  int64_t at = 0, units = 0;
  size_t hold = 0;    // settle: the index of its reserve among the steps
  int64_t used = -1;  // reserve: what it will come to; -1: it is not settled yet
  int64_t end = 0;    // the end of the counter's window after it
};

// The counter as sluice keeps it.
class Held {
 public:
  explicit Held(const Limit& limit) : limit_(limit) {}

  bool take(int64_t units, int64_t at) {
    return debt::decide(whole_.data(), limit_, units, {at}).allowed;
  }
  void put(int64_t units, int64_t at) {
    debt::put(whole_.data(), limit_, units, false, {at});
    ++given_.puts;
    given_.units += static_cast<uint64_t>(units);
  }
  void reset(int64_t at) {
    debt::put(whole_.data(), limit_, 0, true, {at});
    ++given_.resets;
  }
  bool reserve(int64_t units, int64_t at, size_t number) {
    if (!take(units, at)) return false;
    parts_.resize(std::max(parts_.size(), number + 1));
    parts_[number] = {held::mark_of(whole_.data(), limit_, {at}), at, units, given_};
    return true;
  }
  int64_t settle(size_t number, int64_t used, int64_t at) {
    const Kept& kept = parts_[number];
    const held::Part part{limit_, kept.mark, {kept.at}, kept.given};
    const int64_t back = held::give_back(whole_.data(), limit_, part,
                                         std::max<int64_t>(kept.units - used, 0), given_, {at});
    given_.units += static_cast<uint64_t>(back);
    return back;
  }
  int64_t end() const { return whole_[0].units > 0 ? whole_[0].fresh_at_us : 0; }
  int64_t remaining(int64_t at) const { return debt::peek(whole_.data(), limit_, {at}).remaining; }

 private:
  struct Kept {
    State mark;
    int64_t at = 0, units = 0;
    Given given;
  };
  Limit limit_;
  Whole whole_{};
  Given given_;
  std::vector<Kept> parts_;
};

// The same for a fixed window, whose windows are opened by reserves as well, whatever they come to:
// they are those of the counter.
int64_t ideal_of_fixed(const Limit& limit, const std::vector<Step>& steps, int64_t at) {
  int64_t used = 0, end = 0;
  for (const Step& step : steps) {
    if (step.at >= end) used = 0;
    if (step.end != 0) end = step.end;
    if (step.what == Step::take) used += step.units;
    if (step.what == Step::reserve) used += step.used < 0 ? step.units : step.used;
    if (step.what == Step::put) used = std::max<int64_t>(used - step.units, 0);
    if (step.what == Step::reset) used = 0;
  }
  return limit.quota - (at < end ? used : 0);
}

// What is left at `at` of a counter on which each settled hold took what it came to, when it was
// reserved, and each other one its estimate. A hold takes it whether it fits or not: its estimate
// did.
int64_t ideal(const Limit& limit, const std::vector<Step>& steps, int64_t at) {
  if (limit.algorithm == Algorithm::fixed_window) return ideal_of_fixed(limit, steps, at);
  Whole whole{};
  for (const Step& step : steps) {
    int64_t charged = 0;
    if (step.what == Step::take) {
      debt::charge(whole.data(), limit, step.units, {step.at}, Overdrafts::none, charged);
    } else if (step.what == Step::reserve) {
      debt::charge(whole.data(), limit, step.used < 0 ? step.units : step.used, {step.at},
                   Overdrafts::none, charged);
    } else if (step.what == Step::put) {
      debt::put(whole.data(), limit, step.units, false, {step.at});
    } else if (step.what == Step::reset) {
      debt::put(whole.data(), limit, 0, true, {step.at});
    }
  }
  return debt::peek(whole.data(), limit, {at}).remaining;
}

std::string text(const Limit& limit, const std::vector<Step>& steps) {
  constexpr std::array names{"take", "put", "reset", "reserve", "settle"};
  std::string all = std::string(name_of(limit.algorithm)) + " " + std::to_string(limit.quota) +
                    "/" + std::to_string(limit.window.us) + "/" + std::to_string(limit.burst);
  for (const Step& step : steps)
    all += "; " + std::string(names[step.what]) + " " + std::to_string(step.units) + "@" +
           std::to_string(step.at - noon) +
           (step.what == Step::settle ? " of " + std::to_string(step.hold) : "");
  return all;
}

// One history while it grows. Steps that are refused leave it as it was.
struct History {
  Limit limit;
  Held counter{limit};
  std::vector<Step> steps{};

  bool add(Step step) {
    if (step.what == Step::take) {
      if (!counter.take(step.units, step.at)) return false;
    } else if (step.what == Step::reserve) {
      if (!counter.reserve(step.units, step.at, steps.size())) return false;
    } else if (step.what == Step::put) {
      counter.put(step.units, step.at);
    } else if (step.what == Step::reset) {
      counter.reset(step.at);
    } else {
      counter.settle(step.hold, step.units, step.at);
      steps[step.hold].used = step.units;
    }
    step.end = counter.end();
    steps.push_back(step);
    return true;
  }
};

TEST(Held, ReturnsWhatWasNotUsed) {
  for (const Algorithm algorithm : counted) {
    Held counter(limit_of(algorithm, 100, 60'000'000));
    ASSERT_TRUE(counter.take(10, noon));
    ASSERT_TRUE(counter.reserve(60, noon, 0));
    EXPECT_EQ(counter.remaining(noon), 30);
    EXPECT_EQ(counter.settle(0, 20, noon), 40) << name_of(algorithm);
    EXPECT_EQ(counter.remaining(noon), 70) << name_of(algorithm);
  }
}

// While others take what they like, and nobody puts units back, windows get all back.
TEST(Held, OtherHoldsThatEndTakeNothingFromWindows) {
  for (const Algorithm algorithm :
       {Algorithm::fixed_window, Algorithm::aligned_window, Algorithm::sliding_window,
        Algorithm::sliding_log, Algorithm::fixed_bucket, Algorithm::concurrency}) {
    Held counter(limit_of(algorithm, 1'000, 3'600'000'000));
    ASSERT_TRUE(counter.reserve(10, noon, 0));
    for (size_t i = 1; i < 100; ++i) {
      ASSERT_TRUE(counter.reserve(100, noon + 1, i));
      EXPECT_EQ(counter.settle(i, 1, noon + 2), 99) << name_of(algorithm);
    }
    EXPECT_EQ(counter.settle(0, 3, noon + 3), 7) << name_of(algorithm);
  }
}

TEST(Held, AWindowThatIsOverGetsNothing) {
  for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::aligned_window,
                                    Algorithm::sliding_log, Algorithm::concurrency}) {
    Held counter(limit_of(algorithm, 10, 1'000));
    ASSERT_TRUE(counter.reserve(6, noon, 0));
    ASSERT_TRUE(counter.take(5, noon + 2'000));
    EXPECT_EQ(counter.settle(0, 0, noon + 2'001), 0) << name_of(algorithm);
    EXPECT_EQ(counter.remaining(noon + 2'001), 5) << name_of(algorithm);
  }
}

TEST(Held, AResetForgetsThem) {
  for (const Algorithm algorithm : counted) {
    Held counter(limit_of(algorithm, 10, 1'000'000));
    ASSERT_TRUE(counter.reserve(6, noon, 0));
    counter.reset(noon);
    ASSERT_TRUE(counter.take(10, noon));
    EXPECT_EQ(counter.settle(0, 0, noon), 0) << name_of(algorithm);
  }
}

// The window of a hold that came to nothing ends when it would have.
TEST(Held, AFixedWindowThatAHoldOpenedStays) {
  Held counter(limit_of(Algorithm::fixed_window, 10, 100));
  ASSERT_TRUE(counter.reserve(6, noon, 0));
  ASSERT_TRUE(counter.take(4, noon + 50));
  EXPECT_EQ(counter.settle(0, 0, noon + 60), 6);
  EXPECT_EQ(counter.remaining(noon + 99), 6);
  EXPECT_EQ(counter.remaining(noon + 100), 10);
  // With nothing else in it, it closes.
  ASSERT_TRUE(counter.reserve(6, noon + 100, 0));
  EXPECT_EQ(counter.settle(0, 0, noon + 160), 6);
  ASSERT_TRUE(counter.take(4, noon + 190));
  EXPECT_EQ(counter.remaining(noon + 280), 6);
}

// Never above the ideal, at the end of each history and for a window after it.
void check(const History& history, int64_t until) {
  const int64_t last = history.steps.empty() ? noon : history.steps.back().at;
  for (int64_t at = last; at <= until; ++at) {
    const int64_t is = history.counter.remaining(at);
    const int64_t most = ideal(history.limit, history.steps, at);
    ASSERT_LE(is, most) << text(history.limit, history.steps) << " at " << at - noon;
  }
}

std::vector<Step> choices(const History& history, int64_t at, bool puts) {
  std::vector<Step> all{{Step::take, at, 1}, {Step::take, at, 2}, {Step::reserve, at, 2}};
  if (puts) {
    all.push_back({Step::put, at, 1});
    all.push_back({Step::reset, at, 0});
  }
  for (size_t i = 0; i < history.steps.size(); ++i) {
    const Step& step = history.steps[i];
    if (step.what != Step::reserve || step.used >= 0) continue;
    for (const int64_t used : {0, 1, 2}) all.push_back({Step::settle, at, used, i});
  }
  return all;
}

void every(const History& history, int64_t at, size_t length, bool puts, size_t& looks) {
  if (testing::Test::HasFatalFailure()) return;
  if (length == 0) {
    ++looks;
    return check(history, at + 5);
  }
  for (const int64_t wait : {0, 1, 3})
    for (Step step : choices(history, at + wait, puts)) {
      History next = history;
      if (next.add(step)) every(next, at + wait, length - 1, puts, looks);
    }
}

TEST(Held, NoShortHistoryIsAboveTheIdeal) {
  for (const Algorithm algorithm : counted) {
    size_t looks = 0;
    every({limit_of(algorithm, 4, 4)}, noon, 4, true, looks);
    EXPECT_GT(looks, 5'000u) << name_of(algorithm);
  }
}

// With nothing put back, all but the bucket are as the ideal once all is settled in time.
TEST(Held, WithoutPutsWindowsEqualTheIdeal) {
  tests::Dice dice(20261201);
  size_t equal = 0;
  for (int round = 0; round < 1'000; ++round) {
    const Algorithm algorithm = counted[static_cast<size_t>(dice(std::size(counted)))];
    if (algorithm == Algorithm::token_bucket) continue;
    History history{limit_of(algorithm, 1 + dice(int64_t{12}), 1 + dice(int64_t{20}))};
    int64_t at = noon + dice(int64_t{20});
    for (int i = 0; i < 24; ++i) {
      if (dice(2) == 0) at += dice(int64_t{8});
      const std::vector<Step> all = choices(history, at, false);
      if (!history.add(all[static_cast<size_t>(dice(all.size()))])) continue;
      for (int64_t then = at; then < at + 25; ++then)
        ASSERT_EQ(history.counter.remaining(then), ideal(history.limit, history.steps, then))
            << text(history.limit, history.steps) << " at " << then - noon;
      ++equal;
    }
  }
  EXPECT_GT(equal, 5'000u);
}

TEST(Held, NoLongHistoryIsAboveTheIdeal) {
  tests::Dice dice(20261130);
  for (int round = 0; round < 1'500; ++round) {
    const Algorithm algorithm = counted[static_cast<size_t>(dice(std::size(counted)))];
    // Many runs of a sliding_log are merged.
    const bool merges = has_runs({algorithm}) && dice(2) == 0;
    History history{merges ? limit_of(algorithm, 200, 400)
                           : limit_of(algorithm, 1 + dice(int64_t{12}), 1 + dice(int64_t{20}))};
    const bool puts = dice(2) == 0;
    int64_t at = noon + dice(int64_t{20});
    for (int i = 0; i < (merges ? 120 : 24); ++i) {
      if (dice(2) == 0) at += dice(int64_t{8});
      const std::vector<Step> all = choices(history, at, puts);
      Step step = all[static_cast<size_t>(dice(all.size()))];
      if (step.what == Step::reserve || step.what == Step::take) step.units = 1 + dice(int64_t{5});
      if (step.what == Step::settle) step.units = dice(history.steps[step.hold].units + 1);
      if (!history.add(step)) continue;
      ASSERT_NO_FATAL_FAILURE(check(history, at + 25));
    }
  }
}

}  // namespace
}  // namespace sluice::limit::held_test
