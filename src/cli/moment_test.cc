// Times that users write on the command line (cli/moment.h).
#include "cli/moment.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/rfc3339.h"

namespace sluice::cli {
namespace {

TEST(Moment, ReadsCommonFormsOfTimes) {
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
    EXPECT_EQ(base::format_rfc3339(*read), moment) << text;
  }
  EXPECT_EQ(parse_moment("2000-01-01")->us, int64_t{946'684'800} * 1'000'000);
}

TEST(Moment, RejectsInvalidTimes) {
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
