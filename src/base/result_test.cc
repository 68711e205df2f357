// Results that are a value or a problem (base/result.h).
#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/result_test.h"

namespace sluice::base {
namespace {

Result<int> half_of(int n) {
  if (n % 2 != 0) return Problem{std::to_string(n) + " is odd; name an even number"};
  return n / 2;
}

Done halve(int& n) {
  Result<int> half = half_of(n);
  if (!half) return std::move(half).problem().within("halving");
  n = *half;
  return {};
}

TEST(Result, IsAValueOrAProblem) {
  EXPECT_TRUE(half_of(8));
  EXPECT_EQ(*half_of(8), 4);
  EXPECT_FALSE(half_of(7));
  EXPECT_EQ(half_of(7).problem().text, "7 is odd; name an even number");
}

TEST(Result, DoneIsSuccessOrAProblem) {
  int n = 6;
  EXPECT_TRUE(halve(n));
  EXPECT_EQ(n, 3);
  const Done done = halve(n);
  EXPECT_FALSE(done);
  EXPECT_EQ(done.problem().text, "halving: 3 is odd; name an even number");
  EXPECT_EQ(n, 3);
}

TEST(Result, MovesItsValueOut) {
  Result<std::unique_ptr<std::string>> result(std::make_unique<std::string>("a text"));
  EXPECT_EQ((*result)->size(), 6u);
  EXPECT_EQ(result->get(), (*result).get());
  const std::unique_ptr<std::string> text = *std::move(result);
  EXPECT_EQ(*text, "a text");
}

TEST(Result, SucceedsWritesTheValueOrTheProblem) {
  std::string problem;
  int value = 0;
  EXPECT_TRUE(succeeds(half_of(2), value, problem));
  EXPECT_EQ(value, 1);
  EXPECT_FALSE(succeeds(half_of(3), value, problem));
  EXPECT_EQ(problem, "3 is odd; name an even number");
  EXPECT_FALSE(succeeds(Done(Problem{"full"}), problem));
  EXPECT_EQ(problem, "full");
}

TEST(ResultDeathTest, ReadingAMissingValueOrProblemDies) {
  EXPECT_DEATH(static_cast<void>(*half_of(7)), "found != nullptr");
  EXPECT_DEATH(static_cast<void>(half_of(8).problem()), "found != nullptr");
}

}  // namespace
}  // namespace sluice::base
