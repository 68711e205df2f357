// Repair of texts that are not UTF-8 (base/utf8.h), against a model and the Unicode standard.
#include "base/utf8.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "testing/utf8_model.h"

namespace sluice::base {
namespace {

// Sanitizes into memory of exactly the size that sanitized_size() names.
std::string sanitized(std::string_view text) {
  const size_t size = utf8::sanitized_size(text);
  const std::unique_ptr<char[]> out(new char[size]);
  utf8::sanitize(text, out.get());
  return {out.get(), size};
}

// Each '?' in the expected texts below stands for U+FFFD.
std::string with_marks(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '?' ? std::string(utf8::replacement) : std::string(1, c);
  return out;
}

TEST(Utf8, MaximalSubparts) {
  const struct {
    std::string_view text, expected;
  } table[] = {
      {"", ""},
      {"abc", "abc"},
      {"caf\xC3\xA9", "caf\xC3\xA9"},
      {"\x80", "?"},
      {"\xBF\xBF", "??"},
      {"\xC0\x80", "??"},
      {"\xC1\xBF", "??"},
      {"\xC2", "?"},
      {"\xC2z", "?z"},
      {"\xC3\xC3\xA9", "?\xC3\xA9"},
      {"\xE0\x80\x80", "???"},
      {"\xE0\x9F\xBF", "???"},
      {"\xE0\xA0", "?"},
      {"\xE2\x80", "?"},
      {"\xE2\x80x", "?x"},
      {"\xE2\x80\xE2\x80\x83", "?\xE2\x80\x83"},
      {"\xED\xA0\x80", "???"},
      {"\xED\x9F\xBF", "\xED\x9F\xBF"},
      {"\xEE\x80\x80", "\xEE\x80\x80"},
      {"\xF0\x80\x80\x80", "????"},
      {"\xF0\x9F", "?"},
      {"\xF0\x9F\x98", "?"},
      {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
      {"\xF0\x9F\x98z", "?z"},
      {"\xF0\x9F\x98\xF0\x9F\x98\x80", "?\xF0\x9F\x98\x80"},
      {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},
      {"\xF4\x90\x80\x80", "????"},
      {"\xF5\x80\x80\x80", "????"},
      {"\xFE\xFF", "??"},
      // The example of the Unicode standard, table 3-11.
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "????A"},
  };
  for (const auto& row : table) {
    EXPECT_EQ(sanitized(row.text), with_marks(row.expected)) << testing::PrintToString(row.text);
    EXPECT_EQ(utf8::is_valid(row.text), row.text == row.expected)
        << testing::PrintToString(row.text);
  }
}

void same_as_whatwg(std::string_view text) {
  const std::string expected = utf8::model::encode(utf8::model::decode(text));
  ASSERT_EQ(utf8::is_valid(text), expected == text) << testing::PrintToString(text);
  ASSERT_EQ(sanitized(text), expected) << testing::PrintToString(text);
}

// All sequences of up to four bytes, from the bytes at which the rules change.
TEST(Utf8, AllShortSequences) {
  const std::string bytes =
      "A\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF\xF0\xF1\xF3\xF4\xF5"
      "\xFF";
  for (const char a : bytes) {
    same_as_whatwg({&a, 1});
    for (const char b : bytes) {
      const char two[] = {a, b};
      same_as_whatwg({two, 2});
      for (const char c : bytes) {
        const char three[] = {a, b, c};
        same_as_whatwg({three, 3});
        for (const char d : bytes) {
          const char four[] = {a, b, c, d};
          same_as_whatwg({four, 4});
        }
      }
    }
  }
}

// Texts are checked eight bytes at a time: an ill-formed or a valid sequence at each place of each
// length.
TEST(Utf8, AtEveryPlace) {
  for (size_t size = 0; size < 40; ++size) {
    for (size_t at = 0; at < size; ++at) {
      for (const std::string_view put :
           {"\xFF", "\xC3", "\xC3\xA9", "\xE2\x80\x83", "\xF0\x9F\x98\x80"}) {
        std::string text(size, 'x');
        text.replace(at, put.size(), put);
        text.resize(size);
        same_as_whatwg(text);
      }
    }
  }
}

TEST(Utf8, RandomTexts) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 20'000; ++i) {
    std::string text(random() % 50, ' ');
    for (char& c : text) c = static_cast<char>(random() % 3 == 0 ? random() : random() % 128);
    same_as_whatwg(text);
  }
}

TEST(Utf8, CharacterSize) {
  EXPECT_EQ(utf8::character_size("a"), 1u);
  EXPECT_EQ(utf8::character_size("\xC3\xA9z"), 2u);
  EXPECT_EQ(utf8::character_size("\xE2\x80\x83"), 3u);
  EXPECT_EQ(utf8::character_size("\xF0\x9F\x98\x80"), 4u);
}

}  // namespace
}  // namespace sluice::base
