// The settings of Divvy's protocol: its own page of metrics, and statsd. They come from `divvy:` of
// a sluice.yaml, or from the environment variables of Divvy. Main thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/address.h"
#include "protocol/settings.h"

namespace sluice::divvy {

// The default port of the page.
inline constexpr uint16_t metrics_port = 9101;

struct MetricsPage {
  config::Address address{"::", metrics_port};
  std::string path = "/metrics";
};
struct Statsd {
  config::Address address{"127.0.0.1", config::statsd_port};
  std::string prefix;
  bool tcp = false;
};

class DivvySettings final : public protocol::Settings {
 public:
  std::unique_ptr<Settings> clone() const override;
  std::vector<config::Entry> table() override;
  void add_to(server::Options& options, protocol::Protocol self) const override;

  std::optional<MetricsPage> page;
  std::optional<Statsd> statsd;
  std::string page_origin, statsd_origin;
};

extern const protocol::SettingsFormat settings_format;

}  // namespace sluice::divvy
