// The variables of Divvy's environment, as `sluice divvy` takes them: each means what it means to
// Divvy, where it is empty, `0` or not a number too. Main thread.
#pragma once

#include "base/diagnostic.h"
#include "config/command_io.h"
#include "config/config.h"

namespace sluice::divvy {

// The first listener of `config` must be Divvy's. A variable with which Divvy would not start is an
// error.
void apply_divvy_environment(const config::CommandIo& io, config::Config& config,
                             base::Diagnostics& diagnostics);

}  // namespace sluice::divvy
