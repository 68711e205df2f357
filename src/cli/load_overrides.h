// Sends many overrides from a file to a running server: lines of JSON, sent in arrays. Main thread.
#pragma once

#include <string>

#include "cli/admin_port.h"

namespace sluice::cli {

// Sends the file's lines in parts of up to 1,000, each of which the server takes as a whole or not
// at all. Shows progress on a terminal, and prints the number at the end. It stops at the first
// part that is refused, and prints which lines were not sent. Returns the exit status.
int load_overrides(AdminPort& port, const std::string& path, bool json, config::CommandIo& io);

}  // namespace sluice::cli
