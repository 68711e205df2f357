#include "config/import_redis.h"

#include <vector>

#include "base/units.h"
#include "config/config.h"
#include "config/load_policy.h"
#include "config/read_file.h"
#include "config/settings.h"
#include "live/live_policy.h"

namespace sluice::config {
namespace {

constexpr uint64_t databases_max = 1'000'000;

using Ending = redis::KeyFamily::Ending;

Ending ending_of(const policy::Rule& rule, const policy::Dialect& its) {
  if (rule.limits_from == policy::LimitsFrom::request) return Ending::algorithms;
  return its.override_space != nullptr ? Ending::numbers : Ending::suffix;
}

}  // namespace

std::optional<redis::Options> read_redis_end(const RedisEnd& end, base::Diagnostics& diagnostics) {
  base::Diagnostic place;
  place.subject = end.option;
  const size_t before = diagnostics.size();
  std::string nodes = end.nodes;
  int database = 0;
  const size_t slash = end.cluster ? std::string::npos : nodes.rfind('/');
  if (slash != std::string::npos) {
    const auto number = base::parse_count(std::string_view(nodes).substr(slash + 1));
    if (!number || *number > databases_max)
      complain(place, "`" + nodes.substr(slash + 1) + "` is not the number of a database",
               "write HOST:PORT, or HOST:PORT/DB as in `localhost:6379/1`", diagnostics);
    else
      database = static_cast<int>(*number);
    nodes.resize(slash);
  }
  Config config;
  (end.cluster ? set_redis_cluster : set_redis)(nodes, end.option, place, config, diagnostics);
  if (diagnostics.size() > before) return std::nullopt;
  redis::Options options = config.store.redis->value;
  options.database = database;
  options.username = end.user;
  options.password_file = end.password_file;
  options.tls = end.tls;
  options.patience = base::seconds(10);
  if (!read_redis_passwords(options, diagnostics)) return std::nullopt;
  return options;
}

std::optional<std::string> key_prefix_of(const std::string& file) {
  // Errors in the file are reported when its rules are read.
  base::Diagnostics unused;
  std::optional<FileKind> kind = kind_of(file);
  if (kind && !kind->is_sluice()) return std::nullopt;
  const auto text = read_file(file, unused);
  if (!text) return std::nullopt;
  if (is_doubtful(file))
    if (const auto by_text = kind_of_text(file, *text)) kind = by_text;
  if (!kind || !kind->is_sluice()) return std::nullopt;
  Config config;
  read_config(*text, file, config, unused);
  if (!config.store.redis) return std::nullopt;
  return config.store.redis->value.key_prefix;
}

base::Done import_redis(const RedisImport& options, const policy::RuleSet& rules,
                        const std::string& key_prefix, RedisImportReport& report,
                        const std::function<void(const RedisImportReport&)>& progress) {
  std::vector<redis::KeyFamily> families;
  live::each_rule(rules, [&](const policy::Rule& rule, const policy::Dialect& its) {
    if (rule.space != nullptr) families.push_back({rule.space, ending_of(rule, its)});
  });
  return redis::import_to_cluster(options, redis::StoredKeys(families, key_prefix), report,
                                  progress);
}

}  // namespace sluice::config
