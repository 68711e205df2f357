// The setting of droplet's protocol: the interval at which full buckets are forgotten. It comes
// from `droplet:` of a sluice.yaml, --cleanup-interval or SLUICE_CLEANUP_INTERVAL. Main thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/setting.h"
#include "base/time.h"
#include "protocol/settings.h"

namespace sluice::droplet {

class DropletSettings final : public protocol::Settings {
 public:
  std::unique_ptr<Settings> clone() const override;
  void read(config::FileReader& reader, const policy::YamlNode& section) override;
  // `text`: a number of seconds, which may be negative as in droplet, or a duration with a unit.
  void set(const protocol::SettingsFlag& flag, std::string_view text, const std::string& origin,
           const base::Diagnostic& place, base::Diagnostics& diagnostics) override;
  std::vector<std::pair<std::string, std::string>> lines() const override;
  void add_to(server::Options& options, protocol::Protocol self) const override;

  base::Setting<base::Duration> cleanup_interval{base::seconds(60)};  // 0: never
};

extern const protocol::SettingsFormat settings_format;

// Reads PORT for `sluice droplet`, as droplet does; the first listener of `config` is droplet's.
void apply_droplet_environment(const config::CommandIo& io, config::Config& config,
                               base::Diagnostics& diagnostics);

}  // namespace sluice::droplet
