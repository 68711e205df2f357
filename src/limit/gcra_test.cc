#include "limit/gcra.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "limit/gcra_model.h"

namespace sluice::limit::gcra_test {
namespace {

using gcra::Error;
using gcra::Kind;
using gcra_model::Call;
using gcra_model::Counter;
using gcra_model::Five;
using gcra_model::Key;

constexpr int64_t second = 1'000'000, start = 1'795'000'000 * second;

std::string show(const std::optional<Five>& reply) {
  if (!reply) return "error";
  std::string text;
  for (const int64_t n : *reply) text += std::to_string(n) + " ";
  return text;
}

std::string show(const Call& call) {
  return std::to_string(static_cast<int>(call.kind)) + ": " + std::to_string(call.max_burst) + " " +
         std::to_string(call.count) + " " + std::to_string(call.period) + " " +
         std::to_string(call.quantity);
}

// Asks both, and fails where they differ.
struct Pair {
  Counter counter;
  Key model;
  size_t allowed = 0, denied = 0, errors = 0;

  bool ask(const Call& call, int64_t now_us) {
    const State before = counter.state;
    const auto found = counter.ask(call, now_us), expected = model.ask(call, now_us);
    const bool fresh = !gcra::tat_of(counter.state, {now_us}).has_value();
    EXPECT_EQ(found, expected) << show(call) << ": " << show(found) << ", not " << show(expected);
    EXPECT_EQ(fresh, model.fresh(call.kind, now_us)) << show(call);
    const bool grants = found && (*found)[0] == (call.kind == Kind::crab ? 1 : 0);
    const bool writes = grants && call.quantity != 0;
    EXPECT_TRUE(writes || counter.state == before) << show(call);
    ++(!found ? errors : grants ? allowed : denied);
    return !testing::Test::HasFailure();
  }
};

constexpr std::array<Kind, 3> kinds = {Kind::cell, Kind::crab, Kind::redis};

// Units of a call's step in time, of the kind's own fineness.
int64_t step_us(Kind kind) {
  return kind == Kind::redis ? 500 : 1;
}

// An emission of so many nanoseconds (redis: microseconds).
Call call_of(Kind kind, int64_t max_burst, int64_t emission) {
  if (kind == Kind::redis) return {kind, max_burst, 1, emission, 1};
  return {kind, max_burst, 1'000'000'000 / emission, 1, 1};
}

TEST(Gcra, EveryShortSequence) {
  size_t sequences = 0;
  Pair sum;
  for (const Kind kind : kinds) {
    for (int64_t emission : {500, 1000, 2500}) {
      for (int64_t burst : {0, 1, 2}) {
        const Call base = call_of(kind, burst + (kind == Kind::crab), emission);
        for (int code = 0; code < 12 * 12 * 12; ++code) {
          Pair pair;
          int64_t now = start;
          for (int left = code, i = 0; i < 3; ++i, left /= 12) {
            Call call = base;
            call.quantity = left % 4 - (kind == Kind::crab ? 0 : 1);
            now += left % 12 / 4 * step_us(kind);
            if (!pair.ask(call, now)) return;
          }
          sum.allowed += pair.allowed;
          sum.denied += pair.denied;
          ++sequences;
        }
      }
    }
  }
  EXPECT_EQ(sequences, 27u * 1'728);
  EXPECT_GT(sum.allowed, sequences);
  EXPECT_GT(sum.denied, sequences / 4);
}

TEST(Gcra, AnySequenceOfAnyNumbers) {
  std::mt19937_64 random(18);
  const auto pick = [&](std::initializer_list<int64_t> from) {
    return *(from.begin() + static_cast<ptrdiff_t>(random() % from.size()));
  };
  for (const Kind kind : kinds) {
    Pair sum;
    for (int round = 0; round < 800; ++round) {
      Pair pair;
      int64_t now = round % 3 == 0 ? static_cast<int64_t>(random() % 3 * second) : start;
      // Numbers that change from call to call, and of all sizes.
      const bool changes = round % 2 == 0, wild = round % 5 == 0;
      Call call{kind};
      for (int i = 0; i < 12; ++i) {
        if (i == 0 || changes) {
          call.max_burst = wild ? pick({-5, -1, 0, 1'000'000'000, INT64_MAX, INT64_MIN,
                                        INT64_MAX - 1, 4'294'967'297})
                                : static_cast<int64_t>(random() % 8);
          call.count = wild ? pick({-1, 0, 1, 7, 2'000'000, 3'000'000'000, INT64_MAX})
                            : static_cast<int64_t>(random() % 9 + 1);
          call.period =
              wild ? pick({-1, 0, 1, 60, 1'000'000'000, 9'223'372'036, 9'223'372'037, INT64_MAX})
                   : static_cast<int64_t>(random() % 100 + 1);
          // The model's period is in microseconds, of which a double has 2^53.
          if (kind == Kind::redis)
            call.period = std::min<int64_t>(call.period, int64_t{1} << 50) * (wild ? 1 : second);
        }
        call.quantity = random() % 4 == 0 ? pick({0, 1, -1, -3, 5, INT64_MAX, INT64_MIN, 100'000})
                                          : static_cast<int64_t>(random() % 4);
        now += static_cast<int64_t>(random() % 3 == 0 ? 0 : random() % (40 * second));
        if (!pair.ask(call, now)) return;
      }
      sum.allowed += pair.allowed;
      sum.denied += pair.denied;
      sum.errors += pair.errors;
    }
    EXPECT_GT(sum.allowed, 1000u);
    EXPECT_GT(sum.denied, 500u);
    EXPECT_GT(sum.errors, 500u);
  }
}

// No interval takes more than the contract says, units given back counted as less; also where the
// clock stands still, and where calls come as fast as they can.
TEST(Gcra, NoIntervalTakesMoreThanTheBound) {
  std::mt19937_64 random(19);
  for (const Kind kind : kinds) {
    size_t tight = 0, grants_seen = 0;
    for (int round = 0; round < 500; ++round) {
      const int64_t emission = int64_t{1} + static_cast<int64_t>(random() % 6'000);
      Call call = call_of(kind, static_cast<int64_t>(random() % 5) + 1, emission);
      const gcra::Rate rate = gcra_model::rate_of(call);
      ASSERT_EQ(rate.error, Error::none);
      const bool gives_back = kind != Kind::crab && round % 2 == 0, greedy = round % 3 == 0;
      State state;
      int64_t now = start + static_cast<int64_t>(random() % 1000);
      struct Grant {
        int64_t at, units;
      };
      std::vector<Grant> grants;
      for (int i = 0; i < 60; ++i) {
        now += static_cast<int64_t>(random() % 3 * (kind == Kind::redis ? random() % 1000 : 2));
        call.quantity = static_cast<int64_t>(random() % 4) - (gives_back ? 1 : 0);
        if (greedy) {
          const auto look = gcra::decide(state, rate, 0, {now});
          call.quantity = look.outcome.decision.remaining;
        }
        const auto answer = gcra::decide(state, rate, call.quantity, {now});
        ASSERT_EQ(answer.error, Error::none);
        if (!answer.outcome.decision.allowed) continue;
        state = answer.outcome.next;
        grants.push_back({now, call.quantity});
      }
      grants_seen += grants.size();
      for (size_t i = 0; i < grants.size(); ++i) {
        int64_t taken = 0;
        for (size_t j = i; j < grants.size(); ++j) {
          taken += grants[j].units;
          if (grants[j].units <= 0) continue;
          const int64_t t = grants[j].at - grants[i].at + 1;
          const int64_t bound = kind == Kind::redis
                                    ? rate.limit + (t + 998) / 1000 * 1000 / rate.emission
                                    : rate.limit + (t - 1) * 1000 / rate.emission;
          ASSERT_LE(taken, bound) << static_cast<int>(kind) << " " << rate.emission << " " << t;
          tight += taken == bound;
        }
      }
    }
    EXPECT_GT(grants_seen, 3000u);
    EXPECT_GT(tight, 300u) << static_cast<int>(kind);
  }
}

TEST(Gcra, AClockThatStepsBackLosesNoDebt) {
  for (const Kind kind : kinds) {
    const gcra::Rate rate = gcra_model::rate_of(call_of(kind, 3, 10'000));
    State state = gcra::decide({}, rate, 3, {start}).outcome.next;
    const auto back = gcra::decide(state, rate, 1, {start - 5 * second});
    EXPECT_FALSE(back.outcome.decision.allowed);
    EXPECT_EQ(back.outcome.next, state);
    EXPECT_GT(back.outcome.decision.retry_after, Duration{4 * second});
  }
}

// The wait is exact: a moment before it the same call is denied.
TEST(Gcra, TheWaitIsNoMicrosecondTooLong) {
  for (const Kind kind : kinds) {
    for (int64_t quantity : {1, 2, 3}) {
      const gcra::Rate rate = gcra_model::rate_of(call_of(kind, 3, 7'777));
      const State state = gcra::decide({}, rate, 3, {start}).outcome.next;
      int64_t now = start;
      const auto denied = gcra::decide(state, rate, quantity, {now});
      if (denied.outcome.decision.allowed) continue;  // of the larger limits
      const int64_t wait = denied.outcome.decision.retry_after.us;
      const int64_t unit = kind == Kind::redis ? 1000 : 1;  // of the clock that it has
      const int64_t then = (start + wait + unit - 1) / unit * unit;
      EXPECT_TRUE(gcra::decide(state, rate, quantity, {then}).outcome.decision.allowed);
      EXPECT_FALSE(gcra::decide(state, rate, quantity, {then - 1}).outcome.decision.allowed);
    }
  }
}

TEST(Gcra, TellsTheErrors) {
  EXPECT_EQ(gcra::cell_rate(4, 0, 60).error, Error::zero_rate);
  EXPECT_EQ(gcra::cell_rate(4, 1, 0).error, Error::zero_rate);
  EXPECT_EQ(gcra::cell_rate(4, 3'000'000'000, 1).error, Error::zero_rate);
  EXPECT_EQ(gcra::cell_rate(4, 1'000'000'000, 1).error, Error::none);
  EXPECT_EQ(gcra::cell_rate(4, -1, 60).error, Error::not_positive);
  EXPECT_EQ(gcra::cell_rate(4, 1, -60).error, Error::not_positive);
  EXPECT_EQ(gcra::cell_rate(INT64_MAX, 1, 1).error, Error::out_of_range);
  EXPECT_EQ(gcra::cell_rate(INT64_MIN, 1, 1).error, Error::out_of_range);
  EXPECT_EQ(gcra::cell_rate(1'000'000'000, 1, 1'000'000'000).error, Error::out_of_range);
  EXPECT_EQ(gcra::cell_rate(0, 1, 9'223'372'036).error, Error::none);
  EXPECT_EQ(gcra::cell_rate(0, 1, 9'223'372'037).error, Error::out_of_range);
  EXPECT_EQ(gcra::crab_rate(0, 1, 60).error, Error::not_positive);
  EXPECT_EQ(gcra::crab_rate(1, 0, 60).error, Error::not_positive);
  EXPECT_EQ(gcra::crab_rate(1, 1, 0).error, Error::not_positive);
  EXPECT_EQ(gcra::crab_rate(1, 1'000'000'001, 1).error, Error::not_positive);
  EXPECT_EQ(gcra::crab_rate(4'294'967'296, 1, INT64_MAX).error, Error::out_of_range);
  EXPECT_EQ(gcra::crab_rate(9'223'372'036, 1, 1).error, Error::none);
  EXPECT_EQ(gcra::crab_rate(9'223'372'037, 1, 1).error, Error::out_of_range);
  EXPECT_EQ(gcra::redis_rate(-1, 1, 60).error, Error::negative);
  EXPECT_EQ(gcra::redis_rate(0, 0, 60).error, Error::not_positive);
  EXPECT_EQ(gcra::redis_rate(0, 1, 0).error, Error::bad_period);
  EXPECT_EQ(gcra::redis_rate(0, 1, 1e12).error, Error::bad_period);
  EXPECT_EQ(gcra::redis_rate(0, 1, std::nan("")).error, Error::bad_period);
  EXPECT_EQ(gcra::redis_rate(INT64_MAX, 1, 1e-6).error, Error::none);
  EXPECT_EQ(gcra::redis_rate(INT64_MAX, 1, 1e-6).limit, INT64_MAX);
  EXPECT_EQ(gcra::redis_rate(INT64_MAX, 1, 2e-6).error, Error::out_of_range);
  EXPECT_EQ(gcra::redis_rate(0, 1'000'000, 1e-6).emission, 1);

  const auto error_of = [](const gcra::Rate& rate, int64_t quantity, int64_t now) {
    EXPECT_EQ(rate.error, Error::none);
    return gcra::decide({}, rate, quantity, {now}).error;
  };
  EXPECT_EQ(error_of(gcra::crab_rate(5, 1, 60), -1, start), Error::negative);
  EXPECT_EQ(error_of(gcra::cell_rate(5, 1, 60), INT64_MAX, start), Error::out_of_range);
  EXPECT_EQ(error_of(gcra::cell_rate(5, 1, 60), INT64_MIN, start), Error::out_of_range);
  // 292 years from now and from 1970.
  EXPECT_EQ(error_of(gcra::cell_rate(0, 1, 9'223'372'036), 1, 0), Error::none);
  EXPECT_EQ(error_of(gcra::cell_rate(0, 1, 9'223'372'036), 1, start), Error::out_of_range);
}

TEST(Gcra, CrabTellsTheTimeToFullWhereThatIsWanted) {
  const auto told = [](bool true_reset, int64_t quantity) {
    const auto rate = gcra::crab_rate(3, 1, 60, true_reset);
    return gcra::decide({}, rate, quantity, {start}).outcome.decision.reset_after;
  };
  EXPECT_EQ(told(false, 1), Duration{120 * second});
  EXPECT_EQ(told(true, 1), Duration{60 * second});
  EXPECT_EQ(told(false, 0), Duration{60 * second});
  EXPECT_EQ(told(true, 0), Duration{});
  EXPECT_EQ(told(true, 3), Duration{180 * second});
}

// The mark is the first moment at which the store may forget the counter, with no reply changed.
TEST(Gcra, IsAsFreshFromItsMarkOn) {
  for (const Kind kind : kinds) {
    const gcra::Rate rate = gcra_model::rate_of(call_of(kind, 3, 7'777));
    const State state = gcra::decide({}, rate, 2, {start + 1}).outcome.next;
    ASSERT_GT(state.mark_us, start);
    for (const int64_t quantity : {0, 1, 3, 4}) {
      const auto reply = [&](const State& of, int64_t at) {
        return gcra::decide(of, rate, quantity, {at}).outcome.decision.remaining;
      };
      EXPECT_EQ(reply(state, state.mark_us), reply({}, state.mark_us));
    }
    EXPECT_LT(gcra::decide(state, rate, 0, {state.mark_us - 1}).outcome.decision.remaining,
              gcra::decide({}, rate, 0, {state.mark_us - 1}).outcome.decision.remaining);
    const auto tat = gcra::tat_of(state, {start + 1});
    ASSERT_TRUE(tat.has_value());
    EXPECT_EQ(gcra::state_of(rate, *tat), state);
    EXPECT_FALSE(gcra::tat_of(state, {state.mark_us}).has_value());
  }
}

TEST(Gcra, RoundsSecondsUp) {
  const auto denied = [](int64_t count, int64_t wait_us) {
    const auto rate = gcra::cell_rate(0, count, 1);
    const State state = gcra::decide({}, rate, 1, {start}).outcome.next;
    return gcra_model::five_of(Kind::cell,
                               gcra::decide(state, rate, 1, {start + wait_us}).outcome.decision);
  };
  EXPECT_EQ(denied(2500, 0), (Five{1, 1, 0, 1, 1}));    // 0.4 ms
  EXPECT_EQ(denied(2500, 399), (Five{1, 1, 0, 1, 1}));  // 1 us
  EXPECT_EQ(denied(2500, 400), (Five{0, 1, 0, -1, 1}));
  EXPECT_EQ(denied(1, 0), (Five{1, 1, 0, 1, 1}));
  EXPECT_EQ(gcra::seconds_up({0}), 0);
  EXPECT_EQ(gcra::seconds_up({1'000'001}), 2);
}

}  // namespace
}  // namespace sluice::limit::gcra_test
