// The input and output of a command other than files and sockets: streams and environment, which
// tests can replace. Owned by the caller of a command; one thread.
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
  std::ostream& err;  // problems
  bool out_colour = false, err_colour = false;
  // The value of an environment variable; empty: it is not set.
  std::function<std::optional<std::string>(const char* name)> environment;
  // All environment variables.
  std::function<std::vector<std::pair<std::string, std::string>>()> variables = {};
  // Are `out` and `err` the process's standard streams, and terminals?
  bool out_terminal = false;
};

// The exit statuses of all commands except `ask`. Commands that ask an admin port have one more
// (cli/admin_port.h).
inline constexpr int exit_ok = 0, exit_failure = 1, exit_usage = 2;

// `text` in bold, and in the terminal's colour with that number unless it is 0. If `coloured` is
// false the text is unchanged.
std::string paint(std::string_view text, int colour, bool coloured);
inline constexpr int red = 31, green = 32, yellow = 33;

// Prints each diagnostic as a line on standard error.
void tell(const base::Diagnostics& all, CommandIo& io);

}  // namespace sluice::config
