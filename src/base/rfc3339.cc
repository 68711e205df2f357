#include "base/rfc3339.h"

#include <chrono>
#include <cstdio>

namespace sluice::base {

namespace {

using std::chrono::sys_days;

// Takes that many digits from the front.
std::optional<int> take_digits(std::string_view& text, size_t count) {
  if (text.size() < count) return std::nullopt;
  int n = 0;
  for (const char c : text.substr(0, count)) {
    if (c < '0' || c > '9') return std::nullopt;
    n = n * 10 + (c - '0');
  }
  text.remove_prefix(count);
  return n;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// `hh:mm` in minutes.
std::optional<int> take_clock(std::string_view& text) {
  const auto hours = take_digits(text, 2);
  if (!hours || *hours > 23 || !take(text, ':')) return std::nullopt;
  const auto minutes = take_digits(text, 2);
  if (!minutes || *minutes > 59) return std::nullopt;
  return *hours * 60 + *minutes;
}

}  // namespace

std::optional<Time> parse_rfc3339(std::string_view text) {
  const auto year = take_digits(text, 4);
  if (!year || *year < 1970 || !take(text, '-')) return std::nullopt;
  const auto month = take_digits(text, 2);
  if (!month || !take(text, '-')) return std::nullopt;
  const auto day = take_digits(text, 2);
  if (!day || !(take(text, 'T') || take(text, 't'))) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{*year},
                                         std::chrono::month{static_cast<unsigned>(*month)},
                                         std::chrono::day{static_cast<unsigned>(*day)}};
  if (!date.ok()) return std::nullopt;
  const auto minutes = take_clock(text);
  if (!minutes || !take(text, ':')) return std::nullopt;
  const auto second = take_digits(text, 2);
  if (!second || *second > 59) return std::nullopt;
  int64_t fraction_us = 0;
  if (take(text, '.')) {
    int64_t unit_us = 100'000;
    if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
    for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1)) {
      fraction_us += (text.front() - '0') * unit_us;
      unit_us /= 10;
    }
  }
  int64_t offset_minutes = 0;
  if (!take(text, 'Z') && !take(text, 'z')) {
    const bool west = take(text, '-');
    if (!west && !take(text, '+')) return std::nullopt;
    const auto offset = take_clock(text);
    if (!offset) return std::nullopt;
    offset_minutes = west ? -*offset : *offset;
  }
  if (!text.empty()) return std::nullopt;
  const int64_t days = sys_days(date).time_since_epoch().count();
  const int64_t s = days * 86'400 + (*minutes - offset_minutes) * 60 + *second;
  if (s < 0) return std::nullopt;
  return Time{s * 1'000'000 + fraction_us};
}

std::string format_rfc3339(Time at) {
  const auto floor_div = [](int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); };
  const int64_t seconds = floor_div(at.us, 1'000'000), days = floor_div(seconds, 86'400);
  const int64_t of_day = seconds - days * 86'400;
  const std::chrono::year_month_day date{sys_days(std::chrono::days(days))};
  char text[64];
  const int size =
      std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d", int{date.year()},
                    unsigned{date.month()}, unsigned{date.day()}, static_cast<int>(of_day / 3600),
                    static_cast<int>(of_day / 60 % 60), static_cast<int>(of_day % 60));
  std::string all(text, static_cast<size_t>(size));
  if (const int64_t us = at.us - seconds * 1'000'000; us > 0) {
    const int digits = std::snprintf(text, sizeof text, ".%06d", static_cast<int>(us));
    all.append(text, static_cast<size_t>(digits));
    while (all.ends_with('0')) all.pop_back();
  }
  return all + 'Z';
}

}  // namespace sluice::base
