// The settings of the Redis protocol, `resp:` of a sluice.yaml: which commands are answered, and
// the bounds of their size. They apply to every `resp` listener. Main thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "protocol/resp/options.h"
#include "protocol/settings.h"

namespace sluice::resp {

class RespSettings final : public protocol::Settings {
 public:
  std::unique_ptr<Settings> clone() const override;
  std::vector<config::Entry> table() override;
  void add_to(server::Options& options, protocol::Protocol self) const override;
  void check(const config::Config& config, base::Diagnostics& diagnostics) const override;

  RespOptions options;

 private:
  std::string shared_origin_;  // of RespOptions::cell_shared; empty: it was not set
};

extern const protocol::SettingsFormat settings_format;

}  // namespace sluice::resp
