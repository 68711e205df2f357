// Patterns of conditions (policy/pattern.h): Divvy's loose ones against std::regex and a model,
// wildcards against a model, and texts that are hard to match.
#include "policy/pattern.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "policy/text.h"
#include "tests/support/patience.h"

namespace sluice::policy {
namespace {

struct Row {
  const char* pattern;
  const char* value;
  bool fits;
};

TEST(LoosePattern, MatchesTheTable) {
  const Row rows[] = {
      {"GET", "GET", true},
      {"GET", "get", false},
      {"GET", "GETS", false},
      {"", "", true},
      {"", "x", false},
      {"*", "", true},
      {"*", "a\nb", true},
      {"/a/*", "/a/", true},
      {"/a/*", "/a/b/c", true},
      {"/a/*", "/a", false},
      {"/a/*", "x/a/b", false},
      {"/a/*", "/a/\n", true},
      {"/a/*/b", "/a/1/b", true},
      {"/a/*/b", "/a/1/2/b", true},
      {"/a/*/b", "/a//b", true},
      {"/a/*/b", "/a/b", false},
      {"/a/*/b", "/a/1/bzzz", true},
      {"/a/*/b", "/a/1/b/c", true},
      {"/a/*/b", "/a/\r/b", false},
      {"/a/*/b", "/a/\n/b", false},
      {"/a/*/b", "/a/\xE2\x80\xA8/b", false},
      {"/a/*/b", "/a/\xE2\x80\xA9/b", false},
      {"/a/*/b", "/a/\xE2\x80\xAA/b", true},
      {"/a/*/b", "/a/1/b\r", true},
      {"a*\rb", "ax\rb", true},  // the literal may match a line end, the star may not
      {"a*\rb", "ax\ry\rb", false},
      {"*.example.com", "www.example.com", true},
      {"*.example.com", "www.example.community", true},
      {"*.example.com", "wwwXexampleYcom", false},
      {"/m/*/n/*", "/m/1/n/2", true},
      {"/m/*/n/*", "/m/1/n", true},
      {"/m/*/n/*", "/m/1/nope", true},
      {"/m/*/n/*", "/m/1/x", false},
      {"pre*mid*z", "preXmiz", true},
      {"pre*mid*z", "preXmidddz", true},
      {"pre*mid*z", "preXmidQz", false},
      {"pre*mid*z", "pre\nmiz", false},
      {"und*", "undies", true},
      {"x*\xC3\xA9*y", "xy", true},
      {"x*\xC3\xA9*y", "x\xC3\xA9\xC3\xA9y", true},
      {"x*a\xC3\xA9*y", "xa\xC3\xAAy", false},
      {"x*a\xC3\xA9*y", "xa\xC3y", false},  // half a character does not match
      {"x*a\xF0\x9F\x98\x80*y", "xa\xF0\x9F\x98\x80\xF0\x9F\x98\x80y", true},
      {"/x+y/(z)/[q]{1}/^$|?#,-.v\\*", "/x+y/(z)/[q]{1}/^$|?#,-.v\\zzz", true},
      {"/x+y/(z)/[q]{1}/^$|?#,-.v\\*", "/xxy/(z)/[q]{1}/^$|?#,-.v\\zzz", false},
      {"a*.*b", "aX...b", true},
      {"a*c.*b", "acxxb", false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(Pattern::loose(row.pattern).matches(row.value), row.fits)
        << row.pattern << " : " << row.value;
  }
}

TEST(LoosePattern, AnAbsentKeyMatchesOnlyASingleStar) {
  EXPECT_TRUE(Pattern::loose("*").matches(std::nullopt));
  for (const char* text : {"", "undefined", "und*", "*fined", "*d*", "a*b*c", "**"}) {
    EXPECT_FALSE(Pattern::loose(text).matches(std::nullopt)) << text;
  }
  for (const char* text : {"", "*", "**", "u*", "*d"}) {
    EXPECT_FALSE(Pattern::wildcard(text).matches(std::nullopt)) << text;
  }
}

TEST(LoosePattern, NamesImpossiblePatterns) {
  EXPECT_EQ(Pattern::loose("/a/**").error(),
            "Invalid regular expression: /^/a/.**/: Nothing to repeat");
  EXPECT_EQ(Pattern::loose("**").error(), "Invalid regular expression: /^.**/: Nothing to repeat");
  EXPECT_EQ(Pattern::loose("a*b**").error(),
            "Invalid regular expression: /^a.*b**/: Nothing to repeat");
  EXPECT_EQ(Pattern::loose("a.b**").error(),
            "Invalid regular expression: /^a\\.b.**/: Nothing to repeat");
  EXPECT_EQ(Pattern::loose("\n**").error().find('\n'), std::string_view::npos);
  EXPECT_EQ(Pattern::loose("a*b*c*").error(), "");
  EXPECT_EQ(Pattern::wildcard("a**b").error(), "");
}

TEST(LoosePattern, RefusesMoreElementsThanItsBound) {
  const std::string long_tail(Pattern::elements_max - 2, 'a');
  EXPECT_FALSE(Pattern::loose("x*" + long_tail + "b*c").oversized());
  EXPECT_TRUE(Pattern::loose("x*" + long_tail + "ab*c").oversized());
  EXPECT_FALSE(Pattern::loose("x*" + long_tail + "ab*c").matches("x" + long_tail + "ac"));
  // With one star only, or if nothing is left after the second star, any length is accepted.
  EXPECT_TRUE(Pattern::loose("x*" + long_tail + "abc").matches("xx" + long_tail + "abcd"));
  EXPECT_TRUE(Pattern::loose("x*" + long_tail + "abc*").matches("x" + long_tail + "ab"));
}

// Every text of at most `length_max` characters of the alphabet.
std::vector<std::string> all_strings(std::string_view alphabet, size_t length_max) {
  std::vector<std::string> all{""};
  for (size_t first = 0, length = 0; length < length_max; ++length) {
    const size_t end = all.size();
    for (; first < end; ++first) {
      for (const char c : alphabet) all.push_back(all[first] + c);
    }
  }
  return all;
}

// The expression that Divvy builds of a pattern, for std::regex.
std::string expression_of(std::string_view pattern) {
  std::string out;
  bool first = true;
  for (const char c : pattern) {
    if (c == '*') {
      out += first ? ".*" : "*";
      first = false;
    } else {
      if (c == '.') out += '\\';
      out += c;
    }
  }
  return out;
}

TEST(LoosePattern, MatchesTheExpressionThatTheOriginalBuilds) {
  const std::vector<std::string> values = all_strings("ab.\n", 4);
  size_t compared = 0;
  for (const std::string& text : all_strings("ab.*", 5)) {
    const Pattern pattern = Pattern::loose(text);
    const bool doubled = text.find("**") != std::string::npos;
    ASSERT_EQ(doubled, pattern.impossible()) << text;
    if (doubled) continue;
    if (text == "*" || text.find('*') == std::string::npos) {
      for (const std::string& value : values) {
        ASSERT_EQ(pattern.matches(value), text == "*" || text == value) << text << " : " << value;
      }
      continue;
    }
    const std::regex expression(expression_of(text));
    for (const std::string& value : values) {
      const bool expected =
          std::regex_search(value, expression, std::regex_constants::match_continuous);
      ASSERT_EQ(pattern.matches(value), expected) << text << " : " << value;
      ++compared;
    }
  }
  EXPECT_GT(compared, 100'000u);
}

// The model of Divvy's patterns, with remembered results.
bool divvy_model(const std::string& pattern, const std::string& value) {
  const size_t star = pattern.find('*');
  if (pattern == "*") return true;
  if (star == std::string::npos) return pattern == value;
  if (value.compare(0, star, pattern, 0, star) != 0) return false;
  std::map<std::pair<size_t, size_t>, bool> known;
  const std::function<bool(size_t, size_t)> fits = [&](size_t p, size_t v) {
    if (p == pattern.size()) return true;
    const auto at = known.find({p, v});
    if (at != known.end()) return at->second;
    const bool same = v < value.size() && value[v] == pattern[p];
    const bool repeated = p + 1 < pattern.size() && pattern[p + 1] == '*';
    const bool result =
        repeated ? fits(p + 2, v) || (same && fits(p, v + 1)) : same && fits(p + 1, v + 1);
    known[{p, v}] = result;
    return result;
  };
  for (size_t v = star; v <= value.size(); ++v) {
    if (fits(star + 1, v)) return true;
    if (v < value.size() && (value[v] == '\n' || value[v] == '\r')) return false;
  }
  return false;
}

std::string random_text(std::mt19937& random, std::string_view alphabet, size_t length_max) {
  std::string text(random() % (length_max + 1), ' ');
  for (char& c : text) c = alphabet[random() % alphabet.size()];
  return text;
}

TEST(LoosePattern, MatchesItsModelForLongTexts) {
  std::mt19937 random(20261120);
  size_t fitting = 0;
  for (int i = 0; i < 4'000; ++i) {
    std::string text = random_text(random, i % 2 ? "aaab*" : "ab****", 200);
    while (text.find("**") != std::string::npos) text.erase(text.find("**"), 1);
    // A value that is made from the pattern, so that many match, and sometimes changed.
    std::string value;
    bool first = true;
    for (size_t p = 0; p < text.size(); ++p) {
      if (text[p] == '*') {
        if (first) value += random_text(random, "ab", 5);
        first = false;
        continue;
      }
      const bool repeated = !first && p + 1 < text.size() && text[p + 1] == '*';
      value.append(repeated ? random() % 4 : 1, text[p]);
    }
    if (random() % 3 == 0 && !value.empty()) value[random() % value.size()] = "ab\n"[random() % 3];
    value += random_text(random, "ab", 3);
    const bool expected = divvy_model(text, value);
    fitting += expected;
    ASSERT_EQ(Pattern::loose(text).matches(value), expected) << text << " : " << value;
  }
  EXPECT_GT(fitting, 400u);
}

bool wildcard_model(std::string_view pattern, std::string_view value) {
  if (pattern.empty()) return value.empty();
  if (pattern[0] != '*') {
    return !value.empty() && value[0] == pattern[0] &&
           wildcard_model(pattern.substr(1), value.substr(1));
  }
  for (size_t taken = 0; taken <= value.size(); ++taken) {
    if (wildcard_model(pattern.substr(1), value.substr(taken))) return true;
  }
  return false;
}

TEST(WildcardPattern, MatchesItsModel) {
  const std::vector<std::string> values = all_strings("ab\n", 6);
  for (const std::string& text : all_strings("ab*", 5)) {
    const Pattern pattern = Pattern::wildcard(text);
    for (const std::string& value : values) {
      ASSERT_EQ(pattern.matches(value), wildcard_model(text, value)) << text << " : " << value;
    }
  }
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = random_text(random, "ab*", 9), value = random_text(random, "ab", 14);
    ASSERT_EQ(Pattern::wildcard(text).matches(value), wildcard_model(text, value))
        << text << " : " << value;
  }
}

TEST(WildcardPattern, IsAnchoredAtBothEnds) {
  EXPECT_TRUE(Pattern::wildcard("/a/*/b").matches("/a/1/b"));
  EXPECT_FALSE(Pattern::wildcard("/a/*/b").matches("/a/1/bzzz"));
  EXPECT_TRUE(Pattern::wildcard("/m/*/n/*").matches("/m/1/n/2"));
  EXPECT_FALSE(Pattern::wildcard("/m/*/n/*").matches("/m/1/nope"));
  EXPECT_TRUE(Pattern::wildcard("a*\n*").matches("ab\r\n"));
}

// Texts on which a backtracking matcher takes exponential time.
TEST(Patterns, StayLinearOnHostileInput) {
  std::string repeats = "a*";
  for (int i = 0; i < 300; ++i) repeats += "a*";
  const Pattern divvy = Pattern::loose(repeats + "b");
  const Pattern search = Pattern::loose("*" + std::string(50'000, 'a') + "b");
  const std::string value(100'000, 'a');
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(divvy.matches(value));
  EXPECT_FALSE(search.matches(value));
  EXPECT_LT(std::chrono::steady_clock::now() - start, tests::promised(std::chrono::seconds(5)));
}

}  // namespace
}  // namespace sluice::policy
