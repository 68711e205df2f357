#include "protocol/divvy/settings.h"

#include "config/file_reader.h"
#include "config/javascript_words.h"
#include "config/settings.h"
#include "server/options.h"

namespace sluice::divvy {
namespace {

using policy::YamlNode;

base::Diagnostic place_of(std::string subject, bool error = true) {
  base::Diagnostic place;
  place.subject = std::move(subject);
  if (!error) place.severity = base::Diagnostic::Severity::warning;
  return place;
}

MetricsPage read_page(config::FileReader& reader, const YamlNode& node) {
  MetricsPage page{.address = {"::", metrics_port}};
  reader.map(node, "metrics",
             {{"address",
               [&](const std::string& key, const YamlNode& value) {
                 if (auto address = reader.address(key, value, metrics_port))
                   page.address = *std::move(address);
               }},
              {"path", [&](const std::string& key, const YamlNode& value) {
                 if (auto path = reader.text(key, value)) page.path = *std::move(path);
               }}});
  return page;
}

Statsd read_statsd(config::FileReader& reader, const YamlNode& node) {
  Statsd statsd{.address = {"127.0.0.1", config::statsd_port}, .prefix = {}};
  reader.map(node, "statsd",
             {{"address",
               [&](const std::string& key, const YamlNode& value) {
                 if (auto address = reader.address(key, value, config::statsd_port))
                   statsd.address = *std::move(address);
               }},
              {"prefix",
               [&](const std::string& key, const YamlNode& value) {
                 if (auto prefix = reader.text(key, value)) statsd.prefix = *std::move(prefix);
               }},
              {"tcp", [&](const std::string& key, const YamlNode& value) {
                 statsd.tcp = reader.truth(key, value, "write `tcp: true`, or take it out for UDP")
                                  .value_or(statsd.tcp);
               }}});
  return statsd;
}

// Users who come from `sluice divvy` may have REDIS_HOST set, and would not notice that counters
// are then in this process alone.
void warn_of_redis_host(const config::Config& config, const config::CommandIo& io,
                        base::Diagnostics& diagnostics) {
  if (config.store.redis) return;
  for (const char* name : {"REDIS_HOST", "REDIS_PORT"}) {
    const auto text = io.environment(name);
    if (!text || text->empty()) continue;
    base::Diagnostic d;
    d.severity = base::Diagnostic::Severity::warning;
    d.subject = name;
    d.message = "only `sluice divvy` reads it; counters are not in Redis, and not shared";
    d.remedy = "set SLUICE_REDIS=HOST:PORT, or write `store: { redis: { nodes: [...] } }`";
    diagnostics.push_back(std::move(d));
    return;
  }
}

}  // namespace

std::unique_ptr<protocol::Settings> DivvySettings::clone() const {
  return std::make_unique<DivvySettings>(*this);
}

void DivvySettings::read(config::FileReader& reader, const YamlNode& section) {
  reader.map(section, "divvy",
             {{"metrics",
               [&](const std::string&, const YamlNode& value) {
                 page = {read_page(reader, value), reader.origin(value)};
               }},
              {"statsd", [&](const std::string&, const YamlNode& value) {
                 statsd = {read_statsd(reader, value), reader.origin(value)};
               }}});
}

std::vector<std::pair<std::string, std::string>> DivvySettings::lines() const {
  config::Lines lines;
  if (page || statsd) lines.push_back({"divvy:", page ? page->origin : statsd->origin});
  if (page)
    lines.push_back({"  metrics: { address: " +
                         config::in_quotes(config::format_address(page->value.address.host,
                                                                  page->value.address.port)) +
                         ", path: " + config::in_quotes(page->value.path) + " }",
                     page->origin});
  if (statsd)
    lines.push_back({"  statsd: { address: " +
                         config::in_quotes(config::format_address(statsd->value.address.host,
                                                                  statsd->value.address.port)) +
                         ", prefix: " + config::in_quotes(statsd->value.prefix) +
                         ", tcp: " + (statsd->value.tcp ? "true" : "false") + " }",
                     statsd->origin});
  return lines;
}

void DivvySettings::add_to(server::Options& options, protocol::Protocol self) const {
  if (page) {
    const auto& [address, path] = page->value;
    options.listeners.push_back({server::Service::page(self, path), address.host, address.port});
  }
  if (statsd) {
    const auto& [address, prefix, tcp] = statsd->value;
    options.statsd = {address.host, address.port, prefix, tcp, self};
  }
}

void DivvySettings::apply_environment(const config::CommandIo& io, base::Diagnostics& diagnostics) {
  const auto get = [&](const char* name) { return io.environment(name).value_or(""); };
  const auto warn = [&](const char* name, std::string message, std::string remedy) {
    config::complain(place_of(name, false), std::move(message), std::move(remedy), diagnostics);
  };
  // As Divvy's parseInt. A text that begins with no number is 0.
  const auto port_of_variable = [&](const char* name) -> std::optional<uint16_t> {
    const std::string text = get(name);
    const auto port = config::port_of_number(config::javascript_parse_int(text).value_or(0));
    if (!port)
      config::complain(place_of(name), "`" + text + "` is not a port",
                       "set it to 0 to 65535, or unset it", diagnostics);
    return port;
  };
  const std::string host = get("STATSD_HOST"), port = get("STATSD_PORT");
  if (!host.empty() && !port.empty()) {
    if (const auto number = port_of_variable("STATSD_PORT"); number && *number == 0)
      warn("STATSD_PORT", "`" + port + "` is not a port, so nothing is sent to statsd, as in Divvy",
           "set it to 1 to 65535");
    else if (number)
      statsd = {{{host, *number}, get("STATSD_PREFIX"), !get("STATSD_USE_TCP").empty()},
                "STATSD_HOST"};
  } else if (!host.empty() || !port.empty()) {
    warn(host.empty() ? "STATSD_PORT" : "STATSD_HOST", "stands alone, so nothing is sent to statsd",
         "set STATSD_HOST and STATSD_PORT, or neither");
  } else {
    for (const char* name : {"STATSD_PREFIX", "STATSD_USE_TCP"})
      if (!get(name).empty())
        warn(name, "has no effect, as nothing is sent to statsd",
             "set STATSD_HOST and STATSD_PORT, or unset it");
  }
  const std::string path = get("PROMETHEUS_METRICS_PATH"), service = get("HTTP_SERVICE_PORT");
  if (!path.empty() && !service.empty()) {
    if (!config::javascript_parse_int(service))  // Divvy does not start either
      config::complain(place_of("HTTP_SERVICE_PORT"), "`" + service + "` is not a port",
                       "set it to 0 to 65535, or unset it", diagnostics);
    else if (const auto number = port_of_variable("HTTP_SERVICE_PORT"))
      page = {{{"::", *number}, path}, "HTTP_SERVICE_PORT"};
  } else if (!path.empty() || !service.empty()) {
    warn(path.empty() ? "HTTP_SERVICE_PORT" : "PROMETHEUS_METRICS_PATH",
         "stands alone, so no page of metrics is served",
         "Only found one of HTTP_SERVICE_PORT / PROMETHEUS_METRICS_PATH. Check your "
         "environment.");
  }
}

constinit const protocol::SettingsFormat settings_format = {
    .subject = protocol::SettingsFormat::Subject::operations,
    .flags = {},
    .make = []() -> std::unique_ptr<protocol::Settings> {
      return std::make_unique<DivvySettings>();
    },
    .check_environment = warn_of_redis_host,
};

}  // namespace sluice::divvy
