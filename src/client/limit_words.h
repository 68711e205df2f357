// What dialects say of a limit that comes with a request: why it cannot be sent, and a window of
// the calendar, which is one text, taken apart: "month@Europe/Berlin,month_day=9". The server
// judges its parts. Pure.
#pragma once

#include <sluice/client.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace sluice::calls {

// Calls `put(name, value)` for "window" and each member beside it, by the names of policies. False,
// and nothing is called: it begins with no window of the calendar.
template <class Put>
bool each_calendar_word(std::string_view text, const Put& put) {
  const auto cut = [](std::string_view& from, char at) {
    const size_t end = std::min(from.find(at), from.size());
    const std::string_view part = from.substr(0, end);
    from.remove_prefix(std::min(end + 1, from.size()));
    return part;
  };
  std::string_view zone = cut(text, ',');
  const bool has_zone = zone.find('@') != zone.npos;
  const std::string_view unit = cut(zone, '@');
  constexpr std::array<std::string_view, 5> units = {"hour", "day", "week", "month", "year"};
  if (std::find(units.begin(), units.end(), unit) == units.end()) return false;
  put(std::string_view("window"), unit);
  if (has_zone) put(std::string_view("time_zone"), zone);
  while (!text.empty()) {
    std::string_view value = cut(text, ',');
    const std::string_view name = cut(value, '=');
    put(name, value);
  }
  return true;
}

// Why the limit cannot be sent; null: it can.
inline const char* problem_of(const client_limit& limit) {
  if (limit.quota < 1 || limit.window.count() < 0 || limit.burst < 0)
    return "a limit's quota must be 1 or more, its window and burst 0 or more";
  const bool may_be_calendar =
      limit.calendar.empty() ||
      (limit.window.count() == 0 && limit.burst == 0 &&
       (limit.algorithm == client_algorithm::token_bucket ||
        limit.algorithm == client_algorithm::aligned_window) &&
       each_calendar_word(limit.calendar, [](std::string_view, std::string_view) {}));
  if (!may_be_calendar)
    return "a limit's calendar must begin with hour, day, week, month or year, as in "
           "\"month@Europe/Berlin\", and have no window, burst or other algorithm beside it";
  if (limit.max_lease.count() != 0 &&
      (limit.algorithm != client_algorithm::concurrency || limit.max_lease < limit.window))
    return "max_lease is of concurrency alone, and not below the limit's window, which is the "
           "lease";
  return nullptr;
}

}  // namespace sluice::calls
