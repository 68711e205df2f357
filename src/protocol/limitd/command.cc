#include <arpa/inet.h>

#include <array>
#include <utility>

#include "base/units.h"
#include "cli/arguments.h"
#include "config/built_in.h"
#include "config/read_file.h"
#include "config/serving.h"
#include "config/settings.h"
#include "config/variables.h"
#include "protocol/limitd/commands.h"
#include "protocol/limitd/policy_files.h"

namespace sluice::limitd {
namespace {

constexpr const char* about_limitd =
    "Serves a limitd configuration over limitd's protocol, in place of `limitd -c CONFIG`: same\n"
    "file, same folder CONFIG.d, same environment, same flags; -h is --hostname, as there.\n"
    "Counters are kept in its `db`, what was answered survives a kill. SIGHUP, or a change of the\n"
    "files, reloads the bucket types; SIGHUP opens the log file again, too.";

constexpr config::VariableHelp variables_help[] = {
    {"CONFIG_FILE", "as --config-file"},
    {"PORT, DB, LOG_FILE, LOG_LEVEL", "as the keys of the file in small letters"},
    {"HOSTNAME", "where to listen, if it is an address; a mere name is skipped"},
    {"BUCKET_<n>_NAME, BUCKET_<n>_SIZE, BUCKET_<n>_PER_SECOND and others",
     "bucket types, in place of all those of files"}};

std::string footer_of_limitd() {
  return std::string(
             "Example:\n"
             "  sluice limitd --config-file limitd.yaml --port 9231\n"
             "  sluice ask limitd take user 10.0.0.7\n"
             "\n"
             "Environment (flags override it, it overrides the file):\n") +
         config::help_of(variables_help) + cli::server_environment_help();
}

struct LimitdFlags {
  std::optional<std::string> file, db, port, hostname, log_file;
};

base::Diagnostic warning_at(std::string subject) {
  base::Diagnostic place;
  place.severity = base::Diagnostic::Severity::warning;
  place.subject = std::move(subject);
  return place;
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

// The environment variables to apply. A container's HOSTNAME is its name and not an address to
// listen on, so it is left out.
Texts environment_of(const config::CommandIo& io, base::Diagnostics& diagnostics) {
  Texts all;
  if (io.variables) all = io.variables();
  std::erase_if(all, [&](const auto& variable) {
    const auto& [name, text] = variable;
    if (name != "HOSTNAME" || is_address(text)) return false;
    // limitd would listen on every address if it is empty, whatever the file says.
    config::complain(warning_at(name),
                     (text.empty() ? "is empty, which" : "`" + text + "`") +
                         " is not an address, so it is not listened on",
                     "say --hostname where it is meant", diagnostics);
    return true;
  });
  return all;
}

template <class T>
std::string place_of(const LimitdConfig::Setting<T>& setting) {
  return setting.line == 0 ? setting.file : setting.file + ":" + std::to_string(setting.line);
}

// Warns that a flag takes effect. In limitd the other sources of the same setting override it.
template <class T>
void warn_overridden(const char* flag, const std::string& value,
                     const std::optional<LimitdConfig::Setting<T>>& other,
                     const std::string& others, base::Diagnostics& diagnostics) {
  if (!other || others == value) return;
  config::complain(
      warning_at(flag),
      "`" + value + "` counts, where limitd would take `" + others + "` of " + place_of(*other), "",
      diagnostics);
}

// The environment overrides the file, as in limitd; flags override both.
constexpr config::SameVariable same_variables[] = {{"DB", "SLUICE_DATA"},
                                                   {"LOG_LEVEL", "SLUICE_LOG_LEVEL"}};

void apply_settings(const LimitdFlags& flags, const LimitdConfig& said, config::Config& config,
                    base::Diagnostics& diagnostics) {
  auto& listener = config.listen.front();
  config::Address& address = listener.value.address;
  if (said.port) {
    address.port = said.port->value;
    listener.origin = place_of(*said.port);
  }
  if (said.hostname) address.host = said.hostname->value;
  if (flags.port) {
    const auto port = base::parse_port(*flags.port);
    base::Diagnostic place;
    place.subject = "--port";
    if (!port)
      config::complain(place, "`" + *flags.port + "` is not a port", "write 0 to 65535",
                       diagnostics);
    else
      address.port = *port;
    warn_overridden("--port", *flags.port, said.port,
                    said.port ? std::to_string(said.port->value) : "", diagnostics);
    listener.origin = "--port";
  }
  if (flags.hostname) {
    warn_overridden("--hostname", *flags.hostname, said.hostname,
                    said.hostname ? said.hostname->value : "", diagnostics);
    address.host = *flags.hostname;
  }
  // As in limitd: every answered change has been written, but not synced.
  if (said.db && !said.db->value.path.empty()) {
    config.store.path = {said.db->value.path, place_of(*said.db)};
    config.store.durability = {config::Durability::always, place_of(*said.db)};
  }
  if (said.log_file) config.log_file = said.log_file->value;
  if (flags.log_file) {
    warn_overridden("--log-file", *flags.log_file, said.log_file, config.log_file, diagnostics);
    config.log_file = *flags.log_file;
  }
  if (said.log_level) {
    static const std::vector<std::pair<std::string_view, spdlog::level::level_enum>> levels{
        {"fatal", spdlog::level::critical}, {"error", spdlog::level::err},
        {"warn", spdlog::level::warn},      {"info", spdlog::level::info},
        {"debug", spdlog::level::debug},    {"trace", spdlog::level::trace}};
    for (const auto& [name, level] : levels)
      if (name == said.log_level->value) config.log.level = {level, place_of(*said.log_level)};
  }
}

void add_limitd_flags(cli::Arguments& arguments, LimitdFlags& flags, bool& print_version) {
  arguments.free_short_help();
  arguments.add_option("-c,--config-file", flags.file, "limitd's configuration", "FILE");
  arguments.add_option("-d,--db", flags.db,
                       "Folder that counters are kept in, so that none is ever forgotten", "PATH");
  arguments.add_option("-p,--port", flags.port,
                       "Port to listen on; default 9231, 0 takes a free one", "PORT");
  arguments.add_option("-h,--hostname", flags.hostname,
                       "Address to listen on; default ::, IPv6 and IPv4", "ADDRESS");
  arguments.add_option("-l,--log-file", flags.log_file,
                       "Append the log to a file; default standard error", "FILE");
  arguments.add_flag("-V,--version", print_version, "Print the version and exit");
}

}  // namespace

int serve(const protocol::Words& words, config::CommandIo& io) {
  cli::Arguments arguments("sluice limitd --config-file FILE [options]", about_limitd,
                           footer_of_limitd(),
                           {"stopped by a signal", "anything else", false, false});
  LimitdFlags flags;
  config::Flags server_flags;
  bool print_version = false;
  add_limitd_flags(arguments, flags, print_version);
  cli::add_server_flags(arguments, server_flags);
  // As in limitd, every error ends with exit status 1.
  if (const auto status = arguments.parse(words, io))
    return *status == config::exit_ok ? config::exit_ok : config::exit_failure;
  if (print_version) {
    io.out << config::version << std::endl;
    return config::exit_ok;
  }
  if (!arguments.positional().empty()) {
    arguments.misused("`" + arguments.positional().front() +
                          "` is not expected; a configuration is given as --config-file FILE",
                      io);
    return config::exit_failure;
  }
  if (!flags.file) {
    const auto named = io.environment("CONFIG_FILE");
    if (named && !named->empty()) flags.file = named;
  }

  base::Diagnostics diagnostics, told_with_the_rules;
  auto source = std::make_shared<LimitdSource>();
  source->use = LimitdSource::Use::whole;
  source->environment = environment_of(io, diagnostics);
  if (flags.db) source->flags.db = {{*flags.db, false}, "--db", 0};
  const std::string file = flags.file.value_or("");
  const LimitdTexts texts =
      read_limitd_texts(file, *source, Unusable::main_file, told_with_the_rules);
  const auto said = limitd_settings(texts, *source, told_with_the_rules);
  if (base::has_errors(told_with_the_rules)) {
    // If the file is missing, findings about its contents are of no use.
    if (config::is_missing(file)) told_with_the_rules.resize(1);
    tell(diagnostics, io);
    tell(told_with_the_rules, io);
    return config::exit_failure;
  }

  const config::ReadConfig read = [&](base::Diagnostics& to) {
    config::Config config;
    to.insert(to.end(), diagnostics.begin(), diagnostics.end());
    config.listen = {{{number_of(description), {"::", description.port}}}};
    config.same_variables = same_variables;
    config.policy.push_back(
        {number_of(description),
         base::Cloned<protocol::PolicyFiles>(std::make_unique<LimitdFiles>(
             base::Setting<std::string>{file, flags.file ? "--config-file" : "default"}, source))});
    apply_settings(flags, said, config, to);
    config::apply_environment(io, config, to);
    config::apply_flags(server_flags, config, to);
    return config;
  };
  return config::serve_config(read, config::Reloads::rules, server_flags, {}, io,
                              {config::names_of(variables_help)});
}

}  // namespace sluice::limitd
