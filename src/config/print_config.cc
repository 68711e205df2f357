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
namespace {

// The comment with the origin must not contain a line end, which a file's name may have.
std::string line(std::string text, std::string origin) {
  std::replace_if(
      origin.begin(), origin.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; },
      '?');
  if (text.size() < 56) text.resize(56, ' ');
  return text + " # " + origin + "\n";
}

// The timeouts that differ from the defaults.
std::string print_timeouts(const net::Timeouts& timeouts) {
  const net::Timeouts usual;
  std::string out;
  if (timeouts.request != usual.request)
    out += ", request_timeout: " + in_one_unit(timeouts.request);
  if (timeouts.send != usual.send) out += ", send_timeout: " + in_one_unit(timeouts.send);
  return out;
}

std::string print_log(const LogConfig& log) {
  std::string out =
      "log:\n" + line("  level: " + std::string(log::name_of(log.level.value)), log.level.origin);
  out +=
      line("  format: " + std::string(log::log_format_names[static_cast<size_t>(log.format.value)]),
           log.format.origin);
  if (!log.modules.empty()) out += "  modules:\n";
  for (const auto& [module, level] : log.modules)
    out += line(
        "    " + std::string(log::name_of(module)) + ": " + std::string(log::name_of(level.value)),
        level.origin);
  return out + line("  denials: { every: " + std::to_string(log.denials_every.value) + " }",
                    log.denials_every.origin);
}

std::string print_password(const std::string& password, const std::string& file,
                           const std::string& indent) {
  if (!password.empty()) return indent + "# password: not shown\n";
  if (file.empty()) return "";
  std::error_code unknown;  // then the path stays as it is
  const auto path = std::filesystem::absolute(file, unknown);
  return indent + "password_file: " + in_quotes(unknown ? file : path.string()) + "\n";
}

// A line, without a comment if its origin is the same as that of the lines around it.
std::string line_of(std::string text, const std::string& origin) {
  return origin.empty() ? text + "\n" : line(std::move(text), origin);
}

std::string list_of(const std::vector<redis::Node>& nodes) {
  std::string list;
  for (const redis::Node& node : nodes)
    list += (list.empty() ? "" : ", ") + in_quotes(format_address(node.host, node.port));
  return "[" + list + "]";
}

// The lines about the place of one Redis. `Server`: redis::Options, or its Second.
template <class Server>
std::string print_place(const Server& server, const std::string& indent,
                        const std::string& origin) {
  const redis::Sentinels& sentinel = server.sentinel;
  if (sentinel.master.empty()) {
    std::string out = line_of(indent + "nodes: " + list_of(server.nodes), origin);
    if (server.cluster) out += indent + "cluster: true\n";
    return out;
  }
  std::string out = line_of(indent + "sentinel:", origin);
  out += indent + "  master: " + in_quotes(sentinel.master) + "\n";
  out += indent + "  nodes: " + list_of(sentinel.nodes) + "\n";
  if (!sentinel.username.empty())
    out += indent + "  username: " + in_quotes(sentinel.username) + "\n";
  if (!sentinel.password.empty()) out += indent + "  # password: not shown\n";
  return out;
}

std::string print_redis(const StoreSettings& store) {
  const std::string& origin = store.redis->origin;
  const redis::Options redis = store.redis_access.over(store.redis->value);
  std::string out = "store:\n" + line("  memory: " + base::format_size(store.table_bytes()),
                                      store.memory_bytes.origin);
  if (redis.servers != 1) out += "  servers: " + std::to_string(redis.servers) + "\n";
  out += "  redis:\n" + print_place(redis, "    ", origin);
  if (!redis.username.empty()) out += "    username: " + in_quotes(redis.username) + "\n";
  out += print_password(redis.password, redis.password_file, "    ");
  if (redis.tls) out += "    tls: true\n";
  out += "    database: " + std::to_string(redis.database) + "\n";
  out += "    key_prefix: " + in_quotes(redis.key_prefix) + "\n";
  out += "    deadline_ms: " + std::to_string(redis.deadline.us / 1000) + "\n";
  if (redis.patience != redis::Options().patience)
    out += "    patience_ms: " + std::to_string(redis.patience.us / 1000) + "\n";
  if (redis.wait_replicas != 0)
    out += "    wait_replicas: " + std::to_string(redis.wait_replicas) +
           "\n    wait_timeout_ms: " + std::to_string(redis.wait_timeout.us / 1000) + "\n";
  if (redis.settles_across_slots) out += "    across_slots: settle\n";
  if (redis.over_cache_bytes != 0)
    out += "    over_cache: " + base::format_size(redis.over_cache_bytes) + "\n";
  if (!redis.has_second()) return out;
  out += "    per_second:\n" + print_place(redis.second, "      ", "");
  if (!redis.second.username.empty())
    out += "      username: " + in_quotes(redis.second.username) + "\n";
  out += print_password(redis.second.password, redis.second.password_file, "      ");
  if (redis.second.tls) out += "      tls: true\n";
  out += "      database: " + std::to_string(redis.second.database) + "\n";
  return out;
}

std::string print_store(const StoreSettings& store) {
  if (store.redis) return print_redis(store);
  const std::string memory = "memory: " + base::format_size(store.memory_bytes.value);
  if (store.path.value.empty()) return line("store: { " + memory + " }", store.memory_bytes.origin);
  std::error_code unknown;  // then the path stays as it is
  const auto path = std::filesystem::absolute(store.path.value, unknown);
  return "store:\n" + line("  " + memory, store.memory_bytes.origin) +
         line("  path: " + in_quotes(unknown ? store.path.value : path.string()),
              store.path.origin) +
         line("  durability: " + std::string(name_of(store.effective_durability())),
              store.durability.origin) +
         line("  interval_ms: " + std::to_string(store.interval.value.us / 1000),
              store.interval.origin) +
         line(std::string("  fsync: ") + (store.fsync.value ? "true" : "false"),
              store.fsync.origin);
}

}  // namespace

int show_config(const Config& config, CommandIo& io) {
  io.out << print_config(config) << std::flush;
  return exit_ok;
}

std::string print_config(const Config& config) {
  std::string out = "listen:\n";
  for (const auto& [listener, origin] : config.listen) {
    const auto& [host, port] = listener.address;
    out += line("  - { protocol: " + std::string(name_of(listener)) + ", address: " +
                    in_quotes(format_address(host, port)) + print_timeouts(listener.timeouts) +
                    (listener.unmatched == request::Unmatched::as_protocol
                         ? ""
                         : ", unmatched: " + std::string(name_of(listener.unmatched))) +
                    (listener.strict ? ", strict: true" : "") + " }",
                origin);
  }
  out += line(
      "workers: " + (config.workers.value == 0 ? "auto" : std::to_string(config.workers.value)),
      config.workers.origin);
  out +=
      line("connections: " + std::to_string(config.connections.value), config.connections.origin);
  out += print_store(config.store);
  out += print_log(config.log);
  const auto print_settings = [&](protocol::SettingsFormat::Subject subject) {
    each_settings(subject, [&](size_t i, const protocol::Description&) {
      for (const auto& [text, origin] : config.own[i]->lines()) out += line(text, origin);
    });
  };
  print_settings(protocol::SettingsFormat::Subject::store);
  for (const auto& [text, origin] : lines_of(config.users)) out += line(text, origin);
  for (const auto& [text, origin] : lines_of(config.operations)) out += line(text, origin);
  print_settings(protocol::SettingsFormat::Subject::operations);
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
