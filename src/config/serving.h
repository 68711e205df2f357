// From a configuration to a running server: what `serve` and `divvy` have in common. Main thread;
// returns when the server has been told to stop.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/command_io.h"
#include "config/config.h"
#include "config/policy_source.h"
#include "server/server.h"

namespace sluice::config {

// What is printed on standard output around the lines of the listeners, once all of them are bound.
struct Announcement {
  std::function<std::string(const std::vector<server::Bound>&)> before, after;
};

// Loads the policy, binds, announces, serves. `read` gives the configuration again when the policy
// is reloaded; it is called on another thread, until this returns. Returns the exit status; what is
// wrong is on standard error, and then nothing was bound.
int run_server(const Config& config, ReadConfig read, const Announcement& announcement,
               CommandIo& io);

}  // namespace sluice::config
