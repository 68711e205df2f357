// The arguments of a command. Options are parsed by CLI11, which only arguments.cc includes,
// because each file that does takes seconds longer to compile; positional words are taken
// literally, because CLI11 would split `[a,b]`. All commands' help has one form.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "config/config.h"

namespace sluice::cli {

class Arguments {
 public:
  // `usage`: the text after "Usage: "; `footer`: the text after the options, without the exit
  // statuses.
  Arguments(const std::string& usage, const std::string& about, const std::string& footer,
            const ExitStatus& exits = {});
  ~Arguments();

  // Adds an option with a value. `names`: "--port", or "-p,--port"; `type`: what the help calls its
  // value, as "PORT". The value must live until parse() has returned, and changes only if the
  // option is given. Given twice it is wrong usage, except with `values`, to which each adds one.
  void add_option(const std::string& names, std::string& value, const std::string& help,
                  const std::string& type);
  void add_option(const std::string& names, std::optional<std::string>& value,
                  const std::string& help, const std::string& type);
  void add_option(const std::string& names, std::optional<uint16_t>& value, const std::string& help,
                  const std::string& type);
  void add_option(const std::string& names, Words& values, const std::string& help,
                  const std::string& type);
  // Adds an option without a value, which makes `value` true, or "".
  void add_flag(const std::string& names, bool& value, const std::string& help);
  void add_flag(const std::string& names, std::optional<std::string>& value,
                const std::string& help);
  // Adds one that only is_given() tells of. If there is a flag of that name already, it is both,
  // and its help follows `help`.
  void add_flag(const std::string& name, const std::string& help);
  // `-h` is not --help, but free for an option of this command.
  void free_short_help();

  // Sets the words that may come first, for completions.
  void set_words(const std::vector<std::string_view>& words) {
    first_words_.assign(words.begin(), words.end());
  }

  // Parses the words. If a status is returned the command must return it: help was printed, or
  // wrong usage was reported.
  std::optional<int> parse(const Words& words, config::CommandIo& io);

  // After parse(): was the option of that name, which was added, given?
  bool is_given(const std::string& name) const;
  // After parse(): the names of all options that were given, as "--port".
  Words given() const;

  // The words that are neither options nor their values, in order. After `--` all words are such.
  const Words& positional() const { return positional_; }

  // Reports the first positional word as unexpected, followed by `what`. Empty: there is none.
  std::optional<int> refuse_words(config::CommandIo& io, const std::string& what = "") const;

  // Reports wrong usage, and returns exit_usage.
  int misused(const std::string& problem, config::CommandIo& io) const;

 private:
  struct Parser;  // CLI11's

  std::string usage_;
  std::unique_ptr<Parser> app_;
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

// Adds the flag of a setting, with its help or another.
void add_setting_flag(Arguments& arguments, config::Flags& flags, const config::About& about,
                      std::string_view help = {});
// Adds the flags of all settings that do not belong to one protocol, and --print-config.
void add_server_flags(Arguments& arguments, config::Flags& flags);

// Adds the options of a protocol's own settings, or of those of all protocols.
void add_settings_flags(Arguments& arguments, const protocol::SettingsFormat& settings,
                        config::Flags& flags);
void add_settings_flags(Arguments& arguments, config::Flags& flags);

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
void add_file_flags(Arguments& arguments, FileFlags& flags);
// Adds only the flags of formats, without --as.
void add_format_flags(Arguments& arguments, FileFlags& flags);
// The message for an unknown value of --as.
std::string unknown_kind(const std::string& as);
// Adds a flag of a format, with the same help in all commands.
void add_policy_flag(Arguments& arguments, const protocol::PolicyFlag& flag, bool& given);

// Texts for the help: the environment variables of every serving command, and those of the
// protocols' settings.
std::string server_environment_help();
std::string settings_environment_help(const protocol::SettingsFormat& settings);
std::string settings_environment_help();

// `text` in lines that fit after the column of the options' names.
std::string wrapped(std::string_view text);

}  // namespace sluice::cli
