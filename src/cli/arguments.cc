#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <utility>

#include "config/load_policy.h"
#include "config/settings.h"

namespace sluice::cli {
namespace {

class HelpForm : public CLI::Formatter {
 public:
  explicit HelpForm(std::string usage) : usage_(std::move(usage)) { column_width(26); }
  std::string make_usage(const CLI::App*, std::string) const override {
    return "\nUsage: " + usage_ + "\n";
  }

 private:
  std::string usage_;
};

}  // namespace

Arguments::Arguments(const std::string& usage, const std::string& about, const std::string& footer)
    : usage_(usage), app_(about) {
  app_.formatter(std::make_shared<HelpForm>(usage));
  app_.footer(footer);
  app_.allow_extras();
}

std::optional<int> Arguments::parse(const Words& words, config::CommandIo& io) {
  // Behind `--` nothing is an option, whatever it looks like.
  const auto mark = std::find(words.begin(), words.end(), "--");
  Words reversed(std::make_reverse_iterator(mark), words.rend());
  try {
    app_.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    io.out << app_.help() << std::flush;
    return config::exit_ok;
  } catch (const CLI::Error& e) {
    return misused(e.what(), io);
  }
  for (std::string& word : app_.remaining()) {
    if (word.size() > 1 && word.front() == '-')
      return misused("there is no option " + word + "; behind a `--` it would be taken as a word",
                     io);
    positional_.push_back(std::move(word));
  }
  if (mark != words.end()) positional_.insert(positional_.end(), mark + 1, words.end());
  return std::nullopt;
}

int Arguments::misused(const std::string& problem, config::CommandIo& io) const {
  io.err << config::paint("error:", config::red, io.err_colour) << ' ' << problem
         << "\nUsage: " << usage_ << "\nMore with --help." << std::endl;
  return config::exit_usage;
}

void add_server_flags(CLI::App& app, config::Flags& flags) {
  app.add_option("--workers", flags.workers, "Threads that serve: auto, or a number")
      ->type_name("N");
  app.add_option("--connections", flags.connections, "Clients served at a time; more are told so")
      ->type_name("N");
  app.add_option("--memory", flags.memory, "Bound of the counter table, as 64MiB or 2GiB")
      ->type_name("SIZE");
  app.add_option("--data", flags.data,
                 "Keep counters in this folder, so that they survive; made if missing")
      ->type_name("DIR");
  app.add_option("--durability", flags.durability,
                 "none, interval (a kill may forget the last 200 ms), or always (what was\n"
                 "answered is never forgotten); with --data, default interval")
      ->type_name("HOW");
  app.add_option("--redis", flags.redis,
                 "Keep counters in this Redis, shared with all servers that do so")
      ->type_name("HOST:PORT");
  app.add_option("--redis-cluster", flags.redis_cluster,
                 "The same in a Redis Cluster: some of its nodes, apart by commas")
      ->type_name("HOST:PORT");
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warn, error or off")
      ->type_name("LEVEL");
  app.add_option("--log-format", flags.log_format, "text, or json: an object a line")
      ->type_name("FORMAT");
  app.add_option("--admin", flags.admin,
                 "Where the admin port listens, as 127.0.0.1:8380; off: nowhere")
      ->type_name("ADDRESS");
}

void add_settings_flags(CLI::App& app, const protocol::SettingsFormat& settings,
                        config::Flags& flags) {
  for (const protocol::SettingsFlag& one : settings.flags)
    app.add_option(std::string(one.flag), flags.own[one.flag], std::string(one.help))
        ->type_name(std::string(one.type_name));
}

void add_settings_flags(CLI::App& app, config::Flags& flags) {
  for (const protocol::Description* protocol : protocol::all())
    if (protocol->settings != nullptr) add_settings_flags(app, *protocol->settings, flags);
}

void add_file_flags(CLI::App& app, FileFlags& flags) {
  app.add_option(
         "--as", flags.as,
         wrapped("What the file is, whatever its name: " + config::one_of(config::kind_names())))
      ->type_name("KIND");
  for (const protocol::Protocol protocol : config::with_policy_files()) {
    const protocol::PolicyFormat& format = *describe(protocol).policy;
    for (const protocol::PolicyFlag& flag : format.flags)
      flags.of_formats.push_back({&format, &flag});
  }
  for (FileFlags::OfFormat& one : flags.of_formats) add_policy_flag(app, *one.flag, one.given);
}

std::string unknown_kind(const std::string& as) {
  return "--as is to be " + config::one_of(config::kind_names()) + ", not `" + as + "`";
}

void add_policy_flag(CLI::App& app, const protocol::PolicyFlag& flag, bool& given) {
  app.add_flag(std::string(flag.flag), given, std::string(flag.help));
}

const char* const server_environment_help =
    "  SLUICE_WORKERS, SLUICE_CONNECTIONS, SLUICE_MEMORY, SLUICE_DATA, SLUICE_DURABILITY,\n"
    "  SLUICE_REDIS, SLUICE_REDIS_CLUSTER, SLUICE_LOG_LEVEL, SLUICE_LOG_FORMAT, SLUICE_ADMIN   as "
    "the flags of these\n"
    "                 names\n"
    "  SLUICE_ADMIN_TOKEN   what requests to the admin port have to show\n";

std::string settings_environment_help(const protocol::SettingsFormat& settings) {
  std::string text;
  for (const protocol::SettingsFlag& one : settings.flags)
    text += "  " + std::string(one.variable) + "   as " + std::string(one.flag) + "\n";
  return text;
}

std::string settings_environment_help() {
  std::string text;
  for (const protocol::Description* protocol : protocol::all())
    if (protocol->settings != nullptr) text += settings_environment_help(*protocol->settings);
  return text;
}

std::string wrapped(std::string_view text) {
  constexpr size_t columns = 74;  // of a hundred, behind the options' names
  std::string out;
  size_t line = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (line > 0 && line + 1 + end > columns) {
      out += '\n';
      line = 0;
    } else if (line > 0) {
      out += ' ';
      ++line;
    }
    out += text.substr(0, end);
    line += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace sluice::cli
