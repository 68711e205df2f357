#include "cli/metrics_text.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cli/moment.h"

namespace sluice::cli {
namespace {

TEST(MetricsText, FindsSamplesByNameAndLabel) {
  const MetricsText metrics(
      "# HELP a What it is.\n"
      "# TYPE a counter\n"
      "a{x=\"1\",y=\"q\\\"\\\\\\n}\"} 3\n"
      "a{x=\"1\",y=\"b\"} 4 1700000000000\n"
      "a{x=\"2\"} 1e3\n"
      "b 7\n"
      "c{} 8\r\n"
      "d +Inf\n"
      "e NaN\n"
      "f{le=\"+Inf\"} 2");
  EXPECT_EQ(metrics.of("a").size(), 3u);
  EXPECT_EQ(metrics.of("a")[0].label("y"), "q\"\\\n}");
  EXPECT_EQ(metrics.sum("a", "x", "1"), 7);
  EXPECT_EQ(metrics.sum("a", "x", "2"), 1000);
  EXPECT_EQ(metrics.sum("a", "x", "3"), 0);
  EXPECT_EQ(metrics.value("b"), 7);
  EXPECT_FALSE(metrics.has("c"));  // its line is none
  EXPECT_EQ(metrics.value("d"), HUGE_VAL);
  EXPECT_TRUE(std::isnan(metrics.value("e")));
  EXPECT_EQ(metrics.of("f")[0].label("le"), "+Inf");
  EXPECT_FALSE(metrics.has("nothing"));
  EXPECT_EQ(metrics.value("nothing"), 0);
}

TEST(MetricsText, PassesOverWhatIsNoSample) {
  for (const char* line : {"", "\n\n", "a", "a b", "a{", "a{x", "a{x=\"", "a{x=\"\\", "a{x=\"y\"",
                           "a{x=\"y\"}", "a{x=\"y\"}3", "{", " 1", "a 1x"})
    EXPECT_FALSE(MetricsText(line).has("a")) << line;
}

TEST(Moment, ReadsWhatPeopleWrite) {
  const std::pair<const char*, const char*> cases[] = {
      {"2026-12-01", "2026-12-01T00:00:00Z"},
      {"2026-12-01T08:30Z", "2026-12-01T08:30:00Z"},
      {"2026-12-01 08:30:59", "2026-12-01T08:30:59Z"},
      {"2026-12-01t08:30:59.999z", "2026-12-01T08:30:59Z"},
      {"2026-12-01T00:30+01:00", "2026-11-30T23:30:00Z"},
      {"2026-12-31T23:30-01:30", "2027-01-01T01:00:00Z"},
      {"2028-02-29", "2028-02-29T00:00:00Z"},
      {"1970-01-01", "1970-01-01T00:00:00Z"},
      {"9999-12-31", "9999-12-31T00:00:00Z"},
  };
  for (const auto& [text, moment] : cases) {
    const auto read = parse_moment(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(format_moment(*read), moment) << text;
  }
  EXPECT_EQ(parse_moment("2000-01-01")->us, int64_t{946'684'800} * 1'000'000);
}

TEST(Moment, RefusesWhatIsNone) {
  for (const char* text : {"",
                           "tomorrow",
                           "2026",
                           "2026-12",
                           "2026-13-01",
                           "2026-02-29",
                           "2026-12-01T",
                           "2026-12-01T8",
                           "2026-12-01T24:00",
                           "2026-12-01T08:60",
                           "2026-12-01T08:30:60",
                           "2026-12-01T08:30Zx",
                           "2026-12-01T08:30+1",
                           "2026-12-01T08:30+24:00",
                           "2026-12-01x",
                           "1969-12-31",
                           "1970-01-01T00:00+00:01",
                           "2026-12-01T08:30.",
                           "2026-12-01T08:30:10.",
                           " 2026-12-01",
                           "20261201",
                           "2026-12-1"})
    EXPECT_FALSE(parse_moment(text)) << text;
}

}  // namespace
}  // namespace sluice::cli
