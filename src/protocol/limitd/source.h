// limitd's configuration as it lies about: a file, its folder FILE.d/, the environment, and the
// file that a configurator names. Read into texts first, which are compared and hashed, then into
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

using Texts = std::vector<std::pair<std::string, std::string>>;  // names and what stands there

// How a file is read, beside its path.
struct LimitdSource {
  enum class Use {
    built_in,  // the example; there is no file
    policy,    // of a sluice.yaml, which says where to listen and what to log
    whole,     // all that there is: `sluice limitd`, or a file to check
  };
  Use use = Use::policy;
  Texts environment = {};   // what counts of it
  LimitdConfig flags = {};  // what they have said, and files need not
};

using protocol::Unusable;  // here of a configurator's file

struct LimitdTexts {
  Texts files;                  // the file itself, then those of its folder
  std::string configured_path;  // empty: there is no configurator
  std::optional<std::string> configured;
  std::chrono::milliseconds interval{0};
  // All of which a change matters, and the digest of each that has one.
  std::vector<std::string> paths;
  std::vector<uint64_t> digests;
  std::vector<std::string> missing;
  bool complete = true;
};

LimitdTexts read_limitd_texts(const std::string& path, const LimitdSource& source,
                              Unusable configured, base::Diagnostics& diagnostics);

// Appends the types' rules. Settings that have no effect are reported.
void add_limitd(const LimitdTexts& texts, const LimitdSource& source, Unusable configured,
                request::Spaces& spaces, policy::RuleSet& rules, base::Diagnostics& diagnostics);

// What the files and the environment say beside bucket types, without any flag but `db`.
LimitdConfig limitd_settings(const LimitdTexts& texts, const LimitdSource& source,
                             base::Diagnostics& diagnostics);

}  // namespace sluice::limitd
