// Texts and times written as JSON; texts are read back with nlohmann's reader.
#include "protocol/http/json_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/dice.h"

namespace sluice::http::json_text_test {
namespace {

std::string text_of(std::string_view text) {
  base::Buffer out;
  append_json_text(text, out);
  return std::string(out.view());
}

std::string seconds_of(int64_t us) {
  base::Buffer out;
  append_json_seconds({us}, out);
  return std::string(out.view());
}

TEST(JsonText, EscapesWhatAStringCannotHave) {
  EXPECT_EQ(text_of(""), R"("")");
  EXPECT_EQ(text_of("plain /text/"), R"("plain /text/")");
  EXPECT_EQ(text_of("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(text_of("\n\r\t\b\f"), R"("\n\r\t\u0008\u000c")");
  EXPECT_EQ(text_of(std::string_view("\0\x1f\x7f", 3)), R"("\u0000\u001f\u007f")");
}

TEST(JsonText, IsUtf8ForAnyBytes) {
  EXPECT_EQ(text_of("grün 日本 😀"), "\"grün 日本 😀\"");
  EXPECT_EQ(text_of("\xff"), "\"\xEF\xBF\xBD\"");
  EXPECT_EQ(text_of("a\xC3"), "\"a\xEF\xBF\xBD\"");
  EXPECT_EQ(text_of("\xC0\x80\"").substr(0, 4), "\"\xEF\xBF\xBD");
  for (const std::string bad : {"\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\x80\x80"}) {
    const auto read = nlohmann::json::parse(text_of(bad), nullptr, false);
    EXPECT_TRUE(read.is_string()) << text_of(bad);
  }
}

TEST(JsonText, ReadsBackTheSame) {
  for (uint32_t seed = 1; seed <= 2'000; ++seed) {
    tests::Dice dice(seed);
    std::string text;
    const bool any_bytes = seed % 2 == 0;
    for (int left = dice(40); left > 0; --left)
      text += static_cast<char>(any_bytes ? dice(256) : dice(128));
    const auto read = nlohmann::json::parse(text_of(text), nullptr, false);
    ASSERT_TRUE(read.is_string()) << "seed " << seed;
    if (!any_bytes) {
      ASSERT_EQ(read.get<std::string>(), text) << "seed " << seed;
    }
  }
}

TEST(JsonSeconds, HaveMillisecondsAndAreRoundedUp) {
  for (const auto& [us, text] :
       std::vector<std::pair<int64_t, std::string>>{{0, "0"},
                                                    {1, "0.001"},
                                                    {1'000, "0.001"},
                                                    {1'001, "0.002"},
                                                    {10'000, "0.01"},
                                                    {100'000, "0.1"},
                                                    {999'000, "0.999"},
                                                    {999'001, "1"},
                                                    {1'000'000, "1"},
                                                    {1'250'000, "1.25"},
                                                    {61'200'000, "61.2"},
                                                    {3'600'000'000, "3600"},
                                                    {-5, "0"},
                                                    {base::never.us, "null"},
                                                    {base::never.us - 1, "9223372036854.776"}})
    EXPECT_EQ(seconds_of(us), text) << us;
}

TEST(JsonSeconds, AreNeverTooEarly) {
  tests::Dice dice(7);
  for (int i = 0; i < 20'000; ++i) {
    const int64_t us = dice(int64_t{1} << (1 + dice(50)));
    const std::string text = seconds_of(us);
    const size_t point = text.find('.');
    std::string digits = text.substr(0, point);
    std::string behind = point == std::string::npos ? "" : text.substr(point + 1);
    EXPECT_FALSE(behind.ends_with('0')) << text;
    behind.resize(3, '0');
    const int64_t ms = std::stoll(digits + behind);
    ASSERT_EQ(ms, (us + 999) / 1000) << us;
  }
}

}  // namespace
}  // namespace sluice::http::json_text_test
