// Every variable of the environment of Envoy's service: alone, beside its partner, empty, `0`, and
// no number. What Go cannot read ends the start, as it does the original's.
#include "protocol/envoy/variables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "config/address.h"
#include "config/config.h"
#include "config/printed_test.h"
#include "protocol/envoy/commands.h"
#include "protocol/envoy/environment.h"
#include "protocol/envoy/words.h"
#include "protocol/protocol.h"
#include "testing/environment_of.h"
#include "tests/support/paths.h"

namespace sluice::envoy::variables_test {
namespace {

using Texts = std::map<std::string, std::string>;

std::string text_of(const config::Config& config) {
  std::string all;
  const auto add = [&](const std::string& text) { all += (all.empty() ? "" : "; ") + text; };
  const char* names[] = {"grpc ", "http ", "debug "};
  for (size_t i = 0; i < config.listen.size(); ++i) {
    const config::Address& address = config.listen[i].value.address;
    add(names[i] + config::format_address(address.host, address.port));
  }
  add(config::printed_line(config, "envoy"));
  if (const auto& redis = config.store.redis) {
    const redis::Options& its = redis->value;
    add("redis");
    for (const redis::Node& node : its.nodes) all += " " + name_of(node);
    if (its.cluster) all += " cluster";
    if (!its.sentinel.master.empty()) all += " of " + its.sentinel.master;
    if (its.tls) all += " tls";
    if (!its.password.empty()) all += " as " + its.username + ":" + its.password;
    if (its.deadline != base::seconds(10)) all += " within " + std::to_string(its.deadline.us);
    if (its.over_cache_bytes > 0) all += " cache " + std::to_string(its.over_cache_bytes);
    for (const redis::Node& node : its.second.nodes) all += ", second " + name_of(node);
  }
  add("log " + std::to_string(config.log.level.value) +
      (config.log.format.value == log::LogFormat::json ? " json" : ""));
  return all;
}

// The parts of `text` that are not in `usual`.
std::string differences(std::string_view text, const std::string& usual) {
  std::string all;
  while (!text.empty()) {
    const size_t end = std::min(text.find("; "), text.size());
    const std::string_view part = text.substr(0, end);
    if (usual.find(part) == usual.npos) all += (all.empty() ? "" : "; ") + std::string(part);
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return all;
}

struct Read {
  config::Config config{};
  LimitsFiles files{base::Setting<std::string>{}};
  std::string folder, said;
};

Read read(Texts variables) {
  variables.try_emplace("USE_STATSD", "false");
  std::ostringstream out, err;
  const config::CommandIo io{out, err, false, false, tests::environment_of(variables)};
  Read its;
  const protocol::Protocol self = number_of(description);
  its.config.listen = {{{self, {"0.0.0.0", 8081}}, ""}, {{self, {"0.0.0.0", 8080}}, ""}};
  base::Diagnostics diagnostics;
  its.folder = limits_folder(io, diagnostics).value;
  apply_limits_environment(io, its.files, diagnostics);
  apply_service_environment(io, its.config, diagnostics);
  for (const auto& d : diagnostics)
    its.said +=
        (its.said.empty() ? "" : ", ") +
        std::string(d.severity == base::Diagnostic::Severity::error ? "error " : "warning ") +
        d.subject;
  return its;
}

std::string named(const Texts& variables) {
  std::string all;
  for (const auto& [name, text] : variables) all += name + "=`" + text + "` ";
  return all;
}

struct Case {
  Texts variables;
  const char *differences, *said;
};

void expect(std::initializer_list<Case> cases) {
  const std::string usual = text_of(read({}).config);
  for (const Case& one : cases) {
    const Read its = read(one.variables);
    EXPECT_EQ(its.said, one.said) << named(one.variables);
    if (its.said.find("error") == its.said.npos) {
      EXPECT_EQ(differences(text_of(its.config), usual), one.differences) << named(one.variables);
    }
  }
}

TEST(EnvoyVariables, AreReadAsGoReadsThem) {
  struct Number {
    const char* text;
    std::optional<int64_t> number;
  };
  for (const auto& [text, number] : {Number{"0", 0},
                                     {"8081", 8081},
                                     {"-1", -1},
                                     {"+1", 1},
                                     {"0x1f91", 8081},
                                     {"0X1F91", 8081},
                                     {"0b11", 3},
                                     {"0o17", 15},
                                     {"017", 15},
                                     {"1_000", 1000},
                                     {"0_7", 7},
                                     {"0x_f", 15},
                                     {"", {}},
                                     {"x", {}},
                                     {"1k", {}},
                                     {" 1", {}},
                                     {"1 ", {}},
                                     {"1.0", {}},
                                     {"1e3", {}},
                                     {"08", {}},
                                     {"_1", {}},
                                     {"1_", {}},
                                     {"1__0", {}},
                                     {"0x", {}},
                                     {"0b2", {}},
                                     {"-", {}},
                                     {"+-1", {}},
                                     {"9223372036854775808", {}},
                                     {"-9223372036854775808", INT64_MIN}})
    EXPECT_EQ(read_go_int(text), number) << text;
  struct Float {
    const char* text;
    std::optional<double> number;
  };
  for (const auto& [text, number] : {Float{"0.8", 0.8},
                                     {"8e-1", 0.8},
                                     {".5", 0.5},
                                     {"+1", 1.0},
                                     {"-1", -1.0},
                                     {"0", 0.0},
                                     {"", {}},
                                     {"x", {}},
                                     {"0.8 ", {}},
                                     {"+-1", {}}})
    EXPECT_EQ(read_go_float(text), number) << text;
}

constexpr const char* truths[] = {"GRPC_SERVER_USE_TLS",
                                  "FORCE_START_WITHOUT_INITIAL_CONFIG",
                                  "CONFIG_GRPC_XDS_SERVER_USE_TLS",
                                  "XDS_CLIENT_BACKOFF_JITTER",
                                  "USE_DOG_STATSD",
                                  "USE_STATSD",
                                  "DISABLE_STATS",
                                  "USE_PROMETHEUS",
                                  "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS",
                                  "RUNTIME_IGNOREDOTFILES",
                                  "RUNTIME_WATCH_ROOT",
                                  "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
                                  "LIMIT_RESPONSE_HEADERS_ENABLED",
                                  "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
                                  "REDIS_TLS",
                                  "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION",
                                  "REDIS_PERSECOND",
                                  "REDIS_PERSECOND_TLS",
                                  "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION",
                                  "MEMCACHE_TLS",
                                  "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION",
                                  "SHADOW_MODE",
                                  "QUOTA_MODE",
                                  "RESPONSE_DYNAMIC_METADATA",
                                  "MERGE_DOMAIN_CONFIG",
                                  "TRACING_ENABLED"};
constexpr const char* numbers[] = {"PORT",
                                   "DEBUG_PORT",
                                   "GRPC_PORT",
                                   "STATSD_PORT",
                                   "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES",
                                   "EXPIRATION_JITTER_MAX_SECONDS",
                                   "LOCAL_CACHE_SIZE_IN_BYTES",
                                   "REDIS_POOL_SIZE",
                                   "REDIS_PIPELINE_LIMIT",
                                   "REDIS_CLUSTER_PIPELINE_PARALLELISM",
                                   "REDIS_PERSECOND_POOL_SIZE",
                                   "REDIS_PERSECOND_PIPELINE_LIMIT",
                                   "REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM",
                                   "MEMCACHE_MAX_IDLE_CONNS",
                                   "GRPC_MAX_CONNECTION_AGE",
                                   "GRPC_MAX_CONNECTION_AGE_GRACE",
                                   "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
                                   "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL",
                                   "XDS_CLIENT_BACKOFF_MAX_INTERVAL",
                                   "STATS_FLUSH_INTERVAL",
                                   "REDIS_PIPELINE_WINDOW",
                                   "REDIS_PERSECOND_PIPELINE_WINDOW",
                                   "REDIS_TIMEOUT",
                                   "REDIS_PERSECOND_TIMEOUT",
                                   "REDIS_STARTUP_INITIAL_INTERVAL",
                                   "REDIS_STARTUP_MAX_INTERVAL",
                                   "REDIS_STARTUP_MAX_ELAPSED_TIME",
                                   "MEMCACHE_SRV_REFRESH",
                                   "NEAR_LIMIT_RATIO",
                                   "XDS_CLIENT_BACKOFF_RANDOM_FACTOR",
                                   "TRACING_SAMPLING_RATE"};

// Whether they have an effect here or not.
TEST(EnvoyVariables, EmptyOrUnreadableNumbersTruthsAndTimesEndTheStart) {
  const auto refuses = [](const char* name, const char* text) {
    const std::string said = read({{name, text}}).said;
    EXPECT_EQ(said.find("error " + std::string(name)), said.rfind("error "))
        << name << ": " << said;
    EXPECT_NE(said.find("error "), said.npos) << name << "=" << text;
  };
  for (const char* name : truths)
    for (const char* text : {"", "yes", "2"}) refuses(name, text);
  for (const char* name : numbers)
    for (const char* text : {"", "many", "1k"}) refuses(name, text);
  EXPECT_EQ(read({{"EXTRA_TAGS", "x"}}).said, "error EXTRA_TAGS");
  EXPECT_EQ(read({{"EXTRA_TAGS", ""}}).said, "");
  EXPECT_EQ(read({{"SHADOW_MODE", "1"}}).said, "");
  for (const char* name : truths) EXPECT_EQ(read({{name, "0"}}).said, "") << name;
}

TEST(EnvoyVariables, NameListeners) {
  expect({{{{"GRPC_PORT", "1"}}, "grpc 0.0.0.0:1", ""},
          {{{"GRPC_PORT", "0"}}, "grpc 0.0.0.0:0", ""},
          {{{"GRPC_PORT", "0x1f91"}, {"PORT", "1_000"}}, "http 0.0.0.0:1000", ""},
          {{{"GRPC_PORT", "-1"}}, "", "error GRPC_PORT"},
          {{{"GRPC_PORT", "65536"}}, "", "error GRPC_PORT"},
          {{{"GRPC_HOST", "h"}}, "grpc h:8081", ""},
          {{{"GRPC_HOST", ""}}, "grpc [::]:8081", ""},
          {{{"PORT", "1"}}, "http 0.0.0.0:1", ""},
          {{{"PORT", "0"}}, "http 0.0.0.0:0", ""},
          {{{"HOST", "h"}}, "http h:8080", ""},
          {{{"HOST", ""}}, "http [::]:8080", ""},
          {{{"GRPC_UDS", ""}}, "", ""},
          {{{"GRPC_UDS", "/s"}}, "", "error GRPC_UDS"},
          {{{"DEBUG_PORT", "0"}}, "", "warning DEBUG_PORT"},
          {{{"DEBUG_HOST", "h"}}, "", "warning DEBUG_HOST"},
          {{{"DEBUG_PORT", "65536"}}, "", "error DEBUG_PORT"}});
  EXPECT_EQ(read({{"DEBUG_HOST", "h"}, {"DEBUG_PORT", "7"}}).config.listen[2].value.address.host,
            "h");
  EXPECT_EQ(read({{"DEBUG_HOST", ""}, {"DEBUG_PORT", "7"}}).config.listen[2].value.address.host,
            "::");
  EXPECT_EQ(read({{"DEBUG_PORT", "7"}}).config.listen[2].value.address.host, "0.0.0.0");
}

// An empty REDIS_URL, and `memory`, are the built-in store; an empty type is none.
TEST(EnvoyVariables, NameARedis) {
  const auto with = [](Texts more) {
    more.insert({{"REDIS_SOCKET_TYPE", "tcp"}, {"REDIS_URL", "r:1"}});
    return more;
  };
  expect({{{{"REDIS_URL", "r:1"}}, "", "error REDIS_SOCKET_TYPE"},
          {{{"REDIS_SOCKET_TYPE", "tcp"}}, "", "error REDIS_URL"},
          {{{"REDIS_SOCKET_TYPE", ""}}, "", ""},
          {{{"REDIS_URL", ""}}, "", ""},
          {{{"REDIS_URL", "memory"}}, "", ""},
          {with({{"REDIS_URL", ""}}), "", ""},
          {with({{"REDIS_URL", "memory"}}), "", ""},
          {with({{"REDIS_URL", ""}, {"REDIS_TLS", "true"}}), "", "warning REDIS_TLS"},
          {with({{"REDIS_SOCKET_TYPE", ""}}), "", "error REDIS_SOCKET_TYPE"},
          {with({}), "redis r:1", ""},
          {with({{"REDIS_URL", "0"}}), "", "error REDIS_URL"},
          {with({{"REDIS_URL", "r"}}), "redis r:6379", ""},
          {with({{"REDIS_URL", "r:x"}}), "", "error REDIS_URL"},
          {with({{"REDIS_TYPE", ""}}), "", "error REDIS_TYPE"},
          {with({{"REDIS_TYPE", "cluster"}}), "redis r:1 cluster", ""},
          {with({{"REDIS_TYPE", "sentinel"}}), "", "error REDIS_URL"},
          {with({{"REDIS_AUTH", ""}, {"REDIS_SENTINEL_AUTH", ""}}), "redis r:1", ""},
          {with({{"REDIS_AUTH", "0"}}), "redis r:1 as :0", ""},
          {with({{"REDIS_AUTH", "u:p"}}), "redis r:1 as u:p", ""},
          {with({{"REDIS_TIMEOUT", "1s"}}), "redis r:1 within 1000000", ""},
          {with({{"REDIS_TIMEOUT", "0"}}), "", "error REDIS_TIMEOUT"},
          {with({{"LOCAL_CACHE_SIZE_IN_BYTES", "0"}}), "redis r:1", ""},
          {with({{"LOCAL_CACHE_SIZE_IN_BYTES", "9"}}), "redis r:1 cache 9", ""},
          {with({{"LOCAL_CACHE_SIZE_IN_BYTES", "-9"}}), "", "error LOCAL_CACHE_SIZE_IN_BYTES"}});
  for (const char* name : {"REDIS_AUTH", "REDIS_TYPE", "REDIS_TIMEOUT", "REDIS_PERSECOND_URL"})
    EXPECT_EQ(read({{name, name == std::string("REDIS_TIMEOUT") ? "1s" : "x"}}).said,
              "warning " + std::string(name));
}

TEST(EnvoyVariables, NameASecondRedis) {
  const auto with = [](Texts more) {
    more.insert({{"REDIS_SOCKET_TYPE", "tcp"},
                 {"REDIS_URL", "r:1"},
                 {"REDIS_PERSECOND", "true"},
                 {"REDIS_PERSECOND_SOCKET_TYPE", "tcp"},
                 {"REDIS_PERSECOND_URL", "s:1"}});
    return more;
  };
  expect({{with({}), "redis r:1, second s:1", ""},
          {with({{"REDIS_PERSECOND", "0"}}), "redis r:1", "warning REDIS_PERSECOND_URL"},
          {with({{"REDIS_PERSECOND_URL", ""}}), "", "error REDIS_PERSECOND_URL"},
          {with({{"REDIS_PERSECOND_SOCKET_TYPE", ""}}), "", "error REDIS_PERSECOND_SOCKET_TYPE"},
          {with({{"REDIS_PERSECOND_TYPE", ""}}), "", "error REDIS_PERSECOND_TYPE"},
          {with({{"REDIS_PERSECOND_AUTH", ""}, {"REDIS_PERSECOND_SENTINEL_AUTH", ""}}),
           "redis r:1, second s:1", ""}});
}

TEST(EnvoyVariables, PlaceMetrics) {
  const auto page = [](Texts more) {
    more.insert({"USE_PROMETHEUS", "true"});
    return more;
  };
  const auto statsd = [](Texts more) {
    more.insert({"USE_STATSD", "true"});
    return more;
  };
  const auto prometheus = [&](Texts more) {
    const Read its = read(page(std::move(more)));
    const auto& metrics =
        static_cast<const EnvoySettings&>(its.config.settings_of(number_of(description))).metrics;
    return metrics.prometheus ? config::format_address(metrics.prometheus->address.host,
                                                       metrics.prometheus->address.port) +
                                    metrics.prometheus->path
                              : "none";
  };
  EXPECT_EQ(prometheus({}), "[::]:9090/metrics");
  EXPECT_EQ(prometheus({{"PROMETHEUS_ADDR", ""}, {"PROMETHEUS_PATH", ""}}), "[::]:9090/metrics");
  EXPECT_EQ(prometheus({{"PROMETHEUS_ADDR", ":1"}, {"PROMETHEUS_PATH", "/m"}}), "[::]:1/m");
  EXPECT_EQ(prometheus({{"PROMETHEUS_ADDR", ":0"}}), "[::]:0/metrics");
  EXPECT_EQ(prometheus({{"DISABLE_STATS", "true"}}), "none");
  const auto sent = [&](Texts more) {
    const Read its = read(statsd(std::move(more)));
    const auto& metrics =
        static_cast<const EnvoySettings&>(its.config.settings_of(number_of(description))).metrics;
    return metrics.statsd
               ? config::format_address(metrics.statsd->address.host, metrics.statsd->address.port)
               : "none";
  };
  EXPECT_EQ(sent({}), "localhost:8125");
  EXPECT_EQ(sent({{"STATSD_HOST", "h"}}), "h:8125");
  EXPECT_EQ(sent({{"STATSD_HOST", ""}}), "localhost:8125");
  EXPECT_EQ(sent({{"STATSD_PORT", "1"}}), "localhost:1");
  EXPECT_EQ(sent({{"STATSD_PORT", "0"}}), "none");
  EXPECT_EQ(read(statsd({{"STATSD_PORT", "0"}})).said, "warning STATSD_PORT");
  EXPECT_EQ(read(statsd({{"STATS_FLUSH_INTERVAL", "0"}})).said, "error STATS_FLUSH_INTERVAL");
  EXPECT_EQ(read(statsd(page({}))).said, "error USE_PROMETHEUS");
  EXPECT_EQ(read({{"PROMETHEUS_ADDR", ":1"}}).said, "warning PROMETHEUS_ADDR");
  EXPECT_EQ(read({{"PROMETHEUS_PATH", "/m"}}).said, "warning PROMETHEUS_PATH");
  EXPECT_EQ(read(page({{"PROMETHEUS_ADDR", "x:y"}})).said, "error PROMETHEUS_ADDR");
  EXPECT_EQ(read({{"NEAR_LIMIT_RATIO", "0"}}).said, "");
  EXPECT_EQ(read({{"NEAR_LIMIT_RATIO", "-1"}}).said, "error NEAR_LIMIT_RATIO");
}

TEST(EnvoyVariables, SetTheLogAndTheService) {
  expect({{{{"LOG_LEVEL", "DEBUG"}}, "log 1", ""},
          {{{"LOG_LEVEL", ""}}, "", "error LOG_LEVEL"},
          {{{"LOG_LEVEL", "0"}}, "", "error LOG_LEVEL"},
          {{{"LOG_FORMAT", "JSON"}}, "log 2 json", ""},
          {{{"LOG_FORMAT", ""}}, "", ""},
          {{{"LOG_FORMAT", "0"}}, "", "warning LOG_FORMAT"},
          {{{"BACKEND_TYPE", ""}}, "", ""},
          {{{"BACKEND_TYPE", "memcache"}}, "", "error BACKEND_TYPE"},
          {{{"CONFIG_TYPE", ""}}, "", "error CONFIG_TYPE"},
          {{{"CONFIG_TYPE", "0"}}, "", "error CONFIG_TYPE"},
          {{{"GRPC_SERVER_TLS_CERT", "c"}}, "", "warning GRPC_SERVER_TLS_CERT"},
          {{{"GRPC_SERVER_TLS_CA_CERT", "c"}}, "", ""},
          {{{"PROMETHEUS_MAPPER_YAML", "m"}}, "", ""},
          {{{"GRPC_CLIENT_TLS_SAN", "n"}}, "", "warning GRPC_CLIENT_TLS_SAN"},
          {{{"GRPC_SERVER_USE_TLS", "true"}},
           "",
           "error GRPC_SERVER_TLS_CERT, error GRPC_SERVER_TLS_KEY"},
          {{{"GRPC_SERVER_USE_TLS", "true"}, {"GRPC_SERVER_TLS_KEY", "k"}},
           "",
           "error GRPC_SERVER_TLS_CERT"},
          {{{"CONFIG_GRPC_XDS_NODE_ID", "n"}}, "", "warning CONFIG_GRPC_XDS_NODE_ID"},
          {{{"REDIS_POOL_SIZE", "5"}}, "", "warning REDIS_POOL_SIZE"},
          {{{"LIMIT_LIMIT_HEADER", "X-L"}},
           "envoy: { charge: each, headers: none, limit_header: \"X-L\", error_code: UNKNOWN, "
           "connection_age: 86400s, connection_grace: 3600s }",
           "warning LIMIT_LIMIT_HEADER"},
          {{{"LIMIT_RESPONSE_HEADERS_ENABLED", "1"}, {"LIMIT_RESET_HEADER", ""}},
           "envoy: { charge: each, headers: legacy, error_code: UNKNOWN, connection_age: 86400s, "
           "connection_grace: 3600s }",
           "warning LIMIT_RESET_HEADER"},
          {{{"GRPC_MAX_CONNECTION_AGE", "0"}, {"GRPC_MAX_CONNECTION_AGE_GRACE", "0s"}},
           "envoy: { charge: each, headers: none, error_code: UNKNOWN }",
           ""}});
}

TEST(EnvoyVariables, PlaceTheLimits) {
  EXPECT_EQ(read({}).folder, "/srv/runtime_data/current/config");
  EXPECT_EQ(read({{"RUNTIME_ROOT", "/r"}}).folder, "/r/config");
  EXPECT_EQ(read({{"RUNTIME_ROOT", "/r/"}, {"RUNTIME_SUBDIRECTORY", "s"}}).folder, "/r/s/config");
  EXPECT_EQ(read({{"RUNTIME_ROOT", "/r"}, {"RUNTIME_SUBDIRECTORY", ""}}).folder, "/r/config");
  EXPECT_EQ(read({{"RUNTIME_ROOT", "/r"}, {"RUNTIME_APPDIRECTORY", "0"}}).folder, "/r/0");
  EXPECT_EQ(read({{"RUNTIME_ROOT", ""}}).said, "error RUNTIME_ROOT");
  EXPECT_EQ(read({{"RUNTIME_APPDIRECTORY", ""}}).said, "error RUNTIME_APPDIRECTORY");
  struct Jitter {
    const char* text;
    uint32_t seconds;
    const char* said;
  };
  for (const auto& [text, seconds, said] :
       {Jitter{"0", 0, ""},
        {"9", 9, ""},
        {"-9", 0, ""},
        {"86401", 300, "error EXPIRATION_JITTER_MAX_SECONDS"}}) {
    const Read its = read({{"EXPIRATION_JITTER_MAX_SECONDS", text}});
    EXPECT_EQ(its.files.rules.life_jitter_s, seconds) << text;
    EXPECT_EQ(its.said, said) << text;
  }
  EXPECT_EQ(read({}).files.rules.life_jitter_s, 300u);
  EXPECT_EQ(read({{"CACHE_KEY_PREFIX", ""}}).files.rules.key_prefix, "");
  EXPECT_EQ(read({{"CACHE_KEY_PREFIX", "0"}}).files.rules.key_prefix, "0");
}

// "traces to URL 0.5 5000 512 2048", "metrics to URL 60000", and what differs from the defaults.
std::string otlp_of(const Read& its) {
  const otlp::Options& otlp = its.config.otlp;
  std::ostringstream text;
  if (!otlp.traces.endpoint.empty())
    text << "traces to " << otlp.traces.endpoint << " " << otlp.traces.sample << " "
         << otlp.traces.delay.us / 1000 << " " << otlp.traces.batch << " " << otlp.traces.queue
         << " by " << otlp.service << " " << otlp.name_space << " " << otlp.instance;
  if (!otlp.metrics.endpoint.empty())
    text << "metrics to " << otlp.metrics.endpoint << " " << otlp.metrics.interval.us / 1000;
  if (otlp.timeout != base::seconds(10)) text << " timeout " << otlp.timeout.us / 1000;
  for (const auto& [name, value] : otlp.headers) text << " " << name << "=" << value;
  for (const std::string& file : {otlp.tls.authority, otlp.tls.certificate, otlp.tls.key})
    if (!file.empty()) text << " " << file;
  return text.str();
}

struct OtlpCase {
  Texts variables;
  const char *otlp, *said;
};

void expect_otlp(bool traces, std::initializer_list<OtlpCase> cases) {
  for (const OtlpCase& one : cases) {
    Texts variables = one.variables;
    if (traces) variables.emplace("TRACING_ENABLED", "true");
    const Read its = read(variables);
    EXPECT_EQ(its.said, one.said) << named(variables);
    if (its.said.find("error") == its.said.npos) {
      EXPECT_EQ(otlp_of(its), one.otlp) << named(variables);
    }
  }
}

// Each of them alone: what one says does not depend on another one.
TEST(EnvoyVariables, PlaceTraces) {
  expect_otlp(
      true,
      {{{}, "traces to http://localhost:4318/v1/traces 1 5000 512 2048 by RateLimit  ", ""},
       {{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1/"}},
        "traces to http://c:1/v1/traces 1 5000 512 2048 by RateLimit  ",
        ""},
       {{{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://c/below"}},
        "traces to https://c/below/v1/traces 1 5000 512 2048 by RateLimit  ",
        ""},
       {{{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:2/as/it/is"},
         {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1"}},
        "traces to http://t:2/as/it/is 1 5000 512 2048 by RateLimit  ",
        ""},
       {{{"TRACING_SERVICE_NAME", "a"}},
        "traces to http://localhost:4318/v1/traces 1 5000 512 2048 by a  ",
        ""},
       {{{"TRACING_SERVICE_NAMESPACE", "n"}, {"TRACING_SERVICE_INSTANCE_ID", "i"}},
        "traces to http://localhost:4318/v1/traces 1 5000 512 2048 by RateLimit n i",
        ""},
       {{{"TRACING_SAMPLING_RATE", "0.5"}},
        "traces to http://localhost:4318/v1/traces 0.5 5000 512 2048 by RateLimit  ",
        ""},
       {{{"TRACING_SAMPLING_RATE", "7"}},
        "traces to http://localhost:4318/v1/traces 1 5000 512 2048 by RateLimit  ",
        ""},
       {{{"OTEL_BSP_SCHEDULE_DELAY", "100"}},
        "traces to http://localhost:4318/v1/traces 1 100 512 2048 by RateLimit  ",
        ""},
       {{{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "64"}, {"OTEL_BSP_MAX_QUEUE_SIZE", "4096"}},
        "traces to http://localhost:4318/v1/traces 1 5000 64 4096 by RateLimit  ",
        ""},
       {{{"OTEL_BSP_SCHEDULE_DELAY", "soon"}},
        "traces to http://localhost:4318/v1/traces 1 5000 512 2048 by RateLimit  ",
        "warning OTEL_BSP_SCHEDULE_DELAY"},
       {{{"OTEL_EXPORTER_OTLP_HEADERS", "a=b%2Cc, x-d = e"},
         {"OTEL_EXPORTER_OTLP_TIMEOUT", "250"},
         {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca"}},
        "traces to http://localhost:4318/v1/traces 1 5000 512 2048 by RateLimit   timeout 250 "
        "a=b,c x-d=e /ca",
        ""},
       {{{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/c"}, {"OTEL_EXPORTER_OTLP_CLIENT_KEY", "/k"}},
        "traces to http://localhost:4318/v1/traces 1 5000 512 2048 by RateLimit   /c /k",
        ""},
       {{{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"}},
        "",
        "error OTEL_EXPORTER_OTLP_ENDPOINT"},
       {{{"OTEL_EXPORTER_OTLP_HEADERS", "host=a"}}, "", "error OTEL_EXPORTER_OTLP_HEADERS"},
       {{{"OTEL_EXPORTER_OTLP_CLIENT_KEY", "/k"}}, "", "error OTEL_EXPORTER_OTLP_CLIENT_KEY"},
       {{{"TRACING_EXPORTER_PROTOCOL", "http"}},
        "traces to http://localhost:4318/v1/traces 1 5000 512 2048 by RateLimit  ",
        ""},
       {{{"TRACING_EXPORTER_PROTOCOL", "grpc"}}, "", "error TRACING_EXPORTER_PROTOCOL"},
       {{{"TRACING_EXPORTER_PROTOCOL", "udp"}}, "", "error TRACING_EXPORTER_PROTOCOL"}});
}

TEST(EnvoyVariables, OfTracesHaveNoEffectWithoutThem) {
  for (const char* name :
       {"TRACING_SERVICE_NAME", "TRACING_EXPORTER_PROTOCOL", "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_METRIC_EXPORT_INTERVAL"})
    expect_otlp(false, {{{{name, "grpc"}}, "", ("warning " + std::string(name)).c_str()}});
  expect_otlp(
      false,
      {{{{"TRACING_ENABLED", "false"}}, "", ""},
       {{{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://m:3"}}, "metrics to http://m:3 60000", ""},
       {{{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://m:3"},
         {"OTEL_METRIC_EXPORT_INTERVAL", "100"},
         {"OTEL_EXPORTER_OTLP_HEADERS", "a=b"}},
        "metrics to http://m:3 100 a=b",
        ""}});
}

// What Envoy Gateway sets where `telemetry.tracing` is configured.
TEST(EnvoyVariables, OfEnvoyGatewaysTracesGiveNoWarning) {
  expect_otlp(false, {{{{"TRACING_ENABLED", "true"},
                        {"TRACING_SERVICE_NAME", "envoy-ratelimit"},
                        {"TRACING_SERVICE_NAMESPACE", "envoy-gateway-system"},
                        {"TRACING_SERVICE_INSTANCE_ID", "envoy-ratelimit-5d8"},
                        {"TRACING_SAMPLING_RATE", "0.6"},
                        {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel.monitoring.svc:4318"}},
                       "traces to http://otel.monitoring.svc:4318/v1/traces 0.6 5000 512 2048 by "
                       "envoy-ratelimit envoy-gateway-system envoy-ratelimit-5d8",
                       ""}});
}

// The variables that the tables below a heading of a page name.
std::set<std::string> variables_of(const char* file, std::string_view heading) {
  std::ifstream page(tests::source_path(file));
  const std::regex name("`([A-Z][A-Z_]+)`");
  std::set<std::string> found;
  bool here = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) here = line == heading;
    if (!here || !line.starts_with("| ")) continue;
    for (std::sregex_iterator at(line.begin(), line.end(), name), end; at != end; ++at)
      found.insert((*at)[1]);
  }
  return found;
}

// The pages name only variables that are read here.
TEST(EnvoyVariables, AreThoseOfThePages) {
  const std::vector<std::string_view> known = variable_names();
  const auto is_known = [&](const std::string& name) {
    return std::ranges::find(known, name) != known.end();
  };
  const std::set<std::string> all = variables_of("docs/envoy.md", "## Settings");
  EXPECT_GT(all.size(), 15u);
  for (const std::string& name : all) EXPECT_TRUE(is_known(name)) << name;
  std::set<std::string> of_gateways = variables_of("docs/gateways.md", "## The variables");
  // Gateways set these, and neither the original nor this program reads them.
  for (const char* unread : {"GRPC_SERVER_TLS_CA_CERT", "GRPC_XDS_SOTW", "FILE"})
    of_gateways.erase(unread);
  for (const std::string& name : of_gateways) EXPECT_TRUE(is_known(name)) << name;
  for (const std::string_view name : known)
    if (name.starts_with("CONFIG_") || name.starts_with("XDS_") ||
        name.starts_with("GRPC_SERVER_") || name.starts_with("GRPC_CLIENT_") ||
        name.starts_with("REDIS_TLS")) {
      EXPECT_TRUE(of_gateways.contains(std::string(name))) << name;
    }
}

}  // namespace
}  // namespace sluice::envoy::variables_test
