// Structured fields (RFC 9651): what is written, against the parser of structured_fields_model.h.
#include "wire/structured_fields.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "tests/support/dice.h"
#include "wire/structured_fields_model.h"

namespace sluice::wire::structured_fields_test {
namespace {

using sf_model::Bare;
using sf_model::Item;

std::string as_string(std::string_view text) {
  base::Buffer out;
  append_sf_string(text, out);
  return std::string(out.view());
}
std::string as_integer(int64_t value) {
  base::Buffer out;
  append_sf_integer(value, out);
  return std::string(out.view());
}
std::string as_bytes(std::string_view bytes) {
  base::Buffer out;
  append_sf_bytes(bytes, out);
  return std::string(out.view());
}

TEST(StructuredFields, StringsAreQuotedAndEscaped) {
  EXPECT_EQ(as_string(""), R"("")");
  EXPECT_EQ(as_string("burst"), R"("burst")");
  EXPECT_EQ(as_string(R"(a"b\c)"), R"("a\"b\\c")");
  EXPECT_EQ(as_string(R"(""\\)"), R"("\"\"\\\\")");
  EXPECT_EQ(as_string(" ~"), R"(" ~")");
  EXPECT_EQ(as_string(std::string_view("a\0\x1F\x7F\x80\xFF\r\n", 8)), R"("a_______")");
}

// The code reads several characters at a time, so all bytes are tried at all places.
TEST(StructuredFields, WritesEveryByteCorrectlyAtEveryPlace) {
  for (size_t size = 1; size <= 26; ++size) {
    for (size_t place = 0; place < size; ++place) {
      for (int byte = 0; byte < 256; ++byte) {
        const char c = static_cast<char>(byte);
        std::string text = std::string("~ abcdefghijklmnopqrstuvwxyz").substr(0, size);
        text[place] = c;
        const std::string told = c == '"' || c == '\\'      ? std::string({'\\', c})
                                 : byte >= 32 && byte < 127 ? std::string(1, c)
                                                            : "_";
        const std::string expected =
            '"' + text.substr(0, place) + told + text.substr(place + 1) + '"';
        ASSERT_EQ(as_string(text), expected);
      }
    }
  }
}

TEST(StructuredFields, IntegersHaveFifteenDigitsAtMost) {
  EXPECT_EQ(as_integer(0), "0");
  EXPECT_EQ(as_integer(42), "42");
  EXPECT_EQ(as_integer(-7), "-7");
  EXPECT_EQ(as_integer(999'999'999'999'999), "999999999999999");
  EXPECT_EQ(as_integer(1'000'000'000'000'000), "999999999999999");
  EXPECT_EQ(as_integer(std::numeric_limits<int64_t>::max()), "999999999999999");
  EXPECT_EQ(as_integer(std::numeric_limits<int64_t>::min()), "-999999999999999");
}

// The test vectors of RFC 4648, section 10.
TEST(StructuredFields, ByteSequencesAreBase64BetweenColons) {
  EXPECT_EQ(as_bytes(""), "::");
  EXPECT_EQ(as_bytes("f"), ":Zg==:");
  EXPECT_EQ(as_bytes("fo"), ":Zm8=:");
  EXPECT_EQ(as_bytes("foo"), ":Zm9v:");
  EXPECT_EQ(as_bytes("foob"), ":Zm9vYg==:");
  EXPECT_EQ(as_bytes("fooba"), ":Zm9vYmE=:");
  EXPECT_EQ(as_bytes("foobar"), ":Zm9vYmFy:");
  EXPECT_EQ(as_bytes("\xFB\xFF\xBF"), ":+/+/:");
}

TEST(StructuredFields, PadsLongByteSequencesOnlyAtTheirEnd) {
  std::string bytes((size_t{3} << 20) + 1, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 % 251);
  const std::string text = as_bytes(bytes);
  EXPECT_EQ(text.size(), (bytes.size() + 2) / 3 * 4 + 2);
  EXPECT_EQ(text.find('='), text.size() - 3);
  const std::optional<Item> item = sf_model::parse_item(text);
  ASSERT_TRUE(item);
  EXPECT_TRUE(item->value.text == bytes);
}

TEST(StructuredFields, ReadsBackTheSame) {
  constexpr uint32_t seed = 1;
  tests::Dice dice(seed);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes, told;
    for (size_t n = dice(size_t{20}); n > 0; --n) {
      const char c = dice(3) == 0 ? static_cast<char>(dice(256)) : "\"\\ ab~"[dice(6)];
      bytes += c;
      told += c >= ' ' && c <= '~' ? c : '_';
    }
    const int64_t number = dice(sf_integer_max) >> dice(50);
    EXPECT_EQ(sf_model::parse_item(as_string(bytes)), (Item{{Bare::Type::string, 0, told}}))
        << "seed " << seed << ", round " << i;
    EXPECT_EQ(sf_model::parse_item(as_bytes(bytes)), (Item{{Bare::Type::bytes, 0, bytes}}));
    EXPECT_EQ(sf_model::parse_item(as_integer(number)), (Item{{Bare::Type::integer, number}}));
  }
}

}  // namespace
}  // namespace sluice::wire::structured_fields_test
