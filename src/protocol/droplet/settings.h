// The setting of droplet's protocol: the interval at which full buckets are forgotten. It comes
// from `droplet:` of a sluice.yaml, --cleanup-interval or SLUICE_CLEANUP_INTERVAL. Main thread.
#pragma once

#include <memory>
#include <vector>

#include "base/setting.h"
#include "base/time.h"
#include "protocol/settings.h"

namespace sluice::droplet {

class DropletSettings final : public protocol::Settings {
 public:
  std::unique_ptr<Settings> clone() const override;
  std::vector<config::Entry> table() override;
  void add_to(server::Options& options, protocol::Protocol self) const override;

  base::Setting<base::Duration> cleanup_interval{base::seconds(60)};  // 0: never
};

extern const protocol::SettingsFormat settings_format;

}  // namespace sluice::droplet
