// The commands of the program, each in a file of its own. They take the words after their name and
// return the exit status.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/command_io.h"
#include "protocol/command.h"

namespace sluice::cli {

// The exit statuses of all commands: one table for the commands, their --help, the manual pages and
// docs/commands.md. A drop-in tool may have the exit statuses of its original (limitdctl).

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

using protocol::Words;

int serve(const Words& words, config::CommandIo& io);
int check(const Words& words, config::CommandIo& io);
int explain(const Words& words, config::CommandIo& io);
int store(const Words& words, config::CommandIo& io);
int ask(const Words& words, config::CommandIo& io);
int init(const Words& words, config::CommandIo& io);
int token(const Words& words, config::CommandIo& io);
int completion(const Words& words, config::CommandIo& io);
int manual(const Words& words, config::CommandIo& io);
// The following commands ask the admin port of a running server.
int status(const Words& words, config::CommandIo& io);
int health(const Words& words, config::CommandIo& io);
int top(const Words& words, config::CommandIo& io);
int denials(const Words& words, config::CommandIo& io);
int rules(const Words& words, config::CommandIo& io);
int counters(const Words& words, config::CommandIo& io);
int reset(const Words& words, config::CommandIo& io);
int override_limits(const Words& words, config::CommandIo& io);
int changes(const Words& words, config::CommandIo& io);
int holds(const Words& words, config::CommandIo& io);
int renew(const Words& words, config::CommandIo& io);
int release(const Words& words, config::CommandIo& io);
int reload(const Words& words, config::CommandIo& io);
int live_config(const Words& words, config::CommandIo& io);
int log_settings(const Words& words, config::CommandIo& io);

// All commands, with those of protocols: servers first, tools last.
std::vector<protocol::Command> all_commands();

// Runs the command that the first word names, or the program's own --help and --version.
int run(const Words& words, config::CommandIo& io);

}  // namespace sluice::cli
