#include "protocol/envoy/variables.h"

#include <utility>

#include "config/settings.h"
#include "protocol/envoy/go_words.h"
#include "protocol/envoy/metrics_settings.h"

namespace sluice::envoy {
namespace {

using base::Diagnostic;

// How the original reads a variable; it ends at the start where it cannot read one, as an empty
// number. The others are texts.
enum class Kind : uint8_t { truth, number, duration, ratio, tags };
struct Typed {
  Kind kind;
  const char* name;
};
constexpr Typed typed[] = {
    {Kind::truth, "GRPC_SERVER_USE_TLS"},
    {Kind::truth, "FORCE_START_WITHOUT_INITIAL_CONFIG"},
    {Kind::truth, "CONFIG_GRPC_XDS_SERVER_USE_TLS"},
    {Kind::truth, "XDS_CLIENT_BACKOFF_JITTER"},
    {Kind::truth, "USE_DOG_STATSD"},
    {Kind::truth, "USE_STATSD"},
    {Kind::truth, "DISABLE_STATS"},
    {Kind::truth, "USE_PROMETHEUS"},
    {Kind::truth, "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS"},
    {Kind::truth, "RUNTIME_IGNOREDOTFILES"},
    {Kind::truth, "RUNTIME_WATCH_ROOT"},
    {Kind::truth, "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"},
    {Kind::truth, "LIMIT_RESPONSE_HEADERS_ENABLED"},
    {Kind::truth, "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"},
    {Kind::truth, "REDIS_TLS"},
    {Kind::truth, "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION"},
    {Kind::truth, "REDIS_PERSECOND"},
    {Kind::truth, "REDIS_PERSECOND_TLS"},
    {Kind::truth, "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION"},
    {Kind::truth, "MEMCACHE_TLS"},
    {Kind::truth, "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION"},
    {Kind::truth, "SHADOW_MODE"},
    {Kind::truth, "QUOTA_MODE"},
    {Kind::truth, "RESPONSE_DYNAMIC_METADATA"},
    {Kind::truth, "MERGE_DOMAIN_CONFIG"},
    {Kind::truth, "TRACING_ENABLED"},
    {Kind::number, "PORT"},
    {Kind::number, "DEBUG_PORT"},
    {Kind::number, "GRPC_PORT"},
    {Kind::number, "STATSD_PORT"},
    {Kind::number, "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES"},
    {Kind::number, "EXPIRATION_JITTER_MAX_SECONDS"},
    {Kind::number, "LOCAL_CACHE_SIZE_IN_BYTES"},
    {Kind::number, "REDIS_POOL_SIZE"},
    {Kind::number, "REDIS_PIPELINE_LIMIT"},
    {Kind::number, "REDIS_CLUSTER_PIPELINE_PARALLELISM"},
    {Kind::number, "REDIS_PERSECOND_POOL_SIZE"},
    {Kind::number, "REDIS_PERSECOND_PIPELINE_LIMIT"},
    {Kind::number, "REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM"},
    {Kind::number, "MEMCACHE_MAX_IDLE_CONNS"},
    {Kind::duration, "GRPC_MAX_CONNECTION_AGE"},
    {Kind::duration, "GRPC_MAX_CONNECTION_AGE_GRACE"},
    {Kind::duration, "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL"},
    {Kind::duration, "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL"},
    {Kind::duration, "XDS_CLIENT_BACKOFF_MAX_INTERVAL"},
    {Kind::duration, "STATS_FLUSH_INTERVAL"},
    {Kind::duration, "REDIS_PIPELINE_WINDOW"},
    {Kind::duration, "REDIS_PERSECOND_PIPELINE_WINDOW"},
    {Kind::duration, "REDIS_TIMEOUT"},
    {Kind::duration, "REDIS_PERSECOND_TIMEOUT"},
    {Kind::duration, "REDIS_STARTUP_INITIAL_INTERVAL"},
    {Kind::duration, "REDIS_STARTUP_MAX_INTERVAL"},
    {Kind::duration, "REDIS_STARTUP_MAX_ELAPSED_TIME"},
    {Kind::duration, "MEMCACHE_SRV_REFRESH"},
    {Kind::ratio, "NEAR_LIMIT_RATIO"},
    {Kind::ratio, "XDS_CLIENT_BACKOFF_RANDOM_FACTOR"},
    {Kind::ratio, "TRACING_SAMPLING_RATE"},
    {Kind::tags, "EXTRA_TAGS"},
};

bool is_readable(Kind kind, const std::string& text) {
  switch (kind) {
    case Kind::truth:
      return read_go_bool(text).has_value();
    case Kind::number:
      return read_go_int(text).has_value();
    case Kind::duration:
      return read_go_duration(text).has_value();
    case Kind::ratio:
      return read_go_float(text).has_value();
    case Kind::tags:
      break;
  }
  return text.empty() || read_tags(text).has_value();
}

// "not a number", and an example of one.
std::pair<const char*, const char*> words_of(Kind kind) {
  switch (kind) {
    case Kind::truth:
      return {"neither true nor false", "set it to true or false, or unset it"};
    case Kind::number:
      return {"not a whole number", "set one, or unset it"};
    case Kind::duration:
      return {"not a length of time", "set one as in 10s or 1h30m, or unset it"};
    case Kind::ratio:
      return {"not a number", "set one as in 0.8, or unset it"};
    case Kind::tags:
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
