#include "protocol/envoy/variables.h"

#include <utility>

#include "config/settings.h"
#include "protocol/envoy/metrics_settings.h"
#include "protocol/envoy/words.h"

namespace sluice::envoy {
namespace {

using base::Diagnostic;

// How the original reads a variable; it ends at the start where it cannot read one, as an empty
// number. The others are texts.
enum class VariableKind : uint8_t { truth, number, duration, ratio, tags };
struct Typed {
  VariableKind kind;
  const char* name;
};
constexpr Typed typed[] = {
    {VariableKind::truth, "GRPC_SERVER_USE_TLS"},
    {VariableKind::truth, "FORCE_START_WITHOUT_INITIAL_CONFIG"},
    {VariableKind::truth, "CONFIG_GRPC_XDS_SERVER_USE_TLS"},
    {VariableKind::truth, "XDS_CLIENT_BACKOFF_JITTER"},
    {VariableKind::truth, "USE_DOG_STATSD"},
    {VariableKind::truth, "USE_STATSD"},
    {VariableKind::truth, "DISABLE_STATS"},
    {VariableKind::truth, "USE_PROMETHEUS"},
    {VariableKind::truth, "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS"},
    {VariableKind::truth, "RUNTIME_IGNOREDOTFILES"},
    {VariableKind::truth, "RUNTIME_WATCH_ROOT"},
    {VariableKind::truth, "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"},
    {VariableKind::truth, "LIMIT_RESPONSE_HEADERS_ENABLED"},
    {VariableKind::truth, "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"},
    {VariableKind::truth, "REDIS_TLS"},
    {VariableKind::truth, "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION"},
    {VariableKind::truth, "REDIS_PERSECOND"},
    {VariableKind::truth, "REDIS_PERSECOND_TLS"},
    {VariableKind::truth, "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION"},
    {VariableKind::truth, "MEMCACHE_TLS"},
    {VariableKind::truth, "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION"},
    {VariableKind::truth, "SHADOW_MODE"},
    {VariableKind::truth, "QUOTA_MODE"},
    {VariableKind::truth, "RESPONSE_DYNAMIC_METADATA"},
    {VariableKind::truth, "MERGE_DOMAIN_CONFIG"},
    {VariableKind::truth, "TRACING_ENABLED"},
    {VariableKind::number, "PORT"},
    {VariableKind::number, "DEBUG_PORT"},
    {VariableKind::number, "GRPC_PORT"},
    {VariableKind::number, "STATSD_PORT"},
    {VariableKind::number, "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES"},
    {VariableKind::number, "EXPIRATION_JITTER_MAX_SECONDS"},
    {VariableKind::number, "LOCAL_CACHE_SIZE_IN_BYTES"},
    {VariableKind::number, "REDIS_POOL_SIZE"},
    {VariableKind::number, "REDIS_PIPELINE_LIMIT"},
    {VariableKind::number, "REDIS_CLUSTER_PIPELINE_PARALLELISM"},
    {VariableKind::number, "REDIS_PERSECOND_POOL_SIZE"},
    {VariableKind::number, "REDIS_PERSECOND_PIPELINE_LIMIT"},
    {VariableKind::number, "REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM"},
    {VariableKind::number, "MEMCACHE_MAX_IDLE_CONNS"},
    {VariableKind::duration, "GRPC_MAX_CONNECTION_AGE"},
    {VariableKind::duration, "GRPC_MAX_CONNECTION_AGE_GRACE"},
    {VariableKind::duration, "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL"},
    {VariableKind::duration, "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL"},
    {VariableKind::duration, "XDS_CLIENT_BACKOFF_MAX_INTERVAL"},
    {VariableKind::duration, "STATS_FLUSH_INTERVAL"},
    {VariableKind::duration, "REDIS_PIPELINE_WINDOW"},
    {VariableKind::duration, "REDIS_PERSECOND_PIPELINE_WINDOW"},
    {VariableKind::duration, "REDIS_TIMEOUT"},
    {VariableKind::duration, "REDIS_PERSECOND_TIMEOUT"},
    {VariableKind::duration, "REDIS_STARTUP_INITIAL_INTERVAL"},
    {VariableKind::duration, "REDIS_STARTUP_MAX_INTERVAL"},
    {VariableKind::duration, "REDIS_STARTUP_MAX_ELAPSED_TIME"},
    {VariableKind::duration, "MEMCACHE_SRV_REFRESH"},
    {VariableKind::ratio, "NEAR_LIMIT_RATIO"},
    {VariableKind::ratio, "XDS_CLIENT_BACKOFF_RANDOM_FACTOR"},
    {VariableKind::ratio, "TRACING_SAMPLING_RATE"},
    {VariableKind::tags, "EXTRA_TAGS"},
};

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
      break;
  }
  return text.empty() || read_tags(text).has_value();
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
      break;
  }
  return {"no list of tags", "set them as in env:test,zone:b, or unset it"};
}

Diagnostic place_of(const char* name) {
  Diagnostic place;
  place.subject = name;
  return place;
}

}  // namespace

std::optional<std::string> Variables::text(const char* name) const {
  auto value = set(name);
  if (value && value->empty()) value.reset();
  return value;
}

std::optional<bool> Variables::truth(const char* name) const {
  const auto value = text(name);
  return value ? read_go_bool(*value) : std::nullopt;
}

bool Variables::is_wanted(const char* name) const {
  const auto value = text(name);
  return value && read_go_bool(*value) != false;
}

std::optional<base::Duration> Variables::duration(const char* name) const {
  const auto value = text(name);
  return value ? read_go_duration(*value) : std::nullopt;
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

void Variables::check_typed() {
  for (const auto& [kind, name] : typed) {
    const auto value = set(name);
    if (!value || is_readable(kind, *value)) continue;
    const auto [what, remedy] = words_of(kind);
    complain(name, (value->empty() ? "is empty, and that is " : "`" + *value + "` is ") + what,
             remedy);
  }
}

void Variables::complain(const char* name, std::string what, std::string remedy) {
  for (const Diagnostic& known : diagnostics_)
    if (known.subject == name && known.severity == Diagnostic::Severity::error) return;
  config::complain(place_of(name), std::move(what), std::move(remedy), diagnostics_);
}

void Variables::warn(const char* name, std::string what, std::string remedy) {
  Diagnostic at = place_of(name);
  at.severity = Diagnostic::Severity::warning;
  config::complain(at, std::move(what), std::move(remedy), diagnostics_);
}

}  // namespace sluice::envoy
