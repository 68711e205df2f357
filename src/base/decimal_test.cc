// Numbers as decimal text (base/decimal.h), against the standard library.
#include "base/decimal.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

#include "base/buffer.h"
#include "tests/support/dice.h"

namespace sluice::base::decimal_test {
namespace {

template <class Integer>
std::string as_the_library(Integer value) {
  std::string text(decimal_digits_max, '\0');
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  EXPECT_EQ(error, std::errc());
  text.resize(static_cast<size_t>(end - text.data()));
  return text;
}

// Compares with the library, and checks that no other byte is written.
void check_unsigned(uint64_t value) {
  const std::string expected = as_the_library(value);
  std::string room(decimal_digits_max + 4, '#');
  const char* const end = write_decimal(value, room.data() + 2);
  EXPECT_EQ(decimal_digits(value), expected.size()) << value;
  EXPECT_EQ(static_cast<size_t>(end - room.data()), 2 + expected.size()) << value;
  EXPECT_EQ(room, "##" + expected + std::string(decimal_digits_max + 2 - expected.size(), '#'));
}

void check_signed(int64_t value) {
  Buffer out;
  out.append("n=");
  append_decimal(value, out);
  EXPECT_EQ(out.view(), "n=" + as_the_library(value));
}

// Numbers around each power of ten and of two.
std::vector<uint64_t> edges() {
  std::vector<uint64_t> all = {0, std::numeric_limits<uint64_t>::max()};
  uint64_t ten = 1;
  for (int i = 0; i < 20; ++i, ten *= 10) all.insert(all.end(), {ten - 1, ten, ten + 1});
  for (int i = 0; i < 64; ++i) {
    const uint64_t two = uint64_t{1} << i;
    all.insert(all.end(), {two - 1, two, two + 1});
  }
  return all;
}

TEST(Decimal, EdgesMatchTheStandardLibrary) {
  for (const uint64_t value : edges()) {
    check_unsigned(value);
    check_signed(static_cast<int64_t>(value));
    check_signed(static_cast<int64_t>(0 - value));
  }
}

TEST(Decimal, AllSmallNumbersMatchTheStandardLibrary) {
  for (int64_t value = 0; value <= 12'000; ++value) {
    check_unsigned(static_cast<uint64_t>(value));
    check_signed(-value);
  }
}

TEST(Decimal, RandomNumbersOfEachLengthMatchTheStandardLibrary) {
  tests::Dice dice(1);
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t value = dice(std::numeric_limits<uint64_t>::max()) >> dice(64);
    check_unsigned(value);
    check_signed(static_cast<int64_t>(value));
  }
}

TEST(Decimal, AppendsNumbersToABuffer) {
  Buffer out;
  std::string expected;
  for (int64_t value = -300; value <= 300; ++value) {
    append_decimal(value, out);
    expected += std::to_string(value);
  }
  EXPECT_EQ(out.view(), expected);
}

}  // namespace
}  // namespace sluice::base::decimal_test
