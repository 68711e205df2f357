#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/diagnostic.h"
#include "cli/commands.h"
#include "cli/definitions.h"
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
  // Values that have no room beside the help are told by the help.
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    if (text.size() > 40 && text.find('|') != text.npos) return " NAME";
    return text;
  }

 private:
  std::string usage_;
};

// Why there is no such option, where commands once had it; empty: they never had. `usage`: that of
// the command.
std::string gone_option(std::string_view name, const std::string& usage) {
  const std::string command = usage.substr(0, usage.find(" ["));
  if (name == "--watch" || name == "--every")
    return "there is no option " + std::string(name) +
           ": a command prints once; repeat it, as `watch -n 1 " + command + "` does";
  if (name == "--once" && command == "sluice top")
    return "there is no option --once: `sluice top` prints once without it";
  return {};
}

std::optional<CommandDefinition>* definition_asked = nullptr;

// The footer, without the line that CLI11 puts before it.
CommandDefinition define(const std::string& usage, const CLI::App& app) {
  CommandDefinition all{usage, app.get_description(), app.get_footer(), {}, {}};
  for (const CLI::Option* option : app.get_options())
    all.options.push_back({option->get_name(false, true),
                           option->get_type_size() == 0 ? "" : option->get_type_name(),
                           option->get_description()});
  return all;
}

}  // namespace

struct Arguments::Parser : CLI::App {
  using App::App;
};

std::vector<std::string> CommandDefinition::long_names() const {
  std::vector<std::string> all;
  for (const Option& option : options) {
    for (size_t at = 0; at < option.names.size();) {
      const size_t end = std::min(option.names.find(',', at), option.names.size());
      std::string name = option.names.substr(at, end - at);
      if (name.starts_with("--")) all.push_back(std::move(name));
      at = end + 1;
    }
  }
  return all;
}

std::optional<CommandDefinition> definition_of(const std::function<void()>& run) {
  std::optional<CommandDefinition> definition;
  definition_asked = &definition;
  run();
  definition_asked = nullptr;
  return definition;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& known) {
  const auto near = base::nearest_word(word, known);
  return near.empty() ? "" : "; did you mean `" + std::string(near) + "`?";
}

Arguments::Arguments(const std::string& usage, const std::string& about, const std::string& footer,
                     const ExitStatus& exits)
    : usage_(usage), app_(std::make_unique<Parser>(about)) {
  app_->formatter(std::make_shared<HelpForm>(usage));
  std::string text = footer;
  while (text.ends_with('\n')) text.pop_back();
  const std::string statuses = exit_help(exits);
  app_->footer(statuses.empty() ? text : text + "\n\n" + statuses);
  app_->allow_extras();
}

Arguments::~Arguments() = default;

void Arguments::add_option(const std::string& names, std::string& value, const std::string& help,
                           const std::string& type) {
  app_->add_option(names, value, help)->type_name(type);
}

void Arguments::add_option(const std::string& names, std::optional<std::string>& value,
                           const std::string& help, const std::string& type) {
  app_->add_option(names, value, help)->type_name(type);
}

void Arguments::add_option(const std::string& names, std::optional<uint16_t>& value,
                           const std::string& help, const std::string& type) {
  app_->add_option(names, value, help)->type_name(type);
}

