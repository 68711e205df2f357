// `sluice explain` of a running server: its rules, overrides and counters in place of a file's.
#pragma once

#include <optional>
#include <string>

#include "cli/admin_port.h"

namespace sluice::cli {

// The request is the arguments' words key=value; `protocol` whose it is, where it is said. Returns
// the exit status.
int explain_live(const AdminFlags& flags, const std::optional<std::string>& protocol,
                 const Arguments& arguments, config::CommandIo& io);

}  // namespace sluice::cli
