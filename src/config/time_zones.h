// The data of time zones in this program: the copy that is built into it, and the setting that says
// where others are. Used by main's thread and that of reloads.
#pragma once

#include <string>

#include "base/diagnostic.h"
#include "config/config.h"

namespace sluice::config {

// Lets the copy in the program serve where no folder has data. Called once, before any other.
void use_built_in_time_zones();

// "time zones: 2025b, system".
std::string time_zones_text();

// Reads the data of all zones, from where the configuration says, so that no zone that a request
// names is read from a disk. False: the folder has none, which is reported, and those read before
// stay.
bool read_time_zones(const Config& config, base::Diagnostics& diagnostics);

}  // namespace sluice::config
