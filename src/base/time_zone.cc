#include "base/time_zone.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <utility>

namespace sluice::base {

namespace {

constexpr int64_t seconds_of_day = 86'400;

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

// Big-endian numbers of a file's bytes.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : rest_(bytes) {}

  // Nothing: there are fewer bytes.
  std::optional<std::string_view> take(size_t count) {
    if (count > rest_.size()) return std::nullopt;
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

uint64_t number(std::string_view bytes) {
  uint64_t n = 0;
  for (const char c : bytes) n = n << 8 | static_cast<unsigned char>(c);
  return n;
}

struct Header {
  int version = 0;  // the character of it
  size_t utc_marks = 0, standard_marks = 0, leaps = 0, times = 0, types = 0, letters = 0;

  size_t body_bytes(size_t time_bytes) const {
    return times * (time_bytes + 1) + types * 6 + letters + leaps * (time_bytes + 4) +
           standard_marks + utc_marks;
  }
};

std::optional<Header> read_header(Bytes& in) {
  const auto bytes = in.take(44);
  if (!bytes || !bytes->starts_with("TZif")) return std::nullopt;
  const auto count = [&](size_t i) {
    return static_cast<size_t>(number(bytes->substr(20 + 4 * i, 4)));
  };
  Header head{static_cast<unsigned char>((*bytes)[4]),
              count(0),
              count(1),
              count(2),
              count(3),
              count(4),
              count(5)};
  // A zone has some hundred changes; more would be no zone.
  constexpr size_t most = 1 << 16;
  for (const size_t n :
       {head.utc_marks, head.standard_marks, head.leaps, head.times, head.types, head.letters})
    if (n > most) return std::nullopt;
  return head;
}

// Reads the footer, a TZ string of POSIX with the hours of RFC 9636.
class Footer {
 public:
  explicit Footer(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }
  bool skip(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool name() {
    size_t letters = 0;
    if (skip('<')) {
      while (letters < rest_.size() && rest_[letters] != '>') ++letters;
      if (letters == rest_.size()) return false;
      rest_.remove_prefix(letters + 1);
      return letters > 0;
    }
    const auto is_letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
    while (letters < rest_.size() && is_letter(rest_[letters])) ++letters;
    rest_.remove_prefix(letters);
    return letters >= 3;
  }
  bool count(int most, int& n) {
    size_t digits = 0;
    n = 0;
    while (digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9' && n <= most)
      n = n * 10 + (rest_[digits++] - '0');
    rest_.remove_prefix(digits);
    return digits > 0 && n <= most;
  }
  // [+-]h[:m[:s]], in seconds.
  bool time(int hours_max, int64_t& seconds) {
    const bool negative = skip('-');
    if (!negative) skip('+');
    int h = 0, m = 0, s = 0;
    if (!count(hours_max, h)) return false;
    if (skip(':')) {
      if (!count(59, m)) return false;
      if (skip(':') && !count(59, s)) return false;
    }
    seconds = int64_t{h} * 3600 + m * 60 + s;
    if (negative) seconds = -seconds;
    return true;
  }
  // Offsets of the footer count to the west.
  bool offset(int64_t& seconds) {
    if (!time(24, seconds)) return false;
    seconds = -seconds;
    return true;
  }
  bool change(TimeZone::Change& change) {
    using Day = TimeZone::Change::Day;
    if (!skip(',')) return false;
    if (skip('M')) {
      change.day = Day::of_month;
      if (!count(12, change.month) || !skip('.') || !count(5, change.week) || !skip('.') ||
          !count(6, change.number) || change.month < 1 || change.week < 1)
        return false;
    } else if (skip('J')) {
      change.day = Day::of_year_without_leap_day;
      if (!count(365, change.number) || change.number < 1) return false;
    } else {
      change.day = Day::of_year;
      if (!count(365, change.number)) return false;
    }
    change.time = 7200;
    return !skip('/') || time(167, change.time);
  }

 private:
  std::string_view rest_;
};

}  // namespace

int64_t days_of(int64_t year, int month, int day) {
  const std::chrono::year_month_day first{std::chrono::year{static_cast<int>(year)},
                                          std::chrono::month{static_cast<unsigned>(month)},
                                          std::chrono::day{1}};
  return std::chrono::sys_days(first).time_since_epoch().count() + day - 1;
}

YearMonth month_of(int64_t days) {
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(days))};
  return {int{date.year()}, static_cast<int>(unsigned{date.month()})};
}

int month_days(int64_t year, int month) {
  const std::chrono::year_month_day_last last{
      std::chrono::year{static_cast<int>(year)},
      std::chrono::month_day_last{std::chrono::month{static_cast<unsigned>(month)}}};
  return static_cast<int>(unsigned{last.day()});
}

int64_t TimeZone::Change::in(int64_t year) const {
  int64_t days = days_of(year, 1, 1);
  switch (day) {
    case Day::of_year:
      days += number;
      break;
    case Day::of_year_without_leap_day:
      days += number - 1 + (number >= 60 && month_days(year, 2) == 29 ? 1 : 0);
      break;
    case Day::of_month: {
      const int64_t first = days_of(year, month, 1);
      const int64_t weekday = first + 4 - floor_div(first + 4, 7) * 7;  // day 0 was a Thursday
      int64_t at = (number - weekday + 7) % 7 + 7 * (week - 1);
      while (at >= month_days(year, month)) at -= 7;
      days = first + at;
      break;
    }
  }
  return days * seconds_of_day + time;
}

bool TimeZone::read_footer(std::string_view text) {
  if (text.empty()) return true;  // the last offset stays
  Footer in(text);
  Rules rules;
  if (!in.name() || !in.offset(rules.standard)) return false;
  if (in.done()) {
    // The table ends with that offset; without one it is all there is.
    if (times_.empty()) first_ = rules.standard;
    return true;
  }
  rules.daylight = rules.standard + 3600;
  if (!in.name()) return false;
  TimeZone::Change change;
  Footer ahead = in;
  if (!ahead.change(change) && !in.offset(rules.daylight)) return false;
  if (!in.change(rules.begin) || !in.change(rules.end) || !in.done()) return false;
  rules_ = rules;
  return true;
}

std::optional<TimeZone> TimeZone::parse(std::string_view tzif) {
  Bytes in(tzif);
  const auto short_head = read_header(in);
  if (!short_head || short_head->version < '2' || !in.take(short_head->body_bytes(4)))
    return std::nullopt;
  const auto head = read_header(in);
  // With leap seconds its times would not be those of the system's clock.
  if (!head || head->types == 0 || head->leaps > 0) return std::nullopt;
  const auto times = in.take(head->times * 8), kinds = in.take(head->times),
             types = in.take(head->types * 6);
  if (!times || !kinds || !types ||
      !in.take(head->letters + head->standard_marks + head->utc_marks))
    return std::nullopt;
  TimeZone zone;
  const auto offset_of = [&](size_t type) {
    return static_cast<int32_t>(number(types->substr(type * 6, 4)));
  };
  constexpr int32_t most = 26 * 3600;  // RFC 9636, 3.2: more would be no offset of a zone
  for (size_t type = 0; type < head->types; ++type)
    if (offset_of(type) > most || offset_of(type) < -most) return std::nullopt;
  zone.first_ = offset_of(0);
  for (size_t i = 0; i < head->times; ++i) {
    const auto time = static_cast<int64_t>(number(times->substr(i * 8, 8)));
    const auto type = static_cast<unsigned char>((*kinds)[i]);
    if (type >= head->types ||
        (i > 0 && time <= static_cast<int64_t>(number(times->substr((i - 1) * 8, 8)))))
      return std::nullopt;
    const int32_t offset = offset_of(type);
    // Only the name or the mark of daylight saving time changes.
    if (offset == (zone.offsets_.empty() ? zone.first_ : zone.offsets_.back()) &&
        i + 1 < head->times)
      continue;
    zone.times_.push_back(time);
    zone.offsets_.push_back(offset);
  }
  std::string_view footer = in.rest();
  if (footer.size() < 2 || footer.front() != '\n') return std::nullopt;
  footer.remove_prefix(1);
  const size_t end = footer.find('\n');
  if (end == footer.npos || !zone.read_footer(footer.substr(0, end))) return std::nullopt;
  return zone;
}

TimeZone::Period TimeZone::by_rules(int64_t instant) const {
  const int64_t first = times_.empty() ? INT64_MIN : times_.back();
  Period period{first, INT64_MAX, times_.empty() ? first_ : offsets_.back()};
  const int64_t year = month_of(floor_div(instant, seconds_of_day)).year;
  struct Event {
    int64_t at, offset;
  };
  std::array<Event, 6> events;
  size_t count = 0;
  for (int64_t y = year - 1; y <= year + 1; ++y) {
    events[count++] = {rules_->begin.in(y)-rules_->standard, rules_->daylight};
    events[count++] = {rules_->end.in(y)-rules_->daylight, rules_->standard};
  }
  // Of two at one instant that of the beginning counts: daylight saving time all year is written
  // so.
  std::sort(events.begin(), events.end(), [&](const Event& a, const Event& b) {
    if (a.at != b.at) return a.at < b.at;
    return a.offset == rules_->standard && b.offset != rules_->standard;
  });
  for (size_t i = 0; i < count; ++i) {
    if (events[i].at <= first || (i + 1 < count && events[i + 1].at == events[i].at)) continue;
    if (events[i].at > instant) {
      if (events[i].offset == period.offset) continue;
      period.end = events[i].at;
      break;
    }
    if (events[i].offset != period.offset) period.begin = events[i].at;
    period.offset = events[i].offset;
  }
  return period;
}

TimeZone::Period TimeZone::at(int64_t instant) const {
  const auto next =
      static_cast<size_t>(std::upper_bound(times_.begin(), times_.end(), instant) - times_.begin());
  if (next == times_.size() && rules_) return by_rules(instant);
  Period period;
  period.offset = next == 0 ? first_ : offsets_[next - 1];
  if (next > 0) period.begin = times_[next - 1];
  if (next < times_.size()) period.end = times_[next];
  return period;
}

int64_t TimeZone::when_shown(int64_t shown) const {
  // No offset is more than that, so the clock shows it later than this.
  constexpr int64_t ahead = 27 * 3600;
  Period now = at(shown - ahead);
  while (shown - now.offset >= now.end) {
    const Period next = at(now.end);
    if (shown - next.offset < now.end) break;  // in the gap
    now = next;
  }
  return shown - now.offset;
}

}  // namespace sluice::base
