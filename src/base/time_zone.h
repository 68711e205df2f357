// A time zone: which offset from UTC its clock has at each instant. Read from TZif (RFC 9636) with
// its footer for the time after the table. Immutable once made, so any thread may use it; an offset
// and an instant are whole seconds, instants count from the Unix epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace sluice::base {

class TimeZone {
 public:
  // A longest time with one offset: [begin, end), INT64_MIN and INT64_MAX where it has none.
  struct Period {
    int64_t begin = INT64_MIN, end = INT64_MAX;
    int64_t offset = 0;  // what the clock shows less UTC
  };

  // UTC.
  TimeZone() = default;
  // Of a file's bytes, of version 2 or later. Nothing: they are not valid, or count leap seconds.
  static std::optional<TimeZone> parse(std::string_view tzif);

  // That of the instant, which must be within period_years of 1970. The last period before the
  // table is that of its first type; a neighbour may have the same offset.
  Period at(int64_t instant) const;
  static constexpr int64_t period_years = 30'000;

  // The instant at which the clock shows `shown`, the seconds of its date and time as if it were
  // UTC. What it shows twice is the first of both; what it does not show is read with the offset
  // before the gap (RFC 5545, 3.3.5).
  int64_t when_shown(int64_t shown) const;

  // The day of a rule of the footer, and the second of that day.
  struct Change {
    enum class Day : uint8_t { of_year, of_year_without_leap_day, of_month };
    Day day{};
    int number = 0;           // of_year: 0 to 365; without the leap day: 1 to 365
    int month = 0, week = 0;  // of_month: the week's day `number`, 0 a Sunday; week 5: the last
    int64_t time = 0;         // seconds from the day's beginning, may be negative
    int64_t in(int64_t year) const;  // as shown
  };

 private:
  struct Rules {  // daylight saving time each year
    int64_t standard = 0, daylight = 0;
    Change begin{}, end{};
  };

  bool read_footer(std::string_view text);
  Period by_rules(int64_t instant) const;

  int64_t first_ = 0;             // the offset before times_.front()
  std::vector<int64_t> times_;    // of changes, ascending
  std::vector<int32_t> offsets_;  // from each on
  std::optional<Rules> rules_;    // after times_.back()
};

// The number of days from 1970-01-01 to a date; the day may be beyond the month. Of years within
// period_years of 1970, as below.
int64_t days_of(int64_t year, int month, int day);
// The year and the month of such a day.
struct YearMonth {
  int64_t year;
  int month;
};
YearMonth month_of(int64_t days);
// 28 to 31.
int month_days(int64_t year, int month);

}  // namespace sluice::base
