// Which of the original's metrics are needed, and where: `metrics` of `envoy:` in a sluice.yaml, or
// the variables of the original (environment.h). Main thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "config/address.h"
#include "config/table.h"
#include "protocol/envoy/limit_metrics.h"
#include "protocol/envoy/options.h"
#include "protocol/protocol.h"
#include "server/options.h"

namespace sluice::envoy {

// Where Prometheus finds the page by default.
inline constexpr uint16_t prometheus_port = 9090;

struct MetricsSettings {
  struct Page {
    config::Address address{"::", prometheus_port};
    std::string path = "/metrics";
  };
  struct Statsd {  // over TCP
    config::Address address{"localhost", config::statsd_port};
    base::Duration flush_interval = base::seconds(10);
  };

  // At most one of them.
  std::optional<Page> prometheus{};
  std::optional<Statsd> statsd{};
  LimitMetrics::Options counting{};

  // Adds the page's listener or the statsd, and the counters for the sessions.
  void add_to(server::Options& to, protocol::Protocol self, EnvoyOptions& sessions) const;
};

// The key `metrics`.
config::Entry metrics_entry(MetricsSettings& metrics);

// Reads `k:v,k2:v2`, and sorts the tags by their keys. Characters that would end a part of a name
// become `_`. Nothing: the text is malformed.
std::optional<std::vector<std::pair<std::string, std::string>>> read_tags(std::string_view text);

// Reads the part of a limit from which on requests are near it; at least 0. Nothing: the text is
// not such a number.
std::optional<float> read_ratio(std::string_view text);

}  // namespace sluice::envoy
