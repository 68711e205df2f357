// Time zones: what the bytes of TZif say, the footer for the time after the table, and what a clock
// shows. tests/clients/limiter/calendar_test.py compares all zones with Python's zoneinfo.
#include "base/time_zone.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "testing/zone_folder.h"

namespace sluice::base::time_zone_test {
namespace {

using Written = tests::WrittenZone;

std::string text_of(const Written& zone) {
  return zone.text();
}

TimeZone zone_of(const Written& zone) {
  auto read = TimeZone::parse(text_of(zone));
  EXPECT_TRUE(read);
  return read ? *read : TimeZone();
}

constexpr int64_t hour = 3600, day = 86'400;

TEST(TimeZone, UtcShowsWhatItIs) {
  const TimeZone utc;
  for (const int64_t at : {-1'000'000'000'000, int64_t{-1}, int64_t{0}, int64_t{1'800'000'000}}) {
    EXPECT_EQ(utc.at(at).offset, 0);
    EXPECT_EQ(utc.at(at).begin, INT64_MIN);
    EXPECT_EQ(utc.at(at).end, INT64_MAX);
    EXPECT_EQ(utc.when_shown(at), at);
  }
}

TEST(TimeZone, TheTableSaysTheOffsets) {
  const TimeZone zone =
      zone_of({.changes = {{1000 * day, 1}, {2000 * day, 2}}, .offsets = {-7, hour, -2 * hour}});
  EXPECT_EQ(zone.at(0).offset, -7);
  EXPECT_EQ(zone.at(1000 * day - 1).offset, -7);
  EXPECT_EQ(zone.at(1000 * day - 1).end, 1000 * day);
  EXPECT_EQ(zone.at(1000 * day).offset, hour);
  EXPECT_EQ(zone.at(1000 * day).begin, 1000 * day);
  EXPECT_EQ(zone.at(2000 * day).offset, -2 * hour);
  EXPECT_EQ(zone.at(2'000'000 * day).offset, -2 * hour);  // without rules it stays
  EXPECT_EQ(zone.at(2000 * day).end, INT64_MAX);
}

TEST(TimeZone, AClockThatGoesForwardAndBack) {
  const TimeZone zone = zone_of({.changes = {{10 * day, 1}, {20 * day, 0}}, .offsets = {0, hour}});
  // Forward at day 10, 00:00: 00:30 is not shown, and is read with the offset before.
  EXPECT_EQ(zone.when_shown(10 * day - 1), 10 * day - 1);
  EXPECT_EQ(zone.when_shown(10 * day + 1800), 10 * day + 1800);
  EXPECT_EQ(zone.when_shown(10 * day + hour), 10 * day);
  // Back at day 20, 01:00: 00:30 is shown twice, and is the first.
  EXPECT_EQ(zone.when_shown(20 * day + 1800), 20 * day - 1800);
  EXPECT_EQ(zone.when_shown(20 * day + hour), 20 * day + hour);
}

TEST(TimeZone, TheFooterGoesOnAfterTheTable) {
  const TimeZone zone =
      zone_of({.changes = {{0, 0}}, .offsets = {hour}, .footer = "CET-1CEST,M3.5.0,M10.5.0/3"});
  const int64_t march = 1'774'746'000;    // 2026-03-29T01:00:00Z
  const int64_t october = 1'792'890'000;  // 2026-10-25T01:00:00Z
  EXPECT_EQ(zone.at(march - 1).offset, hour);
  EXPECT_EQ(zone.at(march - 1).end, march);
  EXPECT_EQ(zone.at(march).offset, 2 * hour);
  EXPECT_EQ(zone.at(march).begin, march);
  EXPECT_EQ(zone.at(march).end, october);
  EXPECT_EQ(zone.at(october).offset, hour);
  EXPECT_EQ(zone.when_shown(march + hour + 1800), march + 1800);  // 02:30, in the gap
}

TEST(TimeZone, FootersOfAllForms) {
  struct Case {
    std::string_view footer;
    int64_t at, offset;
  };
  const int64_t january = 1'767'225'600, july = 1'782'864'000;  // of 2026, the firsts
  for (const Case& one :
       {Case{"<+0330>-3:30", january, 12'600}, Case{"EST5", january, -5 * hour},
        Case{"<-00>0", january, 0}, Case{"AAA-1:02:03", january, 3723},
        // Its winter is what is saved.
        Case{"IST-1GMT0,M10.5.0,M3.5.0/1", january, 0},
        Case{"IST-1GMT0,M10.5.0,M3.5.0/1", july, hour},
        // All year.
        Case{"XXX3EDT4,0/0,J365/23", january, -4 * hour},
        Case{"XXX3EDT4,0/0,J365/23", july, -4 * hour},
        // By days of the year, with and without the leap day.
        Case{"AAA0BBB,J60/0,J182/0", july, 0}, Case{"AAA0BBB,J60/0,J183/0", july, hour},
        Case{"AAA0BBB,59/0,181/0", july, 0},
        // Hours beyond the day.
        Case{"AAA0BBB,M6.5.0/-24,M6.5.0/100", july, hour},
        Case{"AAA0BBB-2,M6.1.0,M8.1.0", july, 2 * hour}}) {
    const TimeZone zone = zone_of({.footer = std::string(one.footer)});
    EXPECT_EQ(zone.at(one.at).offset, one.offset) << one.footer << " " << one.at;
  }
}

TEST(TimeZone, WhatIsNoZoneIsNothing) {
  const std::string sound = text_of({.changes = {{0, 0}}, .footer = "CET-1CEST,M3.5.0,M10.5.0/3"});
  ASSERT_TRUE(TimeZone::parse(sound));
  for (size_t bytes = 0; bytes + 1 < sound.size(); ++bytes)
    EXPECT_FALSE(TimeZone::parse(std::string_view(sound).substr(0, bytes))) << bytes;
  EXPECT_FALSE(TimeZone::parse(text_of({.version = '\0'})));
  EXPECT_FALSE(TimeZone::parse(text_of({.leaps = 1})));
  EXPECT_FALSE(TimeZone::parse(text_of({.changes = {{5, 0}, {5, 0}}})));
  EXPECT_FALSE(TimeZone::parse(text_of({.changes = {{5, 3}}})));
  EXPECT_FALSE(TimeZone::parse(text_of({.offsets = {27 * hour}})));
  for (const char* footer :
       {"C0", "CET", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-25", "CET-1x",
        "CET-1CEST,M13.5.0,M10.5.0", "CET-1CEST,M3.6.0,M10.5.0", "CET-1CEST,M3.5.7,M10.5.0",
        "CET-1CEST,J0,J1", "CET-1CEST,366,1", "CET-1CEST,M3.5.0/168,M10.5.0", "<CET-1", "<>-1",
        "CET-1,", "CET-1CEST,M3.5.0,M10.5.0/3 "})
    EXPECT_FALSE(TimeZone::parse(text_of({.footer = footer}))) << footer;
}

TEST(TimeZone, DaysAndMonths) {
  EXPECT_EQ(days_of(1970, 1, 1), 0);
  EXPECT_EQ(days_of(1969, 12, 31), -1);
  EXPECT_EQ(days_of(2000, 3, 1), 11'017);
  EXPECT_EQ(month_of(11'016).month, 2);
  EXPECT_EQ(month_of(11'016).year, 2000);
  EXPECT_EQ(month_of(-1).year, 1969);
  EXPECT_EQ(month_days(2100, 2), 28);
  EXPECT_EQ(month_days(2000, 2), 29);
  EXPECT_EQ(month_days(2026, 4), 30);
}

}  // namespace
}  // namespace sluice::base::time_zone_test
