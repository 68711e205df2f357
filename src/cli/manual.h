// Pages of the manual, in roff, made from the definitions that --help is printed from. Pure
// functions.
#pragma once

#include <span>
#include <string>

#include "cli/definitions.h"

namespace sluice::cli {

// "sluice-ask-divvy" of "ask divvy".
std::string page_name(const DefinedCommand& command);
std::string manual_page(const DefinedCommand& command);
// sluice(1), with the list of them.
std::string main_page(std::span<const DefinedCommand> commands);

}  // namespace sluice::cli
