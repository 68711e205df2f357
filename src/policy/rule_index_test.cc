#include "policy/rule_index.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/rule_set.h"

namespace sluice::policy {
namespace {

using limit::Entry;

std::vector<uint32_t> candidates(const RuleIndex& index, const std::vector<Entry>& request) {
  std::vector<uint32_t> numbers;
  index.candidates(request, [&](uint32_t number) {
    numbers.push_back(number);
    return true;
  });
  return numbers;
}

// Of a key's entries the last one counts, so only that one costs: more of them are neither more
// rules to look at nor, past some number of lists, a look at every rule.
TEST(RuleIndex, AKeyNamedOverAndOverCostsWhatItDoesOnce) {
  RuleIndex index;
  std::vector<std::string> values;
  for (int i = 0; i < 1000; ++i) {
    values.push_back("/" + std::to_string(i) + "/x");
    const std::string pattern = i % 2 == 0 ? values.back() : "/" + std::to_string(i) + "/*";
    index.add(std::vector<Condition>{{"path", Pattern::divvy(pattern)}});
  }
  std::vector<Entry> request;
  for (size_t i = 0; i < 200; ++i) request.push_back({"path", values[i]});
  EXPECT_EQ(candidates(index, request), std::vector<uint32_t>{199});
  request.push_back({"path", values[500]});
  EXPECT_EQ(candidates(index, request), std::vector<uint32_t>{500});
  request.push_back({"path", "elsewhere"});
  EXPECT_EQ(candidates(index, request), std::vector<uint32_t>{});
}

TEST(RuleIndex, ManyKeysThatNoRuleKnowsCostNothing) {
  RuleIndex index;
  for (int i = 0; i < 1000; ++i)
    index.add(std::vector<Condition>{{"path", Pattern::divvy(std::to_string(i))}});
  std::vector<std::string> keys;
  for (int i = 0; i < 300; ++i) keys.push_back("k" + std::to_string(i));
  std::vector<Entry> request{{"path", "7"}};
  for (const std::string& key : keys) request.push_back({key, "7"});
  EXPECT_EQ(candidates(index, request), std::vector<uint32_t>{7});
}

}  // namespace
}  // namespace sluice::policy
