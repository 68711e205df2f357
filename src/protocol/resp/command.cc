#include "base/units.h"
#include "cli/arguments.h"
#include "config/config.h"
#include "config/read_file.h"
#include "config/serving.h"
#include "config/settings.h"
#include "protocol/resp/commands.h"

namespace sluice::resp {
namespace {

constexpr const char* about_resp =
    "Serves the Redis protocol alone, with CL.THROTTLE (redis-cell), THROTTLE (throttlecrab) and "
    "GCRA.\n"
    "There is nothing to configure: each command brings its limit. Counters are kept in this\n"
    "process, or where --config says.";

std::string footer_of_resp() {
  return std::string(
             "Example:\n"
             "  sluice resp --port 6380\n"
             "  redis-cli -p 6380 CL.THROTTLE user:17 14 30 60\n"
             "\n"
             "Environment:\n") +
         cli::server_environment_help();
}

}  // namespace

int serve(const protocol::Words& words, config::CommandIo& io) {
  cli::Arguments arguments("sluice resp [--port N] [--config FILE] [options]", about_resp,
                           footer_of_resp(), cli::exit_of_server);
  config::Flags flags;
  std::optional<std::string> file, host;
  std::optional<uint16_t> port;
  arguments.add_option("--port", port, "Port to listen on, default 6380; 0 takes a free one", "N");
  arguments.add_option("--host", host,
                       "Address to listen on; default 127.0.0.1, this machine alone", "ADDRESS");
  arguments.add_option("--config", file, "A sluice.yaml: its store, policy and settings", "FILE");
  cli::add_server_flags(arguments, flags);
  if (const auto status = arguments.parse(words, io)) return *status;
  if (!arguments.positional().empty())
    return arguments.misused(
        "`" + arguments.positional().front() + "` is not expected; the port is given as --port N",
        io);

  const config::ReadConfig read = [&](base::Diagnostics& to) {
    config::Config config;
    config.listen = {{{number_of(description), {"127.0.0.1", description.port}}}};
    if (file) {  // the file need not contain a policy
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

}  // namespace sluice::resp
