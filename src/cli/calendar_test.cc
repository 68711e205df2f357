// Windows of the calendar in policies, by `sluice check` and `sluice explain --at`: the recorded
// ones, what a policy says wrong and where, and where the data of zones come from.
#include "limit/calendar.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/command_test.h"
#include "testing/zone_folder.h"
#include "tests/support/paths.h"

namespace sluice::cli {
namespace {

using Json = nlohmann::ordered_json;

class Calendar : public CommandTest {
 protected:
  // The error of a policy whose rule has this limit, from its place on.
  std::string error_of(const std::string& limit) {
    const std::string path = file(
        "limits.yaml",
        "rules:\n  - name: r\n    match: { ip: \"*\" }\n    actor: ip\n    limit: " + limit + "\n");
    EXPECT_EQ(command({"check", path}), 1) << limit;
    return err.substr(path.size() + 1);
  }
  Json limits_at(const std::string& limit, const std::string& at) {
    const std::string path = file(
        "limits.yaml",
        "rules:\n  - name: r\n    match: { ip: \"*\" }\n    actor: ip\n    limit: " + limit + "\n");
    EXPECT_EQ(command({"explain", "--policy", path, "--at", at, "--json", "ip=10.0.0.7"}), 0)
        << err;
    return Json::parse(out).at("rules").at(0).at("limits");
  }
};

// tests/conformance/calendar.json.
TEST_F(Calendar, TheRecordedWindows) {
  std::ifstream record(tests::source_path("tests/conformance/calendar.json"));
  const Json all = Json::parse(record);
  for (const Json& one : all.at("cases")) {
    std::string limit = "{ quota: 5, window: " + one.at("window").get<std::string>();
    for (const char* key : {"time_zone", "week_starts", "month_day", "year_day", "starts_at"})
      if (one.contains(key)) limit += ", " + std::string(key) + ": " + one.at(key).dump();
    const Json told = limits_at(limit + " }", one.at("at").get<std::string>()).at(0);
    EXPECT_EQ(told.at("starts"), one.at("start")) << one;
    EXPECT_EQ(told.at("ends"), one.at("end")) << one;
    EXPECT_EQ(told.at("window"), one.at("length")) << one;
    EXPECT_EQ(told.at("calendar"), one.at("window"));
    EXPECT_EQ(told.at("time_zone"), one.value("time_zone", "UTC"));
    EXPECT_EQ(told.at("algorithm"), "aligned_window");
  }
  EXPECT_EQ(all.at("cases").size(), 44u);
}

TEST_F(Calendar, ExplainTellsTheWindowInWords) {
  const std::string path =
      file("limits.yaml",
           "rules:\n  - name: r\n    match: { ip: \"*\" }\n    actor: ip\n    limits:\n"
           "      - { quota: 1M, window: month, time_zone: Europe/Berlin, month_day: 9 }\n"
           "      - { quota: 10, window: 1h, algorithm: aligned_window }\n"
           "      - { quota: 7, window: 1m }\n");
  EXPECT_EQ(command({"explain", "--policy", path, "--at", "2026-03-15", "ip=a"}), 0) << err;
  EXPECT_TRUE(said(out,
                   "limit: 1000000 per month@Europe/Berlin,month_day=9, aligned_window\n"
                   "        window: from 2026-03-08T23:00:00Z to 2026-04-08T22:00:00Z, "
                   "30d23h\n"))
      << out;
  EXPECT_TRUE(said(out,
                   "limit: 10 per 1h, aligned_window\n"
                   "        window: from 2026-03-15T00:00:00Z to 2026-03-15T01:00:00Z, 1h\n"
                   "      limit: 7 per 1m, token_bucket, burst 7\n"))
      << out;
  // Without --at windows of the clock are not told.
  EXPECT_EQ(command({"explain", "--policy", path, "ip=a"}), 0) << err;
  EXPECT_TRUE(said(out, "limit: 10 per 1h, aligned_window\n      limit: 7")) << out;
  EXPECT_TRUE(said(out, "month_day=9, aligned_window\n        window: from ")) << out;

  EXPECT_EQ(command({"explain", "--policy", path, "--at", "soon", "ip=a"}), 2);
  EXPECT_TRUE(said(err, "--at must be a time like 2026-12-01T08:30:00Z, not `soon`")) << err;
  EXPECT_EQ(command({"explain", "--live", "--at", "2026-03-15", "ip=a"}), 2);
}

TEST_F(Calendar, EachMistakeIsSaidWhereItIs) {
  EXPECT_EQ(error_of("{ quota: 5, window: day, time_zone: Europe/Berln }"),
            "5:48: error: rule r: time_zone: `Europe/Berln` is not a time zone of the data in use "
            "(" +
                limit::Calendar::zone_data_text() + "); did you mean `Europe/Berlin`?\n");
  EXPECT_EQ(error_of("{ quota: 5, window: day, time_zone: \"a b\" }"),
            "5:48: error: rule r: time_zone: `a b` cannot name a time zone; write a name of the "
            "IANA data, as in `Europe/Berlin`, or `UTC`\n");
  EXPECT_EQ(error_of("{ quota: 5, window: week, month_day: 9 }"),
            "5:49: error: rule r: month_day: belongs to `window: month`, and this is `week`; take "
            "it out\n");
  EXPECT_EQ(error_of("{ quota: 5, window: hour, starts_at: \"06:00\" }"),
            "5:49: error: rule r: starts_at: belongs to `window: day`, `week`, `month`, `year`, "
            "and this is `hour`; take it out\n");
  EXPECT_EQ(error_of("{ quota: 5, window: 30d, time_zone: UTC }"),
            "5:48: error: rule r: time_zone: belongs to a window of the calendar, and this one is "
            "a length of time; take it out, or write `window: hour`, `day`, `week`, `month`, "
            "`year`\n");
  EXPECT_EQ(error_of("{ quota: 5, window: month, algorithm: sliding_log }"),
            "5:32: error: rule r: window: `month` is a window of the calendar, which sliding_log "
            "cannot have: its windows are of one length, and those of the calendar are not; take "
            "the algorithm out, or write a length of time, as in `30d`\n");
  EXPECT_EQ(error_of("{ quota: 5, window: month, month_day: 32 }"),
            "5:50: error: rule r: month_day: `32` is not a day of a month; write 1 to 31; past the "
            "end of a month it is its last day\n");
  EXPECT_EQ(error_of("{ quota: 5, window: year, year_day: 02-30 }"),
            "5:48: error: rule r: year_day: `02-30` is not a day of a year; write month and day "
            "with two digits each, as in `04-06`\n");
  EXPECT_EQ(error_of("{ quota: 5, window: day, starts_at: \"24:00\" }"),
            "5:48: error: rule r: starts_at: `24:00` is not a time of day; write hours and minutes "
            "from `00:00` to `23:59`\n");
  EXPECT_EQ(error_of("{ quota: 5, window: week, week_starts: sun }"),
            "5:51: error: rule r: week_starts: `sun` is not a day of a week; write `monday`, "
            "`tuesday`, `wednesday`, `thursday`, `friday`, `saturday` or `sunday`\n");
  EXPECT_TRUE(error_of("{ quota: 5, window: day, burst: 3 }").find("burst: is a token bucket's") !=
              std::string::npos)
      << err;
  EXPECT_TRUE(error_of("{ quota: 5, window: fortnight }")
                  .find("`hour`, `day`, `week`, `month` or "
                        "`year`") != std::string::npos)
      << err;
}

TEST_F(Calendar, AFolderOfZoneDataIsASetting) {
  const tests::ZoneFolder zones;
  zones.put("tzdata.zi", "# version 1999x\nZ Test/Here 0 - X\n");
  zones.put("UTC", tests::WrittenZone{.footer = "UTC0"}.text());
  zones.put("Test/Here", tests::WrittenZone{.offsets = {3600}, .footer = "AAA-1"}.text());
  const std::string rules =
      "rules:\n  - name: r\n    match: { ip: \"*\" }\n    actor: ip\n"
      "    limit: { quota: 5, window: day, time_zone: Test/Here }\n";
  const auto with_zones = [this](const std::string& place, const std::string& its_rules) {
    return file("sluice.yaml", "time_zone_data: " + place + "\n" + its_rules);
  };
  const std::string with = with_zones(zones.path(), rules);
  EXPECT_EQ(command({"check", with}), 0) << err;
  EXPECT_EQ(command({"explain", "--policy", with, "--at", "2026-03-15", "--json", "ip=a"}), 0);
  EXPECT_EQ(Json::parse(out).at("rules").at(0).at("limits").at(0).at("starts"),
            "2026-03-14T23:00:00Z");
  const std::string without = file("sluice.yaml", rules);
  EXPECT_EQ(command({"check", without}), 1);
  EXPECT_TRUE(said(err, "`Test/Here` is not a time zone of the data in use")) << err;
  // An empty folder, nowhere, a file, and a folder whose UTC is no zone.
  const tests::ZoneFolder broken;
  broken.put("UTC", "no zone");
  for (const std::string& place :
       {folder_, std::string("/nowhere"), zones.path() + "/UTC", broken.path()}) {
    EXPECT_EQ(command({"check", with_zones(place, rules)}), 1);
    EXPECT_TRUE(said(err, "time_zone_data: there are no data of time zones in " + place +
                              "; name a folder like /usr/share/zoneinfo, or take it out"))
        << err;
  }
  // A zone whose file is cut off.
  zones.put("Test/Here",
            tests::WrittenZone{.offsets = {3600}, .footer = "AAA-1"}.text().substr(0, 50));
  EXPECT_EQ(command({"check", with_zones(zones.path(), rules)}), 1);
  EXPECT_TRUE(said(err, "the data of `Test/Here` in use (1999x, " + zones.path() +
                            ") are not valid; install them again"))
      << err;
  ASSERT_TRUE(limit::Calendar::use_zone_data({}));
}

TEST_F(Calendar, VersionSaysWhichData) {
  EXPECT_EQ(command({"--version"}), 0);
  EXPECT_TRUE(said(out, "\ntime zones: " + limit::Calendar::zone_data_text() + "\n")) << out;
}

}  // namespace
}  // namespace sluice::cli
