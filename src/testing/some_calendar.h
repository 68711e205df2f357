// Windows of the calendar for random tests: a few, of UTC alone, so that they need no data.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "limit/calendar.h"
#include "limit/limit.h"

namespace sluice::tests {

inline constexpr std::array<std::string_view, 7> some_calendars = {
    "hour@UTC",
    "day@UTC,starts_at=02:30",
    "week@UTC",
    "week@UTC,week_starts=sunday,starts_at=23:59",
    "month@UTC,month_day=31",
    "year@UTC",
    "year@UTC,year_day=02-29"};

// A limit with the windows of one of them.
inline limit::Limit calendar_limit(size_t which, int64_t quota) {
  const auto terms = limit::parse_calendar(some_calendars[which % some_calendars.size()]);
  return {.algorithm = limit::Algorithm::aligned_window,
          .quota = quota,
          .window = limit::Calendar::nominal(terms->unit),
          .calendar = limit::Calendar::of(*terms).calendar};
}

}  // namespace sluice::tests
