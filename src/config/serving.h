// Starts and runs a server from a configuration; the part that `serve` and the drop-ins have in
// common. Main thread; returns when the server has stopped.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/command_io.h"
#include "config/config.h"
#include "config/policy_source.h"
#include "config/variables.h"
#include "server/server.h"

namespace sluice::config {

// The texts on standard output around the lines of the listeners, printed when all are bound.
struct Announcement {
  std::function<std::string(const std::vector<server::Bound>&, const Config&)> before, after;
};

// What a reload reads again: the files of the rules, or the configuration as well.
enum class Reloads : uint8_t { rules, all };

// Reads the configuration and reports its problems; prints it if --print-config says so, else
// serves it (run_server). `others`: further variables that `read` reads, which are no slips of
// those of the table. Returns the exit status.
int serve_config(const ReadConfig& read, Reloads reloads, const Flags& flags,
                 const Announcement& announcement, CommandIo& io,
                 const OtherVariables& others = {});

// Loads the policy, binds the listeners, announces them and serves. `read` reads the configuration
// again for a reload; it is called on another thread until this function returns. Returns the exit
// status. After a problem of the start, which is on standard error, no listener is bound.
int run_server(const Config& config, ReadConfig read, const Announcement& announcement,
               CommandIo& io);

}  // namespace sluice::config
