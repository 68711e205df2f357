// The windows of a calendar: hours, days, weeks, months and years by the clock of a time zone. A
// Calendar is interned: equal terms are one object, which lives as long as the process, so that a
// limit points to it, and equal limits have equal pointers. Any thread.
//
//   window    begins at each start: start <= t < end. A start is a date and a time that the zone's
//             clock shows; base::TimeZone::when_shown says what becomes of one that it does not
//             show, or shows twice. Two starts at one instant (a day that a zone skipped) make no
//             window. An hour begins whenever the clock shows a full hour.
//   range     instants of the years 1 to 9999; what is before and behind is one window each.
//   zone data can be exchanged (use_zone_data). Windows are those of the data that were read last.
//   bound     calendars_max calendars, of which requests bring calendars_brought_max at most; more
//             are refused until the process ends. A zone whose data were exchanged stays in memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "base/time_zone.h"

namespace sluice::limit {

class Calendar {
 public:
  enum class Unit : uint8_t { hour, day, week, month, year };

  // What a policy says of it.
  struct Terms {
    Unit unit = Unit::day;
    std::string zone = "UTC";
    int weekday = 0;  // of a week: 0 to 6, from Monday
    int month = 1;    // of a year
    int day = 1;      // of a month: 1 to 31; of a year: of `month`; past its end: its last day
    int minutes = 0;  // of all but an hour: the time of day at which it starts, below 1,440
    friend bool operator==(const Terms&, const Terms&) = default;
  };

  // like_another: its code() would be that of the calendar of another zone.
  enum class Fault : uint8_t { none, unknown_zone, like_another, too_many };
  struct Interned {
    const Calendar* calendar = nullptr;
    Fault fault = Fault::none;
  };
  // `brought`: by a request. Takes no lock if it is known; else reads the zone's data, which
  // blocks.
  static Interned intern(const Terms& terms, bool brought = false);
  // Of a code() that a store kept. Its zone has no name and no data until intern() names it: its
  // windows are those of UTC until then. Null: it is not a code, or there are too many.
  static const Calendar* of_code(uint64_t code);
  // Of what a store kept. A zone that is not there is as one of of_code().
  static const Calendar* of_kept(const Terms& terms);

  // The window of `now`. A load and a comparison while the time stays in one window.
  struct Window {
    int64_t start_us, end_us;  // INT64_MIN, INT64_MAX: of the time before and behind the range
  };
  [[gnu::always_inline]] Window window(base::Time now) const {
    const uint64_t present = present_.load(std::memory_order_relaxed);
    const int64_t start_us = (static_cast<int64_t>(present) >> length_bits) * int64_t{1'000'000};
    const auto length_us = (present & length_max) * uint64_t{1'000'000};
    if (static_cast<uint64_t>(now.us) - static_cast<uint64_t>(start_us) < length_us) [[likely]]
      return {start_us, start_us + static_cast<int64_t>(length_us)};
    return look_up(now);
  }
  // The same, which leaves the present window as it is: for other times than that of the clock.
  Window find(base::Time at) const;
  // The end of the window that follows that of `now` as the `count`th.
  int64_t later_end_us(base::Time now, int64_t count) const;

  Unit unit() const { return terms_.unit; }
  // The name of its zone; empty: of_code() made it.
  std::string_view zone_name() const;
  Terms terms() const;
  // A number of code_bits that says the same in every process: the terms, of the zone a digest. A
  // double of Lua holds it, and a counter that is kept beside the number of its cells.
  uint64_t code() const { return code_; }
  static constexpr int code_bits = 53;
  // What stands beside `window` where it is not what it is without: keys of calendar_keys.
  std::vector<std::pair<std::string_view, std::string>> members() const;
  // "month@Europe/Berlin,month_day=9,starts_at=06:00"; parse_calendar reads it.
  std::string text() const;
  // Has its zone data?
  bool is_resolved() const { return zone_.load(std::memory_order_relaxed) != nullptr; }

  // The length for which it stands where one is needed: 3,600 s, 86,400 s, 7, 30 or 365 days.
  static base::Duration nominal(Unit unit);

  // Chooses where zone data come from (base::ZoneData::find), and reads those of all known zones
  // again. Blocks. False, and nothing changes: `folder` has no data. Until it is called the first
  // calendar chooses as with an empty `folder`.
  static bool use_zone_data(const std::string& folder);
  // "2025b, system".
  static std::string zone_data_text();
  static std::string zone_data_version();
  // Names like it.
  static std::vector<std::string> zones_near(std::string_view name);

 private:
  struct Registry;
  static constexpr int length_bits = 25;  // seconds; a year has less
  static constexpr uint64_t length_max = (uint64_t{1} << length_bits) - 1;

  Calendar(const Terms& terms, uint64_t code) : terms_(terms), code_(code) {}
  static Registry& registry();
  Window look_up(base::Time now) const;
  Window find(const base::TimeZone& zone, base::Time at) const;
  const base::TimeZone& zone() const;
  void set_zone(const base::TimeZone* zone);

  // Starts are numbered: by day, week, month or year.
  int64_t start(const base::TimeZone& zone, int64_t number) const;
  int64_t number_of(const base::TimeZone& zone, int64_t instant) const;
  Window hour_of(const base::TimeZone& zone, int64_t instant) const;

  const Terms terms_;  // without the zone
  const uint64_t code_;
  std::atomic<const std::string*> zone_name_ = nullptr;
  std::atomic<const base::TimeZone*> zone_ = nullptr;  // null: not resolved
  // Start and length of the present window, in seconds; 0: none.
  mutable std::atomic<uint64_t> present_ = 0;
};

std::string_view name_of(Calendar::Unit unit);
std::optional<Calendar::Unit> calendar_unit(std::string_view name);

// What stands beside `window`, as it is written; no value: it is not there.
struct CalendarWords {
  std::optional<std::string_view> time_zone, week_starts, month_day, year_day, starts_at;

  // The one with that key; null: there is none.
  std::optional<std::string_view>* find(std::string_view key);
  // The key of the first that is there; empty: none is.
  std::string_view first() const;
};
inline constexpr std::string_view calendar_keys[] = {"time_zone", "week_starts", "month_day",
                                                     "year_day", "starts_at"};

// What is wrong with the value of a key.
struct CalendarProblem {
  std::string_view key;
  std::string message, remedy;
};
// Reads them for a window of that unit. A zone is not looked up.
std::optional<CalendarProblem> read_calendar(Calendar::Unit unit, const CalendarWords& words,
                                             Calendar::Terms& terms);
// What is wrong with words beside a window that is a length of time.
std::optional<CalendarProblem> beside_length(const CalendarWords& words);
// What is wrong with terms that are not interned. `near`: with names like the zone's, which takes a
// while.
CalendarProblem problem_of(Calendar::Fault fault, const Calendar::Terms& terms, bool near);

// The terms of a text as Calendar::text() writes it, also "month" and "month@Europe/Berlin".
std::optional<Calendar::Terms> parse_calendar(std::string_view text);

}  // namespace sluice::limit
