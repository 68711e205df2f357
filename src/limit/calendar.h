// The windows of a calendar: hours, days, weeks, months and years by the clock of a time zone. A
// Calendar is a value of 8 bytes which holds all of its terms, so equal terms are equal calendars
// in every process, and there are as many as anybody likes. Any thread.
//
//   window    begins at each start: start <= t < end. A start is a date and a time that the zone's
//             clock shows; base::TimeZone::when_shown says what becomes of one that it does not
//             show, or shows twice. Two starts at one instant (a day that a zone skipped) make no
//             window. An hour begins whenever the clock shows a full hour.
//   range     instants of the years 1 to 9999; what is before and behind is one window each.
//   zone data are those of the process, and can be exchanged (use_zone_data). Windows are those of
//             the data that were read last.
//   bound     zones_max zones; more are not known. A zone's data stay in memory when they were
//             exchanged.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"

namespace sluice::base {
class TimeZone;
}

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

  // None.
  constexpr Calendar() = default;
  explicit constexpr operator bool() const { return code_ != 0; }
  friend constexpr bool operator==(Calendar, Calendar) = default;

  // like_another: its code() would be that of the calendar of another zone.
  enum class Fault : uint8_t { none, unknown_zone, like_another, too_many_zones };
  struct Made;
  // Takes no lock if the zone is known. Another one is read, which blocks, unless all zones of the
  // data are known (use_zone_data).
  static Made of(const Terms& terms);
  // Of a code() that a store kept. Where no zone of this process is that of the code, it has no
  // name, and its windows are those of UTC. None: it is not a code.
  static Calendar of_code(uint64_t code);
  // Of what a store kept. A zone that is not there is as one of of_code(), but has its name. None:
  // another zone has its code, or there are too many.
  static Calendar of_kept(const Terms& terms);

  // The window of `now`. Two loads and two comparisons while the time stays in one window.
  struct Window {
    int64_t start_us, end_us;  // INT64_MIN, INT64_MAX: of the time before and behind the range
  };
  [[gnu::always_inline]] Window window(base::Time now) const {
    const uint64_t name = name_in(epoch_.load(std::memory_order_relaxed));
    const Present& place = present_[name >> place_shift];
    const uint64_t window = place.window.load(std::memory_order_relaxed);
    const int64_t start_us = (static_cast<int64_t>(window) >> length_bits) * int64_t{1'000'000};
    const uint64_t length_us = (window & length_max) * uint64_t{1'000'000};
    if ((place.whose.load(std::memory_order_relaxed) ^ window) == name &&
        static_cast<uint64_t>(now.us) - static_cast<uint64_t>(start_us) < length_us) [[likely]]
      return {start_us, start_us + static_cast<int64_t>(length_us)};
    return look_up(now);
  }
  // The same, which leaves the present window as it is: for other times than that of the clock.
  Window find(base::Time at) const;
  // The end of the window that follows that of `now` as the `count`th.
  int64_t later_end_us(base::Time now, int64_t count) const;

  Unit unit() const { return static_cast<Unit>(code_ & unit_max); }
  // The name of its zone, valid as long as the process; empty: it is not known.
  std::string_view zone_name() const;
  Terms terms() const;
  // A number of code_bits that says the same in every process: the terms, of the zone a digest. A
  // double of Lua holds it, and a counter that is kept beside the number of its cells.
  constexpr uint64_t code() const { return code_; }
  static constexpr int code_bits = 53;
  // What stands beside `window` where it is not what it is without: keys of calendar_keys.
  std::vector<std::pair<std::string_view, std::string>> members() const;
  // "month@Europe/Berlin,month_day=9,starts_at=06:00"; parse_calendar reads it.
  std::string text() const;

  // The length for which it stands where one is needed: 3,600 s, 86,400 s, 7, 30 or 365 days.
  static base::Duration nominal(Unit unit);

  // Chooses where zone data come from (base::ZoneData::find), and reads those of all known zones
  // again. `all`: those of all zones that are there, so that no zone is read later on. Blocks.
  // False, and nothing changes: `folder` has no data. Until it is called the first calendar chooses
  // as with an empty `folder`.
  static bool use_zone_data(const std::string& folder, bool all = false);
  // "2025b, system".
  static std::string zone_data_text();
  static std::string zone_data_version();
  // Has a calendar of another zone than UTC been made since the start?
  static bool has_used_zones();
  // Is there something under that name, valid or not? Blocks, as does the next one.
  static bool has_zone_data(std::string_view name);
  // Names like it.
  static std::vector<std::string> zones_near(std::string_view name);

 private:
  struct Registry;
  static constexpr int length_bits = 25;  // seconds; a year has less
  static constexpr uint64_t length_max = (uint64_t{1} << length_bits) - 1;
  static constexpr uint64_t unit_max = 7;
  // The present windows that were looked up last, each in the one place of its calendar: start and
  // length in seconds, and whose it is, by exclusive or with the window, so that two threads that
  // write at once leave nobody's.
  struct Present {
    std::atomic<uint64_t> whose, window;
  };
  static constexpr int place_bits = 12, place_shift = 64 - place_bits;

  explicit constexpr Calendar(uint64_t code) : code_(code) {}
  // Differs where the calendar or the epoch does.
  constexpr uint64_t name_in(uint64_t epoch) const { return (code_ ^ epoch) * 0x9E3779B97F4A7C15u; }
  static Registry& registry();
  const base::TimeZone& zone() const;
  Window look_up(base::Time now) const;

  uint64_t code_ = 0;

  inline static constinit std::array<Present, size_t{1} << place_bits> present_{};
  // Which data the windows are of: a number above the bits of a code.
  inline static constinit std::atomic<uint64_t> epoch_{0};
};

struct Calendar::Made {
  Calendar calendar;  // none: there is a fault
  Fault fault = Fault::none;
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
// What is wrong with terms that make no calendar. `near`: with names like the zone's, which takes a
// while.
CalendarProblem problem_of(Calendar::Fault fault, const Calendar::Terms& terms, bool near);

// The terms of a text as Calendar::text() writes it, also "month" and "month@Europe/Berlin".
std::optional<Calendar::Terms> parse_calendar(std::string_view text);

}  // namespace sluice::limit
