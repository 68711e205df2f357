// The index that finds the rules that may apply to a request (policy/rule_index.h).
#include "policy/rule_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "policy/rule_set.h"

namespace sluice::policy {
namespace {

using request::Entry;

std::vector<uint32_t> candidates(const RuleIndex& index, const std::vector<Entry>& request) {
  std::vector<uint32_t> numbers;
  index.candidates(request, [&](uint32_t number) {
    numbers.push_back(number);
    return true;
  });
  return numbers;
}

// Only the last entry of a key counts. More entries of the same key must not bring more candidates,
// and must not exceed the number of lists, past which every rule would be a candidate.
TEST(RuleIndex, ARepeatedKeyCostsAsMuchAsOne) {
  RuleIndex index;
  std::vector<std::string> values;
  for (int i = 0; i < 1000; ++i) {
    values.push_back("/" + std::to_string(i) + "/x");
    const std::string pattern = i % 2 == 0 ? values.back() : "/" + std::to_string(i) + "/*";
    index.add(std::vector<Condition>{{"path", Pattern::loose(pattern)}});
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
    index.add(std::vector<Condition>{{"path", Pattern::loose(std::to_string(i))}});
  std::vector<std::string> keys;
  for (int i = 0; i < 300; ++i) keys.push_back("k" + std::to_string(i));
  std::vector<Entry> request{{"path", "7"}};
  for (const std::string& key : keys) request.push_back({key, "7"});
  EXPECT_EQ(candidates(index, request), std::vector<uint32_t>{7});
}

// Whatever the number of lengths of prefixes, the candidates are the rules whose prefix the value
// begins with.
TEST(RuleIndex, PrefixesOfAllSizes) {
  RuleIndex index;
  std::vector<std::string> prefixes;
  for (size_t i = 0; i < 2000; ++i) {
    prefixes.push_back("/" + std::string(i % 100, 'x') + std::to_string(i));
    index.add(std::vector<Condition>{{"path", Pattern::wildcard(prefixes.back() + "*")}});
  }
  for (size_t i = 0; i < 2000; ++i) {
    std::vector<uint32_t> expected;
    for (uint32_t n = 0; n < 2000; ++n)
      if (prefixes[i].starts_with(prefixes[n])) expected.push_back(n);
    ASSERT_LE(expected.size(), 5u);
    ASSERT_EQ(candidates(index, {{"path", prefixes[i]}}), expected);
  }
}

// So many prefixes of each other that some are filed under shorter ones: in any order none is lost.
TEST(RuleIndex, PrefixesOfEachOther) {
  for (const bool rising : {true, false}) {
    RuleIndex index;
    for (size_t i = 0; i < 500; ++i)
      index.add(std::vector<Condition>{
          {"path", Pattern::wildcard(std::string(rising ? i : 499 - i, 'x') + "*")}});
    for (size_t size = 0; size <= 500; ++size) {
      const std::string value(size, 'x');
      const auto shown = candidates(index, {{"path", value}});
      for (uint32_t n = 0; n < 500; ++n) {
        const size_t prefix = rising ? n : 499 - n;
        if (prefix <= size) {
          ASSERT_TRUE(std::binary_search(shown.begin(), shown.end(), n));
        }
      }
      ASSERT_TRUE(std::is_sorted(shown.begin(), shown.end()));
    }
  }
}

}  // namespace
}  // namespace sluice::policy
