// The exit statuses of all commands: one table for the commands, their --help, the manual pages and
// docs/commands.md. A drop-in tool may have the exit statuses of its original (limitdctl).
#pragma once

#include <string>
#include <string_view>

#include "config/command_io.h"

namespace sluice::cli {

// No server could be reached, it did not answer in time, it requires another token or user, or it
// sent something that is not an answer.
inline constexpr int exit_no_server = 3;

// The meanings of 0 and 1 for a command.
struct ExitStatus {
  std::string_view done, failed;
  bool asks = false;    // the command asks a server, so 3 is possible
  bool misused = true;  // wrong usage returns 2; false: 1, as in the original program
};
inline constexpr ExitStatus exit_of_server{"stopped by a signal",
                                           "a file, a setting or an address cannot be used"};
inline constexpr ExitStatus exit_of_ask{"allowed, or answered", "denied", true};

// The lines for a --help; "" if the status has no texts.
std::string exit_help(const ExitStatus& status);

}  // namespace sluice::cli
