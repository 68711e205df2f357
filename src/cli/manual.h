// Pages of the manual, in roff, and completions for shells, both made from the definitions that
// --help is printed from. Pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/definitions.h"

namespace sluice::cli {

// "sluice-ask-divvy" of "ask divvy".
std::string page_name(const DefinedCommand& command);
std::string manual_page(const DefinedCommand& command);
// sluice(1), with the list of them.
std::string main_page(std::span<const DefinedCommand> commands);

inline constexpr std::string_view shells[] = {"bash", "zsh", "fish"};
// Nothing: there is no such shell.
std::optional<std::string> completion(std::string_view shell,
                                      std::span<const DefinedCommand> commands);

}  // namespace sluice::cli
