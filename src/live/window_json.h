// What answers tell of a limit's window: the members that the admin port and the terminal have in
// common. Pure.
#pragma once

#include <string>

#include "base/rfc3339.h"
#include "limit/aligned_window.h"
#include "limit/calendar.h"
#include "limit/limit.h"

namespace sluice::live {

// Which window of the calendar, and in which zone; nothing of another limit.
template <class Json>
void put_calendar(Json& json, const limit::Limit& limit) {
  if (!limit.calendar) return;
  json["calendar"] = name_of(limit.calendar.unit());
  json["time_zone"] = limit.calendar.zone_name();
  for (const auto& [key, value] : limit.calendar.members())
    if (key != "time_zone") json[std::string(key)] = value;
}

// The window and the burst of a limit, or the leases of places.
template <class Json>
void put_lengths_us(Json& json, const limit::Limit& limit) {
  const bool is_places = limit.algorithm == limit::Algorithm::concurrency;
  json[is_places ? "lease_us" : "window_us"] = limit.window.us;
  json[is_places ? "max_lease_us" : "burst"] = limit.burst;
}

// When the window of `at` starts and ends, and how many seconds it has, of one of the calendar;
// `of_clock`: start and end also of other windows of an aligned_window.
template <class Json>
void put_window(Json& json, const limit::Limit& limit, base::Time at, bool of_clock = false) {
  if (limit.algorithm != limit::Algorithm::aligned_window) return;
  if (!limit.calendar && !of_clock) return;
  const limit::Calendar::Window window = limit::aligned_window::window_of(limit, at);
  if (limit.calendar) json["window"] = (window.end_us - window.start_us) / 1'000'000;
  json["starts"] = base::format_rfc3339({window.start_us});
  json["ends"] = base::format_rfc3339({window.end_us});
}

}  // namespace sluice::live
