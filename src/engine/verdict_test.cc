// What a request is answered that no rule applies to (engine/verdict.h).
#include "engine/verdict.h"

#include <gtest/gtest.h>

#include "base/bounds.h"

namespace sluice::engine {
namespace {

TEST(Verdict, TheListenersSettingAnswersUnmatchedTakes) {
  using request::Unmatched;
  using request::Verb;
  request::Verdict verdict;
  EXPECT_TRUE(is_unmatched(Verb::take, verdict));
  EXPECT_TRUE(is_unmatched(Verb::wait, verdict));
  EXPECT_FALSE(is_unmatched(Verb::peek, verdict));
  EXPECT_FALSE(is_unmatched(Verb::put, verdict));
  answer_unmatched(Unmatched::as_protocol, Verb::take, verdict);
  EXPECT_TRUE(is_unmatched(Verb::take, verdict));
  request::Verdict allowed = verdict, denied = verdict, failed = verdict;
  answer_unmatched(Unmatched::allow, Verb::take, allowed);
  answer_unmatched(Unmatched::deny, Verb::take, denied);
  answer_unmatched(Unmatched::error, Verb::take, failed);
  // The same as the rules `unlimited: true` and `deny: true` answer.
  EXPECT_TRUE(allowed.matched && allowed.allowed);
  EXPECT_EQ(allowed.tightest->remaining, base::bounds::quota_max);
  EXPECT_EQ(allowed.limit->algorithm, limit::Algorithm::unlimited);
  EXPECT_TRUE(denied.matched && !denied.allowed);
  EXPECT_EQ(denied.tightest->retry_after, base::never);
  EXPECT_EQ(denied.limit->algorithm, limit::Algorithm::deny);
  EXPECT_EQ(failed.error, request::no_rule_applies);
  verdict.error = "the store failed";
  EXPECT_FALSE(is_unmatched(Verb::take, verdict));
}

}  // namespace
}  // namespace sluice::engine
