#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "config/config.h"
#include "config/serving.h"
#include "config/settings.h"
#include "config/variables.h"
#include "protocol/envoy/commands.h"
#include "protocol/envoy/environment.h"
#include "protocol/envoy/policy_files.h"
#include "protocol/envoy/variables.h"

namespace sluice::envoy {
namespace {

constexpr uint16_t http_port = 8080;

constexpr const char* about_envoy =
    "Serves Envoy's rate limit service (RLS v3), in place of `ratelimit`: the same folder of "
    "limits,\n"
    "the same environment, the same Redis. Without Redis in the environment the counters are kept\n"
    "in this process. A change of the folder, or SIGHUP, reloads the limits.";

constexpr config::VariableHelp variables_help[] = {
    {"RUNTIME_ROOT, RUNTIME_SUBDIRECTORY, RUNTIME_APPDIRECTORY",
     "the folder of limits, unless DIR is given"},
    {"GRPC_HOST, GRPC_PORT", "gRPC, default 0.0.0.0:8081"},
    {"HOST, PORT", "/json and /healthcheck, default 0.0.0.0:8080"},
    {"STATSD_HOST, STATSD_PORT, or USE_PROMETHEUS=true, PROMETHEUS_ADDR",
     "where counts are sent, under the original's names"},
    {"DEBUG_PORT", "a port with /rlconfig, the limits that are loaded"},
    {"CONFIG_TYPE=GRPC_XDS_SOTW, CONFIG_GRPC_XDS_SERVER_URL, CONFIG_GRPC_XDS_NODE_ID",
     "limits are sent by a control plane, in place of a folder"},
    {"GRPC_SERVER_USE_TLS, GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY, GRPC_CLIENT_TLS_CACERT",
     "TLS for gRPC, and the authority of its clients"},
    {"REDIS_SOCKET_TYPE=tcp, REDIS_URL, REDIS_AUTH, REDIS_TLS, REDIS_TIMEOUT",
     "the Redis that keeps the counters, shared with every `ratelimit` that uses it"}};

std::string footer_of_envoy() {
  return std::string(
             "Example:\n"
             "  sluice envoy ./limits\n"
             "  RUNTIME_ROOT=/srv/limits RUNTIME_APPDIRECTORY=config sluice envoy\n"
             "\n"
             "Environment, as the original's (docs/envoy.md has all of it):\n") +
         config::help_of(variables_help) + cli::server_environment_help();
}

}  // namespace

int serve(const protocol::Words& words, config::CommandIo& io) {
  cli::Arguments arguments("sluice envoy [options] [DIR]", about_envoy, footer_of_envoy(),
                           cli::exit_of_server);
  config::Flags flags;
  cli::add_server_flags(arguments, flags);
  if (const auto status = arguments.parse(words, io)) return *status;
  if (arguments.positional().size() > 1)
    return arguments.misused("one folder of limits is served, not several", io);

  const config::ReadConfig read = [&](base::Diagnostics& to) {
    config::Config config;
    const protocol::Protocol self = number_of(description);
    config.listen = {{{self, {"0.0.0.0", description.port}}}, {{self, {"0.0.0.0", http_port}}}};
    std::unique_ptr<protocol::PolicyFiles> files = xds_of_environment(io, to);
    const bool has_folder = !arguments.positional().empty();
    if (files != nullptr && has_folder) {
      base::Diagnostic place;
      place.subject = "CONFIG_TYPE";
      config::complain(place, "limits come by xDS, and not from " + arguments.positional().front(),
                       "unset it, or leave the folder out", to);
    } else if (files == nullptr) {
      auto folder = std::make_unique<LimitsFiles>(
          has_folder ? base::Setting<std::string>{arguments.positional().front(), "argument"}
                     : limits_folder(io, to));
      apply_limits_environment(io, *folder, to);
      files = std::move(folder);
    }
    config.policy.push_back({self, base::Cloned<protocol::PolicyFiles>(std::move(files))});
    config::apply_environment(io, config, to);
    apply_service_environment(io, config, to);
    config::apply_flags(flags, config, to);
    return config;
  };
  return config::serve_config(read, config::Reloads::rules, flags, {}, io,
                              {variable_names(), has_no_effect});
}

}  // namespace sluice::envoy
