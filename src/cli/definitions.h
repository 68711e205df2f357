// All commands with what their --help says of them, for what is made of it: completions of shells
// and pages of the manual. Main thread.
#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"

namespace sluice::cli {

struct DefinedCommand {
  std::string name;     // "serve", "ask divvy"
  std::string summary;  // as the list of commands has it
  CommandDefinition definition;

  bool is_part() const { return name.find(' ') != std::string::npos; }
};

// Those of the program and of protocols, each followed by its parts.
std::vector<DefinedCommand> defined_commands();

}  // namespace sluice::cli