void Arguments::add_option(const std::string& names, Words& values, const std::string& help,
                           const std::string& type) {
  app_->add_option(names, values, help)
      ->type_name(type)
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

void Arguments::add_flag(const std::string& names, bool& value, const std::string& help) {
  app_->add_flag(names, value, help);
}

void Arguments::add_flag(const std::string& names, std::optional<std::string>& value,
                         const std::string& help) {
  app_->add_flag_callback(
      names, [&value] { value.emplace(); }, help);
}

void Arguments::add_flag(const std::string& name, const std::string& help) {
  CLI::Option* flag = app_->get_option_no_throw(name);
  const std::string more = flag == nullptr ? "" : "\n" + flag->get_description();
  if (flag == nullptr) flag = app_->add_flag(name);
  flag->description(help + more);
}

void Arguments::free_short_help() {
  app_->set_help_flag("--help", "Print this help message and exit");
}

bool Arguments::is_given(const std::string& name) const {
  return app_->count(name) > 0;
}

Words Arguments::given() const {
  Words names;
  for (const CLI::Option* option : app_->get_options())
    if (option->count() > 0) names.push_back("--" + option->get_lnames().front());
  return names;
}

std::optional<int> Arguments::parse(const Words& words, config::CommandIo& io) {
  if (definition_asked != nullptr) {
    *definition_asked = define(usage_, *app_);
    (*definition_asked)->words = first_words_;
    return config::exit_ok;
  }
  // After `--` no word is an option, whatever its form.
  const auto mark = std::find(words.begin(), words.end(), "--");
  Words reversed(std::make_reverse_iterator(mark), words.rend());
  try {
    app_->parse(reversed);
  } catch (const CLI::CallForHelp&) {
    io.out << app_->help() << std::flush;
    return config::exit_ok;
  } catch (const CLI::Error& e) {
    return misused(e.what(), io);
  }
  for (std::string& word : app_->remaining()) {
    if (word.size() > 1 && word.front() == '-') {
      const std::string name = word.substr(0, word.find('='));
      if (const std::string gone = gone_option(name, usage_); !gone.empty())
        return misused(gone, io);
      const std::vector<std::string> names = define(usage_, *app_).long_names();
      const std::string near = did_you_mean(name, {names.begin(), names.end()});
      return misused("there is no option " + word +
                         (near.empty() ? "; behind a `--` it would be taken as a word" : near),
                     io);
    }
    positional_.push_back(std::move(word));
  }
  if (mark != words.end()) positional_.insert(positional_.end(), mark + 1, words.end());
  return std::nullopt;
}

std::optional<int> Arguments::refuse_words(config::CommandIo& io, const std::string& what) const {
  if (positional_.empty()) return std::nullopt;
  return misused("unexpected argument `" + positional_.front() + "`" + what, io);
}

int Arguments::misused(const std::string& problem, config::CommandIo& io) const {
  io.err << config::paint("error:", config::red, io.err_colour) << ' ' << problem
         << "\nUsage: " << usage_ << "\nMore with --help." << std::endl;
  return config::exit_usage;
}

namespace {

// Adds the flags of the settings for whose owner `has` holds.
template <class Has>
void add_flags(Arguments& arguments, config::Flags& flags, Has&& has) {
  config::Config config;
  config::each_outside(config::table_of(config), [&](const config::Entry& entry) {
    const config::About& about = entry.about;
    if (!about.flag.empty() && has(entry.owner)) add_setting_flag(arguments, flags, about);
  });
}

// "  SLUICE_WORKERS, SLUICE_CONNECTIONS   as the flags of these names", and a line for each
// variable without a flag.
template <class Has>
std::string environment_help(Has&& has) {
  constexpr size_t columns = 88;
  std::string names, more, line;
  config::Config config;
  config::each_outside(config::table_of(config), [&](const config::Entry& entry) {
    const config::About& about = entry.about;
    if (about.variable.empty() || !has(entry.owner)) return;
    if (about.flag.empty()) {
      more.append("  ").append(about.variable).append("   ").append(about.help) += '\n';
      return;
    }
    if (line.size() + about.variable.size() > columns) {
      names += line + ",\n";
      line.clear();
    }
    line.append(line.empty() ? "  " : ", ").append(about.variable);
  });
  if (!line.empty()) names += line + "   as the flags of these names\n";
  return names + more;
}

}  // namespace

void add_setting_flag(Arguments& arguments, config::Flags& flags, const config::About& about,
                      std::string_view help) {
  std::optional<std::string>& given = flags.given[about.flag];
  const std::string text(help.empty() ? about.help : help);
  if (about.type.empty())
    arguments.add_flag(std::string(about.flag), given, text);
  else
    arguments.add_option(std::string(about.flag), given, text, std::string(about.type));
}

void add_server_flags(Arguments& arguments, config::Flags& flags) {
  add_flags(arguments, flags, [](const auto* owner) { return owner == nullptr; });
  arguments.add_flag("--print-config", flags.print,
                     "Print the settings that result, and where each comes from; then end");
}

void add_settings_flags(Arguments& arguments, const protocol::SettingsFormat& settings,
                        config::Flags& flags) {
  add_flags(arguments, flags, [&](const auto* owner) { return owner == &settings; });
}

void add_settings_flags(Arguments& arguments, config::Flags& flags) {
  add_flags(arguments, flags, [](const auto* owner) { return owner != nullptr; });
}

std::string server_environment_help() {
  return environment_help([](const auto* owner) { return owner == nullptr; });
}
std::string settings_environment_help(const protocol::SettingsFormat& settings) {
  return environment_help([&](const auto* owner) { return owner == &settings; });
}
std::string settings_environment_help() {
  return environment_help([](const auto* owner) { return owner != nullptr; });
}

void add_file_flags(Arguments& arguments, FileFlags& flags) {
  arguments.add_option(
      "--as", flags.as,
      wrapped("What the file is, whatever its name: " + config::one_of(config::kind_names())),
      type_of_values(config::kind_names()));
  add_format_flags(arguments, flags);
}

void add_format_flags(Arguments& arguments, FileFlags& flags) {
  for (const protocol::Protocol protocol : config::with_policy_files()) {
    const protocol::PolicyFormat& format = *describe(protocol).policy;
    for (const protocol::PolicyFlag& flag : format.flags)
      flags.of_formats.push_back({&format, &flag});
  }
  for (FileFlags::OfFormat& one : flags.of_formats)
    add_policy_flag(arguments, *one.flag, one.given);
}

std::string unknown_kind(const std::string& as) {
  return "--as must be " + config::one_of(config::kind_names()) + ", not `" + as + "`";
}

void add_policy_flag(Arguments& arguments, const protocol::PolicyFlag& flag, bool& given) {
  arguments.add_flag(std::string(flag.flag), given, std::string(flag.help));
}

std::string exit_help(const ExitStatus& status) {
  if (status.done.empty()) return "";
  const auto line = [](int number, std::string_view text) {
    return "\n  " + std::to_string(number) + "  " + std::string(text);
  };
  std::string text = "Exit status:" + line(config::exit_ok, status.done) +
                     line(config::exit_failure, status.failed);
  if (status.misused) text += line(config::exit_usage, "wrong usage");
  if (status.asks)
    text += line(exit_no_server,
                 "no decision or answer: no server, none in time, another token or user");
  return text;
}

std::string wrapped(std::string_view text) {
  constexpr size_t columns = 74;  // of 100, after the column of the options' names
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
