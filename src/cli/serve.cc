#include <utility>

#include "cli/arguments.h"
#include "config/address.h"
#include "config/read_file.h"
#include "config/serving.h"
#include "config/settings.h"

namespace sluice::cli {
namespace {

constexpr const char* about_serve =
    "Serves rate limits over every protocol that the configuration lists, until SIGTERM or "
    "SIGINT.\n"
    "SIGHUP, or a change of the policy's files, reloads the rules.\n"
    "Without --config it serves each protocol on its own port of 127.0.0.1, so that this machine\n"
    "alone reaches it, with a built-in example policy.";

// Lines such as "      - divvy: rules.ini          # relative to sluice.yaml; Divvy's INI or JSON".
std::string policy_lines() {
  constexpr size_t comments_at = 34;
  std::string text, place = "relative to sluice.yaml; ";
  for (const protocol::Protocol protocol : config::with_policy_files()) {
    const protocol::Description& its = describe(protocol);
    std::string line =
        "      - " + std::string(its.name) + ": " + std::string(its.policy->file) + " ";
    if (line.size() < comments_at) line.resize(comments_at, ' ');
    text += line + "# " + std::exchange(place, "") + std::string(its.policy->summary) + "\n";
  }
  return text;
}

// "http (127.0.0.1:8390), resp (127.0.0.1:6380)": the protocols that `serves` holds for, each where
// it listens by default.
template <class Serves>
std::string usual_listeners(Serves&& serves) {
  std::string text;
  for (const protocol::Description* its : protocol::all())
    if (serves(*its))
      text += (text.empty() ? "" : ", ") + std::string(its->name) + " (" +
              config::format_address(its->host, its->port) + ")";
  return text;
}

std::string listen_lines() {
  return "Without `listen` a file with `rules` is served over " +
         usual_listeners([](const auto& its) { return config::is_loopback(its.host); }) +
         ",\n"
         "one with `policy` over its protocols: " +
         usual_listeners([](const auto& its) { return its.policy != nullptr; }) +
         ";\nboth have the admin port " + config::format_address("127.0.0.1", config::admin_port) +
         ".\n";
}

std::string footer_of_serve() {
  return "Example:\n"
         "  sluice serve --config sluice.yaml --workers 4\n"
         "  with this in sluice.yaml:\n"
         "    listen:\n"
         "      - " +
         config::listener_example_yaml() +
         "\n"
         "    store: { memory: 1GiB }\n"
         "    policy:\n" +
         policy_lines() + "\n" + listen_lines() +
         "\n"
         "Environment (flags override it, it overrides the file):\n" +
         server_environment_help() + settings_environment_help();
}

std::string hints(const std::vector<server::Bound>& bound, const config::Config& config) {
  if (!config.file.empty() || config.has_policy()) return {};
  std::string text =
      "sluice: no --config, so this is the built-in example policy; in another "
      "terminal, try\n";
  for (const auto& [service, address, number] : bound) {
    if (service.is_http()) continue;
    const protocol::Description& its = describe(service.protocol);
    if (its.ask == nullptr || its.ask->question.empty()) continue;
    const std::string port = std::to_string(number);
    const std::string server = number == its.port ? "" : "--server localhost:" + port + " ";
    text += "  sluice ask " + std::string(its.name) + " " + server +
            std::string(its.ask->question) + "\n";
    if (!its.ask->command.empty()) text += "  " + std::string(its.ask->command) + port + "\n";
  }
  return text;
}

// The protocol's drop-in command, which serves its policy file in place of another program.
std::string drop_in(const protocol::Description& protocol) {
  for (const protocol::Command& command : protocol.commands)
    if (command.serves) return std::string(command.name);
  return "serve";
}

void read_config_file(const std::string& file, config::Config& config,
                      base::Diagnostics& diagnostics) {
  if (const auto kind = config::kind_of(file); kind && !kind->is_sluice()) {
    const protocol::Description& its = describe(*kind->protocol);
    base::Diagnostic place;
    place.file = file;
    config::complain(
        place,
        "is a " + std::string(its.title) + " policy by its name, and --config wants a sluice.yaml",
        "serve it with `sluice " + drop_in(its) + " " + file + "`", diagnostics);
  } else if (const auto text = config::read_file(file, diagnostics)) {
    config::read_config(*text, file, config, diagnostics);
  }
}

}  // namespace

int serve(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice serve [--config sluice.yaml] [options]", about_serve,
                      footer_of_serve(), exit_of_server);
  std::optional<std::string> file;
  config::Flags flags;
  arguments.add_option("--config", file, "The server's configuration", "FILE");
  arguments.add_option("--listen", flags.listen,
                       "Listen here, instead of what the file says; as " +
                           config::listener_example() + ", repeatable",
                       "PROTOCOL=ADDRESS");
  add_server_flags(arguments, flags);
  add_settings_flags(arguments, flags);
  if (const auto status = arguments.parse(words, io)) return *status;
  if (!arguments.positional().empty())
    return arguments.misused("`" + arguments.positional().front() +
                                 "` is not expected; a configuration is given as --config FILE",
                             io);

  bool is_start = true;
  const config::ReadConfig read = [&](base::Diagnostics& to) {
    config::Config config;
    if (file)
      read_config_file(*file, config, to);
    else
      config.listen_on_loopback();
    config::apply_environment(io, config, to);
    config::apply_flags(flags, config, to);
    if (std::exchange(is_start, false))
      config::each_settings([&](size_t, const protocol::Description& protocol) {
        if (protocol.settings->check_environment != nullptr)
          protocol.settings->check_environment(config, io, to);
      });
    return config;
  };
  return config::serve_config(read, config::Reloads::all, flags, {nullptr, hints}, io);
}

}  // namespace sluice::cli
