// Texts as JavaScript treats them (policy/text.h): UTF-8, spaces, numbers, order and shortening.
#include "policy/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace sluice::policy {
namespace {

TEST(Text, ReplacesInvalidUtf8) {
  const std::string mark = "\xEF\xBF\xBD";
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", ""},
      {"caf\xC3\xA9", "caf\xC3\xA9"},
      {"\xFF\xFE", mark + mark},
      {"\xC0\xAF", mark + mark},
      {"\xED\xA0\x80", mark + mark + mark},
      {"a\xE2\x82", "a" + mark},
      {"\xE2\x82x", mark + "x"},
      {"\xF0\x9F\x98", mark},
      {"\xF5\x80", mark + mark},
      {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
  };
  for (const auto& [text, sound] : rows) {
    size_t at = 0;
    EXPECT_EQ(sound_utf8(text, at), sound);
    EXPECT_EQ(at == std::string::npos, text == sound);
  }
}

TEST(Text, TrimsJavaScriptsWhiteSpace) {
  EXPECT_EQ(trim(" \t\xC2\xA0 a b \xE3\x80\x80\xEF\xBB\xBF\n"), "a b");
  EXPECT_EQ(trim("\xC2\x85 x\xE2\x80\x8B"),
            "\xC2\x85 x\xE2\x80\x8B");  // U+0085 and U+200B are none
  EXPECT_EQ(trim("  "), "");
  EXPECT_EQ(trim("\x80 \x80"), "\x80 \x80");
}

TEST(Text, WritesNumbersAsJavaScriptDoes) {
  const std::vector<std::pair<double, std::string>> rows = {
      {0, "0"},
      {-0.0, "0"},
      {3, "3"},
      {-17, "-17"},
      {4.5, "4.5"},
      {0.1, "0.1"},
      {1e-6, "0.000001"},
      {1e-7, "1e-7"},
      {1.5e-10, "1.5e-10"},
      {9007199254740991.0, "9007199254740991"},
      {12345678901234567890.0, "12345678901234567000"},
      {-123456789012345680000.0, "-123456789012345680000"},
      {1e20, "100000000000000000000"},
      {1e21, "1e+21"},
      {1.25e100, "1.25e+100"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {5e-324, "5e-324"},
  };
  for (const auto& [number, text] : rows) EXPECT_EQ(number_text(number), text);
}

TEST(Text, SortsByUtf16Units) {
  std::vector<std::string> keys = {"a", "\xEF\xBF\xBD", "_", "Z",         "\xF0\x9F\x98\x80",
                                   "9", "10",           "",  "a\xC3\xA9", "ab"};
  std::sort(keys.begin(), keys.end(), utf16_less);
  const std::vector<std::string> expected = {
      "", "10", "9", "Z", "_", "a", "ab", "a\xC3\xA9", "\xF0\x9F\x98\x80", "\xEF\xBF\xBD"};
  EXPECT_EQ(keys, expected);
}

TEST(Text, ShortensBetweenCharacters) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "abc...");
  EXPECT_EQ(shortened("ab\xC3\xA9", 3), "ab...");
}

}  // namespace
}  // namespace sluice::policy
