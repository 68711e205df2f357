#include "protocol/envoy/variables.h"

#include <algorithm>
#include <array>
#include <utility>

#include "protocol/envoy/metrics_settings.h"
#include "protocol/envoy/words.h"

namespace sluice::envoy {
namespace {

// How the original reads a variable; it ends at the start where it cannot read one, as an empty
// number.
enum class VariableKind : uint8_t { text, truth, number, duration, ratio, tags };
// What becomes of it here.
enum class Fate : uint8_t {
  used,
  refused,    // because the server would do something else than it asks for
  no_effect,  // in sluice
  needs,      // has no effect unless `other` is wanted
  of_redis,   // has no effect unless a Redis is named
  of_xds,     // has no effect unless limits come by xDS
  of_otlp,    // has no effect unless traces or metrics are sent
};
struct Variable {
  VariableKind kind;
  const char* name;
  Fate fate = Fate::used;
  // `refused`: without this variable the original ignores it; null: it always reads it.
  const char* other = nullptr;
  const char *what = nullptr, *remedy = nullptr;
};

constexpr Variable of_tls(VariableKind kind, const char* name) {
  return {kind,
          name,
          Fate::needs,
          "GRPC_SERVER_USE_TLS",
          "there is no TLS",
          "set GRPC_SERVER_USE_TLS=true, or unset it"};
}
constexpr Variable of_traces(VariableKind kind, const char* name) {
  return {kind,
          name,
          Fate::needs,
          "TRACING_ENABLED",
          "requests are not traced",
          "set TRACING_ENABLED=true, or unset it"};
}

constexpr auto all = [] {
  using enum VariableKind;
  using enum Fate;
  return std::to_array<Variable>({
      {text, "RUNTIME_ROOT"},
      {text, "RUNTIME_SUBDIRECTORY"},
      {text, "RUNTIME_APPDIRECTORY"},
      {truth, "RUNTIME_IGNOREDOTFILES"},
      {truth, "RUNTIME_WATCH_ROOT"},
      {truth, "MERGE_DOMAIN_CONFIG"},
      {truth, "FORCE_START_WITHOUT_INITIAL_CONFIG"},
      {text, "CACHE_KEY_PREFIX"},
      {number, "EXPIRATION_JITTER_MAX_SECONDS"},
      {text, "GRPC_HOST"},
      {number, "GRPC_PORT"},
      {text, "HOST"},
      {number, "PORT"},
      {number, "DEBUG_PORT"},
      {text, "DEBUG_HOST", needs, "DEBUG_PORT", "there is no debug port",
       "set DEBUG_PORT=6070, or unset it"},
      {text, "LOG_LEVEL"},
      {text, "LOG_FORMAT"},
      {truth, "SHADOW_MODE"},
      {truth, "QUOTA_MODE"},
      {truth, "RESPONSE_DYNAMIC_METADATA"},
      {truth, "LIMIT_RESPONSE_HEADERS_ENABLED"},
      {text, "LIMIT_LIMIT_HEADER", needs, "LIMIT_RESPONSE_HEADERS_ENABLED",
       "no such header is sent", "set LIMIT_RESPONSE_HEADERS_ENABLED=true, or unset it"},
      {text, "LIMIT_REMAINING_HEADER", needs, "LIMIT_RESPONSE_HEADERS_ENABLED",
       "no such header is sent", "set LIMIT_RESPONSE_HEADERS_ENABLED=true, or unset it"},
      {text, "LIMIT_RESET_HEADER", needs, "LIMIT_RESPONSE_HEADERS_ENABLED",
       "no such header is sent", "set LIMIT_RESPONSE_HEADERS_ENABLED=true, or unset it"},
      {truth, "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"},
      {truth, "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"},
      {duration, "GRPC_MAX_CONNECTION_AGE"},
      {duration, "GRPC_MAX_CONNECTION_AGE_GRACE"},
      {truth, "DISABLE_STATS"},
      {truth, "USE_STATSD"},
      {text, "STATSD_HOST"},
      {number, "STATSD_PORT"},
      {duration, "STATS_FLUSH_INTERVAL"},
      {tags, "EXTRA_TAGS"},
      {ratio, "NEAR_LIMIT_RATIO"},
      {truth, "USE_PROMETHEUS"},
      {text, "PROMETHEUS_ADDR", needs, "USE_PROMETHEUS", "no page of metrics is served",
       "set USE_PROMETHEUS=true, or unset it"},
      {text, "PROMETHEUS_PATH", needs, "USE_PROMETHEUS", "no page of metrics is served",
       "set USE_PROMETHEUS=true, or unset it"},
      {truth, "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS"},
      {text, "BACKEND_TYPE"},
      {text, "CONFIG_TYPE"},
      {text, "REDIS_SOCKET_TYPE"},
      {text, "REDIS_URL"},
      {text, "REDIS_TYPE", of_redis},
      {text, "REDIS_SENTINEL_AUTH", of_redis},
      {text, "REDIS_AUTH", of_redis},
      {truth, "REDIS_TLS", of_redis},
      {duration, "REDIS_TIMEOUT", of_redis},
      {truth, "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", of_redis},
      {number, "LOCAL_CACHE_SIZE_IN_BYTES", of_redis},
      {truth, "REDIS_PERSECOND", of_redis},
      {text, "REDIS_PERSECOND_SOCKET_TYPE"},
      {text, "REDIS_PERSECOND_TYPE"},
      {text, "REDIS_PERSECOND_URL", of_redis},
      {text, "REDIS_PERSECOND_SENTINEL_AUTH"},
      {text, "REDIS_PERSECOND_AUTH"},
      {truth, "REDIS_PERSECOND_TLS"},
      {truth, "GRPC_SERVER_USE_TLS"},
      of_tls(text, "GRPC_SERVER_TLS_CERT"),
      of_tls(text, "GRPC_SERVER_TLS_KEY"),
      of_tls(text, "GRPC_CLIENT_TLS_CACERT"),
      {text, "GRPC_CLIENT_TLS_SAN", needs, "GRPC_CLIENT_TLS_CACERT",
       "clients are not asked for certificates", "set GRPC_CLIENT_TLS_CACERT, or unset it"},
      {text, "REDIS_TLS_CLIENT_CERT", of_redis},
      {text, "REDIS_TLS_CLIENT_KEY", of_redis},
      {text, "REDIS_TLS_CACERT", of_redis},
      {truth, "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", of_redis},
      {text, "GRPC_UDS", refused, nullptr, "listeners cannot be UNIX sockets yet",
       "unset it; set GRPC_HOST and GRPC_PORT"},
      {truth, "USE_DOG_STATSD", refused, nullptr, "DogStatsD is not spoken",
       "set USE_STATSD=true or USE_PROMETHEUS=true in its place"},
      {number, "REDIS_POOL_SIZE", no_effect},
      {duration, "REDIS_PIPELINE_WINDOW", no_effect},
      {number, "REDIS_PIPELINE_LIMIT", no_effect},
      {number, "REDIS_CLUSTER_PIPELINE_PARALLELISM", no_effect},
      {text, "REDIS_POOL_ON_EMPTY_BEHAVIOR", no_effect},
      {duration, "REDIS_STARTUP_INITIAL_INTERVAL", no_effect},
      {duration, "REDIS_STARTUP_MAX_INTERVAL", no_effect},
      {duration, "REDIS_STARTUP_MAX_ELAPSED_TIME", no_effect},
      {truth, "TRACING_ENABLED"},
      of_traces(text, "TRACING_EXPORTER_PROTOCOL"),
      of_traces(text, "TRACING_SERVICE_NAME"),
      of_traces(text, "TRACING_SERVICE_NAMESPACE"),
      of_traces(text, "TRACING_SERVICE_INSTANCE_ID"),
      of_traces(text, "OTEL_EXPORTER_OTLP_ENDPOINT"),
      of_traces(text, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
      of_traces(text, "OTEL_BSP_SCHEDULE_DELAY"),
      of_traces(text, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"),
      of_traces(text, "OTEL_BSP_MAX_QUEUE_SIZE"),
      {text, "OTEL_METRIC_EXPORT_INTERVAL", needs, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
       "no metrics are sent", "set OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, or unset it"},
      {text, "OTEL_EXPORTER_OTLP_HEADERS", of_otlp},
      {text, "OTEL_EXPORTER_OTLP_TIMEOUT", of_otlp},
      {text, "OTEL_EXPORTER_OTLP_CERTIFICATE", of_otlp},
      {text, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", of_otlp},
      {text, "OTEL_EXPORTER_OTLP_CLIENT_KEY", of_otlp},
      {text, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"},
      {number, "REDIS_PERSECOND_POOL_SIZE", no_effect},
      {duration, "REDIS_PERSECOND_PIPELINE_WINDOW", no_effect},
      {number, "REDIS_PERSECOND_PIPELINE_LIMIT", no_effect},
      {number, "REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", no_effect},
      {text, "REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", no_effect},
      {duration, "REDIS_PERSECOND_TIMEOUT", no_effect},
      {text, "USE_DOG_STATSD_MOGRIFIERS", no_effect},
      {text, "PROMETHEUS_MAPPER_YAML"},  // the original's own names are always those in it
      {text, "CONFIG_GRPC_XDS_SERVER_URL", of_xds},
      {text, "CONFIG_GRPC_XDS_NODE_ID", of_xds},
      {text, "CONFIG_GRPC_XDS_NODE_METADATA", of_xds},
      {text, "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", of_xds},
      {duration, "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", of_xds},
      {truth, "CONFIG_GRPC_XDS_SERVER_USE_TLS", of_xds},
      {text, "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", of_xds},
      {text, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", of_xds},
      {text, "CONFIG_GRPC_XDS_SERVER_TLS_CACERT", of_xds},
      {text, "CONFIG_GRPC_XDS_SERVER_TLS_SAN", of_xds},
      {number, "MEMCACHE_MAX_IDLE_CONNS"},
      {duration, "MEMCACHE_SRV_REFRESH"},
      {truth, "MEMCACHE_TLS"},
      {truth, "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION"},
      of_traces(ratio, "TRACING_SAMPLING_RATE"),
      {duration, "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", of_xds},
      {truth, "XDS_CLIENT_BACKOFF_JITTER", of_xds},
      {duration, "XDS_CLIENT_BACKOFF_MAX_INTERVAL", of_xds},
      {ratio, "XDS_CLIENT_BACKOFF_RANDOM_FACTOR", of_xds},
      {number, "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", of_xds},
  });
}();
// Further variables without effect, by their prefixes.
constexpr std::string_view without_effect_prefixes[] = {"DOG_STATSD_MOGRIFIER_", "TRACING_",
                                                        "OTEL_", "MEMCACHE_"};

bool is_listed(std::string_view name) {
  return std::ranges::any_of(all, [&](const Variable& one) { return name == one.name; });
}

bool is_readable(VariableKind kind, const std::string& text) {
  switch (kind) {
    case VariableKind::truth:
      return read_go_bool(text).has_value();
    case VariableKind::number:
      return read_go_int(text).has_value();
    case VariableKind::duration:
      return read_go_duration(text).has_value();
    case VariableKind::ratio:
      return read_go_float(text).has_value();
    case VariableKind::tags:
      return text.empty() || read_tags(text).has_value();
    case VariableKind::text:
      break;
  }
  return true;
}

// "not a number", and an example of one.
std::pair<const char*, const char*> words_of(VariableKind kind) {
  switch (kind) {
    case VariableKind::truth:
      return {"neither true nor false", "set it to true or false, or unset it"};
    case VariableKind::number:
      return {"not a whole number", "set one, or unset it"};
    case VariableKind::duration:
      return {"not a length of time", "set one as in 10s or 1h30m, or unset it"};
    case VariableKind::ratio:
      return {"not a number", "set one as in 0.8, or unset it"};
    case VariableKind::tags:
    case VariableKind::text:
      break;
  }
  return {"no list of tags", "set them as in env:test,zone:b, or unset it"};
}

}  // namespace

std::vector<std::string_view> variable_names() {
  std::vector<std::string_view> names;
  for (const Variable& one : all) names.emplace_back(one.name);
  return names;
}

bool has_no_effect(std::string_view name) {
  return std::ranges::any_of(without_effect_prefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::optional<bool> Variables::truth(const char* name) const {
  const auto value = text(name);
  return value ? read_go_bool(*value) : std::nullopt;
}

bool Variables::is_wanted(const char* name) const {
  const auto value = text(name);
  return value && read_go_bool(*value) != false;
}

bool Variables::is_xds() const {
  return set("CONFIG_TYPE") == "GRPC_XDS_SOTW";
}

std::optional<base::Duration> Variables::duration(const char* name) const {
  const auto value = text(name);
  return value ? read_go_duration(*value) : std::nullopt;
}

std::optional<double> Variables::ratio(const char* name) const {
  const auto value = text(name);
  return value ? read_go_float(*value) : std::nullopt;
}

std::optional<int64_t> Variables::number(const char* name) const {
  const auto value = text(name);
  return value ? read_go_int(*value) : std::nullopt;
}

std::optional<int64_t> Variables::count(const char* name, int64_t most) {
  const auto its = number(name);
  if (!its || (*its >= 0 && *its <= most)) return its;
  complain(name, "`" + *text(name) + "` is not a number from 0 to " + std::to_string(most),
           "set one, or unset it");
  return std::nullopt;
}

std::optional<uint16_t> Variables::port(const char* name) {
  const auto its = number(name);
  if (!its) return std::nullopt;
  if (*its >= 0 && *its <= UINT16_MAX) return static_cast<uint16_t>(*its);
  complain(name, "`" + *text(name) + "` is not a port", "set it to 0 to 65535, or unset it");
  return std::nullopt;
}

void Variables::check() {
  using enum Fate;
  for (const Variable& one : all) {
    const auto value = set(one.name);
    if (!value || is_readable(one.kind, *value)) continue;
    const auto [what, remedy] = words_of(one.kind);
    complain(one.name, (value->empty() ? "is empty, and that is " : "`" + *value + "` is ") + what,
             remedy);
  }
  for (const auto& [kind, name, fate, other, what, remedy] : all) {
    if (fate == refused && is_wanted(name) && (other == nullptr || is_wanted(other)))
      complain(name, what, remedy);
    if (fate == no_effect && is_wanted(name)) warn(name, "has no effect here", "it may be unset");
    if (fate == needs && text(name) && !is_wanted(other))
      warn(name, std::string("has no effect, as ") + what, remedy);
    if (fate == of_xds && is_wanted(name) && !is_xds())
      warn(name, "has no effect, as limits come from files",
           "set CONFIG_TYPE=GRPC_XDS_SOTW, or unset it");
    if (fate == of_otlp && text(name) && !is_wanted("TRACING_ENABLED") &&
        !text("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"))
      warn(name, "has no effect, as neither traces nor metrics are sent",
           "set TRACING_ENABLED=true, or unset it");
  }
  if (text("BACKEND_TYPE").value_or("redis") != "redis")
    complain("BACKEND_TYPE", "only Redis can keep the counters, or sluice itself",
             "unset it, or set it to redis");
  if (const auto type = set("CONFIG_TYPE"); type && *type != "FILE" && !is_xds())
    complain("CONFIG_TYPE", "`" + *type + "` is no way by which limits come",
             "set it to FILE or GRPC_XDS_SOTW, or unset it");
  if (!io_.variables) return;
  for (const auto& [name, value] : io_.variables())
    for (const std::string_view prefix : without_effect_prefixes)
      if (name.starts_with(prefix) && !value.empty() && (prefix == "MEMCACHE_" || !is_listed(name)))
        warn(name.c_str(), "has no effect here", "it may be unset");
}

void Variables::warn_of_redis() {
  for (const Variable& one : all)
    if (one.fate == Fate::of_redis && is_wanted(one.name))
      warn(one.name, "is about a Redis, and none is named: sluice keeps the counters itself",
           "set REDIS_SOCKET_TYPE=tcp and REDIS_URL=HOST:PORT, or unset it");
}

}  // namespace sluice::envoy
