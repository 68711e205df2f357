// Makes manual pages, in roff, from the same definitions as --help. Pure functions.
#pragma once

#include <span>
#include <string>

#include "cli/definitions.h"

namespace sluice::cli {

// "sluice-ask-divvy" for "ask divvy".
std::string page_name(const DefinedCommand& command);
std::string manual_page(const DefinedCommand& command);
// The page sluice(1), with the list of commands.
std::string main_page(std::span<const DefinedCommand> commands);

}  // namespace sluice::cli
