// The generic cell rate algorithm of redis-cell, throttlecrab and Redis: against a model of the
// originals (limit/gcra_model.h), each statement of limit/gcra.h by itself, and numbers of any
// size.
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

#include "limit/decide.h"
#include "limit/gcra_model.h"

namespace sluice::limit::gcra_test {
namespace {

using gcra::Error;
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

// Makes each call of both the counter and the model, and fails where they differ.
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
    const bool grants = found && (*found)[0] == (call.kind == Algorithm::gcra_crab ? 1 : 0);
    const bool writes = grants && call.quantity != 0;
    EXPECT_TRUE(writes || counter.state == before) << show(call);
    ++(!found ? errors : grants ? allowed : denied);
    return !testing::Test::HasFailure();
  }
};

Limit limit_of(const Call& call) {
  const gcra::Rate rate = gcra_model::rate_of(call);
  EXPECT_EQ(rate.error, Error::none);
  return rate.limit;
}

constexpr std::array<Algorithm, 3> kinds = {Algorithm::gcra_cell, Algorithm::gcra_crab,
                                            Algorithm::gcra_redis};

// A step of a call's time: the algorithm's resolution or part of it.
int64_t step_us(Algorithm kind) {
  return kind == Algorithm::gcra_redis ? 500 : 1;
}

