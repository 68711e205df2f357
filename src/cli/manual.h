// Makes manual pages in roff, and shell completions, from the same definitions as --help. Pure
// functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/definitions.h"

namespace sluice::cli {

// "sluice-ask-divvy" for "ask divvy".
std::string page_name(const DefinedCommand& command);
std::string manual_page(const DefinedCommand& command);
// The page sluice(1), with the list of commands.
std::string main_page(std::span<const DefinedCommand> commands);

inline constexpr std::string_view shells[] = {"bash", "zsh", "fish"};
// Empty: there is no such shell.
std::optional<std::string> completion(std::string_view shell,
                                      std::span<const DefinedCommand> commands);

}  // namespace sluice::cli
