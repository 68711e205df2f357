// The one way in which commands use CLI11: options by it, positional words taken literally (it
// would take `[a,b]` apart), its exceptions kept here, and help in one form.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "config/config.h"

namespace sluice::cli {

class Arguments {
 public:
  // `usage` follows "Usage: "; `footer` is everything that comes behind the options,
  // but for the exit statuses.
  Arguments(const std::string& usage, const std::string& about, const std::string& footer,
            const ExitStatus& exits = {});

  // The words that its first word may be, for completions.
  void set_words(const std::vector<std::string_view>& words) {
    first_words_.assign(words.begin(), words.end());
  }

  // To add options to. They live as long as this.
  CLI::App& app() { return app_; }

  // Parses. With a status: the command ends with it, all is said (help was asked for, or the usage
  // is wrong).
  std::optional<int> parse(const Words& words, config::CommandIo& io);

  // What is neither an option nor an option's value, in order. After `--` everything is.
  const Words& positional() const { return positional_; }

  // The words there must be none of: tells of the first, `what` behind it. Nothing: there are none.
  std::optional<int> refuse_words(config::CommandIo& io, const std::string& what = "") const;

  // Tells what is wrong with the usage and returns exit_usage.
  int misused(const std::string& problem, config::CommandIo& io) const;

 private:
  std::string usage_;
  CLI::App app_;
  Words positional_, first_words_;
};

// What a command is, as its --help says it: of these the completions of shells and the pages of the
// manual are made.
struct CommandDefinition {
  struct Option {
    std::string names;  // "-h,--help"
    std::string type;   // "FILE"; empty: it takes no value
    std::string help;
  };
  std::string usage, about, footer;
  std::vector<Option> options;
  std::vector<std::string> words;  // that its first word may be; none: anything

  // "--help", those that begin with `--` alone.
  std::vector<std::string> long_names() const;
};
// The definition of the command that `run` runs, which ends as soon as it would read its words.
// Nothing: it reads none. Not within another call.
std::optional<CommandDefinition> definition_of(const std::function<void()>& run);

// "; did you mean `x`?", or "" where nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& known);

// The options that every serving command has: --workers, --connections, --memory, --data,
// --durability, --redis and what belongs to it, --log-level, --log-format, --admin.
void add_server_flags(CLI::App& app, config::Flags& flags);

// The options of a protocol's own settings, and of those of all protocols.
void add_settings_flags(CLI::App& app, const protocol::SettingsFormat& settings,
                        config::Flags& flags);
void add_settings_flags(CLI::App& app, config::Flags& flags);

// What the options say of every command that looks at files.
struct FileFlags {
  std::optional<std::string> as;  // --as
  bool to_be_served = false;      // said as well is what a server would say of its listeners
  // Flags of protocols' formats, whether they are given. The addresses stay.
  struct OfFormat {
    const protocol::PolicyFormat* format;
    const protocol::PolicyFlag* flag;
    bool given = false;
  };
  std::vector<OfFormat> of_formats;
};
void add_file_flags(CLI::App& app, FileFlags& flags);
// Those of formats alone, without --as.
void add_format_flags(CLI::App& app, FileFlags& flags);
// What to say of an --as that is none.
std::string unknown_kind(const std::string& as);
// A flag of a format, as it reads everywhere.
void add_policy_flag(CLI::App& app, const protocol::PolicyFlag& flag, bool& given);

// The environment of every serving command, and variables of protocols' settings, for their help.
extern const char* const server_environment_help;
std::string settings_environment_help(const protocol::SettingsFormat& settings);
std::string settings_environment_help();

// `text` in lines of what fits behind an option.
std::string wrapped(std::string_view text);

}  // namespace sluice::cli
