// The arguments of a command, on CLI11. Options are CLI11's; positional words are taken literally,
// because CLI11 would split `[a,b]`. CLI11's exceptions do not leave this file, and all commands'
// help has one form.
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
  // `usage`: the text after "Usage: "; `footer`: the text after the options, without the exit
  // statuses.
  Arguments(const std::string& usage, const std::string& about, const std::string& footer,
            const ExitStatus& exits = {});

  // Sets the words that may come first, for completions.
  void set_words(const std::vector<std::string_view>& words) {
    first_words_.assign(words.begin(), words.end());
  }

  // For adding options. Their values must live as long as this object.
  CLI::App& app() { return app_; }

  // Parses the words. If a status is returned the command must return it: help was printed, or
  // wrong usage was reported.
  std::optional<int> parse(const Words& words, config::CommandIo& io);

  // The words that are neither options nor their values, in order. After `--` all words are such.
  const Words& positional() const { return positional_; }

  // Reports the first positional word as unexpected, followed by `what`. Empty: there is none.
  std::optional<int> refuse_words(config::CommandIo& io, const std::string& what = "") const;

  // Reports wrong usage, and returns exit_usage.
  int misused(const std::string& problem, config::CommandIo& io) const;

 private:
  std::string usage_;
  CLI::App app_;
  Words positional_, first_words_;
};

// The definition of a command, as its --help prints it. Shell completions and manual pages are made
// from it.
struct CommandDefinition {
  struct Option {
    std::string names;  // "-h,--help"
    std::string type;   // "FILE"; empty: the option takes no value
    std::string help;
  };
  std::string usage, about, footer;
  std::vector<Option> options;
  std::vector<std::string> words;  // that may be its first word; none: any word may

  // The names that begin with `--`: "--help".
  std::vector<std::string> long_names() const;
};
// Calls `run`, which runs a command up to the point where it would parse its words, and returns the
// command's definition. Empty: the command parses no words. Must not be nested.
std::optional<CommandDefinition> definition_of(const std::function<void()>& run);

// "; did you mean `x`?", or "" if no known word is similar.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& known);

// Adds the options that every serving command has: --workers, --connections, --memory, --data,
// --durability, --redis and those that belong to it, --log-level, --log-format, --admin.
void add_server_flags(CLI::App& app, config::Flags& flags);

// Adds the options of a protocol's own settings, or of those of all protocols.
void add_settings_flags(CLI::App& app, const protocol::SettingsFormat& settings,
                        config::Flags& flags);
void add_settings_flags(CLI::App& app, config::Flags& flags);

// The options of all commands that inspect files.
struct FileFlags {
  std::optional<std::string> as;  // --as
  bool to_be_served = false;      // also report what a server would report about its listeners
  // The flags of the protocols' formats, and whether they were given. The objects must not move.
  struct OfFormat {
    const protocol::PolicyFormat* format;
    const protocol::PolicyFlag* flag;
    bool given = false;
  };
  std::vector<OfFormat> of_formats;
};
void add_file_flags(CLI::App& app, FileFlags& flags);
// Adds only the flags of formats, without --as.
void add_format_flags(CLI::App& app, FileFlags& flags);
// The message for an unknown value of --as.
std::string unknown_kind(const std::string& as);
// Adds a flag of a format, with the same help in all commands.
void add_policy_flag(CLI::App& app, const protocol::PolicyFlag& flag, bool& given);

// Texts for the help: the environment variables of every serving command, and those of the
// protocols' settings.
extern const char* const server_environment_help;
std::string settings_environment_help(const protocol::SettingsFormat& settings);
std::string settings_environment_help();

// `text` in lines that fit after the column of the options' names.
std::string wrapped(std::string_view text);

}  // namespace sluice::cli
