#include "protocol/divvy/settings.h"

#include <utility>

#include "config/config.h"
#include "config/table.h"
#include "config/variables.h"
#include "server/options.h"

namespace sluice::divvy {
namespace {

using config::HostPort;
using config::setting;

std::vector<config::Entry> page_table(MetricsPage& page) {
  return {setting("address", page.address, HostPort{metrics_port},
                  {.help = "where Divvy's own page of metrics is served"}),
          setting("path", page.path, config::Text{}, {.help = "the path of that page"})};
}

std::vector<config::Entry> statsd_table(Statsd& statsd) {
  config::Entry prefix =
      setting("prefix", statsd.prefix, config::Text{}, {.help = "a prefix of the metrics' names"});
  prefix.text = [&statsd] {  // an empty one cannot be written
    return statsd.prefix.empty() ? "" : config::Text{}.text(statsd.prefix);
  };
  return {setting("address", statsd.address, HostPort{config::statsd_port},
                  {.help = "the statsd that is told Divvy's metrics"}),
          std::move(prefix),
          setting("tcp", statsd.tcp, config::Truth{"write `tcp: true`, or take it out for UDP"},
                  {.help = "by TCP in place of UDP"})};
}

// Users who come from `sluice divvy` may have REDIS_HOST set, and would not notice that counters
// are then in this process alone.
void warn_of_redis_host(const config::Config& config, const config::CommandIo& io,
                        base::Diagnostics& diagnostics) {
  if (config.store.redis) return;
  config::Variables variables(io, diagnostics);
  for (const char* name : {"REDIS_HOST", "REDIS_PORT"})
    if (variables.text(name))
      return variables.warn(
          name, "only `sluice divvy` reads it; counters are not in Redis, and not shared",
          "set SLUICE_REDIS=HOST:PORT, or write `store: { redis: { nodes: [...] } }`");
}

}  // namespace

std::unique_ptr<protocol::Settings> DivvySettings::clone() const {
  return std::make_unique<DivvySettings>(*this);
}

std::vector<config::Entry> DivvySettings::table() {
  config::Entry page_entry =
      section("metrics", page, page_table, {.help = "Divvy's own metrics as a page"}, &page_origin);
  config::Entry statsd_entry =
      section("statsd", statsd, statsd_table, {.help = "Divvy's own metrics, sent to a statsd"},
              &statsd_origin);
  page_entry.on_one_line = statsd_entry.on_one_line = true;
  return {std::move(page_entry), std::move(statsd_entry)};
}

void DivvySettings::add_to(server::Options& options, protocol::Protocol self) const {
  if (page) {
    const auto& [address, path] = *page;
    options.listeners.push_back({server::Service::page(self, path), address.host, address.port});
  }
  if (statsd) {
    const auto& [address, prefix, tcp] = *statsd;
    options.statsd = {address.host, address.port, prefix, tcp, self};
  }
}

constinit const protocol::SettingsFormat settings_format = {
    .make = []() -> std::unique_ptr<protocol::Settings> {
      return std::make_unique<DivvySettings>();
    },
    .on_one_line = false,
    .check_environment = warn_of_redis_host,
};

}  // namespace sluice::divvy
