// What a command sees of the world besides files and sockets, so that tests can be the world. Owned
// by the caller of a command; one thread.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/diagnostic.h"

namespace sluice::config {

struct CommandIo {
  std::ostream& out;  // results
  std::ostream& err;  // what is wrong
  bool out_colour = false, err_colour = false;
  // The value of an environment variable; nothing: it is not set.
  std::function<std::optional<std::string>(const char* name)> environment;
  // All variables that there are.
  std::function<std::vector<std::pair<std::string, std::string>>()> variables = {};
  // Are `out` and `err` the process's own, and a terminal?
  bool out_terminal = false, err_terminal = false;
};

// Exit statuses of every command but `ask`; those that ask an admin port have one more
// (cli/admin_port.h).
inline constexpr int exit_ok = 0, exit_failure = 1, exit_usage = 2;

// `text` in bold and, if it is not 0, the terminal's colour of that number; as it is where there is
// no colour.
std::string paint(std::string_view text, int colour, bool coloured);
inline constexpr int red = 31, green = 32, yellow = 33;

// One line each on standard error.
void tell(const base::Diagnostics& all, CommandIo& io);

}  // namespace sluice::config
