// The settings of the Redis protocol, `resp:` of a sluice.yaml: which commands are answered, and
// the bounds of their size. They apply to every `resp` listener. Main thread.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/setting.h"
#include "protocol/resp/options.h"
#include "protocol/settings.h"

namespace sluice::resp {

class RespSettings final : public protocol::Settings {
 public:
  std::unique_ptr<Settings> clone() const override;
  void read(config::FileReader& reader, const policy::YamlNode& section) override;
  std::vector<std::pair<std::string, std::string>> lines() const override;
  void add_to(server::Options& options, protocol::Protocol self) const override;
  void check(const config::Config& config, base::Diagnostics& diagnostics) const override;
  const RespOptions& options() const { return options_.value; }

 private:
  base::Setting<RespOptions> options_{};
  base::Setting<bool> shared_{};  // RespOptions::cell_shared
};

extern const protocol::SettingsFormat settings_format;

}  // namespace sluice::resp
