// Counts, sizes, durations and ports as users write them (base/units.h).
#include "base/units.h"

#include <gtest/gtest.h>

namespace sluice::base {
namespace {

TEST(ParseCount, ReadsCountsWithUnits) {
  EXPECT_EQ(parse_count("0"), 0u);
  EXPECT_EQ(parse_count("10_000"), 10'000u);
  EXPECT_EQ(parse_count("5k"), 5'000u);
  EXPECT_EQ(parse_count("2M"), 2'000'000u);
  EXPECT_EQ(parse_count("18446744073709551615"), UINT64_MAX);
}

TEST(ParseCount, RejectsInvalidCounts) {
  for (const char* text : {"", " 1", "1 ", "-1", "+1", "1.5", "1e3", "_1", "1_", "1__0", "k", "1K",
                           "0x10", "18446744073709551616", "18446744073709551615k"})
    EXPECT_FALSE(parse_count(text)) << text;
}

TEST(ParseSize, TakesUnits) {
  EXPECT_EQ(parse_size("64KiB"), 65'536u);
  EXPECT_EQ(parse_size("2GiB"), uint64_t{2} << 30);
  EXPECT_EQ(parse_size("2 GiB"), uint64_t{2} << 30);
  EXPECT_EQ(parse_size("1_024MiB"), uint64_t{1} << 30);
  EXPECT_EQ(parse_size("3kB"), 3'000u);
  EXPECT_EQ(parse_size("1TB"), 1'000'000'000'000u);
  EXPECT_EQ(parse_size("100B"), 100u);
  EXPECT_EQ(parse_size("1M"), 1'000'000u);
  EXPECT_EQ(parse_size("4096"), 4096u);
}

TEST(ParseSize, RejectsInvalidSizes) {
  for (const char* text : {"", "GiB", "1gib", "1 G", "1.5GiB", "-1GiB", "99999999TiB", "1GiBB"})
    EXPECT_FALSE(parse_size(text)) << text;
}

TEST(FormatSize, IsExactAndReadBack) {
  EXPECT_EQ(format_size(uint64_t{1} << 30), "1GiB");
  EXPECT_EQ(format_size(uint64_t{1536} << 20), "1536MiB");
  EXPECT_EQ(format_size(1000), "1000B");
  EXPECT_EQ(format_size(0), "0B");
  for (const uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, uint64_t{1025}, uint64_t{3} << 41, UINT64_MAX})
    EXPECT_EQ(parse_size(format_size(bytes)), bytes);
}

TEST(ParseDuration, TakesOneNumberAndItsUnit) {
  EXPECT_EQ(parse_duration("1us")->us, 1);
  EXPECT_EQ(parse_duration("250ms")->us, 250'000);
  EXPECT_EQ(parse_duration("1s")->us, 1'000'000);
  EXPECT_EQ(parse_duration("5m")->us, 300'000'000);
  EXPECT_EQ(parse_duration("1h")->us, 3'600'000'000);
  EXPECT_EQ(parse_duration("30d")->us, 2'592'000'000'000);
  EXPECT_EQ(parse_duration("3_600s"), seconds(3600));
  EXPECT_EQ(parse_duration("0s")->us, 0);
  EXPECT_EQ(parse_duration("9223372036854775807us")->us, INT64_MAX);
}

TEST(ParseDuration, RejectsInvalidDurations) {
  for (const char* text : {"", "s", "1", "1 s", " 1s", "1S", "1min", "1h30m", "-1s", "1.5s", "1ks",
                           "1e3s", "9223372036854775808us", "106751992d", "18446744073709551615d"})
    EXPECT_FALSE(parse_duration(text)) << text;
}

TEST(FormatDuration, IsReadable) {
  EXPECT_EQ(format_duration({}), "0s");
  EXPECT_EQ(format_duration(seconds(3600)), "1h");
  EXPECT_EQ(format_duration(seconds(3597)), "59m57s");
  EXPECT_EQ(format_duration(seconds(31'556'926)), "365d5h48m46s");
  EXPECT_EQ(format_duration(milliseconds(250)), "250ms");
}

TEST(SpellDuration, IsExactAndReadsBack) {
  EXPECT_EQ(spell_duration({}), "0s");
  EXPECT_EQ(spell_duration(seconds(3600)), "1h");
  EXPECT_EQ(spell_duration(seconds(90)), "90s");
  EXPECT_EQ(spell_duration(milliseconds(250)), "250ms");
  EXPECT_EQ(spell_duration({1'000'001}), "1000001us");
  for (const int64_t us :
       {int64_t{1}, int64_t{86'400'000'000}, int64_t{604'800'000'000}, INT64_MAX})
    EXPECT_EQ(parse_duration(spell_duration({us})), Duration{us});
}

TEST(ParsePort, AcceptsSixteenBits) {
  EXPECT_EQ(parse_port("0"), 0);
  EXPECT_EQ(parse_port("65535"), 65'535);
  for (const char* text : {"", "65536", "-1", "+1", " 1", "1 ", "http", "1e3", "80x"})
    EXPECT_FALSE(parse_port(text)) << text;
}

TEST(Units, GroupsDigits) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1'000), "1,000");
  EXPECT_EQ(grouped(10'000), "10,000");
  EXPECT_EQ(grouped(1'234'567), "1,234,567");
  EXPECT_EQ(grouped(UINT64_MAX), "18,446,744,073,709,551,615");
}

}  // namespace
}  // namespace sluice::base
