// A limit as answers show it. Pure; any thread.
#pragma once

#include "limit/calendar.h"
#include "limit/limit.h"

namespace sluice::limit {

// The same limit, of a calendar with the length of the window of `now` as its window.
inline Limit shown(const Limit& limit, Time now) {
  if (!limit.calendar) return limit;
  Limit of_now = limit;
  const Calendar::Window window = limit.calendar.window(now);
  of_now.window = {window.end_us - window.start_us};
  return of_now;
}

}  // namespace sluice::limit
