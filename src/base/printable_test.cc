// Texts made fit for a line: whatever the bytes, the line is UTF-8 and has no control character.
#include "base/printable.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/utf8.h"

namespace sluice::base {
namespace {

TEST(Printable, EscapesControlCharactersAndBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("a\nb\rc\td\x1b[1m\x7f"), "a\\nb\\rc\\td\\x1b[1m\\x7f");
  EXPECT_EQ(printable("gr\xc3\xbc\xc3\x9f | \xe2\x82\xac \xf0\x9f\x98\x80"),
            "gr\xc3\xbc\xc3\x9f | \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("\xff \xe2\x82 \xed\xa0\x80 \xc0\xaf"),
            "\\xff \\xe2\\x82 \\xed\\xa0\\x80 \\xc0\\xaf");
  EXPECT_EQ(printable("\xc2\x80\xc2\x9f\xc2\xa0"), "\\u{80}\\u{9f}\xc2\xa0");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, CutsBetweenCharacters) {
  EXPECT_EQ(printable("abc", 3), "abc");
  EXPECT_EQ(printable("abcd", 3), "abc...");
  EXPECT_EQ(printable("a\xe2\x82\xac", 3), "a...");
  EXPECT_EQ(printable("a\xe2\x82\xac", 4), "a\xe2\x82\xac");
  EXPECT_EQ(printable("\xf0\x9f\x98\x80", 3), "...");
  EXPECT_EQ(printable("\x80\x80\x80\x80\x80\x80", 5), "\\x80\\x80...");
}

TEST(Printable, IsUtf8WithoutControlCharactersForRandomBytes) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (size_t size = random() % 12; size > 0; --size)
      text += static_cast<char>(random() % 2 == 0 ? random() % 256 : 0xc0 + random() % 64);
    for (const size_t most : {std::string::npos, size_t{5}}) {
      const std::string shown = printable(text, most);
      EXPECT_TRUE(utf8::is_valid(shown)) << i;
      for (const char c : shown) EXPECT_FALSE((c >= 0 && c < 0x20) || c == 0x7f) << i;
    }
  }
}

}  // namespace
}  // namespace sluice::base
