#include <algorithm>
#include <filesystem>
#include <ostream>

#include "base/units.h"
#include "config/config.h"
#include "config/operations.h"
#include "config/settings.h"
#include "log/log.h"
#include "server/server.h"

namespace sluice::config {
int show_config(const Config& config, CommandIo& io) {
  io.out << print_config(config) << std::flush;
  return exit_ok;
}

std::string print_config(const Config& config) {
  Config printed = config;
  StoreSettings& store = printed.store;
  store.durability.value = store.effective_durability();
  store.memory_bytes.value = store.table_bytes();
  if (store.redis) store.redis->value = store.redis_access.over(store.redis->value);
  std::string out = print_table(table_of(printed), {});
  const auto line = line_with_origin;
  if (config.operations.admin_token_file.value.empty() &&
      !config.operations.admin_token.value.empty())
    out += line("# admin: a token, not shown here", config.operations.admin_token.origin);
  if (!config.has_policy()) {
    for (const protocol::Protocol protocol : with_policy_files())
      if (config.serves(protocol) && describe(protocol).policy->example != nullptr)
        out += line("# policy: the " + protocol::example_name(describe(protocol).name), "default");
    return out;
  }
  if (const NativeRules& rules = config.rules.value; rules.document)
    out += line("# rules: " + base::counted(rules.count, "native rule") + ", not repeated here",
                config.rules.origin);
  if (config.policy.empty()) return out;
  out += "policy:\n";
  for (const Policy& policy : config.policy) {
    const auto& [where, origin] = policy.files->path;
    std::error_code unknown;  // then the path stays as it is
    const auto path = std::filesystem::absolute(where, unknown);
    out += line("  - " + std::string(describe(policy.protocol).name) + ": " +
                    in_quotes(unknown ? where : path.string()),
                origin);
    for (const auto& [text, from] : policy.files->options()) out += line("    " + text, from);
  }
  return out;
}

}  // namespace sluice::config
