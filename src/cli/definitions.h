// All commands with the definitions that their --help prints, for shell completions and manual
// pages. Main thread.
#pragma once

#include <string>
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

}  // namespace sluice::cli