// An emission of so many nanoseconds (gcra_redis: microseconds).
Call call_of(Algorithm kind, int64_t max_burst, int64_t emission) {
  if (kind == Algorithm::gcra_redis) return {kind, max_burst, 1, emission, 1};
  return {kind, max_burst, 1'000'000'000 / emission, 1, 1};
}

TEST(Gcra, EveryShortSequence) {
  size_t sequences = 0;
  Pair sum;
  for (const Algorithm kind : kinds) {
    for (int64_t emission : {500, 1000, 2500}) {
      for (int64_t burst : {0, 1, 2}) {
        const Call base = call_of(kind, burst + (kind == Algorithm::gcra_crab), emission);
        for (int code = 0; code < 12 * 12 * 12; ++code) {
          Pair pair;
          int64_t now = start;
          for (int left = code, i = 0; i < 3; ++i, left /= 12) {
            Call call = base;
            call.quantity = left % 4 - (kind == Algorithm::gcra_crab ? 0 : 1);
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
  for (const Algorithm kind : kinds) {
    Pair sum;
    for (int round = 0; round < 800; ++round) {
      Pair pair;
      int64_t now = round % 3 == 0 ? static_cast<int64_t>(random() % 3 * second) : start;
      // Numbers that change from call to call, and numbers of all sizes.
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
          // The model's period is a double in microseconds, which is exact up to 2^53.
          if (kind == Algorithm::gcra_redis)
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

// No interval takes more than the header says; units given back are subtracted. Includes calls at
// one time, and calls that take all units as soon as they are back.
TEST(Gcra, NoIntervalTakesMoreThanTheBound) {
  std::mt19937_64 random(19);
  for (const Algorithm kind : kinds) {
    size_t tight = 0, grants_seen = 0;
    for (int round = 0; round < 500; ++round) {
      const int64_t emission = int64_t{1} + static_cast<int64_t>(random() % 6'000);
      Call call = call_of(kind, static_cast<int64_t>(random() % 5) + 1, emission);
      const gcra::Rate rate = gcra_model::rate_of(call);
      ASSERT_EQ(rate.error, Error::none);
      const Limit& limit = rate.limit;
      const bool gives_back = kind != Algorithm::gcra_crab && round % 2 == 0,
                 greedy = round % 3 == 0;
      State state;
      int64_t now = start + static_cast<int64_t>(random() % 1000);
      struct Grant {
        int64_t at, units;
      };
      std::vector<Grant> grants;
      for (int i = 0; i < 60; ++i) {
        now += static_cast<int64_t>(random() % 3 *
                                    (kind == Algorithm::gcra_redis ? random() % 1000 : 2));
        call.quantity = static_cast<int64_t>(random() % 4) - (gives_back ? 1 : 0);
        if (greedy) {
          call.quantity = gcra::decide(state, limit, 0, {now}).decision.remaining;
        }
        const Outcome outcome = gcra::decide(state, limit, call.quantity, {now});
        ASSERT_FALSE(gcra::is_out_of_range(outcome.decision));
        if (!outcome.decision.allowed) continue;
        state = outcome.next;
        grants.push_back({now, call.quantity});
      }
      grants_seen += grants.size();
      for (size_t i = 0; i < grants.size(); ++i) {
        int64_t taken = 0;
        for (size_t j = i; j < grants.size(); ++j) {
          taken += grants[j].units;
          if (grants[j].units <= 0) continue;
          const int64_t t = grants[j].at - grants[i].at + 1;
          const int64_t bound = kind == Algorithm::gcra_redis
                                    ? limit.quota + (t + 998) / 1000 * 1000 / limit.window.us
                                    : limit.quota + (t - 1) * 1000 / limit.window.us;
          ASSERT_LE(taken, bound) << static_cast<int>(kind) << " " << limit.window.us << " " << t;
          tight += taken == bound;
        }
      }
    }
    EXPECT_GT(grants_seen, 3000u);
    EXPECT_GT(tight, 300u) << static_cast<int>(kind);
  }
}

TEST(Gcra, AClockThatStepsBackLosesNoDebt) {
  for (const Algorithm kind : kinds) {
    const Limit rate = limit_of(call_of(kind, 3, 10'000));
    State state = gcra::decide({}, rate, 3, {start}).next;
    const auto back = gcra::decide(state, rate, 1, {start - 5 * second});
    EXPECT_FALSE(back.decision.allowed);
    EXPECT_EQ(back.next, state);
    EXPECT_GT(back.decision.retry_after, Duration{4 * second});
  }
}

// The wait is exact: the same call is still denied a microsecond before.
TEST(Gcra, TheWaitIsExactToTheMicrosecond) {
  for (const Algorithm kind : kinds) {
    for (int64_t quantity : {1, 2, 3}) {
      const Limit rate = limit_of(call_of(kind, 3, 7'777));
      const State state = gcra::decide({}, rate, 3, {start}).next;
      int64_t now = start;
      const auto denied = gcra::decide(state, rate, quantity, {now});
      if (denied.decision.allowed) continue;  // the burst still covers it
      const int64_t wait = denied.decision.retry_after.us;
      const int64_t unit = kind == Algorithm::gcra_redis ? 1000 : 1;  // us, the clock's resolution
      const int64_t then = (start + wait + unit - 1) / unit * unit;
      EXPECT_TRUE(gcra::decide(state, rate, quantity, {then}).decision.allowed);
      EXPECT_FALSE(gcra::decide(state, rate, quantity, {then - 1}).decision.allowed);
    }
  }
}

TEST(Gcra, ReportsInvalidRates) {
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
  EXPECT_EQ(gcra::redis_rate(INT64_MAX, 1, 1e-6).limit.quota, INT64_MAX);
  EXPECT_EQ(gcra::redis_rate(INT64_MAX, 1, 2e-6).error, Error::out_of_range);
  EXPECT_EQ(gcra::redis_rate(0, 1'000'000, 1e-6).limit.window.us, 1);
}

TEST(Gcra, RefusesNumbersBeyond63BitsAndChangesNothing) {
  const auto leaves = [](const gcra::Rate& rate, int64_t quantity, int64_t now) {
    EXPECT_EQ(rate.error, Error::none);
    const Outcome outcome = gcra::decide({}, rate.limit, quantity, {now});
    EXPECT_EQ(outcome.next == State{}, !outcome.decision.allowed || quantity == 0);
    return gcra::is_out_of_range(outcome.decision);
  };
  EXPECT_TRUE(leaves(gcra::cell_rate(5, 1, 60), INT64_MAX, start));
  EXPECT_TRUE(leaves(gcra::cell_rate(5, 1, 60), INT64_MIN, start));
  // A period of 292 years ends in 63 bits of nanoseconds if it starts in 1970, not if it starts
  // now.
  EXPECT_FALSE(leaves(gcra::cell_rate(0, 1, 9'223'372'036), 1, 0));
  EXPECT_TRUE(leaves(gcra::cell_rate(0, 1, 9'223'372'036), 1, start));
  EXPECT_FALSE(leaves(gcra::cell_rate(0, 1, 9'223'372'036), 0, start));
}

// A put gives back no more than was used, also if the counter owes more than the put's burst.
TEST(Gcra, APutReturnsAtMostTheUsedUnits) {
  std::mt19937_64 random(20);
  for (const Algorithm kind : kinds) {
    const Limit rate = limit_of(call_of(kind, 9, 7'777));
    for (int round = 0; round < 2000; ++round) {
      const int64_t used = static_cast<int64_t>(random() % 9) + 1;
      const State state = gcra::decide({}, rate, used, {start}).next;
      const int64_t now = start + static_cast<int64_t>(random() % 40'000);
      const int64_t units = random() % 8 == 0 ? INT64_MAX : static_cast<int64_t>(random() % 10);
      const int64_t before = gcra::decide(state, rate, 0, {now}).decision.remaining;
      const Outcome outcome = gcra::put(state, rate, units, {now});
      EXPECT_TRUE(outcome.decision.allowed);
      EXPECT_EQ(outcome.decision.remaining, std::min(Wide{before} + units, Wide{rate.quota}));
      EXPECT_EQ(gcra::decide(outcome.next, rate, 0, {now}).decision.remaining,
                outcome.decision.remaining);
    }
    // A counter that was written under a larger burst.
    const State owing = gcra::decide({}, limit_of(call_of(kind, 99, 7'777)), 50, {start}).next;
    EXPECT_EQ(gcra::put(owing, rate, 20, {start}).decision.remaining, 0);
    EXPECT_GT(gcra::put(owing, rate, 45, {start}).decision.remaining, 0);
  }
}

// A put is allowed, as every put is, also under a limit that refuses every take.
TEST(Gcra, PuttingAllUnitsBackIsAllowedUnderAnyLimit) {
  for (const Algorithm kind : kinds) {
    for (const int64_t quota : {-5, -1, 0, 3}) {
      const State used = gcra::decide({}, limit_of(call_of(kind, 3, 7'777)), 2, {start}).next;
      const Limit limit{kind, quota, {7'777}, quota * 7'777};
      for (const bool all : {false, true}) {
        State state = used;
        const Decision d = put(&state, limit, 5, all, {start}, &state);
        EXPECT_TRUE(d.allowed) << quota;
        EXPECT_EQ(d.retry_after, Duration{});
        EXPECT_EQ(state, State{});
      }
    }
  }
}

// The shares of all servers together grant what the whole limit does, at once and over a long time.
TEST(Gcra, SharesGrantAsManyAsTheLimitTogether) {
  for (const Algorithm kind : kinds) {
    for (const unsigned servers : {1u, 2u, 4u}) {
      const Limit limit = limit_of(call_of(kind, kind == Algorithm::gcra_crab ? 8 : 7, 10'000));
      const Limit share = gcra::share_of(limit, servers);
      ASSERT_EQ(limit.quota, 8);
      int64_t at_once = 0, later = 0;
      for (unsigned server = 0; server < servers; ++server) {
        State state;
        const auto grants = [&](int64_t now) {
          const Outcome outcome = gcra::decide(state, share, 1, {now});
          state = outcome.next;
          return outcome.decision.allowed;
        };
        while (grants(start)) ++at_once;
        const int64_t units = 400, us = units * 10'000 / gcra::per_microsecond(kind);
        for (int64_t t = 1; t <= units; ++t) later += grants(start + t * us / units) ? 1 : 0;
      }
      EXPECT_EQ(at_once, 8) << servers;
      EXPECT_EQ(later, 400) << servers;
    }
    // A share has at least one unit, and no number overflows.
    EXPECT_EQ(gcra::share_of({kind, 2, {5}, 10}, 7).quota, 1);
    EXPECT_EQ(gcra::share_of({kind, -2, {5}, -10}, 7).quota, -2);
    EXPECT_EQ(gcra::share_of({kind, 1, {INT64_MAX}, INT64_MAX}, 2).window.us, INT64_MAX);
  }
  EXPECT_EQ(gcra::share_of({Algorithm::gcra_crab, 8, {5}, 35}, 2),
            (Limit{Algorithm::gcra_crab, 4, {10}, 30}));
}

// fresh_at_us is the first time at which the store may forget the counter without changing a reply.
TEST(Gcra, EqualsAFreshCounterFromFreshAtOn) {
  for (const Algorithm kind : kinds) {
    const Limit rate = limit_of(call_of(kind, 3, 7'777));
    const State state = gcra::decide({}, rate, 2, {start + 1}).next;
    ASSERT_GT(state.fresh_at_us, start);
    for (const int64_t quantity : {0, 1, 3, 4}) {
      const auto reply = [&](const State& of, int64_t at) {
        return gcra::decide(of, rate, quantity, {at}).decision.remaining;
      };
      EXPECT_EQ(reply(state, state.fresh_at_us), reply({}, state.fresh_at_us));
    }
    EXPECT_LT(gcra::decide(state, rate, 0, {state.fresh_at_us - 1}).decision.remaining,
              gcra::decide({}, rate, 0, {state.fresh_at_us - 1}).decision.remaining);
    const auto tat = gcra::tat_of(state, {start + 1});
    ASSERT_TRUE(tat.has_value());
    EXPECT_EQ(gcra::state_of(rate, *tat), state);
    EXPECT_FALSE(gcra::tat_of(state, {state.fresh_at_us}).has_value());
  }
}

// With resp.throttle_true_reset THROTTLE's reset is when the bucket is full; the rest of the reply
// is the same.
TEST(Gcra, ResetIsTheTimeUntilTheBucketIsFull) {
  std::mt19937_64 random(19);
  size_t bursts_of_one = 0;
  for (int round = 0; round < 400; ++round) {
    Pair pair, as_told;
    int64_t now = start;
    for (int i = 0; i < 12; ++i) {
      Call call{Algorithm::gcra_crab, static_cast<int64_t>(random() % 4 + 1),
                static_cast<int64_t>(random() % 9 + 1), static_cast<int64_t>(random() % 100 + 1),
                static_cast<int64_t>(random() % 3)};
      auto told = as_told.counter.ask(call, now);
      call.to_full = true;
      auto full = pair.counter.ask(call, now);
      EXPECT_EQ(full, pair.model.ask(call, now)) << show(call);
      ASSERT_TRUE(told && full);
      // The bucket is full after `reset` seconds. A second earlier it is not, if this call wrote
      // the counter; else an earlier call's emission may keep the counter for longer.
      const int64_t reset = (*full)[3];
      Call look = call;
      look.quantity = 0;
      Counter then = pair.counter;
      EXPECT_EQ((*then.ask(look, now + reset * second))[2], call.max_burst) << show(call);
      if (reset > 0 && (*full)[0] == 1 && call.quantity > 0) {
        then = pair.counter;  // the peek above may have forgotten the counter
        EXPECT_LT((*then.ask(look, now + (reset - 1) * second))[2], call.max_burst);
      }
      bursts_of_one += call.max_burst == 1 && reset > 0;
      (*told)[3] = (*full)[3] = 0;
      EXPECT_EQ(told, full) << show(call);
      EXPECT_EQ(as_told.counter.state, pair.counter.state);
      now += static_cast<int64_t>(random() % 3 == 0 ? 0 : random() % (20 * second));
    }
  }
  EXPECT_GT(bursts_of_one, 100u);
  const Limit limit = limit_of({Algorithm::gcra_crab, 4, 1, 60, 1, true}),
              usual = limit_of({Algorithm::gcra_crab, 4, 1, 60});
  EXPECT_TRUE(gcra::tells_full(gcra::share_of(limit, 2)));
  EXPECT_EQ(gcra::share_of(limit, 2), gcra::telling_full(gcra::share_of(usual, 2)));
  EXPECT_EQ(gcra::telling_full(limit), limit);
}

TEST(Gcra, RoundsSecondsUp) {
  const auto denied = [](int64_t count, int64_t wait_us) {
    const Limit rate = gcra::cell_rate(0, count, 1).limit;
    const State state = gcra::decide({}, rate, 1, {start}).next;
    return gcra_model::five_of(Algorithm::gcra_cell,
                               gcra::decide(state, rate, 1, {start + wait_us}).decision);
  };
  EXPECT_EQ(denied(2500, 0), (Five{1, 1, 0, 1, 1}));    // a wait of 0.4 ms
  EXPECT_EQ(denied(2500, 399), (Five{1, 1, 0, 1, 1}));  // a wait of 1 us
  EXPECT_EQ(denied(2500, 400), (Five{0, 1, 0, -1, 1}));
  EXPECT_EQ(denied(1, 0), (Five{1, 1, 0, 1, 1}));
  EXPECT_EQ(gcra::seconds_up({0}), 0);
  EXPECT_EQ(gcra::seconds_up({1'000'001}), 2);
}

}  // namespace
}  // namespace sluice::limit::gcra_test
