// What commands end with: one table for all of them, their --help, the pages of the manual and
// docs/commands.md. A server's own drop-in tool may end as its original does (limitdctl).
#pragma once

#include <string>
#include <string_view>

#include "config/command_io.h"

namespace sluice::cli {

// No server could be reached, it did not answer in time, it wants another token or user, or what it
// sent is not an answer.
inline constexpr int exit_no_server = 3;

// What 0 and 1 are for a command.
struct ExitStatus {
  std::string_view done, failed;
  bool asks = false;    // it asks a server, so there is a 3
  bool misused = true;  // wrong usage is 2; false: it ends as another program does, with 1
};
inline constexpr ExitStatus exit_of_server{"stopped by a signal",
                                           "a file, a setting or an address cannot be used"};
inline constexpr ExitStatus exit_of_ask{"allowed, or answered", "denied", true};

// As lines of a --help; "" of one that says nothing.
std::string exit_help(const ExitStatus& status);

}  // namespace sluice::cli
