// Envoy's files of limits as a policy of the server: a folder of them, or one file. Main thread,
// and the thread that reloads.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/setting.h"
#include "protocol/envoy/limits_file.h"
#include "protocol/envoy/rules.h"
#include "protocol/policy_files.h"

namespace sluice::envoy {

extern const protocol::PolicyFormat policy_format;

class LimitsFiles final : public protocol::PolicyFiles {
 public:
  explicit LimitsFiles(base::Setting<std::string> where) : PolicyFiles(std::move(where)) {}

  std::unique_ptr<PolicyFiles> clone() const override;
  const protocol::PolicyFormat* format() const override { return &policy_format; }
  void set(std::string_view option, std::string_view text, const std::string& origin,
           const base::Diagnostic& place, base::Diagnostics& diagnostics) override;
  std::vector<std::pair<std::string, std::string>> options() const override;
  std::unique_ptr<protocol::PolicyTexts> read(protocol::Unusable unusable,
                                              base::Diagnostics& diagnostics) const override;

  LimitsReading reading;
  bool ignore_dot_files = false;
  // Files that cannot be used at the start do not end it: until they can, requests are refused.
  bool start_without_limits = false;
  RulesOptions rules;

 private:
  std::string origin_;  // of the options
};

}  // namespace sluice::envoy
