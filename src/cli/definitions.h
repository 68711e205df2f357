// All commands with the definitions that their --help prints, for shell completions and manual
// pages. Main thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"

namespace sluice::cli {

struct DefinedCommand {
  std::string name;     // "serve", "ask divvy"
  std::string summary;  // as in the list of commands
  CommandDefinition definition;

  bool is_part() const { return name.find(' ') != std::string::npos; }
};

// The commands of the program and of protocols, each followed by its subcommands.
std::vector<DefinedCommand> defined_commands();

// The type of an option that takes one of some values, as --help shows it: "text|json". Completions
// offer these values. Pure functions.

inline std::string type_of_values(const std::vector<std::string_view>& values) {
  std::string type;
  for (const std::string_view value : values)
    type += (type.empty() ? "" : "|") + std::string(value);
  return type;
}

}  // namespace sluice::cli
