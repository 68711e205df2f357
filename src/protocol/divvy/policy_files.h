// Divvy's configuration files as policies of the server. Main thread, and the thread that reloads.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "protocol/divvy/rules.h"
#include "protocol/policy_files.h"

namespace sluice::divvy {

extern const protocol::PolicyFormat policy_format;

// One file. The format follows from its name unless it is given.
class DivvyFiles final : public protocol::PolicyFiles {
 public:
  explicit DivvyFiles(base::Setting<std::string> where, std::optional<DivvyFormat> format = {})
      : PolicyFiles(std::move(where)), format_(format) {}

  std::unique_ptr<PolicyFiles> clone() const override;
  const protocol::PolicyFormat* format() const override { return &policy_format; }
  void set(std::string_view option, std::string_view text, const std::string& origin,
           const base::Diagnostic& place, base::Diagnostics& diagnostics) override;
  std::vector<std::pair<std::string, std::string>> options() const override;
  std::unique_ptr<protocol::PolicyTexts> read(protocol::Unusable unusable,
                                              base::Diagnostics& diagnostics) const override;

  base::Setting<DivvyMatching> matching{DivvyMatching::code};
  base::Setting<request::OnError> on_store_error{request::OnError::error};  // for all its rules

 private:
  std::optional<DivvyFormat> format_;
};

}  // namespace sluice::divvy
