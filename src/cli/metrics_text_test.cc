// Samples of a Prometheus page (cli/metrics_text.h).
#include "cli/metrics_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice::cli {
namespace {

double value_of(const char* line) {
  const auto sample = read_sample(line);
  return sample ? sample->value : -1;
}

TEST(MetricsText, ReadsNameLabelsAndValue) {
  const auto sample = read_sample("a{x=\"1\",y=\"q\\\"\\\\\\n}\"} 3");
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->name, "a");
  EXPECT_EQ(sample->labels.at("x"), "1");
  EXPECT_EQ(sample->labels.at("y"), "q\"\\\n}");
  EXPECT_EQ(sample->value, 3);
  EXPECT_EQ(value_of("a{x=\"1\",y=\"b\"} 4 1700000000000"), 4);
  EXPECT_EQ(value_of("a{x=\"2\"} 1e3"), 1000);
  EXPECT_EQ(value_of("b 7"), 7);
  EXPECT_EQ(value_of("d +Inf"), HUGE_VAL);
  EXPECT_EQ(value_of("d -Inf"), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(value_of("e NaN")));
  EXPECT_EQ(read_sample("f{le=\"+Inf\"} 2")->labels.at("le"), "+Inf");
}

TEST(MetricsText, RejectsLinesThatAreNotSamples) {
  for (const char* line :
       {"", "# HELP a What it is.", "# TYPE a counter", "a", "a b", "a{", "a{x", "a{x=\"",
        "a{x=\"\\", "a{x=\"y\"", "a{x=\"y\"}", "a{x=\"y\"}3", "{", "{} 1", " 1", "a 1x", "c{} 8\r"})
    EXPECT_FALSE(read_sample(line)) << line;
}

}  // namespace
}  // namespace sluice::cli
