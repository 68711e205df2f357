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
#include "base/time_zone.h"
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

// What a code has of a zone's name, and that of a code.
uint64_t zone_digest(std::string_view name) {
  return base::digest(name) & ((uint64_t{1} << zone_bits) - 1);
}
uint64_t zone_digest(uint64_t code) {
  return code >> (Calendar::code_bits - zone_bits);
}

uint64_t code_of(const Terms& terms) {
  uint64_t code = zone_digest(terms.zone);
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
  struct Zone {
    Zone(const std::string& its_name, uint64_t its_digest) : name(its_name), digest(its_digest) {}
    const std::string name;
    const uint64_t digest;
    std::atomic<const TimeZone*> data{nullptr};  // null: none were ever read
    // The data that were read last lack it: no limit can name it any more. It keeps what it had,
    // for the limits that are in force.
    std::atomic<bool> is_gone{false};
  };

  // Open addressing by digest; written with the mutex, read without.
  static constexpr size_t places = 2 * base::bounds::zones_max;
  static_assert((places & (places - 1)) == 0);
  std::array<std::atomic<Zone*>, places> by_digest{};
  std::atomic<bool> has_all{false};  // it knows all zones of the source
  std::atomic<bool> is_used{false};  // Calendar::has_used_zones

  std::mutex mutex;
  std::vector<std::unique_ptr<Zone>> zones;
  // Each by the digest of its bytes, as long as the process: a thread may still read it.
  std::unordered_map<uint64_t, std::unique_ptr<const TimeZone>> kept;
  std::optional<base::ZoneData> source;

  Registry() { add(std::string(utc_name))->data.store(&utc, std::memory_order_relaxed); }

  // The place of the digest, which is empty if none has it.
  std::atomic<Zone*>& place_of(uint64_t digest) {
    for (size_t at = digest & (places - 1);; at = (at + 1) & (places - 1)) {
      const Zone* const there = by_digest[at].load(std::memory_order_acquire);
      if (there == nullptr || there->digest == digest) return by_digest[at];
    }
  }
  Zone* find(uint64_t digest) { return place_of(digest).load(std::memory_order_acquire); }
  // With the mutex. Null: there are too many. The one that it returns may have another name.
  Zone* add(const std::string& name) {
    const uint64_t digest = zone_digest(name);
    std::atomic<Zone*>& place = place_of(digest);
    if (Zone* const known = place.load(std::memory_order_relaxed)) return known;
    if (zones.size() >= base::bounds::zones_max) return nullptr;
    zones.push_back(std::make_unique<Zone>(name, digest));
    place.store(zones.back().get(), std::memory_order_release);
    return zones.back().get();
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
  const std::string bytes = source.read(name);
  auto zone = TimeZone::parse(bytes);
  if (!zone) return {};
  return {base::digest(bytes), std::make_unique<const TimeZone>(*std::move(zone))};
}

}  // namespace

// Never destroyed: threads may outlive main's objects.
Calendar::Registry& Calendar::registry() {
  static Registry& its = *new Registry;
  return its;
}

std::string_view Calendar::zone_name() const {
  const Registry::Zone* const zone = registry().find(zone_digest(code_));
  return zone == nullptr ? std::string_view() : zone->name;
}

Terms Calendar::terms() const {
  Terms all = *terms_of(code_);
  all.zone = zone_name();
  return all;
}

Calendar::Made Calendar::of(const Terms& terms) {
  SLUICE_CHECK(is_sound(terms));
  const Calendar its(code_of(terms));
  Registry& all = registry();
  Registry::Zone* zone = all.find(zone_digest(its.code_));
  if (zone != nullptr) {
    if (zone->name != terms.zone) return {{}, Fault::like_another};
    if (zone->is_gone.load(std::memory_order_relaxed)) return {{}, Fault::unknown_zone};
    if (zone->data.load(std::memory_order_acquire) != nullptr) {
      if (zone->name != utc_name) all.is_used.store(true, std::memory_order_relaxed);
      return {its};
    }
  }
  if (all.has_all.load(std::memory_order_relaxed) || !base::sound_zone_name(terms.zone))
    return {{}, Fault::unknown_zone};
  ZoneRead read = read_zone(all.source_now(), terms.zone);
  if (read.zone == nullptr) return {{}, Fault::unknown_zone};

  const std::lock_guard lock(all.mutex);
  zone = all.add(terms.zone);
  if (zone == nullptr) return {{}, Fault::too_many_zones};
  if (zone->name != terms.zone) return {{}, Fault::like_another};
  if (zone->data.load(std::memory_order_relaxed) == nullptr)
    zone->data.store(all.keep(read.digest, std::move(read.zone)), std::memory_order_release);
  all.is_used.store(true, std::memory_order_relaxed);
  return {its};
}

