#include "protocol/divvy/environment.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "config/javascript_words.h"
#include "config/settings.h"
#include "config/variables.h"
#include "policy/pattern.h"
#include "protocol/divvy/commands.h"
#include "protocol/divvy/settings.h"
#include "protocol/protocol.h"

namespace sluice::divvy {
namespace {

// Reads DEBUG as the `debug` package of Divvy does: names, which may contain `*`, separated by
// commas or blanks; `-name` excludes a name.
bool wants_debug(std::string_view names) {
  bool wanted = false;
  for (size_t at = 0; at < names.size();) {
    const size_t end = std::min(names.find_first_of(", \t", at), names.size());
    std::string name(names.substr(at, end - at));
    at = end + 1;
    const bool excluded = name.starts_with('-');
    if (excluded) name.erase(0, 1);
    if (name.empty() || !policy::Pattern::wildcard(name).matches("divvy")) continue;
    if (excluded) return false;
    wanted = true;
  }
  return wanted;
}

// As Divvy's parseInt. A text that begins with no number is 0.
std::optional<uint16_t> port_of(config::Variables& variables, const char* name,
                                const std::string& text, const char* remedy) {
  const auto port = config::port_of_number(config::javascript_parse_int(text).value_or(0));
  if (!port) variables.complain(name, "`" + text + "` is not a port", remedy);
  return port;
}

// The Redis of Divvy's `parseInt(REDIS_PORT, 10) || 6379` and `REDIS_HOST || 'localhost'`.
void apply_redis(config::Variables& variables, config::Config& config) {
  const auto host = variables.text("REDIS_HOST"), port = variables.text("REDIS_PORT"),
             cluster = variables.text("REDIS_CLUSTER");
  const bool is_cluster = cluster && (*cluster == "1" || *cluster == "true");
  if (cluster && !is_cluster && *cluster != "0" && *cluster != "false")
    variables.complain("REDIS_CLUSTER", "`" + *cluster + "` is neither 1 nor 0",
                       "set it to 1 where REDIS_HOST is a node of a Redis Cluster, or unset it");
  // An address of IPv6 has two colons at least.
  if (host && std::ranges::count(*host, ':') == 1)
    variables.complain("REDIS_HOST", "`" + *host + "` is not a host alone",
                       "set it to the host, and REDIS_PORT to the port");
  if (!host && !port && !is_cluster) return;
  std::optional<uint16_t> number;
  if (port) number = port_of(variables, "REDIS_PORT", *port, "set it to 1 to 65535, or unset it");
  if (number == 0)
    variables.warn("REDIS_PORT", "`" + *port + "` is not a port, so it is 6379, as in Divvy",
                   "set it to 1 to 65535, or unset it");
  config::Setting<redis::Options> redis;
  redis.value.nodes = {
      {host.value_or("localhost"), number.value_or(0) == 0 ? redis::default_port : *number}};
  redis.value.cluster = is_cluster;
  redis.origin = host ? "REDIS_HOST" : port ? "REDIS_PORT" : "REDIS_CLUSTER";
  config.store.redis = std::move(redis);
}

// The first ones are read by apply_redis.
constexpr config::SameVariable same_variables[] = {
    {"REDIS_HOST", "SLUICE_REDIS"},
    {"REDIS_CLUSTER", "SLUICE_REDIS_CLUSTER"},
    {"REDIS_USERNAME", "SLUICE_REDIS_USERNAME"},
    {"REDIS_PASSWORD", "SLUICE_REDIS_PASSWORD"},
    {"REDIS_PASSWORD_FILE", "SLUICE_REDIS_PASSWORD_FILE"},
    {"REDIS_TLS", "SLUICE_REDIS_TLS"}};
constexpr size_t is_read_here = 2;

void apply_statsd(config::Variables& variables, DivvySettings& settings) {
  const auto host = variables.text("STATSD_HOST"), port = variables.text("STATSD_PORT");
  if (host && port) {
    const auto number =
        port_of(variables, "STATSD_PORT", *port, "set it to 0 to 65535, or unset it");
    if (number == 0)
      variables.warn("STATSD_PORT",
                     "`" + *port + "` is not a port, so nothing is sent to statsd, as in Divvy",
                     "set it to 1 to 65535");
    else if (number)
      settings.statsd = {{*host, *number},
                         variables.text("STATSD_PREFIX").value_or(""),
                         variables.text("STATSD_USE_TCP").has_value()};
    settings.statsd_origin = "STATSD_HOST";
  } else if (host || port) {
    variables.warn(host ? "STATSD_HOST" : "STATSD_PORT",
                   "stands alone, so nothing is sent to statsd",
                   "set STATSD_HOST and STATSD_PORT, or neither");
  } else {
    for (const char* name : {"STATSD_PREFIX", "STATSD_USE_TCP"})
      if (variables.text(name))
        variables.warn(name, "has no effect, as nothing is sent to statsd",
                       "set STATSD_HOST and STATSD_PORT, or unset it");
  }
}

void apply_page(config::Variables& variables, DivvySettings& settings) {
  const auto path = variables.text("PROMETHEUS_METRICS_PATH"),
             service = variables.text("HTTP_SERVICE_PORT");
  if (path && service) {
    constexpr const char* remedy = "set it to 0 to 65535, or unset it";
    if (!config::javascript_parse_int(*service))  // Divvy does not start either
      variables.complain("HTTP_SERVICE_PORT", "`" + *service + "` is not a port", remedy);
    else if (const auto number = port_of(variables, "HTTP_SERVICE_PORT", *service, remedy))
      settings.page = {{"::", *number}, *path};
    settings.page_origin = "HTTP_SERVICE_PORT";
  } else if (path || service) {
    variables.warn(path ? "PROMETHEUS_METRICS_PATH" : "HTTP_SERVICE_PORT",
                   "stands alone, so no page of metrics is served",
                   "Only found one of HTTP_SERVICE_PORT / PROMETHEUS_METRICS_PATH. Check your "
                   "environment.");
  }
}

}  // namespace

void apply_divvy_environment(const config::CommandIo& io, config::Config& config,
                             base::Diagnostics& diagnostics) {
  config::Variables variables(io, diagnostics);
  variables.apply_node_port(config.listen.front(), "8321", false);
  if (const auto names = variables.set("DEBUG"); names && wants_debug(*names))
    config.log.level = {spdlog::level::debug, "DEBUG"};
  apply_redis(variables, config);
  config.same_variables = same_variables;
  for (const auto& [name, as] : std::span(same_variables).subspan(is_read_here))
    if (const auto text = variables.text(name))
      config::apply_variable(as, *text, name, config, diagnostics);
  auto& settings = static_cast<DivvySettings&>(config.settings_of(number_of(description)));
  apply_statsd(variables, settings);
  apply_page(variables, settings);
  if (settings.page || settings.statsd) settings.origin = "environment";
}

}  // namespace sluice::divvy
