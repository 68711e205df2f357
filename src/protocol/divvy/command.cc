#include "base/units.h"
#include "cli/arguments.h"
#include "config/serving.h"
#include "config/settings.h"
#include "policy/pattern.h"
#include "protocol/divvy/commands.h"
#include "protocol/divvy/policy_files.h"
#include "protocol/divvy/settings.h"

namespace sluice::divvy {
namespace {

constexpr const char* about_divvy =
    "Serves a Divvy configuration (.ini or .json) over Divvy's protocol, in place of\n"
    "`node index.js CONFIG`: same files, same environment, same first line on standard output.\n"
    "Counters are kept in this process. SIGHUP, or a change of the file, reloads the rules.";

const std::string footer_of_divvy =
    std::string(
        "Example:\n"
        "  PORT=8321 sluice divvy rules.ini\n"
        "  sluice ask divvy method=GET path=/pantry/cookies ip=10.0.0.7\n"
        "\n"
        "Environment:\n"
        "  PORT           the port to listen on, default 8321; 0 takes a free one\n"
        "  DEBUG=divvy    log level debug, unless --log-level is given\n") +
    cli::server_environment_help +
    "  STATSD_HOST, STATSD_PORT, STATSD_PREFIX, STATSD_USE_TCP   what is sent to statsd, and "
    "where\n"
    "  HTTP_SERVICE_PORT, PROMETHEUS_METRICS_PATH   where Divvy's page of metrics is\n"
    "  REDIS_HOST, REDIS_PORT   the Redis that keeps the counters, shared with every Divvy that\n"
    "                 uses it; either one is enough, the other is localhost or 6379\n"
    "  REDIS_CLUSTER  1: that is a node of a Redis Cluster\n"
    "  REDIS_USERNAME, REDIS_PASSWORD, REDIS_PASSWORD_FILE, REDIS_TLS=true   how it is reached,\n"
    "                 which the original has no variables for\n";

// Reads DEBUG as the `debug` package of Divvy does: names, which may contain `*`, separated by
// commas or blanks; `-name` excludes a name.
bool wants_debug(std::string_view names) {
  bool wanted = false;
  for (size_t at = 0; at < names.size();) {
    const size_t end = std::min(names.find_first_of(", \t", at), names.size());
    std::string name(names.substr(at, end - at));
    at = end + 1;
    const bool excluded = name.starts_with('-');
    if (excluded) name.erase(0, 1);
    if (name.empty() || !policy::Pattern::wildcard(name).matches("divvy")) continue;
    if (excluded) return false;
    wanted = true;
  }
  return wanted;
}

DivvySettings& settings_in(config::Config& config) {
  return static_cast<DivvySettings&>(config.settings_of(number_of(description)));
}

void apply_divvy_environment(const config::CommandIo& io, config::Config& config,
                             base::Diagnostics& diagnostics) {
  if (const auto text = io.environment("PORT")) {
    if (const auto port = base::parse_port(*text)) {
      config.listen.front().value.address.port = *port;
      config.listen.front().origin = "PORT";
    } else {
      base::Diagnostic place;
      place.subject = "PORT";
      config::complain(place, "`" + *text + "` is not a port",
                       "set it to 0 to 65535, or unset it for 8321", diagnostics);
    }
  }
  if (const auto names = io.environment("DEBUG"); names && wants_debug(*names))
    config.log.level = {spdlog::level::debug, "DEBUG"};
  const auto redis_host = io.environment("REDIS_HOST");
  const auto redis_port = io.environment("REDIS_PORT");
  const auto is_set = [](const auto& text) { return text && !text->empty(); };
  const auto cluster = io.environment("REDIS_CLUSTER");
  const bool is_cluster = is_set(cluster) && (*cluster == "1" || *cluster == "true");
  if (is_set(cluster) && !is_cluster && *cluster != "0" && *cluster != "false") {
    base::Diagnostic place;
    place.subject = "REDIS_CLUSTER";
    config::complain(place, "`" + *cluster + "` is neither 1 nor 0",
                     "set it to 1 where REDIS_HOST is a node of a Redis Cluster, or unset it",
                     diagnostics);
  }
  if (is_set(redis_host) || is_set(redis_port) || is_cluster) {
    redis::Node node;
    if (is_set(redis_host)) node.host = *redis_host;
    // As in Divvy: a text that is not a port means the default port, 6379.
    if (is_set(redis_port)) node.port = base::parse_port(*redis_port).value_or(node.port);
    config::Setting<redis::Options> setting;
    setting.value.nodes = {node};
    setting.value.cluster = is_cluster;
    setting.origin = is_set(redis_host)   ? "REDIS_HOST"
                     : is_set(redis_port) ? "REDIS_PORT"
                                          : "REDIS_CLUSTER";
    config.store.redis = std::move(setting);
  }
  const auto apply = [&](const char* name, auto set) {
    const auto text = io.environment(name);
    base::Diagnostic place;
    place.subject = name;
    if (is_set(text)) set(*text, name, place, config, diagnostics);
  };
  apply("REDIS_USERNAME", config::set_redis_username);
  apply("REDIS_PASSWORD", config::set_redis_password);
  apply("REDIS_PASSWORD_FILE", config::set_redis_password_file);
  apply("REDIS_TLS", config::set_redis_tls);
  settings_in(config).apply_environment(io, diagnostics);
}

// If a Redis is configured, the first line is exactly that of Divvy.
std::string first_lines(const std::vector<server::Bound>& bound, config::Config& config) {
  std::string text = "Listening on port TCP port " + std::to_string(bound.front().port);
  if (config.store.redis) {
    const redis::Options& redis = config.store.redis->value;
    const redis::Node& node =
        redis.nodes.empty() ? redis.sentinel.nodes.front() : redis.nodes.front();
    text += ", Redis host " + node.host + ":" + std::to_string(node.port) + "\n";
  } else {
    text += ", embedded store\n";
  }
  for (const auto& b : bound) {
    if (b.service.kind != server::Service::Kind::page) continue;
    const std::string& path = settings_in(config).page->value.path;
    text += "Serving prometheus metrics at http://127.0.0.1:" + std::to_string(b.port) +
            (path.starts_with('/') ? "" : "/") + path + "\n";
  }
  return text;
}

}  // namespace

int serve(const protocol::Words& words, config::CommandIo& io) {
  cli::Arguments arguments("sluice divvy [options] CONFIG", about_divvy, footer_of_divvy,
                           cli::exit_of_server);
  config::Flags flags;
  std::optional<std::string> host, on_store_error;
  bool documented = false;
  arguments.add_option("--host", host, "Address to listen on; default ::, IPv6 and IPv4",
                       "ADDRESS");
  arguments.add_option("--on-store-error", on_store_error,
                       "What is answered when the store cannot decide, as when Redis is gone:\n"
                       "error (the default), deny, local (this process decides) or allow",
                       "error|deny|local|allow");
  cli::add_policy_flag(arguments, policy_format.flags.front(), documented);
  cli::add_server_flags(arguments, flags);
  if (const auto status = arguments.parse(words, io)) return *status;
  if (arguments.positional().empty()) {
    io.out << "Error: must provide config file as an argument." << std::endl;
    return config::exit_failure;
  }
  if (arguments.positional().size() > 1)
    return arguments.misused("one configuration file is served, not several", io);

  config::Config config;
  base::Diagnostics diagnostics;
  config.listen = {{{number_of(description), {"::", description.port}}}};
  if (host) config.listen.front().value.address.host = *host;
  auto policy = std::make_unique<DivvyFiles>(
      base::Setting<std::string>{arguments.positional().front(), "argument"});
  if (documented) policy->matching = {DivvyMatching::documented, "--documented"};
  if (on_store_error) {
    base::Diagnostic place;
    place.subject = "--on-store-error";
    policy->set("on_store_error", *on_store_error, place.subject, place, diagnostics);
  }
  config.policy.push_back(
      {number_of(description), base::Cloned<protocol::PolicyFiles>(std::move(policy))});
  config::apply_environment(io, config, diagnostics);
  apply_divvy_environment(io, config, diagnostics);
  config::apply_flags(flags, config, diagnostics);
  tell(diagnostics, io);
  if (base::has_errors(diagnostics)) return config::exit_failure;
  // A reload only reads the policy's file: all other settings come from flags and the environment.
  return config::run_server(
      config, [&config](base::Diagnostics&) { return config; },
      {[&config](const auto& bound) { return first_lines(bound, config); }, nullptr}, io);
}

}  // namespace sluice::divvy
