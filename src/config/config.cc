#include "config/config.h"

#include <algorithm>

#include "config/built_in.h"
#include "config/check_redis.h"
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
               "write PROTOCOL=ADDRESS, as in `" + listener_example() + "`", diagnostics);
      continue;
    }
    Listener listener;
    if (!set_protocol(text.substr(0, cut), place, listener, diagnostics)) continue;
    if (auto address = address_of(text.substr(cut + 1), port_of(listener), place, diagnostics)) {
      listener.address = std::move(*address);
      config.listen.push_back({std::move(listener), "--listen"});
    }
  }
}

// Calls `apply(number, flag)` for each flag of the protocols' own settings.
template <class Apply>
void each_own_flag(Apply&& apply) {
  const auto all = protocol::all();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i]->settings != nullptr)
      for (const protocol::SettingsFlag& flag : all[i]->settings->flags) apply(i, flag);
}

}  // namespace

Durability StoreSettings::effective_durability() const {
  if (path.value.empty()) return Durability::none;
  return durability.value == Durability::unsaid ? Durability::interval : durability.value;
}

uint64_t StoreSettings::table_bytes() const {
  return redis && memory_bytes.origin == "default" ? redis->value.local_bytes : memory_bytes.value;
}

Config::Config() {
  const auto all = protocol::all();
  for (size_t i = 0; i < all.size(); ++i) {
    listen.push_back(
        {{static_cast<protocol::Protocol>(i), {std::string(all[i]->host), all[i]->port}}});
    if (all[i]->settings != nullptr) own[i] = base::Cloned(all[i]->settings->make());
  }
  listen.push_back({{std::nullopt, {"127.0.0.1", admin_port}}});
}

void Config::listen_on_loopback() {
  for (auto& listener : listen) listener.value.address.host = "127.0.0.1";
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

std::vector<std::string> Config::notes() const {
  std::vector<std::string> all;
  for (const protocol::Protocol protocol : protocol::numbers()) {
    if (describe(protocol).settings == nullptr || !serves(protocol)) continue;
    if (std::string note = settings_of(protocol).note(*this); !note.empty())
      all.push_back(std::move(note));
  }
  return all;
}

server::Options Config::options() const {
  server::Options options;
  for (const auto& [listener, origin] : listen)
    options.listeners.push_back(
        {listener.protocol ? server::Service(*listener.protocol) : server::Service::admin(),
         listener.address.host, listener.address.port, listener.timeouts, listener.unmatched,
         listener.strict});
  options.workers = workers.value;
  options.connections_max = connections.value;
  options.denials_every = log.denials_every.value;
  options.admin.version = version;
  const auto kinds = kind_names();
  options.admin.kinds.assign(1, std::string(kinds.back()));
  options.admin.kinds.insert(options.admin.kinds.end(), kinds.begin(), kinds.end() - 1);
  for (size_t i = 0; i < own.size(); ++i)
    if (own[i]) own[i]->add_to(options, static_cast<protocol::Protocol>(i));
  return options;
}

PolicyList Config::policy_files() const {
  PolicyList files;
  for (const Policy& p : policy) files.push_back(p.files);
  if (const NativeRules& native = rules.value; native.document)
    files.emplace_back(std::make_unique<NativeRulesFile>(
        Setting<std::string>{native.path, rules.origin}, native.document));
  if (!files.empty()) return files;
  for (const protocol::Protocol protocol : with_policy_files()) {
    const auto& example = describe(protocol).policy->example;
    if (serves(protocol) && example != nullptr) files.emplace_back(example());
  }
  return files;
}

void apply_environment(const CommandIo& io, Config& config, base::Diagnostics& diagnostics) {
  const auto apply = [&](const char* name, auto set) {
    const auto text = io.environment(name);
    if (text && !text->empty()) set(*text, name, named_place(name), config, diagnostics);
  };
  apply("SLUICE_WORKERS", set_workers);
  apply("SLUICE_CONNECTIONS", set_connections);
  apply("SLUICE_MEMORY", set_memory);
  apply("SLUICE_DATA", set_data);
  apply("SLUICE_DURABILITY", set_durability);
  apply("SLUICE_REDIS", set_redis);
  apply("SLUICE_REDIS_CLUSTER", set_redis_cluster);
  apply("SLUICE_REDIS_USERNAME", set_redis_username);
  apply("SLUICE_REDIS_PASSWORD", set_redis_password);
  apply("SLUICE_REDIS_PASSWORD_FILE", set_redis_password_file);
  apply("SLUICE_REDIS_TLS", set_redis_tls);
  apply("SLUICE_LOG_LEVEL", set_log_level);
  apply("SLUICE_LOG_FORMAT", set_log_format);
  each_own_flag([&](size_t number, const protocol::SettingsFlag& flag) {
    const std::string name(flag.variable);
    const auto text = io.environment(name.c_str());
    if (text && !text->empty())
      config.own[number]->set(flag, *text, name, named_place(name), diagnostics);
  });
  apply("SLUICE_ADMIN", set_admin);
  apply("SLUICE_ADMIN_TOKEN", set_admin_token);
  apply("SLUICE_ADMIN_TOKEN_FILE", set_admin_token_file);
}

void check_store(const Config& config, base::Diagnostics& diagnostics) {
  for (const auto& its : config.own)
    if (its) its->check(config, diagnostics);
  const StoreSettings& store = config.store;
  check_redis(store, diagnostics);
  if (store.redis && !store.path.value.empty()) {
    base::Diagnostic place;
    place.subject = store.redis->origin;
    complain(place, "counters cannot be both in Redis and in the folder " + store.path.value,
             "take one of them out: Redis keeps them by its own means", diagnostics);
    return;
  }
  if (const std::string origin = store.redis_access.origin(); !store.redis && !origin.empty()) {
    base::Diagnostic place;
    place.severity = base::Diagnostic::Severity::warning;
    place.subject = origin;
    complain(place, "says how a Redis is reached, and no Redis is named, so it has no effect",
             "name it: --redis HOST:PORT or SLUICE_REDIS", diagnostics);
  }
  const bool keeps = store.durability.value == Durability::interval ||
                     store.durability.value == Durability::always;
  if (!keeps || !store.path.value.empty()) return;
  base::Diagnostic place;
  place.subject = store.durability.origin;
  complain(place, "durability is set, and there is no folder for the counters",
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
  apply(flags.redis_cluster, "--redis-cluster", set_redis_cluster);
  apply(flags.redis_username, "--redis-username", set_redis_username);
  apply(flags.redis_password_file, "--redis-password-file", set_redis_password_file);
  if (flags.redis_tls) config.store.redis_access.tls = {true, "--redis-tls"};
  apply(flags.log_level, "--log-level", set_log_level);
  apply(flags.log_format, "--log-format", set_log_format);
  each_own_flag([&](size_t number, const protocol::SettingsFlag& flag) {
    const auto at = flags.own.find(flag.flag);
    const std::string name(flag.flag);
    if (at != flags.own.end() && at->second)
      config.own[number]->set(flag, *at->second, name, named_place(name), diagnostics);
  });

  if (!flags.listen.empty()) listen_by_flags(flags, config, diagnostics);
  apply(flags.admin, "--admin", set_admin);
  apply(flags.unmatched, "--unmatched", set_unmatched);
}

}  // namespace sluice::config
