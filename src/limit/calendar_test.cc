// Windows of the calendar: the recorded ones, all that a policy may say, windows side by side
// without a gap, zone data that are exchanged, codes, many at once.
#include "limit/calendar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/rfc3339.h"
#include "base/zone_data.h"
#include "limit/aligned_window.h"
#include "limit/carry_list.h"
#include "limit/shown.h"
#include "testing/zone_folder.h"
#include "tests/support/dice.h"
#include "tests/support/paths.h"

namespace sluice::limit::calendar_test {
namespace {

using nlohmann::json;
using Unit = Calendar::Unit;

constexpr int64_t second = 1'000'000, hour = 3600 * second, day = 24 * hour;

Calendar calendar(std::string_view text) {
  const auto terms = parse_calendar(text);
  EXPECT_TRUE(terms) << text;
  if (!terms) return {};
  const Calendar::Made its = Calendar::of(*terms);
  EXPECT_TRUE(its.calendar) << text << ": " << problem_of(its.fault, *terms, true).message;
  return its.calendar;
}

Limit limit_of(Calendar its, int64_t quota) {
  return {Algorithm::aligned_window, quota, Calendar::nominal(its.unit()), 0, its};
}

int64_t at(std::string_view text) {
  const auto time = base::parse_rfc3339(text);
  EXPECT_TRUE(time) << text;
  return time.value_or(Time{}).us;
}

std::string shown(Calendar::Window window) {
  return base::format_rfc3339({window.start_us}) + " " + base::format_rfc3339({window.end_us});
}

// tests/conformance/calendar.json.
TEST(CalendarVectors, TheRecordedWindows) {
  std::ifstream file(tests::source_path("tests/conformance/calendar.json"));
  const json all = json::parse(file);
  size_t cases = 0;
  for (const json& one : all.at("cases")) {
    std::string text = one.at("window");
    text += "@" + one.value("time_zone", "UTC");
    for (const char* key : {"week_starts", "year_day", "starts_at"})
      if (one.contains(key)) text += "," + std::string(key) + "=" + one.at(key).get<std::string>();
    if (one.contains("month_day")) text += ",month_day=" + one.at("month_day").dump();
    const Calendar its = calendar(text);
    ASSERT_TRUE(its);
    const Time now{at(one.at("at").get<std::string>())};
    const std::string expected =
        one.at("start").get<std::string>() + " " + one.at("end").get<std::string>();
    EXPECT_EQ(shown(its.window(now)), expected) << one;
    EXPECT_EQ(shown(its.find(now)), expected) << one;
    // In the engine's words.
    State state;
    const Outcome taken = aligned_window::decide(state, limit_of(its, 5), 2, now);
    EXPECT_EQ(taken.decision.reset_after.us, one.at("reset_after").get<int64_t>() * second) << one;
    EXPECT_EQ(limit::shown(limit_of(its, 5), now).window.us,
              one.at("length").get<int64_t>() * second);
    const Outcome refused = aligned_window::decide(taken.next, limit_of(its, 5), 4, now);
    EXPECT_EQ(refused.decision.retry_after, taken.decision.reset_after) << one;
    ++cases;
  }
  EXPECT_EQ(cases, 44u);
}

TEST(Calendar, WindowsLieSideBySide) {
  for (const char* text :
       {"hour@Australia/Lord_Howe", "hour@Asia/Kathmandu", "day@Pacific/Apia",
        "day@America/Sao_Paulo", "day@Europe/Berlin,starts_at=02:30", "week@Africa/Casablanca",
        "week@UTC,week_starts=sunday,starts_at=23:59", "month@Pacific/Kiritimati,month_day=31",
        "month@Africa/Monrovia,month_day=30,starts_at=12:00", "year@UTC,year_day=02-29",
        "year@Europe/Dublin,year_day=04-06"}) {
    const Calendar its = calendar(text);
    ASSERT_TRUE(its);
    int64_t now = 0;
    for (size_t i = 0; i < 2'000 && now < 130 * 365 * day; ++i) {
      const Calendar::Window window = its.find({now});
      ASSERT_LE(window.start_us, now) << text;
      ASSERT_GT(window.end_us, now) << text;
      EXPECT_EQ(shown(its.find({window.end_us - 1})), shown(window)) << text;
      EXPECT_EQ(shown(its.find({window.start_us})), shown(window)) << text;
      EXPECT_EQ(its.find({window.end_us}).start_us, window.end_us) << text;
      EXPECT_EQ(its.later_end_us({now}, 0), window.end_us);
      now = window.end_us;
    }
  }
}

// A day that the zone skipped, 2011-12-30, and one of 90 minutes in an hour's place.
TEST(Calendar, ASkippedDayIsNoWindow) {
  const Calendar apia = calendar("day@Pacific/Apia");
  EXPECT_EQ(shown(apia.find({at("2011-12-30T09:59:59Z")})),
            "2011-12-29T10:00:00Z 2011-12-30T10:00:00Z");
  EXPECT_EQ(shown(apia.find({at("2011-12-30T10:00:00Z")})),
            "2011-12-30T10:00:00Z 2011-12-31T10:00:00Z");
  const Calendar howe = calendar("hour@Australia/Lord_Howe");
  EXPECT_EQ(shown(howe.find({at("2026-04-04T15:00:00Z")})),
            "2026-04-04T14:00:00Z 2026-04-04T15:30:00Z");
}

TEST(Calendar, LaterWindowsEndWhereTheyDo) {
  for (const char* text :
       {"day@Europe/Berlin", "week@Asia/Tokyo", "month@Europe/Berlin,month_day=9", "year@UTC"}) {
    const Calendar its = calendar(text);
    int64_t end = its.find({0}).end_us;
    for (int64_t count = 0; count < 60; ++count) {
      EXPECT_EQ(its.later_end_us({0}, count), end) << text << " " << count;
      end = its.find({end}).end_us;
    }
    EXPECT_EQ(its.later_end_us({0}, INT64_MAX), INT64_MAX);
  }
  EXPECT_EQ(calendar("hour@UTC").later_end_us({0}, 10), 11 * hour);
}

TEST(Calendar, TimesBeyondTheCalendar) {
  for (const char* text : {"hour@UTC", "month@Europe/Berlin", "year@Asia/Tokyo"}) {
    const Calendar its = calendar(text);
    for (const int64_t now :
         {INT64_MIN, INT64_MIN + 1, at("1970-01-01T00:00:00Z") - 2500 * 366 * day,
          8'100 * 366 * day, INT64_MAX - 1, INT64_MAX}) {
      const Calendar::Window window = its.window({now});
      EXPECT_LE(window.start_us, now);
      EXPECT_TRUE(now < window.end_us || window.end_us == INT64_MAX) << text << " " << now;
      const Outcome out = aligned_window::decide({}, limit_of(its, 3), 1, {now});
      EXPECT_TRUE(out.decision.allowed);
    }
  }
}

TEST(Calendar, TextsAreReadAsTheyAreWritten) {
  for (const char* text :
       {"hour@UTC", "day@Europe/Berlin", "day@UTC,starts_at=23:59", "week@UTC,week_starts=sunday",
        "month@Asia/Tokyo,month_day=15,starts_at=06:00", "year@Europe/London,year_day=04-06"})
    EXPECT_EQ(calendar(text).text(), text);
  EXPECT_EQ(calendar("month").text(), "month@UTC");
  EXPECT_EQ(calendar("month,month_day=1,starts_at=00:00"), calendar("month@UTC"));
  for (const char* text : {"", "minute", "month@", "month@a b", "month@UTC,", "month@UTC,month_day",
                           "month@UTC,month_day=0", "month@UTC,month_day=32", "month@UTC,day=1",
                           "month@UTC,month_day=9,month_day=9", "hour@UTC,starts_at=00:00",
                           "day@UTC,week_starts=monday", "year@UTC,year_day=02-30",
                           "year@UTC,year_day=2-3", "day@UTC,starts_at=24:00", "Month@UTC"})
    EXPECT_FALSE(parse_calendar(text)) << text;
}

TEST(Calendar, EveryKeyBelongsToItsWindows) {
  for (const std::string_view key : calendar_keys) {
    for (const Unit unit : {Unit::hour, Unit::day, Unit::week, Unit::month, Unit::year}) {
      const bool fits = key == "time_zone"     ? true
                        : key == "week_starts" ? unit == Unit::week
                        : key == "month_day"   ? unit == Unit::month
                        : key == "year_day"    ? unit == Unit::year
                                               : unit != Unit::hour;
      CalendarWords words;
      *words.find(key) = key == "time_zone"     ? "UTC"
                         : key == "week_starts" ? "friday"
                         : key == "month_day"   ? "9"
                         : key == "year_day"    ? "04-06"
                                                : "06:00";
      Calendar::Terms terms;
      const auto problem = read_calendar(unit, words, terms);
      EXPECT_EQ(!problem, fits) << key << " " << name_of(unit);
      if (problem) {
        EXPECT_EQ(problem->key, key);
      }
      EXPECT_EQ(words.first(), key);
      EXPECT_EQ(beside_length(words)->key, key);
    }
  }
  EXPECT_FALSE(beside_length({}));
}

TEST(Calendar, AnUnknownZoneIsRefusedWithNamesLikeIt) {
  const auto terms = *parse_calendar("day@Europe/Berln");
  EXPECT_EQ(Calendar::of(terms).fault, Calendar::Fault::unknown_zone);
  const CalendarProblem problem = problem_of(Calendar::Fault::unknown_zone, terms, true);
  EXPECT_EQ(problem.key, "time_zone");
  EXPECT_NE(problem.message.find("`Europe/Berln` is not a time zone"), std::string::npos);
  EXPECT_EQ(problem.remedy, "did you mean `Europe/Berlin`?");
}

// No two zones of the data have one code, and a code alone finds the same object.
TEST(Calendar, CodesTellAllZonesApart) {
  std::map<uint64_t, std::string> codes;
  const std::vector<std::string> names = base::ZoneData::find({}).names();
  ASSERT_GT(names.size(), 400u);
  for (const std::string& name : names) {
    const Calendar its = calendar("month@" + name + ",month_day=31,starts_at=23:59");
    ASSERT_TRUE(its);
    EXPECT_TRUE(codes.emplace(its.code(), name).second) << name << " " << codes[its.code()];
    EXPECT_LT(its.code(), uint64_t{1} << Calendar::code_bits);
    EXPECT_EQ(Calendar::of_code(its.code()), its);
  }
  EXPECT_FALSE(Calendar::of_code(UINT64_MAX));
  EXPECT_FALSE(Calendar::of_code(7));  // no unit
}

// A code that a store kept is all that is needed, also where its zone has no name here.
TEST(Calendar, ACodeIsACalendar) {
  const Calendar known = calendar("day@Asia/Tokyo,starts_at=11:11");
  // The minutes are above the three bits of the unit.
  EXPECT_EQ(Calendar::of_code(known.code() + (uint64_t{1} << 3)),
            calendar("day@Asia/Tokyo,starts_at=11:12"));
  const Calendar nameless = Calendar::of_code(known.code() ^ uint64_t{1} << 40);
  ASSERT_TRUE(nameless);
  EXPECT_EQ(nameless.zone_name(), "");
  EXPECT_EQ(nameless.unit(), Unit::day);
  EXPECT_EQ(nameless.terms().minutes, 671);
  EXPECT_EQ(shown(nameless.window({0})), "1969-12-31T11:11:00Z 1970-01-01T11:11:00Z");
}

TEST(Calendar, OneOfAZoneThatIsNotThereIsKept) {
  Calendar::Terms terms = *parse_calendar("day@Europe/Atlantis");
  const Calendar its = Calendar::of_kept(terms);
  ASSERT_TRUE(its);
  EXPECT_EQ(its.text(), "day@Europe/Atlantis");
  EXPECT_EQ(shown(its.window({0})), "1970-01-01T00:00:00Z 1970-01-02T00:00:00Z");
  EXPECT_EQ(Calendar::of_kept(terms), its);
  EXPECT_EQ(Calendar::of(terms).fault, Calendar::Fault::unknown_zone);
}

// There are as many as anybody likes, more than there are places for present windows: each has its
// own window, also where threads look up at once.
TEST(Calendar, ManyAtOnceHaveTheirOwnWindows) {
  std::vector<Calendar> all;
  for (int i = 0; i < 20'000; ++i) {
    Calendar::Terms terms{.unit = Unit::year, .zone = i % 2 == 0 ? "Asia/Tokyo" : "UTC"};
    terms.month = 1 + i / 2 % 12;
    terms.day = 1 + i / 24 % 28;
    terms.minutes = i / 672;
    all.push_back(Calendar::of(terms).calendar);
    ASSERT_EQ(Calendar::of_code(all.back().code()), all.back());
    ASSERT_EQ(all.back().terms(), terms);
  }
  std::atomic<size_t> wrong{0};
  std::vector<std::thread> threads;
  for (uint32_t seed = 1; seed <= 4; ++seed)
    threads.emplace_back([&all, &wrong, seed] {
      std::minstd_rand dice(seed);
      for (int i = 0; i < 30'000; ++i) {
        const Calendar its = all[dice() % all.size()];
        const Time now{static_cast<int64_t>(dice() % 4) * 300 * day};
        const Calendar::Window is = its.window(now), expected = its.find(now);
        if (is.start_us != expected.start_us || is.end_us != expected.end_us) ++wrong;
      }
    });
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(wrong, 0u);
}

// Data that are exchanged: the windows are others at once, and a state counts in the window that
// contains the microsecond before its end.
TEST(CalendarData, AnExchangeMovesTheWindows) {
  const tests::ZoneFolder folder;
  using tests::WrittenZone;
  folder.put("tzdata.zi", "# version 2001a\nZ Test/Moving 0 - X\n");
  folder.put("UTC", WrittenZone{.footer = "UTC0"}.text());
  folder.put("Test/Moving", WrittenZone{.offsets = {7200}, .footer = "AAA-2"}.text());
  ASSERT_TRUE(Calendar::use_zone_data(folder.path()));
  EXPECT_EQ(Calendar::zone_data_text(), "2001a, " + folder.path());
  const Calendar its = calendar("day@Test/Moving");
  const int64_t noon = at("2026-06-01T12:00:00Z");
  EXPECT_EQ(shown(its.window({noon})), "2026-05-31T22:00:00Z 2026-06-01T22:00:00Z");
  const Limit limit = limit_of(its, 10);
  const State used = aligned_window::decide({}, limit, 7, {noon}).next;
  EXPECT_EQ(used, (State{at("2026-06-01T22:00:00Z"), 7}));

  folder.put("tzdata.zi", "# version 2001b\nZ Test/Moving 0 - X\n");
  folder.put("Test/Moving", WrittenZone{.offsets = {3600}, .footer = "AAA-1"}.text());
  ASSERT_TRUE(Calendar::use_zone_data(folder.path()));
  EXPECT_EQ(Calendar::zone_data_version(), "2001b");
  // Its end, 22:00, is in the window that ends at 23:00, also when that time has passed.
  for (const char* now : {"2026-06-01T12:00:00Z", "2026-06-01T22:30:00Z"}) {
    const Outcome out = aligned_window::decide(used, limit, 1, {at(now)});
    EXPECT_EQ(out.decision.remaining, 2) << now;
    EXPECT_EQ(out.next, (State{at("2026-06-01T23:00:00Z"), 8})) << now;
  }
  EXPECT_EQ(aligned_window::decide(used, limit, 1, {at("2026-06-01T23:00:00Z")}).decision.remaining,
            9);
  // Back: an end that is later than that of the window of now counts in that one.
  const State later = aligned_window::decide({}, limit, 4, {noon}).next;
  folder.put("Test/Moving", WrittenZone{.offsets = {7200}, .footer = "AAA-2"}.text());
  ASSERT_TRUE(Calendar::use_zone_data(folder.path()));
  EXPECT_EQ(aligned_window::decide(later, limit, 0, {noon}).next,
            (State{at("2026-06-01T22:00:00Z"), 4}));
  // It is of the day before 22:30 then, which is over.
  EXPECT_EQ(
      aligned_window::decide(later, limit, 0, {at("2026-06-01T22:30:00Z")}).decision.remaining, 6);

  // A zone that is there no more keeps its data, and a folder without data changes nothing.
  std::filesystem::remove(folder.path() + "/Test/Moving");
  ASSERT_TRUE(Calendar::use_zone_data(folder.path()));
  EXPECT_EQ(shown(its.window({noon})), "2026-05-31T22:00:00Z 2026-06-01T22:00:00Z");
  EXPECT_FALSE(Calendar::use_zone_data(folder.path() + "/Test"));
  EXPECT_EQ(Calendar::zone_data_text(), "2001b, " + folder.path());
  ASSERT_TRUE(Calendar::use_zone_data({}));
}

// Where all zones were read, none is read later: a file that comes afterwards is not known, until
// the data are read again. Files that are no zones, or not valid, are passed over.
TEST(CalendarData, AllZonesAreReadAtOnce) {
  const tests::ZoneFolder folder;
  using tests::WrittenZone;
  const std::string fine = WrittenZone{.offsets = {7200}, .footer = "AAA-2"}.text();
  folder.put("tzdata.zi", "# version 2001a\n");
  folder.put("UTC", WrittenZone{.footer = "UTC0"}.text());
  folder.put("Test/Fine", fine);
  folder.put("Test/Short", fine.substr(0, fine.size() / 2));
  folder.put("Test/Header", "TZif2");
  folder.put("Test/Text", "no zone");
  folder.put("Test/Empty", "");
  folder.put("posix/Test/Fine", fine);
  ASSERT_TRUE(Calendar::use_zone_data(folder.path(), true));
  folder.put("Test/Later", fine);
  EXPECT_TRUE(calendar("day@Test/Fine"));
  for (const char* text : {"day@Test/Short", "day@Test/Header", "day@Test/Text", "day@Test/Empty",
                           "day@Test/Later", "day@Test/None"})
    EXPECT_EQ(Calendar::of(*parse_calendar(text)).fault, Calendar::Fault::unknown_zone) << text;
  const auto said = [](const char* text) {
    const CalendarProblem its =
        problem_of(Calendar::Fault::unknown_zone, *parse_calendar(text), true);
    return its.message + "; " + its.remedy;
  };
  for (const char* zone : {"Short", "Header"})
    EXPECT_EQ(said(("day@Test/" + std::string(zone)).c_str()),
              "the data of `Test/" + std::string(zone) + "` in use (2001a, " + folder.path() +
                  ") are not valid; install them again");
  EXPECT_EQ(said("day@Test/Fin"), "`Test/Fin` is not a time zone of the data in use (2001a, " +
                                      folder.path() + "); did you mean `Test/Fine`?");
  ASSERT_TRUE(Calendar::use_zone_data(folder.path(), true));
  EXPECT_TRUE(calendar("day@Test/Later"));
  // A zone that is damaged later keeps what it had for limits in force, and no limit can name it.
  const Calendar its = calendar("day@Test/Fine");
  folder.put("Test/Fine", fine.substr(0, 60));
  ASSERT_TRUE(Calendar::use_zone_data(folder.path(), true));
  EXPECT_EQ(shown(its.find({0})), "1969-12-31T22:00:00Z 1970-01-01T22:00:00Z");
  EXPECT_EQ(Calendar::of(its.terms()).fault, Calendar::Fault::unknown_zone);
  ASSERT_TRUE(Calendar::use_zone_data({}));
}

// Every grant with the window that it was in.
struct Naive {
  Calendar calendar;
  struct Grant {
    int64_t end, units;
  };
  std::vector<Grant> grants = {};

  void see(int64_t now) {
    const Calendar::Window window = calendar.find({now});
    std::erase_if(grants, [&](const Grant& g) { return g.end <= window.start_us; });
    for (Grant& g : grants) g.end = std::min(g.end, window.end_us);
  }
  int64_t used() const {
    int64_t sum = 0;
    for (const Grant& g : grants) sum += g.units;
    return sum;
  }
  void add(int64_t units, int64_t now) {
    if (units > 0) grants.push_back({calendar.find({now}).end_us, units});
  }
  void put(int64_t units) {
    while (units > 0 && !grants.empty()) {
      const int64_t back = std::min(units, grants.back().units);
      units -= back;
      grants.back().units -= back;
      if (grants.back().units == 0) grants.pop_back();
    }
  }
};

TEST(CalendarModel, RandomSequencesMatchAListOfGrants) {
  tests::Dice dice(20261130);
  size_t granted = 0, refused = 0, ended = 0;
  for (const char* text :
       {"hour@Australia/Lord_Howe", "day@Europe/Berlin", "day@Pacific/Apia", "week@America/Havana",
        "month@Europe/Berlin,month_day=31", "year@UTC,year_day=02-29"}) {
    const Calendar its = calendar(text);
    for (int round = 0; round < 200; ++round) {
      const int64_t quota = 1 + dice(int64_t{20});
      const Limit limit = limit_of(its, quota);
      int64_t now = dice(int64_t{130} * 365) * day + dice(day);
      const int64_t length = its.find({now}).end_us - its.find({now}).start_us;
      State state;
      Naive model{its};
      for (int step = 0; step < 100; ++step) {
        // Also to the edges of windows, and back.
        const int kind = dice(8);
        const Calendar::Window window = its.find({now});
        now = kind == 0   ? window.end_us
              : kind == 1 ? window.end_us - 1
              : kind == 2 ? now - dice(length)
                          : now + dice(length / 4);
        model.see(now);
        const int64_t cost = dice(quota + 2), left = quota - model.used();
        const int64_t to_end = its.find({now}).end_us - now;
        Outcome out;
        switch (dice(4)) {
          case 0:
            out = aligned_window::put(state, limit, cost, {now});
            model.put(cost);
            ASSERT_TRUE(out.decision.allowed);
            break;
          case 1:
            out = aligned_window::count(state, limit, cost, {now});
            model.add(cost, now);
            ASSERT_EQ(out.decision.allowed, model.used() <= quota);
            break;
          default:
            out = aligned_window::decide(state, limit, cost, {now});
            ASSERT_EQ(out.decision.allowed, cost <= left) << text;
            if (cost <= left) model.add(cost, now);
            ASSERT_EQ(out.decision.retry_after, cost <= left   ? Duration{}
                                                : cost > quota ? base::never
                                                               : Duration{to_end});
            ++(cost <= left ? granted : refused);
        }
        ASSERT_EQ(out.decision.remaining, quota - model.used()) << text << " " << now;
        ASSERT_EQ(out.decision.reset_after.us, model.used() > 0 ? to_end : 0) << text;
        ended += state.units > 0 && out.next.units == 0;
        state = out.next;
      }
    }
  }
  EXPECT_GT(granted, 10'000u);
  EXPECT_GT(refused, 1'000u);
  EXPECT_GT(ended, 100u);
}

// Q in each window, so 2Q around a boundary, whatever the lengths.
TEST(CalendarModel, TheBoundIsReachedAtABoundary) {
  const Calendar its = calendar("day@Europe/Berlin");
  const Limit limit = limit_of(its, 5);
  const int64_t midnight = at("2026-03-28T23:00:00Z");
  const Outcome before = aligned_window::decide({}, limit, 5, {midnight - 1});
  EXPECT_TRUE(before.decision.allowed);
  const Outcome after = aligned_window::decide(before.next, limit, 5, {midnight});
  EXPECT_TRUE(after.decision.allowed);
  EXPECT_EQ(after.decision.reset_after.us, 23 * hour);  // the day on which clocks go forward
  EXPECT_FALSE(
      aligned_window::decide(after.next, limit, 1, {midnight + 23 * hour - 1}).decision.allowed);
}

// A changed calendar is another window: it begins fresh, and the one before is left out and goes on
// when it is in force again.
TEST(CalendarCarry, AnotherCalendarIsAnotherWindow) {
  const Limit month = limit_of(calendar("month@Europe/Berlin"), 100);
  const Limit from_9 = limit_of(calendar("month@Europe/Berlin,month_day=9"), 100);
  const Limit days{Algorithm::aligned_window, 100, Calendar::nominal(Unit::month)};
  const Time now{at("2026-11-30T12:00:00Z")};
  std::vector<State> cells(counter_cells_max), next(counter_cells_max);
  cells[0] = aligned_window::decide({}, month, 60, now).next;
  for (const Limit& other : {from_9, days}) {
    const CellCount changed =
        carry_over_list(std::span(cells).first(1), std::span(&month, 1), std::span(&other, 1),
                        CarryOver::used, now, next.data());
    EXPECT_EQ(changed.all, 3u);
    EXPECT_EQ(next[0], State{});
    const std::vector<State> left(next.begin(), next.begin() + 3);
    EXPECT_TRUE(left_out::fits(std::span(&other, 1), left));
    const CellCount back = carry_over_list(left, std::span(&other, 1), std::span(&month, 1),
                                           CarryOver::used, now, next.data());
    EXPECT_EQ(back.all, 1u);
    EXPECT_EQ(next[0], cells[0]);
  }
  // The same window with another quota goes on.
  const Limit more = limit_of(calendar("month@Europe/Berlin"), 200);
  EXPECT_EQ(carry_over_list(std::span(cells).first(1), std::span(&month, 1), std::span(&more, 1),
                            CarryOver::used, now, next.data())
                .all,
            1u);
  EXPECT_EQ(next[0], cells[0]);
}

}  // namespace
}  // namespace sluice::limit::calendar_test
