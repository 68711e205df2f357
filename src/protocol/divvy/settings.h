// The settings of Divvy's protocol: its own page of metrics, and statsd. They come from `divvy:` of
// a sluice.yaml, or from the environment variables of Divvy. Main thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/setting.h"
#include "config/address.h"
#include "config/command_io.h"
#include "config/config.h"
#include "protocol/settings.h"

namespace sluice::divvy {

// The default port of the page.
inline constexpr uint16_t metrics_port = 9101;

struct MetricsPage {
  config::Address address;
  std::string path = "/metrics";
};
struct Statsd {
  config::Address address;
  std::string prefix;
  bool tcp = false;
};

class DivvySettings final : public protocol::Settings {
 public:
  std::unique_ptr<Settings> clone() const override;
  void read(config::FileReader& reader, const policy::YamlNode& section) override;
  std::vector<std::pair<std::string, std::string>> lines() const override;
  void add_to(server::Options& options, protocol::Protocol self) const override;

  // Reads STATSD_HOST, STATSD_PORT, STATSD_PREFIX, STATSD_USE_TCP, HTTP_SERVICE_PORT and
  // PROMETHEUS_METRICS_PATH, with the same meaning as in Divvy.
  void apply_environment(const config::CommandIo& io, base::Diagnostics& diagnostics);

  std::optional<base::Setting<MetricsPage>> page;
  std::optional<base::Setting<Statsd>> statsd;
};

extern const protocol::SettingsFormat settings_format;

}  // namespace sluice::divvy
