// Reads limitd's configuration from its sources: a file, its folder FILE.d/, the environment, and
// the file that a configurator names. First into texts, which are compared and hashed, then into
// rules. Main thread, and the thread that reloads.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "policy/rule_set.h"
#include "protocol/limitd/rules.h"
#include "protocol/policy_files.h"
#include "request/space.h"

namespace sluice::limitd {

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

}  // namespace sluice::limitd
