// Every variable of Divvy's environment: alone, beside its partner, empty, `0`, and no number.
#include "protocol/divvy/environment.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "protocol/divvy/commands.h"
#include "protocol/divvy/settings.h"
#include "server/options.h"
#include "testing/environment_of.h"

namespace sluice::divvy::environment_test {
namespace {

using Variables = std::map<std::string, std::string>;

// What is not as without variables: "port 80; redis h:1; statsd h:1 prefix tcp; page 80 /m; debug".
std::string differences(const config::Config& config) {
  std::string all;
  const auto add = [&](const std::string& text) { all += (all.empty() ? "" : "; ") + text; };
  const uint16_t port = config.listen.front().value.address.port;
  if (port != description.port) add("port " + std::to_string(port));
  if (config.store.redis)
    for (const redis::Node& node : config.store.redis->value.nodes)
      add((config.store.redis->value.cluster ? "cluster " : "redis ") + name_of(node));
  const server::Options options = config.options();
  if (options.statsd)
    add("statsd " + options.statsd->host + ":" + std::to_string(options.statsd->port) + " " +
        options.statsd->prefix + (options.statsd->tcp ? " tcp" : " udp"));
  for (const auto& listener : options.listeners)
    if (listener.service.kind == server::Service::Kind::page)
      add("page " + std::to_string(listener.port) + " " + listener.service.path);
  if (config.log.level.value == spdlog::level::debug) add("debug");
  return all;
}

struct Read {
  std::string differences, said;
};

Read read(const Variables& variables) {
  std::ostringstream out, err;
  const config::CommandIo io{out, err, false, false, tests::environment_of(variables)};
  config::Config config;
  config.listen = {{{number_of(description), {"::", description.port}}}};
  base::Diagnostics diagnostics;
  apply_divvy_environment(io, config, diagnostics);
  Read read{differences(config), ""};
  for (const auto& d : diagnostics) {
    const bool error = d.severity == base::Diagnostic::Severity::error;
    read.said +=
        (read.said.empty() ? "" : ", ") + std::string(error ? "error " : "warning ") + d.subject;
  }
  return read;
}

struct Case {
  Variables variables;
  const char *differences, *said;
};

void expect(std::initializer_list<Case> cases) {
  for (const Case& one : cases) {
    std::string named;
    for (const auto& [name, text] : one.variables) named += name + "=`" + text + "` ";
    const Read its = read(one.variables);
    EXPECT_EQ(its.differences, one.differences) << named;
    EXPECT_EQ(its.said, one.said) << named;
  }
}

// `port: process.env.PORT`, to `net.Server.listen`; only an unset one is 8321.
TEST(DivvyVariables, Port) {
  expect({{{}, "", ""},
          {{{"PORT", "80"}}, "port 80", ""},
          {{{"PORT", "0"}}, "port 0", ""},
          {{{"PORT", " 80 "}}, "port 80", ""},
          {{{"PORT", "0x50"}}, "port 80", ""},
          {{{"PORT", ""}}, "", "error PORT"},
          {{{"PORT", "80x"}}, "", "error PORT"},
          {{{"PORT", "-1"}}, "", "error PORT"},
          {{{"PORT", "65536"}}, "", "error PORT"}});
}

// `parseInt(REDIS_PORT, 10) || 6379`, `REDIS_HOST || 'localhost'`. Without both the counters are
// sluice's own.
TEST(DivvyVariables, Redis) {
  expect({{{{"REDIS_HOST", "r"}}, "redis r:6379", ""},
          {{{"REDIS_PORT", "7"}}, "redis localhost:7", ""},
          {{{"REDIS_HOST", "r"}, {"REDIS_PORT", "7"}}, "redis r:7", ""},
          {{{"REDIS_HOST", ""}, {"REDIS_PORT", ""}}, "", ""},
          {{{"REDIS_HOST", "r"}, {"REDIS_PORT", ""}}, "redis r:6379", ""},
          {{{"REDIS_HOST", ""}, {"REDIS_PORT", "7"}}, "redis localhost:7", ""},
          {{{"REDIS_PORT", "0"}}, "redis localhost:6379", "warning REDIS_PORT"},
          {{{"REDIS_HOST", "r"}, {"REDIS_PORT", "0"}}, "redis r:6379", "warning REDIS_PORT"},
          {{{"REDIS_HOST", "r"}, {"REDIS_PORT", "port"}}, "redis r:6379", "warning REDIS_PORT"},
          {{{"REDIS_HOST", "r"}, {"REDIS_PORT", " 7 "}}, "redis r:7", ""},
          {{{"REDIS_HOST", "r"}, {"REDIS_PORT", "7x"}}, "redis r:7", ""},
          {{{"REDIS_HOST", "r"}, {"REDIS_PORT", "-7"}}, "redis r:6379", "error REDIS_PORT"},
          {{{"REDIS_HOST", "r"}, {"REDIS_PORT", "65536"}}, "redis r:6379", "error REDIS_PORT"},
          {{{"REDIS_HOST", "0"}}, "redis 0:6379", ""},
          {{{"REDIS_HOST", "::1"}}, "redis [::1]:6379", ""},
          {{{"REDIS_HOST", "r:7"}}, "redis [r:7]:6379", "error REDIS_HOST"}});
}

// Divvy has none of these.
TEST(DivvyVariables, HowRedisIsReached) {
  expect({{{{"REDIS_CLUSTER", "1"}}, "cluster localhost:6379", ""},
          {{{"REDIS_CLUSTER", "1"}, {"REDIS_HOST", "r"}}, "cluster r:6379", ""},
          {{{"REDIS_CLUSTER", "0"}, {"REDIS_HOST", "r"}}, "redis r:6379", ""},
          {{{"REDIS_CLUSTER", ""}}, "", ""},
          {{{"REDIS_CLUSTER", "0"}}, "", ""},
          {{{"REDIS_CLUSTER", "x"}}, "", "error REDIS_CLUSTER"},
          {{{"REDIS_TLS", ""}, {"REDIS_USERNAME", ""}, {"REDIS_PASSWORD", ""}}, "", ""},
          {{{"REDIS_TLS", "0"}}, "", "error REDIS_TLS"},
          {{{"REDIS_TLS", "true"}, {"REDIS_HOST", "r"}}, "redis r:6379", ""}});
}

// `statsdHost && statsdPort`, where the port is `parseInt(STATSD_PORT, 10)`.
TEST(DivvyVariables, Statsd) {
  const auto with = [](Variables more) {
    more.insert({{"STATSD_HOST", "s"}, {"STATSD_PORT", "8125"}});
    return more;
  };
  expect({{{{"STATSD_HOST", "s"}}, "", "warning STATSD_HOST"},
          {{{"STATSD_PORT", "8125"}}, "", "warning STATSD_PORT"},
          {{{"STATSD_PREFIX", "p"}}, "", "warning STATSD_PREFIX"},
          {{{"STATSD_USE_TCP", "1"}}, "", "warning STATSD_USE_TCP"},
          {with({}), "statsd s:8125  udp", ""},
          {with({{"STATSD_HOST", ""}}), "", "warning STATSD_PORT"},
          {with({{"STATSD_PORT", ""}}), "", "warning STATSD_HOST"},
          {with({{"STATSD_PORT", "0"}}), "", "warning STATSD_PORT"},
          {with({{"STATSD_PORT", "port"}}), "", "warning STATSD_PORT"},
          {with({{"STATSD_PORT", "9x"}}), "statsd s:9  udp", ""},
          {with({{"STATSD_PORT", "65536"}}), "", "error STATSD_PORT"},
          {with({{"STATSD_PREFIX", "p"}}), "statsd s:8125 p udp", ""},
          {with({{"STATSD_PREFIX", ""}, {"STATSD_USE_TCP", ""}}), "statsd s:8125  udp", ""},
          {with({{"STATSD_USE_TCP", "0"}}), "statsd s:8125  tcp", ""}});
}

// Both, and the port is `parseInt(HTTP_SERVICE_PORT, 10)`, to `listen`.
TEST(DivvyVariables, PageOfMetrics) {
  const auto with = [](const char* port) {
    return Variables{{"HTTP_SERVICE_PORT", port}, {"PROMETHEUS_METRICS_PATH", "/m"}};
  };
  expect({{{{"HTTP_SERVICE_PORT", "9"}}, "", "warning HTTP_SERVICE_PORT"},
          {{{"PROMETHEUS_METRICS_PATH", "/m"}}, "", "warning PROMETHEUS_METRICS_PATH"},
          {{{"HTTP_SERVICE_PORT", "9"}, {"PROMETHEUS_METRICS_PATH", ""}},
           "",
           "warning HTTP_SERVICE_PORT"},
          {with("9"), "page 9 /m", ""},
          {with(""), "", "warning PROMETHEUS_METRICS_PATH"},
          {with("0"), "page 0 /m", ""},
          {with("9x"), "page 9 /m", ""},
          {with("port"), "", "error HTTP_SERVICE_PORT"},
          {with("-9"), "", "error HTTP_SERVICE_PORT"},
          {with("65536"), "", "error HTTP_SERVICE_PORT"}});
}

TEST(DivvyVariables, Debug) {
  expect({{{{"DEBUG", "divvy"}}, "debug", ""},
          {{{"DEBUG", "*,-divvy"}}, "", ""},
          {{{"DEBUG", ""}}, "", ""},
          {{{"DEBUG", "0"}}, "", ""}});
}

}  // namespace
}  // namespace sluice::divvy::environment_test
