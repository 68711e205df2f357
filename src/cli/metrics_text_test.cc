#include "cli/metrics_text.h"

#include <gtest/gtest.h>

#include <cmath>

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

}  // namespace
}  // namespace sluice::cli
