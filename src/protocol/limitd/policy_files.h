// limitd's configuration as a policy of the server: one object for a file with its folder FILE.d.
// Main thread, and the thread that reloads.
#pragma once

#include <memory>
#include <string>

#include "protocol/limitd/source.h"
#include "protocol/policy_files.h"

namespace sluice::limitd {

extern const protocol::PolicyFormat policy_format;

// Is the text limitd's configuration, and not a sluice.yaml, whose files have the same ending?
// Decided by its keys.
bool is_limitd(std::string_view yaml);

class LimitdFiles final : public protocol::PolicyFiles {
 public:
  LimitdFiles(base::Setting<std::string> where, std::shared_ptr<const LimitdSource> source)
      : PolicyFiles(std::move(where)), source_(std::move(source)) {}

  std::unique_ptr<PolicyFiles> clone() const override;
  const protocol::PolicyFormat* format() const override { return &policy_format; }
  std::unique_ptr<protocol::PolicyTexts> read(protocol::Unusable unusable,
                                              base::Diagnostics& diagnostics) const override;

 private:
  std::shared_ptr<const LimitdSource> source_;
};

}  // namespace sluice::limitd
