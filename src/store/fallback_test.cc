// What groups are answered if their store cannot decide, by their rules' on_store_error
// (store/fallback.h).
#include "store/fallback.h"

#include <gtest/gtest.h>

#include <vector>

#include "store/asking_test.h"

namespace sluice::store::fallback_test {
namespace {

using request::Error;
using request::OnError;
using namespace tests;

constexpr base::Time now{1'000'000'000};

struct Failed {
  explicit Failed(OnError wanted, const std::vector<Part>& parts, Verb verb = Verb::take)
      : asked(world.prepare(parts, verb)) {
    asked.group.on_error = wanted;
    asked.group.allowed = asked.group.parked = true;  // as an earlier decision left them
    fall_back(asked.group, {{&asked.group, 1}, asked.charges, asked.decisions}, Error::deadline,
              now);
    EXPECT_FALSE(asked.group.parked);
  }
  World world;
  Asked asked;
};

TEST(Fallback, ErrorAndLocalKeepTheError) {
  for (const OnError wanted : {OnError::error, OnError::local}) {
    const Failed f(wanted, {{"a", 1, {window(3, 10)}}});
    EXPECT_EQ(f.asked.group.error, Error::deadline);
    EXPECT_FALSE(f.asked.allowed());
  }
}

TEST(Fallback, AllowAnswersAsAFreshCounterDoes) {
  const Failed f(OnError::allow, {{"a", 2, {window(3, 10), bucket(5, 1, 10)}}});
  EXPECT_EQ(f.asked.group.error, Error::none);
  EXPECT_TRUE(f.asked.allowed());
  EXPECT_EQ(f.asked[0].remaining, 1);
  EXPECT_EQ(f.asked[1].remaining, 3);
  // A cost above the burst, and a limit that denies without a counter, are refused in any case.
  EXPECT_FALSE(Failed(OnError::allow, {{"a", 4, {window(3, 10)}}}).asked.allowed());
  EXPECT_FALSE(Failed(OnError::allow, {{"a", 1, {Limit{}}}}).asked.allowed());
  const Failed peeked(OnError::allow, {{"a", 1, {window(3, 10)}}}, Verb::peek);
  EXPECT_TRUE(peeked.asked.allowed());
  EXPECT_EQ(peeked.asked[0].remaining, 3);
  EXPECT_TRUE(Failed(OnError::allow, {{"a", 1, {window(3, 10)}}}, Verb::put).asked.allowed());
}

TEST(Fallback, AnAnswerThatComesTooLateIsTheDeadlinesError) {
  World world;
  for (const OnError wanted : {OnError::error, OnError::deny, OnError::local, OnError::allow})
    for (const int64_t left_us : {-1, 0, 1}) {
      Asked asked = world.prepare({{"a", 1, {window(3, 10)}}});
      asked.group.on_error = wanted;
      asked.group.answer_by = {now.us + left_us};
      fall_back(asked.group, {{&asked.group, 1}, asked.charges, asked.decisions}, Error::store,
                now);
      EXPECT_EQ(asked.group.error == Error::deadline, left_us <= 0);
      EXPECT_EQ(asked.allowed(), left_us > 0 && wanted == OnError::allow);
    }
}

TEST(Fallback, DenyRefusesAndSaysWhenToTryAgain) {
  const Limit unlimited{Algorithm::unlimited, 7, {}, 0};
  const Failed f(OnError::deny, {{"a", 1, {bucket(5, 1, 10), unlimited}}});
  EXPECT_EQ(f.asked.group.error, Error::none);
  EXPECT_FALSE(f.asked.allowed());
  EXPECT_FALSE(f.asked[0].allowed);
  EXPECT_EQ(f.asked[0].limit, 5);
  EXPECT_EQ(f.asked[0].remaining, 0);
  EXPECT_EQ(f.asked[0].retry_after, try_again_after);
  EXPECT_TRUE(f.asked[1].allowed);
}

TEST(Fallback, CountersThatKeepTheirLimitsAnswerByTheRequestsLimits) {
  request::Spaces spaces;
  request::Space like;
  like.windows = {base::seconds(1), base::seconds(60)};
  const request::Space* const space = spaces.intern("d:", "", like);
  const std::vector<Limit> limits = {window(3, base::seconds(60).us)};
  for (const OnError wanted : {OnError::allow, OnError::deny}) {
    Group group{.charge_count = 1, .on_error = wanted};
    Charge charge{.space = space, .key = "k", .keeps_limits = true, .cost = 2, .limits = limits};
    std::vector<Decision> decisions(2);
    fall_back(group, {{&group, 1}, {&charge, 1}, decisions}, Error::store, now);
    EXPECT_EQ(group.error, Error::none);
    EXPECT_EQ(group.allowed, wanted == OnError::allow);
    EXPECT_EQ(charge.slot_mask, 2u);
    EXPECT_EQ(decisions[0].limit, 3);
    EXPECT_EQ(decisions[0].allowed, wanted == OnError::allow);
    EXPECT_EQ(decisions[0].remaining, wanted == OnError::allow ? 1 : 0);
  }
}

}  // namespace
}  // namespace sluice::store::fallback_test
