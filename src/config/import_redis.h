// `sluice store import-redis`: copies the counters of a policy's rules, and all overrides
// (redis/import.h). Blocks; main thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/diagnostic.h"
#include "base/result.h"
#include "policy/rule_set.h"
#include "redis/import.h"

namespace sluice::config {

using RedisImport = redis::ImportOptions;
using RedisImportReport = redis::ImportReport;

// One end of an import, as the command line names it.
struct RedisEnd {
  std::string option;  // "--from": for messages
  std::string nodes;   // HOST:PORT, or several separated by commas; a single Redis may have /DB
  std::string user, password_file;  // empty: none
  bool tls = false;
  bool cluster = false;
};
// Empty: it has an error, which is in `diagnostics`.
std::optional<redis::Options> read_redis_end(const RedisEnd& end, base::Diagnostics& diagnostics);

// The prefix of keys that a sluice.yaml sets. Empty: it sets none, or is not such a file.
std::optional<std::string> key_prefix_of(const std::string& file);

base::Done import_redis(const RedisImport& options, const policy::RuleSet& rules,
                        const std::string& key_prefix, RedisImportReport& report,
                        const std::function<void(const RedisImportReport&)>& progress);

}  // namespace sluice::config
