// Many overrides from a file into a running server: lines of JSON, sent in arrays. Main thread.
#pragma once

#include <string>

#include "cli/admin_port.h"

namespace sluice::cli {

// Sends the file's lines, up to 1,000 at a time; each such part is taken whole or not at all. Tells
// how far it is on a terminal, and in the end how many there are; the first part that is refused
// ends it, with the lines that are not in told. Returns the exit status.
int load_overrides(AdminPort& port, const std::string& path, bool json, config::CommandIo& io);

}  // namespace sluice::cli
