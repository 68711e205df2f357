// The `envoy` section of sluice.yaml and the environment variables of Envoy's service, about
// metrics and the debug port.
#include "protocol/envoy/settings.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "config/config.h"
#include "config/printed_test.h"
#include "config/review_rules.h"
#include "config/settings.h"
#include "policy/rule_set.h"
#include "protocol/envoy/commands.h"
#include "protocol/envoy/environment.h"
#include "protocol/envoy/limits_file.h"
#include "protocol/envoy/rules.h"
#include "protocol/protocol.h"
#include "request/space.h"
#include "server/options.h"
#include "testing/environment_of.h"

namespace sluice::envoy::settings_test {
namespace {

const protocol::Protocol self = *protocol::find("envoy");

std::string texts(const base::Diagnostics& diagnostics) {
  std::string text;
  for (const auto& d : diagnostics) text += base::to_string(d) + "\n";
  return text;
}

// Reads a sluice.yaml with these sections into `config`; returns what is wrong with it, "" if
// nothing.
std::string problems(const std::string& sections, config::Config& config) {
  base::Diagnostics diagnostics;
  config::read_config(
      "listen: [{ protocol: envoy, address: a }]\npolicy: [{ envoy: limits }]\n" + sections + "\n",
      "sluice.yaml", config, diagnostics);
  return texts(diagnostics);
}

const EnvoyOptions& sessions_of(const server::Options& options) {
  return static_cast<const EnvoyOptions&>(*options.session_options[static_cast<size_t>(self)]);
}

TEST(EnvoySettings, NamesOfHeadersAreValidInHttp) {
  config::Config config;
  ASSERT_EQ(problems("envoy: { headers: legacy, reset_header: X-Reset }", config), "");
  EXPECT_EQ(sessions_of(config.options()).response.reset_header, "X-Reset");
  EXPECT_NE(problems("envoy: { headers: legacy, reset_header: \"X Reset\" }", config)
                .find("`X Reset` is not the name of a header"),
            std::string::npos);
}

TEST(EnvoySettings, BoundReservations) {
  config::Config config;
  ASSERT_EQ(problems("envoy: {}", config), "");
  const HoldOptions usual = sessions_of(config.options()).holds;
  EXPECT_TRUE(usual.enabled);
  EXPECT_EQ(usual.terms.fraction, 500'000);
  EXPECT_EQ(usual.terms.ttl_max.us, 60'000'000);
  config::Config changed;
  ASSERT_EQ(
      problems("envoy: { holds: { enabled: false, max_fraction: 0.125, max_ttl: 5m } }", changed),
      "");
  const HoldOptions holds = sessions_of(changed.options()).holds;
  EXPECT_FALSE(holds.enabled);
  EXPECT_EQ(holds.terms.fraction, 125'000);
  EXPECT_EQ(holds.terms.ttl_max.us, 300'000'000);
}

TEST(EnvoySettings, TellWhoChecksThatAMonthHas30Days) {
  const LimitsText file{"llm.yaml",
                        "domain: llm\n"
                        "descriptors:\n"
                        "  - key: user\n"
                        "    rate_limit: { unit: month, requests_per_unit: 9 }\n"
                        "  - key: tenant\n"
                        "    rate_limit: { unit: year, requests_per_unit: 9 }\n"
                        "  - key: real\n"
                        "    rate_limit: { window: month, requests_per_unit: 9 }\n"};
  base::Diagnostics none;
  request::Spaces spaces;
  policy::RuleSet rules;
  LimitRules::add(*read_limits({&file, 1}, {}, none), {}, spaces, rules);
  config::Config config;
  EXPECT_EQ(problems("envoy: {}", config), "");
  for (const bool checks : {false, true}) {
    base::Diagnostics diagnostics;
    config::review_rules(config, rules, diagnostics, checks);
    EXPECT_EQ(texts(diagnostics).find("`unit: month` has 30 days") != std::string::npos, checks);
    EXPECT_EQ(texts(diagnostics).find("1 other limit") != std::string::npos, checks);
    EXPECT_EQ(texts(diagnostics).find("real"), std::string::npos);
  }
}

TEST(EnvoySettings, WarnOfALimitThatCountsWhereAllOrNothingIsCharged) {
  const LimitsText file{"llm.yaml",
                        "domain: llm\n"
                        "descriptors:\n"
                        "  - key: user\n"
                        "    rate_limit: { window: 24h, requests_per_unit: 9, over: count }\n"
                        "  - key: plain\n"
                        "    rate_limit: { window: 24h, requests_per_unit: 9 }\n"
                        "  - key: original\n"
                        "    rate_limit: { unit: day, requests_per_unit: 9 }\n"};
  base::Diagnostics none;
  request::Spaces spaces;
  policy::RuleSet rules;
  LimitRules::add(*read_limits({&file, 1}, {}, none), {}, spaces, rules);
  const auto said = [&](const std::string& section) {
    config::Config config;
    EXPECT_EQ(problems(section, config), "");
    base::Diagnostics diagnostics;
    config::review_rules(config, rules, diagnostics);
    return texts(diagnostics);
  };
  for (const char* section :
       {"envoy: { charge: all_or_nothing }", "envoy: { all_or_nothing: [shop, llm] }"})
    EXPECT_EQ(
        said(section),
        "llm.yaml:3: warning: limit llm.user: `over: count` has no effect, as the domain is "
        "charged all or nothing: a report that does not fit is refused, and not counted; move "
        "the limits that are reported to into a domain of their own, with `charge: each`\n");
  for (const char* section : {"", "envoy: { all_or_nothing: [shop] }"})
    EXPECT_EQ(said(section), "");
}

TEST(EnvoyMetricsSettings, ConfigureAPageOrAStatsd) {
  config::Config config;
  ASSERT_EQ(problems("envoy: { debug_port: 6070, metrics: { prometheus: { address: \"[::1]:9102\", "
                     "path: /m, milliseconds: true }, near_limit_ratio: 0.5 } }",
                     config),
            "");
  const server::Options options = config.options();
  EXPECT_FALSE(options.statsd);
  ASSERT_EQ(options.listeners.size(), 2u);
  EXPECT_EQ(options.listeners[1].service.kind, server::Service::Kind::page);
  EXPECT_EQ(options.listeners[1].service.path, "/m");
  EXPECT_EQ(options.listeners[1].host, "::1");
  EXPECT_EQ(options.listeners[1].port, 9102);
  const EnvoyOptions& sessions = sessions_of(options);
  EXPECT_EQ(sessions.debug_port, 6070);
  ASSERT_NE(sessions.metrics, nullptr);
  EXPECT_EQ(sessions.metrics->options().near_ratio, 0.5F);
  EXPECT_TRUE(sessions.metrics->options().milliseconds);

  config::Config other;
  ASSERT_EQ(problems("envoy: { metrics: { statsd: { address: \"stats:1\", flush_interval: 300ms, "
                     "tags: \"b:2, a.x:1=\" } } }",
                     other),
            "");
  const server::Options with_statsd = other.options();
  ASSERT_TRUE(with_statsd.statsd);
  EXPECT_EQ(with_statsd.statsd->host, "stats");
  EXPECT_EQ(with_statsd.statsd->port, 1);
  EXPECT_EQ(with_statsd.statsd->period, std::chrono::milliseconds(300));
  EXPECT_TRUE(with_statsd.statsd->tcp);
  EXPECT_EQ(sessions_of(with_statsd).metrics->options().tags,
            (std::vector<std::pair<std::string, std::string>>{{"a_x", "1_"}, {"b", "2"}}));
}

TEST(EnvoyMetricsSettings, CountNothingWithoutAPageOrAStatsd) {
  config::Config config;
  ASSERT_EQ(problems("envoy: { metrics: { near_limit_ratio: 0.5 } }", config), "");
  const server::Options options = config.options();
  EXPECT_EQ(options.listeners.size(), 1u);
  EXPECT_FALSE(options.statsd);
  EXPECT_EQ(sessions_of(options).metrics, nullptr);
}

TEST(EnvoyMetricsSettings, ReadBackTheSameAfterPrinting) {
  for (const char* metrics :
       {"{ prometheus: { address: \"[::]:9090\", path: \"/metrics\", milliseconds: false } }",
        "{ prometheus: { address: \"a:1\", path: \"/\", milliseconds: true } }",
        "{ statsd: { address: \"localhost:8125\", flush_interval: 10s, tags: \"a:1,b:2\" }, "
        "near_limit_ratio: 0.25 }"}) {
    config::Config config;
    EXPECT_EQ(problems("envoy: { debug_port: 7, metrics: " + std::string(metrics) + " }", config),
              "");
    const std::string printed = config::printed_line(config, "envoy");
    EXPECT_NE(printed.find(", debug_port: 7, metrics: " + std::string(metrics) + " }"),
              std::string::npos)
        << printed;
    config::Config again;
    EXPECT_EQ(problems(printed, again), "");
    EXPECT_EQ(config::printed_line(again, "envoy"), printed);
  }
}

TEST(EnvoyMetricsSettings, ReportInvalidSettings) {
  const auto wrong = [](const std::string& metrics) {
    config::Config config;
    return problems("envoy: { metrics: " + metrics + " }", config);
  };
  EXPECT_NE(
      wrong("{ prometheus: {}, statsd: {} }").find("there are a page for Prometheus and a statsd"),
      std::string::npos);
  EXPECT_NE(wrong("{ statsd: { flush_interval: 0s } }").find("`0s` is not a length of time"),
            std::string::npos);
  EXPECT_NE(wrong("{ statsd: { tags: \"a\" } }").find("`a` are not tags"), std::string::npos);
  EXPECT_NE(wrong("{ near_limit_ratio: -1 }").find("`-1` is not a ratio"), std::string::npos);
  EXPECT_NE(wrong("{ paths_max: 5 }")
                .find("paths_max: is gone; take it out: the first 10,000 paths of requests are "
                      "counted"),
            std::string::npos)
      << wrong("{ paths_max: 5 }");
  EXPECT_NE(wrong("{ statsd: { prefix: a } }").find("prefix"), std::string::npos);
}

struct World {
  std::map<std::string, std::string> variables;
  std::ostringstream out, err;
  config::CommandIo io{out, err, false, false, tests::environment_of(variables)};
  config::Config config;

  // Reads the variables into `config`; returns what is wrong with them, "" if nothing.
  std::string apply() {
    config = {};
    config.listen = {{{self, {"0.0.0.0", 8081}}, ""}, {{self, {"0.0.0.0", 8080}}, ""}};
    base::Diagnostics diagnostics;
    apply_service_environment(io, config, diagnostics);
    return texts(diagnostics);
  }
  const MetricsSettings& metrics() {
    return static_cast<const EnvoySettings&>(config.settings_of(self)).metrics;
  }
};

TEST(EnvoyMetricsVariables, ConfigureStatsdOrThePrometheusPage) {
  World world;
  world.variables = {{"STATSD_HOST", "stats"},
                     {"STATSD_PORT", "18125"},
                     {"STATS_FLUSH_INTERVAL", "1m"},
                     {"EXTRA_TAGS", "env:test,zone:b"},
                     {"NEAR_LIMIT_RATIO", "0.5"}};
  ASSERT_EQ(world.apply(), "");
  ASSERT_TRUE(world.metrics().statsd);
  EXPECT_FALSE(world.metrics().prometheus);
  EXPECT_EQ(world.metrics().statsd->address.host, "stats");
  EXPECT_EQ(world.metrics().statsd->address.port, 18125);
  EXPECT_EQ(world.metrics().statsd->flush_interval, base::seconds(60));
  EXPECT_EQ(world.metrics().counting.near_ratio, 0.5F);
  EXPECT_EQ(world.metrics().counting.tags.size(), 2u);

  world.variables["DISABLE_STATS"] = "true";
  ASSERT_EQ(world.apply(), "");
  EXPECT_FALSE(world.metrics().statsd);

  world.variables = {{"USE_STATSD", "true"}};
  ASSERT_EQ(world.apply(), "");
  ASSERT_TRUE(world.metrics().statsd);
  EXPECT_EQ(world.metrics().statsd->address.host, "localhost");
  EXPECT_EQ(world.metrics().statsd->address.port, 8125);
  EXPECT_EQ(world.metrics().statsd->flush_interval, base::seconds(10));

  world.variables = {{"USE_PROMETHEUS", "t"},
                     {"STATSD_HOST", "stats"},
                     {"PROMETHEUS_ADDR", ":9102"},
                     {"PROMETHEUS_PATH", "/m"},
                     {"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "true"}};
  ASSERT_EQ(world.apply(), "");
  EXPECT_FALSE(world.metrics().statsd);
  ASSERT_TRUE(world.metrics().prometheus);
  EXPECT_EQ(world.metrics().prometheus->address.host, "::");
  EXPECT_EQ(world.metrics().prometheus->address.port, 9102);
  EXPECT_EQ(world.metrics().prometheus->path, "/m");
  EXPECT_TRUE(world.metrics().counting.milliseconds);
}

TEST(EnvoyMetricsVariables, WarnOnceIfUseStatsdIsNotSet) {
  World world;
  EXPECT_EQ(world.apply(),
            "warning: USE_STATSD: is not set, so nothing is sent to a statsd on localhost:8125; "
            "set it to true or false\n");
  EXPECT_FALSE(world.metrics().statsd);
  EXPECT_FALSE(world.metrics().prometheus);
  world.variables = {{"USE_STATSD", "false"}};
  EXPECT_EQ(world.apply(), "");
  EXPECT_FALSE(world.metrics().statsd);
}

TEST(EnvoyMetricsVariables, RejectPageAndStatsdTogetherAndNameWhatIsNotThere) {
  World world;
  world.variables = {{"USE_PROMETHEUS", "true"}, {"USE_STATSD", "true"}};
  EXPECT_EQ(world.apply(),
            "error: USE_PROMETHEUS: USE_STATSD is set as well; set one of them to true: each "
            "counter is sent in one way\n");
  world.variables = {{"USE_PROMETHEUS", "true"}, {"PROMETHEUS_MAPPER_YAML", "a.yaml"}};
  EXPECT_EQ(world.apply(), "");
  world.variables = {
      {"USE_PROMETHEUS", "true"}, {"USE_DOG_STATSD", "true"}, {"USE_DOG_STATSD_MOGRIFIERS", "a"}};
  EXPECT_EQ(world.apply(),
            "error: USE_DOG_STATSD: DogStatsD is not spoken; set USE_STATSD=true or "
            "USE_PROMETHEUS=true in its place\n"
            "warning: USE_DOG_STATSD_MOGRIFIERS: has no effect here; it may be unset\n");
  world.variables = {{"USE_STATSD", "true"},
                     {"STATS_FLUSH_INTERVAL", "0"},
                     {"EXTRA_TAGS", "x"},
                     {"NEAR_LIMIT_RATIO", "x"},
                     {"STATSD_PORT", "x"}};
  const std::string wrong = world.apply();
  for (const char* name : {"STATS_FLUSH_INTERVAL", "EXTRA_TAGS", "NEAR_LIMIT_RATIO", "STATSD_PORT"})
    EXPECT_NE(wrong.find("error: " + std::string(name)), std::string::npos) << wrong;
}

TEST(EnvoyMetricsVariables, DebugPortAddsAListener) {
  World world;
  world.variables = {{"USE_STATSD", "false"}};
  EXPECT_EQ(world.apply(), "");
  EXPECT_EQ(world.config.listen.size(), 2u);
  world.variables["DEBUG_PORT"] = "6070";
  world.variables["DEBUG_HOST"] = "127.0.0.1";
  EXPECT_EQ(world.apply(), "");
  ASSERT_EQ(world.config.listen.size(), 3u);
  EXPECT_EQ(world.config.listen[2].value.address.host, "127.0.0.1");
  EXPECT_EQ(world.config.listen[2].value.address.port, 6070);
  EXPECT_EQ(sessions_of(world.config.options()).debug_port, 6070);
}

}  // namespace
}  // namespace sluice::envoy::settings_test
