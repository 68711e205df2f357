#include "config/config.h"

#include <algorithm>

#include "config/operations.h"
#include "config/settings.h"

namespace sluice::config {
namespace {

base::Diagnostic named_place(std::string subject) {
  base::Diagnostic place;
  place.subject = std::move(subject);
  return place;
}

void listen_by_flags(const Flags& flags, Config& config, base::Diagnostics& diagnostics) {
  config.listen.clear();
  const base::Diagnostic place = named_place("--listen");
  for (const std::string& text : flags.listen) {
    const size_t cut = text.find('=');
    if (cut == std::string::npos) {
      complain(place, "`" + text + "` has no `=`",
               "write PROTOCOL=ADDRESS, as in `divvy=[::]:8321`", diagnostics);
      continue;
    }
    const auto protocol = protocol_named(text.substr(0, cut), place, diagnostics);
    if (!protocol) continue;
    if (auto address = address_of(text.substr(cut + 1), *protocol, place, diagnostics))
      config.listen.push_back({{*protocol, std::move(*address)}, "--listen"});
  }
}

}  // namespace

Durability StoreSettings::kept() const {
  if (path.value.empty()) return Durability::none;
  return durability.value == Durability::unsaid ? Durability::interval : durability.value;
}

uint64_t StoreSettings::table_bytes() const {
  return redis && memory_bytes.origin == "default" ? redis->value.local_bytes : memory_bytes.value;
}

Config::Config() {
  for (const auto protocol :
       {protocol::Protocol::divvy, protocol::Protocol::limitd, protocol::Protocol::droplet})
    listen.push_back({{protocol, {"::", port_of(protocol)}}});
  listen.push_back({{protocol::Protocol::admin, {"127.0.0.1", admin_port}}});
}

log::LogSettings LogConfig::settings() const {
  log::LogSettings settings{.level = level.value, .format = format.value};
  for (const auto& [module, its] : modules) settings.modules[module] = its.value;
  return settings;
}

bool Config::serves(protocol::Protocol protocol) const {
  return std::any_of(listen.begin(), listen.end(),
                     [&](const auto& l) { return l.value.protocol == protocol; });
}

server::Options Config::options() const {
  server::Options options;
  for (const auto& [listener, origin] : listen)
    options.listeners.push_back(
        {listener.protocol, listener.address.host, listener.address.port, listener.timeouts});
  options.workers = workers.value;
  options.connections_max = connections.value;
  options.cleanup_interval = cleanup_interval.value;
  options.denials_every = log.denials_every.value;
  add_operations(*this, options);
  return options;
}

std::vector<PolicyFile> Config::policy_files() const {
  std::vector<PolicyFile> files;
  for (const Policy& p : policy)
    files.push_back({.path = p.path.value, .matching = p.matching.value, .limitd = p.limitd});
  const NativeRules& native = rules.value;
  if (native.document) files.push_back({.path = native.path, .native = native.document});
  if (!files.empty()) return files;
  if (serves(protocol::Protocol::divvy)) files.emplace_back();
  if (serves(protocol::Protocol::limitd)) {
    limitd::LimitdSource example;
    example.use = limitd::LimitdSource::Use::built_in;
    files.emplace_back().limitd = std::make_shared<const limitd::LimitdSource>(std::move(example));
  }
  return files;
}

void apply_environment(const Outside& outside, Config& config, base::Diagnostics& diagnostics) {
  const auto apply = [&](const char* name, auto set) {
    const auto text = outside.environment(name);
    if (text && !text->empty()) set(*text, name, named_place(name), config, diagnostics);
  };
  apply("SLUICE_WORKERS", set_workers);
  apply("SLUICE_CONNECTIONS", set_connections);
  apply("SLUICE_MEMORY", set_memory);
  apply("SLUICE_DATA", set_data);
  apply("SLUICE_DURABILITY", set_durability);
  apply("SLUICE_REDIS", set_redis);
  apply("SLUICE_LOG_LEVEL", set_log_level);
  apply("SLUICE_LOG_FORMAT", set_log_format);
  apply("SLUICE_CLEANUP_INTERVAL", set_cleanup_interval);
  apply("SLUICE_ADMIN", set_admin);
  apply("SLUICE_ADMIN_TOKEN", set_admin_token);
}

void check_store(const Config& config, base::Diagnostics& diagnostics) {
  const StoreSettings& store = config.store;
  if (store.redis && !store.path.value.empty()) {
    base::Diagnostic place;
    place.subject = store.redis->origin;
    complain(place, "counters are to be in Redis and in the folder " + store.path.value,
             "take one of them out: Redis keeps them by its own means", diagnostics);
    return;
  }
  const bool keeps = store.durability.value == Durability::interval ||
                     store.durability.value == Durability::always;
  if (!keeps || !store.path.value.empty()) return;
  base::Diagnostic place;
  place.subject = store.durability.origin;
  complain(place, "counters are to survive, and there is no folder for them",
           "name one: `store: { path: DIR }`, or --data DIR", diagnostics);
}

void apply_flags(const Flags& flags, Config& config, base::Diagnostics& diagnostics) {
  const auto apply = [&](const std::optional<std::string>& text, const char* name, auto set) {
    if (text) set(*text, name, named_place(name), config, diagnostics);
  };
  apply(flags.workers, "--workers", set_workers);
  apply(flags.connections, "--connections", set_connections);
  apply(flags.memory, "--memory", set_memory);
  apply(flags.data, "--data", set_data);
  apply(flags.durability, "--durability", set_durability);
  apply(flags.redis, "--redis", set_redis);
  apply(flags.log_level, "--log-level", set_log_level);
  apply(flags.log_format, "--log-format", set_log_format);
  apply(flags.cleanup_interval, "--cleanup-interval", set_cleanup_interval);

  if (!flags.listen.empty()) listen_by_flags(flags, config, diagnostics);
  apply(flags.admin, "--admin", set_admin);
}

}  // namespace sluice::config
