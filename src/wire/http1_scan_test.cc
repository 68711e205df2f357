// The scans of a head, and the comparison of field names, against loops over single bytes.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/support/dice.h"
#include "wire/http1_reader.h"
#include "wire/http_field.h"

namespace sluice::wire::http1_scan_test {
namespace {

size_t skip_one_by_one(const HttpByteSet& set, std::string_view in, size_t at) {
  while (at < in.size() && is_in(set, in[at])) ++at;
  return at;
}

// All values of a byte, at all places among 40 bytes.
TEST(Http1Scan, EveryByteOutsideTheSetEndsTheScan) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    for (size_t place = 0; place < 40; ++place) {
      std::string text(40, 'a');
      text[place] = static_cast<char>(byte);
      for (const size_t from : {size_t{0}, place / 2, place}) {
        ASSERT_EQ(skip_token(text, from), skip_one_by_one(http_token_chars, text, from)) << byte;
        ASSERT_EQ(skip_value(text, from), skip_one_by_one(http_value_bytes, text, from)) << byte;
      }
    }
  }
}

TEST(Http1Scan, RandomTextsMatchAScanByteByByte) {
  constexpr std::string_view usual = "abyzABYZ0189-", rare = "_!~^`|{}[@/:;,\" \t\r\n\x7F\x80\xFF";
  for (uint32_t seed = 1; seed <= 20'000; ++seed) {
    tests::Dice dice(seed);
    std::string text(dice(size_t{70}), 'x');
    const size_t oddness = 1 + dice(size_t{30});
    for (char& c : text)
      c = dice(oddness) == 0 ? rare[dice(rare.size())] : usual[dice(usual.size())];
    const size_t from = dice(text.size() + 1);
    ASSERT_EQ(skip_token(text, from), skip_one_by_one(http_token_chars, text, from)) << seed;
    ASSERT_EQ(skip_value(text, from), skip_one_by_one(http_value_bytes, text, from)) << seed;
  }
}

bool is_same_one_by_one(std::string_view name, std::string_view lower_name) {
  if (name.size() != lower_name.size()) return false;
  for (size_t i = 0; i < name.size(); ++i)
    if (http_lower(name[i]) != lower_name[i]) return false;
  return true;
}

// Only letters have two cases: other characters that differ only in that bit are different.
TEST(HttpName, EqualsOnlyItselfInAnyCase) {
  static_assert(is_http_name("Content-Length", "content-length"));
  static_assert(!is_http_name("Content-Lengtj", "content-length"));
  for (size_t size = 1; size <= 20; ++size) {
    for (size_t place = 0; place < size; ++place) {
      for (unsigned byte = 0; byte < 256; ++byte) {
        std::string name(size, 'N');
        name[place] = static_cast<char>(byte);
        for (const char wanted : {'n', '@', '`', '[', '{', '-', '\r'}) {
          std::string lower(size, 'n');
          lower[place] = wanted;
          ASSERT_EQ(is_http_name(name, lower), is_same_one_by_one(name, lower))
              << byte << " beside " << wanted << " at " << place << " of " << size;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::wire::http1_scan_test
