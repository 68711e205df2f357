#include "limit/calendar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "base/diagnostic.h"
#include "base/hash.h"
#include "base/zone_data.h"

namespace sluice::limit {

namespace {

using base::TimeZone;
using Unit = Calendar::Unit;
using Terms = Calendar::Terms;

constexpr int64_t second_us = 1'000'000, day_s = 86'400, hour_s = 3'600;
// The years 1 to 9999.
constexpr int64_t first_s = -62'135'596'800, last_s = 253'402'300'800;

constexpr std::string_view utc_name = "UTC";
constexpr std::array<std::string_view, 5> unit_names = {"hour", "day", "week", "month", "year"};
constexpr std::array<std::string_view, 7> weekday_names = {
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"};

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

// The bits of a code, from the lowest.
constexpr int unit_bits = 3, minute_bits = 11, month_bits = 4, day_bits = 5, zone_bits = 30;
static_assert(unit_bits + minute_bits + month_bits + day_bits + zone_bits == Calendar::code_bits);

uint64_t code_of(const Terms& terms) {
  uint64_t code = base::digest(terms.zone) & ((uint64_t{1} << zone_bits) - 1);
  const auto add = [&](int n, int bits) { code = code << bits | static_cast<uint64_t>(n); };
  add(terms.unit == Unit::week ? terms.weekday : terms.day, day_bits);
  add(terms.month, month_bits);
  add(terms.minutes, minute_bits);
  add(static_cast<int>(terms.unit), unit_bits);
  return code;
}

bool is_sound(const Terms& terms) {
  const bool has_month = terms.unit == Unit::year;
  const bool has_day = terms.unit == Unit::year || terms.unit == Unit::month;
  return terms.unit <= Unit::year && terms.weekday >= 0 && terms.weekday <= 6 &&
         (terms.unit == Unit::week || terms.weekday == 0) && terms.minutes >= 0 &&
         terms.minutes < 1440 && (terms.unit != Unit::hour || terms.minutes == 0) &&
         terms.month >= 1 && terms.month <= 12 && (has_month || terms.month == 1) &&
         terms.day >= 1 && (has_day || terms.day == 1) &&
         terms.day <= (has_month ? base::month_days(2000, terms.month) : 31);
}

// Terms without a zone.
std::optional<Terms> terms_of(uint64_t code) {
  const auto take = [&](int bits) {
    const auto n = static_cast<int>(code & ((uint64_t{1} << bits) - 1));
    code >>= bits;
    return n;
  };
  const int unit = take(unit_bits);
  Terms terms{.unit = static_cast<Unit>(unit), .zone = {}};
  terms.minutes = take(minute_bits);
  terms.month = take(month_bits);
  const int day = take(day_bits);
  (terms.unit == Unit::week ? terms.weekday : terms.day) = day;
  if (unit > static_cast<int>(Unit::year) || !is_sound(terms) || code >> zone_bits != 0)
    return std::nullopt;
  return terms;
}

const TimeZone utc;

}  // namespace

struct Calendar::Registry {
  // What is known of a zone's data.
  struct Zone {
    std::string name;
    const TimeZone* data = nullptr;
    bool is_gone = false;  // the data that were read last lack it: no limit can name it any more
  };

  // Open addressing by code; written with the mutex, read without.
  static constexpr size_t places = 2 * base::bounds::calendars_max;
  static_assert((places & (places - 1)) == 0);
  std::array<std::atomic<Calendar*>, places> by_code{};

  std::atomic<bool> any_gone{false};  // a zone is (Zone::is_gone)

