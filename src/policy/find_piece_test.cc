// The search for a text in another (policy/find_piece.h) against std::string_view's, and the steps
// that patterns count (policy/match_steps.h).
#include "policy/find_piece.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/pattern.h"
#include "policy/rule_set.h"
#include "testing/dialects.h"

namespace sluice::policy {
namespace {

// All texts of at most `most` characters of an alphabet.
std::vector<std::string> texts_of(const std::string& alphabet, size_t most) {
  std::vector<std::string> all = {""};
  for (size_t from = 0, size = 1; size <= most; ++size)
    for (const size_t to = all.size(); from < to; ++from)
      for (const char c : alphabet) all.push_back(all[from] + c);
  return all;
}

TEST(FindPiece, FindsWhatAPlainSearchFinds) {
  uint64_t steps = 0;
  for (const std::string& piece : texts_of("ab", 6))
    for (const std::string& text : texts_of("ab", 10))
      ASSERT_EQ(find_piece(text, piece, steps), text.find(piece)) << text << ' ' << piece;
}

// After many texts that nearly match, the search changes to another method.
TEST(FindPiece, FindsWhatAPlainSearchFindsAfterManyNearMatches) {
  uint64_t steps = 0;
  for (const std::string& filler : {std::string(300, 'a'), std::string(150, 'a') + "b"}) {
    std::string before;
    while (before.size() < 900) before += filler;
    for (const std::string& piece : texts_of("ab", 7)) {
      const std::string longer = std::string(40, 'a') + piece;
      for (const std::string& behind : texts_of("ab", 5)) {
        for (const std::string& text :
             {before + behind, before + longer + behind, before + piece}) {
          ASSERT_EQ(find_piece(text, piece, steps), text.find(piece)) << piece << ' ' << behind;
          ASSERT_EQ(find_piece(text, longer, steps), text.find(longer)) << piece << ' ' << behind;
        }
      }
    }
  }
}

bool fits_slowly(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() != '*')
    return !text.empty() && text.front() == pattern.front() &&
           fits_slowly(pattern.substr(1), text.substr(1));
  return fits_slowly(pattern.substr(1), text) ||
         (!text.empty() && fits_slowly(pattern, text.substr(1)));
}

TEST(FindPiece, WildcardsMatchTheNaiveModel) {
  uint64_t steps = 0;
  for (const std::string& pattern : texts_of("a*b", 5))
    for (const std::string& text : texts_of("ab", 7))
      ASSERT_EQ(wildcard_fits(pattern, text, steps), fits_slowly(pattern, text))
          << pattern << ' ' << text;
}

// The worst texts known for plain searches, a million bytes each. Counts steps, not time.
TEST(FindPiece, TakesStepsLinearInTheText) {
  const std::string text(1'000'000, 'a');
  std::string fibonacci = "b", longer = "a";
  while (longer.size() < text.size()) {
    std::string next = longer + fibonacci;
    fibonacci = std::move(longer);
    longer = std::move(next);
  }
  for (const size_t size : std::vector<size_t>{2, 10, 100, 1000, 4000, 100'000}) {
    const std::string as(size, 'a');
    for (const std::string& piece :
         {as + "b", "b" + as, as + "b" + as, as.substr(1) + "ba", longer.substr(7, size) + "c"}) {
      for (const std::string& in : {text, longer}) {
        uint64_t steps = 0;
        find_piece(in, piece, steps);
        EXPECT_LE(steps, 8 * (in.size() + piece.size()) + 512) << size;
      }
    }
  }
  std::string many = "*";
  for (int i = 0; i < 500; ++i) many += "aaaaaaab*";
  for (const std::string& pattern : {"*" + std::string(4000, 'a') + "b", many, many + "b"}) {
    uint64_t steps = 0;
    EXPECT_FALSE(wildcard_fits(pattern, text, steps));
    EXPECT_LE(steps, 8 * (text.size() + pattern.size()) + 512) << pattern.size();
  }
}

TEST(MatchSteps, OrdinaryValuesCostNoStepsForAnyNumberOfPatterns) {
  const std::string value(base::bounds::match_free_bytes, 'a');
  for (const Pattern& pattern :
       {Pattern::wildcard("*x*y"), Pattern::loose("*xy"), Pattern::loose("*x*y*z")}) {
    MatchSteps steps;
    for (int i = 0; i < 1000; ++i) EXPECT_FALSE(pattern.matches(value, steps));
    EXPECT_EQ(steps.left(), base::bounds::match_steps_max);
  }
}

TEST(MatchSteps, ScansOfALongValueAreCountedAndEndAtTheBound) {
  const std::string value(1'000'000, 'a');
  for (const Pattern& pattern :
       {Pattern::wildcard("*x*y"), Pattern::loose("*xy"), Pattern::loose("*x*y*z")}) {
    MatchSteps steps;
    int count = 0;
    for (; !steps.over() && count < 100; ++count) EXPECT_FALSE(pattern.matches(value, steps));
    EXPECT_GE(count, 2);
    EXPECT_LE(count, 5);
    // From then on patterns do not match, even if they would.
    EXPECT_FALSE(Pattern::wildcard("*a").matches(value, steps));
  }
  // Patterns that need no search take no steps.
  MatchSteps none(0);
  EXPECT_TRUE(Pattern::wildcard("a*").matches(value, none));
  EXPECT_TRUE(Pattern::equal_to(value).matches(value, none));
  EXPECT_FALSE(none.over());
}

RuleSet stars(size_t count, const request::Space& space) {
  RuleSet rules;
  for (size_t i = 0; i < count; ++i) {
    Rule rule;
    rule.name = "r" + std::to_string(i);
    rule.conditions.push_back({"k", Pattern::wildcard("*x" + std::to_string(i))});
    rule.limits = {{limit::Algorithm::deny, 0, {}, 0}};
    rule.limits_id = 1;
    rule.space = &space;
    rules.add(native_dialect, std::move(rule));
  }
  return rules;
}

// A request without steps left is an error: it must not skip the rules that are left.
TEST(MatchSteps, ARequestThatNeedsTooManyStepsIsAnError) {
  const request::Space space;
  const RuleSet rules = stars(20, space);
  Plan plan;
  const auto match = [&](const std::string& value) {
    const request::Entry entry{"k", value};
    rules.match(&first_dialect, {.descriptor = {&entry, 1}}, plan);
    return plan.parts().back();
  };
  const auto hostile = match(std::string(1'000'000, 'a'));
  EXPECT_EQ(hostile.error, too_many_steps);
  EXPECT_EQ(hostile.step_count, 0u);
  EXPECT_EQ(rules.too_costly(), 1u);
  const auto ordinary = match(std::string(1000, 'a') + "x19");
  EXPECT_EQ(ordinary.error, "");
  EXPECT_EQ(ordinary.step_count, 1u);
  EXPECT_EQ(rules.too_costly(), 1u);
  // Ordinary values take no steps, whatever the number of rules.
  const RuleSet many = stars(20'000, space);
  const std::string value(250, 'a');
  const request::Entry entry{"k", value};
  many.match(&first_dialect, {.descriptor = {&entry, 1}}, plan);
  EXPECT_EQ(plan.parts().back().error, "");
}

}  // namespace
}  // namespace sluice::policy
