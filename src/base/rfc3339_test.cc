// Times as RFC 3339 writes them (base/rfc3339.h).
#include "base/rfc3339.h"

#include <gtest/gtest.h>

#include "tests/support/dice.h"

namespace sluice::base {
namespace {

TEST(Rfc3339, ReadsDatesTimesFractionsAndOffsets) {
  EXPECT_EQ(parse_rfc3339("1970-01-01T00:00:00Z"), Time{0});
  EXPECT_EQ(parse_rfc3339("2026-11-27T00:00:00Z"), Time{1'795'737'600'000'000});
  EXPECT_EQ(parse_rfc3339("2026-11-27T01:00:00+01:00"), Time{1'795'737'600'000'000});
  EXPECT_EQ(parse_rfc3339("2026-11-26T16:00:00.25-08:00"), Time{1'795'737'600'250'000});
  EXPECT_EQ(parse_rfc3339("2026-11-27T00:00:00.0000019z"), Time{1'795'737'600'000'001});
  EXPECT_EQ(parse_rfc3339("2024-02-29t23:59:59Z"), Time{1'709'251'199'000'000});
}

TEST(Rfc3339, RejectsInvalidTimes) {
  for (const char* text :
       {"", "2026-11-27", "2026-11-27T00:00:00", "2026-11-27 00:00:00Z", "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-11-27T24:00:00Z",
        "2026-11-27T00:60:00Z", "2026-11-27T00:00:60Z", "2026-11-27T00:00:00.Z",
        "2026-11-27T00:00:00+0100", "2026-11-27T00:00:00+24:00", "2026-11-27T00:00:00Zx",
        "1969-12-31T23:59:59Z", "1970-01-01T00:00:00+01:00", "+2026-11-27T00:00:00Z",
        "2026-11-2xT00:00:00Z", "tomorrow"})
    EXPECT_FALSE(parse_rfc3339(text)) << text;
}

TEST(Rfc3339, ReadsBackWhatItWrites) {
  EXPECT_EQ(format_rfc3339({0}), "1970-01-01T00:00:00Z");
  EXPECT_EQ(format_rfc3339({1'795'737'600'250'000}), "2026-11-27T00:00:00.25Z");
  tests::Dice dice(3);
  for (int i = 0; i < 20'000; ++i) {
    const Time at{static_cast<int64_t>(dice(uint64_t{253'402'300'799} * 1'000'000))};
    EXPECT_EQ(parse_rfc3339(format_rfc3339(at)), at);
  }
}

}  // namespace
}  // namespace sluice::base