  std::mutex mutex;
  std::unordered_map<std::string_view, std::unique_ptr<Zone>> zones;  // by Zone::name
  // Each by the digest of its bytes, as long as the process: a thread may still read it.
  std::unordered_map<uint64_t, std::unique_ptr<const TimeZone>> kept;
  std::vector<std::unique_ptr<Calendar>> all;
  size_t brought = 0;
  std::optional<base::ZoneData> source;
  // The place of the code, which is empty if none has it.
  std::atomic<Calendar*>& place_of(uint64_t code) {
    size_t at = (code * 0x9E3779B97F4A7C15u >> 32) & (places - 1);
    for (;; at = (at + 1) & (places - 1)) {
      const Calendar* const there = by_code[at].load(std::memory_order_acquire);
      if (there == nullptr || there->code_ == code) return by_code[at];
    }
  }
  // With the mutex. Null: there are too many.
  Calendar* add(std::atomic<Calendar*>& place, const Terms& terms, uint64_t code, bool by_request) {
    if (all.size() >= base::bounds::calendars_max ||
        (by_request && brought >= base::bounds::calendars_brought_max))
      return nullptr;
    Terms own = terms;
    own.zone.clear();
    all.push_back(std::unique_ptr<Calendar>(new Calendar(own, code)));
    if (by_request) ++brought;
    place.store(all.back().get(), std::memory_order_release);
    return all.back().get();
  }
  // With the mutex.
  Zone& zone_named(const std::string& name) {
    if (const auto known = zones.find(name); known != zones.end()) return *known->second;
    auto made = std::make_unique<Zone>(Zone{name});
    Zone& zone = *made;
    zones.emplace(zone.name, std::move(made));
    return zone;
  }
  // Takes the mutex.
  bool is_gone(const std::string& name) {
    const std::lock_guard lock(mutex);
    const auto known = zones.find(name);
    return known != zones.end() && known->second->is_gone;
  }
  const TimeZone* keep(uint64_t digest, std::unique_ptr<const TimeZone> zone) {
    return kept.try_emplace(digest, std::move(zone)).first->second.get();
  }
  base::ZoneData source_now() {
    const std::lock_guard lock(mutex);
    if (!source) source = base::ZoneData::find({});
    return *source;
  }
};

namespace {

// A zone as its source has it; no zone: it has none.
struct ZoneRead {
  uint64_t digest = 0;
  std::unique_ptr<const TimeZone> zone;
};

ZoneRead read_zone(const base::ZoneData& source, std::string_view name) {
  if (name == utc_name) return {0, std::make_unique<const TimeZone>()};
  const std::string bytes = source.read(name);
  auto zone = TimeZone::parse(bytes);
  if (!zone) return {};
  return {base::digest(bytes), std::make_unique<const TimeZone>(*std::move(zone))};
}

}  // namespace

// Never destroyed: limits that outlive main's objects point into it.
Calendar::Registry& Calendar::registry() {
  static Registry& its = *new Registry;
  return its;
}

std::string_view Calendar::zone_name() const {
  const std::string* const name = zone_name_.load(std::memory_order_acquire);
  return name == nullptr ? std::string_view() : *name;
}

Terms Calendar::terms() const {
  Terms all = terms_;
  all.zone = zone_name();
  return all;
}

Calendar::Interned Calendar::intern(const Terms& terms, bool brought) {
  SLUICE_CHECK(is_sound(terms));
  Registry& all = registry();
  if (all.any_gone.load(std::memory_order_relaxed) && all.is_gone(terms.zone)) [[unlikely]]
    return {nullptr, Fault::unknown_zone};
  const uint64_t code = code_of(terms);
  if (Calendar* const known = all.place_of(code).load(std::memory_order_acquire);
      known != nullptr && known->is_resolved())
    return known->zone_name() == terms.zone ? Interned{known}
                                            : Interned{nullptr, Fault::like_another};
  if (!base::sound_zone_name(terms.zone)) return {nullptr, Fault::unknown_zone};
  ZoneRead read = read_zone(all.source_now(), terms.zone);
  if (read.zone == nullptr) return {nullptr, Fault::unknown_zone};

  const std::lock_guard lock(all.mutex);
  std::atomic<Calendar*>& place = all.place_of(code);
  Calendar* known = place.load(std::memory_order_relaxed);
  if (known == nullptr) known = all.add(place, terms, code, brought);
  if (known == nullptr) return {nullptr, Fault::too_many};
  Registry::Zone& zone = all.zone_named(terms.zone);
  if (known->zone_name().empty())
    known->zone_name_.store(&zone.name, std::memory_order_release);
  else if (known->zone_name() != terms.zone)
    return {nullptr, Fault::like_another};
  if (zone.data == nullptr) zone.data = all.keep(read.digest, std::move(read.zone));
  if (!known->is_resolved()) known->set_zone(zone.data);
  return {known};
}

const Calendar* Calendar::of_code(uint64_t code) {
  const auto terms = terms_of(code);
  if (!terms) return nullptr;
  Registry& all = registry();
  if (const Calendar* const known = all.place_of(code).load(std::memory_order_acquire))
    return known;
  const std::lock_guard lock(all.mutex);
  std::atomic<Calendar*>& place = all.place_of(code);
  Calendar* const known = place.load(std::memory_order_relaxed);
  return known != nullptr ? known : all.add(place, *terms, code, false);
}

const Calendar* Calendar::of_kept(const Terms& terms) {
  if (!is_sound(terms) || !base::sound_zone_name(terms.zone)) return nullptr;
  if (const Interned known = intern(terms); known.fault != Fault::unknown_zone)
    return known.calendar;
  const Calendar* const its = of_code(code_of(terms));
  if (its == nullptr) return nullptr;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  Calendar* const known = all.place_of(its->code_).load(std::memory_order_relaxed);
  if (known->zone_name().empty())
    known->zone_name_.store(&all.zone_named(terms.zone).name, std::memory_order_release);
  return known->zone_name() == terms.zone ? known : nullptr;
}

const TimeZone& Calendar::zone() const {
  const TimeZone* const its = zone_.load(std::memory_order_acquire);
  if (its != nullptr) return *its;
  return utc;
}

// A thread that looks up meanwhile may store a window of the data before; it notices (look_up).
void Calendar::set_zone(const TimeZone* zone) {
  zone_.store(zone);
  present_.store(0);
}

bool Calendar::use_zone_data(const std::string& folder) {
  Registry& all = registry();
  const base::ZoneData source = base::ZoneData::find(folder);
  if (!folder.empty() && !source.has_data()) return false;
  std::vector<std::string> names;
  {
    const std::lock_guard lock(all.mutex);
    for (const auto& [name, zone] : all.zones) names.emplace_back(name);
  }
  // Read without the lock, which a worker may want.
  std::vector<ZoneRead> read;
  for (const std::string& name : names) read.push_back(read_zone(source, name));
  const std::lock_guard lock(all.mutex);
  all.source = source;
  bool any_gone = false;
  for (size_t i = 0; i < names.size(); ++i) {
    Registry::Zone& zone = all.zone_named(names[i]);
    zone.is_gone = read[i].zone == nullptr;
    any_gone |= zone.is_gone;
    // A zone that is there no more keeps its data, for the limits that are in force.
    if (!zone.is_gone) zone.data = all.keep(read[i].digest, std::move(read[i].zone));
  }
  all.any_gone.store(any_gone, std::memory_order_relaxed);
  for (const auto& one : all.all) {
    const auto zone = all.zones.find(one->zone_name());
    if (zone == all.zones.end() || zone->second->data == nullptr ||
        zone->second->data == one->zone_.load(std::memory_order_relaxed))
      continue;
    one->set_zone(zone->second->data);
  }
  return true;
}

std::string Calendar::zone_data_text() {
  return registry().source_now().text();
}

std::string Calendar::zone_data_version() {
  return registry().source_now().version();
}

std::vector<std::string> Calendar::zones_near(std::string_view name) {
  return registry().source_now().names_near(name);
}

int64_t Calendar::start(const TimeZone& zone, int64_t number) const {
  int64_t days = 0;
  switch (terms_.unit) {
    case Unit::hour:
    case Unit::day:
      days = number;
      break;
    case Unit::week:
      days = number * 7 + 4 + terms_.weekday;  // day 4 was a Monday
      break;
    case Unit::month: {
      const int64_t year = floor_div(number, 12);
      const auto month = static_cast<int>(number - year * 12) + 1;
      days = base::days_of(year, month, std::min(terms_.day, base::month_days(year, month)));
      break;
    }
    case Unit::year:
      days = base::days_of(number, terms_.month,
                           std::min(terms_.day, base::month_days(number, terms_.month)));
      break;
  }
  return zone.when_shown(days * day_s + int64_t{terms_.minutes} * 60);
}

// The last that starts at or before the instant.
int64_t Calendar::number_of(const TimeZone& zone, int64_t instant) const {
  const int64_t days = floor_div(instant + zone.at(instant).offset, day_s);
  int64_t number = 0;
  switch (terms_.unit) {
    case Unit::hour:
    case Unit::day:
      number = days;
      break;
    case Unit::week:
      number = floor_div(days - 4 - terms_.weekday, 7);
      break;
    case Unit::month: {
      const base::YearMonth at = base::month_of(days);
      number = at.year * 12 + at.month - 1;
      break;
    }
    case Unit::year:
      number = base::month_of(days).year;
      break;
  }
  while (start(zone, number) > instant) --number;
  while (start(zone, number + 1) <= instant) ++number;
  return number;
}

Calendar::Window Calendar::hour_of(const TimeZone& zone, int64_t instant) const {
  const auto last_full = [](const TimeZone::Period& in, int64_t at) {
    return floor_div(at + in.offset, hour_s) * hour_s - in.offset;
  };
  TimeZone::Period in = zone.at(instant);
  int64_t begin = last_full(in, instant);
  for (int64_t at = instant; begin < in.begin; begin = last_full(in, at)) {
    at = in.begin - 1;
    in = zone.at(at);
  }
  in = zone.at(instant);
  int64_t end = last_full(in, instant) + hour_s;
  while (end >= in.end) {
    const int64_t at = in.end;
    in = zone.at(at);
    end = last_full(in, at);
    if (end < at) end += hour_s;
  }
  return {begin, end};
}

Calendar::Window Calendar::find(const TimeZone& zone, base::Time at) const {
  const int64_t instant = floor_div(at.us, second_us);
  if (instant < first_s) return {INT64_MIN, first_s * second_us};
  if (instant >= last_s) return {last_s * second_us, INT64_MAX};
  Window window;
  if (terms_.unit == Unit::hour) {
    window = hour_of(zone, instant);
  } else {
    const int64_t number = number_of(zone, instant);
    window = {start(zone, number), start(zone, number + 1)};
  }
  return {std::max(window.start_us, first_s) * second_us,
          std::min(window.end_us, last_s) * second_us};
}

Calendar::Window Calendar::find(base::Time at) const {
  return find(zone(), at);
}

Calendar::Window Calendar::look_up(base::Time now) const {
  for (;;) {
    const TimeZone* const its = zone_.load();
    const Window window = find(its == nullptr ? utc : *its, now);
    if (window.start_us == INT64_MIN || window.end_us == INT64_MAX) return window;
    const uint64_t length = static_cast<uint64_t>(window.end_us - window.start_us) / second_us;
    present_.store(static_cast<uint64_t>(window.start_us / second_us) << length_bits | length);
    if (zone_.load() == its) return window;
    present_.store(0);
  }
}

int64_t Calendar::later_end_us(base::Time now, int64_t count) const {
  const TimeZone& its = zone();
  int64_t end_us = find(its, now).end_us;
  if (count <= 0 || end_us == INT64_MAX) return end_us;
  const int64_t years_max = 10'000;
  if (terms_.unit == Unit::hour) {
    if (count > years_max * 366 * 24) return INT64_MAX;
    return find(its, {end_us + (count - 1) * hour_s * second_us}).end_us;
  }
  if (count > years_max * 366) return INT64_MAX;
  const int64_t number = number_of(its, floor_div(now.us, second_us)) + 1 + count;
  const int64_t most = terms_.unit == Unit::year    ? 9'999
                       : terms_.unit == Unit::month ? 9'999 * 12
                       : terms_.unit == Unit::week  ? last_s / day_s / 7
                                                    : last_s / day_s;
  return number >= most ? INT64_MAX : start(its, number) * second_us;
}

base::Duration Calendar::nominal(Unit unit) {
  constexpr std::array<int64_t, 5> hours = {1, 24, 7 * 24, 30 * 24, 365 * 24};
  return base::seconds(hours[static_cast<size_t>(unit)] * hour_s);
}

std::string_view name_of(Unit unit) {
  return unit_names[static_cast<size_t>(unit)];
}

std::optional<Unit> calendar_unit(std::string_view name) {
  const auto* const at = std::find(unit_names.begin(), unit_names.end(), name);
  if (at == unit_names.end()) return std::nullopt;
  return static_cast<Unit>(at - unit_names.begin());
}

namespace {

std::string two_digits(int n) {
  return {static_cast<char>('0' + n / 10), static_cast<char>('0' + n % 10)};
}

std::string clock_text(int minutes) {
  return two_digits(minutes / 60) + ":" + two_digits(minutes % 60);
}

// "DD?DD" with `between` in the middle.
bool two_numbers(std::string_view text, char between, int& first, int& second) {
  if (text.size() != 5 || text[2] != between) return false;
  for (const size_t i : {size_t{0}, size_t{1}, size_t{3}, size_t{4}})
    if (text[i] < '0' || text[i] > '9') return false;
  first = (text[0] - '0') * 10 + text[1] - '0';
  second = (text[3] - '0') * 10 + text[4] - '0';
  return true;
}

bool small_number(std::string_view text, int most, int& n) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc() && end == text.data() + text.size() && n >= 1 && n <= most;
}

std::string in_ticks(std::string_view text) {
  constexpr size_t most = 64;
  return "`" + std::string(text.substr(0, most)) + (text.size() > most ? "...`" : "`");
}

bool is_of(Unit unit, std::string_view key) {
  if (key == "week_starts") return unit == Unit::week;
  if (key == "month_day") return unit == Unit::month;
  if (key == "year_day") return unit == Unit::year;
  return key != "starts_at" || unit != Unit::hour;
}

std::string windows_of(std::string_view key) {
  std::string all;
  for (size_t i = 0; i < unit_names.size(); ++i)
    if (is_of(static_cast<Unit>(i), key))
      all += (all.empty() ? "`window: " : ", `") + std::string(unit_names[i]) + "`";
  return all;
}

}  // namespace

std::optional<std::string_view>* CalendarWords::find(std::string_view key) {
  std::optional<std::string_view>* const all[] = {&time_zone, &week_starts, &month_day, &year_day,
                                                  &starts_at};
  for (size_t i = 0; i < std::size(calendar_keys); ++i)
    if (calendar_keys[i] == key) return all[i];
  return nullptr;
}

std::string_view CalendarWords::first() const {
  CalendarWords copy = *this;
  for (const std::string_view key : calendar_keys)
    if (copy.find(key)->has_value()) return key;
  return {};
}

std::optional<CalendarProblem> read_calendar(Unit unit, const CalendarWords& words, Terms& terms) {
  CalendarWords copy = words;
  for (const std::string_view key : calendar_keys)
    if (copy.find(key)->has_value() && !is_of(unit, key))
      return CalendarProblem{
          key, "belongs to " + windows_of(key) + ", and this is " + in_ticks(name_of(unit)),
          "take it out"};
  terms = {.unit = unit};
  if (words.time_zone) {
    if (!base::sound_zone_name(*words.time_zone))
      return CalendarProblem{"time_zone", in_ticks(*words.time_zone) + " cannot name a time zone",
                             "write a name of the IANA data, as in `Europe/Berlin`, or `UTC`"};
    terms.zone = *words.time_zone;
  }
  if (words.week_starts) {
    const auto* const at =
        std::find(weekday_names.begin(), weekday_names.end(), *words.week_starts);
    if (at == weekday_names.end())
      return CalendarProblem{"week_starts",
                             in_ticks(*words.week_starts) + " is not a day of a week",
                             "write `monday`, `tuesday`, `wednesday`, `thursday`, `friday`, "
                             "`saturday` or `sunday`"};
    terms.weekday = static_cast<int>(at - weekday_names.begin());
  }
  if (words.month_day && !small_number(*words.month_day, 31, terms.day))
    return CalendarProblem{"month_day", in_ticks(*words.month_day) + " is not a day of a month",
                           "write 1 to 31; past the end of a month it is its last day"};
  if (words.year_day &&
      (!two_numbers(*words.year_day, '-', terms.month, terms.day) || terms.month < 1 ||
       terms.month > 12 || terms.day < 1 || terms.day > base::month_days(2000, terms.month)))
    return CalendarProblem{"year_day", in_ticks(*words.year_day) + " is not a day of a year",
                           "write month and day with two digits each, as in `04-06`"};
  if (words.starts_at) {
    int hours = 0, minutes = 0;
    if (!two_numbers(*words.starts_at, ':', hours, minutes) || hours > 23 || minutes > 59)
      return CalendarProblem{"starts_at", in_ticks(*words.starts_at) + " is not a time of day",
                             "write hours and minutes from `00:00` to `23:59`"};
    terms.minutes = hours * 60 + minutes;
  }
  return std::nullopt;
}

std::optional<CalendarProblem> beside_length(const CalendarWords& words) {
  const std::string_view key = words.first();
  if (key.empty()) return std::nullopt;
  return CalendarProblem{key,
                         "belongs to a window of the calendar, and this one is a length of time",
                         "take it out, or write " + windows_of(key)};
}

CalendarProblem problem_of(Calendar::Fault fault, const Terms& terms, bool near) {
  if (fault == Calendar::Fault::like_another)
    return {"time_zone", in_ticks(terms.zone) + " cannot be told from another time zone in use",
            "use another name of it"};
  if (fault == Calendar::Fault::too_many)
    return {"time_zone",
            "there are more than " + std::to_string(base::bounds::calendars_max) +
                " different windows of the calendar in this process",
            "use fewer, and start it again"};
  const std::string source = Calendar::zone_data_text();
  if (source == "none")
    return {"time_zone", "there are no data of time zones, so only `UTC` is known",
            "install tzdata, or name its folder in $TZDIR"};
  std::string remedy;
  if (near)
    for (const std::string& one : Calendar::zones_near(terms.zone))
      remedy += (remedy.empty() ? "did you mean " : " or ") + in_ticks(one);
  if (!remedy.empty()) remedy += "?";
  if (remedy.empty()) remedy = "write a name of the IANA data, as in `Europe/Berlin`, or `UTC`";
  return {"time_zone",
          in_ticks(terms.zone) + " is not a time zone of the data in use (" + source + ")",
          std::move(remedy)};
}

std::vector<std::pair<std::string_view, std::string>> Calendar::members() const {
  std::vector<std::pair<std::string_view, std::string>> all;
  if (zone_name() != utc_name) all.emplace_back("time_zone", zone_name());
  if (terms_.weekday != 0)
    all.emplace_back("week_starts", weekday_names[static_cast<size_t>(terms_.weekday)]);
  if (terms_.unit == Unit::month && terms_.day != 1)
    all.emplace_back("month_day", std::to_string(terms_.day));
  if (terms_.unit == Unit::year && (terms_.month != 1 || terms_.day != 1))
    all.emplace_back("year_day", two_digits(terms_.month) + "-" + two_digits(terms_.day));
  if (terms_.minutes != 0) all.emplace_back("starts_at", clock_text(terms_.minutes));
  return all;
}

std::string Calendar::text() const {
  std::string text = std::string(name_of(terms_.unit)) + "@" + std::string(zone_name());
  for (const auto& [key, value] : members())
    if (key != calendar_keys[0]) text += "," + std::string(key) + "=" + value;
  return text;
}

std::optional<Terms> parse_calendar(std::string_view text) {
  const auto cut = [&text](std::string_view at) {
    const size_t end = std::min(text.find_first_of(at), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(end);
    return part;
  };
  const auto unit = calendar_unit(cut("@,"));
  if (!unit) return std::nullopt;
  CalendarWords words;
  if (text.starts_with('@')) {
    text.remove_prefix(1);
    words.time_zone = cut(",");
  }
  while (!text.empty()) {
    text.remove_prefix(1);
    const std::string_view word = cut(",");
    const size_t equals = word.find('=');
    if (equals == word.npos) return std::nullopt;
    auto* const value = words.find(word.substr(0, equals));
    if (value == nullptr || value->has_value()) return std::nullopt;
    *value = word.substr(equals + 1);
  }
  Terms terms;
  if (read_calendar(*unit, words, terms)) return std::nullopt;
  return terms;
}

}  // namespace sluice::limit
