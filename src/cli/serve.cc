#include "cli/arguments.h"
#include "config/serving.h"
#include "config/settings.h"

namespace sluice::cli {
namespace {

constexpr const char* about_serve =
    "Serves rate limits over every protocol that the configuration lists, until SIGTERM or "
    "SIGINT.\n"
    "SIGHUP, or a change of the policy's files, reloads the rules.\n"
    "Without --config it serves each protocol on its own port with a built-in example policy.";

const std::string footer_of_serve =
    std::string(
        "Example:\n"
        "  sluice serve --config sluice.yaml --workers 4\n"
        "  with this in sluice.yaml:\n"
        "    listen:\n"
        "      - { protocol: divvy, address: \"[::]:8321\" }\n"
        "    store: { memory: 1GiB }\n"
        "    policy:\n"
        "      - divvy: rules.ini          # relative to sluice.yaml; Divvy's INI or JSON\n"
        "      - limitd: limitd.yaml       # limitd's bucket types\n"
        "\n"
        "Environment (flags override it, it overrides the file):\n") +
    server_environment_help + cleanup_environment_help +
    "\n"
    "Exit status: 0 stopped by a signal, 1 configuration, settings or address unusable, 2 wrong "
    "usage.";

std::string hints(const std::vector<server::Bound>& bound) {
  std::string text =
      "sluice: no --config, so this is the built-in example policy; in another "
      "terminal, try\n";
  for (const auto& [protocol, address, number] : bound) {
    const std::string port = std::to_string(number);
    const std::string server =
        number == config::port_of(protocol) ? "" : "--server localhost:" + port + " ";
    if (protocol == protocol::Protocol::divvy)
      text += "  sluice ask divvy " + server + "method=GET path=/pantry/cookies ip=10.0.0.7\n" +
              "  printf 'HIT method=GET path=/pantry/cookies ip=10.0.0.7\\n' | nc -q 1 localhost " +
              port + "\n";
    if (protocol == protocol::Protocol::limitd)
      text += "  sluice ask limitd " + server + "take user 10.0.0.7\n";
  }
  return text;
}

void read_config_file(const std::string& file, config::Config& config,
                      base::Diagnostics& diagnostics) {
  if (divvy::divvy_format(file)) {
    base::Diagnostic place;
    place.file = file;
    config::complain(place, "is a Divvy policy by its name, and --config wants a sluice.yaml",
                     "serve it with `sluice divvy " + file + "`", diagnostics);
  } else if (const auto text = config::read_file(file, diagnostics)) {
    config::read_config(*text, file, config, diagnostics);
  }
}

// Who comes from `sluice divvy` has it set, and would count in this process alone.
void warn_of_redis_host(const config::Config& config, const config::Outside& outside,
                        base::Diagnostics& diagnostics) {
  if (config.store.redis) return;
  for (const char* name : {"REDIS_HOST", "REDIS_PORT"}) {
    const auto text = outside.environment(name);
    if (!text || text->empty()) continue;
    base::Diagnostic d;
    d.severity = base::Diagnostic::Severity::warning;
    d.subject = name;
    d.message = "only `sluice divvy` reads it; counters are not in Redis, and not shared";
    d.remedy = "set SLUICE_REDIS=HOST:PORT, or write `store: { redis: { nodes: [...] } }`";
    diagnostics.push_back(std::move(d));
    return;
  }
}

}  // namespace

int serve(const Words& words, config::Outside& outside) {
  Arguments arguments("sluice serve [--config sluice.yaml] [options]", about_serve,
                      footer_of_serve);
  std::optional<std::string> file;
  config::Flags flags;
  bool print = false;
  arguments.app().add_option("--config", file, "The server's configuration")->type_name("FILE");
  arguments.app()
      .add_option("--listen", flags.listen,
                  "Listen here, instead of what the file says; as divvy=[::]:8321, repeatable")
      ->type_name("PROTOCOL=ADDRESS")
      ->expected(1)
      ->take_all();
  add_server_flags(arguments.app(), flags);
  add_cleanup_flag(arguments.app(), flags);
  arguments.app().add_flag("--print-config", print,
                           "Print the settings that result, and where each comes from; then end");
  if (const auto status = arguments.parse(words, outside)) return *status;
  if (!arguments.positional().empty())
    return arguments.misused("`" + arguments.positional().front() +
                                 "` is not expected; a configuration is given as --config FILE",
                             outside);

  const config::ReadConfig read = [&](base::Diagnostics& to) {
    config::Config config;
    if (file) read_config_file(*file, config, to);
    config::apply_environment(outside, config, to);
    config::apply_flags(flags, config, to);
    return config;
  };
  base::Diagnostics diagnostics;
  const config::Config config = read(diagnostics);
  warn_of_redis_host(config, outside, diagnostics);
  tell(diagnostics, outside);
  if (base::has_errors(diagnostics)) return config::exit_failure;
  if (print) {
    outside.out << config::print_config(config) << std::flush;
    return config::exit_ok;
  }
  config::Announcement announcement;
  if (!config.has_policy()) announcement.after = hints;
  return config::run_server(config, read, announcement, outside);
}

}  // namespace sluice::cli
