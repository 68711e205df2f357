#include "protocol/envoy/environment.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/otlp_settings.h"
#include "config/settings.h"
#include "net/tls.h"
#include "protocol/envoy/commands.h"
#include "protocol/envoy/variables.h"
#include "protocol/envoy/words.h"
#include "protocol/envoy/xds.h"
#include "wire/http_session.h"

namespace sluice::envoy {
namespace {

constexpr int64_t over_cache_max = int64_t{1} << 30;
constexpr int64_t xds_message_bytes_max = int64_t{1} << 30;

std::vector<std::string> pieces_of(std::string_view list) {
  std::vector<std::string> pieces;
  while (!list.empty()) {
    const size_t size = std::min(list.find(','), list.size());
    if (size > 0) pieces.emplace_back(list.substr(0, size));
    list.remove_prefix(std::min(size + 1, list.size()));
  }
  return pieces;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// As in Go an empty host is every address.
std::string host_of(Variables& variables, const char* name) {
  const std::string host = variables.set(name).value_or("0.0.0.0");
  return host.empty() ? "::" : host;
}

void apply_addresses(Variables& variables, config::Config& config) {
  const auto apply = [&](config::Listener& listener, const char* host, const char* port) {
    if (variables.set(host)) listener.address.host = host_of(variables, host);
    if (const auto number = variables.port(port)) listener.address.port = *number;
  };
  apply(config.listen[0].value, "GRPC_HOST", "GRPC_PORT");
  apply(config.listen[1].value, "HOST", "PORT");
}

// As in the original the authorities of the system are trusted as well.
void apply_tls(Variables& variables, config::Listener& grpc) {
  if (!variables.is_true("GRPC_SERVER_USE_TLS")) return;
  net::TlsServer& tls = grpc.tls.emplace();
  const auto file = [&](const char* name, std::string& to) {
    if (auto path = variables.text(name))
      to = *std::move(path);
    else
      variables.complain(name, "is not set, and GRPC_SERVER_USE_TLS asks for TLS",
                         "set it to the path of a PEM file");
  };
  file("GRPC_SERVER_TLS_CERT", tls.certificate);
  file("GRPC_SERVER_TLS_KEY", tls.key);
  tls.client_ca = variables.text("GRPC_CLIENT_TLS_CACERT").value_or("");
  if (tls.client_ca.empty()) return;
  tls.client = net::TlsServer::Client::require;
  tls.with_system = true;
  if (auto name = variables.text("GRPC_CLIENT_TLS_SAN")) tls.names = {*std::move(name)};
}

// Adds the listener of the debug port only if DEBUG_PORT is set, so that no port is open that the
// operator does not know of.
void apply_debug_port(Variables& variables, EnvoyOptions& options, config::Config& config) {
  const auto port = variables.port("DEBUG_PORT");
  if (!port) return;
  if (*port == 0)
    return variables.warn("DEBUG_PORT", "opens no port, as no client would know a free one",
                          "set it to 1 to 65535");
  options.debug_port = *port;
  config.listen.push_back(
      {{config.listen[1].value.protocol, {host_of(variables, "DEBUG_HOST"), *port}}, "DEBUG_PORT"});
}

// Sets `to` from a variable. A text that `read` does not accept is reported.
template <class Read, class Value>
void apply_read(Variables& variables, const char* name, Read read, Value& to, const char* wrong,
                const char* remedy) {
  const auto text = variables.text(name);
  if (!text) return;
  if (auto value = read(*text))
    to = *std::move(value);
  else
    variables.complain(name, "`" + *text + "` " + wrong, remedy);
}

void apply_prometheus(Variables& variables, MetricsSettings& metrics) {
  metrics.prometheus = MetricsSettings::Page{};
  MetricsSettings::Page& page = *metrics.prometheus;
  if (auto text = variables.text("PROMETHEUS_ADDR")) {
    if (text->starts_with(':')) *text = "[::]" + *text;  // as in Go: every address
    if (auto address = config::parse_address(*text, prometheus_port))
      page.address = *std::move(address);
    else
      variables.complain("PROMETHEUS_ADDR",
                         "`" + *text + "` is not an address: " + std::move(address).problem().text,
                         "set one as in :9090");
  }
  if (auto path = variables.text("PROMETHEUS_PATH")) page.path = *std::move(path);
  metrics.counting.milliseconds = variables.is_true("PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS");
}

void apply_statsd(Variables& variables, MetricsSettings& metrics) {
  const auto port = variables.port("STATSD_PORT");
  if (port && *port == 0)
    return variables.warn("STATSD_PORT", "`0` is not a port, so nothing is sent to statsd",
                          "set it to 1 to 65535, or unset it for 8125");
  metrics.statsd = MetricsSettings::Statsd{};
  MetricsSettings::Statsd& statsd = *metrics.statsd;
  if (auto host = variables.text("STATSD_HOST")) statsd.address.host = *std::move(host);
  if (port) statsd.address.port = *port;
  const auto interval = variables.duration("STATS_FLUSH_INTERVAL");
  if (interval && interval->us < 1'000)
    variables.complain("STATS_FLUSH_INTERVAL", "it is less than a millisecond", "set it to 10s");
  else if (interval)
    statsd.flush_interval = *interval;
}

// If no variable names a statsd, no metrics are sent. The original sends them to localhost, which
// the operator of sluice has not asked for.
void apply_metrics(Variables& variables, MetricsSettings& metrics) {
  apply_read(variables, "NEAR_LIMIT_RATIO", read_ratio, metrics.counting.near_ratio,
             "is not a ratio", "set one as in 0.8");
  apply_read(variables, "EXTRA_TAGS", read_tags, metrics.counting.tags, "are not tags",
             "set them as in env:test,zone:b");
  if (variables.is_true("DISABLE_STATS")) return;
  const auto use_statsd = variables.truth("USE_STATSD");
  const bool use_prometheus = variables.is_true("USE_PROMETHEUS");
  if (use_prometheus && use_statsd == true)
    return variables.complain("USE_PROMETHEUS", "USE_STATSD is set as well",
                              "set one of them to true: each counter is sent in one way");
  if (use_prometheus) return apply_prometheus(variables, metrics);
  const bool names_statsd = variables.text("STATSD_HOST") || variables.text("STATSD_PORT");
  if (use_statsd.value_or(names_statsd)) return apply_statsd(variables, metrics);
  if (!use_statsd)
    variables.warn("USE_STATSD", "is not set, so nothing is sent to a statsd on localhost:8125",
                   "set it to true or false");
}

void apply_responses(Variables& variables, EnvoyOptions& options) {
  ResponseOptions& response = options.response;
  response.shadow = variables.is_true("SHADOW_MODE");
  response.quota = variables.is_true("QUOTA_MODE");
  response.dynamic_metadata = variables.is_true("RESPONSE_DYNAMIC_METADATA");
  if (variables.is_true("LIMIT_RESPONSE_HEADERS_ENABLED")) response.headers = HeaderStyle::legacy;
  const auto header = [&](const char* name, std::string& to) {
    auto text = variables.set(name);
    if (!text) return;
    if (text->empty())
      return variables.warn(name, "is empty, and a header needs a name, so it is " + to,
                            "set a name, or unset it");
    // Only a warning: the original accepts any text and sends it.
    if (!wire::is_http_field_name(*text))
      variables.warn(name, "`" + *text + "` is not the name of a header; clients may drop it",
                     "use letters, digits and `-`, such as RateLimit-Limit");
    to = *std::move(text);
  };
  header("LIMIT_LIMIT_HEADER", response.limit_header);
  header("LIMIT_REMAINING_HEADER", response.remaining_header);
  header("LIMIT_RESET_HEADER", response.reset_header);
}

void apply_service(Variables& variables, EnvoyOptions& options) {
  options.sparing = variables.is_true("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT");
  options.healthy_with_domains = variables.is_true("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED");
  options.healthy_with_store = variables.is_true("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION");
  // In Go's gRPC, 0 means no limit.
  const auto age = [&](const char* name, base::Duration usual) {
    const base::Duration length = variables.duration(name).value_or(usual);
    return length.us == 0 ? base::never : length;
  };
  options.connection_age = age("GRPC_MAX_CONNECTION_AGE", base::seconds(24 * 3'600));
  options.connection_grace = age("GRPC_MAX_CONNECTION_AGE_GRACE", base::seconds(3'600));
}

constexpr config::SameVariable same_variables[] = {{"REDIS_URL", "SLUICE_REDIS"},
                                                   {"REDIS_TLS", "SLUICE_REDIS_TLS"},
                                                   {"LOG_LEVEL", "SLUICE_LOG_LEVEL"},
                                                   {"LOG_FORMAT", "SLUICE_LOG_FORMAT"}};

std::string in_lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

void apply_log(Variables& variables, config::Config& config, base::Diagnostics& diagnostics) {
  if (auto level = variables.set("LOG_LEVEL")) {
    *level = in_lower_case(*level);
    if (*level == "warning") *level = "warn";
    if (*level == "fatal" || *level == "panic") *level = "error";
    config::apply_variable("SLUICE_LOG_LEVEL", *level, "LOG_LEVEL", config, diagnostics);
  }
  // As in the original all but `json` is text.
  const std::string format = in_lower_case(variables.text("LOG_FORMAT").value_or("text"));
  if (format == "json")
    config.log.format = {log::LogFormat::json, "LOG_FORMAT"};
  else if (format != "text")
    variables.warn("LOG_FORMAT", "`" + format + "` is not a format of logs, so it is text",
                   "set it to text or json");
}

// Reads `password` or `user:password`.
void apply_auth(const std::optional<std::string>& auth, std::string& username,
                std::string& password) {
  if (!auth) return;
  const size_t colon = auth->find(':');
  username = colon == std::string::npos ? "" : auth->substr(0, colon);
  password = colon == std::string::npos ? *auth : auth->substr(colon + 1);
}

// The addresses of one Redis.
struct RedisPlace {
  std::vector<redis::Node> nodes;
  bool cluster = false;
  redis::Sentinels sentinel;
};

bool is_reached(Variables& variables, const char* kind) {
  if (variables.set(kind).value_or("unix") != "tcp") {
    variables.complain(kind, "Redis is reached over TCP only",
                       "set it to tcp, and the URL to HOST:PORT; without Redis in the environment "
                       "sluice keeps the counters itself");
    return false;
  }
  return true;
}

// Reads the type and the URL. For CLUSTER the URL has some nodes of the cluster; for SENTINEL the
// sentinels' name of the primary, then the sentinels. Nothing: an error was reported.
std::optional<RedisPlace> read_place(Variables& variables, const char* type, const char* url_name,
                                     const char* sentinel_auth, const std::string& url,
                                     base::Diagnostics& diagnostics) {
  std::string name = variables.set(type).value_or("SINGLE");
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  if (name != "SINGLE" && name != "CLUSTER" && name != "SENTINEL") {
    variables.complain(type, "`" + name + "` is not a type of Redis",
                       "set it to SINGLE, CLUSTER or SENTINEL");
    return std::nullopt;
  }
  RedisPlace place;
  place.cluster = name == "CLUSTER";
  std::string_view nodes = url;
  if (name == "SENTINEL") {
    const size_t comma = url.find(',');
    if (comma == std::string::npos || comma == 0) {
      variables.complain(url_name, "names no primary, or no sentinels",
                         std::string("set ") + url_name + "=MASTER,HOST:PORT,HOST:PORT");
      return std::nullopt;
    }
    place.sentinel.master = url.substr(0, comma);
    nodes.remove_prefix(comma + 1);
    apply_auth(variables.text(sentinel_auth), place.sentinel.username, place.sentinel.password);
  }
  config::Config named;
  config::apply_variable("SLUICE_REDIS", nodes, url_name, named, diagnostics);
  if (!named.store.redis) return std::nullopt;
  (name == "SENTINEL" ? place.sentinel.nodes : place.nodes) = named.store.redis->value.nodes;
  return place;
}

// The files are those of both servers. Without TLS the original does not read them.
void apply_redis_tls(Variables& variables, redis::Options& redis) {
  if (!redis.tls && !variables.is_true("REDIS_PERSECOND_TLS")) {
    for (const char* name : {"REDIS_TLS_CLIENT_CERT", "REDIS_TLS_CLIENT_KEY", "REDIS_TLS_CACERT",
                             "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION"})
      if (variables.is_wanted(name))
        variables.warn(name, "has no effect, as Redis is reached without TLS",
                       "set REDIS_TLS=true, or unset it");
    return;
  }
  net::TlsClient& files = redis.tls_files;
  files.certificate = variables.text("REDIS_TLS_CLIENT_CERT").value_or("");
  files.key = variables.text("REDIS_TLS_CLIENT_KEY").value_or("");
  files.authority = variables.text("REDIS_TLS_CACERT").value_or("");
  files.any_name = variables.is_true("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION");
  if (files.certificate.empty() != files.key.empty())
    variables.complain(files.key.empty() ? "REDIS_TLS_CLIENT_KEY" : "REDIS_TLS_CLIENT_CERT",
                       "is not set, and the other of certificate and key is", "set both, or none");
}

// The second Redis keeps the counters of limits per second.
void apply_second_redis(Variables& variables, redis::Options& redis,
                        base::Diagnostics& diagnostics) {
  if (!is_reached(variables, "REDIS_PERSECOND_SOCKET_TYPE")) return;
  const auto url = variables.text("REDIS_PERSECOND_URL");
  if (!url)
    return variables.complain("REDIS_PERSECOND_URL", "names no Redis",
                              "set REDIS_PERSECOND_URL=HOST:PORT");
  auto place = read_place(variables, "REDIS_PERSECOND_TYPE", "REDIS_PERSECOND_URL",
                          "REDIS_PERSECOND_SENTINEL_AUTH", *url, diagnostics);
  if (!place) return;
  redis.second.nodes = std::move(place->nodes);
  redis.second.cluster = place->cluster;
  redis.second.sentinel = std::move(place->sentinel);
  apply_auth(variables.text("REDIS_PERSECOND_AUTH"), redis.second.username, redis.second.password);
  redis.second.tls = variables.is_true("REDIS_PERSECOND_TLS");
}

// Without REDIS_SOCKET_TYPE and REDIS_URL sluice keeps the counters itself.
void apply_redis(Variables& variables, config::Config& config, base::Diagnostics& diagnostics) {
  const auto kind = variables.text("REDIS_SOCKET_TYPE"), url = variables.set("REDIS_URL");
  const bool is_own = url && (url->empty() || *url == "memory");
  // The start says where the counters are.
  if (is_own || (!kind && !url)) {
    variables.warn_of_redis();
    return;
  }
  if (!is_reached(variables, "REDIS_SOCKET_TYPE")) return;
  if (!url) return variables.complain("REDIS_URL", "names no Redis", "set REDIS_URL=HOST:PORT");
  auto place =
      read_place(variables, "REDIS_TYPE", "REDIS_URL", "REDIS_SENTINEL_AUTH", *url, diagnostics);
  if (!place) return;
  config.store.redis.emplace();
  config.store.redis->origin = "REDIS_URL";
  redis::Options& redis = config.store.redis->value;
  redis.nodes = std::move(place->nodes);
  redis.cluster = place->cluster;
  redis.sentinel = std::move(place->sentinel);
  apply_auth(variables.text("REDIS_AUTH"), redis.username, redis.password);
  redis.tls = variables.is_true("REDIS_TLS");
  apply_redis_tls(variables, redis);
  redis.deadline = variables.duration("REDIS_TIMEOUT").value_or(base::seconds(10));
  if (redis.deadline.us == 0)
    variables.complain("REDIS_TIMEOUT", "an answer cannot come in no time",
                       "set it to 10s, or more");
  redis.over_cache_bytes =
      static_cast<size_t>(variables.count("LOCAL_CACHE_SIZE_IN_BYTES", over_cache_max).value_or(0));
  if (!variables.is_true("REDIS_PERSECOND")) {
    if (variables.text("REDIS_PERSECOND_URL"))
      variables.warn("REDIS_PERSECOND_URL", "has no effect, as one Redis has all counters",
                     "set REDIS_PERSECOND=true, or unset it");
    return;
  }
  // Limits whose counters are in two servers cannot settle in one step.
  if (variables.is_true("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"))
    return variables.complain("REDIS_PERSECOND",
                              "does not go together with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: "
                              "counters of one request would be in two servers",
                              "unset one of them");
  apply_second_redis(variables, redis, diagnostics);
}

// OpenTelemetry's own numbers: one that cannot be read is passed over, as its specification says.
std::optional<int64_t> otel_number(Variables& variables, const char* name, int64_t most) {
  const auto text = variables.text(name);
  if (!text) return std::nullopt;
  const auto number = read_go_int(*text);
  if (number && *number > 0) return std::min(*number, most);
  variables.warn(name, "`" + *text + "` is no number above 0, and has no effect",
                 "set one, or unset it");
  return std::nullopt;
}

// NAME=VALUE, ... with values in the encoding of URLs.
void apply_otlp_headers(Variables& variables, otlp::Options& otlp) {
  constexpr const char* name = "OTEL_EXPORTER_OTLP_HEADERS";
  for (const std::string& piece : pieces_of(variables.text(name).value_or(""))) {
    const auto pair = read_pair(piece, '=');
    const auto value = pair ? wire::percent_decoded(trimmed(pair->second), false) : std::nullopt;
    if (!value || !config::is_header({std::string(trimmed(pair->first)), *value}))
      variables.complain(name, "a piece of it is not NAME=VALUE, or is sent in any case",
                         "set it to NAME=VALUE,... with `%2C` for a comma in a value");
    else
      otlp.headers.emplace_back(trimmed(pair->first), *value);
  }
}

void apply_otlp_endpoint(Variables& variables, const char* name, std::string url,
                         std::string_view path, std::string& to) {
  if (const auto endpoint = otlp::read_endpoint(url, path); !endpoint)
    variables.complain(name, endpoint.problem().text, "set it to http://HOST:PORT");
  to = std::move(url);
}

void apply_traces(Variables& variables, otlp::Options& otlp) {
  otlp.service = variables.text("TRACING_SERVICE_NAME").value_or("RateLimit");
  otlp.name_space = variables.text("TRACING_SERVICE_NAMESPACE").value_or("");
  otlp.instance = variables.text("TRACING_SERVICE_INSTANCE_ID").value_or("");
  constexpr const char* protocol = "TRACING_EXPORTER_PROTOCOL";
  if (const auto its = variables.text(protocol).value_or("http"); its == "grpc")
    variables.complain(protocol, "traces are not sent over gRPC",
                       "set it to http, and the port of the endpoint to the collector's for "
                       "OTLP over HTTP, which is 4318 by default");
  else if (its != "http")
    variables.complain(protocol, "`" + its + "` is no protocol of traces", "set it to http");
  otlp.traces.sample = std::clamp(variables.ratio("TRACING_SAMPLING_RATE").value_or(1), 0.0, 1.0);
  constexpr const char *own = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                       *common = "OTEL_EXPORTER_OTLP_ENDPOINT";
  if (auto url = variables.text(own)) {
    apply_otlp_endpoint(variables, own, *std::move(url), otlp::traces_path, otlp.traces.endpoint);
  } else {
    std::string root = variables.text(common).value_or("http://localhost:4318");
    while (root.ends_with('/')) root.pop_back();
    apply_otlp_endpoint(variables, common, root.append(otlp::traces_path), otlp::traces_path,
                        otlp.traces.endpoint);
  }
  constexpr int64_t delay_ms_max = 600'000, spans_max = 1'000'000;
  if (const auto ms = otel_number(variables, "OTEL_BSP_SCHEDULE_DELAY", delay_ms_max))
    otlp.traces.delay = base::milliseconds(*ms);
  if (const auto batch = otel_number(variables, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", spans_max))
    otlp.traces.batch = static_cast<uint32_t>(*batch);
  if (const auto queue = otel_number(variables, "OTEL_BSP_MAX_QUEUE_SIZE", spans_max))
    otlp.traces.queue = static_cast<uint32_t>(*queue);
}

void apply_otlp(Variables& variables, otlp::Options& otlp) {
  constexpr const char* metrics = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
  if (variables.is_true("TRACING_ENABLED")) apply_traces(variables, otlp);
  if (auto url = variables.text(metrics))
    apply_otlp_endpoint(variables, metrics, *std::move(url), otlp::metrics_path,
                        otlp.metrics.endpoint);
  if (!otlp.is_wanted()) return;
  constexpr int64_t interval_ms_max = 86'400'000, timeout_ms_max = 300'000;
  if (const auto ms = otel_number(variables, "OTEL_METRIC_EXPORT_INTERVAL", interval_ms_max))
    otlp.metrics.interval = base::milliseconds(*ms);
  if (const auto ms = otel_number(variables, "OTEL_EXPORTER_OTLP_TIMEOUT", timeout_ms_max))
    otlp.timeout = base::milliseconds(*ms);
  apply_otlp_headers(variables, otlp);
  constexpr const char *certificate = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
                       *key = "OTEL_EXPORTER_OTLP_CLIENT_KEY";
  otlp.tls.authority = variables.text("OTEL_EXPORTER_OTLP_CERTIFICATE").value_or("");
  otlp.tls.certificate = variables.text(certificate).value_or("");
  otlp.tls.key = variables.text(key).value_or("");
  if (otlp.tls.certificate.empty() != otlp.tls.key.empty())
    variables.complain(otlp.tls.key.empty() ? certificate : key,
                       "names one of a certificate and its key", "set both, or unset it");
}

}  // namespace

base::Setting<std::string> limits_folder(const config::CommandIo& io,
                                         base::Diagnostics& diagnostics) {
  Variables variables(io, diagnostics);
  // The original reads no limits at all then.
  for (const char* name : {"RUNTIME_ROOT", "RUNTIME_APPDIRECTORY"})
    if (variables.set(name) == "")
      variables.complain(name, "is empty, and with that there are no limits",
                         "name the folder of limits, or unset it");
  std::string path = variables.text("RUNTIME_ROOT").value_or("/srv/runtime_data/current");
  for (const std::string& part : {variables.text("RUNTIME_SUBDIRECTORY").value_or(""),
                                  variables.text("RUNTIME_APPDIRECTORY").value_or("config")})
    if (!part.empty()) path += (path.ends_with('/') ? "" : "/") + part;
  return {std::move(path), "RUNTIME_ROOT"};
}

std::unique_ptr<protocol::PolicyFiles> xds_of_environment(const config::CommandIo& io,
                                                          base::Diagnostics& diagnostics) {
  Variables variables(io, diagnostics);
  if (!variables.is_xds()) return nullptr;
  auto policy = std::make_unique<XdsPolicy>();
  XdsSettings& to = policy->settings;
  policy->path.origin = "CONFIG_TYPE";
  if (auto server = variables.text("CONFIG_GRPC_XDS_SERVER_URL")) {
    if (const auto target = read_xds_target(*server); !target)
      variables.complain("CONFIG_GRPC_XDS_SERVER_URL", target.problem().text,
                         "set it to HOST:PORT");
    to.server = *std::move(server);
  }
  if (auto node = variables.set("CONFIG_GRPC_XDS_NODE_ID")) to.node = *std::move(node);
  // As in the original a piece without a sign is dropped.
  for (const std::string& piece :
       pieces_of(variables.text("CONFIG_GRPC_XDS_NODE_METADATA").value_or("")))
    if (const size_t at = piece.find('='); at != std::string::npos)
      to.metadata.emplace_back(piece.substr(0, at), piece.substr(at + 1));
  constexpr const char* headers = "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS";
  for (const std::string& piece : pieces_of(variables.text(headers).value_or(""))) {
    auto pair = read_pair(piece, ':');
    if (pair && wire::is_http_field_name(pair->first))
      to.headers.push_back(*std::move(pair));
    else
      variables.complain(headers, "a piece of it is not NAME:VALUE", "set it to NAME:VALUE,...");
  }
  if (variables.is_true("CONFIG_GRPC_XDS_SERVER_USE_TLS")) {
    XdsTls& tls = to.tls.emplace();
    tls.files.authority = variables.text("CONFIG_GRPC_XDS_SERVER_TLS_CACERT").value_or("");
    tls.name = variables.text("CONFIG_GRPC_XDS_SERVER_TLS_SAN").value_or("");
    const auto certificate = variables.text("CONFIG_GRPC_XDS_CLIENT_TLS_CERT"),
               key = variables.text("CONFIG_GRPC_XDS_CLIENT_TLS_KEY");
    if (certificate && key) {
      tls.files.certificate = *certificate;
      tls.files.key = *key;
    } else if (certificate || key) {
      variables.warn(
          certificate ? "CONFIG_GRPC_XDS_CLIENT_TLS_CERT" : "CONFIG_GRPC_XDS_CLIENT_TLS_KEY",
          "has no effect without the other of certificate and key", "set both, or unset it");
    }
  }
  const auto first = variables.duration("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL"),
             longest = variables.duration("XDS_CLIENT_BACKOFF_MAX_INTERVAL");
  if (first && first->us > 0) to.wait.first = *first;
  if (longest && longest->us > 0) to.wait.longest = *longest;
  const double factor = variables.ratio("XDS_CLIENT_BACKOFF_RANDOM_FACTOR").value_or(0);
  if (factor > 1) to.wait.factor = factor;
  to.wait.jitter = variables.truth("XDS_CLIENT_BACKOFF_JITTER").value_or(true);
  constexpr const char* size = "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES";
  if (const auto bytes = variables.count(size, xds_message_bytes_max); bytes && *bytes > 0)
    to.message_bytes_max = static_cast<uint64_t>(*bytes);
  apply_limits_environment(io, policy->limits, diagnostics);
  return policy;
}

void apply_limits_environment(const config::CommandIo& io, LimitsFiles& files,
                              base::Diagnostics& diagnostics) {
  Variables variables(io, diagnostics);
  files.reading.merge_domains = variables.is_true("MERGE_DOMAIN_CONFIG");
  files.ignore_dot_files = variables.is_true("RUNTIME_IGNOREDOTFILES");
  files.start_without_limits = variables.is_true("FORCE_START_WITHOUT_INITIAL_CONFIG");
  if (auto prefix = variables.text("CACHE_KEY_PREFIX")) files.rules.key_prefix = *std::move(prefix);
  // As in the original a negative one is none.
  constexpr const char* jitter = "EXPIRATION_JITTER_MAX_SECONDS";
  if (variables.number(jitter).value_or(300) <= 0)
    files.rules.life_jitter_s = 0;
  else
    files.rules.life_jitter_s =
        static_cast<uint32_t>(variables.count(jitter, 86'400).value_or(300));
}

void apply_service_environment(const config::CommandIo& io, config::Config& config,
                               base::Diagnostics& diagnostics) {
  Variables variables(io, diagnostics);
  variables.check();
  config.same_variables = same_variables;
  apply_addresses(variables, config);
  apply_tls(variables, config.listen[0].value);
  auto& settings =
      static_cast<EnvoySettings&>(config.settings_of(protocol::number_of(description)));
  settings.origin = "environment";
  apply_responses(variables, settings.options);
  apply_service(variables, settings.options);
  apply_debug_port(variables, settings.options, config);
  apply_metrics(variables, settings.metrics);
  apply_log(variables, config, diagnostics);
  apply_redis(variables, config, diagnostics);
  apply_otlp(variables, config.otlp);
}

}  // namespace sluice::envoy
