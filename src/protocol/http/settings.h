// The settings of the HTTP protocol, `http:` of a sluice.yaml. They hold for every `http` listener.
// Main thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/setting.h"
#include "protocol/http/options.h"
#include "protocol/rule_review.h"
#include "protocol/settings.h"

namespace sluice::http {

class HttpSettings final : public protocol::Settings, public protocol::RuleReview {
 public:
  HttpSettings();
  std::unique_ptr<Settings> clone() const override;
  void read(config::FileReader& reader, const policy::YamlNode& section) override;
  // The names of --http-hosts, separated by commas.
  void set(const protocol::SettingsFlag& flag, std::string_view text, const std::string& origin,
           const base::Diagnostic& place, base::Diagnostics& diagnostics) override;
  std::vector<std::pair<std::string, std::string>> lines() const override;
  std::string note(const config::Config& config) const override;
  void add_to(server::Options& options, protocol::Protocol self) const override;
  void review(const policy::RuleSet& rules, base::Diagnostics& diagnostics) const override;
  const HttpOptions& options() const { return options_.value; }

 private:
  void read_headers(config::FileReader& reader, const std::string& key,
                    const policy::YamlNode& value);
  using ReadName = std::optional<std::string> (*)(std::string text, const base::Diagnostic& place,
                                                  base::Diagnostics& diagnostics);
  static void read_names(config::FileReader& reader, const std::string& key,
                         const policy::YamlNode& value, const std::string& remedy,
                         ReadName read_name, std::vector<std::string>& to);

  base::Setting<HttpOptions> options_{};
};

extern const protocol::SettingsFormat settings_format;

}  // namespace sluice::http
