// Settings of Envoy's rate limit service, `envoy:` of a sluice.yaml. They apply to every `envoy`
// listener; the settings of the limits' files are part of the policy. Main thread.
#pragma once

#include <memory>
#include <vector>

#include "protocol/envoy/metrics_settings.h"
#include "protocol/envoy/options.h"
#include "protocol/rule_review.h"
#include "protocol/settings.h"

namespace sluice::envoy {

class EnvoySettings final : public protocol::Settings, public protocol::RuleReview {
 public:
  std::unique_ptr<Settings> clone() const override;
  std::vector<config::Entry> table() override;
  void add_to(server::Options& options, protocol::Protocol self) const override;

  void check(const config::Config& config, base::Diagnostics& diagnostics) const override;
  // Warns of each limit with `over: count` in a domain that is charged all or nothing.
  void review(const policy::RuleSet& rules, base::Diagnostics& diagnostics) const override;
  void advise(const policy::RuleSet& rules, base::Diagnostics& diagnostics) const override;

  EnvoyOptions options;
  MetricsSettings metrics;
};

extern const protocol::SettingsFormat settings_format;

}  // namespace sluice::envoy
