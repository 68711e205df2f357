// limitd's configuration as a policy of the server: one object for a file with its folder FILE.d.
// Main thread, and the thread that reloads.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "policy/rule_set.h"
#include "protocol/limitd/rules.h"
#include "protocol/policy_files.h"
#include "request/space.h"

namespace sluice::limitd {

// The text of examples/limitd.yaml, which the build compiles into the program.

extern const std::string_view example;

// Reads limitd's configuration from its sources: a file, its folder FILE.d/, the environment, and
// the file that a configurator names. First into texts, which are compared and hashed, then into
// rules. Main thread, and the thread that reloads.

using Texts = std::vector<std::pair<std::string, std::string>>;  // names and texts

// How a configuration is read.
struct LimitdSource {
  enum class Use {
    built_in,  // the example; there is no file
    policy,    // named by a sluice.yaml, which has the listeners and the log
    whole,     // the whole configuration: `sluice limitd`, or a file to check
  };
  Use use = Use::policy;
  Texts environment = {};   // the variables that count
  LimitdConfig flags = {};  // settings from flags, which override those of files
};

using protocol::Unusable;  // for a configurator's file

struct LimitdTexts {
  Texts files;                  // the main file, then those of its folder
  std::string configured_path;  // empty: there is no configurator
  std::optional<std::string> configured;
  std::chrono::milliseconds interval{0};
  // Paths to be watched for changes, and the digests of those that were read.
  std::vector<std::string> paths;
  std::vector<uint64_t> digests;
  std::vector<std::string> missing;
  bool complete = true;
};

LimitdTexts read_limitd_texts(const std::string& path, const LimitdSource& source,
                              Unusable configured, base::Diagnostics& diagnostics);

// Appends the rules of the types. Settings without effect are reported.
void add_limitd(const LimitdTexts& texts, const LimitdSource& source, Unusable configured,
                request::Spaces& spaces, policy::RuleSet& rules, base::Diagnostics& diagnostics);

// The settings of the files and the environment, without those of flags except `db`.
LimitdConfig limitd_settings(const LimitdTexts& texts, const LimitdSource& source,
                             base::Diagnostics& diagnostics);

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
