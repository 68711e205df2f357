// The settings that Divvy's server reads from environment variables, and the `divvy` section of
// sluice.yaml.
#include "protocol/divvy/settings.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "config/settings.h"
#include "protocol/divvy/commands.h"
#include "protocol/divvy/environment.h"
#include "testing/environment_of.h"

namespace sluice::divvy {
namespace {

DivvySettings& settings_in(config::Config& config) {
  return dynamic_cast<DivvySettings&>(config.settings_of(*protocol::find("divvy")));
}

struct World {
  std::map<std::string, std::string> variables;
  std::ostringstream out, err;
  config::CommandIo io{out, err, false, false, tests::environment_of(variables)};

  // Reads the variables into `config`; returns what is wrong with them, "" if nothing.
  std::string divvy(config::Config& config) {
    base::Diagnostics diagnostics;
    config.listen = {{{number_of(description), {"::", description.port}}}};
    apply_divvy_environment(io, config, diagnostics);
    std::string text;
    for (const auto& d : diagnostics) text += base::to_string(d) + "\n";
    return text;
  }
};

TEST(DivvySettings, VariablesConfigureDivvysMetrics) {
  World world;
  world.variables = {{"STATSD_HOST", "stats"},      {"STATSD_PORT", "18125"},
                     {"STATSD_PREFIX", "pre"},      {"STATSD_USE_TCP", "0"},
                     {"HTTP_SERVICE_PORT", "9102"}, {"PROMETHEUS_METRICS_PATH", "/m"}};
  config::Config config;
  ASSERT_EQ(world.divvy(config), "");
  const server::Options options = config.options();
  ASSERT_TRUE(options.statsd);
  EXPECT_EQ(options.statsd->host, "stats");
  EXPECT_EQ(options.statsd->port, 18125);
  EXPECT_EQ(options.statsd->prefix, "pre");
  EXPECT_TRUE(options.statsd->tcp);
  EXPECT_EQ(options.listeners.back().service.path, "/m");
  EXPECT_EQ(options.listeners.back().service.kind, server::Service::Kind::page);
  EXPECT_EQ(options.listeners.back().port, 9102);
}

TEST(DivvySettings, WarnsOfVariablesThatSendNothingAndRejectsInvalidPorts) {
  World world;
  world.variables = {{"STATSD_HOST", "stats"}, {"STATSD_PORT", ""}, {"HTTP_SERVICE_PORT", "1"}};
  config::Config config;
  EXPECT_EQ(world.divvy(config),
            "warning: STATSD_HOST: stands alone, so nothing is sent to statsd; set STATSD_HOST and "
            "STATSD_PORT, or neither\n"
            "warning: HTTP_SERVICE_PORT: stands alone, so no page of metrics is served; Only found "
            "one of HTTP_SERVICE_PORT / PROMETHEUS_METRICS_PATH. Check your environment.\n");
  EXPECT_FALSE(config.options().statsd);
  world.variables = {{"STATSD_HOST", "stats"}, {"STATSD_PORT", "x"}};
  EXPECT_EQ(
      world.divvy(config),
      "warning: STATSD_PORT: `x` is not a port, so nothing is sent to statsd, as in Divvy; set "
      "it to 1 to 65535\n");
  EXPECT_FALSE(config.options().statsd);
  world.variables = {{"STATSD_HOST", "stats"}, {"STATSD_PORT", "65536"}};
  EXPECT_EQ(world.divvy(config),
            "error: STATSD_PORT: `65536` is not a port; set it to 0 to 65535, or unset it\n");
}

TEST(DivvySettings, TheFileConfiguresTheSameAndReadsBack) {
  config::Config config;
  base::Diagnostics diagnostics;
  const std::string text =
      "divvy:\n"
      "  metrics: { address: \"[::1]:9102\", path: /m }\n"
      "  statsd: { address: \"stats:1\", prefix: pre, tcp: true }\n"
      "policy: [{ divvy: a.ini }]\n";
  config::read_config(text, "conf/sluice.yaml", config, diagnostics);
  ASSERT_TRUE(diagnostics.empty());
  const std::string printed = config::print_config(config);
  config::Config again;
  config::read_config(printed, "/sluice.yaml", again, diagnostics);
  ASSERT_TRUE(diagnostics.empty()) << printed;
  using Changed = std::vector<std::string>;
  EXPECT_EQ(config::changed_settings(config, again), Changed{}) << printed;
  settings_in(again).statsd->prefix = "other";
  EXPECT_EQ(config::changed_settings(config, again), Changed{"divvy.statsd.prefix"});
}

}  // namespace
}  // namespace sluice::divvy
