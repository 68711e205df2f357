// Texts of clients on a terminal (config/screen_text.h): what is escaped, and widths.
#include "config/screen_text.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/utf8.h"
#include "tests/support/dice.h"

namespace sluice::config {
namespace {

TEST(OnScreen, LeavesVisibleCharactersUnchanged) {
  for (const char* text : {"", "10.0.0.7", "path=/a b|c\\d", "Grüße", "日本語", "e\u0301", "🍪"})
    EXPECT_EQ(on_screen(text), text);
}

TEST(OnScreen, EscapesControlAndDirectionCharacters) {
  const std::pair<std::string, std::string> cases[] = {
      {"a\x1b[2Jb", "a\\x1b[2Jb"},
      {"\r\n\t", "\\r\\n\\t"},
      {std::string("\0\x7f", 2), "\\x00\\x7f"},
      {"\u009b31m", "\\u{9b}31m"},          // CSI as a character
      {"\x9b", "\\x9b"},                    // CSI as a byte
      {"\xe2\x82", "\\xe2\\x82"},           // a character that is cut off
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},  // a surrogate
      {"a\u202eb", "a\\u{202e}b"},          // text from right to left
      {"a\u200bb\u200d", "a\\u{200b}b\\u{200d}"},
      {"\u2028", "\\u{2028}"},
      {"\u0301x", "\\u{301}x"},  // a combining mark without a letter
      {"\U000e0041", "\\u{e0041}"},
      {"\U0010ffff", "\\u{10ffff}"},
  };
  for (const auto& [text, shown] : cases) EXPECT_EQ(on_screen(text), shown);
  std::string marks = "e";
  for (int i = 0; i < 6; ++i) marks += "\u0301";
  EXPECT_EQ(on_screen(marks), marks.substr(0, 9) + "\\u{301}\\u{301}");
}

TEST(OnScreen, MeasuresAndCutsByColumns) {
  EXPECT_EQ(columns_of("abc"), 3u);
  EXPECT_EQ(columns_of("日本"), 4u);
  EXPECT_EQ(columns_of("e\u0301"), 1u);
  EXPECT_EQ(cut_to("abc", 3), "abc");
  EXPECT_EQ(cut_to("abcd", 3), "ab…");
  EXPECT_EQ(cut_to("日本語", 5), "日本…");
  EXPECT_EQ(cut_to("日本語", 4), "日…");
  EXPECT_EQ(cut_to("日本語", 1), "…");
  EXPECT_EQ(cut_to("日", 0), "");
  EXPECT_EQ(fitted("ab", 4), "ab  ");
  EXPECT_EQ(fitted("ab", 4, true), "  ab");
  EXPECT_EQ(fitted("日本語", 4), "日… ");
}

bool is_harmless(std::string_view text) {
  if (!base::utf8::is_valid(text)) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7f) return false;
    if (byte == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0) return false;
  }
  return true;
}

TEST(OnScreen, NeverPrintsAControlCharacterForRandomBytes) {
  tests::Dice dice(20'261'120);
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (uint64_t left = dice(12u); left > 0; --left) {
      // Random bytes, and parts of characters next to those that are escaped.
      static const char* const pieces[] = {"\xc2",   "\x9b",     "\u009b",   "\u202e",
                                           "\u0301", "\xe2\x80", "日",       "\x1b",
                                           "[2J",    "a",        "\xf0\x9f", "🍪"};
      if (dice(2u) == 0)
        text += static_cast<char>(dice(256));
      else
        text += pieces[dice(std::size(pieces))];
    }
    const std::string shown = on_screen(text);
    ASSERT_TRUE(is_harmless(shown)) << round;
    const size_t columns = dice(10u);
    const std::string cut = cut_to(shown, columns);
    ASSERT_TRUE(is_harmless(cut)) << round;
    ASSERT_LE(columns_of(cut), columns) << round;
    ASSERT_EQ(columns_of(fitted(shown, columns)), columns) << round;
  }
}

}  // namespace
}  // namespace sluice::config
