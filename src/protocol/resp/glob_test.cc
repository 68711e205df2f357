// Redis' patterns of keys, against a naive recursive search.
#include "protocol/resp/glob.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::resp {
namespace {

TEST(Glob, MatchesAsInRedis) {
  struct Case {
    const char *pattern, *text;
    bool fits;
  };
  for (const Case& one : std::vector<Case>{{"", "", true},
                                           {"", "a", false},
                                           {"*", "", true},
                                           {"*", "abc", true},
                                           {"a*", "abc", true},
                                           {"a*", "bac", false},
                                           {"*c", "abc", true},
                                           {"a*c*e", "abcde", true},
                                           {"a*c*f", "abcde", false},
                                           {"**a", "a", true},
                                           {"h?llo", "hello", true},
                                           {"h?llo", "hllo", false},
                                           {"h[ae]llo", "hallo", true},
                                           {"h[ae]llo", "hillo", false},
                                           {"h[^e]llo", "hallo", true},
                                           {"h[^e]llo", "hello", false},
                                           {"h[a-c]llo", "hbllo", true},
                                           {"h[c-a]llo", "hbllo", true},
                                           {"h[a-c]llo", "hdllo", false},
                                           {"[\\]]", "]", true},
                                           {"[a", "a", true},
                                           {"a\\*", "a*", true},
                                           {"a\\*", "ab", false},
                                           {"a\\", "a\\", true},
                                           {"user:*:x", "user:17:x", true},
                                           {"A", "a", false}})
    EXPECT_EQ(fits_glob(one.text, one.pattern), one.fits) << one.pattern << " " << one.text;
}

// The definition of a pattern, for patterns of `*`, `?` and letters.
bool fits_slowly(const std::string& text, const std::string& pattern) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*')
    return fits_slowly(text, pattern.substr(1)) ||
           (!text.empty() && fits_slowly(text.substr(1), pattern));
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) &&
         fits_slowly(text.substr(1), pattern.substr(1));
}

TEST(Glob, MatchesLikeTheModel) {
  const auto word = [](int number, const std::string& letters, int length) {
    std::string all;
    for (; length > 0; --length, number /= static_cast<int>(letters.size()))
      all += letters[static_cast<size_t>(number) % letters.size()];
    return all;
  };
  for (int length = 0; length <= 4; ++length)
    for (int p = 0; p < 256 >> (8 - 2 * length); ++p)
      for (int bytes = 0; bytes <= 5; ++bytes)
        for (int t = 0; t < 1 << bytes; ++t) {
          const std::string pattern = word(p, "ab*?", length), text = word(t, "ab", bytes);
          EXPECT_EQ(fits_glob(text, pattern), fits_slowly(text, pattern)) << pattern << " " << text;
        }
}

TEST(Glob, TakesNoTimeThatGrowsBeyondBothLengths) {
  std::string pattern;
  for (int i = 0; i < 500; ++i) pattern += "*a";
  EXPECT_FALSE(fits_glob(std::string(2000, 'a') + "b", pattern));
}

}  // namespace
}  // namespace sluice::resp
