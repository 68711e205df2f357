#include "cli/moment.h"

#include <chrono>
#include <cstdio>

namespace sluice::cli {
namespace {

// Takes that many digits off the front. False: they are not there.
bool take_digits(std::string_view& text, size_t count, int& value) {
  if (text.size() < count) return false;
  value = 0;
  for (size_t i = 0; i < count; ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return true;
}

bool take(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == any_of.npos) return false;
  text.remove_prefix(1);
  return true;
}

// "08:30", "08:30:00", "08:30:00.25" in seconds of the day.
bool take_clock(std::string_view& text, int& seconds_of_day) {
  int hours = 0, minutes = 0, seconds = 0;
  if (!take_digits(text, 2, hours) || !take(text, ":") || !take_digits(text, 2, minutes))
    return false;
  if (take(text, ":")) {
    if (!take_digits(text, 2, seconds)) return false;
    if (take(text, ".")) {
      int ignored = 0;
      if (!take_digits(text, 1, ignored)) return false;
      while (take_digits(text, 1, ignored)) continue;
    }
  }
  seconds_of_day = (hours * 60 + minutes) * 60 + seconds;
  return hours < 24 && minutes < 60 && seconds < 60;
}

// "Z", "+01:00", or nothing, in seconds ahead of UTC.
bool take_zone(std::string_view& text, int& ahead) {
  ahead = 0;
  if (text.empty() || take(text, "Zz")) return true;
  const bool behind = text.front() == '-';
  int hours = 0, minutes = 0;
  if (!take(text, "+-") || !take_digits(text, 2, hours) || !take(text, ":") ||
      !take_digits(text, 2, minutes) || hours > 23 || minutes > 59)
    return false;
  ahead = (hours * 60 + minutes) * 60 * (behind ? -1 : 1);
  return true;
}

}  // namespace

std::optional<base::Time> parse_moment(std::string_view text) {
  int year = 0, month = 0, day = 0, clock = 0, ahead = 0;
  if (!take_digits(text, 4, year) || !take(text, "-") || !take_digits(text, 2, month) ||
      !take(text, "-") || !take_digits(text, 2, day))
    return std::nullopt;
  if (take(text, "Tt ") && (!take_clock(text, clock) || !take_zone(text, ahead)))
    return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!text.empty() || !date.ok() || year < 1970) return std::nullopt;
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const int64_t seconds = days * 86'400 + clock - ahead;
  if (seconds < 0) return std::nullopt;
  return base::Time{seconds * 1'000'000};
}

std::string format_moment(base::Time moment) {
  const std::chrono::sys_seconds at{std::chrono::seconds(moment.us / 1'000'000)};
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(day);
  const auto clock = static_cast<int>((at - day).count());
  char text[64];
  const int size =
      std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ",
                    static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                    static_cast<unsigned>(date.day()), clock / 3600, clock / 60 % 60, clock % 60);
  return {text, static_cast<size_t>(size)};
}

}  // namespace sluice::cli
