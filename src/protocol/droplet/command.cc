#include "cli/arguments.h"
#include "config/serving.h"
#include "config/variables.h"
#include "protocol/droplet/commands.h"
#include "protocol/droplet/settings.h"

namespace sluice::droplet {
namespace {

constexpr const char* about_droplet =
    "Serves droplet's protocol (protobuf over WebSocket), in place of `droplet`. There is nothing "
    "to\n"
    "configure: each request brings its limits. Buckets are kept in this process.";

constexpr config::VariableHelp variables_help[] = {
    {"PORT", "the port to listen on, default 3000; 0 takes a free one"}};

std::string footer_of_droplet() {
  return std::string(
             "Example:\n"
             "  PORT=3000 sluice droplet\n"
             "  sluice ask droplet take jar --lm 100\n"
             "\n"
             "Environment:\n") +
         config::help_of(variables_help) + cli::server_environment_help() +
         cli::settings_environment_help(settings_format);
}

}  // namespace

int serve(const protocol::Words& words, config::CommandIo& io) {
  cli::Arguments arguments("sluice droplet [options]", about_droplet, footer_of_droplet(),
                           cli::exit_of_server);
  config::Flags flags;
  std::optional<std::string> host;
  arguments.add_option("--host", host, "Address to listen on; default ::, IPv6 and IPv4",
                       "ADDRESS");
  cli::add_settings_flags(arguments, settings_format, flags);
  cli::add_server_flags(arguments, flags);
  if (const auto status = arguments.parse(words, io)) return *status;
  if (!arguments.positional().empty())
    return arguments.misused("`" + arguments.positional().front() +
                                 "` is not expected; the port is given as PORT in the environment",
                             io);

  const config::ReadConfig read = [&](base::Diagnostics& to) {
    config::Config config;
    config.listen = {{{number_of(description), {"::", description.port}}}};
    if (host) config.listen.front().value.address.host = *host;
    config::apply_environment(io, config, to);
    config::Variables(io, to).apply_node_port(config.listen.front(), "3000", true);
    config::apply_flags(flags, config, to);
    return config;
  };
  return config::serve_config(read, config::Reloads::rules, flags, {}, io,
                              {config::names_of(variables_help)});
}

}  // namespace sluice::droplet
