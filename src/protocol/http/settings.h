// The settings of the HTTP protocol, `http:` of a sluice.yaml. They hold for every `http` listener.
// Main thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "protocol/http/options.h"
#include "protocol/rule_review.h"
#include "protocol/settings.h"

namespace sluice::http {

class HttpSettings final : public protocol::Settings, public protocol::RuleReview {
 public:
  std::unique_ptr<Settings> clone() const override;
  std::vector<config::Entry> table() override;
  std::string note(const config::Config& config) const override;
  void add_to(server::Options& options, protocol::Protocol self) const override;
  void review(const policy::RuleSet& rules, base::Diagnostics& diagnostics) const override;

  HttpOptions options;
};

extern const protocol::SettingsFormat settings_format;

}  // namespace sluice::http
