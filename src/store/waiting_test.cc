// Requests that wait in the table in memory (store/embedded_store.h): when and in which order they
// are answered, what others see meanwhile, cancels, and limits that change.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/asking_test.h"

namespace sluice::store::waiting_test {
namespace {

using base::Time;
using namespace tests;

constexpr int64_t second = 1'000'000;
using Tickets = std::vector<uint32_t>;

TEST(Waiting, IsAnsweredExactlyWhenTheUnitsAreBack) {
  World w;
  Counting completions;
  const Limit ten = bucket(10, 5, second);
  w.ask({{"k", 10, {ten}}}, {0});
  const Asked asked = w.wait(completions, 1, {{"k", 3, {ten}}}, {0});
  EXPECT_FALSE(asked.allowed());
  EXPECT_TRUE(asked.group.parked);
  EXPECT_EQ(asked[0].retry_after.us, 600'000);
  EXPECT_EQ(completions.wakes, 1);  // the worker must learn when to call next
  EXPECT_EQ(w.answered(completions, {599'999}), Tickets{});
  EXPECT_EQ(w.next->us, 600'000);
  EXPECT_EQ(w.answered(completions, {600'000}), (Tickets{1}));
  ASSERT_EQ(completions.settled.size(), 1u);
  const Settled& settled = completions.settled[0];
  EXPECT_EQ(settled.at.us, 600'000);
  EXPECT_TRUE(settled.decisions.at(0).allowed);
  EXPECT_EQ(settled.decisions.at(0).remaining, 0);
  EXPECT_EQ(w.store.stats().waiting, 0u);
}

TEST(Waiting, TakesAtOnceIfThereAreEnoughUnits) {
  World w;
  Counting completions;
  EXPECT_TRUE(w.wait(completions, 1, {{"k", 3, {fixed(3)}}}, {0}).allowed());
  const Asked second_one = w.wait(completions, 2, {{"k", 1, {fixed(3)}}}, {0});
  EXPECT_FALSE(second_one.allowed());
  EXPECT_TRUE(second_one.group.parked);
  EXPECT_EQ(w.store.stats().waiting, 1u);
  EXPECT_EQ(completions.wakes, 0);  // a fixed bucket's units do not come back with time
}

TEST(Waiting, IsFirstComeFirstServedPerCounter) {
  World w;
  Counting completions;
  const Limit four = bucket(4, 1, second);
  w.ask({{"a", 4, {four}}, {"b", 4, {four}}}, {0});
  w.wait(completions, 1, {{"a", 2, {four}}}, {0});
  w.wait(completions, 2, {{"b", 1, {four}}}, {0});
  w.wait(completions, 3, {{"a", 1, {four}}}, {0});
  w.wait(completions, 4, {{"a", 1, {four}}}, {0});
  w.wait(completions, 5, {{"b", 1, {four}}}, {0});
  EXPECT_EQ(w.answered(completions, {second}), (Tickets{2}));
  EXPECT_EQ(w.answered(completions, {2 * second}), (Tickets{1, 5}));
  EXPECT_EQ(w.answered(completions, {3 * second}), (Tickets{3}));
  EXPECT_EQ(w.answered(completions, {4 * second - 1}), Tickets{});
  EXPECT_EQ(w.answered(completions, {4 * second}), (Tickets{4}));
}

TEST(Waiting, ASmallRequestDoesNotOvertakeALargeOne) {
  World w;
  Counting completions;
  const Limit ten = bucket(10, 10, second);
  w.ask({{"k", 8, {ten}}}, {0});
  w.wait(completions, 1, {{"k", 5, {ten}}}, {0});
  EXPECT_FALSE(w.wait(completions, 2, {{"k", 1, {ten}}}, {0}).allowed());  // 2 are left
  EXPECT_EQ(w.answered(completions, {299'999}), Tickets{});
  EXPECT_EQ(w.answered(completions, {300'000}), (Tickets{1}));
  EXPECT_EQ(w.answered(completions, {400'000}), (Tickets{2}));
}

TEST(Waiting, ARequestBeyondTheLimitDoesNotBlockOthers) {
  World w;
  Counting completions;
  const Limit four = bucket(4, 1, second);
  w.wait(completions, 1, {{"k", 5, {four}}}, {0});  // on a fresh counter
  EXPECT_EQ(w.store.stats().counters, 0u);
  w.ask({{"k", 4, {four}}}, {0});
  w.wait(completions, 2, {{"k", 5, {four}}}, {0});
  w.wait(completions, 3, {{"k", 1, {four}}}, {0});
  EXPECT_EQ(w.store.stats().waiting, 3u);
  EXPECT_EQ(w.answered(completions, {second}), (Tickets{3}));
  EXPECT_EQ(w.answered(completions, {1'000 * second}), Tickets{});
  EXPECT_EQ(w.next, std::nullopt);
  EXPECT_TRUE(w.ask({{"k", 4, {four}}}, {1'000 * second}).allowed());
  EXPECT_TRUE(w.store.cancel(completions.completions, {1, 0}, {0}));
  EXPECT_TRUE(w.store.cancel(completions.completions, {2, 0}, {0}));
  EXPECT_EQ(w.store.stats().waiting, 0u);
}

TEST(Waiting, ATakeAfterAWaiterIsRefusedWithASufficientRetryAfter) {
  World w;
  Counting completions;
  const Limit ten = bucket(10, 10, second);
  w.ask({{"k", 7, {ten}}}, {0});
  w.wait(completions, 1, {{"k", 8, {ten}}}, {0});
  EXPECT_EQ(w.left({"k", 0, {ten}}, {0}), 0);
  const Asked refused = w.ask({{"k", 2, {ten}}}, {0});
  EXPECT_FALSE(refused.allowed());
  EXPECT_EQ(refused[0].remaining, 0);
  EXPECT_EQ(refused[0].retry_after.us, 700'000);  // 8 + 2 units
  EXPECT_EQ(w.answered(completions, {500'000}), (Tickets{1}));
  EXPECT_FALSE(w.ask({{"k", 2, {ten}}}, {699'999}).allowed());
  EXPECT_TRUE(w.ask({{"k", 2, {ten}}}, {700'000}).allowed());
}

// For every algorithm with a window; up to 34 requests wait, more than one window brings.
TEST(Waiting, RetryAfterIsSufficientAfterManyWaiters) {
  for (const Algorithm algorithm :
       {Algorithm::token_bucket, Algorithm::fixed_window, Algorithm::aligned_window,
        Algorithm::sliding_window, Algorithm::sliding_log, Algorithm::concurrency}) {
    for (int64_t waiting = 0; waiting < 35; ++waiting) {
      World w;
      Counting completions;
      Limit limit{algorithm, 10, {second}};
      if (algorithm == Algorithm::token_bucket) limit.burst = 13;
      if (algorithm == Algorithm::concurrency) limit.burst = second;
      Time now{10 * second + 123'456};
      w.ask({{"k", units_max(limit), {limit}}}, now);
      now.us += 50'000;
      for (uint32_t i = 0; i < waiting; ++i) w.wait(completions, i, {{"k", 1, {limit}}}, now);
      const Asked refused = w.ask({{"k", 1, {limit}}}, now);
      ASSERT_FALSE(refused.allowed());
      EXPECT_EQ(refused[0].remaining, 0);
      ASSERT_NE(refused[0].retry_after, base::never);
      const Time then{now.us + refused[0].retry_after.us};
      // Wakes on time, as a worker does.
      int64_t answers = 0;
      while (w.answered(completions, now),
             answers += static_cast<int64_t>(completions.settled.size()), w.next) {
        if (w.next->us > then.us) break;
        now = *w.next;
      }
      EXPECT_TRUE(w.ask({{"k", 1, {limit}}}, then).allowed())
          << name_of(algorithm) << " behind " << waiting << ", of whom are answered " << answers;
    }
  }
}

// Who waits for a place is the next holder in the microsecond in which a lease ends, whichever ends
// first.
TEST(Waiting, APlaceGoesToTheFirstWaiterWhenALeaseEnds) {
  World w;
  Counting completions;
  const Limit long_lease{Algorithm::concurrency, 2, {20 * second}, 30 * second};
  const Limit short_lease{Algorithm::concurrency, 2, {5 * second}, 30 * second};
  w.ask({{"k", 1, {long_lease}}}, {0});
  w.ask({{"k", 1, {short_lease}}}, {second});
  const Asked asked = w.wait(completions, 1, {{"k", 1, {short_lease}}}, {2 * second});
  EXPECT_TRUE(asked.group.parked);
  EXPECT_EQ(asked[0].retry_after.us, 4 * second);
  w.wait(completions, 2, {{"k", 2, {short_lease}}}, {2 * second});
  EXPECT_EQ(w.answered(completions, {6 * second - 1}), Tickets{});
  EXPECT_EQ(w.next->us, 6 * second);
  EXPECT_EQ(w.answered(completions, {6 * second}), (Tickets{1}));
  EXPECT_EQ(completions.settled[0].at.us, 6 * second);
  // A large one is not overtaken, and has its two places when the last of both is back.
  EXPECT_FALSE(w.ask({{"k", 1, {short_lease}}}, {12 * second}).allowed());
  EXPECT_EQ(w.answered(completions, {20 * second - 1}), Tickets{});
  EXPECT_EQ(w.answered(completions, {20 * second}), (Tickets{2}));
}

TEST(Waiting, APutWakesWhoWaitsForAPlace) {
  World w;
  Counting completions;
  const Limit two{Algorithm::concurrency, 2, {60 * second}, 60 * second};
  w.ask({{"k", 2, {two}}}, {0});
  w.wait(completions, 1, {{"k", 1, {two}}}, {1});
  EXPECT_EQ(w.answered(completions, {1}), Tickets{});
  EXPECT_EQ(w.next->us, 60 * second);
  completions.wakes = 0;
  w.put({{"k", 1, {two}}}, {2});
  EXPECT_EQ(completions.wakes, 1);
  EXPECT_EQ(w.answered(completions, {3}), (Tickets{1}));
  EXPECT_EQ(w.left({"k", 0, {two}}, {3}), 0);
}

TEST(Waiting, APutAnswersInOrderAsManyAsItsUnitsAllow) {
  World w;
  Counting completions, other;
  const Limit ten = fixed(10);
  w.ask({{"k", 10, {ten}}}, {0});
  w.wait(completions, 1, {{"k", 3, {ten}}}, {0});
  w.wait(other, 2, {{"k", 3, {ten}}}, {0});
  w.wait(completions, 3, {{"k", 3, {ten}}}, {0});
  EXPECT_EQ(w.put({{"k", 2, {ten}}}, {1})[0].remaining, 2);  // kept for the first
  EXPECT_EQ(completions.wakes, 0);
  w.put({{"k", 5, {ten}}}, {2});
  EXPECT_EQ(completions.wakes, 1);
  EXPECT_EQ(other.wakes, 1);
  EXPECT_EQ(w.answered(completions, {3}), (Tickets{1}));
  EXPECT_EQ(completions.settled[0].at.us, 2);
  EXPECT_EQ(w.answered(other, {3}), (Tickets{2}));
  w.put_all({"k", 1, {ten}}, {4});
  EXPECT_EQ(completions.wakes, 2);
  EXPECT_EQ(w.answered(completions, {5}), (Tickets{3}));
  EXPECT_EQ(w.left({"k", 0, {ten}}, {5}), 7);
  EXPECT_EQ(w.next, std::nullopt);
}

TEST(Waiting, NotifiesOnceUntilTheQueueIsRead) {
  World w;
  Counting completions;
  const Limit ten = fixed(10);
  w.ask({{"k", 10, {ten}}}, {0});
  for (uint32_t i = 0; i < 4; ++i) w.wait(completions, i, {{"k", 1, {ten}}}, {0});
  w.put({{"k", 1, {ten}}}, {1});
  w.put({{"k", 1, {ten}}}, {1});
  EXPECT_EQ(completions.wakes, 1);
  // A put between `advance` and `drain` wakes again, as does a waiter that becomes due there.
  w.store.advance(completions.completions, {2});
  w.put({{"k", 1, {ten}}}, {2});
  EXPECT_EQ(completions.wakes, 2);
  completions.completions.drain(completions.settled);
  EXPECT_EQ(completions.settled.size(), 3u);
  w.store.advance(completions.completions, {3});
  completions.completions.drain(completions.settled);
  const Limit slow = bucket(1, 1, second);
  w.ask({{"s", 1, {slow}}}, {3});
  w.store.advance(completions.completions, {3});
  w.wait(completions, 9, {{"s", 1, {slow}}}, {3});
  EXPECT_EQ(completions.wakes, 3);
  completions.completions.drain(completions.settled);
  // `drain` does not say when to call next, so the wake stays.
  EXPECT_EQ(w.store.advance(completions.completions, {3})->us, 3 + second);
}

TEST(Waiting, OneCallAnswersABoundedNumberAndTheRestFollows) {
  World w;
  Counting completions;
  const Limit many = fixed(1'000);
  w.ask({{"k", 1'000, {many}}}, {0});
  Tickets expected;
  for (uint32_t i = 0; i < 1'000; ++i) {
    w.wait(completions, i, {{"k", 1, {many}}}, {0});
    expected.push_back(i);
  }
  w.put({{"k", 1'000, {many}}}, {1});
  std::vector<Settled> at_once;
  completions.completions.drain(at_once);
  EXPECT_GE(at_once.size(), 1u);
  EXPECT_LT(at_once.size(), 500u);
  EXPECT_EQ(w.left({"k", 0, {many}}, {1}), 0);  // units kept for the others
  Tickets tickets;
  for (const Settled& s : at_once) tickets.push_back(s.ticket.slot);
  for (const uint32_t t : w.answered(completions, {1})) tickets.push_back(t);
  EXPECT_EQ(tickets, expected);
}

TEST(Waiting, CancelTakesNothingAndServesTheNextWaiter) {
  for (const uint32_t gone : {0u, 1u, 2u}) {  // the head, the middle one, the last
    World w;
    Counting completions;
    const Limit ten = bucket(10, 10, second);
    w.ask({{"k", 10, {ten}}}, {0});
    for (uint32_t i = 0; i < 3; ++i) w.wait(completions, i, {{"k", 4, {ten}}}, {0});
    EXPECT_TRUE(w.store.cancel(completions.completions, {gone, 0}, {1}));
    EXPECT_FALSE(w.store.cancel(completions.completions, {gone, 0}, {1}));
    const uint32_t first = gone == 0 ? 1 : 0, then = gone == 2 ? 1 : 2;
    EXPECT_EQ(w.answered(completions, {400'000}), (Tickets{first}));
    EXPECT_EQ(w.answered(completions, {800'000}), (Tickets{then}));
    EXPECT_EQ(w.answered(completions, {10 * second}), Tickets{});
    EXPECT_EQ(w.left({"k", 0, {ten}}, {800'000}), 0);
    EXPECT_EQ(w.store.stats().waiting, 0u);
  }
}

TEST(Waiting, CancellingALargeFirstWaiterFreesItsUnits) {
  World w;
  Counting completions;
  const Limit ten = fixed(10);
  w.ask({{"k", 7, {ten}}}, {0});
  w.wait(completions, 1, {{"k", 9, {ten}}}, {0});
  w.wait(completions, 2, {{"k", 2, {ten}}}, {0});
  EXPECT_FALSE(w.ask({{"k", 1, {ten}}}, {0}).allowed());
  w.store.cancel(completions.completions, {1, 0}, {0});
  EXPECT_EQ(w.answered(completions, {0}), (Tickets{2}));
  EXPECT_TRUE(w.ask({{"k", 1, {ten}}}, {0}).allowed());
}

TEST(Waiting, CancelFailsOnceTheRequestIsAnswered) {
  World w;
  Counting completions;
  w.ask({{"k", 1, {fixed(1)}}}, {0});
  w.wait(completions, 1, {{"k", 1, {fixed(1)}}}, {0});
  w.put({{"k", 1, {fixed(1)}}}, {0});
  EXPECT_FALSE(w.store.cancel(completions.completions, {1, 0}, {0}));
  EXPECT_EQ(w.answered(completions, {0}), (Tickets{1}));
  EXPECT_FALSE(w.store.cancel(completions.completions, {1, 0}, {0}));
}

TEST(Waiting, PastTheBoundItIsRefusedAtOnce) {
  World w(0, 3);
  Counting completions;
  w.ask({{"k", 1, {fixed(1)}}}, {0});
  for (uint32_t i = 0; i < 3; ++i)
    EXPECT_TRUE(w.wait(completions, i, {{"k", 1, {fixed(1)}}}, {0}).group.parked);
  const Asked refused = w.wait(completions, 3, {{"k", 1, {fixed(1)}}}, {0});
  EXPECT_FALSE(refused.allowed());
  EXPECT_FALSE(refused.group.parked);
  EXPECT_FALSE(w.store.cancel(completions.completions, {3, 0}, {0}));
  w.store.cancel(completions.completions, {1, 0}, {0});
  EXPECT_TRUE(w.wait(completions, 4, {{"k", 1, {fixed(1)}}}, {0}).group.parked);
  EXPECT_EQ(w.store.stats().waiting, 3u);
}

TEST(Waiting, SeveralChargesAreTakenAllOrNothing) {
  World w;
  Counting completions;
  const Limit a = bucket(10, 10, second), b = bucket(4, 1, second);
  w.ask({{"a", 10, {a}}, {"b", 4, {b}}}, {0});
  const Asked asked = w.wait(completions, 1, {{"a", 5, {a}}, {"b", 1, {b}}}, {0});
  EXPECT_TRUE(asked.group.parked);
  // It waits at b, which takes longer; meanwhile other requests may take from a.
  EXPECT_TRUE(w.ask({{"a", 2, {a}}}, {200'000}).allowed());
  EXPECT_FALSE(w.ask({{"b", 1, {b}}}, {second}).allowed());
  EXPECT_EQ(w.answered(completions, {second - 1}), Tickets{});
  EXPECT_EQ(w.answered(completions, {second}), (Tickets{1}));
  EXPECT_EQ(completions.settled[0].decisions.size(), 2u);
  EXPECT_EQ(completions.settled[0].decisions[0].limit, 10);  // in the order of the group
  EXPECT_EQ(completions.settled[0].decisions[1].limit, 4);
  EXPECT_EQ(w.left({"a", 0, {a}}, {second}), 3);
  EXPECT_EQ(w.left({"b", 0, {b}}, {second}), 0);
}

TEST(Waiting, AGroupMovesBetweenCountersAndKeepsItsArrival) {
  World w;
  Counting completions;
  const Limit a = fixed(10), b = fixed(10);
  w.ask({{"a", 10, {a}}}, {0});
  w.wait(completions, 1, {{"a", 5, {a}}, {"b", 5, {b}}}, {0});  // waits at a
  w.ask({{"b", 10, {b}}}, {0});
  w.wait(completions, 2, {{"b", 5, {b}}}, {0});
  w.put({{"a", 10, {a}}}, {1});
  EXPECT_EQ(w.answered(completions, {1}), Tickets{});  // waits at b now, before the other
  EXPECT_TRUE(w.ask({{"a", 5, {a}}}, {1}).allowed());
  w.put({{"b", 5, {b}}}, {2});
  EXPECT_EQ(w.answered(completions, {2}), (Tickets{1}));
  w.put({{"b", 5, {b}}}, {2});
  EXPECT_EQ(w.answered(completions, {2}), (Tickets{2}));
  EXPECT_EQ(w.left({"a", 0, {a}}, {2}), 0);
  EXPECT_EQ(w.left({"b", 0, {b}}, {2}), 0);
}

TEST(Waiting, ACancelledGroupLeavesTheQueueOfItsCounter) {
  World w;
  Counting completions;
  const Limit ten = fixed(10);
  w.ask({{"a", 4, {ten}}}, {0});
  w.wait(completions, 1, {{"a", 9, {ten}}, {"b", 1, {ten}}}, {0});
  w.wait(completions, 2, {{"a", 6, {ten}}}, {0});
  EXPECT_TRUE(w.store.cancel(completions.completions, {1, 0}, {0}));
  EXPECT_EQ(w.answered(completions, {0}), (Tickets{2}));
}

TEST(Waiting, AGroupWithADeniedChargeDoesNotBlockOthers) {
  World w;
  Counting completions;
  const Limit deny{Algorithm::deny, 0, {}}, one = fixed(1);
  w.ask({{"a", 1, {one}}}, {0});
  w.wait(completions, 1, {{"a", 0, {one}}, {"b", 0, {deny}}}, {0});
  w.wait(completions, 2, {{"a", 1, {one}}, {"b", 1, {deny}}}, {0});
  w.wait(completions, 3, {{"a", 0, {one, deny}}}, {0});
  w.wait(completions, 4, {{"a2", 0, {one, deny}}}, {0});
  w.put({{"a", 1, {one}}}, {0});
  EXPECT_TRUE(w.ask({{"a", 1, {one}}}, {0}).allowed());
  EXPECT_EQ(w.store.stats().waiting, 4u);
  for (uint32_t i = 1; i <= 4; ++i)
    EXPECT_TRUE(w.store.cancel(completions.completions, {i, 0}, {0}));
}

// A bucket that would take longer to fill than time lasts holds less than its burst, so some costs
// below the burst can never be allowed.
TEST(Waiting, ARequestDuePastTheEndOfTimeDoesNotBlockOthers) {
  World w;
  Counting completions;
  const Limit endless = bucket(base::bounds::quota_max, 1, base::bounds::window_us_max);
  w.wait(completions, 1, {{"k", 1'000'000'000, {endless}}}, {second});
  EXPECT_EQ(w.store.stats().waiting, 1u);
  EXPECT_TRUE(w.ask({{"k", 1, {endless}}}, {second}).allowed());
  EXPECT_TRUE(w.store.cancel(completions.completions, {1, 0}, {second}));
}

TEST(Waiting, SeveralLimitsOfOneCounterMustAllAllow) {
  World w;
  Counting completions;
  const std::vector<Limit> both = {bucket(5, 5, second), window(8, 10 * second)};
  w.ask({{"k", 5, both}}, {0});
  w.wait(completions, 1, {{"k", 3, both}}, {0});  // allowed after 0.6 s
  w.wait(completions, 2, {{"k", 3, both}}, {0});  // allowed when the window is over
  EXPECT_EQ(w.answered(completions, {600'000}), (Tickets{1}));
  EXPECT_EQ(w.answered(completions, {10 * second - 1}), Tickets{});
  EXPECT_EQ(w.answered(completions, {10 * second}), (Tickets{2}));
  const Asked left = w.ask({{"k", 0, both}}, {10 * second}, Verb::peek);
  EXPECT_EQ(left[0].remaining, 2);
  EXPECT_EQ(left[1].remaining, 5);
}

TEST(Waiting, ARefusedGroupReportsTheUnitsThatWaitersLeave) {
  World w;
  Counting completions;
  const Limit ten = fixed(10), one = fixed(1);
  const std::vector<Limit> both = {ten, bucket(20, 1, second)};
  w.ask({{"a", 6, both}, {"b", 1, {one}}}, {0});
  w.wait(completions, 1, {{"a", 7, both}}, {0});
  const Asked refused = w.ask({{"a", 1, both}, {"b", 1, {one}}}, {0});
  EXPECT_EQ(refused[0].remaining, 0);
  EXPECT_TRUE(refused[1].allowed);
  EXPECT_EQ(refused[1].remaining, 20 - 6 - 7);
}

// Units of a fixed bucket come back only by a put, never with time.
TEST(Waiting, OnlyAPutWakesAWaiterOfAFixedBucket) {
  World w;
  Counting completions;
  w.ask({{"k", 5, {fixed(5)}}}, {0});
  const Asked asked = w.wait(completions, 1, {{"k", 1, {fixed(5)}}}, {0});
  EXPECT_EQ(asked[0].retry_after, base::never);
  EXPECT_EQ(w.answered(completions, {INT64_MAX / 2}), Tickets{});
  EXPECT_EQ(w.next, std::nullopt);
  EXPECT_EQ(completions.wakes, 0);
  w.put({{"k", 1, {fixed(5)}}}, {INT64_MAX / 2});
  EXPECT_EQ(completions.wakes, 1);
  EXPECT_EQ(w.answered(completions, {INT64_MAX / 2}), (Tickets{1}));
}

TEST(Waiting, ACounterThatIsWaitedForIsNotSwept) {
  World w;
  Counting completions;
  const Limit one = window(1, second);
  w.ask({{"k", 1, {one}}}, {0});
  w.wait(completions, 1, {{"k", 1, {one}}}, {0});
  w.store.sweep({5 * second}, 5'000);
  EXPECT_EQ(w.store.stats().counters, 1u);
  EXPECT_EQ(w.answered(completions, {5 * second}), (Tickets{1}));
  w.store.sweep({6 * second}, 5'000);
  EXPECT_EQ(w.store.stats().counters, 0u);
}

// Other requests bring limits with more cells, so the counter moves in memory, and its queue with
// it.
TEST(Waiting, AQueueMovesWithItsCounter) {
  World w;
  Counting completions;
  const Limit few = bucket(10, 10, second);
  const std::vector<Limit> more = {few, {Algorithm::sliding_log, 20, {second}}};
  w.ask({{"k", 10, {few}}}, {0});
  w.wait(completions, 1, {{"k", 2, {few}}}, {0});
  w.wait(completions, 2, {{"k", 2, {few}}}, {0});
  EXPECT_FALSE(w.ask({{"k", 1, more}}, {0}).allowed());
  EXPECT_EQ(w.store.stats().counters, 1u);
  EXPECT_EQ(w.answered(completions, {200'000}), (Tickets{1}));  // the counter moves back
  EXPECT_FALSE(w.ask({{"k", 1, more}}, {200'000}).allowed());
  w.store.cancel(completions.completions, {2, 0}, {200'000});
  w.store.sweep({5 * second}, 5'000);
  EXPECT_EQ(w.store.stats().counters, 0u);
}

TEST(Waiting, AskedAgainItKeepsItsPlaceInTheQueue) {
  World w;
  Counting completions;
  const Limit ten = bucket(10, 10, second);
  w.ask({{"k", 10, {ten}}}, {0});
  const Asked first = w.wait(completions, 1, {{"k", 5, {ten}}}, {0});
  w.wait(completions, 2, {{"k", 1, {ten}}}, {0});
  w.wait(completions, 3, {{"k", 4, {ten}}}, {0});
  // 3 units are left, enough for the second; but the first was only matched again and stays in
  // front.
  const Asked again = w.wait(completions, 1, {{"k", 5, {ten}}}, {300'000}, first.group.arrival);
  EXPECT_TRUE(again.group.parked);
  EXPECT_EQ(again.group.arrival, first.group.arrival);
  EXPECT_EQ(w.store.stats().waiting, 3u);
  EXPECT_EQ(w.answered(completions, {499'999}), Tickets{});
  EXPECT_EQ(w.answered(completions, {500'000}), (Tickets{1}));
  EXPECT_EQ(w.answered(completions, {600'000}), (Tickets{2}));
  EXPECT_EQ(w.answered(completions, {second}), (Tickets{3}));
}

// A request's own limits are in the memory of its batch, which is used again for other batches.
TEST(Waiting, AParkedGroupOwnsItsLimits) {
  World w;
  Counting completions;
  w.ask({{"k", 3, {fixed(3)}}}, {0});
  Asked asked = w.wait(completions, 1, {{"k", 2, {fixed(3)}}}, {0});
  ASSERT_TRUE(asked.group.parked);
  asked.limits[0][0] = fixed(1'000);
  w.put({{"k", 1, {fixed(3)}}}, {0});
  EXPECT_EQ(w.answered(completions, {0}), Tickets{});
  w.put({{"k", 1, {fixed(3)}}}, {0});
  EXPECT_EQ(w.answered(completions, {0}), Tickets{1});
  EXPECT_EQ(completions.settled[0].decisions[0].limit, 3);
  EXPECT_EQ(w.left({"k", 0, {fixed(3)}}, {0}), 0);
}

// The queue had only this request, and is removed with it.
TEST(Waiting, AskedAgainTheOnlyWaiterMayBeAnswered) {
  World w;
  Counting completions;
  w.ask({{"k", 10, {fixed(10)}}}, {0});
  const Asked alone = w.wait(completions, 1, {{"k", 5, {fixed(10)}}}, {0});
  EXPECT_TRUE(w.wait(completions, 1, {{"k", 5, {fixed(15)}}}, {0}, alone.group.arrival).allowed());
  EXPECT_EQ(w.store.stats().waiting, 0u);
  EXPECT_TRUE(w.ask({{"k", 0, {fixed(15)}}}, {0}).allowed());
  EXPECT_EQ(w.answered(completions, {0}), Tickets{});
}

TEST(Waiting, AskedAgainItMayBeAnsweredNowOrBefore) {
  World w;
  Counting completions;
  w.ask({{"k", 10, {fixed(10)}}}, {0});
  const Asked first = w.wait(completions, 1, {{"k", 5, {fixed(10)}}}, {0});
  w.wait(completions, 2, {{"k", 1, {fixed(10)}}}, {0});
  const Asked second_one = w.wait(completions, 3, {{"k", 1, {fixed(10)}}}, {0});
  // The new limit brings 5 units.
  const Asked again = w.wait(completions, 1, {{"k", 5, {fixed(15)}}}, {0}, first.group.arrival);
  EXPECT_TRUE(again.allowed());
  EXPECT_FALSE(again.group.parked);
  EXPECT_EQ(w.store.stats().waiting, 2u);
  EXPECT_EQ(w.answered(completions, {0}), Tickets{});
  w.put({{"k", 10, {fixed(15)}}}, {0});
  const Asked late = w.wait(completions, 3, {{"k", 1, {fixed(15)}}}, {0}, second_one.group.arrival);
  EXPECT_TRUE(late.group.answered);
  EXPECT_FALSE(late.group.parked);
  EXPECT_EQ(w.answered(completions, {0}), (Tickets{2, 3}));
}

TEST(Waiting, WithoutMemoryForAnotherSizeItTakesNothingAndKeepsWaiting) {
  World w;
  Counting completions;
  const Limit ten = bucket(10, 10, second), filler = fixed(2);
  const std::vector<Limit> larger = {ten, {Algorithm::sliding_log, 32, {second}}};
  w.ask({{"k", 10, {ten}}, {"l", 10, {ten}}}, {0});
  uint64_t count = 0;
  for (;; ++count) {
    Asked asked = w.prepare({{"filler " + std::to_string(count), 1, {filler}}});
    w.apply(asked, {0});
    if (asked.group.error != request::Error::none) break;
  }
  const Asked failed = w.wait(completions, 1, {{"k", 2, larger}}, {0});
  EXPECT_EQ(failed.group.error, request::Error::memory);
  EXPECT_FALSE(failed.group.parked);
  EXPECT_EQ(w.store.stats().waiting, 0u);
  w.wait(completions, 2, {{"k", 2, {ten}}}, {0});
  EXPECT_EQ(w.left({"k", 0, {ten}}, {200'000}), 0);
  EXPECT_EQ(w.answered(completions, {200'000}), (Tickets{2}));
  EXPECT_EQ(w.left({"k", 0, {ten}}, {300'000}), 1);
}

}  // namespace
}  // namespace sluice::store::waiting_test
