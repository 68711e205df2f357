#include "protocol/divvy/environment.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "config/javascript_words.h"
#include "config/settings.h"
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

// As Divvy's `parseInt(REDIS_PORT, 10) || 6379`.
uint16_t read_redis_port(const std::string& text, base::Diagnostics& diagnostics) {
  if (text.empty()) return redis::default_port;
  base::Diagnostic place;
  place.subject = "REDIS_PORT";
  const double number = config::javascript_parse_int(text).value_or(0);
  if (number == 0) {
    place.severity = base::Diagnostic::Severity::warning;
    config::complain(place, "`" + text + "` is not a port, so it is 6379, as in Divvy",
                     "set it to 1 to 65535, or unset it", diagnostics);
    return redis::default_port;
  }
  const auto port = config::port_of_number(number);
  if (!port)
    config::complain(place, "`" + text + "` is not a port", "set it to 1 to 65535, or unset it",
                     diagnostics);
  return port.value_or(redis::default_port);
}

}  // namespace

void apply_divvy_environment(const config::CommandIo& io, config::Config& config,
                             base::Diagnostics& diagnostics) {
  if (const auto text = io.environment("PORT")) {
    if (const auto port = config::node_port(*text)) {
      config.listen.front().value.address.port = *port;
      config.listen.front().origin = "PORT";
    } else {
      base::Diagnostic place;
      place.subject = "PORT";
      config::complain(place, "`" + *text + "` is not a port",
                       "set it to 0 to 65535, or unset it for 8321", diagnostics);
    }
  }
  if (const auto names = io.environment("DEBUG"); names && wants_debug(*names))
    config.log.level = {spdlog::level::debug, "DEBUG"};
  const auto redis_host = io.environment("REDIS_HOST");
  const auto redis_port = io.environment("REDIS_PORT");
  const auto is_set = [](const auto& text) { return text && !text->empty(); };
  const auto cluster = io.environment("REDIS_CLUSTER");
  const bool is_cluster = is_set(cluster) && (*cluster == "1" || *cluster == "true");
  if (is_set(cluster) && !is_cluster && *cluster != "0" && *cluster != "false") {
    base::Diagnostic place;
    place.subject = "REDIS_CLUSTER";
    config::complain(place, "`" + *cluster + "` is neither 1 nor 0",
                     "set it to 1 where REDIS_HOST is a node of a Redis Cluster, or unset it",
                     diagnostics);
  }
  // An address of IPv6 has two colons at least.
  if (redis_host && std::ranges::count(*redis_host, ':') == 1) {
    base::Diagnostic place;
    place.subject = "REDIS_HOST";
    config::complain(place, "`" + *redis_host + "` is not a host alone",
                     "set it to the host, and REDIS_PORT to the port", diagnostics);
  }
  if (is_set(redis_host) || is_set(redis_port) || is_cluster) {
    config::Setting<redis::Options> setting;
    setting.value.nodes = {{is_set(redis_host) ? *redis_host : "localhost",
                            read_redis_port(redis_port.value_or(""), diagnostics)}};
    setting.value.cluster = is_cluster;
    setting.origin = is_set(redis_host)   ? "REDIS_HOST"
                     : is_set(redis_port) ? "REDIS_PORT"
                                          : "REDIS_CLUSTER";
    config.store.redis = std::move(setting);
  }
  const auto apply = [&](const char* name, auto set) {
    const auto text = io.environment(name);
    base::Diagnostic place;
    place.subject = name;
    if (is_set(text)) set(*text, name, place, config, diagnostics);
  };
  apply("REDIS_USERNAME", config::set_redis_username);
  apply("REDIS_PASSWORD", config::set_redis_password);
  apply("REDIS_PASSWORD_FILE", config::set_redis_password_file);
  apply("REDIS_TLS", config::set_redis_tls);
  static_cast<DivvySettings&>(config.settings_of(number_of(description)))
      .apply_environment(io, diagnostics);
}

}  // namespace sluice::divvy
