#include "config/config.h"

#include <algorithm>
#include <filesystem>

#include "base/units.h"
#include "config/built_in.h"
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

// The name by which the operator of this program knows the variable.
std::string variable_of(const Config& config, std::string_view own) {
  for (const SameVariable& one : config.same_variables)
    if (one.own == own) return one.original;
  return std::string(own);
}

}  // namespace

Durability StoreSettings::effective_durability() const {
  if (path.value.empty()) return Durability::none;
  return durability.value == Durability::unsaid ? Durability::interval : durability.value;
}

uint64_t StoreSettings::table_bytes() const {
  return redis && memory_bytes.origin == "default" ? redis->value.local_bytes : memory_bytes.value;
}

redis::Options StoreSettings::redis_options() const {
  redis::Options options = redis_access.over(redis->value);
  options.servers = servers;
  return options;
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
    options.listeners.push_back({listener.protocol      ? server::Service(*listener.protocol)
                                 : listener.only_health ? server::Service::health()
                                                        : server::Service::admin(),
                                 listener.address.host, listener.address.port, listener.timeouts,
                                 listener.unmatched, listener.strict, std::nullopt, listener.tls});
  options.workers = workers.value;
  options.connections_max = connections.value;
  options.drain = drain.value;
  options.denials_every = log.denials_every.value;
  options.admin.version = version;
  options.otlp = otlp;
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
  each_outside(table_of(config), [&](const Entry& entry) {
    const std::string name(entry.about.variable);
    if (name.empty()) return;
    const auto text = io.environment(name.c_str());
    if (text && !text->empty()) set_entry(entry, *text, name, diagnostics);
  });
}

void apply_variable(std::string_view as, std::string_view text, const std::string& name,
                    Config& config, base::Diagnostics& diagnostics) {
  each_outside(table_of(config), [&](const Entry& entry) {
    if (entry.about.variable == as) set_entry(entry, text, name, diagnostics);
  });
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
  if (const std::string& origin = store.redis_access.origin; !store.redis && !origin.empty()) {
    base::Diagnostic place;
    place.severity = base::Diagnostic::Severity::warning;
    place.subject = origin;
    complain(place, "says how a Redis is reached, and no Redis is named, so it has no effect",
             "name it: --redis HOST:PORT or " + variable_of(config, "SLUICE_REDIS"), diagnostics);
  }
  const bool keeps = store.durability.value == Durability::interval ||
                     store.durability.value == Durability::always;
  if (!keeps || !store.path.value.empty()) return;
  base::Diagnostic place;
  place.subject = store.durability.origin;
  complain(place, "durability is set, and there is no folder for the counters",
           config.file.empty() ? "name one: --data DIR or " + variable_of(config, "SLUICE_DATA")
                               : "name one: `store: { path: DIR }`, or --data DIR",
           diagnostics);
}

void apply_flags(const Flags& flags, Config& config, base::Diagnostics& diagnostics) {
  if (!flags.listen.empty()) listen_by_flags(flags, config, diagnostics);
  each_outside(table_of(config), [&](const Entry& entry) {
    const auto at = flags.given.find(entry.about.flag);
    if (at == flags.given.end() || !at->second) return;
    set_entry(entry, entry.about.type.empty() ? "true" : *at->second, std::string(entry.about.flag),
              diagnostics);
  });
}

std::string print_config(const Config& config) {
  Config printed = config;
  StoreSettings& store = printed.store;
  store.durability.value = store.effective_durability();
  store.memory_bytes.value = store.table_bytes();
  if (store.redis) store.redis->value = store.redis_options();
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
    if (const base::Cloned<protocol::PolicyFiles> files = policy.files; files->sent() != nullptr) {
      base::Cloned<protocol::PolicyFiles> copy = files;
      out += line("  - " + std::string(describe(policy.protocol).policy->sent_key) + ": " +
                      text_of(copy->sent()->sender(), {}),
                  origin);
      for (const auto& [text, from] : policy.files->options()) out += line("    " + text, from);
      continue;
    }
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
