#include "base/units.h"
#include "cli/arguments.h"
#include "config/config.h"
#include "config/read_file.h"
#include "config/serving.h"
#include "config/settings.h"
#include "protocol/http/commands.h"
#include "protocol/http/settings.h"

namespace sluice::http {
namespace {

constexpr const char* about_http =
    "Serves the HTTP protocol alone: POST /v1/take and similar with JSON bodies, over HTTP/1.1 "
    "and\n"
    "HTTP/2, and /auth/PROFILE for proxies. There is nothing to configure for requests that bring\n"
    "their limits along; a policy and profiles come with --config. Counters are kept in this\n"
    "process, or where --config says.";

std::string footer_of_http() {
  return std::string(
             "Example:\n"
             "  sluice http --port 8390\n"
             "  curl -d '{\"key\": \"user:17\", \"limits\": [{\"quota\": 100, \"window\": "
             "\"1m\"}]}' \\\n"
             "       -H 'Content-Type: application/json' http://127.0.0.1:8390/v1/take\n"
             "\n"
             "Environment:\n") +
         cli::server_environment_help() + cli::settings_environment_help(settings_format);
}

}  // namespace

int serve(const protocol::Words& words, config::CommandIo& io) {
  cli::Arguments arguments("sluice http [--port N] [--config FILE] [options]", about_http,
                           footer_of_http(), cli::exit_of_server);
  config::Flags flags;
  std::optional<std::string> file, host;
  std::optional<uint16_t> port;
  arguments.add_option("--port", port, "Port to listen on, default 8390; 0 takes a free one", "N");
  arguments.add_option("--host", host,
                       "Address to listen on; default 127.0.0.1, this machine alone", "ADDRESS");
  arguments.add_option("--config", file, "A sluice.yaml: its store, policy and settings", "FILE");
  cli::add_server_flags(arguments, flags);
  cli::add_settings_flags(arguments, settings_format, flags);
  if (const auto status = arguments.parse(words, io)) return *status;
  if (!arguments.positional().empty())
    return arguments.misused(
        "`" + arguments.positional().front() + "` is not expected; the port is given as --port N",
        io);

  const config::ReadConfig read = [&](base::Diagnostics& to) {
    config::Config config;
    config.listen = {{{number_of(description), {"127.0.0.1", description.port}}}};
    if (file) {  // it need not have a policy
      if (const auto text = config::read_file(*file, to))
        config::read_config(*text, *file, config, to);
    }
    config.listen = {{{number_of(description), {"127.0.0.1", description.port}}}};
    if (host) config.listen.front().value.address.host = *host;
    if (port) config.listen.front().value.address.port = *port;
    config::apply_environment(io, config, to);
    config::apply_flags(flags, config, to);
    return config;
  };
  return config::serve_config(read, config::Reloads::all, flags, {}, io);
}

}  // namespace sluice::http
