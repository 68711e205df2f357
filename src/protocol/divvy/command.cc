#include "cli/arguments.h"
#include "config/serving.h"
#include "config/settings.h"
#include "protocol/divvy/commands.h"
#include "protocol/divvy/environment.h"
#include "protocol/divvy/policy_files.h"
#include "protocol/divvy/settings.h"

namespace sluice::divvy {
namespace {

constexpr const char* about_divvy =
    "Serves a Divvy configuration (.ini or .json) over Divvy's protocol, in place of\n"
    "`node index.js CONFIG`: same files, same environment, same first line on standard output.\n"
    "Counters are kept in this process. SIGHUP, or a change of the file, reloads the rules.";

std::string footer_of_divvy() {
  return std::string(
             "Example:\n"
             "  PORT=8321 sluice divvy rules.ini\n"
             "  sluice ask divvy method=GET path=/pantry/cookies ip=10.0.0.7\n"
             "\n"
             "Environment:\n") +
         config::help_of(variables_help) + cli::server_environment_help();
}

// If a Redis is configured, the first line is exactly that of Divvy.
std::string first_lines(const std::vector<server::Bound>& bound, const config::Config& config) {
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
    const auto& its = static_cast<const DivvySettings&>(config.settings_of(number_of(description)));
    const std::string& path = its.page->path;
    text += "Serving prometheus metrics at http://127.0.0.1:" + std::to_string(b.port) +
            (path.starts_with('/') ? "" : "/") + path + "\n";
  }
  return text;
}

}  // namespace

int serve(const protocol::Words& words, config::CommandIo& io) {
  cli::Arguments arguments("sluice divvy [options] CONFIG", about_divvy, footer_of_divvy(),
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

  const config::ReadConfig read = [&](base::Diagnostics& to) {
    config::Config config;
    config.listen = {{{number_of(description), {"::", description.port}}}};
    if (host) config.listen.front().value.address.host = *host;
    auto policy = std::make_unique<DivvyFiles>(
        base::Setting<std::string>{arguments.positional().front(), "argument"});
    if (documented) policy->matching = {DivvyMatching::documented, "--documented"};
    if (on_store_error) {
      base::Diagnostic place;
      place.subject = "--on-store-error";
      policy->set("on_store_error", *on_store_error, place.subject, place, to);
    }
    config.policy.push_back(
        {number_of(description), base::Cloned<protocol::PolicyFiles>(std::move(policy))});
    config::apply_environment(io, config, to);
    apply_divvy_environment(io, config, to);
    config::apply_flags(flags, config, to);
    return config;
  };
  return config::serve_config(read, config::Reloads::rules, flags, {first_lines, nullptr}, io,
                              {config::names_of(variables_help)});
}

}  // namespace sluice::divvy
