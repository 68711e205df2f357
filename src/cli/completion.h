// Completions for shells, made from the definitions that --help is printed from. Pure functions.
//
// Each script offers, wherever the cursor stands: commands; the first word of commands that have a
// list of them; options, with a dash; the values of options whose type lists them ("text|json");
// and files, where a file or folder is expected. The value of an option does not count as a word,
// be it written behind a space or a `=`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/definitions.h"

namespace sluice::cli {

inline constexpr std::string_view shells[] = {"bash", "zsh", "fish"};
// Nothing: there is no such shell.
std::optional<std::string> completion(std::string_view shell,
                                      std::span<const DefinedCommand> commands);

}  // namespace sluice::cli
