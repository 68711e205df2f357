// The variables of the original's environment, as `sluice envoy` takes them; durations and booleans
// are Go's (words.h). Main thread.
#pragma once

#include <memory>
#include <string>

#include "base/diagnostic.h"
#include "config/command_io.h"
#include "config/config.h"
#include "protocol/envoy/policy_files.h"
#include "protocol/envoy/settings.h"

namespace sluice::envoy {

// The folder of limits that RUNTIME_ROOT, RUNTIME_SUBDIRECTORY and RUNTIME_APPDIRECTORY name.
base::Setting<std::string> limits_folder(const config::CommandIo& io,
                                         base::Diagnostics& diagnostics);

// The policy that CONFIG_TYPE and the others of xDS ask for; null: limits come from files.
std::unique_ptr<protocol::PolicyFiles> xds_of_environment(const config::CommandIo& io,
                                                          base::Diagnostics& diagnostics);

// Apply the variables about the limits, and all others. A variable that cannot be read, or that
// asks for something that sluice cannot do and must not ignore, is an error; one without effect is
// reported.
void apply_limits_environment(const config::CommandIo& io, LimitsFiles& files,
                              base::Diagnostics& diagnostics);
void apply_service_environment(const config::CommandIo& io, config::Config& config,
                               base::Diagnostics& diagnostics);

}  // namespace sluice::envoy
