// `sluice explain` for a running server: with its rules, overrides and counters, instead of a
// file's rules.
#pragma once

#include <optional>

#include "cli/admin_port.h"
#include "protocol/protocol.h"

namespace sluice::cli {

// The words key=value of the arguments are the request; `protocol` is its protocol, if one is
// named. Returns the exit status.
int explain_live(const AdminFlags& flags, std::optional<protocol::Protocol> protocol,
                 const Arguments& arguments, config::CommandIo& io);

}  // namespace sluice::cli
