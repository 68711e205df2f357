// The `droplet` section of sluice.yaml.
#include "protocol/droplet/settings.h"

#include <gtest/gtest.h>

#include "config/config.h"

namespace sluice::droplet {
namespace {

// Reads the text of a sluice.yaml into `config`; returns what is wrong with it, "" if nothing.
std::string problems(std::string_view text, config::Config& config) {
  base::Diagnostics diagnostics;
  config::read_config(text, "sluice.yaml", config, diagnostics);
  std::string all;
  for (const auto& d : diagnostics) all += base::to_string(d) + "\n";
  return all;
}

TEST(DropletSettings, CleanupIntervalsAreSecondsOrLengths) {
  struct Case {
    const char* text;
    int64_t us;
  };
  for (const auto& [text, us] :
       {Case{"1", 1'000'000}, Case{"60s", 60'000'000}, Case{"500ms", 500'000}, Case{"0", 0},
        Case{"-1", 0}, Case{"-99999999999999999", 0}, Case{"1_000", 1'000'000'000}}) {
    config::Config config;
    EXPECT_EQ(problems("listen: [{ protocol: droplet, address: a }]\n"
                       "droplet: { cleanup_interval: " +
                           std::string(text) + " }",
                       config),
              "")
        << text;
    EXPECT_EQ(config.options().cleanup_interval.us, us) << text;
  }
  config::Config config;
  for (const char* text : {"\"\"", "-", "1.5", "99999999999999999", "5 m", "--1"})
    EXPECT_NE(problems("listen: [{ protocol: droplet, address: a }]\n"
                       "droplet: { cleanup_interval: " +
                           std::string(text) + " }",
                       config),
              "")
        << text;
}

// The server identifies the protocol whose full buckets it forgets by the protocol's number.
TEST(DropletSettings, NameTheProtocolWhoseBucketsAreCleaned) {
  EXPECT_EQ(config::Config().options().cleaned_protocol, protocol::find("droplet"));
  EXPECT_EQ(config::Config().options().cleanup_interval, base::seconds(60));
}

}  // namespace
}  // namespace sluice::droplet