Calendar Calendar::of_code(uint64_t code) {
  return terms_of(code) ? Calendar(code) : Calendar();
}

Calendar Calendar::of_kept(const Terms& terms) {
  if (!is_sound(terms) || !base::sound_zone_name(terms.zone)) return {};
  if (const Made made = of(terms); made.fault != Fault::unknown_zone) return made.calendar;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const Registry::Zone* const zone = all.add(terms.zone);
  return zone != nullptr && zone->name == terms.zone ? Calendar(code_of(terms)) : Calendar();
}

bool Calendar::use_zone_data(const std::string& folder, bool all_zones) {
  Registry& all = registry();
  const base::ZoneData source = base::ZoneData::find(folder);
  if (!folder.empty() && !source.has_data()) return false;
  std::vector<std::string> names;
  if (all_zones) names = source.names();
  {
    const std::lock_guard lock(all.mutex);
    for (const auto& zone : all.zones) names.push_back(zone->name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::erase(names, utc_name);
  // Read without the lock, which a worker may want.
  std::vector<ZoneRead> read;
  for (const std::string& name : names) read.push_back(read_zone(source, name));
  const std::lock_guard lock(all.mutex);
  all.source = source;
  bool is_other = false;
  for (size_t i = 0; i < names.size(); ++i) {
    const bool is_there = read[i].zone != nullptr;
    Registry::Zone* const zone = is_there ? all.add(names[i]) : all.find(zone_digest(names[i]));
    if (zone == nullptr || zone->name != names[i]) continue;
    zone->is_gone.store(!is_there, std::memory_order_relaxed);
    if (!is_there) continue;
    const TimeZone* const data = all.keep(read[i].digest, std::move(read[i].zone));
    is_other |= zone->data.exchange(data, std::memory_order_acq_rel) != data;
  }
  all.has_all.store(all_zones, std::memory_order_relaxed);
  if (!is_other) return true;
  // In this order: a thread that looks up meanwhile, by data of before, leaves a window of the
  // epoch of before.
  epoch_.fetch_add(uint64_t{1} << code_bits, std::memory_order_release);
  for (Present& place : present_) place.whose.store(0, std::memory_order_relaxed);
  return true;
}

std::string Calendar::zone_data_text() {
  return registry().source_now().text();
}

std::string Calendar::zone_data_version() {
  return registry().source_now().version();
}

bool Calendar::has_used_zones() {
  return registry().is_used.load(std::memory_order_relaxed);
}

bool Calendar::has_zone_data(std::string_view name) {
  return !registry().source_now().read(name).empty();
}

std::vector<std::string> Calendar::zones_near(std::string_view name) {
  return registry().source_now().names_near(name);
}

namespace {

// Starts are numbered: by day, week, month or year. As an instant.
int64_t start(const Terms& terms, const TimeZone& zone, int64_t number) {
  int64_t days = 0;
  switch (terms.unit) {
    case Unit::hour:
    case Unit::day:
      days = number;
      break;
    case Unit::week:
      days = number * 7 + 4 + terms.weekday;  // day 4 was a Monday
      break;
    case Unit::month: {
      const int64_t year = floor_div(number, 12);
      const auto month = static_cast<int>(number - year * 12) + 1;
      days = base::days_of(year, month, std::min(terms.day, base::month_days(year, month)));
      break;
    }
    case Unit::year:
      days = base::days_of(number, terms.month,
                           std::min(terms.day, base::month_days(number, terms.month)));
      break;
  }
  return zone.when_shown(days * day_s + int64_t{terms.minutes} * 60);
}

// The last that starts at or before the instant.
int64_t number_of(const Terms& terms, const TimeZone& zone, int64_t instant) {
  const int64_t days = floor_div(instant + zone.at(instant).offset, day_s);
  int64_t number = 0;
  switch (terms.unit) {
    case Unit::hour:
    case Unit::day:
      number = days;
      break;
    case Unit::week:
      number = floor_div(days - 4 - terms.weekday, 7);
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
  while (start(terms, zone, number) > instant) --number;
  while (start(terms, zone, number + 1) <= instant) ++number;
  return number;
}

// In seconds.
Calendar::Window hour_of(const TimeZone& zone, int64_t instant) {
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

Calendar::Window find_in(const Terms& terms, const TimeZone& zone, base::Time at) {
  const int64_t instant = floor_div(at.us, second_us);
  if (instant < first_s) return {INT64_MIN, first_s * second_us};
  if (instant >= last_s) return {last_s * second_us, INT64_MAX};
  Calendar::Window window;
  if (terms.unit == Unit::hour) {
    window = hour_of(zone, instant);
  } else {
    const int64_t number = number_of(terms, zone, instant);
    window = {start(terms, zone, number), start(terms, zone, number + 1)};
  }
  return {std::max(window.start_us, first_s) * second_us,
          std::min(window.end_us, last_s) * second_us};
}

}  // namespace

// The data of the calendar's zone; those of UTC where it has none.
const TimeZone& Calendar::zone() const {
  const Registry::Zone* const its = registry().find(zone_digest(code_));
  const TimeZone* const data = its == nullptr ? nullptr : its->data.load(std::memory_order_acquire);
  if (data == nullptr) return utc;
  return *data;
}

Calendar::Window Calendar::find(base::Time at) const {
  return find_in(*terms_of(code_), zone(), at);
}

Calendar::Window Calendar::look_up(base::Time now) const {
  const uint64_t epoch = epoch_.load(std::memory_order_acquire);
  const Window window = find(now);
  if (window.start_us == INT64_MIN || window.end_us == INT64_MAX) return window;
  const uint64_t length = static_cast<uint64_t>(window.end_us - window.start_us) / second_us;
  const uint64_t present =
      static_cast<uint64_t>(window.start_us / second_us) << length_bits | length;
  const uint64_t name = name_in(epoch);
  Present& place = present_[name >> place_shift];
  place.window.store(present, std::memory_order_relaxed);
  place.whose.store(name ^ present, std::memory_order_relaxed);
  return window;
}

int64_t Calendar::later_end_us(base::Time now, int64_t count) const {
  const TimeZone& its = zone();
  const Terms terms = *terms_of(code_);
  int64_t end_us = find_in(terms, its, now).end_us;
  if (count <= 0 || end_us == INT64_MAX) return end_us;
  const int64_t years_max = 10'000;
  if (terms.unit == Unit::hour) {
    if (count > years_max * 366 * 24) return INT64_MAX;
    return find_in(terms, its, {end_us + (count - 1) * hour_s * second_us}).end_us;
  }
  if (count > years_max * 366) return INT64_MAX;
  const int64_t number = number_of(terms, its, floor_div(now.us, second_us)) + 1 + count;
  const int64_t most = terms.unit == Unit::year    ? 9'999
                       : terms.unit == Unit::month ? 9'999 * 12
                       : terms.unit == Unit::week  ? last_s / day_s / 7
                                                   : last_s / day_s;
  return number >= most ? INT64_MAX : start(terms, its, number) * second_us;
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
  if (fault == Calendar::Fault::too_many_zones)
    return {"time_zone",
            "there are more than " + std::to_string(base::bounds::zones_max) +
                " time zones in this process",
            "use fewer, and start it again"};
  const std::string source = Calendar::zone_data_text();
  if (source == "none")
    return {"time_zone", "there are no data of time zones, so only `UTC` is known",
            "install tzdata, or name its folder in $TZDIR"};
  if (near && Calendar::has_zone_data(terms.zone))
    return {"time_zone",
            "the data of " + in_ticks(terms.zone) + " in use (" + source + ") are not valid",
            "install them again"};
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
  const Terms its = *terms_of(code_);
  if (zone_name() != utc_name) all.emplace_back("time_zone", zone_name());
  if (its.weekday != 0)
    all.emplace_back("week_starts", weekday_names[static_cast<size_t>(its.weekday)]);
  if (its.unit == Unit::month && its.day != 1)
    all.emplace_back("month_day", std::to_string(its.day));
  if (its.unit == Unit::year && (its.month != 1 || its.day != 1))
    all.emplace_back("year_day", two_digits(its.month) + "-" + two_digits(its.day));
  if (its.minutes != 0) all.emplace_back("starts_at", clock_text(its.minutes));
  return all;
}

std::string Calendar::text() const {
  std::string text = std::string(name_of(unit())) + "@" + std::string(zone_name());
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
