// The `droplet` section of sluice.yaml.
#include "protocol/droplet/settings.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>

#include "config/config.h"
#include "config/variables.h"
#include "protocol/droplet/commands.h"

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

// `PORT || 3000`, to `listen`.
TEST(DropletVariables, Port) {
  struct Case {
    std::optional<std::string> text;
    uint16_t port;
    bool starts = true;
  };
  for (const auto& [text, port, starts] : {Case{{}, 3000},
                                           {"", 3000},
                                           {"0", 0},
                                           {"80", 80},
                                           {" 80 ", 80},
                                           {"8e1", 80},
                                           {"port", 3000, false},
                                           {"80x", 3000, false},
                                           {" ", 3000, false},
                                           {"-1", 3000, false},
                                           {"65536", 3000, false}}) {
    std::ostringstream out, err;
    const config::CommandIo io{out, err, false, false, [&its = text](const char*) { return its; }};
    config::Config config;
    config.listen = {{{number_of(description), {"::", description.port}}}};
    base::Diagnostics diagnostics;
    config::Variables(io, diagnostics).apply_node_port(config.listen.front(), "3000", true);
    EXPECT_EQ(config.listen.front().value.address.port, port) << text.value_or("unset");
    EXPECT_EQ(base::has_errors(diagnostics), !starts) << text.value_or("unset");
  }
}

}  // namespace
}  // namespace sluice::droplet
